//! Who has how much, and whether he may have more. Totals are kept with every event, so that asking costs
//! nothing.

use super::Ledger;
use super::rules::UserLimits;
use crate::clock::{Millis, Moment};
use crate::ids::Name;
use crate::problem::{Limit, Why};
use bookahead_plan::placement::Request;
use bookahead_plan::{Seconds, Span, Time};

/// What one user has in live reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Usage {
    /// How many.
    pub count: u32,
    /// Capacity times seconds, in all.
    pub area: i128,
}

impl Ledger {
    pub(super) fn add_usage(&mut self, owner: &Name, count: i32, area: i128) {
        if count == 0 && area == 0 {
            return;
        }
        let usage = self.usage.entry(owner.clone()).or_default();
        usage.count = usage.count.saturating_add_signed(count);
        usage.area += area;
        if *usage == Usage::default() {
            self.usage.remove(owner);
        }
    }

    /// What a user has beside one that is to be replaced.
    pub(super) fn usage_beside(&self, user: &Name, replaced: Option<&[Span]>) -> Usage {
        let Usage { count, area } = self.usage.get(user).copied().unwrap_or_default();
        match replaced {
            None => Usage { count, area },
            Some(spans) => Usage { count: count.saturating_sub(1), area: area - super::spans::area(spans) },
        }
    }
}

impl UserLimits {
    /// Whether one more reservation would be too many.
    pub(super) fn check_count(&self, usage: &Usage) -> Result<(), Why> {
        let asked = i64::from(usage.count) + 1;
        match self.count.map(i64::from) {
            Some(most) if asked > most => Err(Why::Limit { limit: Limit::Count, most, asked }),
            _ => Ok(()),
        }
    }

    /// Whether so much more would be too much.
    pub(super) fn check_area(&self, usage: &Usage, more: i128) -> Result<(), Why> {
        let asked = usage.area + more;
        match self.area {
            Some(most) if asked > i128::from(most) => {
                let asked = i64::try_from(asked).unwrap_or(i64::MAX);
                Err(Why::Limit { limit: Limit::Area, most, asked })
            }
            _ => Ok(()),
        }
    }

    /// What of a window is neither too soon nor too far ahead, if it is long enough.
    pub(super) fn window(&self, now: Moment, wanted: &Request) -> Result<Request, Why> {
        let mut allowed = *wanted;
        if let Some(notice) = self.notice {
            allowed.earliest_start = allowed.earliest_start.max(notice_ends(now, notice));
            if allowed.latest_start() < allowed.earliest_start
                && wanted.latest_start() >= wanted.earliest_start
            {
                let asked = (wanted.latest_start() - now.second()).0;
                return Err(Why::Limit { limit: Limit::Notice, most: notice.0, asked });
            }
        }
        if let Some(horizon) = self.horizon {
            let furthest = (now + Millis::seconds(horizon.0)).second();
            let soonest = allowed.earliest_start + wanted.duration;
            if furthest < soonest && soonest <= allowed.latest_end {
                let asked = (soonest - now.second()).0;
                return Err(Why::Limit { limit: Limit::Horizon, most: horizon.0, asked });
            }
            allowed.latest_end = allowed.latest_end.min(furthest);
        }
        Ok(allowed)
    }
}

/// The first begin with enough notice.
fn notice_ends(now: Moment, notice: Seconds) -> Time {
    super::fold::rest_from(now + Millis::seconds(notice.0))
}
