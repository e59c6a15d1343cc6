//! What is true of each party between two instants: whether it is up, and whom it hears. Stretches of a life line
//! and of a partition, for any scale of time. It draws nothing.

use crate::sequence::Row;

/// From one place to another along the time axis, whatever the places are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stretch<P> {
    pub(crate) begin: P,
    pub(crate) end: P,
}

/// When a party is down, given the rows in order, each with its place; the last stretch may go to the `end`.
pub(crate) fn down<P: Copy>(rows: &[(&Row, P)], who: usize, end: P) -> Vec<Stretch<P>> {
    let mut stretches = Vec::new();
    let mut since: Option<P> = None;
    for (row, place) in rows {
        match row {
            Row::Crash { party, .. } if *party == who => since = since.or(Some(*place)),
            Row::Restart { party, .. } if *party == who => {
                stretches.extend(since.take().map(|begin| Stretch { begin, end: *place }));
            }
            _ => {}
        }
    }
    stretches.extend(since.map(|begin| Stretch { begin, end }));
    stretches
}

/// The partitions with their groups, given the rows in order, each with its place; the last may go to the `end`.
pub(crate) fn partitions<'a, P: Copy>(rows: &[(&'a Row, P)], end: P) -> Vec<(&'a [Vec<usize>], Stretch<P>)> {
    let mut found: Vec<(&[Vec<usize>], Stretch<P>)> = Vec::new();
    let mut open: Option<(&[Vec<usize>], P)> = None;
    for (row, place) in rows {
        let next = match row {
            Row::Partition { groups, .. } => Some((groups.as_slice(), *place)),
            Row::Heal { .. } => None,
            _ => continue,
        };
        let over = std::mem::replace(&mut open, next);
        found.extend(over.map(|(groups, begin)| (groups, Stretch { begin, end: *place })));
    }
    found.extend(open.map(|(groups, begin)| (groups, Stretch { begin, end })));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_is_down_from_its_crash_to_its_restart_or_for_good() {
        let rows = [
            (&Row::Crash { party: 1, at: 0 }, 3),
            (&Row::Crash { party: 0, at: 0 }, 4),
            (&Row::Restart { party: 1, at: 0 }, 6),
            (&Row::Restart { party: 1, at: 0 }, 7),
        ];
        assert_eq!(down(&rows, 1, 9), [Stretch { begin: 3, end: 6 }]);
        assert_eq!(down(&rows, 0, 9), [Stretch { begin: 4, end: 9 }]);
        assert_eq!(down(&rows, 2, 9), []);
    }

    #[test]
    fn a_partition_lasts_until_it_heals_or_another_comes() {
        let (one, two) = (vec![vec![0]], vec![vec![1]]);
        let first = Row::Partition { groups: one.clone(), at: 0 };
        let second = Row::Partition { groups: two.clone(), at: 0 };
        let heal = Row::Heal { at: 0 };
        let rows = [(&first, 1), (&second, 4), (&heal, 6), (&heal, 7), (&first, 8)];
        let expected = [
            (one.as_slice(), Stretch { begin: 1, end: 4 }),
            (two.as_slice(), Stretch { begin: 4, end: 6 }),
            (one.as_slice(), Stretch { begin: 8, end: 9 }),
        ];
        assert_eq!(partitions(&rows, 9), expected);
    }
}
