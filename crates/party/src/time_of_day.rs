//! Validated time of day, as a value: readings of two clocks go in, the time comes out. The system clock may be wrong
//! at the start, and may be changed by hand, by NTP or by a hypervisor. A service that followed a clock three days
//! ahead for two seconds would complete and drop the reservations of three days.
//!
//! - *While it runs*, the clock is compared with the time since boot, which cannot be set and includes suspend. After a
//!   jump of more than [`BOUND`], time continues as before. The clock is followed again when it is back, or when
//!   another machine confirms it.
//! - *At the start*, it is compared with the newest entry of the journal. If it is far ahead, and promises begin, end
//!   or expire in between, it may have been a long downtime or a wrong clock: the clock is in doubt. Time continues
//!   from that entry, because at least that time has been reached. The doubt ends when another machine confirms the
//!   clock, when it is set right, or after [`LONGEST_DOUBT`].
//! - *Behind the journal* the clock is certainly wrong, or was. Time continues from the newest entry, for
//!   [`LONGEST_DOUBT`], and then stands still: with an earlier time, what happens now would count as long over once
//!   the clock is right, and with a later one promises would end early if the journal's time was wrong. The doubt ends
//!   when the clock has passed that time, or when another machine confirms it.
//!
//! While the clock is in doubt, the party promises nothing new ([`crate::Party::doubt_clock`]).

use bookahead_protocol::{Millis, Moment};

/// Largest jump that is followed at once. More than NTP steps on a running machine, less than a hold would miss.
pub const BOUND: Millis = Millis::seconds(5);

/// How far the clock may be ahead of the journal without doubt: longer than the restart of a machine.
const FAR: Millis = Millis::seconds(300);

/// How long a clock ahead of the journal is in doubt: longer than NTP needs after a boot, short enough for a site that
/// has no other machine to compare with.
const LONGEST_DOUBT: Millis = Millis::seconds(600);

/// Both clocks, read together.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The system clock.
    pub wall: Moment,
    /// Time since boot.
    pub boot: Millis,
}

/// What a journal says about the time at a start.
#[derive(Debug, Clone, Copy)]
pub struct JournalTime {
    /// Time of its newest entry.
    pub newest: Moment,
    /// Earliest moment at which a promise begins, ends or expires ([`crate::Party::next_change`]).
    pub due: Option<Moment>,
}

/// The time, and whether the system clock is followed.
#[derive(Debug, Clone)]
pub struct TimeOfDay {
    believed: Moment,
    boot: Millis,
    /// How far the system clock is ahead, while it is not followed.
    jump: Option<Millis>,
    doubt: Option<Doubt>,
    /// Whether a doubt ended only because it had lasted long enough.
    unconfirmed: bool,
    /// Whether an operator knows that the clock is right.
    trusted: bool,
    news: Vec<ClockNews>,
}

/// A clock in doubt since a start.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    journal: JournalTime,
    /// Time since boot at that start.
    since: Millis,
}

/// State of the system clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockState {
    /// It is followed.
    Followed,
    /// It is followed although nothing confirmed it after a start far ahead of the journal.
    Unconfirmed,
    /// It was set by this much while the service ran, and is not followed.
    Jumped(Millis),
    /// It is in doubt: this far ahead of the journal at a start.
    Ahead(Millis),
    /// It is in doubt: this far behind the journal.
    Behind(Millis),
}

/// Something for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockNews {
    /// The system clock was set by this much.
    Jumped(Millis),
    /// The system clock is back.
    Back,
    /// This far ahead of the journal at the start.
    Ahead(Millis),
    /// This far behind the journal.
    Behind(Millis),
    /// The clock agrees with the journal by now.
    Passed,
    /// The doubt has lasted [`LONGEST_DOUBT`].
    Unconfirmed,
    /// This source shows the same time as the clock, which is followed again.
    Confirmed(String),
    /// The clock is this far ahead of the database's, which decides.
    DatabaseDecides(Millis),
}

impl ClockState {
    /// Whether nothing new may be promised.
    pub fn is_in_doubt(self) -> bool {
        matches!(self, ClockState::Ahead(_) | ClockState::Behind(_))
    }
}

impl Doubt {
    /// Least time that it can be: the service has run this long since the newest entry.
    fn least(&self, boot: Millis) -> Moment {
        self.journal.newest + Millis((boot.0 - self.since.0).clamp(0, LONGEST_DOUBT.0))
    }

    /// What is still doubtful about a clock.
    fn of(&self, Reading { wall, boot }: Reading) -> Option<ClockState> {
        let ahead = wall - self.least(boot);
        let behind = Millis(ahead.0.saturating_neg());
        let missed = self.journal.due.is_some_and(|due| due <= wall);
        match () {
            () if behind > BOUND => Some(ClockState::Behind(behind)),
            () if ahead > FAR && missed => Some(ClockState::Ahead(ahead)),
            () => None,
        }
    }
}

impl TimeOfDay {
    /// Trusts the clock until a journal says otherwise.
    pub fn new(Reading { wall, boot }: Reading) -> TimeOfDay {
        TimeOfDay {
            believed: wall,
            boot,
            jump: None,
            doubt: None,
            unconfirmed: false,
            trusted: false,
            news: Vec::new(),
        }
    }

    /// The time.
    pub fn read(&mut self, reading: Reading) -> Moment {
        let Reading { wall, boot } = reading;
        let passed = Millis(boot.0.saturating_sub(self.boot.0).max(0));
        let expected = self.believed + passed;
        // Other threads may have read the clocks in between, so this reading can be older than the last one.
        self.boot = self.boot.max(boot);
        let Some(doubt) = self.doubt else { return self.follow(wall, expected) };
        match doubt.of(reading) {
            None => self.end_doubt(wall, ClockNews::Passed),
            Some(ClockState::Ahead(_)) if boot.0 - doubt.since.0 >= LONGEST_DOUBT.0 => {
                self.unconfirmed = true;
                self.end_doubt(wall, ClockNews::Unconfirmed);
            }
            Some(_) => (self.believed, self.jump) = (doubt.least(boot), None),
        }
        self.believed
    }

    /// Follows the clock, unless it has jumped.
    fn follow(&mut self, wall: Moment, expected: Moment) -> Moment {
        let ahead = wall - expected;
        if ahead.0.saturating_abs() <= BOUND.0 {
            self.believed = wall;
            if self.jump.take().is_some() {
                self.news.push(ClockNews::Back);
            }
        } else {
            self.believed = expected;
            if self.jump.replace(ahead).is_none() {
                self.news.push(ClockNews::Jumped(ahead));
            }
        }
        self.believed
    }

    fn end_doubt(&mut self, wall: Moment, news: ClockNews) {
        (self.doubt, self.jump, self.believed) = (None, None, wall);
        self.news.push(news);
    }

    /// From now on no journal makes the clock doubtful, because an operator knows that it is right.
    pub fn trust(&mut self) {
        self.trusted = true;
    }

    /// Compares the clock with a journal before its party starts.
    pub fn start(&mut self, reading: Reading, journal: JournalTime) {
        // A clock that jumped before is not followed; the time that continued is compared.
        let wall = self.read(reading);
        let doubt = Doubt { journal, since: reading.boot };
        let news = match doubt.of(Reading { wall, ..reading }).filter(|_| !self.trusted) {
            Some(ClockState::Behind(by)) => ClockNews::Behind(by),
            Some(ClockState::Ahead(by)) => ClockNews::Ahead(by),
            _ => return,
        };
        (self.doubt, self.believed, self.jump) = (Some(doubt), journal.newest, None);
        self.news.push(news);
    }

    /// Compares the clock with that of the database that keeps the journal. If they differ, the database decides, so
    /// that all processes of a party agree. Returns whether they agree.
    pub fn decide_by_database(&mut self, reading: Reading, database: Moment) -> bool {
        let now = self.read(reading);
        if (now - database).0.saturating_abs() <= BOUND.0 {
            return true;
        }
        let ahead = reading.wall - database;
        (self.believed, self.doubt) = (database, None);
        self.jump = Some(ahead).filter(|ahead| ahead.0.saturating_abs() > BOUND.0);
        self.news.push(ClockNews::DatabaseDecides(ahead));
        false
    }

    /// Compares with another machine. If the system clock agrees with it, it is followed again.
    pub fn confirm(&mut self, wall: Moment, elsewhere: Moment, by: &str) {
        let questioned = self.jump.is_some() || self.doubt.is_some() || self.unconfirmed;
        if questioned && (wall - elsewhere).0.saturating_abs() <= BOUND.0 {
            self.unconfirmed = false;
            self.end_doubt(wall, ClockNews::Confirmed(by.to_owned()));
        }
    }

    /// The state of the clock as of the last reading of the time.
    pub fn state(&self, reading: Reading) -> ClockState {
        let doubt = self.doubt.and_then(|doubt| doubt.of(reading));
        let jump = self.jump.map(ClockState::Jumped);
        let otherwise = if self.unconfirmed { ClockState::Unconfirmed } else { ClockState::Followed };
        doubt.or(jump).unwrap_or(otherwise)
    }

    /// What happened since the last call.
    pub fn take_news(&mut self) -> Vec<ClockNews> {
        std::mem::take(&mut self.news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn at(wall: i64, boot: i64) -> Reading {
        Reading { wall: Moment(wall), boot: Millis(boot) }
    }

    /// Ten seconds after boot the time is 1,000 s.
    fn ten() -> TimeOfDay {
        TimeOfDay::new(at(1_000_000, 10_000))
    }

    #[test]
    fn a_clock_that_goes_as_time_passes_is_followed_with_its_small_corrections() {
        let mut time = ten();
        for step in 1..=100 {
            // Ten seconds each, with half a second of correction: NTP slews, or steps a little.
            let reading = at(1_000_000 + step * 10_500, 10_000 + step * 10_000);
            assert_eq!(time.read(reading), reading.wall);
            assert_eq!(time.state(reading), ClockState::Followed);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_not_followed_until_it_is_back() {
        for by in [3 * DAY, -3 * DAY, 6_000, -6_000] {
            let mut time = ten();
            for second in 1..=10 {
                let read = time.read(at(1_000_000 + second * 1_000 + by, 10_000 + second * 1_000));
                assert_eq!(read, Moment(1_000_000 + second * 1_000), "time goes on");
            }
            let reading = at(1_011_200, 21_000);
            assert_eq!(time.state(reading), ClockState::Jumped(Millis(by)));
            assert_eq!(time.read(reading), reading.wall);
            assert_eq!(time.take_news(), [ClockNews::Jumped(Millis(by)), ClockNews::Back]);
        }
    }

    #[test]
    fn a_suspended_machine_wakes_up_hours_later() {
        let mut time = ten();
        let woken = at(11_000_000, 10_010_000);
        assert_eq!((time.read(woken), time.state(woken)), (woken.wall, ClockState::Followed));
    }

    #[test]
    fn a_clock_that_was_set_right_is_followed_once_another_machine_shows_the_same() {
        let mut time = ten();
        let right = at(87_400_000, 10_000);
        time.read(right);
        time.confirm(right.wall, Moment(1_000_000), "north");
        assert_eq!(time.state(right), ClockState::Jumped(Millis(DAY)), "that is the old time");
        time.confirm(right.wall, right.wall + Millis(900), "north");
        assert_eq!((time.state(right), time.read(right)), (ClockState::Followed, right.wall));
    }

    /// The journal ends at 1,000 s, and a promise begins an hour later.
    const JOURNAL: JournalTime = JournalTime { newest: Moment(1_000_000), due: Some(Moment(4_600_000)) };

    /// A start with a clock that is this far ahead of the journal, ten seconds after boot.
    fn started(ahead: i64, due: Option<Moment>) -> TimeOfDay {
        let reading = at(1_000_000 + ahead, 10_000);
        let mut time = TimeOfDay::new(reading);
        time.start(reading, JournalTime { due, ..JOURNAL });
        time
    }

    #[test]
    fn a_clock_far_ahead_of_the_journal_is_in_doubt_only_if_promises_are_missed_in_between() {
        for (ahead, due, doubted) in [
            (3 * DAY, JOURNAL.due, true),
            (3_600_000, JOURNAL.due, true),
            (3_599_000, JOURNAL.due, false),
            (3 * DAY, None, false),
            (300_000, Some(Moment(1_000_001)), false),
            (301_000, Some(Moment(1_000_001)), true),
            (0, JOURNAL.due, false),
            (-5_000, JOURNAL.due, false),
        ] {
            let (mut time, reading) = (started(ahead, due), at(1_000_000 + ahead, 10_000));
            assert_eq!(time.state(reading).is_in_doubt(), doubted, "{ahead} {due:?}");
            let read = if doubted { JOURNAL.newest } else { reading.wall };
            assert_eq!(time.read(reading), read, "{ahead} {due:?}");
        }
    }

    #[test]
    fn time_goes_on_from_the_journal_until_the_doubt_has_lasted_ten_minutes() {
        let (mut time, wrong) = (started(3 * DAY, JOURNAL.due), 1_000_000 + 3 * DAY);
        for second in 0..600 {
            let reading = at(wrong + second * 1_000, 10_000 + second * 1_000);
            assert_eq!(time.read(reading), Moment(1_000_000 + second * 1_000));
            assert_eq!(time.state(reading), ClockState::Ahead(Millis(3 * DAY)));
        }
        let reading = at(wrong + 600_000, 610_000);
        assert_eq!((time.read(reading), time.state(reading)), (reading.wall, ClockState::Unconfirmed));
        assert_eq!(time.take_news(), [ClockNews::Ahead(Millis(3 * DAY)), ClockNews::Unconfirmed]);
        time.confirm(reading.wall, reading.wall, "NTP");
        assert_eq!(time.state(reading), ClockState::Followed);
    }

    #[test]
    fn another_machine_ends_the_doubt_and_so_does_a_clock_that_is_set_right() {
        let mut time = started(3 * DAY, JOURNAL.due);
        let reading = at(1_001_000 + 3 * DAY, 11_000);
        time.confirm(reading.wall, Moment(1_001_000), "north");
        assert!(time.state(reading).is_in_doubt(), "it shows another time");
        time.confirm(reading.wall, reading.wall, "north");
        assert_eq!((time.read(reading), time.state(reading)), (reading.wall, ClockState::Followed));

        let mut time = started(3 * DAY, JOURNAL.due);
        let right = at(1_200_000, 20_000);
        assert_eq!((time.read(right), time.state(right)), (right.wall, ClockState::Followed));
        assert_eq!(time.take_news(), [ClockNews::Ahead(Millis(3 * DAY)), ClockNews::Passed]);
    }

    #[test]
    fn a_clock_behind_the_journal_is_in_doubt_until_it_has_passed_it() {
        let mut time = started(-DAY, JOURNAL.due);
        // For as long as it takes: no time makes a wrong clock right.
        for hour in 0..20 {
            let reading = at(1_000_000 - DAY + hour * 3_600_000, 10_000 + hour * 3_600_000);
            // Never before the journal, and at most ten minutes after it.
            let on = if hour == 0 { 0 } else { 600_000 };
            assert_eq!(time.read(reading), Moment(1_000_000 + on));
            assert!(matches!(time.state(reading), ClockState::Behind(_)));
        }
        let there = at(1_000_000, 10_000 + DAY);
        assert_eq!(
            (time.read(there), time.state(there)),
            (Moment(1_600_000), ClockState::Behind(Millis(600_000)))
        );
        let passed = at(1_600_000, 610_000 + DAY);
        assert_eq!((time.read(passed), time.state(passed)), (passed.wall, ClockState::Followed));

        // Set by hand, although it jumps.
        let mut time = started(-DAY, JOURNAL.due);
        assert_eq!(time.read(at(1_500_000 - DAY, 20_000)), Moment(1_010_000), "time goes on");
        let set = at(1_250_000, 30_000);
        assert_eq!((time.read(set), time.state(set)), (set.wall, ClockState::Followed));

        // Set too far: now it is ahead.
        let mut time = started(-DAY, JOURNAL.due);
        let set = at(1_020_000 + 3 * DAY, 30_000);
        assert_eq!(time.read(set), Moment(1_020_000));
        assert_eq!(time.state(set), ClockState::Ahead(Millis(3 * DAY)));
    }

    #[test]
    fn a_clock_that_jumped_while_it_stood_by_is_not_taken_for_a_downtime() {
        let mut time = ten();
        let wrong = at(1_020_000 + 3 * DAY, 30_000);
        time.start(wrong, JOURNAL);
        assert_eq!(
            (time.read(wrong), time.state(wrong)),
            (Moment(1_020_000), ClockState::Jumped(Millis(3 * DAY)))
        );
    }

    #[test]
    fn the_clock_of_the_database_decides() {
        let mut time = TimeOfDay::new(at(1_000_000 + 3 * DAY, 10_000));
        assert!(!time.decide_by_database(at(1_000_000 + 3 * DAY, 10_000), Moment(1_000_200)));
        let later = at(1_005_000 + 3 * DAY, 15_000);
        assert_eq!(
            (time.read(later), time.state(later)),
            (Moment(1_005_200), ClockState::Jumped(Millis(3 * DAY - 200)))
        );
        assert!(ten().decide_by_database(at(1_000_000, 10_000), Moment(1_004_000)));
        // A clock that was wrong at the start and is right now.
        let mut time = TimeOfDay::new(at(1_000_000 + 3 * DAY, 10_000));
        let right = at(1_001_000, 11_000);
        assert!(!time.decide_by_database(right, Moment(1_001_000)));
        assert_eq!((time.read(right), time.state(right)), (right.wall, ClockState::Followed));
    }
}
