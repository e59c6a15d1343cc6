//! Who told whom what, and when: parties side by side, time downwards, messages as arrows between them. One value,
//! drawn as a picture and as plain text; both show the same rows in the same order.
//! It relies on its caller for the words. It never draws more than [`MAX_PARTIES`] parties and [`MAX_SEQUENCE_ROWS`] rows,
//! and says so where there are more; a row that names an unknown party is left out.

use crate::{sequence_svg, sequence_text};

/// The most parties drawn, the first ones.
pub const MAX_PARTIES: usize = 24;
/// The most rows drawn, the first ones: more are not read by anyone.
pub const MAX_SEQUENCE_ROWS: usize = 2_000;

/// What happened between some parties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    /// What is shown.
    pub title: String,
    /// The names of the parties, from left to right.
    pub parties: Vec<String>,
    /// What happened. Rows of the same millisecond are drawn in the order given, so causes come before effects.
    pub rows: Vec<Row>,
}

/// Something that happened. Parties are places in [`Sequence::parties`], times are milliseconds on any clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A message.
    Message {
        /// Who sent it.
        from: usize,
        /// To whom.
        to: usize,
        /// What it says.
        label: String,
        /// When it was sent.
        sent: i64,
        /// When it arrived; None where it never did.
        arrived: Option<i64>,
        /// How it is drawn.
        style: MessageStyle,
    },
    /// A decision, or something written down: a word beside the party.
    Note {
        /// Whose.
        party: usize,
        /// What it says.
        label: String,
        /// When.
        at: i64,
    },
    /// A party stops, without a word.
    Crash {
        /// Who.
        party: usize,
        /// When.
        at: i64,
    },
    /// It is there again.
    Restart {
        /// Who.
        party: usize,
        /// When.
        at: i64,
    },
    /// From now on only parties of one group hear each other. It replaces a partition before it.
    Partition {
        /// The groups; parties that are in none form one more.
        groups: Vec<Vec<usize>>,
        /// When.
        at: i64,
    },
    /// All hear each other again.
    Heal {
        /// When.
        at: i64,
    },
}

/// How a message is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageStyle {
    /// A request: a solid line.
    Call,
    /// What comes back: a dashed line.
    Answer,
    /// One that is lost on the way: it ends in a cross, as does every message that does not arrive.
    Lost,
    /// A copy that the network made: a dotted line.
    Duplicate,
}

impl Sequence {
    /// The picture, as the text of an SVG file.
    pub fn to_svg(&self) -> String {
        sequence_svg::draw(self)
    }

    /// Plain text, a line for each row, for terminals and logs: at most about 160 columns wide.
    pub fn to_text(&self) -> String {
        sequence_text::write(self)
    }

    /// The parties that are drawn.
    pub(crate) fn shown_parties(&self) -> &[String] {
        &self.parties[..self.parties.len().min(MAX_PARTIES)]
    }

    /// The rows that are drawn: those of shown parties, up to the limit.
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

    /// What is left out, if anything.
    pub(crate) fn note(&self) -> String {
        let left_out = |what: &str, drawn: usize, all: usize| {
            (drawn < all).then(|| format!("showing the first {drawn} of {all} {what}"))
        };
        let parties = left_out("parties", self.shown_parties().len(), self.parties.len());
        let rows = left_out("rows", self.shown_rows().len(), self.rows.len());
        parties.into_iter().chain(rows).collect::<Vec<_>>().join("; ")
    }

    /// The groups of a partition in words: all parties, those of one group together.
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

/// The group that a party is in, if it is in one.
pub(crate) fn group_of(groups: &[Vec<usize>], party: usize) -> Option<usize> {
    groups.iter().position(|group| group.contains(&party))
}

impl Row {
    /// Whether it is a message that does not arrive.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Row::Message { arrived: None, .. } | Row::Message { style: MessageStyle::Lost, .. })
    }

    /// When it is over: a message that arrives when it does, one that is lost when it was sent.
    pub(crate) fn end(&self) -> i64 {
        match self {
            Row::Message { sent, arrived, .. } => {
                if self.is_lost() {
                    *sent
                } else {
                    arrived.unwrap_or(*sent).max(*sent)
                }
            }
            Row::Note { at, .. }
            | Row::Crash { at, .. }
            | Row::Restart { at, .. }
            | Row::Partition { at, .. }
            | Row::Heal { at } => *at,
        }
    }
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
}
