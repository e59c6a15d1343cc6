//! What to do so that the pieces of a reservation become what is wanted. It only compares; nothing is done here.

use super::pieces::Piece;
use super::system::Handle;
use super::terms::Now;
use bookahead_plan::{Interval, Span};

/// The differences between what is there and what is wanted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// These do for what is wanted.
    pub(super) same: Vec<(Handle, Span)>,
    /// These get other terms.
    pub(super) changes: Vec<(Piece, Span)>,
    /// These are missing.
    pub(super) creates: Vec<Span>,
    /// These are not wanted.
    pub(super) deletes: Vec<Piece>,
}

impl Plan {
    /// What is there stays as it is if it can; else it becomes the wanted one that it shares most time with.
    pub(super) fn of(mut there: Vec<Piece>, wanted: Vec<Span>, now: Now) -> Plan {
        let mut plan = Plan::default();
        for span in wanted {
            match there.iter().position(|piece| now.does_for(piece.span, span)) {
                Some(at) => plan.same.push((there.remove(at).handle, span)),
                None => plan.creates.push(span),
            }
        }
        for span in std::mem::take(&mut plan.creates) {
            let closest =
                (0..there.len()).rev().max_by_key(|at| shared(there[*at].span.interval, span.interval));
            match closest {
                Some(at) => plan.changes.push((there.remove(at), span)),
                None => plan.creates.push(span),
            }
        }
        plan.deletes = there;
        plan
    }

    /// Whether nothing is to be done, or something is to be deleted and nothing else.
    pub(super) fn only_deletes(&self) -> bool {
        self.changes.is_empty() && self.creates.is_empty()
    }

    /// Whether something is to be made and all that is there stays as it is.
    pub(super) fn only_creates(&self) -> bool {
        self.changes.is_empty() && self.deletes.is_empty()
    }

    /// What is there and will not stay as it is.
    pub(super) fn old(&self) -> Vec<Piece> {
        self.changes.iter().map(|(piece, _)| piece).chain(&self.deletes).cloned().collect()
    }

    /// What is wanted and not there.
    pub(super) fn missing(&self) -> Vec<Span> {
        self.changes.iter().map(|(_, span)| span).chain(&self.creates).copied().collect()
    }

    /// Whether something old may be in the way of something new.
    pub(super) fn is_in_its_own_way(&self) -> bool {
        let new = self.missing();
        let meets = |old: &Piece| new.iter().any(|new| shared(old.span.interval, new.interval) > 0);
        self.old().iter().any(meets)
    }
}

/// For how many seconds both last.
pub(super) fn shared(one: Interval, other: Interval) -> i64 {
    Interval::new(one.begin.max(other.begin), one.end.min(other.end)).length().0
}
