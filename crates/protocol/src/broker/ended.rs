//! Bounds on what a broker remembers of bookings that are over and of answers, for each user and over all. As in a ledger
//! ([`crate::ledger::Bounds`]), the requests of bookings that were cancelled or expired go first, then the oldest
//! bookings. A booking is dropped only when all peers know that it is over.
//!
//! Everything follows from the events, so a replay drops the same. Read copies have no answers, so these are counted
//! apart and decide about nothing else.

use super::booking::Booking;
use super::{Broker, Event};
use crate::clock::{Millis, Moment};
use crate::ids::{Key, Name, ReservationId};
use crate::life_cycle::State;
use crate::per_user::{Most, PerUser};
use crate::request::Request;
use std::collections::BTreeMap;

/// Most that is remembered, in bytes of memory except for the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Bookings that are over, without the requests below.
    pub ended: Most,
    /// Requests of those that were cancelled or expired.
    pub requests: Most,
    /// Number of bookings that were refused.
    pub refused: Most,
    /// Answers for repeated calls.
    pub answers: Most,
    /// Number of ids that were cancelled before they were reserved.
    pub cancelled_before: Most,
}

impl Default for Bounds {
    /// More than a busy broker needs for a day, within about 300 MB with all read copies.
    fn default() -> Bounds {
        const MB: usize = 1 << 20;
        Bounds {
            ended: Most { each: 16 * MB, all: 64 * MB },
            requests: Most { each: 4 * MB, all: 16 * MB },
            // Each takes a few kilobytes.
            refused: Most { each: 256, all: 4_096 },
            answers: Most { each: 8 * MB, all: 32 * MB },
            cancelled_before: Most { each: 1_024, all: 32_768 },
        }
    }
}

/// Indexes of the remembered bookings. Derived from them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Remembered {
    ended: PerUser<ReservationId, ()>,
    requests: PerUser<ReservationId, ()>,
    refused: PerUser<ReservationId, ()>,
    answers: PerUser<ReservationId, ()>,
    /// The booking about which a call with this key was answered.
    keys: BTreeMap<Key, ReservationId>,
}

impl Remembered {
    /// For a read copy, which has no answers.
    pub(super) fn without_answers(&self) -> Remembered {
        Remembered { answers: PerUser::default(), keys: BTreeMap::new(), ..self.clone() }
    }
}

/// Approximate memory use of a booking without lists, and its places in the indexes.
const BOOKING_BYTES: usize = 2_048;

/// Approximate memory use of a part of a booking, with its slot.
const PART_BYTES: usize = 768;

/// Approximate memory use of a recorded answer without its content.
const ANSWER_BYTES: usize = 1_024;

impl Broker {
    /// The booking about which a call with this key was answered.
    pub fn answered_about(&self, key: Key) -> Option<ReservationId> {
        self.remembered.keys.get(&key).copied()
    }

    /// Counts a booking after an event, and drops what is too much.
    pub(super) fn count_booking(&mut self, id: ReservationId, event: &Event) {
        let Some(booking) = self.bookings.get(&id) else { return };
        if let Event::Answered { answered, .. } = event {
            self.remembered.keys.insert(answered.key, id);
            self.count_answers(id);
        } else if booking.state.is_over() {
            self.count_ended(id);
        }
    }

    /// Counts a booking of a snapshot.
    pub(super) fn count_restored(&mut self, id: ReservationId) {
        let Some(booking) = self.bookings.get(&id) else { return };
        self.remembered.keys.extend(booking.answered.iter().map(|answered| (answered.key, id)));
        if !booking.answered.is_empty() {
            self.count_answers(id);
        }
        if self.bookings.get(&id).is_some_and(|booking| booking.state.is_over()) {
            self.count_ended(id);
        }
    }

    fn count_answers(&mut self, id: ReservationId) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let bytes = booking.answered.iter().map(|answered| answered.answer.bytes() + ANSWER_BYTES).sum();
        let at = booking.answered.last().map_or(Moment(0), |answered| answered.at);
        let most = self.rules.bounds.answers;
        for id in self.remembered.answers.remember((at, &booking.owner()), &id, (), bytes, most) {
            self.drop_answers(id);
        }
    }

    /// Drops the recorded answers of a booking. A repeated call is then decided anew, by the state of the booking.
    fn drop_answers(&mut self, id: ReservationId) {
        self.remembered.answers.forget(&id);
        let Some(booking) = self.bookings.get_mut(&id) else { return };
        for answered in std::mem::take(&mut booking.answered) {
            self.forget_key(answered.key, id);
        }
    }

    /// Drops a key, unless another booking has it.
    pub(super) fn forget_key(&mut self, key: Key, id: ReservationId) {
        if self.remembered.keys.get(&key) == Some(&id) {
            self.remembered.keys.remove(&key);
        }
    }

    fn count_ended(&mut self, id: ReservationId) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let bounds = self.rules.bounds;
        let (owner, at) = (booking.owner(), booking.ended.unwrap_or(Moment(0)));
        let (bytes, settled) = (booking.bytes(), booking.is_settled());
        let (refused, request) = (booking.state == State::Rejected, booking.request_bytes());
        if request > 0 {
            for id in self.remembered.requests.remember((at, &owner), &id, (), request, bounds.requests) {
                self.bookings.get_mut(&id).into_iter().for_each(Booking::shorten);
            }
        }
        let dropped = match (settled, refused) {
            (false, _) => return,
            (true, true) => self.remembered.refused.remember((at, &owner), &id, (), 1, bounds.refused),
            (true, false) => self.remembered.ended.remember((at, &owner), &id, (), bytes, bounds.ended),
        };
        dropped.into_iter().for_each(|id| self.drop_booking(id));
    }

    /// Drops a booking that is over.
    pub(super) fn drop_booking(&mut self, id: ReservationId) {
        self.drop_answers(id);
        self.unschedule(id);
        self.bookings.remove(&id);
        for index in [&mut self.remembered.ended, &mut self.remembered.requests, &mut self.remembered.refused]
        {
            index.forget(&id);
        }
    }

    /// Remembers a cancel for an unknown id, and drops those older than the retention time.
    pub(super) fn remember_cancelled(&mut self, id: ReservationId, user: &Name, at: Moment) {
        let retention = Millis::seconds(self.rules.retention.0);
        while let Some((since, key)) = self.cancelled_before.oldest()
            && since + retention < at
        {
            let key = key.clone();
            self.cancelled_before.forget(&key);
        }
        let most = self.rules.bounds.cancelled_before;
        self.cancelled_before.remember((at, user), &(id, user.clone()), at, 1, most);
    }
}

impl Booking {
    fn requests(&self) -> impl Iterator<Item = &Request> {
        self.asked.iter().map(|asked| &asked.request).chain(&self.request)
    }

    /// Approximate memory use without [`Booking::request_bytes`] and recorded answers.
    fn bytes(&self) -> usize {
        let parts = self.children.len() + self.leftovers.len() + self.replacing.len() + self.replaced.len();
        let items = parts * PART_BYTES + self.jobs.len() * size_of::<(usize, u128)>();
        let requests = self.requests().map(Request::bytes).sum::<usize>();
        (BOOKING_BYTES + items + requests).saturating_sub(self.request_bytes())
    }

    /// What [`Booking::shorten`] frees. Nothing of a booking that was used: its owner looks for it by name.
    fn request_bytes(&self) -> usize {
        let whole = self.asked.as_ref().is_some_and(|asked| asked.refused.is_none());
        let unused = matches!(self.state, State::Expired | State::Cancelled);
        self.requests().filter(|_| whole && unused).map(Request::bytes).sum()
    }

    /// Keeps only a digest of its request.
    fn shorten(&mut self) {
        self.asked = self.asked.take().map(super::Asked::refused);
        self.request = None;
    }
}
