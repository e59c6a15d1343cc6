//! Offers that are equal by the objective are ordered by rating, cost, impact, start and name, regardless of
//! the order of answers.

use super::town::{name, part};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::broker::{Broker, Outgoing, Rules};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, Impact, Key, Moment, Offer, Rating, Request, Resource, Slot, Tres,
};

/// Site, rating, cost, delay and start of the offers, best first; all end at the same time.
const OFFERED: [(&str, u32, u64, i64); 6] = [
    ("west", 900, 30, 50),
    ("east", 800, 10, 90),
    ("north", 800, 20, 10),
    ("south", 800, 20, 40),
    ("upper", 800, 20, 40),
    ("lower", 700, 0, 0),
];

fn slot(site: &str) -> Slot {
    let (_, rating, cost, delay) = OFFERED.into_iter().find(|(name, ..)| *name == site).unwrap();
    let impact = Impact { delayed: 1, total_delay: Seconds(delay), longest_delay: Seconds(delay) };
    Slot {
        resource: name("cluster"),
        site: name(site),
        joins: None,
        interval: Interval::new(Time(100), Time(200)),
        capacity: bookahead_plan::Capacity(4),
        slack: Seconds(0),
        free: None,
        rating: Some(Rating(rating)),
        impact: Some(impact),
        cost,
        tres: Tres::default(),
        free_tres: Tres::default(),
    }
}

/// The sites of the offers, with peers answering in the permutation `number`.
fn offered(number: usize, rules: Rules) -> Vec<String> {
    let mut broker = Broker::new(rules);
    for (site, ..) in OFFERED {
        broker.register(name(site), vec![Resource::new(site, "cluster", "processors", 8)], None);
    }
    broker.resume(Moment(0));
    let request = Request::single(part("processors", 4, 100, 200, 100));
    let call = Call::Probe { request, most: 9, starts: Vec::new() };
    let caller = Caller { user: name("ada"), roles: Vec::new() };
    let envelope = Envelope { key: Key(1), caller, call };
    let mut asked = broker.handle(Moment(0), &name("ada"), &envelope).send;
    let mut replies = Vec::new();
    let mut left = number;
    while !asked.is_empty() {
        let Outgoing { to, envelope } = asked.remove(left % asked.len());
        left /= 2;
        let answer = Answer::Offers(vec![Offer { slots: vec![slot(to.as_str())] }]);
        let effects = broker.on_answer(Moment(10), &to, envelope.key, &answer);
        asked.extend(effects.send);
        replies.extend(effects.replies);
    }
    let [reply] = replies.as_slice() else { panic!("{replies:?}") };
    let Answer::Offers(offers) = &reply.answer else { panic!("{reply:?}") };
    offers.iter().map(|offer| offer.slots[0].site.to_string()).collect()
}

#[test]
fn the_same_probe_gets_the_same_order_whoever_answers_first() {
    let expected: Vec<&str> = OFFERED.iter().map(|(site, ..)| *site).collect();
    for number in 0..64 {
        assert_eq!(offered(number, Rules::default()), expected, "{number}");
        let few = Rules { probes_at_once: 2, ..Rules::default() };
        assert_eq!(offered(number, few), expected, "{number}, two at once");
    }
}
