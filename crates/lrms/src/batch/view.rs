//! The state of one resource, derived from a picture of the whole batch system: jobs outside of reservations,
//! reservations of others, lost capacity, and our reservations, with the part of them on unavailable nodes. A batch
//! system may allow an administrator to reserve our nodes later as well. Such nodes do not count as ours, since the
//! jobs of that reservation run and ours do not.
//!
//! Only usable nodes count for reservations of others. No sum exceeds the capacity of the resource, whatever the
//! picture says.

use super::adapter::State;
use super::backing::Order;
use super::pieces::Piece;
use super::system::{FactState, Handle, JobFact, Node, Picture, Place, Reserved, Unit};
use crate::maintenance::{self, Window};
use bookahead_party::{Look, Seen};
use bookahead_plan::{Capacity, Interval, Owner, Running, Seconds, Span, Time, Waiting};
use bookahead_protocol::ledger::{Maintenance, Started, View, both, taken};
use bookahead_protocol::{Name, ReservationId, Tres};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs and reservations without an end are taken to end after ten years.
pub(super) const FAR: Seconds = Seconds(10 * 365 * 86_400);

/// Longest shown name of a maintenance reservation. Slurm accepts any length.
const LONGEST_NAME: usize = 100;

/// One resource in a picture.
pub(super) struct ResourceView<'a> {
    pub(super) picture: &'a Picture,
    pub(super) place: &'a Place,
    pub(super) capacity: Capacity,
    pub(super) now: Time,
    /// Its usable nodes.
    pub(super) nodes: BTreeMap<&'a str, &'a Node>,
    /// All reservations that are not over.
    pub(super) reservations: BTreeMap<&'a Handle, &'a Reserved>,
    /// Our own reservations among them.
    pub(super) ours: BTreeMap<&'a Handle, (ReservationId, &'a Piece)>,
    /// Totals of things beside the capacity that it offers.
    offered: &'a Tres,
    /// Recurring maintenance that the site configures itself.
    windows: &'a [Window],
}

impl<'a> ResourceView<'a> {
    pub(super) fn new(state: &'a State, place: &'a Place, capacity: Capacity) -> ResourceView<'a> {
        let (picture, now) = (&state.looks.picture, state.now.second());
        let here = |node: &&Node| node.usable && node.resources.contains(&place.resource);
        let nodes = picture.nodes.iter().filter(here).map(|node| (node.name.as_str(), node)).collect();
        let live = picture.reservations.iter().filter(|reserved| reserved.interval.end > now);
        let reservations = live.map(|reserved| (&reserved.handle, reserved)).collect();
        let (ours, windows) = (state.pieces.by_handle(), &state.settings.maintenance[..]);
        let offered = state.settings.tres_of(&place.resource);
        ResourceView { picture, place, capacity, now, nodes, reservations, ours, offered, windows }
    }

    /// Reservations of others that are not over. One that repeats is there once for each time, with one handle.
    fn of_others(&self) -> impl Iterator<Item = &'a Reserved> {
        let live = self.picture.reservations.iter().filter(|reserved| reserved.interval.end > self.now);
        live.filter(|reserved| !self.ours.contains_key(&reserved.handle))
    }

    /// Maintenance of the batch system and of the site itself.
    fn maintenance(&self, windows: Vec<Maintenance>) -> Vec<Maintenance> {
        let native = self.of_others().filter(|reserved| reserved.maintenance).flat_map(|reserved| {
            let name = shown_name(&reserved.name);
            let named = move |span| Maintenance { name: name.clone(), span };
            on_nodes(self, std::iter::once(reserved)).into_iter().map(named)
        });
        let mut all: Vec<Maintenance> = native.chain(windows).collect();
        all.sort_by_key(|one| (one.span.interval.begin, one.span.interval.end));
        all
    }

    pub(super) fn seen(&self) -> Seen {
        let (running, waiting) = (self.running(), self.waiting());
        let windows = maintenance::planned(self.windows, &self.place.resource, self.capacity, self.now);
        let mut foreign = on_nodes(self, self.of_others());
        if !windows.is_empty() {
            foreign = both(&foreign, &maintenance::taken(&windows));
        }
        let maintenance = self.maintenance(windows);
        let tres = self.tres(self.offered);
        let view = View { running, waiting, foreign, tres, maintenance, by_class: false };
        let (backings, away) = backings(self);
        Seen { view, lost: self.lost(), backings, away, in_use: BTreeSet::new(), started: self.started() }
    }

    fn lost(&self) -> Capacity {
        let usable = self.place.unit.of_nodes(self.nodes.values().copied());
        Capacity(self.capacity.0.saturating_sub(usable))
    }

    /// Jobs that run outside of reservations. If they exceed the capacity, those that end first are dropped.
    fn running(&self) -> Vec<Running> {
        let jobs = self.picture.jobs.iter().filter(|job| job.state == FactState::Running);
        let mut running: Vec<Running> = match self.place.unit {
            Unit::Cores => jobs.filter_map(|job| self.running_on_cores(job)).collect(),
            Unit::Nodes => self.running_on_nodes(jobs),
        };
        // Jobs that end last matter most for plans, so they keep their capacity if the sum is too large.
        running.sort_by_key(|job| std::cmp::Reverse(job.expected_end));
        let mut left = self.capacity.0;
        for job in &mut running {
            job.capacity = Capacity(job.capacity.0.min(left));
            left -= job.capacity.0;
        }
        running.retain(|job| job.capacity > Capacity::ZERO);
        running
    }

    fn running_on_cores(&self, job: &JobFact) -> Option<Running> {
        let cores = match self.nodes_taken(job) {
            Some(taken) => taken.fold(0, |sum: u32, (node, cores)| sum.saturating_add(cores.min(node.cores))),
            None => job.cores,
        };
        (cores > 0).then(|| Running { expected_end: self.end(job), capacity: Capacity(cores), owner: 0 })
    }

    /// Counts each node once, until the end of its last job.
    fn running_on_nodes<'b>(&self, jobs: impl Iterator<Item = &'b JobFact>) -> Vec<Running> {
        let mut until: BTreeMap<&str, Time> = BTreeMap::new();
        let mut running = Vec::new();
        for job in jobs {
            let end = self.end(job);
            match self.nodes_taken(job) {
                Some(taken) => taken.for_each(|(node, _)| {
                    let latest = until.entry(node.name.as_str()).or_insert(end);
                    *latest = (*latest).max(end);
                }),
                None => running.push(Running {
                    expected_end: end,
                    capacity: Capacity(job.nodes.max(1)),
                    owner: 0,
                }),
            }
        }
        let nodes =
            until.into_values().map(|expected_end| Running { expected_end, capacity: Capacity(1), owner: 0 });
        running.extend(nodes);
        running
    }

    /// The nodes of this resource that a running job uses outside of its reservations; None if it runs here on
    /// unknown nodes.
    pub(super) fn nodes_taken<'b>(
        &'b self,
        job: &'b JobFact,
    ) -> Option<impl Iterator<Item = (&'b Node, u32)>> {
        let inside: Vec<&Reserved> = job
            .reservations
            .iter()
            .filter_map(|handle| self.reservation_of_job(handle))
            // A job that started in the reservation proves its begin, even if the look began before.
            .filter(|reserved| Some(reserved.interval.begin) <= job.started.max(Some(self.latest_now())))
            .collect();
        let untold = job.placed.is_empty();
        if untold && inside.is_empty() && job.resources.contains(&self.place.resource) {
            return None;
        }
        let outside = move |node: &str| !inside.iter().any(|reserved| reserved.cores.contains_key(node));
        let taken = job.placed.iter().filter(move |(node, cores)| **cores > 0 && outside(node));
        Some(taken.filter_map(|(node, cores)| Some((*self.nodes.get(node.as_str())?, *cores))))
    }

    /// A reservation that is not over, or a deleted one whose jobs are still ending: those occupy no other capacity.
    fn reservation_of_job(&self, handle: &Handle) -> Option<&'a Reserved> {
        let leaving =
            || self.picture.reservations.iter().find(|one| one.handle == *handle && one.name.is_empty());
        self.reservations.get(handle).copied().or_else(leaving)
    }

    /// The later of both clocks.
    fn latest_now(&self) -> Time {
        self.picture.clock.unwrap_or(self.now).max(self.now)
    }

    pub(super) fn end(&self, job: &JobFact) -> Time {
        let started = job.started.unwrap_or(self.now);
        let end = job.limit.map_or(Time::MAX, |limit| started + limit);
        // A job past its limit still runs, so it ends in a second at the earliest.
        end.clamp(self.now + Seconds(1), self.now + FAR)
    }

    /// Jobs that started outside of reservations, including finished ones that are still shown. Left out if their
    /// submission is unknown.
    fn started(&self) -> Vec<Started> {
        let here = |job: &&JobFact| job.resources.contains(&self.place.resource);
        let known = |job: &&JobFact| job.reservations.is_empty() && job.submitted > Time(0);
        let jobs = self.picture.jobs.iter().filter(here).filter(known);
        let started = jobs.filter_map(|job| {
            Some(Started {
                start: job.started?,
                eligible: job.eligible.unwrap_or(job.submitted).max(job.submitted),
                capacity: Capacity(self.place.unit.amount(job).clamp(1, self.capacity.0.max(1))),
                estimate: job.limit.unwrap_or(FAR).clamp(Seconds(1), FAR),
            })
        });
        started.collect()
    }

    /// Jobs that wait outside of reservations, in scheduling order.
    fn waiting(&self) -> Vec<Waiting> {
        let here = |job: &&JobFact| job.resources.contains(&self.place.resource);
        let waiting = self.picture.jobs.iter().filter(|job| job.state == FactState::Waiting).filter(here);
        let outside = waiting.filter(|job| job.reservations.is_empty());
        // Descending priorities make the planner keep the batch system's order.
        let asked = (0_i32..).zip(outside).map(|(rank, job)| Waiting {
            submit: job.submitted,
            estimate: job.limit.unwrap_or(FAR).clamp(Seconds(1), FAR),
            capacity: Capacity(self.place.unit.amount(job).clamp(1, self.capacity.0.max(1))),
            priority: -rank,
            owner: Owner::NONE,
        });
        asked.collect()
    }
}

/// A name that an administrator gave, as users see it.
fn shown_name(name: &str) -> Name {
    let visible = name.chars().filter(|letter| !letter.is_control() && *letter != '`');
    visible.take(LONGEST_NAME).collect::<String>().into()
}

/// Capacity taken by reservations over time, for each node at most its size.
fn on_nodes<'a>(view: &ResourceView<'a>, reservations: impl Iterator<Item = &'a Reserved>) -> Vec<Span> {
    let mut edges: BTreeMap<Time, Vec<(bool, &Reserved)>> = BTreeMap::new();
    for reserved in reservations.filter(|reserved| !reserved.interval.is_empty()) {
        edges.entry(reserved.interval.begin).or_default().push((true, reserved));
        edges.entry(reserved.interval.end).or_default().push((false, reserved));
    }
    let mut taken = Taken { view, on: BTreeMap::new(), sum: 0 };
    let mut spans = Vec::new();
    let mut begin = Time::MIN;
    for (edge, reservations) in edges {
        let capacity = Capacity(u32::try_from(taken.sum).unwrap_or(u32::MAX).min(view.capacity.0));
        append(&mut spans, Interval::new(begin, edge), capacity);
        begin = edge;
        reservations.into_iter().for_each(|(begins, reserved)| taken.count(reserved, begins));
    }
    spans
}

/// Cores reserved on each node at one time.
struct Taken<'a> {
    view: &'a ResourceView<'a>,
    on: BTreeMap<&'a str, u64>,
    /// Over all nodes, in the unit of the resource.
    sum: u64,
}

impl<'a> Taken<'a> {
    fn count(&mut self, reserved: &'a Reserved, begins: bool) {
        for (name, cores) in &reserved.cores {
            let Some(node) = self.view.nodes.get(name.as_str()) else { continue };
            let (unit, cores) = (self.view.place.unit, u64::from(*cores));
            let on = self.on.entry(name.as_str()).or_default();
            // The share of a node is not linear in its cores, so subtract the old share and add the new one.
            self.sum -= share(unit, node, *on);
            *on = if begins { on.saturating_add(cores) } else { on.saturating_sub(cores) };
            self.sum += share(unit, node, *on);
        }
    }
}

/// The share of a node, in the unit of the resource, if this many of its cores are in use.
fn share(unit: Unit, node: &Node, cores: u64) -> u64 {
    match unit {
        Unit::Cores => cores.min(u64::from(node.cores)),
        Unit::Nodes => u64::from(cores > 0),
    }
}

/// The spans of each of our reservations, and the peak of each on unavailable nodes.
fn backings(
    view: &ResourceView<'_>,
) -> (BTreeMap<ReservationId, Vec<Span>>, BTreeMap<ReservationId, Capacity>) {
    let mut kept: BTreeMap<ReservationId, Vec<Span>> = BTreeMap::new();
    let mut away: BTreeMap<ReservationId, Vec<Span>> = BTreeMap::new();
    for (handle, (id, piece)) in &view.ours {
        let reserved = view.reservations.get(handle).filter(|_| piece.resource == view.place.resource);
        let Some(reserved) = reserved else { continue };
        kept.entry(*id).or_default().extend(not_taken(view, reserved, piece));
        let capacity = Capacity(on_nodes_away(view, reserved).min(piece.span.capacity.0));
        if capacity > Capacity::ZERO {
            away.entry(*id).or_default().push(Span { capacity, ..piece.span });
        }
    }
    kept.values_mut().for_each(|spans| spans.sort_unstable());
    let most = |spans: Vec<Span>| {
        let begins = spans.iter().map(|span| span.interval.begin);
        begins.map(|begin| taken(&spans, begin)).max().unwrap_or(Capacity::ZERO)
    };
    (kept, away.into_iter().map(|(id, spans)| (id, most(spans))).collect())
}

/// Capacity of a reservation on unusable nodes.
fn on_nodes_away(view: &ResourceView<'_>, reserved: &Reserved) -> u32 {
    let all = view.place.unit.reserved(reserved);
    let up = reserved.cores.iter().filter_map(|(name, cores)| {
        let node = view.nodes.get(name.as_str())?;
        Some(share(view.place.unit, node, u64::from(*cores)))
    });
    all.saturating_sub(u32::try_from(up.sum::<u64>()).unwrap_or(u32::MAX))
}

/// Whether others reserved nodes of this reservation of ours.
fn is_taken(view: &ResourceView<'_>, reserved: &Reserved, asked: Interval) -> bool {
    // Conflicts in the past no longer matter.
    let interval = Interval::new(asked.begin.max(view.now), asked.end);
    let (strangers, friends) = others(view, interval);
    let edges: Vec<Time> = strangers.iter().map(|other| other.interval.begin.max(interval.begin)).collect();
    let mut nodes = reserved.cores.keys().filter_map(|name| view.nodes.get(name.as_str()));
    nodes.any(|node| edges.iter().any(|at| is_taken_from_us(node, *at, &strangers, &friends)))
}

/// Overlapping reservations: those of others, and ours.
fn others<'a>(view: &ResourceView<'a>, interval: Interval) -> (Vec<&'a Reserved>, Vec<&'a Reserved>) {
    let meets = |other: &Reserved| other.interval.begin < interval.end && interval.begin < other.interval.end;
    let friends = view.reservations.values().copied().filter(|other| view.ours.contains_key(&other.handle));
    (view.of_others().filter(|other| meets(other)).collect(), friends.filter(|other| meets(other)).collect())
}

/// The spans of a piece, less the nodes taken by others.
fn not_taken(view: &ResourceView<'_>, reserved: &Reserved, piece: &Piece) -> Vec<Span> {
    let asked = piece.span.interval;
    let (strangers, friends) = others(view, asked);
    let mut edges = vec![asked.begin, asked.end];
    // Without other reservations, the whole interval is one span.
    if !strangers.is_empty() {
        let all = strangers.iter().chain(&friends);
        let inside = all.flat_map(|other| [other.interval.begin, other.interval.end]);
        edges.extend(inside.filter(|edge| asked.begin < *edge && *edge < asked.end));
    }
    edges.sort_unstable();
    edges.dedup();
    let all = view.place.unit.reserved(reserved);
    let mut spans = Vec::new();
    for pair in edges.windows(2) {
        let interval = Interval::new(pair[0], pair[1]);
        let taken = reserved.cores.iter().filter_map(|(name, cores)| {
            let node = view.nodes.get(name.as_str())?;
            let taken = is_taken_from_us(node, interval.begin, &strangers, &friends);
            taken.then(|| share(view.place.unit, node, u64::from(*cores)))
        });
        let kept = all.saturating_sub(u32::try_from(taken.sum::<u64>()).unwrap_or(u32::MAX));
        append(&mut spans, interval, Capacity(kept.min(view.capacity.0)));
    }
    spans
}

/// Whether reservations of others leave too little of a node to honour ours: the batch system allowed it and
/// prefers them. If the cores for each node are not exact, only a reservation of the whole node counts.
fn is_taken_from_us(node: &Node, at: Time, strangers: &[&Reserved], friends: &[&Reserved]) -> bool {
    let on =
        |reserved: &&&Reserved| reserved.interval.contains(at) && reserved.cores.contains_key(&node.name);
    let cores = |reserved: &Reserved| u64::from(reserved.cores.get(&node.name).copied().unwrap_or(0));
    let mut theirs = strangers.iter().filter(on).peekable();
    if theirs.peek().is_none() {
        return false;
    }
    let there: Vec<&&Reserved> = theirs.clone().chain(friends.iter().filter(on)).collect();
    if there.iter().all(|reserved| reserved.spread) {
        there.iter().map(|reserved| cores(reserved)).sum::<u64>() > u64::from(node.cores)
    } else {
        theirs.any(|reserved| cores(reserved) >= u64::from(node.cores))
    }
}

/// Appends a span unless it is empty; extends the last one if nothing changes.
fn append(spans: &mut Vec<Span>, interval: Interval, capacity: Capacity) {
    match spans.last_mut() {
        Some(last) if last.capacity == capacity && last.interval.end == interval.begin => {
            last.interval.end = interval.end;
        }
        _ if capacity > Capacity::ZERO => spans.push(Span { interval, capacity }),
        _ => {}
    }
}

impl State {
    fn views(&self) -> impl Iterator<Item = ResourceView<'_>> {
        self.settings.places.iter().map(|(place, capacity)| ResourceView::new(self, place, *capacity))
    }

    /// The last look, with our own changes since.
    pub(super) fn look(&self) -> Look {
        let seen = self.views().map(|view| (view.place.resource.clone(), view.seen().into()));
        Look {
            resources: seen.collect(),
            jobs: self.jobs.statuses(),
            tagged: self.pieces.tagged(),
            clocks: self.looks.clocks(),
            unreadable: self.looks.picture.unreadable.iter().map(ToString::to_string).collect(),
        }
    }

    fn view(&self, place: &Place) -> Option<ResourceView<'_>> {
        self.views().find(|view| view.place.resource == place.resource)
    }

    /// Whether a piece is not effective: others took some of its nodes, or it must leave unavailable nodes.
    fn is_degraded(&self, order: &Order, piece: &Piece) -> bool {
        let Some(view) = self.view(&order.place) else { return false };
        let Some(reserved) = view.reservations.get(&piece.handle) else { return false };
        let leaves = order.backing.replaces && on_nodes_away(&view, reserved) > 0;
        leaves || is_taken(&view, reserved, piece.span.interval)
    }

    /// Whether a piece is not effective and can be replaced: it has no jobs, or its jobs can move.
    pub(super) fn is_to_be_replaced(&self, order: &Order, piece: &Piece) -> bool {
        let may_go = || self.traits.moves_jobs || !self.has_jobs(&piece.handle);
        self.is_degraded(order, piece) && may_go()
    }

    /// Whether a remaining piece is not effective.
    pub(super) fn is_stuck(&self, order: &Order, handle: &Handle) -> bool {
        let pieces = self.pieces.of(order.backing.id, &order.place.resource, self.terms_now());
        let mut those = pieces.iter().filter(|piece| piece.handle == *handle);
        those.any(|piece| self.is_degraded(order, piece))
    }

    /// Whether some of its nodes are unavailable.
    pub(super) fn is_away(&self, order: &Order, handle: &Handle) -> bool {
        let Some(view) = self.view(&order.place) else { return false };
        view.reservations.get(handle).is_some_and(|reserved| on_nodes_away(&view, reserved) > 0)
    }

    /// Whether jobs wait or run in it.
    pub(super) fn has_jobs(&self, handle: &Handle) -> bool {
        let live = self.looks.picture.jobs.iter().filter(|job| !job.state.is_over());
        live.into_iter().any(|job| job.reservations.contains(handle))
    }
}
