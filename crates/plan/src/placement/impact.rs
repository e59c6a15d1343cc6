//! Starts to try, the effect of a slot on waiting jobs, limits on that effect, and the expected end of the
//! present workload. At most 3 × [`SlotRules::most`] + 1 starts are tried.

use super::Request;
use crate::planner::Cluster;
use crate::profile::Profile;
use crate::units::{Seconds, Span, Time};

/// The plan with a slot taken, compared with the plan without it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Impact {
    /// Waiting jobs that would start later, by their index in the cluster's list.
    pub delayed: Vec<u32>,
    /// Sum of the delays.
    pub total_delay: Seconds,
    /// Longest delay of one job.
    pub longest_delay: Seconds,
    /// Change of the last planned end of a waiting job; negative if it is earlier.
    pub makespan_change: Seconds,
    /// Unused capacity-seconds between now and the last planned end of anything.
    pub idle: i128,
}

impl Impact {
    /// Compares the planned starts of waiting jobs without and with `slot`.
    pub(super) fn of(cluster: &Cluster<'_>, without: &[Time], with: &[Time], slot: Span) -> Impact {
        let mut impact = Impact { idle: idle(cluster, with, slot), ..Impact::default() };
        for (at, (&before, &after)) in (0u32..).zip(without.iter().zip(with)) {
            let delay = after - before;
            if delay > Seconds::ZERO {
                impact.delayed.push(at);
                impact.total_delay = impact.total_delay + delay;
                impact.longest_delay = impact.longest_delay.max(delay);
            }
        }
        impact.makespan_change = last_end(cluster, with) - last_end(cluster, without);
        impact
    }
}

/// Last planned end of a waiting job that ever starts; now if there is none.
pub(super) fn last_end(cluster: &Cluster<'_>, starts: &[Time]) -> Time {
    let ends = starts.iter().zip(cluster.waiting).map(|(&start, job)| start + job.estimate);
    ends.filter(|&end| end < Time::MAX).max().unwrap_or(cluster.now).max(cluster.now)
}

fn idle(cluster: &Cluster<'_>, starts: &[Time], slot: Span) -> i128 {
    let now = cluster.now;
    let running = cluster.running.iter().map(|job| Span {
        interval: crate::units::Interval::new(now, job.expected_end),
        capacity: job.capacity,
    });
    let waiting = starts.iter().zip(cluster.waiting).filter(|(start, _)| **start < Time::MAX);
    let waiting = waiting.map(|(&start, job)| Span::starting(start, job.estimate, job.capacity));
    let reserved = cluster.reservations.iter().map(|span| {
        let begin = span.interval.begin.max(now);
        Span { interval: crate::units::Interval::new(begin, span.interval.end), capacity: span.capacity }
    });
    let (mut end, mut held) = (now, 0i128);
    for span in running.chain(waiting).chain(reserved).chain([slot]).filter(|span| !span.interval.is_empty())
    {
        end = end.max(span.interval.end);
        held += span.area();
    }
    i128::from(cluster.capacity.0) * i128::from((end - now).0) - held
}

/// Limits on the effect of a reservation on waiting jobs. The default allows everything: reservations come
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admission {
    /// Most delayed jobs. None for no limit.
    pub delayed_jobs: Option<u32>,
    /// Largest sum of delays. None for no limit.
    pub total_delay: Option<Seconds>,
    /// Longest delay of one job. None for no limit.
    pub longest_delay: Option<Seconds>,
}

impl Admission {
    /// No waiting job may be delayed: local jobs are preferred.
    pub const LOCAL_JOBS_PREFERRED: Admission =
        Admission { delayed_jobs: Some(0), total_delay: None, longest_delay: None };

    /// Whether there is no limit at all.
    pub fn is_unlimited(&self) -> bool {
        *self == Admission::default()
    }

    /// Whether an effect is within the limits.
    pub fn allows(&self, impact: &Impact) -> bool {
        self.delayed_jobs.is_none_or(|most| impact.delayed.len() as u64 <= u64::from(most))
            && self.total_delay.is_none_or(|most| impact.total_delay <= most)
            && self.longest_delay.is_none_or(|most| impact.longest_delay <= most)
    }
}

/// Real run times as a share of estimates, on average.
const ACCURACY: f64 = 0.5;

/// Approximate end of the present workload: half of the remaining estimated work of running and waiting jobs,
/// spread over the whole capacity; then, repeatedly, plus the areas of reservations that are active before
/// it.
pub(crate) fn workload_end(cluster: &Cluster<'_>) -> Time {
    let now = cluster.now;
    let capacity = i128::from(cluster.capacity.0.max(1));
    let running = cluster.running.iter().map(|job| rest(now, job.expected_end, job.capacity.0));
    let waiting = cluster.waiting.iter().map(|job| i128::from(job.estimate.0) * i128::from(job.capacity.0));
    let work: i128 = running.chain(waiting).sum();
    let mut end = now.0 as f64 + ACCURACY * work as f64 / capacity as f64;
    let mut later: Vec<&Span> = cluster.reservations.iter().filter(|span| span.interval.end > now).collect();
    loop {
        // Each reservation moves the end later, which may make further ones active. Repeat until none is
        // added.
        let before = later.len();
        later.retain(|span| {
            let active = (span.interval.begin.0 as f64) < end;
            if active {
                let begin = span.interval.begin.max(now);
                end += rest(begin, span.interval.end, span.capacity.0) as f64 / capacity as f64;
            }
            !active
        });
        if later.len() == before {
            return Time(end.ceil() as i64);
        }
    }
}

fn rest(from: Time, end: Time, capacity: u32) -> i128 {
    i128::from((end - from).0.max(0)) * i128::from(capacity)
}

/// Number and distance of the starts to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRules {
    /// Most starts spread over the window; at least one is tried.
    pub most: usize,
    /// Shortest distance between two of them.
    pub gap: Seconds,
    /// Whether to try also the earliest fit and the first `most` changes in the window.
    pub natural: bool,
}

impl Default for SlotRules {
    /// Up to 20 starts at least 15 minutes apart, and as many natural ones.
    fn default() -> SlotRules {
        SlotRules { most: 20, gap: Seconds(900), natural: true }
    }
}

impl SlotRules {
    /// The starts to try, ascending, between `from` and the latest start of the request. `room` is the
    /// capacity available to reservations.
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
            // A slot may start where something ends, and end where something starts.
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
            // Both ends of the window are included.
            let offset =
                if count == 1 { 0 } else { i128::from(width) * i128::from(at) / i128::from(count - 1) };
            into.push(first + Seconds(offset as i64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Owner, Running, Waiting};
    use crate::units::{Capacity, Seconds};

    #[test]
    fn the_formula_by_hand() {
        // Ten processors at 1000. Running: 4 until 1100 (400). Waiting: 5 for 200 (1000). Half of 140: until 1070.
        let running = [Running { expected_end: Time(1_100), capacity: Capacity(4), owner: 0 }];
        let waiting = [Waiting {
            submit: Time(0),
            estimate: Seconds(200),
            capacity: Capacity(5),
            priority: 0,
            owner: Owner::NONE,
        }];
        let cluster = |reservations| Cluster {
            capacity: Capacity(10),
            now: Time(1_000),
            running: &running,
            waiting: &waiting,
            reservations,
        };
        assert_eq!(workload_end(&cluster(&[])), Time(1_070));
        // One is active before 1070: 100 * 5 / 10 = 50 more, until 1120. That reaches the second, which began in the
        // list before it: 10 * 10 / 10 more, until 1130. The third begins at 1130, so it is not active before.
        let reservations = [
            Span::starting(Time(1_110), Seconds(10), Capacity(10)),
            Span::starting(Time(1_060), Seconds(100), Capacity(5)),
            Span::starting(Time(1_130), Seconds(10), Capacity(10)),
        ];
        assert_eq!(workload_end(&cluster(&reservations)), Time(1_130));
        // Of one that has begun only the rest counts: 60 * 5 / 10.
        let begun = [Span::starting(Time(960), Seconds(100), Capacity(5))];
        assert_eq!(workload_end(&cluster(&begun)), Time(1_100));
    }
}

#[cfg(test)]
mod slot_tests {
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
