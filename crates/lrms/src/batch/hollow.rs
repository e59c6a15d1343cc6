//! Pieces that are there and do not keep what they say, since their nodes failed or others have them: which are to be made anew,
//! which stay since jobs are in them, and of which of these it is to be told that they keep too little.
//!
//! It decides by the last look, and does nothing.

use super::backing::Order;
use super::kept;
use super::pieces::Piece;
use super::plan::shared;
use super::state::State;
use super::system::{Handle, Place};
use super::view::Scene;

impl State {
    fn scene(&self, place: &Place) -> Option<Scene<'_>> {
        self.scenes().find(|scene| scene.place.resource == place.resource)
    }

    /// Whether a piece is there and does not keep what it says.
    fn is_hollow(&self, place: &Place, piece: &Piece) -> bool {
        let hollow = |scene| kept::is_hollow(&scene, &self.pieces, &piece.handle, piece.span.interval);
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
                    let kept = kept::least(&scene, &self.pieces, &handle, span.interval);
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
