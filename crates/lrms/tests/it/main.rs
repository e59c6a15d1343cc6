//! Integration tests of the built-in scheduler, of running commands, and of batch systems, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backings;
mod batch;
mod bounds;
#[cfg(target_os = "linux")]
mod claiming;
#[cfg(target_os = "linux")]
mod claims;
#[cfg(target_os = "linux")]
mod command_local;
#[cfg(target_os = "linux")]
mod command_outage;
#[cfg(target_os = "linux")]
mod command_ssh;
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
mod maintenance;
#[cfg(unix)]
mod maui;
mod orders;
#[cfg(target_os = "linux")]
mod pbs;
#[cfg(target_os = "linux")]
mod processes;
mod reference;
mod reports;
#[cfg(target_os = "linux")]
mod restart;
#[cfg(unix)]
mod scripted;
#[cfg(target_os = "linux")]
mod slurm;
mod sources;

use bookahead_lrms::{Builtin, Hosted};
use bookahead_party::{
    Backing, BatchError, BatchOrder, BatchReport, Job, JobChange, JobState, JobStatus, Look, OrderId, Seen,
    Work,
};
use bookahead_plan::{Capacity, Interval, Policy, Seconds, Span, Time};
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use std::sync::Arc;

fn policies() -> [Policy; 3] {
    [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE]
}

fn cpu() -> Name {
    Name::from("cpu")
}

fn at(second: i64) -> Moment {
    Moment::of(Time(second))
}

const fn span(begin: i64, end: i64, capacity: u32) -> Span {
    Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
}

fn hosted(capacity: u32, policy: Policy) -> Hosted {
    Hosted { policy, ..Hosted::new(cpu(), Capacity(capacity)) }
}

/// One resource without local jobs, awake.
fn builtin(capacity: u32, policy: Policy) -> Builtin {
    let mut builtin = Builtin::new(vec![hosted(capacity, policy)], at(0), None).unwrap();
    wake(&mut builtin, 0);
    builtin
}

const ORDER: OrderId = OrderId(0);

/// Drives a scheduler by single orders.
trait Drive {
    fn order(&mut self, now: Moment, order: BatchOrder) -> BatchReport;
    /// Changes of jobs.
    fn pass(&mut self, now: Moment) -> Vec<JobChange>;

    fn back(&mut self, now: Moment, backing: &Backing) -> Result<(), BatchError> {
        let backing = backing.clone();
        done(self.order(now, BatchOrder::Keep { order: ORDER, backing }))
    }

    fn submit(&mut self, now: Moment, job: &Job) -> Result<(), BatchError> {
        let job = Box::new(job.clone());
        done(self.order(now, BatchOrder::Submit { order: ORDER, job }))
    }

    fn go(&mut self, now: Moment, job: JobId) -> Result<(), BatchError> {
        done(self.order(now, BatchOrder::Go { order: ORDER, job }))
    }

    fn cancel(&mut self, now: Moment, job: JobId) -> Result<(), BatchError> {
        done(self.order(now, BatchOrder::Cancel { order: ORDER, job }))
    }

    fn look(&mut self, now: Moment) -> Look {
        match self.order(now, BatchOrder::Look { order: ORDER }) {
            BatchReport::Looked { order: Some(ORDER), outcome, .. } => outcome.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn seen(&mut self, now: Moment) -> Arc<Seen> {
        self.look(now).resources.remove(&cpu()).unwrap()
    }

    fn jobs(&mut self) -> Vec<JobStatus> {
        self.look(Moment(i64::MIN)).jobs
    }
}

impl Drive for Builtin {
    fn order(&mut self, now: Moment, order: BatchOrder) -> BatchReport {
        let mut reports = self.carry_out(now, order);
        assert_eq!(reports.len(), 1, "{reports:?}");
        reports.remove(0)
    }

    fn pass(&mut self, now: Moment) -> Vec<JobChange> {
        let change = |report| match report {
            BatchReport::JobChanged(change) => Some(change),
            BatchReport::Looked { order: None, outcome: Ok(_), .. } => None,
            other => panic!("{other:?}"),
        };
        self.advance(now).into_iter().filter_map(change).collect()
    }
}

fn done(report: BatchReport) -> Result<(), BatchError> {
    match report {
        BatchReport::Kept { order: ORDER, outcome, .. } | BatchReport::Job { order: ORDER, outcome, .. } => {
            outcome
        }
        other => panic!("{other:?}"),
    }
}

/// Nothing starts in the first advance, only in the second.
fn wake(builtin: &mut Builtin, second: i64) {
    builtin.pass(at(second));
    builtin.pass(at(second));
}

fn job(id: u128, capacity: u32, limit: i64, run: i64) -> Job {
    Job {
        rerun: Default::default(),
        id: JobId(id),
        user: Name::from("ann"),
        resource: cpu(),
        capacity: Capacity(capacity),
        limit: Seconds(limit),
        reservation: None,
        work: Work::Pretended { run: Seconds(run) },
        claims: false,
        held: false,
        description: Default::default(),
    }
}

fn inside(job: Job, reservation: u128) -> Job {
    Job { reservation: Some(ReservationId(reservation)), ..job }
}

fn backing(id: u128, spans: &[Span]) -> Backing {
    let (id, owner, spans) = (ReservationId(id), Name::from("ann"), spans.to_vec());
    Backing {
        resource: cpu(),
        id,
        owner,
        terms: Default::default(),
        tres: Default::default(),
        spans,
        replaces: false,
    }
}

fn status(builtin: &mut Builtin, id: u128) -> JobStatus {
    builtin.jobs().into_iter().find(|status| status.id == JobId(id)).unwrap()
}

fn state(builtin: &mut Builtin, id: u128) -> JobState {
    status(builtin, id).state
}
