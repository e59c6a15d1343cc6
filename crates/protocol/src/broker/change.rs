//! A change of a booking: the computation of the new terms, and its progress.

use super::booking::{Booking, Child, name_here};
use super::event::{Changing, Event, Pick, Stage};
use crate::candidates::Found;
use crate::clock::{Millis, Moment};
use crate::life_cycle::{IllegalMove, Move, State};
use crate::message::{Call, NewTerms, Slot};
use crate::problem::{Impossible, Why};
use crate::request::Request;
use crate::sharing::merged;
use crate::tres::Tres;
use bookahead_plan::{Interval, Seconds, Time};

impl Changing {
    /// Whether it may still lead to new terms.
    pub fn is_open(&self) -> bool {
        self.stage != Stage::GivenUp
    }

    /// Indexes of the parts that change.
    pub(super) fn parts(&self) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().enumerate().filter_map(|(part, slot)| slot.as_ref().map(|_| part))
    }

    /// The terms to request from a peer. An extension is sent as such: the capacity may have steps that a
    /// slot does not show.
    pub(super) fn terms(&self, part: usize) -> Option<NewTerms> {
        let slot = self.slots.get(part)?.as_ref()?;
        if self.only_extends() {
            return Some(NewTerms::Until(slot.interval.end));
        }
        let wanted = self.request.parts.get(part)?.fixed(slot.interval.begin, slot.resource.clone());
        Some(NewTerms::Request(self.request.for_part(wanted)))
    }

    pub(super) fn only_extends(&self) -> bool {
        matches!(self.call, Call::Extend { .. } | Call::PrepareChange { terms: NewTerms::Until(_), .. })
    }

    /// If the requester accepts the prepared change itself, how long it may take. None if the broker decides
    /// as soon as all is prepared.
    pub(super) fn left_to_caller(&self) -> Option<Millis> {
        match self.call {
            Call::PrepareChange { hold_for, .. } => Some(hold_for),
            _ => None,
        }
    }
}

/// The request after the change, and the new slots of parts that are already fixed. None if nothing would
/// change.
#[allow(clippy::type_complexity, reason = "it is taken apart at once")]
pub(super) fn wanted(
    booking: &Booking,
    call: &Call,
    now: Moment,
) -> Result<Option<(Request, Vec<Option<Found>>)>, Why> {
    let (version, terms) = match call {
        Call::Change { version, request, .. } => (version, NewTerms::Request(request.clone())),
        Call::Extend { version, end, .. } => (version, NewTerms::Until(*end)),
        Call::PrepareChange { version, terms, .. } => (version, terms.clone()),
        _ => return Ok(None),
    };
    if !matches!(booking.state, State::Committed | State::Active) {
        let attempted = if matches!(call, Call::Extend { .. }) { Move::Extend } else { Move::RequestChange };
        return Err(IllegalMove { from: booking.state, attempted }.into());
    }
    if let Some(seen) = version.filter(|seen| *seen != booking.version) {
        return Err(Why::Changed { seen, now: booking.version });
    }
    if (0..booking.children.len()).any(|part| !booking.has_part(part)) {
        return Err(Why::Unsupported(Impossible::ChangeOfBroken));
    }
    let Some(before) = booking.request() else { return Ok(None) };
    if let Some(renamed) = booking.renamed_by(call) {
        renamed.check()?;
        let last = booking.ends().unwrap_or(Time::MIN);
        return placed(booking, extended(booking, before, last, last), now).map(Some);
    }
    let request = match terms {
        NewTerms::Request(mut request) => {
            request.check()?;
            if request.parts.len() != booking.children.len() {
                return Err(Why::Unsupported(Impossible::OtherParts));
            }
            // A request without constraints means that the current ones stay.
            if request.constraints.is_empty() {
                request.constraints.clone_from(&before.constraints);
            }
            request.without_repetitions()
        }
        NewTerms::Until(end) => {
            let last = booking.ends().unwrap_or(Time::MIN);
            // An extend call is idempotent, so an end that is already reached needs no change. A prepare call
            // does need an id to finish.
            if end <= last && matches!(call, Call::Extend { .. }) {
                return Ok(None);
            }
            extended(booking, before, last, end.max(last))
        }
    };
    placed(booking, request, now).map(Some)
}

/// The current terms, with a later end for the parts that end last.
fn extended(booking: &Booking, before: &Request, last: Time, end: Time) -> Request {
    let mut request = before.clone();
    for (part, child) in request.parts.iter_mut().zip(&booking.children) {
        let Interval { begin, end: ends } = child.pick.slot.interval;
        part.wanted.capacity = child.pick.slot.capacity;
        part.wanted.earliest_start = begin;
        part.wanted.latest_end = if ends == last { end } else { ends };
        part.wanted.duration = part.wanted.latest_end - begin;
    }
    request
}

/// Binds every part to its resource. A part that has started keeps its start. A part with only one possible
/// start needs no probe.
fn placed(
    booking: &Booking,
    mut request: Request,
    now: Moment,
) -> Result<(Request, Vec<Option<Found>>), Why> {
    let mut given = Vec::new();
    for (part, child) in request.parts.iter_mut().zip(&booking.children) {
        let (pick, wanted) = (&child.pick, part.wanted);
        part.resource = Some(name_here(&pick.peer, &pick.slot.resource));
        let begin = pick.slot.interval.begin;
        let begun = Moment::of(begin) <= now;
        let end = begin + wanted.duration;
        if begun && (begin < wanted.earliest_start || end > wanted.latest_end) {
            return Err(Why::Unsupported(Impossible::BeginOfActive));
        }
        let fixed = wanted.latest_start() == wanted.earliest_start;
        let start = if begun { begin } else { wanted.earliest_start };
        if begun || fixed {
            (part.wanted.earliest_start, part.wanted.latest_end) = (start, start + wanted.duration);
        } else {
            part.changes = Some(pick.child);
        }
        let tres = &part.tres;
        let slot = || Slot {
            interval: Interval::new(start, start + wanted.duration),
            capacity: wanted.capacity,
            tres: tres.clone(),
            slack: Seconds::ZERO,
            free: None,
            free_tres: Tres::default(),
            ..pick.slot.clone()
        };
        let found = (begun || fixed).then(|| Found { peer: pick.peer.clone(), slot: slot() });
        given.push(found);
    }
    Ok((request, given))
}

impl Booking {
    /// Its current request: the original one, or the one it was changed to.
    pub fn request(&self) -> Option<&Request> {
        self.request.as_ref().or(self.asked.as_ref().map(|asked| &asked.request))
    }

    /// A new request with the webhook of the current one, which cannot be changed, and with earlier answers of guests.
    pub(super) fn kept_with(&self, request: &Request) -> Box<Request> {
        let webhook = self.request().and_then(|before| before.webhook.clone());
        let consents = merged(&request.shared_with, self.guests().consents, &request.consents);
        let attract = request.attract || self.request().is_some_and(Request::attracts);
        Box::new(Request { webhook, consents, attract, ..request.clone() })
    }

    /// The version counts changes of the description and of sharing, too.
    pub(super) fn take_request(&mut self, request: Request) {
        let says_other = self.request().is_some_and(|before| request.says_other_than(before));
        self.version = self.version.saturating_add(u32::from(says_other));
        self.request = Some(request);
    }

    /// The request after a call that changes only the description or the sharing. None if it changes more.
    pub(super) fn renamed_by(&self, call: &Call) -> Option<Request> {
        let (Call::Change { request, .. } | Call::PrepareChange { terms: NewTerms::Request(request), .. }) =
            call
        else {
            return None;
        };
        let before = self.request()?;
        let mut request = request.clone().without_repetitions();
        if request.constraints.is_empty() {
            request.constraints.clone_from(&before.constraints);
        }
        request.has_same_terms(before).then(|| *self.kept_with(&request))
    }

    pub(super) fn apply_change(&mut self, event: &Event) {
        match event {
            Event::Changing { changing, .. } => self.change = Some(Changing::clone(changing)),
            Event::ChangePrepared { until, .. } => self.set_stage(Stage::Prepared(*until)),
            Event::ChangeDecided { .. } => self.set_stage(Stage::Decided),
            Event::ChangeGivenUp { change, .. } => {
                match self.change.as_mut().filter(|known| known.change == *change) {
                    Some(changing) => changing.stage = Stage::GivenUp,
                    None => self.last_change = Some((*change, false)),
                }
            }
            Event::ChangeSettled { .. } => {
                if let Some(Changing { change, request, stage, .. }) = self.change.take() {
                    let decided = stage == Stage::Decided;
                    self.last_change = Some((change, decided));
                    if decided {
                        self.take_request(request);
                    }
                }
            }
            _ => {}
        }
    }

    fn set_stage(&mut self, stage: Stage) {
        self.change.iter_mut().for_each(|change| change.stage = stage);
    }

    /// The change that may still lead to new terms.
    pub(super) fn open_change(&self) -> Option<&Changing> {
        self.change.as_ref().filter(|change| change.is_open())
    }

    /// The slots of a prepared change, with the broker's names for resources.
    pub(super) fn prepared_slots(&self) -> Vec<Slot> {
        let Some(changing) = self.change.as_ref().filter(|change| matches!(change.stage, Stage::Prepared(_)))
        else {
            return Vec::new();
        };
        let slot = |(child, new): (&Child, &Option<Slot>)| {
            let slot = new.clone().unwrap_or_else(|| child.pick.slot.clone());
            Pick { slot, ..child.pick.clone() }.slot_here()
        };
        self.children.iter().zip(&changing.slots).map(slot).collect()
    }

    /// Deadline for accepting a prepared change.
    pub(super) fn prepared_until(&self) -> Option<Moment> {
        match self.change.as_ref()?.stage {
            Stage::Prepared(until) => Some(until),
            _ => None,
        }
    }
}
