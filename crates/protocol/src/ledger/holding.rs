//! How long a hold lasts, and what is seen of holds.

use super::Ledger;
use super::entry::Entry;
use super::event::What;
use crate::clock::{Millis, Moment};
use crate::deadline::Observed;
use crate::ids::ReservationId;
use crate::life_cycle::State;
use crate::problem::{Problem, Why};
use bookahead_plan::Time;
use bookahead_plan::placement::Reason;
use serde::{Deserialize, Serialize};

/// So many resolved holds are looked back on, at most; when there are more, all counts are halved.
const LOOKED_BACK_ON: u64 = 1_000;

/// How long holds were granted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Granted {
    holds: u64,
    in_all: Millis,
}

impl Granted {
    fn mean(&self) -> Millis {
        Millis(self.in_all.0.checked_div(i64::try_from(self.holds).unwrap_or(i64::MAX)).unwrap_or(0))
    }
}

impl Ledger {
    /// Until when a hold lasts that begins now: what was asked for, as far as the site grants it, and never
    /// beyond the begin of the slot.
    pub(super) fn deadline(&self, now: Moment, asked: Millis, begin: Time) -> Moment {
        let rules = &self.rules.holds;
        let adaptive = rules.adaptive.map(|adaptive| adaptive.hold(&self.observed, self.holds.mean()));
        let granted = asked.min(rules.longest).min(adaptive.unwrap_or(asked)).max(Millis::ZERO);
        (now + granted).min(Moment::of(begin)).max(now)
    }

    pub(super) fn observe_refusal(&mut self, problem: &Problem) {
        if matches!(problem.why, Why::NoSlot(Reason::NoRoom | Reason::NotAdmitted)) {
            self.observed.refused = self.observed.refused.saturating_add(1);
        }
    }

    pub(super) fn observe_grant(&mut self, entry: &Entry) {
        self.observed.granted = self.observed.granted.saturating_add(1);
        // What is committed at once was never held for anybody to decide.
        if entry.deadline > entry.accepted {
            self.holds.holds = self.holds.holds.saturating_add(1);
            self.holds.in_all = self.holds.in_all + (entry.deadline - entry.accepted);
        }
    }

    /// Takes note of a hold that is resolved by an event, before it is.
    pub(super) fn observe(&mut self, id: ReservationId, what: &What) {
        let Some(entry) = self.entries.get(&id) else { return };
        let seen = &mut self.observed;
        let lifetime = Moment::of(entry.end()) - entry.accepted;
        match (entry.state, what) {
            (State::Held, What::Committed { .. }) => seen.committed += 1,
            (State::Expired, What::Committed { .. }) => {
                // It was confirmed after all.
                seen.evaporated = seen.evaporated.saturating_sub(1);
                seen.committed += 1;
            }
            // A late commit was granted: the hold had not evaporated after all.
            (State::Requested, What::Granted { .. }) if entry.is_committed_late() => {
                seen.evaporated = seen.evaporated.saturating_sub(1);
                return;
            }
            (State::Held, What::Expired { .. }) => seen.evaporated += 1,
            (State::Held, What::Cancelled { .. }) => seen.cancelled += 1,
            _ => return,
        }
        if matches!(what, What::Committed { .. }) {
            seen.lifetime = seen.lifetime + lifetime;
        }
        if seen.resolved() >= LOOKED_BACK_ON {
            *seen = Observed::halved(seen);
            let Granted { holds, in_all } = self.holds;
            self.holds = Granted { holds: holds / 2, in_all: Millis(in_all.0 / 2) };
        }
    }
}
