//! Renders a sequence diagram as plain text: one line per row, one column per party. A message is drawn at its arrival,
//! or at its sending if it is lost; if there are other lines in between, the end of its line has the time of sending.
//!
//! ```text
//!   ms  client   broker   site
//!   12    │──probe─>│       │        a call; answers are ╌, copies that the network made are ═
//!   30    │         │─hold─x│        lost
//!   31    │         │       * held   a note
//!   40    │         │       X crash  then : until its restart
//! ```
//!
//! Every character counts as one column. A line has at most [`MOST_COLUMNS`] columns, unless the parties alone need
//! more.

use crate::sequence::{MessageStyle, Row, Sequence};

/// Maximum length of a line, which fits a wide terminal; exceeded only if there are too many parties.
const MOST_COLUMNS: usize = 160;
/// Minimum and maximum gap between two life lines, in columns.
const GAP: (usize, usize) = (7, 40);
/// Columns that an arrow needs in addition to its label: a dash on either side, and a head.
const BESIDE_LABEL: usize = 3;
/// Maximum gap that is made for a note; a longer note overwrites the life lines next to it.
const NOTE_GAP: usize = 24;
/// The names are repeated after this many lines, so that they are visible while scrolling.
const NAMES_EVERY: usize = 40;

impl Sequence {
    /// Renders the diagram as plain text with one line per row, for terminals and logs; about 160 columns wide at most.
    pub fn to_text(&self) -> String {
        let rows = lines_in_order(self);
        let columns = Columns::new(self, &rows);
        let mut text = String::new();
        for head in [&self.title, &self.note()] {
            if !head.is_empty() {
                text += &format!("{}\n", plain(head));
            }
        }
        let mut is_down = vec![false; self.shown_parties().len()];
        let mut before: Option<i64> = None;
        for (index, row) in rows.iter().enumerate() {
            if index % NAMES_EVERY == 0 {
                text += &columns.names(self.shown_parties());
            }
            text += &columns.line(self, row, &mut is_down, before);
            before = Some(row.end());
        }
        if rows.is_empty() {
            text += &columns.names(self.shown_parties());
        }
        text
    }
}

/// The rows sorted by [`Row::end`].
fn lines_in_order(sequence: &Sequence) -> Vec<&Row> {
    let mut rows = sequence.shown_rows();
    rows.sort_by_key(|row| row.end());
    rows
}

/// The column positions of a line.
struct Columns {
    time: usize,
    /// The life line of each party.
    lanes: Vec<usize>,
    width: usize,
}

impl Columns {
    fn new(sequence: &Sequence, rows: &[&Row]) -> Columns {
        let names: Vec<usize> = sequence.shown_parties().iter().map(|name| name.chars().count()).collect();
        let times = rows.iter().map(|row| row.end().to_string().len());
        let time = times.max().unwrap_or(0).max("ms".len());
        let left = time + 2 + names.first().map_or(0, |name| name.min(&(2 * GAP.1)) / 2);
        let right = right_room(rows, names.len()).max(names.last().map_or(0, |name| name / 2));
        let mut gaps = wanted_gaps(&names, rows);
        narrow(&mut gaps, MOST_COLUMNS.saturating_sub(left + right + names.len()));
        let mut lanes = vec![left];
        for gap in gaps {
            lanes.push(lanes.last().copied().unwrap_or(0) + gap + 1);
        }
        lanes.truncate(names.len());
        let width = lanes.last().map_or(left, |last| last + 1 + right);
        Columns { time, lanes, width }
    }

    fn names(&self, parties: &[String]) -> String {
        let mut line = Line::new(self.width, "ms", self.time);
        for (index, (&lane, name)) in self.lanes.iter().zip(parties).enumerate() {
            let before = if index == 0 { self.time + 1 } else { self.lanes[index - 1] + 1 };
            let room = self.lanes.get(index + 1).map_or(self.width, |next| *next).saturating_sub(before + 2);
            let name = cut(&plain(name), room);
            line.write(lane.saturating_sub(name.chars().count() / 2), &name);
        }
        line.finish()
    }

    /// Formats one row, and updates `is_down`.
    fn line(&self, sequence: &Sequence, row: &Row, is_down: &mut [bool], before: Option<i64>) -> String {
        let mut line = Line::new(self.width, &row.end().to_string(), self.time);
        for (&lane, down) in self.lanes.iter().zip(is_down.iter()) {
            line.put(lane, if *down { ':' } else { '│' });
        }
        match row {
            Row::Message { from, to, label, sent, style, .. } => {
                if from == to {
                    self.beside(&mut line, *from, if row.is_lost() { 'x' } else { '@' }, label);
                } else {
                    self.arrow(&mut line, (*from, *to), label, (*style, row.is_lost()));
                }
                if before.is_some_and(|before| before > *sent) {
                    line.append(&format!("sent {sent}"));
                }
            }
            Row::Note { party, label, .. } => self.beside(&mut line, *party, '*', label),
            Row::Crash { party, .. } => {
                self.beside(&mut line, *party, 'X', "crash");
                is_down[*party] = true;
            }
            Row::Restart { party, .. } => {
                self.beside(&mut line, *party, 'O', "restart");
                is_down[*party] = false;
            }
            Row::Partition { groups, .. } => {
                self.across(&mut line, &format!("partition: {}", sequence.groups_in_words(groups)));
            }
            Row::Heal { .. } => self.across(&mut line, "healed"),
        }
        line.finish()
    }

    fn arrow(&self, line: &mut Line, ends: (usize, usize), label: &str, kind: (MessageStyle, bool)) {
        let (from, to) = (self.lanes[ends.0], self.lanes[ends.1]);
        let (mut first, mut last) = (from.min(to) + 1, from.max(to) - 1);
        let (style, lost) = kind;
        // A lost message ends a fifth of the way before its receiver.
        let short_of = if lost { ((last - first) / 5).max(1) } else { 0 };
        let tip = if from < to {
            last -= short_of;
            last
        } else {
            first += short_of;
            first
        };
        let dash = match style {
            MessageStyle::Call | MessageStyle::Lost => '─',
            MessageStyle::Answer => '╌',
            MessageStyle::Duplicate => '═',
        };
        for column in first..=last {
            line.put(column, if self.lanes.contains(&column) { '┼' } else { dash });
        }
        let head = if from < to { '>' } else { '<' };
        line.put(tip, if lost { 'x' } else { head });
        let (first, last) = if from < to { (first, last - 1) } else { (first + 1, last) };
        self.label(line, (first, last), from < to, &plain(label));
    }

    /// Writes the label of an arrow whose dashes go from `first` to `last`: in the gap nearest to the head in which it
    /// fits, otherwise in the middle of the whole arrow.
    fn label(&self, line: &mut Line, (first, last): (usize, usize), to_the_right: bool, label: &str) {
        let crossed = self.lanes.iter().filter(|&&lane| first < lane && lane < last);
        let begins = std::iter::once(first).chain(crossed.clone().map(|lane| lane + 1));
        let ends = crossed.map(|lane| lane - 1).chain([last]);
        let mut gaps: Vec<(usize, usize)> = begins.zip(ends).collect();
        if to_the_right {
            gaps.reverse();
        }
        let room = |(first, last): (usize, usize)| (last + 1).saturating_sub(first + 2);
        let fits = |gap: &(usize, usize)| label.chars().count() <= room(*gap);
        let place = gaps.into_iter().find(fits).unwrap_or((first, last));
        let label = cut(label, room(place));
        let spare = (place.1 + 1).saturating_sub(place.0 + label.chars().count());
        line.write(place.0 + spare.div_ceil(2), &label);
    }

    /// Writes a mark on a life line, and text to the right of it.
    fn beside(&self, line: &mut Line, party: usize, mark: char, words: &str) {
        let lane = self.lanes[party];
        line.put(lane, mark);
        let words = cut(&plain(words), self.width.saturating_sub(lane + 2));
        line.write(lane + 2, &words);
    }

    /// Writes text across all life lines.
    fn across(&self, line: &mut Line, words: &str) {
        let first = self.lanes.first().copied().unwrap_or(0);
        let last = self.lanes.last().copied().unwrap_or(0);
        for column in first..=last {
            line.put(column, '~');
        }
        let words = cut(&plain(words), self.width.saturating_sub(first + 4));
        line.write(first + 2, &format!(" {words} "));
    }
}

/// Columns needed to the right of the last life line, for its notes and for times of sending.
fn right_room(rows: &[&Row], parties: usize) -> usize {
    let room = |row: &&Row| match row {
        Row::Message { sent, .. } => format!("  sent {sent}").len(),
        Row::Note { party, label, .. } if party + 1 == parties => label.chars().count().min(GAP.1) + 2,
        Row::Crash { party, .. } | Row::Restart { party, .. } if party + 1 == parties => "X restart".len(),
        _ => 0,
    };
    rows.iter().map(room).max().unwrap_or(0)
}

/// Gaps between life lines that fit names and labels, within limits.
fn wanted_gaps(names: &[usize], rows: &[&Row]) -> Vec<usize> {
    let mut gaps: Vec<usize> = names.windows(2).map(|pair| pair[0] / 2 + pair[1] / 2 + 2).collect();
    let mut widen = |first: usize, last: usize, length: usize| {
        let Some(crossed) = gaps.get_mut(first..last) else { return };
        let has: usize = crossed.iter().map(|gap| gap + 1).sum::<usize>().saturating_sub(1);
        let lacks = length.saturating_sub(has).div_ceil(crossed.len().max(1));
        crossed.iter_mut().for_each(|gap| *gap += lacks);
    };
    // Arrows between neighbours first, because only one gap can be widened for them.
    let mut wishes: Vec<(usize, usize, usize)> = rows.iter().filter_map(|row| wish(row)).collect();
    wishes.sort_by_key(|(first, last, length)| (last - first, *first, *length));
    for (first, last, length) in wishes {
        widen(first, last, length);
    }
    gaps.iter().map(|gap| (*gap).clamp(GAP.0, GAP.1)).collect()
}

/// The first and last life line of a row, and the number of columns that it needs between them.
fn wish(row: &Row) -> Option<(usize, usize, usize)> {
    match row {
        Row::Message { from, to, label, .. } if from != to => {
            let length = label.chars().count() + BESIDE_LABEL;
            // A lost message uses only four fifths of the way.
            let length = if row.is_lost() { length * 5 / 4 + 1 } else { length };
            Some((*from.min(to), *from.max(to), length))
        }
        Row::Note { party, label, .. } => {
            Some((*party, party + 1, (label.chars().count() + 3).min(NOTE_GAP)))
        }
        _ => None,
    }
}

/// Narrows the widest gaps until all fit into `room`, or none can be narrower.
fn narrow(gaps: &mut [usize], room: usize) {
    while gaps.iter().sum::<usize>() > room {
        let Some(widest) = gaps.iter_mut().max().filter(|gap| **gap > GAP.0) else { return };
        *widest -= 1;
    }
}

/// A line under construction.
struct Line {
    cells: Vec<char>,
}

impl Line {
    fn new(width: usize, time: &str, time_width: usize) -> Line {
        let mut cells: Vec<char> = format!("{time:>time_width$}").chars().collect();
        cells.resize(cells.len().max(width), ' ');
        Line { cells }
    }

    fn put(&mut self, column: usize, character: char) {
        if let Some(cell) = self.cells.get_mut(column) {
            *cell = character;
        }
    }

    fn write(&mut self, column: usize, text: &str) {
        for (offset, character) in text.chars().enumerate() {
            self.put(column + offset, character);
        }
    }

    /// Appends text after the last character that is not blank.
    fn append(&mut self, words: &str) {
        while self.cells.last() == Some(&' ') {
            self.cells.pop();
        }
        self.cells.extend("  ".chars().chain(words.chars()));
    }

    fn finish(self) -> String {
        let line: String = self.cells.into_iter().collect();
        format!("{}\n", line.trim_end())
    }
}

/// Replaces control characters, which could move the cursor, by blanks.
fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// At most `room` characters, with an ellipsis if the text was cut.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    if room == 0 { String::new() } else { format!("{}…", kept.trim_end()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MessageStyle::{Answer, Call, Duplicate, Lost};

    fn message(ends: (usize, usize), label: &str, times: (i64, Option<i64>), style: MessageStyle) -> Row {
        let ((from, to), (sent, arrived)) = (ends, times);
        Row::Message { from, to, label: label.to_owned(), sent, arrived, style }
    }

    fn note(party: usize, label: &str, at: i64) -> Row {
        Row::Note { party, label: label.to_owned(), at }
    }

    /// A reservation of two parts, one of which is lost, held and committed by a site that crashes in between.
    fn negotiation() -> Sequence {
        let parties = ["client", "broker", "site-a", "site-b"].map(str::to_owned).to_vec();
        let rows = vec![
            message((0, 1), "reserve", (0, Some(8)), Call),
            message((1, 2), "reserve r1", (8, Some(20)), Call),
            message((1, 3), "reserve r2", (8, None), Lost),
            note(2, "held until 620", 20),
            message((2, 1), "accepted r1", (20, Some(32)), Answer),
            message((2, 1), "accepted r1", (20, Some(45)), Duplicate),
            Row::Partition { groups: vec![vec![2]], at: 40 },
            message((1, 3), "reserve r2", (68, Some(80)), Call),
            note(3, "held until 680", 80),
            message((3, 1), "accepted r2", (80, Some(92)), Answer),
            Row::Crash { party: 1, at: 95 },
            Row::Heal { at: 200 },
            note(3, "still held", 220),
            Row::Restart { party: 1, at: 240 },
            message((1, 1), "replay", (241, Some(242)), Call),
            message((1, 2), "commit r1", (242, Some(254)), Call),
            message((1, 3), "commit r2", (242, Some(254)), Call),
            message((1, 0), "committed", (280, Some(288)), Answer),
        ];
        Sequence { title: "Two parts".to_owned(), parties, rows }
    }

    #[test]
    fn a_small_negotiation_reads_from_top_to_bottom() {
        let expected = "\
Two parts
 ms  client       broker         site-a            site-b
  8     │──reserve──>│              │                 │
  8     │            │──reserve r2──┼──────────x      │
 20     │            │──reserve r1─>│                 │
 20     │            │              * held until 620  │
 32     │            │<╌accepted r1╌│                 │
 40     ~~ partition: client, broker, site-b | site-a ~
 45     │            │<═accepted r1═│                 │  sent 20
 80     │            │──────────────┼───reserve r2───>│
 80     │            │              │                 * held until 680
 92     │            │<╌accepted r2╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌│
 95     │            X crash        │                 │
200     ~~ healed ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
220     │            :              │                 * still held
240     │            O restart      │                 │
242     │            @ replay       │                 │
254     │            │──commit r1──>│                 │
254     │            │──────────────┼────commit r2───>│  sent 242
288     │<╌committed╌│              │                 │
";
        assert_eq!(negotiation().to_text(), expected);
    }

    #[test]
    fn lines_stay_within_their_width_and_long_words_are_cut() {
        let parties: Vec<String> = (0..12).map(|party| format!("a party of some length {party}")).collect();
        let label = "a label that is longer than any gap could ever be made ".repeat(4);
        let rows = (0..300).map(|row| match row % 3 {
            0 => note(11, &label, row),
            1 => message((0, 11), &label, (row, Some(row + 9)), Call),
            _ => message((6, 5), &label, (row, None), Lost),
        });
        let text = Sequence { title: String::new(), parties, rows: rows.collect() }.to_text();
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(MOST_COLUMNS), "{widest:?}");
        assert!(text.contains('…'));
    }

    #[test]
    fn nothing_and_one_party_and_control_characters_are_written_too() {
        assert_eq!(Sequence::default().to_text(), "ms\n");
        let parties = vec!["a\nb".to_owned()];
        let rows = vec![note(0, "x\ty", i64::MIN), Row::Heal { at: i64::MAX }];
        let text = Sequence { title: "t\r".to_owned(), parties, rows }.to_text();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("a b") && text.contains("* x y"), "{text}");
    }
}
