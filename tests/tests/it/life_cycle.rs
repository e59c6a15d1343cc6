//! Generates the picture and the page of the life cycle from its one table, so that they cannot diverge. Positions and
//! explanations of states and moves are given here and on the page.

use crate::generated::assert_kept;
use crate::repository::root;
use bookahead_figure::{Port, Side, StateDiagram, StateEdge, StateNode};
use bookahead_protocol::life_cycle::{MOVES, Move, State};
use std::fs;

const PICTURE: &str = "docs/images/life-cycle.svg";
const PAGE: &str = "docs/life-cycle.md";

/// Marks above and below the table of moves on the page.
const BEGIN: &str = "<!-- moves: written by the test of this page -->\n";
const END: &str = "<!-- end of moves -->\n";

#[test]
fn the_picture_of_the_life_cycle_is_drawn_from_the_table() {
    let states = State::ALL.map(node).to_vec();
    let mut moves: Vec<StateEdge> = Vec::new();
    for (from, by, to) in MOVES {
        let (from_name, to_name) = (name(from), name(to));
        // Several moves between the same two states share one arrow.
        match moves.iter_mut().find(|edge| edge.from == from_name && edge.to == to_name) {
            Some(edge) => edge.label = format!("{}, {}", edge.label, label(from, by)),
            None => {
                let (leave, arrive, label_at) = path(from, to);
                let label = label(from, by);
                moves.push(StateEdge { from: from_name, label, to: to_name, leave, arrive, label_at });
            }
        }
    }
    let title = "The life of a reservation".to_owned();
    let diagram = StateDiagram { title, states, moves };
    assert_eq!(diagram.overlaps(), Vec::<String>::new(), "texts of the picture overlap");
    assert_kept(PICTURE, diagram.to_svg().as_bytes());
}

#[test]
fn the_page_of_the_life_cycle_lists_the_moves_of_the_table_and_explains_every_state() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    for state in State::ALL {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{state}` |")));
        let row = row.unwrap_or_else(|| panic!("{PAGE} does not explain {state}"));
        assert_eq!(row.ends_with("| yes |"), state.holds_capacity(), "{row}");
    }
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let row = |(from, by, to): (State, Move, State)| {
        format!("| `{from}` | {} | `{to}` | {} |\n", by.word(), meaning(from, by))
    };
    let rows: String = MOVES.map(row).concat();
    let table = format!("| from | move | to | when |\n| --- | --- | --- | --- |\n{rows}");
    assert_kept(PAGE, format!("{before}{BEGIN}\n{table}\n{END}{after}").as_bytes());
}

/// A state and its position: the usual course downwards in the middle, changes and ends beside it.
fn node(state: State) -> StateNode {
    let (column, row) = match state {
        State::Rejected => (0, 0),
        State::Requested => (1, 0),
        State::Expired => (0, 1),
        State::Held => (1, 1),
        State::Cancelled => (2, 1),
        State::Committed => (1, 2),
        State::Active => (1, 3),
        State::ChangeRequested => (2, 3),
        State::Completed => (1, 4),
        State::Terminated => (2, 4),
    };
    let (over, start) = (state.is_over(), state == State::Requested);
    StateNode { name: name(state), over, start, column, row }
}

/// Ends of an arrow, and the position of its label as a share of its length.
fn path(from: State, to: State) -> (Port, Port, f64) {
    use Side::{Bottom, Left, Right, Top};
    use State::*;
    match (from, to) {
        (Requested, Held) | (Committed, Active) | (Active, Completed) => ((Bottom, 0.0), (Top, 0.0), 0.5),
        (Held, Committed) => ((Bottom, 0.0), (Top, 0.0), 0.35),
        (Requested, Rejected) => ((Left, -8.0), (Right, -8.0), 0.5),
        (Requested, Expired) => ((Left, 12.0), (Top, 30.0), 0.6),
        (Requested, Cancelled) => ((Right, 0.0), (Top, 0.0), 0.4),
        (Held, Held) => ((Right, -14.0), (Right, 0.0), 0.5),
        (Held, Expired) => ((Left, 10.0), (Right, 10.0), 0.5),
        (Held, Cancelled) => ((Right, 12.0), (Left, 12.0), 0.5),
        (Expired, Committed) => ((Bottom, -30.0), (Left, -8.0), 0.6),
        (Expired, Requested) => ((Right, -9.0), (Bottom, -45.0), 0.55),
        (Expired, Cancelled) => ((Bottom, 30.0), (Bottom, -50.0), 0.25),
        (Committed, ChangeRequested) => ((Right, 0.0), (Top, 10.0), 0.5),
        (Committed, Cancelled) => ((Right, -12.0), (Bottom, 0.0), 0.6),
        (Committed, Committed) => ((Left, 3.0), (Left, 17.0), 0.5),
        (ChangeRequested, Committed) => ((Top, -50.0), (Right, 16.0), 0.2),
        (ChangeRequested, Active) => ((Left, -9.0), (Right, -9.0), 0.5),
        (ChangeRequested, Completed) => ((Bottom, -50.0), (Right, 0.0), 0.35),
        (ChangeRequested, Cancelled) => ((Top, 50.0), (Bottom, 50.0), 0.5),
        (ChangeRequested, Terminated) => ((Bottom, 50.0), (Top, 50.0), 0.5),
        (Active, ChangeRequested) => ((Right, 9.0), (Left, 9.0), 0.5),
        (Active, Terminated) => ((Bottom, 50.0), (Left, 0.0), 0.35),
        (Active, Active) => ((Left, -7.0), (Left, 7.0), 0.5),
        _ => panic!("the picture has no path from {from} to {to}; add one here"),
    }
}

fn name(state: State) -> String {
    state.word().replace('-', " ")
}

fn label(from: State, by: Move) -> String {
    let label = match (from, by) {
        (State::Requested, Move::Expire) => "late commit refused",
        (State::Expired, Move::Request) => "late commit waits",
        (State::Expired, Move::Commit) => "late commit",
        (State::Held, Move::Hold) => "hold longer",
        (State::Committed | State::Active, Move::Commit) => "more jobs",
        (_, Move::RequestChange) => "change",
        (_, Move::SettleChange) => "settle",
        _ => by.word(),
    };
    label.to_owned()
}

fn meaning(from: State, by: Move) -> &'static str {
    match (from, by) {
        (_, Move::Request) => "late commit at a site that has to ask its batch system again",
        (State::Requested, Move::Hold) => "granted: it is held until its deadline",
        (_, Move::Hold) => "its owner asks to hold it longer",
        (_, Move::Reject) => "no room, a limit, or the batch system refuses or does not answer in time",
        (State::Requested, Move::Expire) => {
            "a late commit was refused by the batch system, or not answered in time"
        }
        (_, Move::Expire) => "not committed before its deadline; its room is free again",
        (State::Expired, Move::Commit) => {
            "late commit: after the deadline, if the site allows it and the room is still free"
        }
        (State::Held, Move::Commit) => "its owner confirms in time; this cannot fail for lack of room",
        (_, Move::Commit) => "its owner attaches more jobs",
        (_, Move::RequestChange) => "its owner asks for other terms",
        (_, Move::Extend) => "its owner asks for a later end",
        (_, Move::SettleChange) => {
            "granted: it has the new terms; or refused: it has the old ones (and is active again if it was)"
        }
        (State::ChangeRequested, Move::Begin) => {
            "its start comes before the change is answered; the old terms stand"
        }
        (_, Move::Begin) => "its start comes",
        (State::ChangeRequested, Move::Complete) => "its end comes before the extension is answered",
        (_, Move::Complete) => "its end comes, or its owner gives back the rest",
        (_, Move::Cancel) => "given up before its start, by its owner or because the resource failed",
        (State::ChangeRequested, Move::Terminate) => "given up while active and waiting for an extension",
        (_, Move::Terminate) => "given up while active",
    }
}
