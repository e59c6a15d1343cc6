//! A site with a batch system that answers when the test says so: reservations, and in `jobs` its jobs.

mod jobs;

use bookahead_party::batch::{BatchError, BatchOrder, BatchReport, Look, OrderId, Seen, Tagged};
use bookahead_party::site::{OnLostJournal, Site, SiteEvent, SiteOptions};
use bookahead_party::{CallId, Heartbeat, Input, Origin, Output, Party, Queries, Reply, Role};
use bookahead_plan::placement::{Method, Request as Wanted, Rules as Placement, SlotRules};
use bookahead_plan::{Capacity, Interval, Policy, Seconds, Span, Time};
use bookahead_protocol::ledger::{Offered, Rules};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{
    Answer, Call, Caller, ChangeId, Envelope, JobId, Key, Millis, Moment, NewTerms, Part, Request,
    ReservationId, Resource, State,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const LIMIT: Millis = Millis::seconds(60);

struct Bench {
    site: Site,
    now: Moment,
    calls: u64,
    journal: Vec<SiteEvent>,
}

type Out = Output<SiteEvent>;

fn rules(consent: Option<Millis>) -> Rules {
    let placement = Placement {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules::default(),
        admission: Default::default(),
    };
    let resource = Resource::new("north", "cluster", "processors", 16);
    Rules { consent, ..Rules::new("north", vec![Offered { resource, placement }]) }
}

fn about() -> Heartbeat {
    Heartbeat {
        changes: None,
        registered_by: None,
        name: "north".into(),
        url: "http://north".into(),
        role: Role::Site,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: None,
        batch: None,
        version: None,
    }
}

fn request(begin: i64, duration: i64, capacity: u32) -> Request {
    let wanted = Wanted {
        earliest_start: Time(begin),
        latest_end: Time(begin + duration),
        duration: Seconds(duration),
        capacity: Capacity(capacity),
    };
    Request::single(Part::new(wanted, "processors"))
}

fn span(begin: i64, end: i64, capacity: u32) -> Span {
    Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
}

fn caller() -> Caller {
    Caller { user: "ada".into(), roles: Vec::new() }
}

fn reserve(id: u128, begin: i64, duration: i64, capacity: u32) -> Call {
    let request = request(begin, duration, capacity);
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis::seconds(30), book: false }
}

fn seen(backings: &[(u128, Span)]) -> Look {
    let mut on = Seen::default();
    for (id, span) in backings {
        on.backings.entry(ReservationId(*id)).or_default().push(*span);
    }
    Look { resources: BTreeMap::from([("cluster".into(), Arc::new(on))]), ..Look::default() }
}

impl Bench {
    /// A site after the first look at an empty batch system.
    fn met() -> Bench {
        Bench::met_with(SiteOptions::default())
    }

    /// The same, where jobs are submitted on hold.
    fn holding_jobs() -> Bench {
        Bench::met_with(SiteOptions { holds_jobs: true, ..SiteOptions::default() })
    }

    fn met_with(options: SiteOptions) -> Bench {
        let mut bench = Bench::new(options);
        let look = look_of(&bench.start());
        bench.looked(look, seen(&[]));
        bench
    }

    fn new(options: SiteOptions) -> Bench {
        let site = Site::new(rules(Some(LIMIT)), about(), options).unwrap();
        Bench { site, now: Moment::of(Time(1_000)), calls: 0, journal: Vec::new() }
    }

    fn start(&mut self) -> Out {
        let out = self.site.start(self.now).unwrap();
        self.journal.extend(out.events.clone());
        out
    }

    /// Kills the site and restarts it from its journal.
    fn restart(&mut self) -> Out {
        self.site = Site::new(rules(Some(LIMIT)), about(), SiteOptions::default()).unwrap();
        for event in &self.journal {
            self.site.apply(event);
        }
        self.start()
    }

    fn step(&mut self, input: Input) -> Out {
        let out = self.site.step(self.now, input);
        self.journal.extend(out.events.clone());
        out
    }

    fn call(&mut self, key: u128, call: Call) -> Out {
        self.calls += 1;
        let envelope = Envelope { key: Key(key), caller: caller(), call };
        self.step(Input::Call { call: CallId(self.calls), envelope, origin: Origin::default() })
    }

    fn kept(&mut self, (order, id): (OrderId, ReservationId), outcome: Result<(), BatchError>) -> Out {
        self.step(Input::Batch(BatchReport::Kept { order, id, outcome }))
    }

    fn looked(&mut self, order: OrderId, look: Look) -> Out {
        let at = self.now;
        self.step(Input::Batch(BatchReport::Looked { order: Some(order), at, outcome: Ok(look) }))
    }

    fn pass(&mut self, seconds: i64) -> Out {
        self.now = self.now + Millis::seconds(seconds);
        self.step(Input::Time)
    }

    fn state(&self, id: u128) -> Option<State> {
        self.site.ledger().entry(ReservationId(id)).map(|entry| entry.state)
    }

    /// Makes a hold.
    fn held(&mut self, id: u128, begin: i64, capacity: u32) {
        let out = self.call(id, reserve(id, begin, 100, capacity));
        let (order, spans) = keep_of(&out, id);
        assert_eq!(spans, [span(begin, begin + 100, capacity)]);
        let out = self.kept((order, ReservationId(id)), Ok(()));
        assert_eq!(states(&out), [State::Held]);
    }
}

/// The one keep order for a reservation.
fn keep_of(out: &Out, wanted: u128) -> (OrderId, Vec<Span>) {
    let keeps = out.batch.iter().filter_map(|order| match order {
        BatchOrder::Keep { order, backing } if backing.id.0 == wanted => {
            Some((*order, backing.spans.clone()))
        }
        _ => None,
    });
    let keeps: Vec<_> = keeps.collect();
    assert_eq!(keeps.len(), 1, "{:?}", out.batch);
    keeps[0].clone()
}

fn look_of(out: &Out) -> OrderId {
    let look = out.batch.iter().find(|order| matches!(order, BatchOrder::Look { .. }));
    look.map(BatchOrder::order).expect("no look was ordered")
}

fn states(out: &Out) -> Vec<State> {
    let states = out.replies.iter().map(|(_, reply)| match reply {
        Reply::Answer(Answer::Reservation(reservation)) => reservation.state,
        other => panic!("{other:?}"),
    });
    states.collect()
}

fn refusals(out: &Out) -> Vec<Why> {
    let whys = out.replies.iter().map(|(_, reply)| match reply {
        Reply::Answer(Answer::Problem(problem)) => problem.why.clone(),
        other => panic!("{other:?}"),
    });
    whys.collect()
}

#[test]
fn a_request_is_answered_when_the_batch_system_has_granted_it_and_its_hold_counts_from_then() {
    let mut bench = Bench::met();
    let out = bench.call(1, reserve(1, 2_000, 100, 4));
    assert!(out.replies.is_empty());
    assert_eq!(bench.state(1), Some(State::Requested));
    let (order, spans) = keep_of(&out, 1);
    assert_eq!(spans, [span(2_000, 2_100, 4)]);
    bench.now = bench.now + Millis::seconds(20);
    let out = bench.kept((order, ReservationId(1)), Ok(()));
    let [(_, Reply::Answer(Answer::Reservation(held)))] = out.replies.as_slice() else { panic!("{out:?}") };
    assert_eq!((held.state, held.held_for), (State::Held, Some(Millis::seconds(30))));
}

#[test]
fn a_refusal_of_the_batch_system_is_told_with_its_words_and_the_room_is_free_again() {
    let mut bench = Bench::met();
    let (order, _) = keep_of(&bench.call(1, reserve(1, 2_000, 100, 16)), 1);
    let full = bench.call(2, reserve(2, 2_000, 100, 1));
    assert_eq!(refusals(&full).len(), 1, "what waits takes its room");
    let out = bench.kept((order, ReservationId(1)), Err(BatchError::Refused("nodes are down".into())));
    assert_eq!(refusals(&out), [Why::NotGranted("nodes are down".into())]);
    keep_of(&bench.call(3, reserve(3, 2_000, 100, 16)), 3);
}

#[test]
fn silence_is_refused_after_the_time_limit_and_a_late_grant_is_given_back() {
    let mut bench = Bench::met();
    let (order, _) = keep_of(&bench.call(1, reserve(1, 2_000, 100, 4)), 1);
    assert!(bench.pass(59).replies.is_empty());
    assert_eq!(refusals(&bench.pass(1)), [Why::BatchTimeout { waited: LIMIT }]);
    let out = bench.kept((order, ReservationId(1)), Ok(()));
    assert!(out.replies.is_empty());
    assert_eq!(keep_of(&out, 1).1, []);
}

#[test]
fn a_grant_that_comes_after_a_cancel_is_given_back() {
    let mut bench = Bench::met();
    let (order, _) = keep_of(&bench.call(1, reserve(1, 2_000, 100, 4)), 1);
    let out = bench.call(2, Call::Cancel { id: ReservationId(1) });
    assert_eq!(states(&out), [State::Cancelled, State::Cancelled], "both callers are told");
    assert!(out.batch.is_empty(), "an order is still in progress");
    assert_eq!(keep_of(&bench.kept((order, ReservationId(1)), Ok(())), 1).1, []);
}

#[test]
fn a_repeated_call_waits_too_and_gets_the_same_answer() {
    let mut bench = Bench::met();
    let (order, _) = keep_of(&bench.call(1, reserve(1, 2_000, 100, 4)), 1);
    let out = bench.call(1, reserve(1, 2_000, 100, 4));
    assert!(out.replies.is_empty() && out.batch.is_empty());
    let out = bench.kept((order, ReservationId(1)), Ok(()));
    assert_eq!(states(&out), [State::Held, State::Held]);
    assert_eq!(states(&bench.call(1, reserve(1, 2_000, 100, 4))), [State::Held]);
}

#[test]
fn after_an_unanswered_order_a_look_tells_whether_it_was_carried_out() {
    let mut bench = Bench::met();
    let (order, _) = keep_of(&bench.call(1, reserve(1, 2_000, 100, 4)), 1);
    let out = bench.kept((order, ReservationId(1)), Err(BatchError::Unknown("no answer".into())));
    assert!(out.replies.is_empty() && out.batch.is_empty(), "nothing is ordered on a guess");
    let look = look_of(&bench.pass(1));
    let out = bench.looked(look, seen(&[(1, span(2_000, 2_100, 4))]));
    assert_eq!(states(&out), [State::Held]);
}

#[test]
fn after_an_unanswered_order_that_was_not_carried_out_it_is_ordered_again() {
    let mut bench = Bench::met();
    let (order, _) = keep_of(&bench.call(1, reserve(1, 2_000, 100, 4)), 1);
    bench.kept((order, ReservationId(1)), Err(BatchError::Unknown("no answer".into())));
    let look = look_of(&bench.pass(1));
    let (order, _) = keep_of(&bench.looked(look, seen(&[])), 1);
    assert_eq!(states(&bench.kept((order, ReservationId(1)), Ok(()))), [State::Held]);
}

#[test]
fn while_the_batch_system_is_known_to_be_silent_new_requests_are_refused_at_once() {
    let mut bench = Bench::met();
    let order = look_of(&bench.pass(10));
    let (at, outcome) = (bench.now, Err(BatchError::Unknown("no answer".into())));
    bench.step(Input::Batch(BatchReport::Looked { order: Some(order), at, outcome }));
    assert_eq!(refusals(&bench.call(1, reserve(1, 2_000, 100, 4))), [Why::NoBatchSystem]);
    let order = look_of(&bench.pass(1));
    bench.looked(order, seen(&[]));
    keep_of(&bench.call(1, reserve(1, 2_000, 100, 4)), 1);
}

#[test]
fn silence_is_told_when_it_begins_and_once_more_when_it_is_over() {
    let mut bench = Bench::met();
    let mut told = Vec::new();
    // It answers every third look, and then all.
    for second in 1..60 {
        let mut orders = bench.pass(1).batch;
        orders.extend(bench.step(Input::WantLook).batch);
        let look = orders.iter().find_map(|order| match order {
            BatchOrder::Look { order } => Some(*order),
            _ => None,
        });
        let Some(order) = look else { continue };
        let silent = second < 40 && second % 3 != 0;
        let outcome = if silent { Err(BatchError::Unknown("no answer".into())) } else { Ok(seen(&[])) };
        let at = bench.now;
        let out = bench.step(Input::Batch(BatchReport::Looked { order: Some(order), at, outcome }));
        told.extend(out.remarks.into_iter().map(|remark| (remark.event, remark.message)));
    }
    let events: Vec<&str> = told.iter().map(|(event, _)| *event).collect();
    assert_eq!(events, ["batch_silent", "batch_answers"], "{told:?}");
    assert!(told[1].1.contains("queries failed"), "{told:?}");
}

#[test]
fn orders_that_go_unanswered_are_told_once_with_the_silence_that_they_belong_to() {
    let mut bench = Bench::met();
    let orders = [1, 2, 3].map(|id| keep_of(&bench.call(id, reserve(id, 2_000, 100, 4)), id).0);
    let mut told = Vec::new();
    let unknown = || BatchError::Unknown("no answer".into());
    for (order, id) in orders.into_iter().zip(1..) {
        told.extend(bench.kept((order, ReservationId(id)), Err(unknown())).remarks);
    }
    for second in 1..40 {
        let mut orders = bench.pass(1).batch;
        orders.extend(bench.step(Input::WantLook).batch);
        for order in orders {
            let at = bench.now;
            let report = match order {
                BatchOrder::Look { order } => {
                    let outcome = if second < 20 { Err(unknown()) } else { Ok(seen(&[])) };
                    BatchReport::Looked { order: Some(order), at, outcome }
                }
                BatchOrder::Keep { order, backing } => {
                    let outcome = if second < 20 { Err(unknown()) } else { Ok(()) };
                    BatchReport::Kept { order, id: backing.id, outcome }
                }
                other => panic!("{other:?}"),
            };
            told.extend(bench.step(Input::Batch(report)).remarks);
        }
    }
    let events: Vec<&str> = told.iter().map(|remark| remark.event).collect();
    assert_eq!(events, ["batch_silent", "batch_answers"], "{told:?}");
}

#[test]
fn a_look_that_began_before_a_report_does_not_undo_it() {
    let mut bench = Bench::met();
    let look = look_of(&bench.step(Input::WantLook));
    bench.held(1, 2_000, 4);
    let out = bench.looked(look, seen(&[]));
    assert!(out.batch.is_empty(), "{:?}", out.batch);
    let look = look_of(&bench.pass(10));
    assert_eq!(keep_of(&bench.looked(look, seen(&[])), 1).1, [span(2_000, 2_100, 4)], "it is gone");
}

#[test]
fn after_a_restart_a_site_looks_before_it_orders_and_grants_what_was_granted_meanwhile() {
    let mut bench = Bench::met();
    bench.call(1, reserve(1, 2_000, 100, 4));
    bench.call(2, reserve(2, 2_000, 100, 4));
    let out = bench.restart();
    let look = look_of(&out);
    assert_eq!(out.batch.len(), 1, "{:?}", out.batch);
    let out = bench.call(2, reserve(2, 2_000, 100, 4));
    assert!(out.batch.is_empty() && out.replies.is_empty());
    let out = bench.looked(look, seen(&[(1, span(2_000, 2_100, 4)), (9, span(3_000, 3_100, 2))]));
    assert_eq!(bench.state(1), Some(State::Held));
    assert_eq!(keep_of(&out, 9).1, [], "it is not promised");
    let (order, _) = keep_of(&out, 2);
    assert_eq!(states(&bench.kept((order, ReservationId(2)), Ok(()))), [State::Held]);
}

#[test]
fn room_that_is_being_given_back_is_waited_for() {
    let mut bench = Bench::met();
    bench.held(1, 2_000, 16);
    let (gives, _) = keep_of(&bench.call(2, Call::Cancel { id: ReservationId(1) }), 1);
    let out = bench.call(3, reserve(3, 2_050, 100, 16));
    assert!(out.batch.is_empty() && out.replies.is_empty());
    let out = bench.kept((gives, ReservationId(1)), Ok(()));
    assert_eq!(keep_of(&out, 3).1, [span(2_050, 2_150, 16)]);
}

#[test]
fn a_change_keeps_both_terms_until_it_is_granted_and_then_gives_the_old_back() {
    let mut bench = Bench::met();
    bench.held(1, 2_000, 4);
    bench.call(2, Call::Commit { id: ReservationId(1), jobs: Vec::new() });
    let change = Call::Change { id: ReservationId(1), version: None, request: request(2_050, 100, 4) };
    let out = bench.call(3, change);
    let (order, both) = keep_of(&out, 1);
    assert_eq!(both, [span(2_000, 2_150, 4)]);
    let out = bench.kept((order, ReservationId(1)), Ok(()));
    assert_eq!(states(&out), [State::Committed]);
    assert_eq!(keep_of(&out, 1).1, [span(2_050, 2_150, 4)]);
}

fn prepare(change: u128, begin: i64) -> Call {
    let (id, change, hold_for) = (ReservationId(1), ChangeId(change), Millis::seconds(30));
    let terms = NewTerms::Request(request(begin, 100, 4));
    Call::PrepareChange { id, change, version: None, terms, hold_for }
}

fn finish(change: u128, accept: bool) -> Call {
    Call::FinishChange { id: ReservationId(1), change: ChangeId(change), accept }
}

/// A site whose batch system keeps old and new terms of a change, waiting for the owner.
fn prepared() -> Bench {
    let mut bench = Bench::met();
    bench.held(1, 2_000, 4);
    bench.call(2, Call::Commit { id: ReservationId(1), jobs: Vec::new() });
    let out = bench.call(3, prepare(7, 2_050));
    assert!(out.replies.is_empty(), "nothing is prepared before the batch system grants it");
    let (order, both) = keep_of(&out, 1);
    assert_eq!(both, [span(2_000, 2_150, 4)]);
    assert_eq!(states(&bench.kept((order, ReservationId(1)), Ok(()))), [State::ChangeRequested]);
    bench
}

#[test]
fn a_change_is_prepared_when_both_terms_are_kept_and_the_batch_system_keeps_what_its_owner_says() {
    let mut bench = prepared();
    let out = bench.call(4, finish(7, true));
    assert_eq!((states(&out), keep_of(&out, 1).1), (vec![State::Committed], vec![span(2_050, 2_150, 4)]));
    assert!(bench.call(5, finish(7, true)).batch.is_empty(), "once");

    let mut bench = prepared();
    let out = bench.call(4, finish(7, false));
    assert_eq!((states(&out), keep_of(&out, 1).1), (vec![State::Committed], vec![span(2_000, 2_100, 4)]));

    let mut bench = prepared();
    bench.now = bench.now + Millis::seconds(30);
    let out = bench.step(Input::Time);
    assert_eq!(keep_of(&out, 1).1, [span(2_000, 2_100, 4)], "the owner did not decide in time");
}

#[test]
fn a_change_that_the_batch_system_refuses_or_does_not_grant_in_time_is_not_prepared() {
    let ask = || {
        let mut bench = Bench::met();
        bench.held(1, 2_000, 4);
        bench.call(2, Call::Commit { id: ReservationId(1), jobs: Vec::new() });
        let (order, _) = keep_of(&bench.call(3, prepare(7, 2_050)), 1);
        (bench, order)
    };
    let (mut bench, order) = ask();
    let out = bench.kept((order, ReservationId(1)), Err(BatchError::Refused("full".into())));
    assert!(matches!(refusals(&out)[..], [Why::NotGranted(_)]), "{:?}", out.replies);
    assert_eq!(bench.state(1), Some(State::Committed));

    let (mut bench, order) = ask();
    bench.now = bench.now + LIMIT;
    let out = bench.step(Input::Time);
    assert!(matches!(refusals(&out)[..], [Why::BatchTimeout { .. }]), "{:?}", out.replies);
    let out = bench.kept((order, ReservationId(1)), Ok(()));
    assert_eq!(keep_of(&out, 1).1, [span(2_000, 2_100, 4)], "what was granted too late is given back");

    let (mut bench, _) = ask();
    let out = bench.call(4, finish(7, false));
    assert_eq!(out.replies.len(), 2, "who waits is answered too: {:?}", out.replies);
    assert_eq!(bench.state(1), Some(State::Committed));
}

#[test]
fn a_change_stays_prepared_over_a_restart() {
    let mut bench = prepared();
    let look = look_of(&bench.restart());
    bench.looked(look, seen(&[(1, span(2_000, 2_150, 4))]));
    assert_eq!(bench.state(1), Some(State::ChangeRequested));
    let out = bench.call(4, finish(7, true));
    assert_eq!((states(&out), keep_of(&out, 1).1), (vec![State::Committed], vec![span(2_050, 2_150, 4)]));
}

#[test]
fn a_commit_in_time_needs_no_batch_system() {
    let mut bench = Bench::met();
    bench.held(1, 2_000, 4);
    let out = bench.call(2, Call::Commit { id: ReservationId(1), jobs: Vec::new() });
    assert!(out.batch.is_empty());
    assert_eq!(states(&out), [State::Committed]);
}

/// One reservation of this site.
fn found() -> Look {
    let tagged = Tagged {
        id: ReservationId(7),
        owner: Some("ada".into()),
        resource: "cluster".into(),
        spans: vec![span(2_000, 2_100, 4)],
        tres: Default::default(),
    };
    Look { tagged: vec![tagged], ..seen(&[(7, span(2_000, 2_100, 4))]) }
}

#[test]
fn a_site_knows_nothing_before_the_look_that_it_ordered() {
    let options = SiteOptions { on_lost_journal: Some(OnLostJournal::Adopt), ..SiteOptions::default() };
    let mut bench = Bench::new(options);
    let look = look_of(&bench.start());
    let looks = |bench: &Bench| bench.site.batch_health(bench.now).unwrap().look_age.is_some();
    let at = bench.now;
    bench.step(Input::Batch(BatchReport::Looked { order: None, at, outcome: Ok(found()) }));
    assert_eq!((bench.state(7), looks(&bench)), (None, false));
    bench.looked(look, found());
    assert_eq!((bench.state(7), looks(&bench)), (Some(State::Committed), true));
}

#[test]
fn a_site_with_a_new_journal_stops_adopts_or_gives_back_what_it_finds() {
    let start = |what| {
        let options = SiteOptions { on_lost_journal: Some(what), ..SiteOptions::default() };
        let mut bench = Bench::new(options);
        let look = look_of(&bench.start());
        let out = bench.looked(look, found());
        (bench, out)
    };
    let (_, out) = start(OnLostJournal::Ask);
    assert!(out.stop.is_some_and(|why| why.contains("--adopt")) && out.batch.is_empty());
    let (bench, out) = start(OnLostJournal::Adopt);
    assert_eq!((bench.state(7), out.batch.len()), (Some(State::Committed), 0));
    let (bench, out) = start(OnLostJournal::Remove);
    assert_eq!((bench.state(7), keep_of(&out, 7).1), (None, Vec::new()));
}

#[test]
fn a_scheduler_in_this_process_is_told_of_room_at_once_and_of_what_is_given_back_when_it_is_durable() {
    let mut site = Site::new(rules(None), about(), SiteOptions::default()).unwrap();
    let now = Moment::of(Time(1_000));
    site.start(now).unwrap();
    let mut step = |number: u64, call| {
        let envelope = Envelope { key: Key(u128::from(number)), caller: caller(), call };
        site.step(now, Input::Call { call: CallId(number), envelope, origin: Origin::default() })
    };
    let out = step(1, reserve(1, 2_000, 100, 4));
    assert_eq!(states(&out), [State::Held]);
    assert_eq!((out.batch_now.len(), out.batch.len()), (1, 0));
    let out = step(2, Call::Cancel { id: ReservationId(1) });
    assert_eq!((out.batch_now.len(), out.batch.len()), (0, 1));
}
