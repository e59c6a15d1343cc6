//! The life of a reservation: one table says which moves are legal, and where they lead. It decides nothing but
//! legality; whether there is room or whether the time has come is for others. The picture in the documents is drawn from
//! the same table.
//!
//! A *hold* is a reservation in [`State::Held`]: promised until its deadline. It is resolved exactly once, by commit,
//! cancel or expiry.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where in its life a reservation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// Asked for; the batch system has not answered yet. Its room is taken meanwhile.
    Requested,
    /// Refused.
    Rejected,
    /// Held for its owner until its deadline.
    Held,
    /// A hold that was not committed in time.
    Expired,
    /// Confirmed: it will be honoured.
    Committed,
    /// Its owner wants other terms; the batch system has not answered yet. Old and new terms are taken meanwhile.
    ChangeRequested,
    /// Its start has come and its end has not.
    Active,
    /// Its end has come.
    Completed,
    /// Given up before its start.
    Cancelled,
    /// Given up while active.
    Terminated,
}

/// What can happen to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Move {
    /// A late commit has to ask the batch system again.
    Request,
    /// Its room is granted, or it is held longer.
    Hold,
    /// There is no room, or the batch system refuses.
    Reject,
    /// Its deadline passed without a commit.
    Expire,
    /// Its owner confirms, or attaches jobs to a confirmed one.
    Commit,
    /// Its owner wants other terms.
    RequestChange,
    /// Its owner wants it to last longer.
    Extend,
    /// A change is answered: with the new terms or the old.
    SettleChange,
    /// Its start has come.
    Begin,
    /// Its end has come, or its owner gave back the rest.
    Complete,
    /// It is given up before its start: by its owner, or because the resource failed.
    Cancel,
    /// It is given up while active.
    Terminate,
}

/// A move that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IllegalMove {
    /// From this state
    pub from: State,
    /// one cannot do this.
    pub attempted: Move,
}

/// Every legal move: from, by, to.
pub const MOVES: [(State, Move, State); 25] = [
    (State::Requested, Move::Hold, State::Held),
    (State::Requested, Move::Reject, State::Rejected),
    // A late commit that was not granted.
    (State::Requested, Move::Expire, State::Expired),
    (State::Requested, Move::Cancel, State::Cancelled),
    (State::Held, Move::Hold, State::Held),
    (State::Held, Move::Expire, State::Expired),
    (State::Held, Move::Commit, State::Committed),
    (State::Held, Move::Cancel, State::Cancelled),
    // Late, where the room is still free and the site's policy says so.
    (State::Expired, Move::Commit, State::Committed),
    (State::Expired, Move::Request, State::Requested),
    // For good: a commit that was on its way meanwhile comes too late for that.
    (State::Expired, Move::Cancel, State::Cancelled),
    (State::Committed, Move::RequestChange, State::ChangeRequested),
    (State::Committed, Move::Extend, State::ChangeRequested),
    (State::Committed, Move::Begin, State::Active),
    (State::Committed, Move::Cancel, State::Cancelled),
    (State::ChangeRequested, Move::SettleChange, State::Committed),
    (State::ChangeRequested, Move::Begin, State::Active),
    (State::ChangeRequested, Move::Complete, State::Completed),
    (State::ChangeRequested, Move::Cancel, State::Cancelled),
    (State::ChangeRequested, Move::Terminate, State::Terminated),
    (State::Active, Move::Extend, State::ChangeRequested),
    (State::Active, Move::Complete, State::Completed),
    (State::Active, Move::Terminate, State::Terminated),
    // More jobs, once it is confirmed.
    (State::Committed, Move::Commit, State::Committed),
    (State::Active, Move::Commit, State::Active),
];

impl State {
    /// Every state.
    pub const ALL: [State; 10] = [
        State::Requested,
        State::Rejected,
        State::Held,
        State::Expired,
        State::Committed,
        State::ChangeRequested,
        State::Active,
        State::Completed,
        State::Cancelled,
        State::Terminated,
    ];

    /// The state after a move: the only way from one to another.
    pub fn after(self, attempted: Move) -> Result<State, IllegalMove> {
        let found = MOVES.iter().find(|(from, by, _)| *from == self && *by == attempted);
        found.map(|(_, _, to)| *to).ok_or(IllegalMove { from: self, attempted })
    }

    /// Whether it takes capacity.
    pub fn holds_capacity(self) -> bool {
        !self.is_over()
    }

    /// Whether it waits for an answer of the batch system.
    pub fn is_waiting(self) -> bool {
        matches!(self, State::Requested | State::ChangeRequested)
    }

    /// Whether it was committed and not given up.
    pub fn is_standing(self) -> bool {
        matches!(self, State::Committed | State::ChangeRequested | State::Active | State::Completed)
    }

    /// Whether it is over. An expired hold may still be committed late, until it is cancelled.
    pub fn is_over(self) -> bool {
        use State::{Cancelled, Completed, Expired, Rejected, Terminated};
        matches!(self, Rejected | Expired | Completed | Cancelled | Terminated)
    }

    /// A word for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            State::Requested => "requested",
            State::Rejected => "rejected",
            State::Held => "held",
            State::Expired => "expired",
            State::Committed => "committed",
            State::ChangeRequested => "change-requested",
            State::Active => "active",
            State::Completed => "completed",
            State::Cancelled => "cancelled",
            State::Terminated => "terminated",
        }
    }
}

impl Move {
    /// Every move.
    pub const ALL: [Move; 12] = [
        Move::Request,
        Move::Hold,
        Move::Reject,
        Move::Expire,
        Move::Commit,
        Move::RequestChange,
        Move::Extend,
        Move::SettleChange,
        Move::Begin,
        Move::Complete,
        Move::Cancel,
        Move::Terminate,
    ];

    /// A word for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Move::Request => "request",
            Move::Hold => "hold",
            Move::Reject => "reject",
            Move::Expire => "expire",
            Move::Commit => "commit",
            Move::RequestChange => "request-change",
            Move::Extend => "extend",
            Move::SettleChange => "settle-change",
            Move::Begin => "begin",
            Move::Complete => "complete",
            Move::Cancel => "cancel",
            Move::Terminate => "terminate",
        }
    }
}

impl Move {
    /// What a reservation is after it.
    fn done(self) -> &'static str {
        match self {
            Move::Request => "requested again",
            Move::Hold => "held longer",
            Move::Reject => "rejected",
            Move::Expire => "expired",
            Move::Commit => "committed",
            Move::RequestChange | Move::SettleChange => "changed",
            Move::Extend => "extended",
            Move::Begin => "begun",
            // Time aside, a release is what completes one.
            Move::Complete => "released",
            Move::Cancel => "cancelled",
            Move::Terminate => "terminated",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reservation that is {} cannot be {}", self.from, self.attempted.done())?;
        match (self.from, self.attempted) {
            (State::Held, Move::RequestChange | Move::Extend | Move::Complete) => {
                f.write_str("; commit or cancel it first")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for IllegalMove {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_move_is_listed_twice_and_only_an_expired_hold_comes_back() {
        for (at, (from, by, _)) in MOVES.iter().enumerate() {
            assert!(!MOVES[..at].iter().any(|(other, step, _)| other == from && step == by));
        }
        let back = MOVES.iter().filter(|(from, _, to)| from.is_over() && !to.is_over());
        assert!(back.clone().all(|(from, _, _)| *from == State::Expired) && back.count() == 2);
    }

    #[test]
    fn illegal_moves_say_what_was_tried_from_where() {
        let error = State::Cancelled.after(Move::Commit).unwrap_err();
        assert_eq!(error, IllegalMove { from: State::Cancelled, attempted: Move::Commit });
        assert_eq!(error.to_string(), "a reservation that is cancelled cannot be committed");
        let held = State::Held.after(Move::Complete).unwrap_err().to_string();
        assert_eq!(held, "a reservation that is held cannot be released; commit or cancel it first");
        let legal = State::ALL.into_iter().flat_map(|from| Move::ALL.map(|by| from.after(by)));
        assert_eq!(legal.filter(Result::is_ok).count(), MOVES.len());
    }

    #[test]
    fn every_state_can_be_reached() {
        let mut reached = vec![State::Requested];
        let mut at = 0;
        while let Some(&state) = reached.get(at) {
            for next in Move::ALL.iter().filter_map(|&attempted| state.after(attempted).ok()) {
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
            at += 1;
        }
        reached.sort();
        assert_eq!(reached, State::ALL);
    }
}
