//! The search for co-reservation candidates, on examples and against an exhaustive search.

mod equals_plain;
mod examples;
mod plain;

use bookahead_plan::placement::Request as Wanted;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::candidates::{Budget, Candidate, Found};
use bookahead_protocol::{Part, Slot, Tres};

const PLENTY: Budget = Budget { work: 1_000_000_000 };

/// A part with a capacity and a duration, at any time of a long day.
fn part(duration: i64, capacity: u32) -> Part {
    let wanted = Wanted {
        earliest_start: Time(0),
        latest_end: Time(100_000),
        duration: Seconds(duration),
        capacity: Capacity(capacity),
    };
    Part::new(wanted, "processors")
}

/// A slot on the only cluster of a site without a broker.
fn slot(site: &str, begin: i64, slack: i64) -> Found {
    let slot = Slot {
        resource: "cluster".into(),
        site: site.into(),
        joins: None,
        interval: Interval::starting(Time(begin), Seconds(10)),
        capacity: Capacity(1_000),
        slack: Seconds(slack),
        free: None,
        rating: None,
        impact: None,
        tres: Tres::default(),
        free_tres: Tres::default(),
        cost: 0,
    };
    Found { peer: site.into(), slot }
}

/// Indexes of the chosen slots, and the starts.
fn chosen(candidate: &Candidate) -> (Vec<usize>, Vec<i64>) {
    candidate.picks.iter().map(|pick| (pick.found, pick.start.0)).unzip()
}
