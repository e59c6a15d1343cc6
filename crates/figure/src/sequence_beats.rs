//! The order in which the things of a sequence picture stand, from top to bottom, and how far apart. Time is not
//! drawn to scale: every arrival, note and crash has a line of its own, so that labels never collide, and a long
//! silence is a wider gap. What one party sends in one millisecond leaves from one point. It draws nothing.

use crate::sequence::Row;

/// Something that has a height in the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) time: i64,
    /// Which of the rows.
    pub(crate) row: usize,
    pub(crate) part: Part,
}

/// Which part of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// A message is sent.
    Sent,
    /// A message arrives, or something else happens.
    Whole,
    /// A message is lost: below what else happens in the same millisecond.
    Lost,
}

/// The beats from top to bottom, each with its distance from the top, and the height of all.
pub(crate) fn beats(rows: &[&Row]) -> (Vec<(Beat, f64)>, f64) {
    let mut order: Vec<Beat> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if let Row::Message { sent, .. } = row {
            order.push(Beat { time: *sent, row: index, part: Part::Sent });
        }
        let part = if row.is_lost() { Part::Lost } else { Part::Whole };
        order.push(Beat { time: row.end(), row: index, part });
    }
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

/// From one line to the next.
const LINE: f64 = 21.0;
/// From a line to a point of sending, which has no label.
const POINT: f64 = 12.0;
/// More, where for long nothing happens.
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

/// How many times the usual gap is a long one.
const LONG: i64 = 8;

/// The shortest gap that counts as a silence.
fn silence(order: &[Beat]) -> i64 {
    let gaps = order.windows(2).map(|pair| pair[1].time.saturating_sub(pair[0].time));
    let mut gaps: Vec<i64> = gaps.filter(|&gap| gap > 0).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map_or(i64::MAX, |usual| usual.saturating_mul(LONG))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::MessageStyle;

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
}
