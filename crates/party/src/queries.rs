//! What can be seen of a party without changing anything. Readers ask copies of a party, so that none of them waits for a
//! batch system or for a long computation.

use crate::register::{Known, Role};
use bookahead_plan::{Capacity, Interval, Span, Time};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::{
    Answer, Call, Caller, JobId, Millis, Moment, Name, Reservation, ReservationId, Resource, State,
};
use std::collections::{BTreeMap, BTreeSet};

/// What can be seen of a party.
pub trait Queries {
    /// What it is.
    fn role(&self) -> Role;
    /// What it offers.
    fn resources(&self) -> Vec<Resource>;
    /// A reservation.
    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation>;
    /// Reservations in order of their ids, and whether there are more.
    fn list(&self, now: Moment, filter: &Filter) -> (Vec<Reservation>, bool);
    /// What is to be drawn of its schedules.
    fn schedule(
        &self,
        now: Moment,
        viewer: &Viewer,
        window: Interval,
        resource: Option<&Name>,
    ) -> Vec<ResourceSchedule>;
    /// Itself, and then the peers that it knows.
    fn sites(&self, now: Moment) -> Vec<Known>;
    /// A job that was given to it.
    fn job(&self, id: JobId) -> Option<JobView>;
    /// Jobs that were given to it, the newest last.
    fn jobs(&self, viewer: &Viewer) -> Vec<JobView>;
    /// How many reservations are in each state.
    fn counts(&self) -> BTreeMap<State, usize>;
    /// Answers a call that changes nothing; None where it has to be made to the party itself.
    fn ask(&mut self, now: Moment, caller: &Caller, call: &Call) -> Option<Answer>;
    /// How its batch system is; None where it has none, or one that is part of this process.
    fn batch_health(&self, _now: Moment) -> Option<BatchHealth> {
        None
    }
}

/// How a batch system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHealth {
    /// In a word.
    pub state: BatchState,
    /// Since when.
    pub since: Option<Moment>,
    /// How old the last look at it is.
    pub look_age: Option<Millis>,
}

/// How a batch system is, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BatchState {
    /// It answers.
    Ok,
    /// It takes long to answer.
    Slow,
    /// It does not answer.
    Silent,
}

/// Which reservations are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only ids that begin with this text, `rsv_` included.
    pub id: Option<String>,
    /// Of this owner only.
    pub owner: Option<Name>,
    /// In one of these states only; in any where there is none.
    pub states: BTreeSet<State>,
    /// On this resource only.
    pub resource: Option<Name>,
    /// That end after this.
    pub from: Option<Time>,
    /// That begin before this.
    pub until: Option<Time>,
    /// After this one, in order of their ids.
    pub after: Option<ReservationId>,
    /// At most this many.
    pub limit: usize,
}

/// Who looks, and how much they may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// Who.
    pub user: Name,
    /// Whether they may see what belongs to others.
    pub sees_all: bool,
}

/// What is taken of one resource, for drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSchedule {
    /// Which.
    pub resource: Name,
    /// All that it has.
    pub capacity: Capacity,
    /// The present.
    pub now: Time,
    /// What of it has failed.
    pub lost: Capacity,
    /// What is taken, by begin.
    pub blocks: Vec<Block>,
}

/// Something that takes capacity for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// When, and how much.
    pub span: Span,
    /// Which reservation, whose, and how it stands, where the viewer may see that.
    pub reservation: Option<(ReservationId, Name, State)>,
}

/// What can take capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockKind {
    /// A job that runs.
    RunningJob,
    /// A job that waits, as it is planned at the moment.
    WaitingJob,
    /// A hold, or a request that waits for the batch system.
    Hold,
    /// A reservation.
    Reservation,
    /// A reservation that Bookahead did not make.
    Foreign,
}

impl Viewer {
    /// Whether they may see what belongs to `owner`.
    pub fn sees(&self, owner: &Name) -> bool {
        self.sees_all || self.user == *owner
    }
}

impl Filter {
    /// As many of those that are wanted as go on a page, and whether there are more.
    pub fn page(&self, all: impl Iterator<Item = Reservation>) -> (Vec<Reservation>, bool) {
        let mut page: Vec<Reservation> = Vec::new();
        for reservation in all.filter(|reservation| self.wants(reservation)) {
            if page.len() == self.limit {
                return (page, true);
            }
            page.push(reservation);
        }
        (page, false)
    }

    /// Whether a reservation is wanted.
    pub fn wants(&self, reservation: &Reservation) -> bool {
        let begin = reservation.slots.iter().map(|slot| slot.interval.begin).min();
        let end = reservation.slots.iter().map(|slot| slot.interval.end).max();
        self.owner.as_ref().is_none_or(|owner| *owner == reservation.owner)
            && self.id.as_ref().is_none_or(|prefix| reservation.id.to_string().starts_with(prefix))
            && (self.states.is_empty() || self.states.contains(&reservation.state))
            && self.resource.as_ref().is_none_or(|wanted| {
                reservation.slots.iter().any(|slot| slot.resource == *wanted || slot.site == *wanted)
            })
            && self.from.is_none_or(|from| end.is_some_and(|end| end > from))
            && self.until.is_none_or(|until| begin.is_some_and(|begin| begin < until))
    }
}
