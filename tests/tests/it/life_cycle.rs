//! The picture and the page of the life cycle are made from its one table: nobody can change the one without the
//! others. What the states mean and where they stand in the picture is said here and on the page.

use crate::generated::assert_kept;
use crate::repository::root;
use bookahead_figure::{StateDiagram, StateEdge, StateKind, StateNode};
use bookahead_protocol::life_cycle::{MOVES, Move, State};
use std::fs;

const PICTURE: &str = "docs/images/life-cycle.svg";
const PAGE: &str = "docs/life-cycle.md";

/// Stands above and below the table of moves on the page.
const BEGIN: &str = "<!-- moves: written by the test of this page -->\n";
const END: &str = "<!-- end of moves -->\n";

#[test]
fn the_picture_of_the_life_cycle_is_drawn_from_the_table() {
    let states = State::ALL.map(node).to_vec();
    let edge = |(from, by, to): (State, Move, State)| StateEdge {
        from: name(from),
        label: label(from, by),
        to: name(to),
    };
    let title = "The life of a reservation".to_owned();
    let diagram = StateDiagram { title, states, moves: MOVES.map(edge).to_vec() };
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

/// A state and its place: the usual course downwards in the middle, changes and endings beside it.
fn node(state: State) -> StateNode {
    let (column, row) = match state {
        State::Requested => (1, 0),
        State::Rejected => (0, 1),
        State::Held => (1, 1),
        State::Cancelled => (2, 1),
        State::Committed => (1, 2),
        State::ChangeRequested => (2, 2),
        State::Active => (1, 3),
        State::Terminated => (2, 3),
        State::Completed => (1, 4),
    };
    let kind = match state {
        State::Requested => StateKind::Start,
        held if held.holds_capacity() => StateKind::HoldsCapacity,
        over if over.is_over() => StateKind::Over,
        _ => StateKind::Normal,
    };
    StateNode { name: name(state), kind, column, row }
}

fn name(state: State) -> String {
    state.word().replace('-', " ")
}

fn label(from: State, by: Move) -> String {
    match (from, by) {
        (State::Rejected, Move::Commit) => "late commit".to_owned(),
        (State::Committed | State::Active, Move::Commit) => "commit (more jobs)".to_owned(),
        _ => by.word().replace('-', " "),
    }
}

fn meaning(from: State, by: Move) -> &'static str {
    match (from, by) {
        (_, Move::Hold) => "there is room: it is held until its deadline",
        (_, Move::Reject) => "there is no room, or a rule of the site says no",
        (_, Move::Expire) => "its deadline passed before a commit came; its room is free again",
        (State::Rejected, Move::Commit) => {
            "late: after the deadline, where site policy allows it and the room is still free"
        }
        (State::Held, Move::Commit) => "its owner confirms in time; this cannot fail for lack of room",
        (_, Move::Commit) => "its owner attaches more jobs",
        (_, Move::RequestChange) => "its owner wants other terms",
        (_, Move::SettleChange) => {
            "answered: with the new terms, or with the old where the new cannot be had"
        }
        (_, Move::Begin) => "its start has come",
        (_, Move::Complete) => "its end has come, or its owner gave back the rest",
        (_, Move::Cancel) => "given up before its start, by its owner or because the resource failed",
        (_, Move::Terminate) => "given up while active",
    }
}
