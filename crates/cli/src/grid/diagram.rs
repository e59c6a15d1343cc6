//! The message log of a grid as a sequence diagram, with clients on the left, brokers in the middle and sites on the
//! right.

use bookahead_figure::{MessageStyle, Row as Drawn, Sequence};
use bookahead_protocol::Moment;
use bookahead_sim::grid::{CrashPoint, Grid, Kind, Role, Row, What};
use std::ops::RangeInclusive;

/// Journal events that are left out: an answer is journaled before it is sent, and the message itself is shown.
const NOT_SHOWN: [&str; 3] = ["answered", "woke", "answer-forgotten"];

/// The part of the log that lies in `range`.
pub(crate) fn sequence(title: &str, grid: &Grid, range: &RangeInclusive<Moment>) -> Sequence {
    let rank = |place: &usize| match grid.parties()[*place].role {
        Role::Client(_) => 0,
        Role::Broker(_) => 1,
        Role::Site(_) => 2,
    };
    let mut order: Vec<usize> = (0..grid.parties().len()).collect();
    // The sort is stable: parties of one kind stay in the order of the description.
    order.sort_by_key(rank);
    // The inverse of `order`: the log names a party by its index, the diagram by its lane.
    let mut lanes = vec![0; order.len()];
    order.iter().enumerate().for_each(|(lane, &place)| lanes[place] = lane);
    let parties = order.iter().map(|&place| grid.parties()[place].name.to_string()).collect();
    let rows = grid.log.rows.as_deref().unwrap_or_default();
    let shown = rows.iter().filter(|row| range.contains(&row.at));
    let rows = shown.flat_map(|row| drawn(row, &lanes)).collect();
    Sequence { title: title.to_owned(), parties, rows }
}

fn drawn(row: &Row, lanes: &[usize]) -> Vec<Drawn> {
    let message = |from: usize, to: usize, word: &str, sent: Moment, arrived: Option<(Moment, Kind)>| {
        let style = match arrived {
            None => MessageStyle::Lost,
            Some((_, Kind::Call)) => MessageStyle::Call,
            Some((_, Kind::Answer)) => MessageStyle::Answer,
            Some((_, Kind::Copy)) => MessageStyle::Duplicate,
        };
        let arrived = arrived.map(|(at, _)| at.0);
        vec![Drawn::Message {
            from: lanes[from],
            to: lanes[to],
            label: word.to_owned(),
            sent: sent.0,
            arrived,
            style,
        }]
    };
    let at = row.at;
    let note = |party: usize, label: String| Drawn::Note { party: lanes[party], label, at: at.0 };
    match &row.what {
        What::Message { from, to, sent, word, kind } => message(*from, *to, word, *sent, Some((at, *kind))),
        What::Lost { from, to, sent, word } => message(*from, *to, word, *sent, None),
        What::Written { word, .. } if NOT_SHOWN.contains(word) => Vec::new(),
        What::Written { party, word, .. } => vec![note(*party, (*word).to_owned())],
        What::Ordered { site, word } => vec![note(*site, format!("order: {word}"))],
        What::Reported { site, word } => vec![note(*site, format!("report: {word}"))],
        What::Crash { party, point } => {
            let where_in = in_words(*point).map(|label| note(*party, label.to_owned()));
            where_in.into_iter().chain([Drawn::Crash { party: lanes[*party], at: at.0 }]).collect()
        }
        What::Restart { party } => vec![Drawn::Restart { party: lanes[*party], at: at.0 }],
        What::CutOff { parties } => {
            let group = parties.iter().map(|&party| lanes[party]).collect();
            vec![Drawn::Partition { groups: vec![group], at: at.0 }]
        }
        What::Reunited => vec![Drawn::Heal { at: at.0 }],
    }
}

fn in_words(point: CrashPoint) -> Option<&'static str> {
    match point {
        CrashPoint::Idle => None,
        CrashPoint::BeforeWriting => Some("before writing"),
        CrashPoint::AfterWriting => Some("after writing"),
        CrashPoint::WhileSending => Some("while sending"),
    }
}
