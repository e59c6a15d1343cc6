//! Grid Engine, driven as by a site, against private daemons, and against scripted commands.

mod claims;
mod fake;
mod granting;
mod jobs;
mod life_cycle;
mod machines;
mod many_jobs;
mod own_cell;
mod trouble;
mod two_hosts;

use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{
    BatchSystem, FactState, Handle, JobFact, JobSystem, Picture, ReservationSystem, Submission, Wanted,
};
use bookahead_lrms::grid_engine::GridEngine;
use bookahead_party::Work;
use bookahead_plan::{Interval, Seconds, Time};
use own_cell::{OwnCell, place};

/// A reservation from `ahead` seconds after `now`, for `length` seconds.
fn wanted(now: Time, ahead: i64, length: i64, amount: u32) -> Wanted {
    Wanted {
        name: "ba.site.0123456789abcdef0123456789abcdef.0.ann".into(),
        place: place("all.q"),
        interval: Interval::starting(now + Seconds(ahead), Seconds(length)),
        amount,
        account: "root".into(),
        others: Vec::new(),
        terms: Default::default(),
        project: None,
        nodes: Vec::new(),
        tres: Default::default(),
    }
}

/// Looks, and reserves from `ahead` seconds on.
fn reserve(engine: &mut GridEngine, ahead: i64, length: i64, amount: u32) -> Result<Handle, LrmsError> {
    let picture = engine.look().unwrap();
    let wanted = wanted(picture.clock.unwrap(), ahead, length, amount);
    engine.create(&wanted, &picture).map(|made| made.handle)
}

fn job(amount: u32, limit: i64, reservation: Option<&Handle>, work: Work) -> Submission {
    Submission {
        restartable: false,
        name: "job_0123456789abcdef0123456789abcdef".into(),
        place: place("all.q"),
        amount,
        limit: Seconds(limit),
        reservations: reservation.cloned().into_iter().collect(),
        within: None,
        account: None,
        project: None,
        qos: None,
        work,
        go_within: None,
        held: false,
    }
}

fn sleeping(seconds: i64) -> Work {
    Work::Pretended { run: Seconds(seconds) }
}

fn script(text: &str) -> Work {
    Work::Script { text: text.into(), arguments: Vec::new() }
}

fn find<'a>(picture: &'a Picture, native: &str) -> Option<&'a JobFact> {
    picture.jobs.iter().find(|job| job.native == native)
}

/// The state of a job: from a look, or else from its outcome, as a site follows it.
fn stands(engine: &mut GridEngine, native: &str) -> Option<JobFact> {
    let picture = engine.look().unwrap();
    find(&picture, native).cloned().or_else(|| engine.outcome(native).unwrap())
}

/// Waits until a job has the expected state.
fn until_state(
    cell: &OwnCell,
    engine: &mut GridEngine,
    native: &str,
    come: fn(&FactState) -> bool,
) -> JobFact {
    let mut last = None;
    cell.until(&format!("job {native} is as it should be"), || {
        last = stands(engine, native);
        last.as_ref().is_some_and(|fact| come(&fact.state))
    });
    last.unwrap()
}
