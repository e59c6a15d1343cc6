//! The last look at a batch system. It is used again while it is young and nothing was done since.

use super::system::Picture;
use crate::adapter::Clocks;
use bookahead_protocol::{Millis, Moment};

/// What was seen last, and when.
#[derive(Debug, Default)]
pub(super) struct Sight {
    picture: Picture,
    taken: Option<Moment>,
    /// Something was done there since.
    outdated: bool,
}

impl Sight {
    /// What was seen last; nothing where nobody has looked yet.
    pub(super) fn picture(&self) -> &Picture {
        &self.picture
    }

    /// Whether it was ever looked at.
    pub(super) fn is_there(&self) -> bool {
        self.taken.is_some()
    }

    /// Whether it still counts.
    pub(super) fn is_fresh(&self, now: Moment, again_after: Millis) -> bool {
        !self.outdated && self.taken.is_some_and(|taken| now - taken < again_after)
    }

    /// This was seen.
    pub(super) fn see(&mut self, now: Moment, picture: Picture) {
        *self = Sight { picture, taken: Some(now), outdated: false };
    }

    /// Something was done, or may have been.
    pub(super) fn outdate(&mut self) {
        self.outdated = true;
    }

    /// The time here and there when it was seen.
    pub(super) fn clocks(&self) -> Option<Clocks> {
        Some(Clocks { ours: self.taken?.second(), theirs: self.picture.clock? })
    }
}
