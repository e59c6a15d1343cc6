//! Bounds on what is remembered of reservations that ended, were refused or cancelled, for each user and over all. A user
//! can make and cancel any number of them within its limits, because only live ones count there.
//!
//! Of reservations that were never used, which cost their owner nothing, the texts go first: name, note, labels and
//! requirements can be as large as a call. The short record that is left still recognises its request, and can be
//! committed late. With too many records, the oldest are dropped, as if the retention time had passed.
//!
//! Everything follows from the events, so a replay and the read copies drop the same.

use super::entry::Entry;
use super::state::Ledger;
use crate::digest::Digest;
use crate::ids::ReservationId;
use crate::life_cycle::State;
use crate::per_user::Most;
use crate::request::Request;
use std::sync::Arc;

/// Most bytes of memory for records of what is over. Decisions of a ledger depend on them: a journal is to be replayed
/// with the bounds that it was written with, or larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Reservations that ended, without the texts below.
    pub ended: Most,
    /// Texts of those that were cancelled or expired.
    pub texts: Most,
    /// Ids that were refused, or cancelled before they were reserved.
    pub denied: Most,
    /// Answers for repeated calls.
    pub answers: Most,
}

impl Default for Bounds {
    /// More than a busy site needs for a day, about 10,000 reservations of each user and 50,000 in all, within about
    /// 300 MB with all read copies.
    fn default() -> Bounds {
        const MB: usize = 1 << 20;
        Bounds {
            ended: Most { each: 16 * MB, all: 64 * MB },
            texts: Most { each: 4 * MB, all: 16 * MB },
            denied: Most { each: 2 * MB, all: 16 * MB },
            answers: Most { each: 8 * MB, all: 64 * MB },
        }
    }
}

/// Approximate memory use of an entry and its places in the indexes.
const ENTRY_BYTES: usize = 1_024;

/// Approximate memory use of a span or an attached job.
const ITEM_BYTES: usize = 32;

impl Ledger {
    /// Counts an entry that is over, or no longer counts one that is not. Drops what is too much.
    pub(super) fn count_ended(&mut self, id: ReservationId) {
        let entry = self.entries.get(&id).filter(|entry| entry.is_remembered());
        let Some((at, owner, bytes, texts)) =
            entry.map(|entry| (entry.ended, entry.owner.clone(), entry.bytes(), entry.text_bytes()))
        else {
            self.ended.forget(&id);
            self.ended_texts.forget(&id);
            return;
        };
        let Bounds { ended: most, texts: most_texts, .. } = self.rules.bounds;
        self.ended_texts.forget(&id);
        if texts > 0 {
            for id in self.ended_texts.remember((at, &owner), &id, (), texts, most_texts) {
                self.entries.get_mut(&id).into_iter().for_each(Entry::shorten);
            }
        }
        for id in self.ended.remember((at, &owner), &id, (), bytes, most) {
            self.drop_ended(id);
        }
    }

    /// Drops an entry that is over.
    pub(super) fn drop_ended(&mut self, id: ReservationId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.agenda.remove(&(entry.due(self.rules.retention), id));
        }
        self.count_ended(id);
    }
}

impl Entry {
    /// Whether it is only remembered. A rejected one becomes a denied id at once.
    fn is_remembered(&self) -> bool {
        self.state.is_over() && self.state != State::Rejected
    }

    fn requests(&self) -> impl Iterator<Item = &Request> {
        [&*self.request].into_iter().chain(self.changed_to.as_deref())
    }

    /// Approximate memory use without [`Entry::text_bytes`].
    fn bytes(&self) -> usize {
        let requests = self.requests().map(Request::bytes).sum::<usize>();
        let items = self.spans.len() + self.jobs.len();
        (ENTRY_BYTES + requests + items * ITEM_BYTES).saturating_sub(self.text_bytes())
    }

    /// What [`Entry::shorten`] frees. Nothing of a reservation that was used: its owner looks for it by name.
    fn text_bytes(&self) -> usize {
        let unused = matches!(self.state, State::Expired | State::Cancelled);
        self.requests().filter(|_| unused).map(Request::text_bytes).sum()
    }

    /// Drops the texts of its requests.
    fn shorten(&mut self) {
        self.shortened.get_or_insert_with(|| Digest::of(&*self.request));
        self.request = Arc::new(self.request.shortened());
        self.changed_to = self.changed_to.take().map(|request| Arc::new(request.shortened()));
    }

    /// Whether it was reserved with this request.
    pub(super) fn is_of(&self, request: &Request) -> bool {
        match self.shortened {
            Some(digest) => digest == Digest::of(request),
            None => *self.request == *request,
        }
    }
}
