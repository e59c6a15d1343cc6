//! Where parts may be: what constraints say about sites, as far as sites are chosen already.

use crate::request::Constraint;

/// Where a choice is. Sites are numbers here; two are the same where their names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) site: usize,
    /// Of a link: the sites that it joins.
    pub(super) joins: Option<[usize; 2]>,
}

/// Whether a constraint can still be fulfilled, where `place` tells the places that are chosen.
pub(super) fn possible(constraint: &Constraint, place: impl Fn(usize) -> Option<Place>) -> bool {
    let site = |part| place(part).map(|place| place.site);
    let same = |one, other| Some(site(one)? == site(other)?);
    match *constraint {
        Constraint::SameSite(one, other) => same(one, other) != Some(false),
        Constraint::DifferentSites(one, other) => same(one, other) != Some(true),
        Constraint::Joins { link, ends } => match place(link) {
            None => true,
            Some(Place { joins: None, .. }) => false,
            Some(Place { joins: Some([one, other]), .. }) => {
                let at = |end: usize, wanted| site(ends[end]).is_none_or(|site| site == wanted);
                at(0, one) && at(1, other) || at(0, other) && at(1, one)
            }
        },
        Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. } => true,
    }
}

/// Whether a constraint is about the place of a part.
pub(super) fn concerns(constraint: &Constraint, part: usize) -> bool {
    match *constraint {
        Constraint::SameSite(one, other) | Constraint::DifferentSites(one, other) => {
            part == one || part == other
        }
        Constraint::Joins { link, ends } => part == link || ends.contains(&part),
        Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. } => false,
    }
}

/// How much the choice of a part narrows the places of others: 0 for a link, which leaves two sites, 1 where it
/// leaves one site, 2 where it hardly does.
pub(super) fn rank(constraints: &[Constraint], part: usize) -> u8 {
    let rank = |constraint: &Constraint| match constraint {
        Constraint::Joins { link, .. } if *link == part => 0,
        Constraint::Joins { .. } | Constraint::SameSite(..) => 1,
        _ => 2,
    };
    constraints.iter().filter(|one| concerns(one, part)).map(rank).min().unwrap_or(2)
}
