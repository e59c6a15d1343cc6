//! What is known to be kept in the batch system for each reservation of this site: its pieces, one reservation there for
//! each. It is read from every look by the names, so a restart loses nothing; between two looks it follows what was done.
//! Where it is not known what came of something, it says so until the next look.

use super::Settings;
use super::plan::Now;
use super::system::{Handle, Picture, Place, Reserved};
use super::tag::{MOST_PIECES, Tag};
use bookahead_party::Tagged;
use bookahead_plan::{Capacity, Span, Time};
use bookahead_protocol::{Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet};

/// A reservation there that belongs to one here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) handle: Handle,
    /// No two of a reservation have the same.
    pub(super) number: u32,
    pub(super) owner: Option<Name>,
    pub(super) resource: Name,
    /// Its terms: those that were asked for, where what is there does for them.
    pub(super) span: Span,
}

#[derive(Debug, Default)]
pub(super) struct Pieces {
    known: BTreeMap<ReservationId, Vec<Piece>>,
    /// For these it must be looked at before anything else is done, each with how many looks had begun then.
    unsure: BTreeMap<ReservationId, u64>,
}

impl Pieces {
    /// Those of one reservation on a resource that are not over, in order of time.
    pub(super) fn of(&self, id: ReservationId, resource: &Name, now: Now) -> Vec<Piece> {
        let here = |piece: &&Piece| piece.resource == *resource && !now.is_over(piece.span.interval);
        let mut pieces: Vec<Piece> = self.all(id).iter().filter(here).cloned().collect();
        pieces.sort_by_key(|piece| piece.span);
        pieces
    }

    /// When the last of a reservation ends.
    pub(super) fn end(&self, id: ReservationId) -> Option<Time> {
        self.all(id).iter().map(|piece| piece.span.interval.end).max()
    }

    /// The reservation that one there belongs to.
    pub(super) fn owner_of(&self, handle: &Handle) -> Option<ReservationId> {
        let has = |pieces: &[Piece]| pieces.iter().any(|piece| piece.handle == *handle);
        self.known.iter().find(|(_, pieces)| has(pieces)).map(|(id, _)| *id)
    }

    /// By what commands call them.
    pub(super) fn by_handle(&self) -> BTreeMap<&Handle, (ReservationId, &Piece)> {
        let pieces = self.known.iter().flat_map(|(id, pieces)| pieces.iter().map(|piece| (*id, piece)));
        pieces.map(|(id, piece)| (&piece.handle, (id, piece))).collect()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (ReservationId, &[Piece])> {
        self.known.iter().map(|(id, pieces)| (*id, pieces.as_slice()))
    }

    /// All that is known, as a ledger would have it.
    pub(super) fn tagged(&self) -> Vec<Tagged> {
        let mut found: BTreeMap<(ReservationId, &Name), Tagged> = BTreeMap::new();
        for (id, piece) in self.known.iter().flat_map(|(id, pieces)| pieces.iter().map(|piece| (*id, piece)))
        {
            let resource = piece.resource.clone();
            let new = || Tagged { id, owner: None, resource, spans: Vec::new() };
            let tagged = found.entry((id, &piece.resource)).or_insert_with(new);
            tagged.owner = tagged.owner.take().or_else(|| piece.owner.clone());
            tagged.spans.push(piece.span);
        }
        found.values_mut().for_each(|tagged| tagged.spans.sort_unstable());
        found.into_values().collect()
    }

    fn all(&self, id: ReservationId) -> &[Piece] {
        self.known.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The lowest number that no piece of a reservation has. One that was asked for in vain gets the same number, and so
    /// the same name, the next time.
    pub(super) fn free_number(&self, id: ReservationId) -> Option<u32> {
        let taken: BTreeSet<u32> = self.all(id).iter().map(|piece| piece.number).collect();
        (0..MOST_PIECES).find(|number| !taken.contains(number))
    }

    /// It was made, or is on other terms now.
    pub(super) fn add(&mut self, id: ReservationId, piece: Piece) {
        let pieces = self.known.entry(id).or_default();
        pieces.retain(|known| known.handle != piece.handle);
        pieces.push(piece);
    }

    pub(super) fn remove(&mut self, id: ReservationId, handle: &Handle) {
        if let Some(pieces) = self.known.get_mut(&id) {
            pieces.retain(|piece| piece.handle != *handle);
            if pieces.is_empty() {
                self.known.remove(&id);
            }
        }
    }

    /// What is there does for these terms.
    pub(super) fn adopt(&mut self, id: ReservationId, handle: &Handle, span: Span) {
        let pieces = self.known.get_mut(&id).into_iter().flatten();
        pieces.filter(|piece| piece.handle == *handle).for_each(|piece| piece.span = span);
    }

    /// The outcome of a command is not known. Only a look with a number above `begun` settles it.
    pub(super) fn doubt(&mut self, id: ReservationId, begun: u64) {
        self.unsure.insert(id, begun);
    }

    /// Whether it is not known what is there for a reservation.
    pub(super) fn is_unsure(&self, id: ReservationId) -> bool {
        self.unsure.contains_key(&id)
    }

    /// Whether it is known what is there for all of them.
    pub(super) fn is_sure(&self) -> bool {
        self.unsure.is_empty()
    }

    /// Takes over what the look of a number shows.
    pub(super) fn learn(&mut self, picture: &Picture, number: u64, settings: &Settings, now: Now) {
        let before = std::mem::take(&mut self.known);
        let places = &settings.places;
        self.unsure.retain(|_, begun| *begun >= number);
        for reserved in picture.reservations.iter().filter(|reserved| !now.is_over(reserved.interval)) {
            let Some(tag) = Tag::read(&reserved.name, &settings.site) else { continue };
            let known = before.get(&tag.id).into_iter().flatten();
            let known = known.into_iter().find(|piece| piece.handle == reserved.handle);
            let place = match known {
                Some(piece) => places.iter().find(|(place, _)| place.resource == piece.resource),
                None => likely_place(reserved, picture, places),
            };
            let Some((place, _)) = place else { continue };
            let there =
                Span { interval: reserved.interval, capacity: Capacity(place.unit.reserved(reserved)) };
            let asked = known.map(|piece| piece.span).filter(|asked| now.does_for(there, *asked));
            let piece = Piece {
                handle: reserved.handle.clone(),
                number: tag.piece,
                owner: tag.owner,
                resource: place.resource.clone(),
                span: asked.unwrap_or(there),
            };
            self.add(tag.id, piece);
        }
    }
}

/// The resource that has most of its nodes; the first where none has any, so that it is not overlooked.
fn likely_place<'a>(
    reserved: &Reserved,
    picture: &Picture,
    places: &'a [(Place, Capacity)],
) -> Option<&'a (Place, Capacity)> {
    let here = |resource: &Name| {
        let nodes = picture.nodes.iter().filter(|node| node.resources.contains(resource));
        nodes.filter(|node| reserved.cores.contains_key(&node.name)).count()
    };
    // Of several that have as many, the first.
    places.iter().rev().max_by_key(|(place, _)| here(&place.resource))
}
