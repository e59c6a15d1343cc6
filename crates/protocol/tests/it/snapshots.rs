//! A snapshot replaces all events before it: restoring it and applying the rest gives the same state as never
//! stopping, even if the rules have changed in an allowed way.

use crate::negotiation::town::{Town, name, part, together};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Owner, Policy, Running, Seconds, Time, Waiting};
use bookahead_protocol::broker::{self, Broker};
use bookahead_protocol::deadline::Adaptive;
use bookahead_protocol::ledger::{
    self, Event, HoldRules, Ledger, Offered, RestoreError, Rules, Snapshot, UserLimits, View, Views,
};
use bookahead_protocol::*;
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// Serializes and deserializes a value.
fn through_json<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

// The ledger.

/// A command. There are few ids and users, so that commands interact.
#[derive(Debug, Clone)]
struct Step {
    /// Milliseconds after the previous command.
    later: i64,
    user: &'static str,
    id: u128,
    what: Do,
    /// Whether jobs run and wait meanwhile.
    busy: bool,
}

/// Times are seconds after the command.
#[derive(Debug, Clone)]
enum Do {
    Reserve { wanted: placement::Request, hold_for: i64, book: bool },
    Hold(i64),
    Extend(i64),
    Commit,
    Attach(u128),
    Cancel,
    Release { from: i64, keep: u32 },
    Change(placement::Request),
    Probe(placement::Request),
    Lose(&'static str, u32),
    GetBack(&'static str, u32),
    Tick,
    Grant,
    Refuse,
}

fn wanted() -> impl Strategy<Value = placement::Request> {
    let window = prop_oneof![Just(0i64), 1..20i64];
    (-1..8i64, window, 1..15i64, 1..=8u32).prop_map(|(earliest, window, duration, capacity)| {
        placement::Request {
            earliest_start: Time(earliest),
            latest_end: Time(earliest + window + duration),
            duration: Seconds(duration),
            capacity: Capacity(capacity),
        }
    })
}

fn commands() -> impl Strategy<Value = Do> {
    let resource = || prop::sample::select(vec!["cluster", "other"]);
    prop_oneof![
        8 => (wanted(), 0..20_000i64, any::<bool>())
            .prop_map(|(wanted, hold_for, book)| Do::Reserve { wanted, hold_for, book }),
        1 => (0..20_000i64).prop_map(Do::Hold),
        2 => (0..20i64).prop_map(Do::Extend),
        4 => Just(Do::Grant),
        1 => Just(Do::Refuse),
        3 => Just(Do::Commit),
        1 => (0..5u128).prop_map(Do::Attach),
        2 => Just(Do::Cancel),
        2 => (0..9i64, 0..8u32).prop_map(|(from, keep)| Do::Release { from, keep }),
        2 => wanted().prop_map(Do::Change),
        1 => wanted().prop_map(Do::Probe),
        1 => (resource(), 1..5u32).prop_map(|(resource, capacity)| Do::Lose(resource, capacity)),
        1 => (resource(), 1..9u32).prop_map(|(resource, capacity)| Do::GetBack(resource, capacity)),
        1 => Just(Do::Tick),
    ]
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let later = prop_oneof![2 => Just(0i64), 4 => 1..15i64, 1 => 0..200i64];
    let user = prop::sample::select(vec!["ann", "bob", "bob"]);
    let step = (later, user, 0..16u128, commands(), prop::bool::weighted(0.3));
    let step =
        step.prop_map(|(later, user, id, what, busy)| Step { later: later * 100, user, id, what, busy });
    prop::collection::vec(step, 1..most)
}

fn offered(resource: &str, capacity: u32) -> Offered {
    let method = Method::EarliestStart { local_jobs_preferred: false };
    let slots = SlotRules { most: 5, gap: Seconds(10), natural: true };
    let placement = placement::Rules { policy: Policy::EASY, method, slots, admission: Admission::default() };
    Offered { resource: Resource::new("north", resource, "processors", capacity), placement }
}

fn rules(resources: &[(&str, u32)], retention: i64, limit_shares: bool) -> Rules {
    let resources = resources.iter().map(|(resource, capacity)| offered(resource, *capacity)).collect();
    let adaptive = Adaptive { target: 900_000, shortest: Millis(100), longest: Millis(15_000) };
    let holds = HoldRules { longest: Millis(18_000), adaptive: Some(adaptive), late_commits: true };
    let retention = Seconds(retention);
    let mut rules = Rules { holds, retention, most_answers: 20, ..Rules::new("north", resources) };
    if limit_shares {
        rules.limits.users.insert("bob".into(), UserLimits { share: Some(75), ..UserLimits::default() });
    }
    rules
}

const BOTH: [(&str, u32); 2] = [("cluster", 8), ("other", 4)];

fn some_rules() -> impl Strategy<Value = Rules> {
    let retention = prop::sample::select(vec![5i64, 86_400]);
    (retention, any::<bool>(), consents())
        .prop_map(|(retention, limit, consent)| Rules { consent, ..rules(&BOTH, retention, limit) })
}

/// Time limit for the batch system, if it is asked.
fn consents() -> impl Strategy<Value = Option<Millis>> {
    prop_oneof![Just(None), (100..20_000i64).prop_map(|limit| Some(Millis(limit)))]
}

/// Other rules for the same site: fewer or smaller resources, other retention and limits.
fn changed_rules() -> impl Strategy<Value = Rules> {
    let offers = (prop::option::of(1..=8u32), prop::option::of(1..=4u32));
    let offers = offers.prop_filter("something must be offered", |(one, two)| one.or(*two).is_some());
    (offers, prop::sample::select(vec![0i64, 5, 86_400]), any::<bool>(), consents()).prop_map(
        |((cluster, other), retention, limit, consent)| {
            let kept = [("cluster", cluster), ("other", other)];
            let kept = kept.into_iter().filter_map(|(resource, capacity)| Some((resource, capacity?)));
            Rules { consent, ..rules(&kept.collect::<Vec<_>>(), retention, limit) }
        },
    )
}

fn views(busy: bool, now: Moment) -> Views {
    if !busy {
        return Views::default();
    }
    let second = now.second();
    let running = vec![Running { expected_end: second + Seconds(6), capacity: Capacity(2), owner: 0 }];
    let (submit, estimate, capacity) = (second - Seconds(3), Seconds(9), Capacity(3));
    let waiting = vec![Waiting { submit, estimate, capacity, priority: 0, owner: Owner::NONE }];
    Views::of("cluster".into(), View { running, waiting, ..View::default() })
}

/// Sends the commands. Returns the answer, events and changes of each.
fn run(
    ledger: &mut Ledger,
    now: &mut Moment,
    key: &mut u128,
    steps: &[Step],
) -> Vec<(Option<Answer>, Vec<Event>, Vec<ledger::Change>)> {
    let mut course = Vec::new();
    for step in steps {
        *now = *now + Millis(step.later);
        *key += 1;
        let ticked = match &step.what {
            Do::Lose(resource, capacity) => {
                ledger.lost(*now, &name(resource), Capacity(*capacity), Some(&BTreeSet::new()))
            }
            Do::GetBack(resource, capacity) => ledger.restored(*now, &name(resource), Capacity(*capacity)),
            Do::Tick => ledger.tick(*now),
            Do::Grant => ledger.granted(*now, ReservationId(step.id)),
            Do::Refuse => ledger.not_granted(*now, ReservationId(step.id), Why::NotGranted("busy".into())),
            what => {
                let caller = Caller { user: name(step.user), roles: vec![] };
                let envelope =
                    Envelope { key: Key(*key), caller, call: what.call(ReservationId(step.id), *now) };
                let handled = ledger.handle(*now, &envelope, &views(step.busy, *now));
                course.push((Some(handled.answer), handled.events, handled.changes));
                continue;
            }
        };
        course.push((None, ticked.events, ticked.changes));
    }
    course
}

impl Do {
    fn call(&self, id: ReservationId, now: Moment) -> Call {
        let from_now = |wanted: &placement::Request| {
            let later = Seconds(now.second().0);
            let (earliest_start, latest_end) = (wanted.earliest_start + later, wanted.latest_end + later);
            let wanted = placement::Request { earliest_start, latest_end, ..*wanted };
            Request::single(Part::new(wanted, "processors"))
        };
        match self {
            Do::Reserve { wanted, hold_for, book } => {
                Call::Reserve { id, request: from_now(wanted), hold_for: Millis(*hold_for), book: *book }
            }
            Do::Hold(hold_for) => Call::Hold { id, hold_for: Millis(*hold_for) },
            Do::Extend(end) => Call::Extend { id, version: None, end: now.second() + Seconds(*end) },
            Do::Commit => Call::Commit { id, jobs: vec![JobId(7)] },
            Do::Attach(job) => Call::Attach { id, part: 0, job: JobId(*job) },
            Do::Cancel => Call::Cancel { id },
            Do::Release { from, keep } => Call::Release {
                id,
                part: Some(0),
                from: now.second() + Seconds(*from),
                keep: Capacity(*keep),
                end_jobs: false,
            },
            Do::Change(wanted) => Call::Change { id, version: None, request: from_now(wanted) },
            Do::Probe(wanted) => {
                Call::Probe { request: from_now(wanted), most: 9, starts: vec![now.second()] }
            }
            Do::Lose(..) | Do::GetBack(..) | Do::Tick | Do::Grant | Do::Refuse => {
                unreachable!("these are no calls")
            }
        }
    }
}

fn replayed(rules: &Rules, events: &[Event]) -> Ledger {
    let mut ledger = Ledger::new(rules.clone()).unwrap();
    events.iter().for_each(|event| drop(ledger.apply(event)));
    ledger
}

fn restored(rules: &Rules, snapshot: &Snapshot, tail: &[Event]) -> Ledger {
    let mut ledger = Ledger::restore(rules.clone(), through_json(snapshot)).unwrap();
    tail.iter().for_each(|event| drop(ledger.apply(event)));
    ledger
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_ledger_that_restarts_before_every_command_cannot_be_told_from_one_that_never_stops(
        steps in steps(60), rules in some_rules(),
    ) {
        let (mut now, mut key) = (Moment(0), 0);
        let mut ledger = Ledger::new(rules.clone()).unwrap();
        let mut restarts = ledger.clone();
        for step in &steps {
            let snapshot = restarts.snapshot();
            restarts = restored(&rules, &snapshot, &[]);
            prop_assert_eq!(&restarts, &ledger);
            prop_assert_eq!(&restarts.snapshot(), &snapshot);
            prop_assert_eq!(ledger.snapshot(), snapshot);
            prop_assert!(restarts.usage().eq(ledger.usage()));
            prop_assert_eq!(restarts.next_deadline(), ledger.next_deadline());
            for resource in ["cluster", "other"] {
                prop_assert!(restarts.reserved(&name(resource)).eq(ledger.reserved(&name(resource))));
            }
            let (mut then, mut next) = (now, key);
            let step = std::slice::from_ref(step);
            let course = run(&mut ledger, &mut now, &mut key, step);
            prop_assert_eq!(run(&mut restarts, &mut then, &mut next, step), course);
        }
    }

    #[test]
    fn a_snapshot_and_the_events_after_it_are_worth_all_events(
        before in steps(40), after in steps(20), rules in some_rules(), cut in any::<prop::sample::Index>(),
    ) {
        let (mut now, mut key) = (Moment(0), 0);
        let mut ledger = Ledger::new(rules.clone()).unwrap();
        let course = run(&mut ledger, &mut now, &mut key, &before);
        let events: Vec<Event> = course.into_iter().flat_map(|(_, events, _)| events).collect();
        // Also in the middle of a command: a journal may be cut off there.
        let cut = cut.index(events.len() + 1);
        let snapshot = replayed(&rules, &events[..cut]).snapshot();
        let mut again = restored(&rules, &snapshot, &events[cut..]);
        let mut from_the_beginning = replayed(&rules, &events);
        prop_assert_eq!(&again, &from_the_beginning);
        prop_assert_eq!(&again, &ledger);
        let [mut then, mut at] = [now; 2];
        let [mut next, mut other] = [key; 2];
        let course = run(&mut ledger, &mut now, &mut key, &after);
        prop_assert_eq!(&run(&mut again, &mut then, &mut next, &after), &course);
        prop_assert_eq!(&run(&mut from_the_beginning, &mut at, &mut other, &after), &course);
    }

    #[test]
    fn whatever_rules_have_changed_nothing_is_lost_and_nothing_hangs(
        before in steps(40), after in steps(20), old in some_rules(), new in changed_rules(),
    ) {
        let (mut now, mut key) = (Moment(0), 0);
        let mut ledger = Ledger::new(old.clone()).unwrap();
        let course = run(&mut ledger, &mut now, &mut key, &before);
        let events: Vec<Event> = course.into_iter().flat_map(|(_, events, _)| events).collect();
        let offers = |resource: &Name| new.resources.iter().any(|offered| offered.resource.name == *resource);
        let live = ledger.entries().filter(|(_, entry)| entry.is_live() && !offers(&entry.resource));
        let gone: Vec<_> = live.map(|(id, entry)| (id, entry.resource.clone())).collect();
        let expected = if gone.is_empty() { Ok(()) } else { Err(RestoreError::ResourcesGone(gone)) };
        for mut changed in [restored(&new, &ledger.snapshot(), &[]), replayed(&new, &events)] {
            prop_assert!(changed.entries().eq(ledger.entries()));
            prop_assert!(changed.denied().eq(ledger.denied()));
            prop_assert!(changed.usage().eq(ledger.usage()));
            prop_assert_eq!(changed.observed(), ledger.observed());
            prop_assert_eq!(changed.check_resources(), expected.clone());
            let back = restored(&old, &changed.snapshot(), &[]);
            prop_assert!(back.entries().eq(ledger.entries()));
            let (mut then, mut next) = (now, key);
            run(&mut changed, &mut then, &mut next, &after);
            changed.tick(then + Millis::seconds(1_000_000));
            prop_assert_eq!((changed.entries().count(), changed.answers_remembered()), (0, 0));
            prop_assert_eq!(changed.next_deadline(), None);
        }
    }
}

/// A ledger under these rules after these commands at these milliseconds, and its events.
fn told(rules: &Rules, calls: &[(i64, Call)]) -> (Ledger, Vec<Event>) {
    let mut ledger = Ledger::new(rules.clone()).unwrap();
    let mut events = Vec::new();
    for (now, call) in calls {
        events.extend(tell(&mut ledger, *now, call.clone()).1);
    }
    (ledger, events)
}

fn tell(ledger: &mut Ledger, now: i64, call: Call) -> (Answer, Vec<Event>) {
    // In these tests no moment and call occur twice.
    let key = Key(u128::try_from(now).unwrap() << 8 | call.word().len() as u128);
    let envelope = Envelope { key, caller: Caller { user: name("ada"), roles: vec![] }, call };
    let handled = ledger.handle(Moment(now), &envelope, &Views::default());
    (handled.answer, handled.events)
}

fn book(id: u128, resource: &str, begin: i64, end: i64, capacity: u32) -> Call {
    let part = part("processors", capacity, begin, end, end - begin);
    let request = Request::single(Part { resource: Some(name(resource)), ..part });
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis::ZERO, book: true }
}

const ONE: ReservationId = ReservationId(1);

#[test]
fn who_gave_up_in_the_middle_of_a_second_keeps_the_rest_of_it_across_a_restart() {
    let rules = rules(&BOTH, 60, true);
    let (ledger, _) =
        told(&rules, &[(1_000, book(1, "cluster", 1, 20, 8)), (5_500, Call::Cancel { id: ONE })]);
    let mut again = restored(&rules, &ledger.snapshot(), &[]);
    assert_eq!(tell(&mut again, 5_600, book(2, "cluster", 5, 9, 1)).0.word(), "no-room");
    assert_eq!(tell(&mut again, 5_700, book(3, "cluster", 6, 9, 8)).0.word(), "committed");
}

#[test]
fn a_live_reservation_on_a_resource_that_is_gone_is_named_and_has_its_room_again_when_it_is_back() {
    let both = rules(&BOTH, 60, false);
    let (ledger, events) = told(&both, &[(1_000, book(1, "other", 100, 200, 4))]);
    let less = rules(&BOTH[..1], 60, false);
    for without in [restored(&less, &ledger.snapshot(), &[]), replayed(&less, &events)] {
        let error = without.check_resources().unwrap_err();
        assert_eq!(error, RestoreError::ResourcesGone(vec![(ONE, name("other"))]));
        assert_eq!(
            error.to_string(),
            "live reservations use resources that the site no longer offers: rsv_1 on other; keep these \
             resources in the configuration until the reservations have ended or are cancelled"
        );
        let mut back = restored(&both, &without.snapshot(), &[]);
        assert_eq!(back.check_resources(), Ok(()));
        assert_eq!(tell(&mut back, 2_000, book(2, "other", 150, 160, 1)).0.word(), "no-room");
    }
}

#[test]
fn a_resource_whose_reservations_ended_after_the_snapshot_may_go() {
    let (mut ledger, _) = told(&rules(&BOTH, 60, false), &[(1_000, book(1, "other", 2, 9, 4))]);
    let snapshot = ledger.snapshot();
    let tail = ledger.tick(Moment(9_000)).events;
    let mut without = restored(&rules(&BOTH[..1], 60, false), &snapshot, &tail);
    assert_eq!(without.check_resources(), Ok(()));
    let (shown, _) = tell(&mut without, 10_000, Call::Show { id: ONE });
    let Answer::Reservation(Reservation { state, slots, .. }) = shown else { panic!("{shown:?}") };
    assert_eq!((state, slots), (State::Completed, vec![]), "it is remembered, on an unknown resource");
    without.tick(Moment(69_000));
    assert_eq!(without.entries().count(), 0);
}

#[test]
fn a_hold_that_expired_on_a_resource_that_is_gone_can_be_given_up_for_good_and_not_be_committed() {
    let Call::Reserve { id, request, .. } = book(1, "other", 100, 200, 4) else { unreachable!() };
    let hold = Call::Reserve { id, request, hold_for: Millis(500), book: false };
    let (mut ledger, _) = told(&rules(&BOTH, 60, false), &[(1_000, hold)]);
    ledger.tick(Moment(2_000));
    let mut without = restored(&rules(&BOTH[..1], 60, false), &ledger.snapshot(), &[]);
    let commit = Call::Commit { id, jobs: vec![] };
    assert_eq!(tell(&mut without, 3_000, commit).0.word(), "expired");
    assert_eq!(tell(&mut without, 4_000, Call::Cancel { id }).0.word(), "cancelled");
}

#[test]
fn on_a_resource_that_became_smaller_promises_stand_and_nothing_is_added_to_them() {
    let (ledger, _) = told(&rules(&BOTH, 60, true), &[(1_000, book(1, "cluster", 100, 200, 6))]);
    let mut smaller = restored(&rules(&[("cluster", 4)], 60, true), &ledger.snapshot(), &[]);
    assert_eq!(smaller.check_resources(), Ok(()));
    assert_eq!(smaller.entry(ONE).unwrap().takes()[0].capacity, Capacity(6));
    assert_eq!(tell(&mut smaller, 2_000, book(2, "cluster", 150, 160, 1)).0.word(), "no-room");
    assert_eq!(tell(&mut smaller, 3_000, book(3, "cluster", 200, 210, 4)).0.word(), "committed");
}

// The broker.

const PEERS: [&str; 3] = ["east", "north", "south"];

#[derive(Debug, Clone)]
enum Happens {
    Reserve { id: u128, parts: usize, begin: i64, capacity: u32, book: bool },
    Call { id: u128, which: usize },
    Wait(i64),
    Away(usize),
    AllBack,
    Restart,
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let wait = prop_oneof![6 => 0..8_000i64, 2 => 0..400_000i64, 1 => Just(90_000_000i64)];
    let one = prop_oneof![
        5 => (0..6u128, 1..4usize, 1..500i64, 1..8u32, any::<bool>()).prop_map(
            |(id, parts, begin, capacity, book)| Happens::Reserve { id, parts, begin, capacity, book }
        ),
        8 => (0..6u128, 0..6usize).prop_map(|(id, which)| Happens::Call { id, which }),
        3 => wait.prop_map(Happens::Wait),
        1 => (0..PEERS.len()).prop_map(Happens::Away),
        1 => Just(Happens::AllBack),
        1 => Just(Happens::Restart),
    ];
    prop::collection::vec(one, 1..30)
}

fn happen(town: &mut Town, what: &Happens) {
    let second = town.now.second();
    match *what {
        Happens::Reserve { id, parts, begin, capacity, book } => {
            let begin = second.0 + begin;
            let request = together(vec![part("processors", capacity, begin, begin + 150, 100); parts]);
            town.reserve("broker", id, request, book);
        }
        Happens::Call { id, which } => {
            let id = ReservationId(id);
            let request = Request::single(part("processors", 2, second.0 + 50, second.0 + 500, 60));
            let calls = [
                Call::Commit { id, jobs: vec![JobId(3)] },
                Call::Cancel { id },
                Call::Hold { id, hold_for: Millis::seconds(60) },
                Call::Attach { id, part: 0, job: JobId(4) },
                Call::Release {
                    id,
                    part: Some(0),
                    from: second + Seconds(20),
                    keep: Capacity(1),
                    end_jobs: false,
                },
                Call::Change { id, version: None, request },
            ];
            town.call("broker", calls[which].clone());
        }
        Happens::Wait(millis) => town.wait(millis),
        Happens::Away(peer) => drop(town.away.insert(name(PEERS[peer]))),
        Happens::AllBack => town.away.clear(),
        Happens::Restart => town.restart("broker", &PEERS, 100),
    }
}

fn broker_rules() -> broker::Rules {
    broker::Rules { maker: 100, ..broker::Rules::default() }
}

fn after(mut broker: Broker, events: &[broker::Event]) -> Broker {
    events.iter().for_each(|event| broker.apply(event));
    broker
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_snapshot_of_a_broker_and_the_events_after_it_are_worth_all_events(happenings in happenings()) {
        let mut town = Town::new();
        PEERS.iter().for_each(|peer| town.cluster(peer, 8));
        town.broker("broker", &PEERS);
        let mut cuts = Vec::new();
        for what in &happenings {
            happen(&mut town, what);
            let (live, journal) = &town.brokers[&name("broker")];
            let snapshot = live.snapshot();
            prop_assert_eq!(&through_json(&snapshot), &snapshot);
            let replayed = after(Broker::new(broker_rules()), journal);
            prop_assert_eq!(&Broker::restore(broker_rules(), through_json(&snapshot)), &replayed);
            cuts.push((journal.len(), snapshot));
        }
        let journal = &town.brokers[&name("broker")].1;
        let mut replayed = after(Broker::new(broker_rules()), journal);
        let mut last = None;
        for (cut, snapshot) in cuts {
            let again = after(Broker::restore(broker_rules(), snapshot), &journal[cut..]);
            prop_assert_eq!(&again, &replayed);
            last = Some(again);
        }
        let mut again = last.unwrap();
        prop_assert_eq!(again.next_timer(), replayed.next_timer());
        prop_assert_eq!(again.resume(town.now), replayed.resume(town.now));
    }
}
