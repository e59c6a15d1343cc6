//! Counter-offers for a request that exceeds a limit of its owner: the smallest changes that stay within the limit.
//! Each is tried before it is suggested.

use super::Ledger;
use super::fold::rest_from;
use super::placing::{Way, Wish, refuse};
use crate::clock::Millis;
use crate::problem::{Limit, Problem, Why};
use bookahead_plan::placement::relax::Trial;
use bookahead_plan::placement::{self, Relaxation};
use bookahead_plan::{Capacity, Seconds};

/// The refusal by a limit, with the changes that would be granted on one of the suitable resources.
pub(super) fn within_limits(ledger: &mut Ledger, wish: &Wish<'_>, suitable: &[usize], why: Why) -> Problem {
    if let Why::Limit { limit: Limit::Share, .. } = why {
        // The free capacity that a user sees ends at the share, so the usual alternatives respect it.
        let told = refuse(ledger, wish, suitable);
        return Problem { blockers: Vec::new(), why, ..told };
    }
    let mut problem = Problem::new(why);
    for (relaxation, changed) in changes(wish, &problem.why) {
        let does = |at: &usize| {
            ledger.look(*at, &wish.looker(true), |sight| Way::new(sight, wish).would_do(&changed).is_some())
        };
        if suitable.iter().any(does) {
            problem.relaxations.push(relaxation);
        }
    }
    problem
}

/// The changes that meet a limit, with the changed requests. Whether there is room for them is not known yet.
fn changes(wish: &Wish<'_>, why: &Why) -> Vec<(Relaxation, placement::Request)> {
    let (wanted, now) = (wish.part.wanted, wish.ctx.now);
    let Why::Limit { limit, most, asked } = *why else { return Vec::new() };
    let shorter = |duration: i64| {
        let by = Seconds(wanted.duration.0.saturating_sub(duration));
        let changed = placement::Request { duration: Seconds(duration), ..wanted };
        (duration > 0 && by > Seconds::ZERO).then_some((Relaxation::Shorter(by), changed))
    };
    let found = match limit {
        Limit::Area => {
            let room = i128::from(most) - wish.usage.area;
            let capacity = room / i128::from(wanted.duration.0.max(1));
            let capacity = Capacity(u32::try_from(capacity.max(0)).unwrap_or(u32::MAX));
            let fewer = (capacity > Capacity::ZERO && capacity < wanted.capacity).then(|| {
                let by = Capacity(wanted.capacity.0 - capacity.0);
                (Relaxation::Fewer(by), placement::Request { capacity, ..wanted })
            });
            let duration = room / i128::from(wanted.capacity.0.max(1));
            [fewer, shorter(i64::try_from(duration).unwrap_or(0))]
        }
        Limit::Horizon => {
            let begin = (now + Millis::seconds(most)).second() - wanted.duration;
            let earlier = (begin >= wish.first_begin && begin < wanted.earliest_start).then_some((
                Relaxation::Earlier(begin),
                placement::Request { earliest_start: begin, ..wanted },
            ));
            [shorter(wanted.duration.0.saturating_sub(asked.saturating_sub(most))), earlier]
        }
        Limit::Notice => {
            let latest_end = rest_from(now + Millis::seconds(most)) + wanted.duration;
            let later = Relaxation::Later(latest_end - wanted.latest_end);
            [Some((later, placement::Request { latest_end, ..wanted })), None]
        }
        Limit::Count | Limit::Share | Limit::Jobs | Limit::JobShare | Limit::JobTime => [None, None],
    };
    found.into_iter().flatten().collect()
}
