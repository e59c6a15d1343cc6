//! What became of a job, from what a batch system says of it. It says that a job ran out of time, and not whose time;
//! that it was cancelled, and not that its reservation went with all its jobs; and that it runs while it waits for its go.

use super::register::Entry;
use super::system::{FactState, JobFact, NO_GO};
use bookahead_party::{Ended, JobChange, JobState};
use bookahead_plan::Time;

/// How it stands with a job now, and since when. `backed` says whether its reservation is still there.
pub(super) fn now(entry: &Entry, fact: &JobFact, backed: bool, now: Time) -> (JobState, Time) {
    let ended = fact.ended.unwrap_or(now);
    let inside = entry.reservation.is_some();
    match &fact.state {
        FactState::Held { orphaned: true, .. } => (JobState::Killed(Ended::ReservationOver), now),
        FactState::Waiting | FactState::Held { .. } => (JobState::Waiting, now),
        FactState::Running if fact.awaits_go => (JobState::Claiming, fact.started.unwrap_or(now)),
        FactState::Running if entry.state == JobState::Claiming => (JobState::Running, now),
        FactState::Running => (JobState::Running, fact.started.unwrap_or(now)),
        FactState::Done { exit: NO_GO } if got_no_go(entry, fact) => (JobState::Killed(Ended::NoGo), ended),
        FactState::Done { exit } => (JobState::Done { exit: *exit }, ended),
        FactState::Cancelled if inside && !backed => (JobState::Killed(Ended::ReservationOver), ended),
        FactState::Cancelled => (JobState::Killed(Ended::Cancelled), ended),
        FactState::OutOfTime => (JobState::Killed(out_of_time(entry, fact)), ended),
        FactState::Failed { why } if fact.started.is_none() => {
            (JobState::Killed(Ended::CouldNotStart(why.clone())), ended)
        }
        FactState::Failed { .. } => (JobState::Killed(Ended::Displaced), ended),
    }
}

/// Whether nothing says that it has ever run.
fn got_no_go(entry: &Entry, fact: &JobFact) -> bool {
    entry.awaits_go || fact.awaits_go
}

/// Whether its own time was up or that of its reservation: what came first.
fn out_of_time(entry: &Entry, fact: &JobFact) -> Ended {
    let started = fact.started.or(entry.started);
    let own = started.zip(entry.limit.or(fact.limit)).map(|(started, limit)| started + limit);
    let over = match (own, entry.until) {
        (Some(own), Some(until)) => until < own,
        (None, Some(_)) => true,
        // Of one that was found it may not be known that it was inside a reservation; it did not have its time.
        (Some(own), None) => entry.job.is_none() && fact.ended.is_some_and(|ended| ended < own),
        (None, None) => false,
    };
    if over { Ended::ReservationOver } else { Ended::Limit }
}

/// What is to be told where a job stands so: that it started is told before that it is over.
pub(super) fn changes(entry: &Entry, fact: &JobFact, (state, at): (JobState, Time)) -> Vec<JobChange> {
    let id = entry.id;
    let since = match entry.state {
        JobState::Waiting => fact.started,
        JobState::Claiming => Some(at),
        _ => None,
    };
    let began =
        since.filter(|_| state.is_over() && !fact.awaits_go && state != JobState::Killed(Ended::NoGo));
    let began = began.map(|started| JobChange { id, state: JobState::Running, at: started.min(at) });
    began.into_iter().chain([JobChange { id, state, at }]).collect()
}
