//! Later jobs do not delay the first waiting job.

use crate::{Drive, at, backing, builtin, job, policies, span};
use bookahead_lrms::Builtin;
use bookahead_party::{JobState, JobStatus};
use bookahead_plan::Time;
use bookahead_protocol::JobId;
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CAPACITY: u32 = 8;

/// Delay, capacity, estimate and actual run time.
type Submission = (i64, u32, i64, i64);

fn submissions() -> impl Strategy<Value = Vec<Submission>> {
    prop::collection::vec((0..6_i64, 1..=CAPACITY, 1..30_i64, 0..30_i64), 2..25)
}

fn head(builtin: &mut Builtin) -> Option<JobStatus> {
    builtin.jobs().into_iter().find(|status| status.state == JobState::Waiting)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_first_in_line_starts_when_it_was_told_or_earlier(
        submissions in submissions(), reserved in prop::collection::vec((0..80_i64, 1..20_i64, 1..4_u32), 0..4),
        cancelled in prop::option::of(0..20_u128), policy in 0..3_usize,
    ) {
        let mut builtin = builtin(CAPACITY, policies()[policy]);
        for (id, (begin, length, capacity)) in (0..).zip(&reserved) {
            builtin.back(at(0), &backing(id, &[span(*begin, begin + length, *capacity)])).unwrap();
        }
        let mut told: BTreeMap<JobId, Time> = BTreeMap::new();
        let mut now = 0;
        for (id, (later, capacity, limit, run)) in (0..).zip(&submissions) {
            now += later;
            builtin.pass(at(now));
            builtin.submit(at(now), &job(id, *capacity, *limit, *run)).unwrap();
            if let Some(head) = head(&mut builtin) {
                let start = head.expected_start.unwrap();
                prop_assert!(told.get(&head.id).is_none_or(|before| start <= *before));
                told.insert(head.id, start);
            }
            // A cancelled job only makes room.
            if let Some(cancelled) = cancelled.filter(|cancelled| cancelled % 7 == id % 7) {
                builtin.cancel(at(now), JobId(cancelled)).unwrap();
            }
        }
        builtin.pass(at(10_000));
        for status in builtin.jobs() {
            if let Some((told, started)) = told.get(&status.id).zip(status.started) {
                prop_assert!(started <= *told, "{status:?} was told {told}");
            }
        }
    }
}
