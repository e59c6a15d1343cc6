//! The batch system behind a simulated site: it takes orders and reports, keeps backings, runs jobs, and outlives its
//! site. It is the ground truth for the witness.
//!
//! As in the real system there are two kinds. *In process*: part of the site's daemon, obeys immediately, and loses its
//! backings when the daemon ends; running jobs continue. *External*: must be asked, takes time, and can fail in every
//! way that was observed with real batch systems ([`super::external`]).

use super::cluster::{Cluster, covers};
use super::external::{External, Fate, Work, Worked, failed, unknown};
use super::log::Tally;
use bookahead_party::{Backing, BatchError, BatchOrder, BatchReport, Clocks, Look, OrderId, Seen, Tagged};
use bookahead_plan::{Capacity, Interval, Profile, Seconds, Span, Time};
use bookahead_protocol::ledger::less;
use bookahead_protocol::{JobId, Millis, Moment, Name, ReservationId, Tres};
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
    /// The things beside the capacity of each backing.
    pub(super) tres: BTreeMap<ReservationId, Tres>,
    /// How much there is of each thing, by resource.
    pub(super) totals: BTreeMap<Name, Tres>,
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
            BatchOrder::Release { job, .. } => {
                let released = self.clusters.values_mut().any(|cluster| cluster.release(*job));
                let unknown = || BatchError::Refused("it is unknown or over".to_owned());
                (*job, released.then_some(()).ok_or_else(unknown))
            }
            BatchOrder::Go { job, .. } => {
                self.clusters.values_mut().for_each(|cluster| cluster.go(*job));
                (*job, Ok(()))
            }
            BatchOrder::Requeue { job, restarts, .. } => {
                let unknown = || Err(BatchError::Refused("there is no such resource".to_owned()));
                let cluster = self.clusters.get_mut(&job.resource);
                (job.id, cluster.map_or_else(unknown, |on| on.requeue(job, *restarts)))
            }
            BatchOrder::Warn { job, .. } => (*job, Ok(())),
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
                tres: self.tres.get(&id).cloned().unwrap_or_default(),
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

impl Batch {
    /// Handles due work. `site_now` is the time by the clock of the site; `life` is None while the site is down.
    pub(super) fn work(&mut self, now: Moment, site_now: Moment, life: Option<u32>, work: Work) -> Worked {
        self.advance(now);
        let Some(external) = &mut self.external else { return Worked::default() };
        // The site has crashed since it gave the order; a coin decides whether the order had left it before.
        let stale = matches!(&work, Work::Due { life: given_in, .. } if life != Some(*given_in));
        if stale && external.coin() {
            return Worked::default();
        }
        let work = match external.stall(now, work) {
            Ok(work) => work,
            Err(stalled) => {
                self.tally.count("batch_stalled");
                return stalled;
            }
        };
        match work {
            Work::Late(order) => {
                self.tally.count("batch_carried_out_late");
                self.carry_out(&order, true);
                Worked::default()
            }
            Work::Looked { order, life, at, seen } => {
                let (jobs, tagged) = (self.jobs(), self.tagged());
                let clocks =
                    Some(Clocks { ours: site_now.second(), theirs: self.time(now), elsewhere: true });
                let look = Look { resources: seen, jobs, tagged, clocks, ..Look::default() };
                let report = BatchReport::Looked { order: Some(order), at, outcome: Ok(look) };
                Worked { report: Some((life, report)), later: None }
            }
            Work::Due {
                order: BatchOrder::Look { order },
                life,
                fate: Fate::Done | Fate::UnknownDone,
                ..
            } => {
                // The poll sees the present state and is reported later, so that it can miss orders carried out in
                // between.
                let order = if external.by_newest { external.newest.max(order) } else { order };
                let takes = Millis(external.chance.whole(0, external.temper.slowest.0));
                let seen = self.resources();
                let seen = self.external.as_ref().map(|external| external.shown(seen, self.time(now)));
                let seen = seen.unwrap_or_default();
                let looked = Work::Looked { order, life, at: site_now, seen };
                Worked { report: None, later: Some((now + takes, looked)) }
            }
            Work::Due { order, .. } if stale => {
                self.carry_out(&order, true);
                Worked::default()
            }
            Work::Due { order, life, fate, .. } => {
                let (report, late) = self.fulfil(&order, fate);
                let later = late.map(|late| (now + late, Work::Late(order)));
                Worked { report: Some((life, report)), later }
            }
        }
    }

    /// Applies the drawn outcome; returns the report, and the delay after which the order is carried out late.
    fn fulfil(&mut self, order: &BatchOrder, fate: Fate) -> (BatchReport, Option<Millis>) {
        let why = BatchError::Refused("not today".to_owned());
        match fate {
            Fate::Done => (self.carry_out(order, false), None),
            Fate::Refused | Fate::LessUndone => {
                self.tally.count(if fate == Fate::Refused { "batch_refused" } else { "batch_granted_less" });
                (failed(order, &why), None)
            }
            Fate::LessKept => {
                let BatchOrder::Keep { order: number, backing } = order else {
                    return (self.carry_out(order, false), None);
                };
                self.tally.count("batch_granted_less_unnoticed");
                // The adapter has not noticed, so the site cannot know before its next poll.
                self.touched.insert(backing.id);
                let lowered = less(&backing.spans, Capacity(1));
                let other = Backing { spans: lowered, ..backing.clone() };
                (self.carry_out(&BatchOrder::Keep { order: *number, backing: other }, false), None)
            }
            Fate::UnknownDone | Fate::UnknownNever | Fate::UnknownLate(_) => {
                self.tally.count("batch_unanswered");
                if fate == Fate::UnknownDone {
                    self.carry_out(order, false);
                }
                if let BatchOrder::Keep { backing, .. } = order {
                    self.forget_what_the_site_knows(|id| id == backing.id);
                }
                let late = if let Fate::UnknownLate(late) = fate { Some(late) } else { None };
                (failed(order, &unknown()), late)
            }
        }
    }

    /// Carries out an order if there is room. `late` if a newer order may have been carried out before.
    fn carry_out(&mut self, order: &BatchOrder, late: bool) -> BatchReport {
        let BatchOrder::Keep { order: number, backing } = order else { return self.about_a_job(order) };
        let Backing { resource, id, spans, tres, replaces, .. } = backing;
        let (order, id) = (*number, *id);
        let (Some(cluster), Some(total)) = (self.clusters.get_mut(resource), self.totals.get(resource))
        else {
            let why = BatchError::Refused("there is no such resource".to_owned());
            return BatchReport::Kept { order, id, outcome: Err(why) };
        };
        // A late order can undo a newer one. The site cannot prevent that, only correct it after its next poll.
        if late {
            self.touched.insert(id);
        }
        let native = cluster.reserved.get(&id).cloned().unwrap_or_default();
        let same = covers(spans, &native, cluster.now()) && covers(&native, spans, cluster.now());
        if self.external.is_some() && !spans.is_empty() && lacks_tres(cluster, &self.tres, total, backing) {
            let why = BatchError::Refused("there are not enough things beside the capacity".to_owned());
            return BatchReport::Kept { order, id, outcome: Err(why) };
        }
        let same_tres = self.tres.get(&id).map_or(tres.is_empty(), |kept| kept == tres);
        *self.needless.entry(id).or_default() += 1;
        if !same || !same_tres || *replaces {
            self.needless.remove(&id);
        }
        if *replaces {
            self.tally.count("moves_ordered");
        }
        let fits =
            if same { !replaces || cluster.try_move(id) } else { cluster.try_reserve(id, spans.clone()) };
        if fits {
            self.tres.insert(id, tres.clone());
        }
        let outcome = if fits { Ok(()) } else { Err(BatchError::Refused("there is no room".to_owned())) };
        BatchReport::Kept { order, id, outcome }
    }

    /// Polls do not show things beside the capacity, so a site that restarts or gets no answer has to order such a
    /// backing once more.
    pub(super) fn forget_what_the_site_knows(&mut self, of: impl Fn(ReservationId) -> bool) {
        let has_tres = |id: &ReservationId| self.tres.get(id).is_some_and(|tres| !tres.is_empty());
        self.needless.retain(|id, _| !of(*id) || !has_tres(id));
    }

    /// Whether an order would give up a promised backing while its nodes are away.
    pub(super) fn is_given_away(&self, backing: &Backing, promised: &[Span]) -> bool {
        let Some(cluster) = self.clusters.get(&backing.resource) else { return false };
        let native = cluster.reserved.get(&backing.id).map_or(&[][..], Vec::as_slice);
        let away = cluster.hits.get(&backing.id).is_some_and(|hit| *hit > 0);
        let kept = covers(native, promised, cluster.now());
        away && kept && !covers(&backing.spans, promised, cluster.now())
    }

    /// Restarts without the backings that have no jobs.
    pub(super) fn forget(&mut self, now: Moment) {
        self.advance(now);
        for cluster in self.clusters.values_mut() {
            let in_use = cluster.in_use();
            let idle = cluster.reserved.keys().copied().filter(|id| !in_use.contains(id));
            for id in idle.collect::<Vec<_>>() {
                cluster.reserve(id, Vec::new());
                self.touched.insert(id);
                self.tally.count("backings_forgotten");
            }
        }
    }

    /// An operator of the batch system deletes a backing of the site.
    pub(super) fn delete_one(&mut self, now: Moment, which: usize) {
        self.advance(now);
        for cluster in self.clusters.values_mut() {
            let ids: Vec<ReservationId> = cluster.reserved.keys().copied().collect();
            if let Some(id) = ids.get(which % ids.len().max(1)) {
                cluster.reserve(*id, Vec::new());
                self.touched.insert(*id);
                self.tally.count("backings_deleted");
            }
        }
    }

    /// Another client reserves on all clusters that have room, `after` from now.
    pub(super) fn reserve_foreign(
        &mut self,
        now: Moment,
        after: Seconds,
        length: Seconds,
        capacity: Capacity,
    ) {
        self.advance(now);
        let begin = self.time(now) + after;
        let span = Span { interval: Interval::new(begin, begin + length), capacity };
        for cluster in self.clusters.values_mut() {
            if cluster.reserve_foreign(span) {
                self.tally.count("foreign_reservations");
            }
        }
    }
}

/// Whether other backings leave less of a thing than a backing wants, which has it from its begin to its end.
fn lacks_tres(
    cluster: &Cluster,
    kept: &BTreeMap<ReservationId, Tres>,
    total: &Tres,
    wanted: &Backing,
) -> bool {
    let whole =
        |spans: &[Span]| Some(Interval::new(spans.first()?.interval.begin, spans.last()?.interval.end));
    let Some(interval) = whole(&wanted.spans) else { return false };
    wanted.tres.iter().any(|(name, amount)| {
        let mut free = Profile::new(total.of(name), Time::MIN);
        for (id, spans) in cluster.reserved.iter().filter(|(id, _)| **id != wanted.id) {
            let capacity = kept.get(id).map_or(Capacity::ZERO, |tres| tres.of(name));
            whole(spans).into_iter().for_each(|interval| free.add(Span { interval, capacity }));
        }
        free.min_free(interval) < i64::from(amount.0)
    })
}
