//! Access levels. A party that was called at one level (probe, reserve, commit) may itself call at that level
//! or below, never above; only its caller may go up. A permission is a value that can be obtained only from a
//! received call of its level, and a call can be made only with a permission of its level or above. Breaking
//! the rule does not compile.

use crate::clock::Millis;
use crate::ids::{ChangeId, JobId, ReservationId};
use crate::jobs::JobRequest;
use crate::message::{Call, NewTerms};
use crate::request::Request;
use bookahead_plan::{Capacity, Time};
use std::fmt;
use std::marker::PhantomData;

/// How binding a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Not binding.
    Probe,
    /// A hold with a deadline.
    Reserve,
    /// Final.
    Commit,
}

/// Marker type of [`Level::Probe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probing {}
/// Marker type of [`Level::Reserve`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserving {}
/// Marker type of [`Level::Commit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Committing {}

/// Implemented by levels that include the level `L`.
pub trait Includes<L> {}
impl Includes<Probing> for Probing {}
impl Includes<Probing> for Reserving {}
impl Includes<Probing> for Committing {}
impl Includes<Reserving> for Reserving {}
impl Includes<Reserving> for Committing {}
impl Includes<Committing> for Committing {}

/// Permission to send calls up to a level. It has no constructor; it comes from [`Received::of`] or
/// [`Received::of_job`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permission<L>(PhantomData<L>);

impl<L> fmt::Debug for Permission<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permission")
    }
}

/// The permission that follows from a received call.
#[derive(Debug, Clone, Copy)]
pub struct Received(Level);

impl Received {
    /// From a received call. A cancel, a release or a query permits only probes.
    pub fn of(call: &Call) -> Received {
        Received(call.level())
    }

    /// From a submitted job. Its owner wants it to run, which is a call of the highest level.
    pub fn of_job(_: &JobRequest) -> Permission<Committing> {
        Permission(PhantomData)
    }

    /// Permission to probe; follows from any call.
    pub fn probing(self) -> Permission<Probing> {
        Permission(PhantomData)
    }

    /// Permission to hold, if the call was at least of that level.
    pub fn reserving(self) -> Option<Permission<Reserving>> {
        (self.0 >= Level::Reserve).then_some(Permission(PhantomData))
    }

    /// Permission to commit, if the call was of that level.
    pub fn committing(self) -> Option<Permission<Committing>> {
        (self.0 == Level::Commit).then_some(Permission(PhantomData))
    }
}

impl<L> Permission<L> {
    /// Makes a [`Call::Probe`].
    pub fn probe(&self, request: Request, most: u32, starts: Vec<Time>) -> Call
    where
        L: Includes<Probing>,
    {
        Call::Probe { request, most, starts }
    }

    /// Makes a [`Call::Reserve`] that only holds.
    pub fn reserve(&self, id: ReservationId, request: Request, hold_for: Millis) -> Call
    where
        L: Includes<Reserving>,
    {
        Call::Reserve { id, request, hold_for, book: false }
    }

    /// Makes a [`Call::Hold`].
    pub fn hold(&self, id: ReservationId, hold_for: Millis) -> Call
    where
        L: Includes<Reserving>,
    {
        Call::Hold { id, hold_for }
    }

    /// Makes a [`Call::Commit`].
    pub fn commit(&self, id: ReservationId, jobs: Vec<JobId>) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Commit { id, jobs }
    }

    /// Makes a [`Call::Attach`].
    pub fn attach(&self, id: ReservationId, part: usize, job: JobId) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Attach { id, part, job }
    }

    /// Makes a [`Call::Extend`].
    pub fn extend(&self, id: ReservationId, version: Option<u32>, end: Time) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Extend { id, version, end }
    }

    /// Makes a [`Call::Change`].
    pub fn change(&self, id: ReservationId, version: Option<u32>, request: Request) -> Call
    where
        L: Includes<Committing>,
    {
        Call::Change { id, version, request }
    }

    /// Makes a [`Call::PrepareChange`].
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

    /// Makes a [`Call::FinishChange`] that accepts.
    pub fn accept_change(&self, id: ReservationId, change: ChangeId) -> Call
    where
        L: Includes<Committing>,
    {
        Call::FinishChange { id, change, accept: true }
    }
}

/// Makes a [`Call::FinishChange`] that rejects. Needs no permission: it binds no resource.
pub fn give_up_change(id: ReservationId, change: ChangeId) -> Call {
    Call::FinishChange { id, change, accept: false }
}

/// Makes a [`Call::Cancel`]. Needs no permission: it only gives back.
pub fn cancel(id: ReservationId) -> Call {
    Call::Cancel { id }
}

/// Makes a [`Call::Release`]. Needs no permission: it only gives back.
pub fn release(id: ReservationId, from: Time, keep: Capacity, end_jobs: bool) -> Call {
    Call::Release { id, part: None, from, keep, end_jobs }
}

impl Call {
    /// How binding the call is.
    pub fn level(&self) -> Level {
        match self {
            // Calls that give back bind nothing, so a broker that received one may not book with it.
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
