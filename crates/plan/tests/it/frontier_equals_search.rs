//! Placing needs one after another gives the same starts with and without remembered failures.

use bookahead_plan::{Capacity, Frontier, Need, Profile, Seconds, Span, Time};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn remembering_changes_no_start(
        needs in prop::collection::vec((1..=12u32, 1..60i64), 1..300),
        reserved in prop::collection::vec((0..400i64, 1..50i64, 1..8u32), 0..10),
    ) {
        let mut searched = Profile::new(Capacity(10), Time(0));
        for (begin, length, capacity) in reserved {
            searched.add(Span::starting(Time(begin), Seconds(length), Capacity(capacity)));
        }
        let mut remembered = searched.clone();
        let mut frontier = Frontier::new();
        for (capacity, length) in needs {
            let need = Need { capacity: Capacity(capacity), length: Seconds(length) };
            let start = searched.earliest_fit(Time(0), need, None);
            if let Some(start) = start {
                searched.add(Span::starting(start, need.length, need.capacity));
            }
            prop_assert_eq!(frontier.place(&mut remembered, Time(0), need), start);
        }
    }
}
