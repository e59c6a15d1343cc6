//! A simulated site: its ledger, the journal that outlives it, and the clusters that run local jobs around its
//! reservations.

use super::cluster::Cluster;
use super::message::Message;
use super::party::{Done, Flaw};
use bookahead_plan::{Capacity, Span};
use bookahead_protocol::ledger::{Change, Event, Ledger, Rules, RulesError, View, Views};
use bookahead_protocol::{Envelope, Moment, Name, ReservationId};
use std::collections::BTreeMap;

/// A site.
pub struct Site {
    rules: Rules,
    ledger: Ledger,
    journal: Vec<Event>,
    clusters: BTreeMap<Name, Cluster>,
    /// How much of each resource has really failed, whether the ledger knows or not.
    failed: BTreeMap<Name, Capacity>,
    /// What the clusters may hear only when it is written down.
    after_writing: Vec<Change>,
    flaw: Option<Flaw>,
    repeats: u128,
}

impl Site {
    /// One with an empty book; `clusters` run local jobs on the resources of their names.
    pub fn new(rules: Rules, clusters: BTreeMap<Name, Cluster>) -> Result<Site, RulesError> {
        let ledger = Ledger::new(rules.clone())?;
        let failed = BTreeMap::new();
        let (journal, after_writing) = (Vec::new(), Vec::new());
        Ok(Site { rules, ledger, journal, clusters, failed, after_writing, flaw: None, repeats: 0 })
    }

    /// Its book.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Its clusters with local jobs.
    pub fn clusters(&self) -> &BTreeMap<Name, Cluster> {
        &self.clusters
    }

    /// Its rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// All that is written down.
    pub fn journal(&self) -> &[Event] {
        &self.journal
    }

    pub(super) fn break_by(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        flaw.set_in_ledger(&mut self.ledger);
    }

    pub(super) fn call(&mut self, now: Moment, from: &Name, envelope: &Envelope) -> Done<Event> {
        let views = self.look(now);
        let envelope = self.taken_for_new(envelope);
        let handled = self.ledger.handle(now, &envelope, &views);
        self.change(handled.changes);
        let message = Message::Answer { key: envelope.key, answer: handled.answer };
        Done { events: handled.events, send: vec![(from.clone(), message)] }
    }

    /// On purpose wrong: a repeated call is taken for a new one, under another id.
    fn taken_for_new(&mut self, envelope: &Envelope) -> Envelope {
        let mut envelope = envelope.clone();
        if self.flaw == Some(Flaw::RepeatsAreNew)
            && let bookahead_protocol::Call::Reserve { id, .. } = &mut envelope.call
            && self.ledger.entry(*id).is_some()
        {
            self.repeats += 1;
            id.0 = (1 << 127) | self.repeats;
            envelope.key.0 = (1 << 127) | self.repeats;
        }
        envelope
    }

    /// What the ledger is shown of the clusters.
    fn look(&mut self, now: Moment) -> Views {
        let mut views = Views::default();
        for (name, cluster) in &mut self.clusters {
            cluster.advance(now.second());
            let view = View { running: cluster.running(), waiting: cluster.waiting(), foreign: Vec::new() };
            views.0.insert(name.clone(), view);
        }
        views
    }

    /// Room is taken from a cluster before that is written down, and given back after: whatever comes between, no job
    /// runs in room that is promised.
    fn change(&mut self, changes: Vec<Change>) {
        let (take, give_back): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.gave_back.is_empty());
        take.into_iter().for_each(|change| self.tell(change));
        self.after_writing.extend(give_back);
    }

    fn tell(&mut self, change: Change) {
        if let Some(cluster) = self.clusters.get_mut(&change.resource) {
            cluster.reserve(change.id, change.took);
        }
    }

    pub(super) fn tick(&mut self, now: Moment) -> Done<Event> {
        self.look(now);
        let ticked = self.ledger.tick(now);
        self.change(ticked.changes);
        Done { events: ticked.events, send: Vec::new() }
    }

    /// Part of a resource fails, or comes back, whether the site is up or not.
    pub(super) fn fail(&mut self, now: Moment, resource: &Name, capacity: Capacity, back: bool) {
        if let Some(cluster) = self.clusters.get_mut(resource) {
            cluster.advance(now.second());
            cluster.lose(capacity, back);
        }
        let failed = self.failed.entry(resource.clone()).or_default();
        failed.0 = if back { failed.0.saturating_sub(capacity.0) } else { failed.0 + capacity.0 };
    }

    /// It notices what has failed or is back.
    pub(super) fn notice(&mut self, now: Moment) -> Done<Event> {
        let mut done = self.tick(now);
        done.events.extend(self.report_failures(now));
        done
    }

    /// Tells the ledger what has failed and what is back, as far as it does not know.
    fn report_failures(&mut self, now: Moment) -> Vec<Event> {
        let (mut events, mut changes) = (Vec::new(), Vec::new());
        for (resource, failed) in &self.failed {
            let known = self.ledger.lost_capacity(resource);
            let most = self.rules.resources.iter().find(|offered| offered.resource.name == *resource);
            let failed = (*failed).min(most.map_or(Capacity::ZERO, |offered| offered.resource.capacity));
            let ticked = if failed > known {
                self.ledger.lost(now, resource, Capacity(failed.0 - known.0))
            } else if failed < known {
                self.ledger.restored(now, resource, Capacity(known.0 - failed.0))
            } else {
                continue;
            };
            events.extend(ticked.events);
            changes.extend(ticked.changes);
        }
        self.change(changes);
        events
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        self.ledger.next_deadline()
    }

    pub(super) fn write(&mut self, events: Vec<Event>) {
        self.journal.extend(events);
        for change in std::mem::take(&mut self.after_writing) {
            self.tell(change);
        }
    }

    /// Starts anew from the journal; the clusters have gone on meanwhile, and are told what is reserved.
    pub(super) fn restart(&mut self, now: Moment) -> Done<Event> {
        let Ok(mut ledger) = Ledger::new(self.rules.clone()) else { return Done::default() };
        if let Some(flaw) = self.flaw {
            flaw.set_in_ledger(&mut ledger);
        }
        for event in &self.journal {
            let event = Flaw::replayed(self.flaw, event);
            ledger.apply(&event);
        }
        self.ledger = ledger;
        self.after_writing.clear();
        let done = self.notice(now);
        for (name, cluster) in &mut self.clusters {
            let mut booked: BTreeMap<ReservationId, Vec<Span>> = BTreeMap::new();
            for (id, span) in self.ledger.reserved(name) {
                booked.entry(id).or_default().push(span);
            }
            let gone: Vec<_> =
                cluster.reserved().keys().filter(|id| !booked.contains_key(id)).copied().collect();
            gone.into_iter().for_each(|id| cluster.reserve(id, Vec::new()));
            let known = cluster.reserved().clone();
            for (id, spans) in booked.into_iter().filter(|(id, spans)| known.get(id) != Some(spans)) {
                cluster.reserve(id, spans);
            }
        }
        done
    }
}
