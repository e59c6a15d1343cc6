//! Sites and brokers of a simulated grid: the parties that the daemons run, with their disks, the batch system of a
//! site and the heartbeats of a broker.

use super::batch::Batch;
use super::cluster::Cluster;
use super::external::{External, Temper};
use super::host::{Disk, Driven, Flaw, Host, Worded, Written};
use bookahead_party::broker::{self, BrokerEvent, JobRules};
use bookahead_party::site::{JobEvent, Site as Party, SiteEvent, SiteOptions};
use bookahead_party::{BatchOrder, Heartbeat, Input, OfferedResource, Party as _, Queries, Role};
use bookahead_plan::Seconds;
use bookahead_protocol::broker::{Broker as Head, Event, Rules as BrokerRules};
use bookahead_protocol::jobs::Patience;
use bookahead_protocol::jobs::race::Pace;
use bookahead_protocol::ledger::{self, Ledger, Offered, Rules, RulesError, What};
use bookahead_protocol::{Call, Millis, Moment, Name, Resource};
use bookahead_workload::streams::Stream;
use std::collections::{BTreeMap, BTreeSet};

/// A site with its batch system.
pub struct Site {
    pub(super) host: Host<Party>,
    pub(super) batch: Batch,
    /// Share of held answers to brokers that are falsified, per thousand.
    pub(super) lies: u32,
    pub(super) flaw: Option<Flaw>,
    repeats: u128,
    /// State at the last check of the witness: up, failed, changes.
    pub(super) looked: Option<(bool, bool, Changes)>,
}

/// Everything that can change the room of a site: its life, decided events, whether all are durable, versions of its
/// clusters, and lost capacity.
pub(super) type Changes = (u32, u64, bool, u64, u64);

impl Site {
    /// A site with an in-process batch system and an instant disk. `clusters` have local jobs; other resources are
    /// idle.
    pub fn new(rules: Rules, clusters: BTreeMap<Name, Cluster>) -> Result<Site, RulesError> {
        Site::with(rules, SiteOptions::default(), Disk::INSTANT, clusters, None)
    }

    /// A site with the given disk and, with `external`, an external batch system.
    pub(super) fn with(
        rules: Rules,
        options: SiteOptions,
        disk: Disk,
        mut clusters: BTreeMap<Name, Cluster>,
        external: Option<(Temper, Stream)>,
    ) -> Result<Site, RulesError> {
        for Offered { resource, placement } in &rules.resources {
            let idle = || Cluster::new(placement.policy, resource.capacity, Vec::new());
            clusters.entry(resource.name.clone()).or_insert_with(idle);
        }
        let mut batch = Batch::new(clusters, external.map(|(temper, chance)| External::new(temper, chance)));
        let totals = rules
            .resources
            .iter()
            .map(|offered| (offered.resource.name.clone(), offered.resource.tres.clone()));
        batch.totals = totals.collect();
        let about = about(&rules.site, Role::Site);
        let host = Host::new(Party::new(rules, about, options)?, disk);
        Ok(Site { host, batch, lies: 0, flaw: None, repeats: 0, looked: None })
    }

    /// Its reservations.
    pub fn ledger(&self) -> &Ledger {
        self.host.party().ledger()
    }

    /// The party that the daemon runs.
    pub fn party(&self) -> &Party {
        self.host.party()
    }

    /// The clusters of its batch system: the ground truth.
    pub fn clusters(&self) -> &BTreeMap<Name, Cluster> {
        self.batch.clusters()
    }

    /// Its rules, as configured.
    pub fn rules(&self) -> &Rules {
        self.host.party().rules()
    }

    pub(super) fn changes(&self) -> Changes {
        let (life, events) = self.host.decided();
        let versions = self.batch.clusters.values().map(|cluster| cluster.version).sum();
        let resources = self.rules().resources.iter().map(|offered| &offered.resource.name);
        let lost = resources.map(|name| u64::from(self.ledger().lost_capacity(name).0)).sum();
        (life, events, self.host.is_durable(), versions, lost)
    }

    /// Whether its batch system is external.
    pub(super) fn asks(&self) -> bool {
        self.rules().consent.is_some()
    }

    /// Passes an input to the party, after all reports of an in-process batch system.
    pub(super) fn take(&mut self, local: Moment, input: Input) {
        self.hear(local);
        let input = self.taken_for_new(input);
        self.step(local, input);
    }

    /// Passes reports of an in-process batch system to the party.
    fn hear(&mut self, local: Moment) {
        if self.batch.external.is_none() {
            self.batch.advance(local);
            for report in self.batch.news(local) {
                self.step(local, Input::Batch(report));
            }
        }
    }

    /// Steps the party, carries out its immediate orders, and passes their reports back.
    fn step(&mut self, local: Moment, input: Input) {
        let orders = self.host.step(local, input);
        if !orders.is_empty() {
            orders.into_iter().for_each(|order| self.batch.keep_now(order));
            self.hear(local);
        }
    }

    /// An in-process batch system carries out an order.
    pub(super) fn obey(&mut self, local: Moment, order: BatchOrder) {
        let report = self.batch.obey(local, order);
        self.step(local, Input::Batch(report));
        self.hear(local);
    }

    pub(super) fn start(&mut self, now: Moment, local: Moment) {
        // An in-process batch system runs by the clock of its site, an external one has its own.
        self.batch.advance(if self.asks() { now } else { local });
        for order in self.host.start(local) {
            self.batch.keep_now(order);
        }
        self.batch.clusters.values_mut().for_each(Cluster::wake);
    }

    pub(super) fn break_by(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        self.host.alter(move |party| flaw.set_in_site(party));
        if flaw == Flaw::ForgetDeadlines {
            self.host.misread = Some(without_deadline);
        }
    }

    /// Deliberate defect: a repeated reservation gets a new id and key.
    fn taken_for_new(&mut self, mut input: Input) -> Input {
        if self.flaw == Some(Flaw::RepeatsAreNew)
            && let Input::Call { envelope, .. } = &mut input
            && let Call::Reserve { id, .. } = &mut envelope.call
            && self.host.party().ledger().entry(*id).is_some()
        {
            self.repeats += 1;
            id.0 = (1 << 127) | self.repeats;
            envelope.key.0 = (1 << 127) | self.repeats;
        }
        input
    }
}

/// The initial heartbeat of a party.
pub(super) fn about(name: &Name, role: Role) -> Heartbeat {
    Heartbeat {
        changes: None,
        registered_by: None,
        name: name.clone(),
        url: name.to_string(),
        role,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: None,
        batch: None,
        version: None,
    }
}

/// Deliberate defect: events as read by a site that lost its deadlines.
fn without_deadline(event: &SiteEvent) -> SiteEvent {
    let mut event = event.clone();
    if let SiteEvent::Book(ledger::Event {
        what: What::Held { deadline, .. } | What::Granted { deadline, .. },
        ..
    }) = &mut event
    {
        *deadline = Moment::MAX;
    }
    event
}

impl Worded for SiteEvent {
    fn written(&self) -> Written {
        match self {
            SiteEvent::Book(event) => Written { word: event.what.word(), id: event.what.id() },
            SiteEvent::Opened => Written { word: "opened", id: None },
            SiteEvent::Job(event) => {
                let word = match event {
                    JobEvent::Submitted { .. } => "job-submitted",
                    JobEvent::Handed { .. } => "job-handed",
                    JobEvent::Released { .. } => "job-released",
                    JobEvent::Given { .. } => "job-given",
                    JobEvent::Bound { .. } => "job-bound",
                    JobEvent::Named { .. } => "job-named",
                    JobEvent::Claimed { .. } => "job-claimed",
                    JobEvent::MayRun { .. } => "job-may-run",
                    JobEvent::Started { .. } => "job-started",
                    JobEvent::Requeued { .. } => "job-requeued",
                    JobEvent::Queued { .. } => "job-queued",
                    JobEvent::Warned { .. } => "job-warned",
                    JobEvent::Over { .. } => "job-over",
                };
                Written { word, id: None }
            }
        }
    }
}

/// A broker with its disk.
pub struct Broker {
    pub(super) host: Host<broker::Broker>,
    /// Its peers, with the number of heartbeats in a row that each has missed.
    pub(super) peers: BTreeMap<Name, u32>,
}

impl Broker {
    /// A broker with an instant disk that knows these peers and their resources.
    pub fn new(name: &Name, rules: BrokerRules, peers: Vec<(Name, Vec<Resource>)>) -> Broker {
        Broker::with(name, rules, job_rules(), Disk::INSTANT, peers)
    }

    /// A broker with the given disk and rules for jobs.
    pub(super) fn with(
        name: &Name,
        rules: BrokerRules,
        job_rules: JobRules,
        disk: Disk,
        peers: Vec<(Name, Vec<Resource>)>,
    ) -> Broker {
        let named: BTreeSet<Name> = peers.iter().map(|(peer, _)| peer.clone()).collect();
        let missed = named.iter().map(|peer| (peer.clone(), 0)).collect();
        let mut party =
            broker::Broker::new(rules, job_rules, about(name, Role::Broker), name.clone(), named, false);
        for (peer, resources) in peers {
            let offered = |resource| OfferedResource { resource, through: Vec::new() };
            let resources = resources.into_iter().map(offered).collect();
            let heartbeat = Box::new(Heartbeat { resources, ..about(&peer, Role::Site) });
            party.step(Moment(0), Input::Heard { call: None, heartbeat, round_trip: Some(0) });
        }
        Broker { host: Host::new(party, disk), peers: missed }
    }

    /// Its negotiations and bookings.
    pub fn head(&self) -> &Head {
        self.host.party().head()
    }

    /// Its resources, as it offers them to callers.
    pub fn resources(&self) -> Vec<Resource> {
        self.host.party().resources()
    }

    /// The events of its bookings.
    pub(super) fn bookings_journal(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.host.journal().iter().filter_map(|event| match event {
            BrokerEvent::Booking(event) => Some(event),
            BrokerEvent::Job(_) => None,
        })
    }

    pub(super) fn break_by(&mut self, flaw: Flaw) {
        self.host.alter(move |party| flaw.set_in_broker(party));
    }
}

/// Rules with short intervals, so that much happens in the short time of a schedule.
pub(super) fn job_rules() -> JobRules {
    let patience = Patience { first: Millis(500), longest: Millis(4_000) };
    let flood = Pace { patience, look_every: Millis(700), silence: Millis(9_000), doubt: Millis(6_000) };
    JobRules {
        notice: Millis::seconds(3),
        patience,
        look_every: Millis::seconds(2),
        flood,
        usual_window: Seconds(600),
        retention: Seconds(1_000_000),
    }
}

impl Worded for BrokerEvent {
    fn written(&self) -> Written {
        match self {
            BrokerEvent::Booking(event) => Written { word: event.word(), id: event.id() },
            BrokerEvent::Job(event) => {
                let word = match event {
                    broker::JobEvent::Submitted { .. } => "job-submitted",
                    broker::JobEvent::Choice { .. } => "job-choice",
                    broker::JobEvent::Race { event, .. } => race_word(event),
                    broker::JobEvent::Handed { .. } => "job-handed",
                    broker::JobEvent::Retried { .. } => "job-retried",
                    broker::JobEvent::Unwanted { .. } => "job-unwanted",
                    broker::JobEvent::Over { .. } => "job-over-at-broker",
                };
                Written { word, id: None }
            }
        }
    }
}

fn race_word(event: &bookahead_protocol::jobs::race::Event) -> &'static str {
    use bookahead_protocol::jobs::race::Event;
    match event {
        Event::Begun(_) => "race-begun",
        Event::Sent(_) => "copy-sent",
        Event::Queued(_) => "copy-queued",
        Event::Allowed => "copy-allowed",
        Event::Granted(_) => "claim-granted",
        Event::Late(_) => "copy-late",
        Event::Withdrawn => "race-withdrawn",
        Event::Gone { .. } => "copy-gone",
        Event::Found(_) => "copy-found",
        Event::Ended(_) => "race-ended",
    }
}
