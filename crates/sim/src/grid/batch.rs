//! The batch system behind a simulated site: it takes orders and reports, keeps backings, runs jobs, and outlives its
//! site. It is the ground truth for the witness.
//!
//! As in the real system there are two kinds. *In process*: part of the site's daemon, obeys immediately, and loses its
//! backings when the daemon ends; running jobs continue. *External*: must be asked, takes time, and can fail in every
//! way that was observed with real batch systems ([`super::external`]).

use super::cluster::Cluster;
use super::external::External;
use super::log::Tally;
use bookahead_party::{BatchError, BatchOrder, BatchReport, Look, OrderId, Seen, Tagged};
use bookahead_plan::{Capacity, Seconds, Span, Time};
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often in a row a site may order a backing that is already as it should be. After an unanswered order it does not
/// know that; more repetitions would mean that it never settles.
const MOST_NEEDLESS: u32 = 4;

/// A batch system with one cluster per resource.
#[derive(Default)]
pub struct Batch {
    pub(super) clusters: BTreeMap<Name, Cluster>,
    pub(super) external: Option<External>,
    /// In process: the newest order per reservation, to skip an older one that arrives later.
    newest: BTreeMap<ReservationId, OrderId>,
    /// In process: sum of the cluster versions that the site was last told.
    seen: u64,
    /// Lead of its clock.
    pub(super) skew: Seconds,
    /// Number of orders in a row that did not change the backing.
    pub(super) needless: BTreeMap<ReservationId, u32>,
    /// Reservations whose backing was changed by a fault and not by the site.
    pub(super) touched: BTreeSet<ReservationId>,
    /// Counts of injected faults.
    pub(super) tally: Tally,
}

impl Batch {
    /// External, or in process without `external`.
    pub(super) fn new(clusters: BTreeMap<Name, Cluster>, external: Option<External>) -> Batch {
        Batch { clusters, external, ..Batch::default() }
    }

    /// Its clusters, by resource.
    pub fn clusters(&self) -> &BTreeMap<Name, Cluster> {
        &self.clusters
    }

    /// Runs all clusters up to `now`.
    pub(super) fn advance(&mut self, now: Moment) {
        let now = self.time(now);
        self.clusters.values_mut().for_each(|cluster| cluster.advance(now));
    }

    /// In process: time of the next event of a job of the site.
    pub(super) fn next_event(&self) -> Option<Moment> {
        let busy = self.clusters.values().filter(|cluster| cluster.live_jobs().next().is_some());
        busy.filter_map(Cluster::next_event).min().filter(|_| self.external.is_none()).map(Moment::of)
    }

    /// In process: changes since the last call.
    pub(super) fn news(&mut self, site_now: Moment) -> Vec<BatchReport> {
        let mut news = Vec::new();
        for cluster in self.clusters.values_mut() {
            news.extend(cluster.changes.drain(..).map(BatchReport::JobChanged));
        }
        let version = self.clusters.values().map(|cluster| cluster.version).sum();
        if self.seen != version {
            self.seen = version;
            news.push(self.looked(None, site_now));
        }
        news
    }

    fn looked(&self, order: Option<OrderId>, at: Moment) -> BatchReport {
        let look = Look { resources: self.resources(), jobs: self.jobs(), ..Look::default() };
        BatchReport::Looked { order, at, outcome: Ok(look) }
    }

    /// In process: reserves room before the site's events are durable.
    pub(super) fn keep_now(&mut self, order: BatchOrder) {
        if let BatchOrder::Keep { order, backing } = order {
            self.newest.insert(backing.id, order);
            if let Some(cluster) = self.clusters.get_mut(&backing.resource) {
                cluster.reserve(backing.id, backing.spans);
            }
        }
    }

    /// In process: carries out an order immediately.
    pub(super) fn obey(&mut self, site_now: Moment, order: BatchOrder) -> BatchReport {
        match order {
            BatchOrder::Keep { order, backing } => {
                let id = backing.id;
                // `keep_now` may already have carried out a newer order.
                if self.newest.get(&id).is_none_or(|newest| *newest < order) {
                    self.keep_now(BatchOrder::Keep { order, backing });
                }
                BatchReport::Kept { order, id, outcome: Ok(()) }
            }
            BatchOrder::Look { order } => self.looked(Some(order), site_now),
            order => self.about_a_job(&order),
        }
    }

    pub(super) fn about_a_job(&mut self, order: &BatchOrder) -> BatchReport {
        let (id, outcome) = match order {
            BatchOrder::Submit { job, .. } => {
                let unknown = || Err(BatchError::Refused("there is no such resource".to_owned()));
                (job.id, self.clusters.get_mut(&job.resource).map_or_else(unknown, |on| on.submit(job)))
            }
            BatchOrder::Bind { job, .. } => {
                let unknown = || Err(BatchError::Refused("there is no such resource".to_owned()));
                (job.id, self.clusters.get_mut(&job.resource).map_or_else(unknown, |on| on.bind(job)))
            }
            BatchOrder::Go { job, .. } => {
                self.clusters.values_mut().for_each(|cluster| cluster.go(*job));
                (*job, Ok(()))
            }
            BatchOrder::Cancel { job, .. } => {
                self.clusters.values_mut().for_each(|cluster| cluster.cancel(*job));
                (*job, Ok(()))
            }
            BatchOrder::Keep { .. } | BatchOrder::Look { .. } => (JobId(0), Ok(())),
        };
        BatchReport::Job { order: order.order(), job: id, outcome }
    }

    /// The site crashes: an in-process batch system loses its backings.
    pub(super) fn site_crashes(&mut self) {
        if self.external.is_none() {
            self.clusters.values_mut().for_each(Cluster::sleep);
            (self.newest, self.seen) = (BTreeMap::new(), 0);
        }
    }

    /// Capacity of a resource fails or comes back. `chosen` selects the backings, by index, whose nodes fail.
    pub(super) fn lose(
        &mut self,
        resource: &Name,
        capacity: Capacity,
        back: bool,
        chosen: impl Fn(usize) -> bool,
    ) {
        let Some(cluster) = self.clusters.get_mut(resource) else { return };
        let before = cluster.lost;
        let lost = if back { before.saturating_sub(capacity.0) } else { before.saturating_add(capacity.0) };
        let hit = cluster.reserved.keys().copied().enumerate().filter(|(at, _)| !back && chosen(*at));
        let hit: Vec<ReservationId> = hit.map(|(_, id)| id).collect();
        cluster.lose(Capacity(lost), self.external.as_ref().map(|_| &hit[..]));
        self.touched.extend(cluster.hits.keys());
        self.tally
            .add("reservations_on_nodes_away", cluster.hits.values().filter(|hit| **hit > 0).count() as u64);
    }

    /// A complete poll of all clusters.
    pub(super) fn resources(&self) -> BTreeMap<Name, Arc<Seen>> {
        self.clusters.iter().map(|(name, cluster)| (name.clone(), Arc::new(cluster.seen()))).collect()
    }

    pub(super) fn jobs(&self) -> Vec<bookahead_party::JobStatus> {
        self.clusters.values().flat_map(Cluster::statuses).collect()
    }

    /// All backings of the site, as a site without a journal finds them.
    pub(super) fn tagged(&self) -> Vec<Tagged> {
        let all = self.clusters.iter().flat_map(|(name, cluster)| {
            let tag = |(&id, spans): (_, &Vec<Span>)| Tagged {
                id,
                owner: None,
                resource: name.clone(),
                spans: spans.clone(),
            };
            cluster.reserved.iter().map(tag)
        });
        all.collect()
    }

    /// The backing of a reservation on nodes that are up.
    pub(super) fn kept(&self, resource: &Name, id: ReservationId) -> Vec<Span> {
        self.clusters.get(resource).map_or_else(Vec::new, |cluster| cluster.kept(id))
    }

    /// Reservations that the site orders repeatedly without need.
    pub(super) fn repeated(&self) -> impl Iterator<Item = String> {
        let often = self.needless.iter().filter(|(_, often)| **often > MOST_NEEDLESS);
        often.map(|(id, often)| format!("{id} was ordered {often} times as it is"))
    }

    /// The time by its own clock.
    pub(super) fn time(&self, now: Moment) -> Time {
        now.second() + self.skew
    }
}
