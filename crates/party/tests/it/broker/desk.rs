//! A broker with its journal, and its driver.

use bookahead_party::broker::{Broker, BrokerEvent, JobRules};
use bookahead_party::{
    CallId, Heartbeat, Input, JobCall, Load, OfferedResource, Origin, Output, Party, PeerCall, PeerRequest,
    Queries, Reply, Role,
};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::broker::Rules;
use bookahead_protocol::jobs::race::Pace;
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord, Mode, Patience, Work};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Name, Resource};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const ID: JobId = JobId(0x70b);

pub(crate) const DAY: i64 = 86_400_000;

pub(crate) fn job_rules() -> JobRules {
    let patience = Patience::default();
    JobRules {
        patience,
        look_every: Millis::seconds(5),
        flood: Pace {
            patience,
            look_every: Millis::seconds(1),
            silence: Millis::seconds(30),
            doubt: Millis::seconds(10),
        },
        notice: Millis::seconds(3),
        usual_window: Seconds(604_800),
        retention: Seconds(86_400),
    }
}

pub(crate) fn name(text: &str) -> Name {
    text.into()
}

pub(crate) fn caller(user: &str) -> Caller {
    Caller { user: name(user), roles: vec![name("user")] }
}

pub(crate) fn ada() -> Caller {
    caller("ada")
}

pub(crate) fn heartbeat(site: &str, resources: Vec<Resource>) -> Heartbeat {
    let offered = |resource| OfferedResource { resource, through: Vec::new() };
    Heartbeat {
        changes: None,
        registered_by: None,
        name: name(site),
        url: format!("http://{site}"),
        role: Role::Site,
        resources: resources.into_iter().map(offered).collect(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: None,
        batch: None,
        version: None,
    }
}

/// A site with a cluster of eight and a given load.
pub(crate) fn site(site: &str, requested: u64) -> Heartbeat {
    let load = Load {
        resource: name("cluster"),
        running_jobs: 1,
        waiting_jobs: 0,
        requested,
        longest_wall_time_seconds: 600,
    };
    let cluster = Resource::new(site, "cluster", "processors", 8);
    Heartbeat { loads: vec![load], ..heartbeat(site, vec![cluster]) }
}

/// Four processors for a minute.
pub(crate) fn job() -> JobRequest {
    JobRequest {
        rerun: Default::default(),
        reservation: None,
        resource: None,
        kind: name("processors"),
        capacity: Capacity(4),
        limit: Seconds(60),
        latest_end: None,
        requirements: Vec::new(),
        reference_mhz: None,
        input_bytes: None,
        work: Work::Pretended { run: Seconds(30) },
        mode: None,
        copies: None,
        claims: false,
        description: Default::default(),
    }
}

pub(crate) fn flooded() -> JobRequest {
    JobRequest { mode: Some(Mode::Flood), ..job() }
}

pub(crate) struct Desk {
    pub(crate) broker: Broker,
    /// The journal, line by line.
    pub(crate) journal: Vec<String>,
    /// The output of the last input.
    pub(crate) out: Output<BrokerEvent>,
    /// The ids of the last copies sent to sites.
    pub(crate) copies: BTreeMap<Name, JobId>,
    calls: u64,
}

pub(crate) fn broker() -> Broker {
    let about = Heartbeat { role: Role::Broker, ..heartbeat("grid", Vec::new()) };
    Broker::new(
        Rules { maker: 7, watch_every: Some(Millis::seconds(60)), ..Rules::default() },
        job_rules(),
        about,
        name("grid-1"),
        BTreeSet::new(),
        true,
    )
}

impl Desk {
    pub(crate) fn new() -> Desk {
        let mut desk = Desk {
            broker: broker(),
            journal: Vec::new(),
            out: Output::default(),
            copies: BTreeMap::new(),
            calls: 0,
        };
        let out = desk.broker.start(Moment(0)).unwrap();
        desk.did(out);
        desk
    }

    /// A broker that knows these sites, least loaded first.
    pub(crate) fn with(sites: &[&str]) -> Desk {
        let mut desk = Desk::new();
        sites.iter().zip(1..).for_each(|(name, at)| desk.hears(0, site(name, at * 8)).unwrap());
        desk
    }

    fn did(&mut self, out: Output<BrokerEvent>) {
        self.journal.extend(out.events.iter().map(|event| serde_json::to_string(event).unwrap()));
        for call in &out.calls {
            if let PeerRequest::Job { id, ask: JobCall::Submit, .. } = &call.request {
                self.copies.insert(call.to.clone(), *id);
            }
        }
        self.out = out;
    }

    pub(crate) fn step(&mut self, at: i64, input: Input) {
        let out = self.broker.step(Moment(at), input);
        self.did(out);
    }

    /// Kills the broker and restarts it from its journal.
    pub(crate) fn restart(&mut self, at: i64) {
        self.broker = broker();
        for line in &self.journal {
            self.broker.apply(&serde_json::from_str(line).unwrap());
        }
        let out = self.broker.start(Moment(at)).unwrap();
        self.did(out);
    }

    pub(crate) fn wait_until(&mut self, at: i64) {
        self.step(at, Input::Time);
    }

    pub(crate) fn call_id(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    /// The reply to the last call.
    pub(crate) fn reply(&self) -> &Reply {
        let reply = self.out.replies.iter().find(|(call, _)| *call == CallId(self.calls));
        &reply.unwrap_or_else(|| panic!("no reply in {:?}", self.out)).1
    }

    fn job_reply(&self) -> Result<JobView, Problem> {
        match self.reply() {
            Reply::Job(answer) => answer.clone().map(|view| *view),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn hears(&mut self, at: i64, heartbeat: Heartbeat) -> Result<(), Problem> {
        self.hears_in(at, heartbeat, None)
    }

    pub(crate) fn hears_in(
        &mut self,
        at: i64,
        heartbeat: Heartbeat,
        round_trip: Option<u64>,
    ) -> Result<(), Problem> {
        let call = Some(self.call_id());
        self.step(at, Input::Heard { call, heartbeat: Box::new(heartbeat), round_trip });
        match self.reply() {
            Reply::Registered(answer) => answer.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn submit(&mut self, at: i64, job: JobRequest) -> Result<JobView, Problem> {
        self.submit_as(at, &ada(), (Key(1), ID), job)
    }

    pub(crate) fn submit_as(
        &mut self,
        at: i64,
        caller: &Caller,
        (key, id): (Key, JobId),
        job: JobRequest,
    ) -> Result<JobView, Problem> {
        let (call, caller) = (self.call_id(), caller.clone());
        let job = Box::new(job);
        self.step(at, Input::Submit { call, caller, key, id, job, origin: Origin::default() });
        self.job_reply()
    }

    pub(crate) fn cancel(&mut self, at: i64, caller: &Caller) -> Result<JobView, Problem> {
        let (call, caller) = (self.call_id(), caller.clone());
        self.step(at, Input::CancelJob { call, caller, id: ID });
        self.job_reply()
    }

    pub(crate) fn go(&mut self, at: i64) -> Result<JobView, Problem> {
        let call = self.call_id();
        self.step(at, Input::Go { call, caller: ada(), id: ID });
        self.job_reply()
    }

    /// Sends a call with a key.
    pub(crate) fn call(&mut self, at: i64, key: u128, call: Call) {
        let envelope = Envelope { key: Key(key), caller: ada(), call };
        let call = self.call_id();
        self.step(at, Input::Call { call, envelope, origin: Origin::default() });
    }

    pub(crate) fn answer(&self) -> &Answer {
        match self.reply() {
            Reply::Answer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// The last messages to peers, as "site message".
    pub(crate) fn said(&self) -> Vec<String> {
        let said = |call: &PeerCall| match &call.request {
            PeerRequest::Call(envelope) => format!("{} {}", call.to, envelope.call.word()),
            PeerRequest::Job { ask, .. } => format!("{} {ask:?}", call.to),
        };
        self.out.calls.iter().map(said).collect()
    }

    /// A site answers about its job or copy.
    pub(crate) fn reports(&mut self, at: i64, site: &str, asked: JobCall, answer: Result<JobView, Why>) {
        let (from, id) = (name(site), self.copies[&name(site)]);
        let answer = answer.map(Box::new).map_err(Problem::new);
        self.step(at, Input::JobAnswered { from, id, asked, answer });
    }

    /// A site reports the state of its job or copy.
    pub(crate) fn tell(&mut self, at: i64, site: &str, asked: JobCall, state: JobWord, since: Option<i64>) {
        let view = JobView {
            rerun: Default::default(),
            runs: Default::default(),
            id: self.copies[&name(site)],
            owner: name("ada"),
            site: Some(name(site)),
            resource: Some(name("cluster")),
            reservation: None,
            capacity: Capacity(4),
            limit: Seconds(60),
            state,
            submitted: Time(0),
            started: since.map(Time),
            ended: state.is_over().then_some(Time(at / 1_000)),
            expected_start: (state == JobWord::Waiting).then_some(Time(90)),
            exit: (state == JobWord::Done).then_some(0),
            native_id: None,
            detail: None,
            description: Default::default(),
        };
        self.reports(at, site, asked, Ok(view));
    }

    pub(crate) fn shown(&self) -> JobView {
        self.broker.job(ID).unwrap()
    }

    /// Number of job events in a snapshot.
    pub(crate) fn remembered(&self) -> usize {
        serde_json::to_value(self.broker.state()).unwrap()["jobs"].as_array().unwrap().len()
    }

    /// Event names of the last remarks.
    pub(crate) fn remarks(&self) -> Vec<&'static str> {
        self.out.remarks.iter().map(|remark| remark.event).collect()
    }
}
