//! When is the present workload worked off? An approximation from sums, without planning anything.

use crate::planner::Cluster;
use crate::units::{Span, Time};

/// Estimates are too long by half, on the whole.
const ACCURACY: f64 = 0.5;

/// The approximate end of the present workload: half of the remaining estimated work of running and waiting jobs
/// spread over the whole capacity, and then, again and again, the areas of reservations that are active before it.
pub fn workload_end(cluster: &Cluster<'_>) -> Time {
    let now = cluster.now;
    let capacity = i128::from(cluster.capacity.0.max(1));
    let running = cluster.running.iter().map(|job| rest(now, job.expected_end, job.capacity.0));
    let waiting = cluster.waiting.iter().map(|job| i128::from(job.estimate.0) * i128::from(job.capacity.0));
    let work: i128 = running.chain(waiting).sum();
    let mut end = now.0 as f64 + ACCURACY * work as f64 / capacity as f64;
    let mut later: Vec<&Span> = cluster.reservations.iter().filter(|span| span.interval.end > now).collect();
    loop {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Running, Waiting};
    use crate::units::{Capacity, Seconds};

    #[test]
    fn the_formula_by_hand() {
        // Ten processors at 1000. Running: 4 until 1100 (400). Waiting: 5 for 200 (1000). Half of 140: until 1070.
        let running = [Running { expected_end: Time(1_100), capacity: Capacity(4) }];
        let waiting =
            [Waiting { submit: Time(0), estimate: Seconds(200), capacity: Capacity(5), priority: 0 }];
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
