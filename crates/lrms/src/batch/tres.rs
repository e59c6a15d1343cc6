//! GPUs, memory, licences and other things beside the capacity of a resource: what the batch system has of them, and
//! what is not free for the ledger. Things on nodes come with whole nodes if the resource is counted in nodes;
//! otherwise, and always for licences, jobs and reservations use a number of them.

use super::system::{FactState, Handle, Node, Reserved, Unit};
use super::view::{FAR, ResourceView};
use bookahead_plan::{Capacity, Interval, Span, Time};
use bookahead_protocol::ledger::both;
use bookahead_protocol::{Name, Tres};
use std::collections::BTreeMap;

/// Things beside cores and nodes, as the batch system reports them. Empty for a batch system without.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TresPicture {
    /// Totals of things that belong to no node, such as licences.
    pub totals: Tres,
    /// Things of each node.
    pub nodes: BTreeMap<String, Tres>,
    /// Numbers of things that reservations have, apart from those that come with their nodes.
    pub reserved: BTreeMap<Handle, Tres>,
    /// Numbers of things that running jobs use.
    pub jobs: Vec<TresJob>,
}

/// The things that a running job uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TresJob {
    /// Numbers.
    pub tres: Tres,
    /// Its end by its time limit; None for no limit.
    pub ends: Option<Time>,
    /// Reservations that it runs in.
    pub reservations: Vec<Handle>,
}

impl TresPicture {
    /// The sum of a thing over nodes.
    pub fn on_nodes<'a>(&self, name: &Name, nodes: impl IntoIterator<Item = &'a str>) -> Capacity {
        let on = nodes.into_iter().filter_map(|node| self.nodes.get(node));
        Capacity(on.fold(0, |sum, tres| sum.saturating_add(tres.of(name).0)))
    }

    /// Whether it comes with whole nodes on a resource of this unit.
    fn comes_with_nodes(&self, name: &Name, unit: Unit) -> bool {
        unit == Unit::Nodes && self.totals.of(name) == Capacity::ZERO
    }

    /// The amounts of a reservation, of the things that a resource offers.
    pub(super) fn of(&self, reserved: &Reserved, offered: &Tres, unit: Unit) -> Tres {
        let amount = |name: &Name| match self.comes_with_nodes(name, unit) {
            true => self.on_nodes(name, reserved.cores.keys().map(String::as_str)),
            false => self.reserved.get(&reserved.handle).map_or(Capacity::ZERO, |tres| tres.of(name)),
        };
        let all = offered.iter().map(|(name, _)| (name.clone(), amount(name)));
        Tres(all.filter(|(_, amount)| *amount > Capacity::ZERO).collect())
    }
}

impl ResourceView<'_> {
    /// Amounts that are not free and not promised by the ledger, of each thing that the resource offers.
    pub(super) fn tres(&self, offered: &Tres) -> BTreeMap<Name, Vec<Span>> {
        let taken = |(name, total)| (Name::clone(name), self.tres_taken(name, total));
        offered.iter().map(taken).filter(|(_, spans)| !spans.is_empty()).collect()
    }

    fn tres_taken(&self, name: &Name, offered: Capacity) -> Vec<Span> {
        let tres = &self.picture.tres;
        let total = tres.totals.of(name).max(tres.on_nodes(name, self.nodes.keys().copied()));
        let away = Capacity(offered.0.saturating_sub(total.0));
        let mut spans = vec![Span { interval: Interval::new(self.now, self.now + FAR), capacity: away }];
        if tres.comes_with_nodes(name, self.place.unit) {
            spans.extend(self.on_taken_nodes(name));
            spans.extend(self.surplus(name));
        } else {
            spans.extend(self.used_by_jobs(name));
            spans.extend(self.reserved_by_others(name));
        }
        spans.retain(|span| span.capacity > Capacity::ZERO && !span.interval.is_empty());
        spans
    }

    /// The things of nodes that jobs outside of reservations use, or others have reserved, each node once.
    fn on_taken_nodes(&self, name: &Name) -> Vec<Span> {
        let mut taken: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
        let mut take = |node: &Node, interval: Interval| {
            if let Some((node, here)) = self.picture.tres.nodes.get_key_value(&node.name) {
                let spans = taken.entry(node.as_str()).or_default();
                *spans = both(spans, &[Span { interval, capacity: here.of(name) }]);
            }
        };
        for job in self.picture.jobs.iter().filter(|job| job.state == FactState::Running) {
            let interval = Interval::new(self.now, self.end(job));
            self.nodes_taken(job).into_iter().flatten().for_each(|(node, _)| take(node, interval));
        }
        for reserved in self.reservations.values().filter(|one| !self.ours.contains_key(&one.handle)) {
            let nodes = reserved.cores.keys().filter_map(|node| self.nodes.get(node.as_str()));
            nodes.for_each(|node| take(node, reserved.interval));
        }
        taken.into_values().flatten().collect()
    }

    /// Things on nodes of our reservations beyond those that were ordered: they cannot be promised to others.
    fn surplus(&self, name: &Name) -> Vec<Span> {
        let ours = self.ours.values().filter(|(_, piece)| piece.resource == self.place.resource);
        let surplus = ours.filter_map(|(_, piece)| {
            let reserved = self.reservations.get(&piece.handle)?;
            let up = reserved.cores.keys().map(String::as_str).filter(|node| self.nodes.contains_key(node));
            let has = self.picture.tres.on_nodes(name, up);
            let capacity = Capacity(has.0.saturating_sub(piece.tres.of(name).0));
            Some(Span { interval: piece.span.interval, capacity })
        });
        surplus.collect()
    }

    fn used_by_jobs(&self, name: &Name) -> Vec<Span> {
        // A job in a reservation uses what the reservation has, which is counted with it.
        let inside =
            |handle: &Handle| self.reservations.get(handle).is_some_and(|one| one.interval.begin <= self.now);
        let outside = self.picture.tres.jobs.iter().filter(|job| !job.reservations.iter().any(inside));
        let used = outside.map(|job| {
            let end = job.ends.unwrap_or(self.now + FAR).max(self.now + bookahead_plan::Seconds(1));
            Span { interval: Interval::new(self.now, end), capacity: job.tres.of(name) }
        });
        used.collect()
    }

    fn reserved_by_others(&self, name: &Name) -> Vec<Span> {
        let others = self.reservations.values().filter(|one| !self.ours.contains_key(&one.handle));
        let reserved = others.filter_map(|one| {
            let capacity = self.picture.tres.reserved.get(&one.handle)?.of(name);
            Some(Span { interval: one.interval, capacity })
        });
        reserved.collect()
    }
}
