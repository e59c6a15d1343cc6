//! A site of a simulated grid: the party that the daemons run, its disk, and the batch system behind it.

use super::batch::Batch;
use super::cluster::Cluster;
use super::external::{External, Temper};
use super::flaw::Flaw;
use super::host::{Disk, Driven, Host, Worded, Written};
use bookahead_party::site::{JobEvent, Site as Party, SiteEvent, SiteOptions};
use bookahead_party::{BatchOrder, Heartbeat, Input, Role};
use bookahead_protocol::ledger::{self, Ledger, Offered, Rules, RulesError, What};
use bookahead_protocol::{Call, Moment, Name};
use bookahead_workload::streams::Stream;
use std::collections::BTreeMap;

/// A site.
pub struct Site {
    pub(super) host: Host<Party>,
    pub(super) batch: Batch,
    /// So many holds in a thousand are answered with something else than was asked for.
    pub(super) lies: u32,
    pub(super) flaw: Option<Flaw>,
    repeats: u128,
}

impl Site {
    /// One whose batch system is part of it; `clusters` run local jobs on the resources of their names.
    pub fn new(rules: Rules, clusters: BTreeMap<Name, Cluster>) -> Result<Site, RulesError> {
        Site::with(rules, SiteOptions::default(), Disk::INSTANT, clusters, None)
    }

    /// One on a disk, with a batch system that has to be asked where the rules say so.
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
        let batch = match external {
            None => Batch::in_process(clusters),
            Some((temper, chance)) => Batch::external(clusters, External::new(temper, chance)),
        };
        let about = about(&rules.site, Role::Site);
        let host = Host::new(Party::new(rules, about, options)?, disk);
        Ok(Site { host, batch, lies: 0, flaw: None, repeats: 0 })
    }

    /// Its book.
    pub fn ledger(&self) -> &Ledger {
        self.host.party().ledger()
    }

    /// The party.
    pub fn party(&self) -> &Party {
        self.host.party()
    }

    /// Its resources as they really are.
    pub fn clusters(&self) -> &BTreeMap<Name, Cluster> {
        self.batch.clusters()
    }

    /// Its rules.
    pub fn rules(&self) -> &Rules {
        self.host.party().rules()
    }

    /// Whether its batch system has to be asked.
    pub(super) fn asks(&self) -> bool {
        self.rules().consent.is_some()
    }

    /// Takes an input; a batch system in its process is heard before.
    pub(super) fn take(&mut self, local: Moment, input: Input) {
        self.hear(local);
        let input = self.taken_for_new(input);
        self.step(local, input);
    }

    /// What has happened in a batch system that is part of it.
    fn hear(&mut self, local: Moment) {
        if self.batch.external.is_none() {
            self.batch.advance(local);
            for report in self.batch.news(local) {
                self.step(local, Input::Batch(report));
            }
        }
    }

    /// Steps the party. What is ordered at once is carried out, and what came of that is heard.
    fn step(&mut self, local: Moment, input: Input) {
        let orders = self.host.step(local, input);
        if !orders.is_empty() {
            orders.into_iter().for_each(|order| self.batch.keep_now(order));
            self.hear(local);
        }
    }

    /// A batch system that is part of it carries out an order.
    pub(super) fn obey(&mut self, local: Moment, order: BatchOrder) {
        let report = self.batch.obey(local, order);
        self.step(local, Input::Batch(report));
        self.hear(local);
    }

    /// Begins a life.
    pub(super) fn start(&mut self, now: Moment, local: Moment) {
        self.batch.advance(if self.asks() { now } else { local });
        for order in self.host.start(local) {
            self.batch.keep_now(order);
        }
        self.batch.site_started();
    }

    pub(super) fn break_by(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        self.host.alter(move |party| flaw.set_in_site(party));
        if flaw == Flaw::ForgetDeadlines {
            self.host.misread = Some(without_deadline);
        }
    }

    /// On purpose wrong: a repeated call is taken for a new one, under another id.
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

/// What a party says of itself.
pub(super) fn about(name: &Name, role: Role) -> Heartbeat {
    Heartbeat {
        name: name.clone(),
        url: name.to_string(),
        role,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: None,
        version: None,
    }
}

/// On purpose wrong: what a site reads in its journal.
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
                    JobEvent::Claimed { .. } => "job-claimed",
                    JobEvent::MayRun { .. } => "job-may-run",
                    JobEvent::Started { .. } => "job-started",
                    JobEvent::Over { .. } => "job-over",
                };
                Written { word, id: None }
            }
        }
    }
}
