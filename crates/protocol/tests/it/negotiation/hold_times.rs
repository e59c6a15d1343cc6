//! The timeout of a hold follows the peer's reported hold time.

use super::town::{Town, name, part};
use bookahead_protocol::broker::{Broker, Effects, Rules};
use bookahead_protocol::{Call, Millis, Moment, Request, ReservationId};

fn broker(hold_takes: Option<i64>, rules: Rules) -> Broker {
    let mut broker = Broker::new(rules);
    broker.register(name("north"), Vec::new(), hold_takes.map(Millis));
    broker
}

#[test]
fn a_hold_may_take_as_long_as_the_peer_tells_and_a_margin() {
    let of = |hold_takes| broker(hold_takes, Rules::default()).hold_time(&name("north"));
    assert_eq!(of(None), Millis(10_000), "the configured time");
    assert_eq!(of(Some(0)), Millis(2_000));
    assert_eq!(of(Some(5_000)), Millis(17_000));
    assert_eq!(of(Some(600_000)), Millis(120_000), "an owner waits for the answer");
    assert_eq!(of(Some(i64::MAX)), Millis(120_000));
    assert_eq!(of(Some(-1)), Millis(2_000));
    // With a clock a hundred times as fast, everything is a hundred times as long.
    let fast = Rules { hold_time: Millis::seconds(1_000), ..Rules::default() };
    assert_eq!(broker(Some(500_000), fast).hold_time(&name("north")), Millis(1_700_000));
    assert_eq!(broker(Some(0), Rules::default()).hold_time(&name("south")), Millis(10_000), "not a peer");
}

/// Requests a reservation at a site that reports its hold time, and returns the hold that is sent to it.
fn holding(town: &mut Town, hold_takes: i64, probe_takes: i64) -> (Broker, Effects) {
    town.cluster("north", 8);
    let mut broker = Broker::new(Rules::default());
    broker.register(name("north"), town.offers("north"), Some(Millis(hold_takes)));
    broker.resume(Moment(0));
    let request = Request::single(part("processors", 4, 100, 200, 100));
    let call = Call::Reserve { id: ReservationId(1), request, hold_for: Millis::seconds(30), book: false };
    let reserve = town.envelope(call);
    let probe = broker.handle(Moment(0), &name("ada"), &reserve).send.remove(0);
    let offers = town.send("north", &probe.envelope).unwrap();
    let effects = broker.on_answer(Moment(probe_takes), &name("north"), probe.envelope.key, &offers);
    (broker, effects)
}

#[test]
fn a_slow_peer_is_waited_for_and_holds_for_as_much_longer() {
    // Three times 5 s, 2 s, and four round trips of 100 ms.
    let (mut broker, effects) = holding(&mut Town::new(), 5_000, 100);
    let hold = &effects.send[0].envelope;
    let Call::Reserve { hold_for, .. } = hold.call else { panic!("{hold:?}") };
    assert_eq!(hold_for, Millis(30_000 + 17_400 + 200), "the owner's time begins when all is held");
    let given_up = |effects: &Effects| effects.events.iter().any(|event| event.word() == "gave-up");
    assert!(!given_up(&broker.tick(Moment(17_400))));
    assert!(given_up(&broker.tick(Moment(17_500))));
}

#[test]
fn a_fast_peer_that_is_silent_is_given_up_soon() {
    let (mut broker, _) = holding(&mut Town::new(), 1, 1);
    let refused = broker.tick(Moment(2_010));
    assert_eq!(refused.replies[0].answer.word(), "no-candidate");
}
