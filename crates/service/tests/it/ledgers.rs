//! The journal of a real ledger: replaying it gives an equal ledger.

use crate::{folder, unsynced};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::ledger::{Event, Ledger, Offered, Rules, Views};
use bookahead_protocol::*;
use bookahead_service::journal::{Journal, Kind};

pub(crate) fn empty() -> Ledger {
    let placement = placement::Rules {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules { most: 5, gap: Seconds(10), natural: true },
        admission: Admission::default(),
    };
    let resource = Resource::new("north", "cluster", "processors", 8);
    Ledger::new(Rules::new("north", vec![Offered { resource, placement }])).unwrap()
}

/// A call at a moment: holds, commits, cancellations, refusals, and repetitions of earlier calls.
fn call(number: u128) -> (Moment, Envelope) {
    let id = ReservationId(number / 3);
    let begin = 100 + 50 * (number as i64 % 40);
    let wanted = placement::Request {
        earliest_start: Time(begin),
        latest_end: Time(begin + 100),
        duration: Seconds(100),
        capacity: Capacity(1 + number as u32 % 9),
    };
    let part = Part::new(wanted, "processors");
    let call = match number % 3 {
        0 => Call::Reserve { id, request: Request::single(part), hold_for: Millis(9_000), book: false },
        1 if number.is_multiple_of(2) => Call::Cancel { id },
        1 => Call::Commit { id, jobs: vec![] },
        _ => Call::Show { id },
    };
    let caller = Caller { user: format!("user{}", number / 3 % 7).into(), roles: vec![] };
    let key = Key(number - u128::from(number % 11 == 10));
    (Moment(1_000 * number as i64), Envelope { key, caller, call })
}

pub(crate) fn kind() -> Kind {
    Kind::new("ledger", "north", 1)
}

#[test]
fn a_replayed_journal_folds_to_an_equal_ledger() {
    let (_folder, path) = folder();
    let mut live = empty();
    let mut events = 0;
    for round in 0..5_u128 {
        let (journal, replay) = Journal::<Event>::open_with(&path, &kind(), &unsynced()).unwrap();
        let mut after_restart = empty();
        replay.events.iter().for_each(|record| drop(after_restart.apply(&record.event)));
        assert_eq!(after_restart, live);
        for number in round * 60..(round + 1) * 60 {
            let (now, envelope) = call(number);
            let handled = live.handle(now, &envelope, &Views::default());
            events += handled.events.len();
            journal.append(&handled.events).unwrap().wait().unwrap();
        }
        journal.close().unwrap();
    }
    let replay = Journal::<Event>::open_with(&path, &kind(), &unsynced()).unwrap().1;
    assert!(replay.events.len() == events && events > 300, "{events}");
}
