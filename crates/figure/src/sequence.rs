//! Sequence diagrams: parties side by side, time downwards, messages as arrows between them. A [`Sequence`] can be
//! rendered as SVG and as plain text. In the SVG time is not to scale: every arrival, note and crash has its own line,
//! so that labels never collide, and a long silence is a wider gap. Messages that a party sends in the same millisecond
//! leave from one point. At most [`MAX_PARTIES`] parties and [`MAX_SEQUENCE_ROWS`] rows are drawn; a note tells if
//! there are more. A row that names an unknown party is left out.

use crate::header::left_out;

/// Maximum number of parties: the lanes of more would be too narrow for labels. The first ones are drawn.
pub const MAX_PARTIES: usize = 24;
/// Maximum number of rows: a longer diagram would be unreadable and slow to open. The first ones are drawn.
pub const MAX_SEQUENCE_ROWS: usize = 2_000;

/// A sequence diagram.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    /// Title above the diagram; not drawn if empty.
    pub title: String,
    /// Names of the parties, from left to right.
    pub parties: Vec<String>,
    /// Events. Rows of the same millisecond are drawn in this order, so that causes can come before effects.
    pub rows: Vec<Row>,
}

/// An event. Parties are indices in [`Sequence::parties`]; times are milliseconds of any clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A message, drawn as an arrow.
    Message {
        /// Sender.
        from: usize,
        /// Receiver; may be the sender.
        to: usize,
        /// Text on the arrow, cut if it does not fit.
        label: String,
        /// Time of sending.
        sent: i64,
        /// Time of arrival; None if it never arrives.
        arrived: Option<i64>,
        /// Style of the line.
        style: MessageStyle,
    },
    /// A label on the line of a party, for a decision or a journal record.
    Note {
        /// Party that the note belongs to.
        party: usize,
        /// Text of the note, cut if it does not fit.
        label: String,
        /// Time of the event.
        at: i64,
    },
    /// A party stops without notice.
    Crash {
        /// Party that stops.
        party: usize,
        /// Time of the crash.
        at: i64,
    },
    /// A party is running again.
    Restart {
        /// Party that was restarted.
        party: usize,
        /// Time of the restart.
        at: i64,
    },
    /// From now on only parties of the same group can communicate. Replaces an earlier partition.
    Partition {
        /// The groups; parties in none of them form one more group.
        groups: Vec<Vec<usize>>,
        /// Begin of the partition.
        at: i64,
    },
    /// The end of a partition.
    Heal {
        /// End of the partition.
        at: i64,
    },
}

/// How a message is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageStyle {
    /// A request: a solid line.
    Call,
    /// An answer: a dashed line.
    Answer,
    /// A lost message: it ends in a cross, like every message that does not arrive.
    Lost,
    /// A duplicate made by the network: a dotted line.
    Duplicate,
}

impl Sequence {
    pub(crate) fn shown_parties(&self) -> &[String] {
        &self.parties[..self.parties.len().min(MAX_PARTIES)]
    }

    /// The rows of shown parties, up to the limit.
    pub(crate) fn shown_rows(&self) -> Vec<&Row> {
        let parties = self.shown_parties().len();
        let known = |row: &&Row| match row {
            Row::Message { from, to, .. } => *from < parties && *to < parties,
            Row::Note { party, .. } | Row::Crash { party, .. } | Row::Restart { party, .. } => {
                *party < parties
            }
            Row::Partition { .. } | Row::Heal { .. } => true,
        };
        self.rows.iter().filter(known).take(MAX_SEQUENCE_ROWS).collect()
    }

    /// The note about omitted parties and rows; empty if all are drawn.
    pub(crate) fn note(&self) -> String {
        let (parties, rows) = (self.shown_parties().len(), self.shown_rows().len());
        left_out(&[("parties", parties, self.parties.len()), ("rows", rows, self.rows.len())])
    }

    /// The groups of a partition in words: `broker, b | a`.
    pub(crate) fn groups_in_words(&self, groups: &[Vec<usize>]) -> String {
        let parties = self.shown_parties();
        let group_of = |party: usize| group_of(groups, party);
        let mut order: Vec<Option<usize>> = Vec::new();
        for party in 0..parties.len() {
            if !order.contains(&group_of(party)) {
                order.push(group_of(party));
            }
        }
        let words = |group: &Option<usize>| -> String {
            let members = (0..parties.len()).filter(|&party| group_of(party) == *group);
            members.map(|party| parties[party].as_str()).collect::<Vec<_>>().join(", ")
        };
        order.iter().map(words).collect::<Vec<_>>().join(" | ")
    }
}

/// Index of the group of a party, if it is in one.
pub(crate) fn group_of(groups: &[Vec<usize>], party: usize) -> Option<usize> {
    groups.iter().position(|group| group.contains(&party))
}

impl Row {
    /// Whether it is a message that does not arrive.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Row::Message { arrived: None, .. } | Row::Message { style: MessageStyle::Lost, .. })
    }

    /// The time at which the row is drawn: for a message the arrival, or the sending if it is lost.
    pub(crate) fn end(&self) -> i64 {
        match self {
            Row::Message { sent, .. } if self.is_lost() => *sent,
            Row::Message { sent, arrived, .. } => arrived.unwrap_or(*sent).max(*sent),
            Row::Note { at, .. }
            | Row::Crash { at, .. }
            | Row::Restart { at, .. }
            | Row::Partition { at, .. }
            | Row::Heal { at } => *at,
        }
    }
}

/// A part of a row with its own vertical position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) time: i64,
    pub(crate) row: usize,
    pub(crate) part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// A message is sent.
    Sent,
    /// A message arrives, or something else happens.
    Whole,
    /// A message is lost; drawn below all other events of the same millisecond.
    Lost,
}

/// The beats from top to bottom, each with its distance from the top, and the total height.
pub(crate) fn beats(rows: &[&Row]) -> (Vec<(Beat, f64)>, f64) {
    let mut order: Vec<Beat> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if let Row::Message { sent, .. } = row {
            order.push(Beat { time: *sent, row: index, part: Part::Sent });
        }
        let part = if row.is_lost() { Part::Lost } else { Part::Whole };
        order.push(Beat { time: row.end(), row: index, part });
    }
    // Within a millisecond lost messages come last; otherwise the order of the rows is kept, the sending before the
    // arrival.
    order.sort_by_key(|beat| (beat.time, beat.part == Part::Lost, beat.row, beat.part));
    let silence = silence(&order);
    let mut placed: Vec<(Beat, f64)> = Vec::new();
    let mut y = 0.0;
    for beat in order {
        if let Some((before, _)) = placed.last() {
            y += step(rows, before, &beat, silence);
        }
        placed.push((beat, y));
    }
    (placed, y)
}

/// Distance from one line to the next, in pixels.
const LINE: f64 = 21.0;
/// Distance from a line to a point of sending, which has no label, in pixels.
const POINT: f64 = 12.0;
/// Additional distance after a long silence, in pixels.
const PAUSE: f64 = 18.0;

fn step(rows: &[&Row], before: &Beat, beat: &Beat, silence: i64) -> f64 {
    if beat.part == Part::Sent && before.part == Part::Sent && before.time == beat.time {
        let sender = |index: usize| match rows.get(index) {
            Some(Row::Message { from, .. }) => Some(*from),
            _ => None,
        };
        if sender(before.row) == sender(beat.row) {
            return 0.0;
        }
    }
    let pause = if beat.time.saturating_sub(before.time) >= silence { PAUSE } else { 0.0 };
    let own = if beat.part == Part::Sent { POINT } else { LINE };
    own + pause
}

/// A gap counts as silence from this multiple of the median gap on.
const LONG: i64 = 8;

/// The shortest gap that counts as a silence.
fn silence(order: &[Beat]) -> i64 {
    let gaps = order.windows(2).map(|pair| pair[1].time.saturating_sub(pair[0].time));
    let mut gaps: Vec<i64> = gaps.filter(|&gap| gap > 0).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map_or(i64::MAX, |usual| usual.saturating_mul(LONG))
}

/// Top and bottom of an interval in the picture.
type Stretch = (f64, f64);

/// The intervals in which a party is down, from the rows in order with their positions. The last one may extend to
/// `end`.
pub(crate) fn down(rows: &[(&Row, f64)], who: usize, end: f64) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let mut since: Option<f64> = None;
    for (row, place) in rows {
        match row {
            Row::Crash { party, .. } if *party == who => since = since.or(Some(*place)),
            Row::Restart { party, .. } if *party == who => {
                stretches.extend(since.take().map(|begin| (begin, *place)));
            }
            _ => {}
        }
    }
    stretches.extend(since.map(|begin| (begin, end)));
    stretches
}

/// The partitions with their groups, from the rows in order with their positions. The last one may extend to `end`.
pub(crate) fn partitions<'a>(rows: &[(&'a Row, f64)], end: f64) -> Vec<(&'a [Vec<usize>], Stretch)> {
    let mut found = Vec::new();
    let mut open: Option<(&[Vec<usize>], f64)> = None;
    for (row, place) in rows {
        let next = match row {
            Row::Partition { groups, .. } => Some((groups.as_slice(), *place)),
            Row::Heal { .. } => None,
            _ => continue,
        };
        let over = std::mem::replace(&mut open, next);
        found.extend(over.map(|(groups, begin)| (groups, (begin, *place))));
    }
    found.extend(open.map(|(groups, begin)| (groups, (begin, end))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Sequence {
        let parties = ["broker", "a", "b"].map(str::to_owned).to_vec();
        Sequence { title: String::new(), parties, rows: Vec::new() }
    }

    #[test]
    fn parties_in_no_group_are_together() {
        assert_eq!(three().groups_in_words(&[vec![1]]), "broker, b | a");
        assert_eq!(three().groups_in_words(&[vec![2], vec![0]]), "broker | a | b");
        assert_eq!(three().groups_in_words(&[]), "broker, a, b");
    }

    #[test]
    fn rows_of_unknown_parties_are_left_out_and_counted() {
        let rows = [0, 2, 3].map(|party| Row::Crash { party, at: 5 }).to_vec();
        let sequence = Sequence { rows, ..three() };
        assert_eq!(sequence.shown_rows().len(), 2);
        assert_eq!(sequence.note(), "showing the first 2 of 3 rows");
    }

    fn message(from: usize, sent: i64, arrived: Option<i64>) -> Row {
        Row::Message { from, to: from + 1, label: "m".to_owned(), sent, arrived, style: MessageStyle::Call }
    }

    fn lines(rows: &[Row]) -> Vec<(i64, Part, f64)> {
        let (placed, _) = beats(&rows.iter().collect::<Vec<_>>());
        placed.into_iter().map(|(beat, y)| (beat.time, beat.part, y)).collect()
    }

    #[test]
    fn what_is_sent_together_leaves_from_one_point_and_arrives_on_two_lines() {
        let rows = [message(0, 5, Some(9)), message(0, 5, Some(9))];
        let expected =
            [(5, Part::Sent, 0.0), (5, Part::Sent, 0.0), (9, Part::Whole, 21.0), (9, Part::Whole, 42.0)];
        assert_eq!(lines(&rows), expected);
    }

    #[test]
    fn a_lost_message_has_a_line_of_its_own_below_its_instant() {
        let rows = [message(0, 5, None), message(1, 5, Some(5))];
        let expected =
            [(5, Part::Sent, 0.0), (5, Part::Sent, 12.0), (5, Part::Whole, 33.0), (5, Part::Lost, 54.0)];
        assert_eq!(lines(&rows), expected);
    }

    #[test]
    fn silence_is_a_wider_gap() {
        let rows = [0, 1, 2, 3, 500].map(|at| Row::Heal { at });
        assert_eq!(lines(&rows).last(), Some(&(500, Part::Whole, 4.0 * LINE + PAUSE)));
        assert!(lines(&[Row::Heal { at: i64::MIN }, Row::Heal { at: i64::MAX }]).len() == 2);
    }

    #[test]
    fn a_party_is_down_from_its_crash_to_its_restart_or_for_good() {
        let rows = [
            (&Row::Crash { party: 1, at: 0 }, 3.0),
            (&Row::Crash { party: 0, at: 0 }, 4.0),
            (&Row::Restart { party: 1, at: 0 }, 6.0),
            (&Row::Restart { party: 1, at: 0 }, 7.0),
        ];
        assert_eq!(down(&rows, 1, 9.0), [(3.0, 6.0)]);
        assert_eq!(down(&rows, 0, 9.0), [(4.0, 9.0)]);
        assert_eq!(down(&rows, 2, 9.0), []);
    }

    #[test]
    fn a_partition_lasts_until_it_heals_or_another_comes() {
        let (one, two) = (vec![vec![0]], vec![vec![1]]);
        let first = Row::Partition { groups: one.clone(), at: 0 };
        let second = Row::Partition { groups: two.clone(), at: 0 };
        let heal = Row::Heal { at: 0 };
        let rows = [(&first, 1.0), (&second, 4.0), (&heal, 6.0), (&heal, 7.0), (&first, 8.0)];
        let expected =
            [(one.as_slice(), (1.0, 4.0)), (two.as_slice(), (4.0, 6.0)), (one.as_slice(), (8.0, 9.0))];
        assert_eq!(partitions(&rows, 9.0), expected);
    }
}
