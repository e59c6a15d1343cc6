//! The rule of information: whoever was asked at one level (probe, reserve, commit) may itself ask at that level or
//! below, never above; only the one who asked may go up. A permission is a value that exists only where a call of its
//! level was received, and a call of a level is made only with a permission of that level or above: breaking the rule
//! does not compile.

use crate::clock::Millis;
use crate::ids::{ChangeId, JobId, ReservationId};
use crate::jobs::JobRequest;
use crate::message::{Call, NewTerms};
use crate::request::Request;
use bookahead_plan::{Capacity, Time};
use std::fmt;
use std::marker::PhantomData;

/// How much a call commits to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Ask only.
    Probe,
    /// Hold for a while.
    Reserve,
    /// For good.
    Commit,
}

/// The level of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probing {}
/// The level of holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserving {}
/// The level of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Committing {}

/// Includes the level `L`.
pub trait Includes<L> {}
impl Includes<Probing> for Probing {}
impl Includes<Probing> for Reserving {}
impl Includes<Probing> for Committing {}
impl Includes<Reserving> for Reserving {}
impl Includes<Reserving> for Committing {}
impl Includes<Committing> for Committing {}

/// Permission to send calls up to a level. It is not made, but received: see [`Received::of`] and
/// [`Received::of_job`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permission<L>(PhantomData<L>);

impl<L> fmt::Debug for Permission<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permission")
    }
}

/// The permission that a received call gives.
#[derive(Debug, Clone, Copy)]
pub struct Received(Level);

impl Received {
    /// What may be sent on because of this call. Giving something up, or asking how it is, permits no more than probes.
    pub fn of(call: &Call) -> Received {
        Received(call.level())
    }

    /// What may be sent on because of a job that was submitted: its owner wants it run, which is a call of the highest level.
    pub fn of_job(_: &JobRequest) -> Permission<Committing> {
        Permission(PhantomData)
    }

    /// To probe: any call permits that.
    pub fn probing(self) -> Permission<Probing> {
        Permission(PhantomData)
    }

    /// To hold, if the call was of that level at least.
    pub fn reserving(self) -> Option<Permission<Reserving>> {
        (self.0 >= Level::Reserve).then_some(Permission(PhantomData))
    }

    /// To commit, if the call was of that level.
    pub fn committing(self) -> Option<Permission<Committing>> {
        (self.0 == Level::Commit).then_some(Permission(PhantomData))
    }
}

impl<L> Permission<L> {
    /// Asks what could be had.
    pub fn probe(&self, request: Request, most: u32, starts: Vec<Time>) -> Call
    where
        L: Includes<Probing>,
    {
        Call::Probe { request, most, starts }
    }

    /// Holds.
    pub fn reserve(&self, id: ReservationId, request: Request, hold_for: Millis) -> Call
    where
        L: Includes<Reserving>,
    {
        Call::Reserve { id, request, hold_for, book: false }
    }

    /// Holds longer.
    pub fn hold(&self, id: ReservationId, hold_for: Millis) -> Call
    where
        L: Includes<Reserving>,
    {
        Call::Hold { id, hold_for }
    }

    /// Commits.
    pub fn commit(&self, id: ReservationId, jobs: Vec<JobId>) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Commit { id, jobs }
    }

    /// Attaches a job.
    pub fn attach(&self, id: ReservationId, part: usize, job: JobId) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Attach { id, part, job }
    }

    /// Lets it last longer.
    pub fn extend(&self, id: ReservationId, version: Option<u32>, end: Time) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Extend { id, version, end }
    }

    /// Changes.
    pub fn change(&self, id: ReservationId, version: Option<u32>, request: Request) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Change { id, version, request }
    }

    /// Prepares a change.
    pub fn prepare_change(
        &self,
        id: ReservationId,
        change: ChangeId,
        terms: NewTerms,
        hold_for: Millis,
    ) -> Call
    where
        L: Includes<Committing>,
    {
        Call::PrepareChange { id, change, version: None, terms, hold_for }
    }

    /// Accepts a change that is prepared.
    pub fn accept_change(&self, id: ReservationId, change: ChangeId) -> Call
    where
        L: Includes<Committing>,
    {
        Call::FinishChange { id, change, accept: true }
    }
}

/// Anybody may give up a change that is not accepted.
pub fn give_up_change(id: ReservationId, change: ChangeId) -> Call {
    Call::FinishChange { id, change, accept: false }
}

/// Anybody may give up what is his.
pub fn cancel(id: ReservationId) -> Call {
    Call::Cancel { id }
}

/// Anybody may give back what is his.
pub fn release(id: ReservationId, from: Time, keep: Capacity) -> Call {
    Call::Release { id, part: None, from, keep }
}

impl Call {
    /// How much it commits to.
    pub fn level(&self) -> Level {
        match self {
            Call::Probe { .. }
            | Call::Show { .. }
            | Call::Cancel { .. }
            | Call::Release { .. }
            | Call::FinishChange { accept: false, .. } => Level::Probe,
            Call::Reserve { book: false, .. } | Call::Hold { .. } => Level::Reserve,
            Call::Reserve { book: true, .. }
            | Call::Commit { .. }
            | Call::Attach { .. }
            | Call::Extend { .. }
            | Call::Change { .. }
            | Call::PrepareChange { .. }
            | Call::FinishChange { accept: true, .. } => Level::Commit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_permits_its_own_level_and_no_more() {
        let id = ReservationId(7);
        let held = Received::of(&Call::Hold { id, hold_for: Millis(1) });
        assert!(held.reserving().is_some() && held.committing().is_none());
        let committed = Received::of(&Call::Commit { id, jobs: vec![] });
        assert!(committed.reserving().is_some() && committed.committing().is_some());
        let given_up = Received::of(&Call::Cancel { id });
        assert!(given_up.reserving().is_none() && given_up.committing().is_none());
    }
}
