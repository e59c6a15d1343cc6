//! What is kept free on one resource, and for whom: what others reserved, and what is really kept of what was granted to
//! us. A batch system may say that a reservation is there although its nodes are down, or although somebody reserved
//! the same nodes as a whole afterwards: then that one's jobs run, and ours do not.

use super::State;
use super::backing::Order;
use super::pieces::{Piece, Pieces};
use super::plan::shared;
use super::system::{Handle, Node, Place, Reserved, Unit};
use super::view::Scene;
use bookahead_plan::{Capacity, Interval, Span, Time};
use bookahead_protocol::ReservationId;
use std::collections::{BTreeMap, BTreeSet};

/// What others reserved, at each time all together; on no node more than it has.
pub(super) fn foreign(scene: &Scene<'_>, pieces: &Pieces) -> Vec<Span> {
    let ours = pieces.by_handle();
    let others = scene.reservations.values().filter(|reserved| !ours.contains_key(&reserved.handle));
    let mut edges: BTreeMap<Time, Vec<(bool, &Reserved)>> = BTreeMap::new();
    for reserved in others.filter(|reserved| !reserved.interval.is_empty()) {
        edges.entry(reserved.interval.begin).or_default().push((true, reserved));
        edges.entry(reserved.interval.end).or_default().push((false, reserved));
    }
    let mut taken = Taken { scene, on: BTreeMap::new(), sum: 0 };
    let mut spans = Vec::new();
    let mut begin = Time::MIN;
    for (edge, reservations) in edges {
        let capacity = Capacity(u32::try_from(taken.sum).unwrap_or(u32::MAX).min(scene.capacity.0));
        append(&mut spans, Interval::new(begin, edge), capacity);
        begin = edge;
        reservations.into_iter().for_each(|(begins, reserved)| taken.count(reserved, begins));
    }
    spans
}

/// What reservations take of each node at one time.
struct Taken<'a> {
    scene: &'a Scene<'a>,
    on: BTreeMap<&'a str, u64>,
    /// Of all nodes, in the unit of the resource.
    sum: u64,
}

impl<'a> Taken<'a> {
    fn count(&mut self, reserved: &'a Reserved, begins: bool) {
        for (name, cores) in &reserved.cores {
            let Some(node) = self.scene.nodes.get(name.as_str()) else { continue };
            let (unit, cores) = (self.scene.place.unit, u64::from(*cores));
            let on = self.on.entry(name.as_str()).or_default();
            self.sum -= share(unit, node, *on);
            *on = if begins { on.saturating_add(cores) } else { on.saturating_sub(cores) };
            self.sum += share(unit, node, *on);
        }
    }
}

/// So much of a node is taken where so many of its cores are.
fn share(unit: Unit, node: &Node, cores: u64) -> u64 {
    match unit {
        Unit::Cores => cores.min(u64::from(node.cores)),
        Unit::Nodes => u64::from(cores > 0),
    }
}

/// What is really kept for each of our reservations; nothing for one of which nothing is left.
pub(super) fn backings(scene: &Scene<'_>, pieces: &Pieces) -> BTreeMap<ReservationId, Vec<Span>> {
    let ours = pieces.by_handle();
    let mut kept: BTreeMap<ReservationId, Vec<Span>> = BTreeMap::new();
    for (handle, (id, piece)) in &ours {
        let reserved = scene.reservations.get(handle).filter(|_| piece.resource == scene.place.resource);
        let Some(reserved) = reserved else { continue };
        let foreign = |other: &&Reserved| !ours.contains_key(&other.handle);
        let spans = really_kept(scene, reserved, piece.span.interval, foreign);
        kept.entry(*id).or_default().extend(spans);
    }
    kept.values_mut().for_each(|spans| spans.sort_unstable());
    kept
}

/// Those of our reservations that jobs wait or run in.
pub(super) fn in_use(scene: &Scene<'_>, pieces: &Pieces) -> BTreeSet<ReservationId> {
    let ours = pieces.by_handle();
    let live = scene.picture.jobs.iter().filter(|job| !job.state.is_over());
    let owners = live.flat_map(|job| &job.reservations).filter_map(|handle| ours.get(handle));
    let here = owners.filter(|(_, piece)| piece.resource == scene.place.resource);
    here.map(|(id, _)| *id).collect()
}

/// The least that is really kept of one reservation of ours, at any instant from now on.
pub(super) fn least(scene: &Scene<'_>, pieces: &Pieces, handle: &Handle, asked: Interval) -> Capacity {
    let ours = pieces.by_handle();
    let Some(reserved) = scene.reservations.get(handle) else { return Capacity::ZERO };
    let rest = Interval::new(asked.begin.max(scene.now), asked.end);
    let spans = really_kept(scene, reserved, rest, |other| !ours.contains_key(&other.handle));
    let covered = spans.iter().fold(0_i64, |sum, span| sum.saturating_add(span.interval.length().0));
    let least = spans.iter().map(|span| span.capacity).min();
    least.filter(|_| covered == rest.length().0).unwrap_or(Capacity::ZERO)
}

/// Whether a reservation of ours is there and does not keep what it says: nodes of it failed, or others have them. Then
/// it is to be made anew, on others.
pub(super) fn is_hollow(scene: &Scene<'_>, pieces: &Pieces, handle: &Handle, asked: Interval) -> bool {
    let ours = pieces.by_handle();
    let Some(reserved) = scene.reservations.get(handle) else { return false };
    let taken = |interval: Interval| {
        let (strangers, friends) = others(scene, interval, |other| !ours.contains_key(&other.handle));
        let edges = strangers.iter().map(|other| other.interval.begin.max(interval.begin));
        let edges: Vec<Time> = edges.collect();
        let mut nodes = reserved.cores.keys().filter_map(|name| scene.nodes.get(name.as_str()));
        nodes.any(|node| edges.iter().any(|at| is_taken_from_us(node, *at, &strangers, &friends)))
    };
    let failed = |name: &String| !scene.nodes.contains_key(name.as_str());
    reserved.cores.keys().any(failed) || taken(Interval::new(asked.begin.max(scene.now), asked.end))
}

/// What others reserved in an interval, and what we did.
fn others<'a>(
    scene: &Scene<'a>,
    interval: Interval,
    foreign: impl Fn(&&Reserved) -> bool,
) -> (Vec<&'a Reserved>, Vec<&'a Reserved>) {
    let meets = |other: &Reserved| other.interval.begin < interval.end && interval.begin < other.interval.end;
    let there = scene.reservations.values().copied().filter(|other| meets(other));
    there.partition(foreign)
}

/// What is kept of one reservation over the interval that it was asked for.
fn really_kept(
    scene: &Scene<'_>,
    reserved: &Reserved,
    asked: Interval,
    foreign: impl Fn(&&Reserved) -> bool,
) -> Vec<Span> {
    let (strangers, friends) = others(scene, asked, foreign);
    let mut edges = vec![asked.begin, asked.end];
    if !strangers.is_empty() {
        let all = strangers.iter().chain(&friends);
        let inside = all.flat_map(|other| [other.interval.begin, other.interval.end]);
        edges.extend(inside.filter(|edge| asked.begin < *edge && *edge < asked.end));
    }
    edges.sort_unstable();
    edges.dedup();
    let mut spans = Vec::new();
    for pair in edges.windows(2) {
        let interval = Interval::new(pair[0], pair[1]);
        let kept = reserved.cores.iter().filter_map(|(name, cores)| {
            let node = scene.nodes.get(name.as_str())?;
            let lost = is_taken_from_us(node, interval.begin, &strangers, &friends);
            (!lost).then(|| share(scene.place.unit, node, u64::from(*cores)))
        });
        let kept = u32::try_from(kept.sum::<u64>()).unwrap_or(u32::MAX);
        append(&mut spans, interval, Capacity(kept.min(scene.capacity.0)));
    }
    spans
}

/// Whether strangers reserved so much of a node that not all can be kept: the batch system let them, and serves them.
/// Where it is not told what each has of the node, only one who has all of it counts.
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

/// Adds what is taken after the last, if something is; what goes on as before is one span.
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
    fn scene(&self, place: &Place) -> Option<Scene<'_>> {
        self.scenes().find(|scene| scene.place.resource == place.resource)
    }

    /// Whether a piece is there and does not keep what it says.
    fn is_hollow(&self, place: &Place, piece: &Piece) -> bool {
        let hollow = |scene| is_hollow(&scene, &self.pieces, &piece.handle, piece.span.interval);
        self.scene(place).is_some_and(hollow)
    }

    /// Whether a piece does not keep what it says, and can be replaced: nobody waits or runs in it, or whoever does can move.
    pub(super) fn is_to_be_replaced(&self, order: &Order, piece: &Piece) -> bool {
        let may_go = || self.traits.moves_jobs || !self.has_jobs(&piece.handle);
        !order.spared.contains(&piece.handle) && self.is_hollow(&order.place, piece) && may_go()
    }

    /// Whether a piece that stays does not keep what it says.
    pub(super) fn is_stuck(&self, order: &Order, handle: &Handle) -> bool {
        let pieces = self.pieces.of(order.id, &order.place.resource, self.terms_now());
        let piece = pieces.iter().find(|piece| piece.handle == *handle && !order.spared.contains(handle));
        piece.is_some_and(|piece| self.is_hollow(&order.place, piece))
    }

    /// What jobs are in stays as it is where it keeps as much as is wanted: it is wanted as it is, for the time that is
    /// wanted.
    pub(super) fn spare(&self, order: &mut Order) {
        let Some(scene) = self.scene(&order.place) else { return };
        let pieces = self.pieces.of(order.id, &order.place.resource, self.terms_now());
        for piece in pieces.into_iter().filter(|piece| self.has_jobs(&piece.handle)) {
            let Piece { handle, span, .. } = piece;
            let meeting = order.wanted.iter_mut().filter(|wanted| shared(wanted.interval, span.interval) > 0);
            match meeting.max_by_key(|wanted| shared(wanted.interval, span.interval)) {
                None => order.wanted.push(span),
                Some(wanted) => {
                    let kept = least(&scene, &self.pieces, &handle, span.interval);
                    if kept < wanted.capacity {
                        continue;
                    }
                    wanted.capacity = span.capacity;
                }
            }
            order.spared.insert(handle);
        }
    }

    /// Whether jobs wait or run in a reservation there.
    pub(super) fn has_jobs(&self, handle: &Handle) -> bool {
        let live = self.sight.picture.jobs.iter().filter(|job| !job.state.is_over());
        live.into_iter().any(|job| job.reservations.contains(handle))
    }
}
