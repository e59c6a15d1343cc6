//! The ledger of a site, from outside: each path of a reservation's life, each refusal, and invariants after
//! any sequence of commands.

mod described;
mod ended;
mod failures;
mod holds;
mod kept;
mod life;
mod limits;
mod once;
mod placing;
mod plain;
mod prepared;
mod queues;
mod random;
mod refusals;
mod tres;
mod waiting;

use bookahead_plan::placement::{self, Admission, Method, SlotRules, Weights};
use bookahead_plan::{Capacity, Owner, Policy, Running, Seconds, Span, Time, Waiting};
use bookahead_protocol::ledger::{Change, Event, Handled, Ledger, Offered, Rules, Ticked, View, Views, What};
use bookahead_protocol::*;

const VACANCIES: Method = Method::EarliestStart { local_jobs_preferred: false };
const LOCAL_JOBS: Method = Method::EarliestStart { local_jobs_preferred: true };
const WHAT_IF: Method = Method::WhatIf(Weights::EVEN);

fn offered(name: &str, capacity: u32, method: Method) -> Offered {
    let slots = SlotRules { most: 5, gap: Seconds(10), natural: true };
    let admission = Admission::default();
    Offered {
        resource: Resource::new("north", name, "processors", capacity),
        placement: placement::Rules { policy: Policy::EASY, method, slots, admission },
    }
}

/// Eight processors, everything revealed, no limits.
fn rules() -> Rules {
    Rules::new("north", vec![offered("cluster", 8, VACANCIES)])
}

fn wanted(earliest: i64, latest_end: i64, duration: i64, capacity: u32) -> placement::Request {
    placement::Request {
        earliest_start: Time(earliest),
        latest_end: Time(latest_end),
        duration: Seconds(duration),
        capacity: Capacity(capacity),
    }
}

fn request(wanted: placement::Request) -> Request {
    Request::single(Part::new(wanted, "processors"))
}

/// A request with exactly one possible start.
fn fixed(begin: i64, end: i64, capacity: u32) -> Request {
    request(wanted(begin, end, end - begin, capacity))
}

fn caller(user: &str) -> Caller {
    Caller { user: user.into(), roles: vec![] }
}

fn span(begin: i64, end: i64, capacity: u32) -> Span {
    Span::starting(Time(begin), Seconds(end - begin), Capacity(capacity))
}

fn running(until: i64, capacity: u32) -> Running {
    Running { expected_end: Time(until), capacity: Capacity(capacity), owner: 0 }
}

fn waiting(submit: i64, estimate: i64, capacity: u32) -> Waiting {
    Waiting {
        submit: Time(submit),
        estimate: Seconds(estimate),
        capacity: Capacity(capacity),
        priority: 0,
        owner: Owner::NONE,
    }
}

/// A ledger, the results of its commands so far, and its views.
struct Site {
    ledger: Ledger,
    views: Views,
    events: Vec<Event>,
    changes: Vec<Change>,
    /// The last key made; keys named by a test are smaller.
    keys: u128,
}

impl Site {
    fn new(rules: Rules) -> Site {
        let ledger = Ledger::new(rules).unwrap();
        Site { ledger, views: Views::default(), events: vec![], changes: vec![], keys: 1_000_000 }
    }

    fn show(&mut self, view: View) {
        self.views = Views::of("cluster".into(), view);
    }

    /// A new call of a user, at a moment in milliseconds.
    fn call(&mut self, now: i64, user: &str, call: Call) -> Answer {
        self.call_as(now, caller(user), call)
    }

    fn call_as(&mut self, now: i64, caller: Caller, call: Call) -> Answer {
        self.keys += 1;
        self.send(now, &Envelope { key: Key(self.keys), caller, call })
    }

    /// The immediate answer, even if the caller has to wait for another.
    fn send(&mut self, now: i64, envelope: &Envelope) -> Answer {
        self.handle(now, envelope).0
    }

    /// The immediate answer, and whether the caller has to wait for another.
    fn handle(&mut self, now: i64, envelope: &Envelope) -> (Answer, bool) {
        let Handled { answer, waits, events, changes } =
            self.ledger.handle(Moment(now), envelope, &self.views);
        assert!(
            waits.is_none()
                || (waits == envelope.call.id() && waits.is_some_and(|id| self.ledger.is_waiting(id)))
        );
        self.note(Ticked { events, changes });
        (answer, waits.is_some())
    }

    /// Records results; returns the names of the events.
    fn note(&mut self, ticked: Ticked) -> Vec<&'static str> {
        let words = words(&ticked.events);
        self.events.extend(ticked.events);
        self.changes.extend(ticked.changes);
        words
    }

    fn tick(&mut self, now: i64) -> Vec<&'static str> {
        let ticked = self.ledger.tick(Moment(now));
        self.note(ticked)
    }

    /// The batch system grants a pending step.
    fn grant(&mut self, now: i64, id: u128) -> Vec<&'static str> {
        let ticked = self.ledger.granted(Moment(now), ReservationId(id));
        self.note(ticked)
    }

    /// The batch system refuses a pending step.
    fn refuse(&mut self, now: i64, id: u128) -> Vec<&'static str> {
        let why = Why::NotGranted("busy".into());
        let ticked = self.ledger.not_granted(Moment(now), ReservationId(id), why);
        self.note(ticked)
    }

    /// The recorded answer to a call.
    fn told(&self, key: u128) -> Option<&Answer> {
        self.events.iter().find_map(|event| match &event.what {
            What::Answered { call, answer } if call.key == Key(key) => Some(&**answer),
            _ => None,
        })
    }

    fn hold(&mut self, now: i64, user: &str, id: u128, request: Request) -> Answer {
        let call = Call::Reserve { id: ReservationId(id), request, hold_for: Millis(60_000), book: false };
        self.call(now, user, call)
    }

    fn book(&mut self, now: i64, user: &str, id: u128, request: Request) -> Answer {
        let call = Call::Reserve { id: ReservationId(id), request, hold_for: Millis::ZERO, book: true };
        self.call(now, user, call)
    }

    fn commit(&mut self, now: i64, user: &str, id: u128) -> Answer {
        self.call(now, user, Call::Commit { id: ReservationId(id), jobs: vec![] })
    }

    fn cancel(&mut self, now: i64, user: &str, id: u128) -> Answer {
        self.call(now, user, Call::Cancel { id: ReservationId(id) })
    }

    fn look(&mut self, now: i64, user: &str, id: u128) -> Answer {
        self.call(now, user, Call::Show { id: ReservationId(id) })
    }

    fn release(&mut self, now: i64, user: &str, id: u128, from: i64, keep: u32) -> Answer {
        let (from, keep) = (Time(from), Capacity(keep));
        self.call(
            now,
            user,
            Call::Release { id: ReservationId(id), part: Some(0), from, keep, end_jobs: false },
        )
    }

    fn change(&mut self, now: i64, user: &str, id: u128, version: Option<u32>, request: Request) -> Answer {
        self.call(now, user, Call::Change { id: ReservationId(id), version, request })
    }

    fn probe(&mut self, now: i64, user: &str, request: Request) -> Vec<Slot> {
        match self.call(now, user, Call::Probe { request, most: 100, starts: vec![] }) {
            Answer::Offers(offers) => offers.into_iter().flat_map(|offer| offer.slots).collect(),
            Answer::Problem(_) => vec![],
            Answer::Reservation(_) => unreachable!(),
        }
    }

    fn extend(&mut self, now: i64, user: &str, id: u128, version: Option<u32>, end: i64) -> Answer {
        self.call(now, user, Call::Extend { id: ReservationId(id), version, end: Time(end) })
    }

    fn words(&self) -> Vec<&'static str> {
        words(&self.events)
    }

    /// The same site after a restart: only its serialized events.
    fn replayed(&self) -> Ledger {
        let mut ledger = Ledger::new(self.ledger.rules().clone()).unwrap();
        for event in &self.events {
            let written = serde_json::to_string(event).unwrap();
            let read: Event = serde_json::from_str(&written).unwrap();
            assert_eq!(read, *event);
            ledger.apply(&read);
        }
        ledger
    }
}

/// The events of reservations.
fn words(events: &[Event]) -> Vec<&'static str> {
    let about_calls = |what: &What| matches!(what, What::Asked { .. } | What::Answered { .. });
    events.iter().filter(|event| !about_calls(&event.what)).map(|event| event.what.word()).collect()
}

impl Drop for Site {
    /// After every test, the journal must reproduce the state.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.replayed(), self.ledger, "a replay differs");
        }
    }
}

fn reservation(answer: &Answer) -> &Reservation {
    match answer {
        Answer::Reservation(reservation) => reservation,
        other => panic!("no reservation but {other:?}"),
    }
}

fn problem(answer: &Answer) -> &Problem {
    match answer {
        Answer::Problem(problem) => problem,
        other => panic!("no problem but {other:?}"),
    }
}

fn interval(answer: &Answer) -> (i64, i64) {
    let interval = reservation(answer).slots[0].interval;
    (interval.begin.0, interval.end.0)
}
