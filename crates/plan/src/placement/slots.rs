//! Which begins are looked at: a bounded number spread over the window, and the instants at which something changes.
//! Never more than three times the bound and one.

use super::Request;
use crate::profile::Profile;
use crate::units::{Seconds, Time};

/// How many slots, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRules {
    /// At most so many spread over the window, at least one.
    pub most: usize,
    /// At least so long between two of them.
    pub gap: Seconds,
    /// Whether to look also around the first changes in the window, as many, and at the earliest fit.
    pub natural: bool,
}

impl Default for SlotRules {
    /// Twenty slots at least a quarter of an hour apart, and as many natural ones.
    fn default() -> SlotRules {
        SlotRules { most: 20, gap: Seconds(900), natural: true }
    }
}

impl SlotRules {
    /// The begins to look at, in order, between `from` and the latest start of the request. `room` is what is left to
    /// reservations.
    pub fn starts(&self, request: &Request, from: Time, room: &Profile, into: &mut Vec<Time>) {
        into.clear();
        let latest = request.latest_start();
        let first = request.earliest_start.max(from);
        if latest < first {
            return;
        }
        self.spread(first, latest, into);
        if self.natural {
            into.extend(room.earliest_fit(first, request.need(), Some(request.latest_end)));
            let changes = std::iter::successors(room.next_change(first), |&time| room.next_change(time));
            // Where something ends the slot may begin; where something begins it may end.
            let begins = changes.take(self.most).flat_map(|time| [time, time - request.duration]);
            into.extend(begins.filter(|start| (first..=latest).contains(start)));
        }
        into.sort_unstable();
        into.dedup();
    }

    fn spread(&self, first: Time, latest: Time, into: &mut Vec<Time>) {
        let width = (latest - first).0;
        let by_gap = usize::try_from(width / self.gap.0.max(1)).unwrap_or(usize::MAX).saturating_add(1);
        let count = self.most.min(by_gap).max(1) as i64;
        for at in 0..count {
            let offset =
                if count == 1 { 0 } else { i128::from(width) * i128::from(at) / i128::from(count - 1) };
            into.push(first + Seconds(offset as i64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Capacity, Span};

    fn starts(rules: SlotRules, earliest: i64, window: i64, room: &Profile) -> Vec<i64> {
        let request = Request {
            earliest_start: Time(earliest),
            latest_end: Time(earliest + 100 + window),
            duration: Seconds(100),
            capacity: Capacity(2),
        };
        let mut into = Vec::new();
        rules.starts(&request, Time(0), room, &mut into);
        into.iter().map(|start| start.0).collect()
    }

    #[test]
    fn slots_are_spread_with_a_gap_and_bounded() {
        let room = Profile::new(Capacity(4), Time(0));
        let rules = SlotRules { most: 5, gap: Seconds(30), natural: false };
        assert_eq!(starts(rules, 10, 0, &room), [10]);
        assert_eq!(starts(rules, 10, 60, &room), [10, 40, 70]);
        assert_eq!(starts(rules, 10, 400, &room), [10, 110, 210, 310, 410]);
        assert_eq!(starts(rules, -50, 20, &room), Vec::<i64>::new(), "the window is over");
        assert_eq!(starts(rules, -50, 80, &room), [0, 30], "what is past of the window is gone");
    }

    #[test]
    fn natural_slots_are_where_something_ends_or_begins() {
        let mut room = Profile::new(Capacity(4), Time(0));
        room.add(Span::starting(Time(0), Seconds(57), Capacity(3)));
        room.add(Span::starting(Time(333), Seconds(9), Capacity(4)));
        let rules = SlotRules { most: 2, gap: Seconds(1_000), natural: true };
        // Spread: 10 only. Where the first ends: 57, also the earliest fit. Where the second begins: 333, or until
        // then: 233.
        assert_eq!(starts(rules, 10, 400, &room), [10, 57, 233, 333]);
    }
}
