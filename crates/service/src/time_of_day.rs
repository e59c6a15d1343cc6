//! The clock of this machine, shared by all parties of the process: reads the system clock and the time since boot,
//! and writes to the log what happens to the clock. [`bookahead_party::time_of_day`] decides whether it is followed.

use bookahead_party::{ClockNews, ClockState, JournalTime, Reading, TimeOfDay};
use bookahead_protocol::{Millis, Moment};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

static MACHINE: LazyLock<Mutex<TimeOfDay>> = LazyLock::new(|| Mutex::new(TimeOfDay::new(reading())));

/// What an operator can do about a clock that is not followed.
const REMEDY: &str =
    "synchronise it with NTP; if it is right and nothing can confirm it, start with --trust-clock";

/// The validated time of day.
pub(crate) fn now() -> Moment {
    with(|time| time.read(reading()))
}

/// The state of the clock.
pub(crate) fn state() -> ClockState {
    with(|time| {
        let reading = reading();
        time.read(reading);
        time.state(reading)
    })
}

/// Compares with another machine. If the system clock agrees with it, it is followed again.
pub(crate) fn confirm(elsewhere: Moment, by: &str) {
    with(|time| time.confirm(reading().wall, elsewhere, by));
}

/// An operator knows that the clock is right: no journal makes it doubtful.
pub(crate) fn trust() {
    with(TimeOfDay::trust);
}

/// Compares with a journal before its party starts.
pub(crate) fn start(journal: JournalTime) {
    with(|time| time.start(reading(), journal));
}

/// Compares with the database that keeps the journal, which showed `database` at `boot`. Returns whether they agree.
pub(crate) fn decide_by_database(database: Moment, boot: Millis) -> bool {
    with(|time| {
        let reading = reading();
        time.decide_by_database(reading, database + Millis(reading.boot.0 - boot.0))
    })
}

/// What is wrong with the clock in this state, if anything is.
pub(crate) fn problem(state: ClockState) -> Option<String> {
    Some(match state {
        ClockState::Followed => return None,
        ClockState::Unconfirmed => format!(
            "the system clock was far ahead of the journal at the start, and nothing confirmed it: if it is wrong, promises end too early; {REMEDY}"
        ),
        ClockState::Jumped(by) => {
            format!("the system clock was set by {} and is not followed; {REMEDY}", length(by))
        }
        ClockState::Ahead(by) => format!(
            "the system clock is {} ahead of the newest entry of the journal, and promises begin or end in between: either the \
             service was down for that time, or the clock is wrong. Until another machine confirms the clock, at most ten \
             minutes from the start, nothing ends and nothing new is promised; {REMEDY}",
            length(by)
        ),
        ClockState::Behind(by) => format!(
            "the system clock is {} behind the journal; time continues from its newest entry for ten minutes and then stands \
             still, and nothing new is promised, until the clock has passed that time or another machine confirms it; {REMEDY}",
            length(by)
        ),
    })
}

fn length(by: Millis) -> String {
    bookahead_plan::Seconds((by.0 + 500).div_euclid(1_000)).in_words()
}

fn with<T>(work: impl FnOnce(&mut TimeOfDay) -> T) -> T {
    let mut time = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let done = work(&mut time);
    let news = time.take_news();
    drop(time);
    news.into_iter().for_each(log);
    done
}

fn log(news: ClockNews) {
    let event = match &news {
        ClockNews::Jumped(_) => "clock_jumped",
        ClockNews::Back => "clock_is_back",
        ClockNews::Ahead(_) => "clock_ahead_of_journal",
        ClockNews::Behind(_) => "clock_behind_journal",
        ClockNews::Passed => "clock_passed_journal",
        ClockNews::Unconfirmed => "clock_unconfirmed",
        ClockNews::Confirmed(_) => "clock_confirmed",
        ClockNews::DatabaseDecides(_) => "clock_of_database",
    };
    let wrong = |state| problem(state).unwrap_or_default();
    match news {
        ClockNews::Jumped(by) => {
            tracing::error!(event, seconds = by.0 / 1_000, "{}", wrong(ClockState::Jumped(by)));
        }
        ClockNews::Back => tracing::info!(event, "the system clock is back and is followed again"),
        ClockNews::Ahead(by) => {
            tracing::error!(event, seconds = by.0 / 1_000, "{}", wrong(ClockState::Ahead(by)));
        }
        ClockNews::Behind(by) => {
            tracing::error!(event, seconds = by.0 / 1_000, "{}", wrong(ClockState::Behind(by)));
        }
        ClockNews::Passed => {
            tracing::info!(event, "the system clock agrees with the journal and is followed");
        }
        ClockNews::Unconfirmed => tracing::error!(event, "{}", wrong(ClockState::Unconfirmed)),
        ClockNews::Confirmed(by) => {
            tracing::warn!(event, by, "{by} shows the same time as the system clock, which is followed");
        }
        ClockNews::DatabaseDecides(by) => tracing::error!(
            event,
            seconds = by.0 / 1_000,
            "the system clock is {} ahead of the clock of the database, which decides; {REMEDY}",
            length(by)
        ),
    }
}

fn reading() -> Reading {
    Reading { wall: system(), boot: since_boot() }
}

fn system() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

/// Time since the machine was started, including the time that it slept.
#[cfg(target_os = "linux")]
pub(crate) fn since_boot() -> Millis {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Millis(time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_nsec / 1_000_000))
}

/// Other systems do not count suspended time: waking up is a jump.
#[cfg(not(target_os = "linux"))]
pub(crate) fn since_boot() -> Millis {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    Millis(i64::try_from(START.elapsed().as_millis()).unwrap_or(i64::MAX))
}
