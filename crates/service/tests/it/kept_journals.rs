//! Journals of schema 2 stay readable: later builds open the files in `tests/journals` and show the state stored
//! next to them. The files are made with `BOOKAHEAD_UPDATE=1`, once for each schema, and never changed afterwards.

use crate::folder;
use bookahead_party::batch::{BatchError, BatchOrder, BatchReport, JobChange, JobState, Look, Work};
use bookahead_party::broker::{Broker, JobRules};
use bookahead_party::site::{Site, SiteOptions};
use bookahead_party::{
    CallId, Filter, Heartbeat, Input, OfferedResource, Origin, Output, Party, PeerRequest, Role, Viewer,
};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::jobs::race::Pace;
use bookahead_protocol::jobs::{JobRequest, Patience};
use bookahead_protocol::ledger::{Bounds, Offered, Rules};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Part, Request, ReservationId, Resource,
    broker,
};
use bookahead_service::journal::{Journal, Kind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The first schema that must stay readable.
const SCHEMA: u32 = 2;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals").join(name)
}

fn about(name: &str, role: Role) -> Heartbeat {
    Heartbeat {
        changes: None,
        registered_by: None,
        name: name.into(),
        url: format!("http://{name}.example.org"),
        role,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: Some(Millis::ZERO),
        batch: None,
        version: None,
    }
}

fn resource() -> Resource {
    Resource::new("north", "cluster", "processors", 16)
}

fn site(consent: Option<Millis>) -> Site {
    bounded_site(consent, Bounds::default())
}

pub(crate) fn bounded_site(consent: Option<Millis>, bounds: Bounds) -> Site {
    let placement = placement::Rules {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules { most: 5, gap: Seconds(10), natural: true },
        admission: Admission::default(),
    };
    let rules = Rules::new("north", vec![Offered { resource: resource(), placement }]);
    let rules = Rules { consent, bounds, retention: Seconds(1_000_000_000), ..rules };
    Site::new(rules, about("north", Role::Site), SiteOptions::default()).unwrap()
}

fn broker() -> Broker {
    let rules = broker::Rules { maker: 7, retention: Seconds(1_000_000_000), ..broker::Rules::default() };
    let patience = Patience::default();
    let flood =
        Pace { patience, look_every: Millis(500), silence: Millis::seconds(30), doubt: Millis::seconds(10) };
    let job_rules = JobRules {
        notice: Millis::seconds(3),
        patience,
        look_every: Millis::seconds(5),
        flood,
        usual_window: Seconds(86_400),
        retention: Seconds(1_000_000_000),
    };
    Broker::new(rules, job_rules, about("grid", Role::Broker), "grid-7".into(), BTreeSet::new(), true)
}

fn caller() -> Caller {
    Caller { user: "ada".into(), roles: Vec::new() }
}

fn request(begin: i64, capacity: u32) -> Request {
    let wanted = placement::Request {
        earliest_start: Time(begin),
        latest_end: Time(begin + 100),
        duration: Seconds(100),
        capacity: Capacity(capacity),
    };
    Request::single(Part::new(wanted, "processors"))
}

fn reserve(id: u128, begin: i64, capacity: u32, book: bool) -> Call {
    let (id, request) = (ReservationId(id), request(begin, capacity));
    Call::Reserve { id, request, hold_for: Millis::seconds(60), book }
}

fn job(reservation: Option<u128>, claims: bool) -> JobRequest {
    JobRequest {
        rerun: Default::default(),
        reservation: reservation.map(ReservationId),
        resource: None,
        kind: "processors".into(),
        capacity: Capacity(2),
        limit: Seconds(60),
        latest_end: None,
        requirements: Vec::new(),
        reference_mhz: None,
        input_bytes: None,
        work: Work::Script { text: "#!/bin/sh\nhostname\n".into(), arguments: vec!["one".into()] },
        mode: None,
        copies: None,
        claims,
        description: Default::default(),
    }
}

/// A party stepped at fixed moments, and its events.
struct Story<P: Party> {
    party: P,
    events: Vec<P::Event>,
    now: i64,
    calls: u64,
    asked: Vec<Envelope>,
}

impl<P: Party> Story<P> {
    fn new(mut party: P) -> Story<P> {
        let events = party.start(Moment::of(Time(1_000))).unwrap().events;
        Story { party, events, now: 1_000, calls: 0, asked: Vec::new() }
    }

    fn step(&mut self, input: Input) -> Output<P::Event> {
        let out = self.party.step(Moment::of(Time(self.now)), input);
        self.events.extend(out.events.clone());
        out
    }

    fn call(&mut self, call: Call) -> Output<P::Event> {
        self.calls += 1;
        let envelope = Envelope { key: Key(u128::from(self.calls)), caller: caller(), call };
        self.asked.push(envelope.clone());
        self.step(Input::Call { call: CallId(self.calls), envelope, origin: Origin::default() })
    }

    fn submit(&mut self, id: u128, job: JobRequest) -> Output<P::Event> {
        self.calls += 1;
        let (call, key, origin) = (CallId(self.calls), Key(900 + id), Origin::default());
        self.step(Input::Submit { call, caller: caller(), key, id: JobId(id), job: Box::new(job), origin })
    }

    /// Carries out the orders of an output, or refuses them.
    fn report(&mut self, out: &Output<P::Event>, outcome: &Result<(), BatchError>) {
        for order in out.batch.clone() {
            let report = match order {
                BatchOrder::Keep { order, backing } => {
                    BatchReport::Kept { order, id: backing.id, outcome: outcome.clone() }
                }
                BatchOrder::Look { order } => {
                    let at = Moment::of(Time(self.now));
                    BatchReport::Looked { order: Some(order), at, outcome: Ok(Look::default()) }
                }
                BatchOrder::Submit { order, ref job }
                | BatchOrder::Bind { order, ref job }
                | BatchOrder::Requeue { order, ref job, .. } => {
                    BatchReport::Job { order, job: job.id, outcome: outcome.clone() }
                }
                BatchOrder::Release { order, job }
                | BatchOrder::Go { order, job }
                | BatchOrder::Cancel { order, job }
                | BatchOrder::Warn { order, job } => {
                    BatchReport::Job { order, job, outcome: outcome.clone() }
                }
            };
            let next = self.step(Input::Batch(report));
            if !next.batch.is_empty() {
                self.report(&next, &Ok(()));
            }
        }
    }
}

/// A scenario that produces every kind of event of a site.
fn site_story() -> Story<Site> {
    let mut story = Story::new(site(Some(Millis::seconds(60))));
    let out = story.step(Input::WantLook);
    story.report(&out, &Ok(()));
    let look = BatchReport::Looked {
        order: Some(bookahead_party::OrderId(1)),
        at: Moment::of(Time(1_000)),
        outcome: Ok(Look::default()),
    };
    story.step(Input::Batch(look));
    for (id, begin, capacity) in [(1, 2_000, 4), (2, 2_000, 4), (3, 2_000, 4), (4, 3_000, 8)] {
        let out = story.call(reserve(id, begin, capacity, id == 4));
        story.report(&out, &Ok(()));
    }
    let out = story.call(reserve(5, 2_000, 2, false));
    story.report(&out, &Err(BatchError::Refused("nodes are down".into())));
    story.call(reserve(6, 2_000, 99, false));
    story.call(Call::Hold { id: ReservationId(1), hold_for: Millis::seconds(200) });
    story.call(Call::Commit { id: ReservationId(1), jobs: Vec::new() });
    story.call(Call::Cancel { id: ReservationId(2) });
    story.call(Call::Cancel { id: ReservationId(77) });
    let change = Call::Change { id: ReservationId(1), version: None, request: request(2_050, 4) };
    let out = story.call(change);
    story.report(&out, &Ok(()));
    let out = story.submit(10, job(Some(1), false));
    story.report(&out, &Ok(()));
    let out = story.submit(11, job(None, true));
    story.report(&out, &Ok(()));
    let changed = |id, state| {
        Input::Batch(BatchReport::JobChanged(JobChange { id: JobId(id), state, at: Time(1_010) }))
    };
    story.step(changed(11, JobState::Claiming));
    let out = story.step(Input::Go { call: CallId(500), caller: caller(), id: JobId(11) });
    story.report(&out, &Ok(()));
    story.step(changed(11, JobState::Running));
    story.step(changed(11, JobState::Done { exit: 0 }));
    // The third expires, the first begins, the fourth is released in part, and one waits to the end.
    story.now = 2_060;
    story.step(Input::Time);
    let release = Call::Release {
        id: ReservationId(4),
        part: Some(0),
        from: Time(3_050),
        keep: Capacity(2),
        end_jobs: false,
    };
    story.call(release);
    let out = story.call(Call::Extend { id: ReservationId(1), version: None, end: Time(2_250) });
    story.report(&out, &Ok(()));
    story.call(reserve(8, 4_000, 2, false));
    story
}

/// A broker with one peer, which is simulated by a site.
fn broker_story() -> Story<Broker> {
    let mut north = Story::new(site(None));
    let mut story = Story::new(broker());
    let offered = OfferedResource { resource: resource(), through: Vec::new() };
    let heartbeat = Box::new(Heartbeat { resources: vec![offered], ..about("north", Role::Site) });
    story.step(Input::Heard { call: None, heartbeat, round_trip: Some(5) });
    let mut drive = |story: &mut Story<Broker>, out: Output<_>| {
        let mut calls = out.calls;
        while let Some(call) = calls.pop() {
            let PeerRequest::Call(envelope) = call.request else { continue };
            let input =
                Input::Call { call: CallId(1), envelope: (*envelope).clone(), origin: Origin::default() };
            let answered = north.step(input).replies.into_iter().find_map(|(_, reply)| match reply {
                bookahead_party::Reply::Answer(answer) => Some(answer),
                _ => None,
            });
            let answer: Answer = answered.unwrap();
            let (from, key, origin) = ("north".into(), envelope.key, Origin::default());
            calls.extend(story.step(Input::Answered { from, key, answer, origin }).calls);
        }
    };
    for (id, begin, book) in [(1, 2_000, false), (2, 2_000, true), (3, 2_000, false)] {
        let out = story.call(reserve(id, begin, 4, book));
        drive(&mut story, out);
    }
    let out = story.call(reserve(4, 2_000, 99, false));
    drive(&mut story, out);
    for call in
        [Call::Commit { id: ReservationId(1), jobs: Vec::new() }, Call::Cancel { id: ReservationId(3) }]
    {
        let out = story.call(call);
        drive(&mut story, out);
    }
    let out = story.submit(20, job(Some(2), false));
    drive(&mut story, out);
    story
}

/// Everything that a party shows.
fn shown<P: Party>(party: &P, now: i64) -> Value {
    let now = Moment::of(Time(now));
    let mut all = party.list(now, &Filter { limit: 1_000, ..Filter::default() }).reservations;
    // The builds that wrote them listed by id, and did not show these.
    all.sort_by_key(|reservation| reservation.id);
    all.iter_mut().for_each(|reservation| (reservation.created, reservation.refused) = (None, None));
    let viewer = Viewer::new("ada", true);
    let counts: BTreeMap<&str, usize> =
        party.counts().iter().map(|(state, count)| (state.word(), *count)).collect();
    json!({ "reservations": all, "jobs": party.jobs(&viewer), "counts": counts })
}

fn write<P: Party>(name: &str, owner: &str, story: Story<P>, half: P, now: i64) {
    let Story { events, party, .. } = story;
    let path = fixture(&format!("{name}.journal"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    let (journal, _) = Journal::<P::Event>::open(&path, &Kind::new(P::KIND, owner, P::SCHEMA)).unwrap();
    let (first, rest) = events.split_at(events.len() / 2);
    journal.append(first).unwrap().wait().unwrap();
    let mut half = half;
    first.iter().for_each(|event| half.apply(event));
    journal.snapshot(first.len() as u64, &half.state()).unwrap();
    journal.append(rest).unwrap().wait().unwrap();
    journal.close().unwrap();
    let text = serde_json::to_string_pretty(&shown(&party, now)).unwrap() + "\n";
    fs::write(fixture(&format!("{name}.json")), text).unwrap();
}

/// A party as a kept journal has it.
#[track_caller]
fn restored<P: Party>(name: &str, owner: &str, mut party: P) -> P {
    let (_folder, path) = folder();
    fs::copy(fixture(&format!("{name}.journal")), &path).unwrap();
    let (journal, replay) = Journal::<P::Event>::open(&path, &Kind::new(P::KIND, owner, P::SCHEMA)).unwrap();
    assert!(replay.set_aside.is_empty());
    let snapshot = replay.snapshot.expect("a snapshot is part of it");
    assert_eq!(snapshot.schema, SCHEMA);
    party.restore(snapshot.state().unwrap()).unwrap();
    replay.events.iter().for_each(|record| party.apply(&record.event));
    journal.close().unwrap();
    party
}

#[track_caller]
fn assert_read<P: Party>(name: &str, owner: &str, party: P, now: i64) {
    let party = restored(name, owner, party);
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(fixture(&format!("{name}.json"))).unwrap()).unwrap();
    assert_eq!(shown(&party, now), expected);
}

#[test]
fn a_journal_of_a_site_that_an_earlier_build_wrote_is_read() {
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some() && !fixture("site-2.journal").exists() {
        write("site-2", "north", site_story(), site(Some(Millis::seconds(60))), 2_060);
    }
    assert_read("site-2", "north", site(Some(Millis::seconds(60))), 2_060);
}

#[test]
fn a_journal_of_a_broker_that_an_earlier_build_wrote_is_read() {
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some() && !fixture("broker-2.journal").exists() {
        write("broker-2", "grid", broker_story(), broker(), 1_000);
    }
    assert_read("broker-2", "grid", broker(), 1_000);
}

/// The answers to the calls of a story when they are repeated with their keys, and then those to its reservations with
/// other keys: a call whose answer was lost may come again after an upgrade.
fn repeated<P: Party>(party: P, asked: &[Envelope]) -> Vec<String> {
    let mut story = Story { party, events: Vec::new(), now: 2_060, calls: 1_000, asked: Vec::new() };
    story.party.start(Moment::of(Time(story.now))).unwrap();
    let out = story.step(Input::WantLook);
    story.report(&out, &Ok(()));
    let reserves = asked.iter().filter(|envelope| matches!(envelope.call, Call::Reserve { .. }));
    let others = reserves.map(|envelope| Envelope { key: Key(envelope.key.0 + 10_000), ..envelope.clone() });
    let mut answers = Vec::new();
    for envelope in asked.iter().cloned().chain(others) {
        story.calls += 1;
        let call = CallId(story.calls);
        let out = story.step(Input::Call { call, envelope, origin: Origin::default() });
        let answer = out.replies.into_iter().find_map(|(_, reply)| match reply {
            bookahead_party::Reply::Answer(answer) => Some(answer.word().to_owned()),
            _ => None,
        });
        answers.push(answer.unwrap_or_else(|| "none yet".into()));
    }
    answers
}

#[test]
fn calls_that_are_repeated_after_an_upgrade_get_the_answers_that_they_had() {
    let (asked, site) = (site_story().asked, restored("site-2", "north", site(Some(Millis::seconds(60)))));
    let (first, later) = ("held held held committed not-granted no-such-resource", "none yet");
    let changed = "held committed cancelled cancelled-before batch-timeout committed";
    // With other keys: the states that they have by now.
    let others = "change-requested cancelled expired committed not-granted no-such-resource";
    assert_eq!(repeated(site, &asked).join(" "), [first, changed, later, later, others, later].join(" "));
    let (asked, broker) = (broker_story().asked, restored("broker-2", "grid", broker()));
    let (first, others) = (
        "held committed held no-such-resource committed cancelled",
        "active active cancelled no-such-resource",
    );
    assert_eq!(repeated(broker, &asked).join(" "), [first, others].join(" "));
}
