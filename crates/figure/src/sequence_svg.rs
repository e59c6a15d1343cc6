//! Renders a sequence diagram as SVG: vertical life lines, and each message as an arrow that curves away from the line
//! of its sender and is then horizontal, so that its label is too. Vertical positions come from [`beats`]; no two
//! labels share a line.

use crate::header::{Entry, Swatch, draw_header};
use crate::sequence::{Beat, MessageStyle, Part, Row, Sequence, beats, down, group_of, partitions};
use crate::svg::{Frame, HEAD_LENGTH, Point, Svg, arrow_head, at, cross, disc, number, rounded};
use crate::theme::{LEFT, MARGIN, RIGHT, SMALL, TEXT, WIDTH, fit, text_width};

/// Minimum and maximum distance of life lines, in pixels.
const PITCH: (f64, f64) = (84.0, 250.0);
/// Maximum width of all lanes together, in pixels: wider than other pictures, but not without bound.
const WIDEST: f64 = 2.0 * WIDTH;
/// Space that an arrow needs in addition to its label, in pixels.
const BESIDE_LABEL: f64 = 58.0;
const HEAD_HEIGHT: f64 = 26.0;
/// Space between the names of the parties and the first line, in pixels.
const BELOW_HEADS: f64 = 30.0;
/// The names are repeated after this many pixels, so that they are visible while scrolling.
const NAMES_EVERY: f64 = 900.0;
/// Height of the gap for repeated names, in pixels.
const NAMES_GAP: f64 = 34.0;
const NOTE_HEIGHT: f64 = 17.0;

impl Sequence {
    /// Renders the diagram as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        svg.style(include_str!("css/sequence.css"));
        let rows = self.shown_rows();
        let top = draw_header(&mut svg, &self.title, &self.note(), &legend(&rows)) + 4.0;
        let page = Page::new(self, rows, top);
        page.draw_partitions(&mut svg);
        page.draw_lives(&mut svg);
        page.draw_names(&mut svg);
        page.draw_times(&mut svg);
        // Messages first, so that their lines do not cross other text.
        let is_message = |beat: &Beat| matches!(page.rows[beat.row], Row::Message { .. });
        for messages in [true, false] {
            for (beat, y) in page.beats.iter().filter(|(beat, _)| is_message(beat) == messages) {
                if beat.part != Part::Sent {
                    page.draw_row(&mut svg, beat, page.y(*y));
                }
            }
        }
        page.draw_names_again(&mut svg);
        let size = (page.width(), page.bottom() + HEAD_HEIGHT + MARGIN);
        svg.finish_sized(&self.title, &page.description(), size)
    }
}

/// The legend of the styles in use.
fn legend(rows: &[&Row]) -> Vec<Entry> {
    let all = [MessageStyle::Call, MessageStyle::Answer, MessageStyle::Lost, MessageStyle::Duplicate];
    let is = |row: &Row, style: MessageStyle| match row {
        Row::Message { style: own, .. } => *own == style || style == MessageStyle::Lost && row.is_lost(),
        _ => false,
    };
    let used = all.into_iter().filter(|&style| rows.iter().any(|row| is(row, style)));
    let entry = |style| {
        let name = class(style);
        Entry { name: name.to_owned(), swatch: Swatch::Line(format!("message {name}")) }
    };
    used.map(entry).collect()
}

/// CSS class of a style, which is also its name in the legend.
fn class(style: MessageStyle) -> &'static str {
    match style {
        MessageStyle::Call => "call",
        MessageStyle::Answer => "answer",
        MessageStyle::Lost => "lost",
        MessageStyle::Duplicate => "duplicate",
    }
}

/// A diagram with its dimensions.
struct Page<'a> {
    sequence: &'a Sequence,
    rows: Vec<&'a Row>,
    beats: Vec<(Beat, f64)>,
    height: f64,
    left: f64,
    pitch: f64,
    top: f64,
}

impl<'a> Page<'a> {
    fn new(sequence: &'a Sequence, rows: Vec<&'a Row>, top: f64) -> Page<'a> {
        let (beats, height) = beats(&rows);
        let times = beats.iter().map(|(beat, _)| text_width(&beat.time.to_string(), TEXT));
        let left = times.fold(LEFT - 24.0, f64::max) + 24.0;
        let parties = sequence.shown_parties();
        let room = (WIDTH - left - RIGHT) / parties.len().max(1) as f64;
        let pitch = wanted_pitch(parties, &rows).max(room);
        Page { sequence, rows, beats, height, left, pitch, top }
    }

    fn parties(&self) -> &'a [String] {
        self.sequence.shown_parties()
    }

    fn width(&self) -> f64 {
        (self.left + self.pitch * self.parties().len() as f64 + RIGHT).max(WIDTH)
    }

    /// Position of the life line of a party.
    fn x(&self, party: usize) -> f64 {
        self.left + (party as f64 + 0.5) * self.pitch
    }

    /// Position of a beat on the page, including the gaps for names.
    fn y(&self, beat: f64) -> f64 {
        self.first_line() + beat + self.gaps_before(beat) * NAMES_GAP
    }

    /// Number of gaps for names before a beat. There is none near the end, where the names are repeated anyway.
    fn gaps_before(&self, beat: f64) -> f64 {
        let most = ((self.height - NAMES_EVERY / 3.0) / NAMES_EVERY).floor().max(0.0);
        (beat / NAMES_EVERY).floor().min(most)
    }

    fn first_line(&self) -> f64 {
        self.top + HEAD_HEIGHT + BELOW_HEADS
    }

    /// End of the life lines, where the names are repeated.
    fn bottom(&self) -> f64 {
        self.y(self.height) + BELOW_HEADS
    }

    /// The rows in order, with their positions.
    fn placed(&self) -> Vec<(&'a Row, f64)> {
        let whole = self.beats.iter().filter(|(beat, _)| beat.part != Part::Sent);
        whole.map(|(beat, y)| (self.rows[beat.row], self.y(*y))).collect()
    }

    fn draw_partitions(&self, svg: &mut Svg) {
        for (groups, (begin, end)) in partitions(&self.placed(), self.bottom()) {
            let (top, height) = (begin - 9.0, end - begin + 12.0);
            for party in 0..self.parties().len() {
                let left = self.x(party) - self.pitch / 2.0;
                let group = group_of(groups, party);
                if let Some(group) = group {
                    let class = ["apart", "apart1", "apart2"][group % 3];
                    svg.rect(class, Frame { left, top, width: self.pitch, height });
                }
                if party > 0 && group_of(groups, party - 1) != group {
                    svg.line("wall", (left, top), (left, top + height));
                }
            }
        }
    }

    fn draw_lives(&self, svg: &mut Svg) {
        let placed = self.placed();
        let (begin, bottom) = (self.top + HEAD_HEIGHT, self.bottom());
        for party in 0..self.parties().len() {
            let x = self.x(party);
            let mut since = begin;
            for (crash, restart) in down(&placed, party, bottom) {
                svg.line("life", (x, since), (x, crash));
                svg.line("dead", (x, crash), (x, restart));
                since = restart;
            }
            if since < bottom {
                svg.line("life", (x, since), (x, bottom));
            }
        }
    }

    fn draw_names(&self, svg: &mut Svg) {
        svg.text("end", (self.left - 12.0, self.top + HEAD_HEIGHT - 8.0), "ms");
        for (party, name) in self.parties().iter().enumerate() {
            let x = self.x(party);
            let width = (text_width(name, TEXT) + 24.0).min(self.pitch - 8.0);
            for top in [self.top, self.bottom()] {
                svg.open_group("head");
                svg.tooltip(name);
                let frame = Frame { left: x - width / 2.0, top, width, height: HEAD_HEIGHT };
                svg.path("party", &rounded(frame, 5.0));
                svg.text("party-name", (x, top + HEAD_HEIGHT / 2.0 + 4.2), &fit(name, TEXT, width - 8.0));
                svg.close_group();
            }
        }
    }

    /// Repeats the names in the gaps of a long picture. Drawn last, so that no line crosses them.
    fn draw_names_again(&self, svg: &mut Svg) {
        for gap in 1..=self.gaps_before(self.height) as usize {
            let y = self.first_line() + gap as f64 * (NAMES_EVERY + NAMES_GAP) - NAMES_GAP / 2.0 - 4.0;
            for (party, name) in self.parties().iter().enumerate() {
                svg.text("again", (self.x(party), y), &fit(name, SMALL, self.pitch - 8.0));
            }
        }
    }

    /// Draws each time once, at its first event.
    fn draw_times(&self, svg: &mut Svg) {
        let mut before = None;
        for (beat, y) in &self.beats {
            if before.replace(beat.time) != Some(beat.time) {
                svg.text("end", (self.left - 12.0, self.y(*y) + 4.0), &beat.time.to_string());
            }
        }
    }

    fn draw_row(&self, svg: &mut Svg, beat: &Beat, y: f64) {
        match self.rows[beat.row] {
            Row::Message { .. } => self.draw_message(svg, beat.row, y),
            Row::Note { party, label, .. } => self.draw_note(svg, *party, label, y),
            Row::Crash { party, .. } => {
                svg.path("cross lost", &cross((self.x(*party), y), 6.0));
                svg.text("say fault", (self.x(*party) + 12.0, y + 4.0), "crash");
            }
            Row::Restart { party, .. } => {
                svg.path("tip answer", &disc((self.x(*party), y), 4.5));
                svg.text("say", (self.x(*party) + 12.0, y + 4.0), "restart");
            }
            Row::Partition { groups, .. } => {
                let words = format!("partition: {}", self.sequence.groups_in_words(groups));
                let room = self.width() - self.left - RIGHT;
                svg.text("say fault", (self.left + 8.0, y + 4.0), &fit(&words, TEXT, room));
            }
            Row::Heal { .. } => svg.text("say fault", (self.left + 8.0, y + 4.0), "healed"),
        }
    }

    fn draw_message(&self, svg: &mut Svg, index: usize, y: f64) {
        let row = self.rows[index];
        let Row::Message { from, to, label, sent, style, .. } = row else { return };
        let names = (&self.parties()[*from], &self.parties()[*to]);
        let fate = if row.is_lost() { "lost".to_owned() } else { format!("arrived {} ms", row.end()) };
        svg.open_group("sent");
        svg.tooltip(&format!("{label}: {} to {}, sent {sent} ms, {fate}", names.0, names.1));
        let begin = (self.x(*from), self.sent_at(index).unwrap_or(y));
        let end = (self.x(*to), y);
        let lost = row.is_lost();
        // A lost message keeps the dashes of its style, but has the colour of lost messages.
        let class = format!("{}{}", class(*style), if lost { " lost" } else { "" });
        let arrow = Arrow { begin, end, label, class, lost, pitch: self.pitch };
        if from == to {
            draw_self_arrow(svg, &arrow);
        } else {
            draw_arrow(svg, &arrow);
        }
        svg.close_group();
    }

    /// Position at which a message leaves its sender.
    fn sent_at(&self, row: usize) -> Option<f64> {
        let is_sent = |(beat, _): &&(Beat, f64)| beat.row == row && beat.part == Part::Sent;
        self.beats.iter().find(is_sent).map(|(_, y)| self.y(*y))
    }

    fn draw_note(&self, svg: &mut Svg, party: usize, label: &str, y: f64) {
        let x = self.x(party);
        let width = (text_width(label, SMALL) + 12.0).min(self.pitch - 6.0);
        let frame = Frame { left: x - width / 2.0, top: y - NOTE_HEIGHT / 2.0, width, height: NOTE_HEIGHT };
        svg.open_group("note");
        svg.tooltip(label);
        svg.path("note-box", &rounded(frame, 3.0));
        svg.text("note-text", (x, y + SMALL * 0.36), &fit(label, SMALL, width - 6.0));
        svg.close_group();
    }

    fn description(&self) -> String {
        let messages = self.rows.iter().filter(|row| matches!(row, Row::Message { .. })).count();
        let lost = self.rows.iter().filter(|row| row.is_lost()).count();
        let parties = self.parties().join(", ");
        format!("{parties}. Messages: {messages}, of which lost: {lost}.")
    }
}

/// The distance of life lines at which all labels fit, within limits.
fn wanted_pitch(parties: &[String], rows: &[&Row]) -> f64 {
    let label = |row: &&Row| match row {
        Row::Message { label, .. } => text_width(label, SMALL + 1.0) + BESIDE_LABEL,
        Row::Note { label, .. } => text_width(label, SMALL) + 20.0,
        _ => 0.0,
    };
    let names = parties.iter().map(|name| text_width(name, TEXT) + 34.0);
    let most = (WIDEST / parties.len().max(1) as f64).clamp(PITCH.0, PITCH.1);
    names.chain(rows.iter().map(label)).fold(PITCH.0, f64::max).min(most)
}

#[derive(Debug)]
struct Arrow<'a> {
    /// On the sender's life line.
    begin: Point,
    /// On the receiver's life line.
    end: Point,
    label: &'a str,
    class: String,
    lost: bool,
    /// Distance of the life lines.
    pitch: f64,
}

const LABEL: f64 = SMALL + 1.0;
/// Maximum width of the curve at the sender, in pixels.
const BEND: f64 = 34.0;
/// Distance from the end of a lost message to its receiver, in lanes.
const SHORT_OF: f64 = 0.24;
/// Space between a label and the ends of its line, in pixels.
const LABEL_GAP: f64 = 5.0;

fn draw_arrow(svg: &mut Svg, arrow: &Arrow<'_>) {
    let ((x, y), (target, level)) = (arrow.begin, arrow.end);
    let onward = if target < x { -1.0 } else { 1.0 };
    let bend = x + onward * BEND.min(arrow.pitch * 0.28);
    let stop = if arrow.lost { target - onward * SHORT_OF * arrow.pitch } else { target };
    let neck = if arrow.lost { stop } else { stop - onward * (HEAD_LENGTH - 1.0) };
    let out = (x + (bend - x) * 0.3, y + (level - y) * 0.6);
    let flat = (x + (bend - x) * 0.4, level);
    let line =
        format!("M{}C{} {} {}H{}", at(arrow.begin), at(out), at(flat), at((bend, level)), number(neck));
    let class = &arrow.class;
    svg.path(&format!("message {class}"), &line);
    if arrow.lost {
        svg.path("cross lost", &cross((stop, level), 4.0));
    } else {
        svg.path(&format!("tip {class}"), &arrow_head((bend, level), (target, level)));
    }
    draw_label(svg, arrow, bend, stop - onward * if arrow.lost { 4.0 } else { HEAD_LENGTH });
}

/// Draws the label above the horizontal part of the line; between the last two life lines if it fits there.
fn draw_label(svg: &mut Svg, arrow: &Arrow<'_>, bend: f64, stop: f64) {
    let target = arrow.end.0;
    let last_lane = if target < arrow.begin.0 { target + arrow.pitch } else { target - arrow.pitch };
    let is_far = (target - arrow.begin.0).abs() > 1.5 * arrow.pitch;
    let room = |from: f64| (stop - from).abs() - 2.0 * LABEL_GAP;
    let fits_at_the_end = is_far && text_width(arrow.label, LABEL) <= room(last_lane);
    let from = if fits_at_the_end { last_lane } else { bend };
    let label = fit(arrow.label, LABEL, room(from));
    svg.text("say centred", ((from + stop) / 2.0, arrow.end.1 - 4.0), &label);
}

/// Draws a message of a party to itself as a loop on its right.
fn draw_self_arrow(svg: &mut Svg, arrow: &Arrow<'_>) {
    let ((x, y), (_, level)) = (arrow.begin, arrow.end);
    let far = x + BEND;
    let class = &arrow.class;
    let neck = (x + HEAD_LENGTH - 1.0, level);
    let line = format!("M{}C{} {} {}", at((x, y)), at((far, y)), at((far, level)), at(neck));
    svg.path(&format!("message {class}"), &line);
    if arrow.lost {
        svg.path("cross lost", &cross(neck, 4.0));
    } else {
        svg.path(&format!("tip {class}"), &arrow_head((far, level), (x, level)));
    }
    let label = fit(arrow.label, LABEL, arrow.pitch - BEND);
    svg.text("say", (x + BEND * 0.8 + LABEL_GAP, (y + level) / 2.0 + 4.0), &label);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sent: i64, arrived: Option<i64>, style: MessageStyle) -> Row {
        Row::Message { from: 0, to: 1, label: "probe".to_owned(), sent, arrived, style }
    }

    fn two(rows: Vec<Row>) -> String {
        Sequence { title: "Two".to_owned(), parties: ["a", "b"].map(str::to_owned).to_vec(), rows }.to_svg()
    }

    #[test]
    fn a_message_has_a_head_where_it_arrives_and_a_cross_where_it_is_lost() {
        let arrived = two(vec![message(0, Some(7), MessageStyle::Call)]);
        assert_eq!(
            (arrived.matches("class=\"tip call\"").count(), arrived.matches("\"cross lost\"").count()),
            (1, 0)
        );
        assert!(arrived.contains("<title>probe: a to b, sent 0 ms, arrived 7 ms</title>"));
        for lost in [message(0, None, MessageStyle::Answer), message(0, Some(7), MessageStyle::Lost)] {
            let lost = two(vec![lost]);
            assert_eq!((lost.matches("class=\"tip").count(), lost.matches("\"cross lost\"").count()), (0, 1));
            assert!(lost.contains("sent 0 ms, lost</title>") && lost.contains(">lost</text>"));
        }
    }

    #[test]
    fn a_life_line_is_interrupted_while_its_party_is_down() {
        let svg = two(vec![Row::Crash { party: 1, at: 3 }, Row::Restart { party: 1, at: 9 }]);
        assert_eq!((svg.matches("class=\"life\"").count(), svg.matches("class=\"dead\"").count()), (3, 1));
        let for_good = two(vec![Row::Crash { party: 1, at: 3 }]);
        assert_eq!(
            (for_good.matches("class=\"life\"").count(), for_good.matches("class=\"dead\"").count()),
            (2, 1)
        );
    }

    #[test]
    fn names_are_written_again_in_long_pictures() {
        let rows =
            |count| (0..count).map(|at| message(at * 10, Some(at * 10 + 5), MessageStyle::Call)).collect();
        assert_eq!(two(rows(20)).matches("class=\"again\"").count(), 0);
        assert_eq!(two(rows(100)).matches("class=\"again\"").count(), 6);
    }
}
