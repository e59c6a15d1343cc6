//! `bookahead wait`: blocks until a reservation or a job has started or ended, for scripts. `bookahead submit --wait` uses the
//! same.

use super::looking::{Thing, show_job};
use super::place::Place;
use super::refusal::{Refused, text};
use super::reserve::show as show_reservation;
use super::session::{Session, spinner};
use super::view::{job_word, state_word};
use anyhow::Result;
use bookahead_api::{Code, Job, JobState, Problem, Reservation, State};
use bookahead_client::ClientError;
use bookahead_protocol::{JobId, ReservationId};
use clap::{Args, ValueEnum};
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often to ask. Starts and ends are known to the second at best; a batch system is polled every ten.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long a server may be unreachable: long enough to restart one.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Reservation (rsv_…) or job (job_…)
    #[arg(value_name = "ID")]
    id: Thing,

    /// What to wait for
    #[arg(long, value_enum, default_value_t = Until::Ended)]
    until: Until,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// The reservation has begun or the job runs; refused if it ends without that
    Started,
    /// The reservation or job is over
    Ended,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    match &arguments.id {
        Thing::Reservation(id) => {
            let id = session.reservation_id(id)?;
            let reservation = wait_for_reservation(&session, id, arguments.until)?;
            show_reservation(&session, &reservation)?;
            // A short reservation may begin and end between two questions.
            let started = matches!(reservation.state, State::Active | State::Completed);
            not_refused(&session, started || arguments.until == Until::Ended, state_word(reservation.state))
        }
        Thing::Job(id) => {
            let id = session.job_id(id)?;
            wait_for_job(&session, id, arguments.until)
        }
    }
}

fn wait_for_reservation(session: &Session, id: ReservationId, until: Until) -> Result<Reservation> {
    let over = |state| {
        matches!(
            state,
            State::Rejected | State::Expired | State::Completed | State::Cancelled | State::Terminated
        )
    };
    let done = |reservation: &Reservation| {
        over(reservation.state) || until == Until::Started && reservation.state == State::Active
    };
    waiting(session, || session.client.show(id), done, |reservation| state_word(reservation.state).to_owned())
}

/// Waits for a job, and shows it. A job that failed makes the command fail too.
pub(crate) fn wait_for_job(session: &Session, id: JobId, until: Until) -> Result<()> {
    let over = |state| {
        !matches!(state, JobState::Placing | JobState::Waiting | JobState::Claiming | JobState::Running)
    };
    // The end ends the wait for a start, too: what is over never starts.
    let done = |job: &Job| over(job.state) || until == Until::Started && job.state == JobState::Running;
    let job = waiting(session, || session.client.job(id), done, job_word)?;
    show_job(session, &job)?;
    let well = match until {
        Until::Started => job.started.is_some(),
        Until::Ended => job.state == JobState::Done && job.exit.unwrap_or(0) == 0,
    };
    not_refused(session, well, &job_word(&job))
}

fn not_refused(session: &Session, well: bool, word: &str) -> Result<()> {
    if well {
        return Ok(());
    }
    let problem = Box::new(Problem::new(Code::Illegal, format!("it is {word}")));
    let text = text(&problem, Some(&session.dates()));
    Err(Refused { problem, text }.into())
}

/// Asks again and again; `word` is shown to a person who waits.
fn waiting<T, F: Future<Output = Result<T, ClientError>>>(
    session: &Session,
    ask: impl Fn() -> F,
    done: impl Fn(&T) -> bool,
    word: impl Fn(&T) -> String,
) -> Result<T> {
    let bar = stderr().is_terminal().then(|| spinner("{msg}, {elapsed}"));
    let outcome = session.run(async {
        // Patience counts from the last answer: the wait itself may take days.
        let mut heard = Instant::now();
        loop {
            match ask().await {
                Ok(now) if done(&now) => return Ok(now),
                Ok(now) => {
                    heard = Instant::now();
                    if let Some(bar) = &bar {
                        bar.set_message(word(&now));
                    }
                }
                Err(error) if error.may_pass() && heard.elapsed() < PATIENCE => {}
                Err(error) => return Err(error),
            }
            sleep(ASK_EVERY).await;
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    outcome
}
