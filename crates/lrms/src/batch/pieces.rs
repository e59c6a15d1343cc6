//! The pieces of each reservation of this site: one reservation in the batch system each. They are read from every
//! look by their names, so a restart loses nothing; between two looks our own changes are applied. A reservation in
//! an unknown state is marked until the next look.

use super::settings::Settings;
use super::system::{Handle, Picture, Place, Reserved};
use super::tag::{MOST_PIECES, Tag};
use bookahead_party::Tagged;
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::{Name, ReservationId, Tres};
use std::collections::{BTreeMap, BTreeSet};

/// A reservation in the batch system that belongs to one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) handle: Handle,
    /// Unique within a reservation; part of the name.
    pub(super) number: u32,
    pub(super) owner: Option<Name>,
    pub(super) resource: Name,
    /// Its terms: those ordered, if the actual ones satisfy them.
    pub(super) span: Span,
    /// Amounts beside the capacity: those ordered, once this process ordered them.
    pub(super) tres: Tres,
}

/// Tolerance for a begin of "now": the batch system executes the command a few seconds later and lets the reservation
/// begin then.
const A_LITTLE: Seconds = Seconds(5);

/// The present time, and the resolution of the batch system's times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) time: Time,
    pub(super) step: Seconds,
}

impl Now {
    /// Whether existing terms satisfy the wanted ones. After the begin, only the rest of the interval counts.
    pub(super) fn does_for(self, there: Span, wanted: Span) -> bool {
        let late = self.time + A_LITTLE.max(self.step);
        let begun = wanted.interval.begin <= self.time && there.interval.begin <= late;
        there.capacity == wanted.capacity
            && there.interval.end == wanted.interval.end
            && (begun || there.interval.begin == wanted.interval.begin)
    }

    pub(super) fn is_over(self, interval: Interval) -> bool {
        interval.end <= self.time
    }
}

#[derive(Debug, Default)]
pub(super) struct Pieces {
    known: BTreeMap<ReservationId, Vec<Piece>>,
    /// Reservations that need a look before anything else, each with the number of looks begun then.
    unsure: BTreeMap<ReservationId, u64>,
}

impl Pieces {
    /// The pieces of a reservation on a resource that are not over, in order of time.
    pub(super) fn of(&self, id: ReservationId, resource: &Name, now: Now) -> Vec<Piece> {
        let here = |piece: &&Piece| piece.resource == *resource && !now.is_over(piece.span.interval);
        let mut pieces: Vec<Piece> = self.all(id).iter().filter(here).cloned().collect();
        pieces.sort_by_key(|piece| piece.span);
        pieces
    }

    /// End of the last piece.
    pub(super) fn end(&self, id: ReservationId) -> Option<Time> {
        self.all(id).iter().map(|piece| piece.span.interval.end).max()
    }

    /// The terms of all pieces.
    pub(super) fn spans(&self, id: ReservationId) -> impl Iterator<Item = &Span> + Clone {
        self.all(id).iter().map(|piece| &piece.span)
    }

    pub(super) fn owner_of(&self, handle: &Handle) -> Option<ReservationId> {
        let has = |pieces: &[Piece]| pieces.iter().any(|piece| piece.handle == *handle);
        self.known.iter().find(|(_, pieces)| has(pieces)).map(|(id, _)| *id)
    }

    pub(super) fn by_handle(&self) -> BTreeMap<&Handle, (ReservationId, &Piece)> {
        let pieces = self.known.iter().flat_map(|(id, pieces)| pieces.iter().map(|piece| (*id, piece)));
        pieces.map(|(id, piece)| (&piece.handle, (id, piece))).collect()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (ReservationId, &[Piece])> {
        self.known.iter().map(|(id, pieces)| (*id, pieces.as_slice()))
    }

    /// All pieces, in the form that the ledger compares.
    pub(super) fn tagged(&self) -> Vec<Tagged> {
        let mut found: BTreeMap<(ReservationId, &Name), Tagged> = BTreeMap::new();
        for (id, piece) in self.known.iter().flat_map(|(id, pieces)| pieces.iter().map(|piece| (*id, piece)))
        {
            let resource = piece.resource.clone();
            let new = || Tagged { id, owner: None, resource, spans: Vec::new(), tres: piece.tres.clone() };
            let tagged = found.entry((id, &piece.resource)).or_insert_with(new);
            tagged.owner = tagged.owner.take().or_else(|| piece.owner.clone());
            tagged.spans.push(piece.span);
        }
        // Spans are compared as lists, so their order must not depend on that of the batch system.
        found.values_mut().for_each(|tagged| tagged.spans.sort_unstable());
        found.into_values().collect()
    }

    fn all(&self, id: ReservationId) -> &[Piece] {
        self.known.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The lowest unused number. A piece whose creation failed thus gets the same number, and the same name, at the
    /// next attempt.
    pub(super) fn free_number(&self, id: ReservationId) -> Option<u32> {
        let taken: BTreeSet<u32> = self.all(id).iter().map(|piece| piece.number).collect();
        (0..MOST_PIECES).find(|number| !taken.contains(number))
    }

    /// Adds a piece, or replaces it after a change.
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

    /// Records that the existing piece satisfies these terms.
    pub(super) fn adopt(&mut self, id: ReservationId, handle: &Handle, span: Span) {
        let pieces = self.known.get_mut(&id).into_iter().flatten();
        pieces.filter(|piece| piece.handle == *handle).for_each(|piece| piece.span = span);
    }

    /// The outcome of a command is unknown. Only a look with a number above `begun` settles it.
    pub(super) fn doubt(&mut self, id: ReservationId, begun: u64) {
        self.unsure.insert(id, begun);
    }

    pub(super) fn is_unsure(&self, id: ReservationId) -> bool {
        self.unsure.contains_key(&id)
    }

    pub(super) fn is_sure(&self) -> bool {
        self.unsure.is_empty()
    }

    /// Replaces all pieces by those in look `number`.
    pub(super) fn learn(&mut self, picture: &Picture, number: u64, settings: &Settings, now: Now) {
        let before = std::mem::take(&mut self.known);
        let places = &settings.places;
        // A look that had begun before the doubt may show the state before the command.
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
            // The batch system may have rounded the times. Keep the ordered terms if the actual ones satisfy them, or
            // the next comparison would see a difference.
            let asked = known.map(|piece| piece.span).filter(|asked| now.does_for(there, *asked));
            let offered = settings.tres_of(&place.resource);
            let tres = known.map(|piece| piece.tres.clone());
            let tres = tres.unwrap_or_else(|| picture.tres.of(reserved, offered, place.unit));
            let piece = Piece {
                handle: reserved.handle.clone(),
                number: tag.piece,
                owner: tag.owner,
                resource: place.resource.clone(),
                span: asked.unwrap_or(there),
                tres,
            };
            self.add(tag.id, piece);
        }
    }
}

/// The resource with most of its nodes. If no resource has any, the first: a reservation without a resource would be
/// overlooked.
fn likely_place<'a>(
    reserved: &Reserved,
    picture: &Picture,
    places: &'a [(Place, Capacity)],
) -> Option<&'a (Place, Capacity)> {
    let here = |resource: &Name| {
        let nodes = picture.nodes.iter().filter(|node| node.resources.contains(resource));
        nodes.filter(|node| reserved.cores.contains_key(&node.name)).count()
    };
    // `max_by_key` returns the last maximum; reversed, a tie goes to the first resource.
    places.iter().rev().max_by_key(|(place, _)| here(&place.resource))
}
