//! The course of a booking: the calls to peers, and the results.

use super::town::{Town, name, part, reservation, together, why};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::broker::{Broker, Rules};
use bookahead_protocol::ledger::Ledger;
use bookahead_protocol::missing::Missing;
use bookahead_protocol::{
    Answer, Call, Caller, Constraint, Envelope, JobId, Key, Millis, Moment, Part, Request, Requirement,
    Reservation, ReservationId, Resource, State, Test, Why,
};

fn two_clusters() -> Town {
    let mut town = Town::new();
    town.cluster("north", 8);
    town.cluster("south", 8);
    town.broker("broker", &["north", "south"]);
    town
}

fn four_clusters() -> Town {
    let mut town = two_clusters();
    town.cluster("east", 8);
    town.cluster("west", 8);
    town.broker("broker", &["east", "north", "south", "west"]);
    town
}

fn pair() -> Request {
    together(vec![part("processors", 6, 100, 1_000, 100), part("processors", 6, 100, 1_000, 100)])
}

#[test]
fn two_parts_are_probed_held_and_committed_together() {
    let mut town = two_clusters();
    let held = reservation(town.reserve("broker", 1, pair(), false));
    assert_eq!(held.state, State::Held);
    assert!(held.held_for.is_some_and(|left| left > Millis::ZERO && left <= Millis::seconds(30)), "{held:?}");
    let [one, other] = held.slots.as_slice() else { panic!("{held:?}") };
    assert_eq!((one.interval, one.interval.begin), (other.interval, Time(100)));
    assert_ne!(one.site, other.site);
    assert_eq!((town.states("north"), town.states("south")), (vec![State::Held], vec![State::Held]));

    let committed = reservation(town.commit("broker", 1));
    assert_eq!(committed.state, State::Committed);
    assert_eq!(
        (town.states("north"), town.states("south")),
        (vec![State::Committed], vec![State::Committed])
    );
    assert!(town.head("broker").is_settled());
    for site in ["north", "south"] {
        let calls = ["probe", "reserve", "commit", "cancel"].map(|word| town.heard(site, word));
        assert_eq!(calls, [1, 1, 1, 0], "{site}: one probe for parts that are the same");
    }
}

#[test]
fn booking_at_once_needs_no_second_call() {
    let mut town = two_clusters();
    assert_eq!(reservation(town.reserve("broker", 1, pair(), true)).state, State::Committed);
    assert_eq!(town.states("north"), [State::Committed]);
}

#[test]
fn a_probe_tells_candidates_and_books_nothing() {
    let mut town = two_clusters();
    let probe = Call::Probe { request: pair(), most: 3, starts: vec![] };
    let Some(Answer::Offers(offers)) = town.call("broker", probe) else { panic!("no offers") };
    assert_eq!(offers.len(), 2, "either way round");
    assert_eq!(offers[0].slots[0].resource, name("north/cluster"));
    assert!(town.states("north").is_empty() && town.head("broker").bookings().next().is_none());
}

#[test]
fn one_refusal_gives_the_others_back_and_the_next_candidate_is_tried() {
    let mut town = four_clusters();
    // West does not answer, so the survey takes its time; meanwhile another client books north.
    town.away.insert(name("west"));
    let hold_for = Millis::seconds(30);
    let wanted = together(vec![part("processors", 6, 100, 200, 100), part("processors", 6, 100, 200, 100)]);
    let reserve =
        town.envelope(Call::Reserve { id: ReservationId(1), request: wanted, hold_for, book: false });
    assert_eq!(town.send("broker", &reserve), None);
    reservation(town.reserve("north", 2, Request::single(part("processors", 8, 100, 200, 100)), true));
    town.wait(6_000);
    let held = reservation(town.send("broker", &reserve));
    let sites: Vec<&str> = held.slots.iter().map(|slot| slot.site.as_str()).collect();
    assert_eq!(sites, ["east", "south"]);
    assert_eq!((town.heard("east", "reserve"), town.heard("east", "cancel")), (2, 1));
    assert_eq!(town.states("east"), [State::Cancelled, State::Held]);
    assert_eq!(town.states("north"), [State::Committed]);
    assert!(town.head("broker").is_settled());
}

#[test]
fn who_does_not_answer_a_survey_is_left_out() {
    let mut town = two_clusters();
    let wanted = Request::single(part("processors", 8, 100, 300, 100));
    let hold_for = Millis::seconds(30);
    let book = town.envelope(Call::Reserve { id: ReservationId(1), request: wanted, hold_for, book: true });
    town.away.insert(name("north"));
    assert_eq!(town.send("broker", &book), None);
    town.wait(6_000);
    assert_eq!(reservation(town.send("broker", &book)).slots[0].site, name("south"));
    town.away.insert(name("south"));
    let nobody = town.reserve("broker", 2, pair(), false);
    assert_eq!(nobody, None);
    town.wait(6_000);
    let again = Call::Reserve { id: ReservationId(2), request: pair(), hold_for, book: false };
    assert_eq!(why(town.call("broker", again)), Why::Silence);
}

#[test]
fn who_does_not_answer_a_hold_is_left_out() {
    let mut town = four_clusters();
    town.away.insert(name("west"));
    let hold_for = Millis::seconds(30);
    let book = town.envelope(Call::Reserve { id: ReservationId(1), request: pair(), hold_for, book: true });
    assert_eq!(town.send("broker", &book), None);
    // North answered the survey, then becomes silent.
    town.away.insert(name("north"));
    town.wait(16_000);
    let booked = reservation(town.send("broker", &book));
    let sites: Vec<&str> = booked.slots.iter().map(|slot| slot.site.as_str()).collect();
    assert_eq!((booked.state, sites), (State::Committed, vec!["east", "south"]));
    assert!(!town.head("broker").is_settled(), "north may hold it and is asked to give it back");
    town.away.clear();
    town.wait(60_000);
    assert!(town.head("broker").is_settled());
}

#[test]
fn what_nobody_has_is_refused_with_the_reason() {
    let mut town = two_clusters();
    let qpu = Request::single(part("qpu", 1, 100, 300, 100));
    assert_eq!(
        why(town.reserve("broker", 1, qpu, false)),
        Why::no_such_resource(0, 1, name("qpu"), Some(Missing::Kind { offered: vec![name("processors")] }))
    );
    let wide = Request::single(part("processors", 9, 100, 300, 100));
    let wide = why(town.reserve("broker", 2, wide, false));
    assert!(wide.to_string().ends_with("capacity of 9; the largest has 8"), "{wide}");
    let elsewhere = Part { resource: Some(name("west/a")), ..part("processors", 1, 100, 300, 100) };
    let elsewhere = why(town.reserve("broker", 7, Request::single(elsewhere), false));
    assert!(elsewhere.to_string().starts_with("there is no resource west/a; there is north/"), "{elsewhere}");
    reservation(town.reserve("north", 3, Request::single(part("processors", 8, 0, 500, 500)), true));
    reservation(town.reserve("south", 4, Request::single(part("processors", 8, 0, 500, 500)), true));
    let full = Request::single(part("processors", 8, 100, 300, 100));
    let Some(Answer::Problem(problem)) = town.reserve("broker", 5, full, false) else { panic!("granted") };
    assert_eq!(problem.why.code(), "no-room");
    assert!(!problem.relaxations.is_empty(), "a site's counter-offers are passed on");
    let shown = reservation(town.call("broker", Call::Show { id: ReservationId(5) }));
    let refused = shown.refused.unwrap();
    assert_eq!((shown.state, refused.code.as_str()), (State::Rejected, "no-room"));
    assert_eq!(refused.detail, problem.why.to_string());
    assert_eq!(why(town.reserve("broker", 6, pair_with(0), false)).code(), "malformed");
}

fn pair_with(capacity: u32) -> Request {
    together(vec![part("processors", capacity, 100, 1_000, 100), part("processors", 6, 100, 1_000, 100)])
}

#[test]
fn a_hold_that_is_not_committed_in_time_is_given_back() {
    let mut town = two_clusters();
    reservation(town.reserve("broker", 1, pair(), false));
    town.wait(31_000);
    assert_eq!(why(town.commit("broker", 1)), Why::Expired);
    assert_eq!(
        (town.states("north"), town.states("south")),
        (vec![State::Cancelled], vec![State::Cancelled])
    );
    assert!(town.head("broker").is_settled());
}

#[test]
fn a_hold_can_be_made_longer() {
    let mut town = two_clusters();
    let before = reservation(town.reserve("broker", 1, pair(), false));
    town.wait(20_000);
    let longer = Call::Hold { id: ReservationId(1), hold_for: Millis::seconds(60) };
    let after = reservation(town.call("broker", longer));
    assert!(after.held_for > before.held_for, "{after:?}");
    town.wait(30_000);
    assert_eq!(reservation(town.commit("broker", 1)).state, State::Committed);
}

#[test]
fn cancelling_gives_all_parts_back_whatever_the_state() {
    for committed in [false, true] {
        let mut town = two_clusters();
        reservation(town.reserve("broker", 1, pair(), committed));
        let cancelled = reservation(town.call("broker", Call::Cancel { id: ReservationId(1) }));
        assert_eq!(cancelled.state, State::Cancelled);
        assert_eq!(
            (town.states("north"), town.states("south")),
            (vec![State::Cancelled], vec![State::Cancelled])
        );
        assert_eq!(why(town.commit("broker", 1)).code(), "illegal");
        assert!(town.head("broker").is_settled());
    }
}

#[test]
fn what_was_cancelled_before_it_arrived_is_never_booked() {
    let mut town = two_clusters();
    assert_eq!(
        why(town.call("broker", Call::Cancel { id: ReservationId(1) })),
        Why::NothingToCancel(ReservationId(1))
    );
    assert_eq!(why(town.reserve("broker", 1, pair(), true)), Why::CancelledBefore(ReservationId(1)));
    assert!(town.states("north").is_empty());
}

fn by(user: &str, key: u128, call: Call) -> Envelope {
    Envelope { key: Key(1_000_000 + key), caller: Caller { user: name(user), roles: vec![] }, call }
}

#[test]
fn an_id_that_somebody_cancelled_is_free_for_others() {
    let mut town = two_clusters();
    for id in 1..=2_000 {
        let cancel = Call::Cancel { id: ReservationId(id) };
        assert_eq!(why(town.send("broker", &by("eve", id, cancel))).code(), "cancelled-before");
    }
    let kept = town.brokers[&name("broker")].0.snapshot();
    assert!(serde_json::to_string(&kept).unwrap().len() < 100_000, "eve's are forgotten, the oldest first");
    assert_eq!(reservation(town.reserve("broker", 2_000, pair(), true)).state, State::Committed);
    let cancel = Call::Cancel { id: ReservationId(2_000) };
    assert_eq!(why(town.send("broker", &by("eve", 3_000, cancel))).code(), "not-owner");
    // Ids of later parts cannot be guessed either, so they cannot be cancelled at a site.
    let ids: Vec<ReservationId> = town.sites[&name("north")].entries().map(|(id, _)| id).collect();
    assert_eq!(
        reservation(town.reserve(
            "broker",
            3_000,
            Request::single(part("processors", 1, 100, 1_000, 100)),
            true
        ))
        .state,
        State::Committed
    );
    let next: Vec<u128> = town
        .sites
        .values()
        .flat_map(Ledger::entries)
        .map(|(id, _)| id.0)
        .filter(|id| !ids.contains(&ReservationId(*id)))
        .collect();
    assert!(next.iter().all(|next| next.abs_diff(ids[0].0) > 1 << 64), "{ids:?} {next:x?}");
}

#[test]
fn of_what_was_refused_little_is_kept_however_large_it_was() {
    let mut town = two_clusters();
    let requirement = Requirement { attribute: name(&"x".repeat(255)), test: Test::Present };
    let mut huge = part("processors", 1, 100, 1_000, 100);
    huge.requirements = vec![requirement; 1_000];
    let reserve = |id: u128| {
        let request =
            Request { webhook: Some("https://example.org/x".into()), ..Request::single(huge.clone()) };
        Call::Reserve { id: ReservationId(id), request, hold_for: Millis::seconds(30), book: true }
    };
    let first = by("eve", 1, reserve(1));
    let refused = why(town.send("broker", &first));
    let written = |town: &Town| serde_json::to_string(&town.brokers[&name("broker")].1).unwrap().len();
    assert!(written(&town) < 5_000, "{} bytes were written", written(&town));
    assert_eq!(why(town.send("broker", &first)), refused, "it is the same call");
    assert_eq!(why(town.send("broker", &by("eve", 2, reserve(1)))), refused, "and the same request");
    let other =
        Call::Reserve { id: ReservationId(1), request: pair(), hold_for: Millis::seconds(30), book: true };
    assert_eq!(why(town.send("broker", &by("eve", 3, other))).code(), "id-taken");
    for id in 2..=400 {
        why(town.send("broker", &by("eve", 10 + id, reserve(id))));
    }
    assert_eq!(town.head("broker").bookings().count(), 256, "the oldest are forgotten");
    let (head, events) = &town.brokers[&name("broker")];
    let mut replayed = Broker::new(Rules { maker: 100, ..Rules::default() });
    events.iter().for_each(|event| replayed.apply(event));
    assert!(replayed.bookings().eq(head.bookings()));
    assert_eq!(
        Broker::restore(Rules { maker: 100, ..Rules::default() }, head.snapshot()).snapshot(),
        head.snapshot()
    );
}

#[test]
fn a_repeated_call_has_one_effect_and_the_same_answer() {
    let mut town = two_clusters();
    let request = pair();
    let reserve = town.envelope(Call::Reserve {
        id: ReservationId(1),
        request,
        hold_for: Millis::seconds(30),
        book: false,
    });
    let first = reservation(town.send("broker", &reserve));
    let commit = town.envelope(Call::Commit { id: ReservationId(1), jobs: vec![] });
    let committed = town.send("broker", &commit);
    town.wait(1_000);
    let again = reservation(town.send("broker", &reserve));
    assert_eq!((again.state, &again.slots), (State::Held, &first.slots), "the answer of the first time");
    let left = |held: &Reservation| held.held_for.map_or(0, |left| left.0);
    assert_eq!(left(&again), left(&first) - 1_000, "its countdown has gone on");
    assert_eq!(town.send("broker", &commit), committed);
    assert_eq!(town.states("north").len(), 1);

    let mut other = commit.clone();
    other.call = Call::Cancel { id: ReservationId(1) };
    assert_eq!(why(town.send("broker", &other)).code(), "key-taken");
    assert_eq!(why(town.reserve("broker", 1, pair_with(1), false)), Why::IdTaken(ReservationId(1)));
}

#[test]
fn only_the_owner_may_touch_it() {
    let mut town = two_clusters();
    reservation(town.reserve("broker", 1, pair(), false));
    let mut envelope = town.envelope(Call::Cancel { id: ReservationId(1) });
    envelope.caller.user = name("bob");
    assert_eq!(why(town.send("broker", &envelope)), Why::NotOwner(ReservationId(1)));
    envelope.caller.roles = vec![name("operator")];
    assert_eq!(reservation(town.send("broker", &envelope)).state, State::Cancelled);
}

#[test]
fn jobs_and_early_release_reach_the_part_they_are_meant_for() {
    let mut town = two_clusters();
    reservation(town.reserve("broker", 1, pair(), true));
    let attach = Call::Attach { id: ReservationId(1), part: 1, job: JobId(7) };
    assert_eq!(reservation(town.call("broker", attach)).jobs, [(1, JobId(7))]);
    let south = town.sites[&name("south")].entries().next().map(|(_, entry)| entry.jobs.clone());
    let north = town.sites[&name("north")].entries().next().map(|(_, entry)| entry.jobs.clone());
    assert_eq!((north, south), (Some(vec![]), Some(vec![JobId(7)])));

    let id = ReservationId(1);
    let release = Call::Release { id, part: Some(0), from: Time(150), keep: Capacity(0), end_jobs: false };
    let released = reservation(town.call("broker", release));
    assert_eq!(released.slots[0].interval.end, Time(150));
    assert_eq!(released.slots[1].interval.end, Time(200));
    let missing = Call::Release { id, part: Some(5), from: Time(150), keep: Capacity(0), end_jobs: false };
    assert_eq!(why(town.call("broker", missing)), Why::NoSuchPart(5));
}

#[test]
fn jobs_come_after_the_commit_and_name_their_part_where_there_are_several() {
    let mut town = two_clusters();
    let id = ReservationId(1);
    reservation(town.reserve("broker", 1, pair(), false));
    let commit = Call::Commit { id, jobs: vec![JobId(7)] };
    assert_eq!(why(town.call("broker", commit.clone())).code(), "unsupported");
    assert_eq!(reservation(town.call("broker", Call::Show { id })).state, State::Held, "nothing is lost");
    reservation(town.call("broker", Call::Commit { id, jobs: Vec::new() }));
    assert_eq!(why(town.call("broker", commit)).code(), "unsupported");
    let attach = Call::Attach { id, part: 1, job: JobId(7) };
    assert_eq!(reservation(town.call("broker", attach)).jobs, [(1, JobId(7))]);
}

#[test]
fn a_release_names_its_part_where_there_are_several() {
    let mut town = two_clusters();
    reservation(town.reserve("broker", 1, pair(), true));
    let release = |id| Call::Release { id, part: None, from: Time(150), keep: Capacity(0), end_jobs: false };
    assert_eq!(why(town.call("broker", release(ReservationId(1)))), Why::WhichPart(2));
    let shown = reservation(town.call("broker", Call::Show { id: ReservationId(1) }));
    assert!(shown.slots.iter().all(|slot| slot.interval.end == Time(200)));
    let single = Request::single(part("processors", 4, 100, 1_000, 100));
    let begin = reservation(town.reserve("broker", 2, single, true)).slots[0].interval.begin;
    let release = Call::Release {
        id: ReservationId(2),
        part: None,
        from: begin + Seconds(50),
        keep: Capacity(0),
        end_jobs: false,
    };
    assert_eq!(reservation(town.call("broker", release)).slots[0].interval.end, begin + Seconds(50));
}

#[test]
fn other_terms_are_passed_on_for_one_part_and_refused_for_several() {
    let mut town = two_clusters();
    let single = Request::single(part("processors", 4, 100, 1_000, 100));
    reservation(town.reserve("broker", 1, single, true));
    let request = Request::single(part("processors", 4, 300, 400, 100));
    let change = Call::Change { id: ReservationId(1), version: Some(1), request: request.clone() };
    let changed = reservation(town.call("broker", change));
    assert_eq!((changed.slots[0].interval.begin, changed.version), (Time(300), 2));
    let stale = Call::Change { id: ReservationId(1), version: Some(1), request: request.clone() };
    assert_eq!(why(town.call("broker", stale)), Why::Changed { seen: 1, now: 2 });
    reservation(town.reserve("broker", 2, pair_with(2), true));
    let both = Call::Change { id: ReservationId(2), version: None, request };
    assert_eq!(why(town.call("broker", both)).code(), "unsupported");
}

#[test]
fn a_reservation_at_a_broker_is_made_longer_where_its_site_has_room() {
    let mut town = two_clusters();
    let single = Request::single(part("processors", 4, 100, 200, 100));
    reservation(town.reserve("broker", 1, single, true));
    let extend = |version, end| Call::Extend { id: ReservationId(1), version, end: Time(end) };
    let longer = reservation(town.call("broker", extend(Some(1), 300)));
    assert_eq!(
        (longer.state, longer.slots[0].interval.end, longer.version),
        (State::Committed, Time(300), 2)
    );
    assert_eq!(why(town.call("broker", extend(Some(1), 400))), Why::Changed { seen: 1, now: 2 });
    town.wait(150_000);
    let active = reservation(town.call("broker", extend(Some(2), 350)));
    assert_eq!((active.state, active.slots[0].interval.end), (State::Active, Time(350)));
    let site = active.slots[0].site.clone();
    let there = town.sites[&site].entries().next().map(|(_, entry)| entry.end());
    assert_eq!(there, Some(Time(350)));
    reservation(town.reserve("broker", 2, pair_with(2), false));
    let held = Call::Extend { id: ReservationId(2), version: None, end: Time(9_999) };
    assert_eq!(why(town.call("broker", held)).code(), "illegal");
}

#[test]
fn a_link_is_booked_between_the_sites_that_were_chosen() {
    let mut town = Town::new();
    town.cluster("north", 8);
    town.site("south", vec![Resource::new("south", "wall", "seats", 4)]);
    let mut wrong = Resource::new("net", "east", "bandwidth", 10);
    wrong.joins = Some([name("north"), name("east")]);
    let mut right = Resource::new("net", "south", "bandwidth", 10);
    right.joins = Some([name("south"), name("north")]);
    town.site("net", vec![wrong, right]);
    town.broker("broker", &["north", "south", "net"]);
    let parts = vec![
        part("processors", 8, 100, 1_000, 100),
        part("seats", 2, 100, 1_000, 100),
        part("bandwidth", 5, 100, 1_000, 100),
    ];
    let mut constraints = vec![Constraint::Joins { link: 2, ends: [0, 1] }];
    constraints.extend([1, 2].map(|second| Constraint::Offset { first: 0, second, by: Seconds(0) }));
    let request = Request::new(parts, constraints);
    let booked = reservation(town.reserve("broker", 1, request, true));
    assert_eq!(booked.slots[2].resource, name("net/south"));
}

#[test]
fn brokers_stack_three_levels_deep_and_are_asked_like_sites() {
    let mut town = two_clusters();
    town.cluster("west", 2);
    town.broker("middle", &["broker", "west"]);
    town.broker("top", &["middle"]);
    let held = reservation(town.reserve("top", 1, pair(), false));
    assert_eq!(held.slots[0].resource, name("middle/broker/north/cluster"));
    assert_eq!((town.states("north"), town.states("south")), (vec![State::Held], vec![State::Held]));
    for broker in ["broker", "middle"] {
        let levels: Vec<&str> =
            town.heard.iter().filter(|(_, to, _)| *to == name(broker)).map(|(_, _, word)| *word).collect();
        assert!(!levels.contains(&"commit") && !levels.contains(&"book"), "a hold sends no more than holds");
    }
    assert_eq!(reservation(town.commit("top", 1)).state, State::Committed);
    assert_eq!(
        (town.states("north"), town.states("south")),
        (vec![State::Committed], vec![State::Committed])
    );
    let cancelled = reservation(town.call("top", Call::Cancel { id: ReservationId(1) }));
    assert_eq!(cancelled.state, State::Cancelled);
    assert_eq!(
        (town.states("north"), town.states("south")),
        (vec![State::Cancelled], vec![State::Cancelled])
    );
    assert!(["broker", "middle", "top"].iter().all(|broker| town.head(broker).is_settled()));
}

#[test]
fn bookings_begin_end_and_are_forgotten() {
    let mut town = two_clusters();
    reservation(town.reserve("broker", 1, pair(), true));
    let show = |town: &mut Town| town.call("broker", Call::Show { id: ReservationId(1) });
    town.wait(150_000);
    assert_eq!(reservation(show(&mut town)).state, State::Active);
    town.wait(60_000);
    assert_eq!(reservation(show(&mut town)).state, State::Completed);
    town.wait(Moment::of(Time(86_400)).0);
    assert_eq!(why(show(&mut town)), Why::Unknown(ReservationId(1)));
    assert!(town.head("broker").next_timer().is_none(), "nothing is left");
}

#[test]
fn a_peer_that_holds_something_else_than_it_was_asked_for_has_refused() {
    let wrong: [fn(&mut Reservation); 4] = [
        |held| held.slots[0].interval.end = Time(150),
        |held| held.slots[0].capacity = Capacity(3),
        |held| held.id = ReservationId(99),
        |held| held.held_for = None,
    ];
    for change in wrong {
        let mut town = Town::new();
        town.cluster("north", 8);
        let mut broker = Broker::new(Rules::default());
        broker.register(name("north"), town.offers("north"), None);
        broker.resume(Moment(0));
        let request = Request::single(part("processors", 4, 100, 200, 100));
        let call = Call::Reserve { id: ReservationId(1), request, hold_for: Millis::seconds(30), book: true };
        let reserve = town.envelope(call);
        let probe = broker.handle(Moment(0), &name("ada"), &reserve).send.remove(0);
        let offers = town.send("north", &probe.envelope).unwrap();
        let hold = broker.on_answer(Moment(0), &name("north"), probe.envelope.key, &offers).send.remove(0);
        let mut held = reservation(town.send("north", &hold.envelope));
        change(&mut held);
        let answer = Answer::Reservation(held);
        let effects = broker.on_answer(Moment(0), &name("north"), hold.envelope.key, &answer);
        assert_eq!(effects.send[0].envelope.call.word(), "cancel", "what it holds is given back");
        assert_eq!(effects.replies[0].answer.word(), "no-candidate");
    }
}
