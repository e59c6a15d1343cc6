//! What is run on a grid resource: a job occupies one CPU at a time, and a parallel application is a list of jobs.
//! Its size is declared with it and exact, as GridSim's is; only the durations of reservations are guesses.
//! Records here say what happened; they decide nothing.

use super::cpus::{CpuId, Work};
use super::reservation::ReservationId;
use bookahead_plan::{Interval, Time};

/// A job, by a number that whoever submits it chooses and keeps unique on the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u32);

/// Something to compute on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Its size; of a job that was paused, what is left.
    pub work: Work,
    /// What becomes of it where its slot is too short.
    pub stopped: Stopped,
}

/// What becomes of a reserved job that is not done at the end of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stopped {
    /// It is restartable: it joins the end of the queue and goes on from where it was. With nobody waiting and a CPU
    /// free it goes on at once.
    Queue,
    /// It is not: it is pre-empted and goes back to its user unfinished.
    Return,
}

/// A stretch of time for which a job had a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The job.
    pub job: JobId,
    /// The CPU.
    pub cpu: CpuId,
    /// When.
    pub interval: Interval,
    /// The reservation in which it ran; none for a job from the queue.
    pub reservation: Option<ReservationId>,
}

/// A job that went back to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// The job.
    pub job: JobId,
    /// When.
    pub at: Time,
    /// What was not done: nothing where it was finished.
    pub left: Work,
}
