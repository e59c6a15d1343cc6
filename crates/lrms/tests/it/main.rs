//! Integration tests of the built-in scheduler, of running commands, and of batch systems, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backings;
mod batch;
mod bounds;
#[cfg(target_os = "linux")]
mod command_local;
#[cfg(target_os = "linux")]
mod command_outage;
#[cfg(target_os = "linux")]
mod command_ssh;
#[cfg(target_os = "linux")]
mod command_sshd;
mod commands;
mod equals_reference;
#[cfg(target_os = "linux")]
mod grid_engine;
mod guests;
mod head_of_queue;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(unix)]
mod lsf;
#[cfg(unix)]
mod maui;
#[cfg(target_os = "linux")]
mod pbs;
#[cfg(target_os = "linux")]
mod processes;
mod reference;
#[cfg(target_os = "linux")]
mod restart;
#[cfg(unix)]
mod scripted;
#[cfg(target_os = "linux")]
mod slurm;
mod sources;

use bookahead_lrms::builtin::sources::Nothing;
use bookahead_lrms::{Backing, Builtin, Hosted, Job, JobState, JobStatus, Lrms, Work};
use bookahead_plan::{Capacity, Interval, Policy, Seconds, Span, Time};
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The same cases on every run, `./test --quick` a quarter of them; a failure prints its case.
fn cases(cases: u32) -> ProptestConfig {
    let quick = std::env::var_os("BOOKAHEAD_TEST_QUICK").is_some();
    ProptestConfig {
        cases: if quick { cases / 4 } else { cases },
        rng_seed: RngSeed::Fixed(2000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn policies() -> [Policy; 3] {
    [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE]
}

fn cpu() -> Name {
    Name::from("cpu")
}

fn at(second: i64) -> Moment {
    Moment::of(Time(second))
}

fn span(begin: i64, end: i64, capacity: u32) -> Span {
    Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
}

fn hosted(capacity: u32, policy: Policy) -> Hosted {
    Hosted { name: cpu(), capacity: Capacity(capacity), policy, source: Box::new(Nothing) }
}

/// One resource without local jobs, awake.
fn builtin(capacity: u32, policy: Policy) -> Builtin {
    let mut builtin = Builtin::new(vec![hosted(capacity, policy)], at(0), None).unwrap();
    wake(&mut builtin, 0);
    builtin
}

/// Nothing starts in the first advance; in the second it does.
fn wake(builtin: &mut Builtin, second: i64) {
    builtin.advance(at(second)).unwrap();
    builtin.advance(at(second)).unwrap();
}

fn job(id: u128, capacity: u32, limit: i64, run: i64) -> Job {
    Job {
        id: JobId(id),
        user: Name::from("ann"),
        resource: cpu(),
        capacity: Capacity(capacity),
        limit: Seconds(limit),
        reservation: None,
        work: Work::Pretended { run: Seconds(run) },
    }
}

fn inside(job: Job, reservation: u128) -> Job {
    Job { reservation: Some(ReservationId(reservation)), ..job }
}

fn backing(id: u128, spans: &[Span]) -> Backing {
    let (id, owner, spans) = (ReservationId(id), Name::from("ann"), spans.to_vec());
    Backing { resource: cpu(), id, owner, spans, spares_jobs: false }
}

fn status(builtin: &Builtin, id: u128) -> JobStatus {
    builtin.jobs().into_iter().find(|status| status.id == JobId(id)).unwrap()
}

fn state(builtin: &Builtin, id: u128) -> JobState {
    status(builtin, id).state
}
