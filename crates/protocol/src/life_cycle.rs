//! The life cycle of a reservation: one table of legal transitions. It decides only legality, not whether
//! there is room or whether the time has come. The diagram in the docs is drawn from the same table.
//!
//! A *hold* is a reservation in [`State::Held`]: promised until its deadline. It ends exactly once, by
//! commit, cancel or expiry.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// Waiting for the batch system. Its capacity is taken meanwhile.
    Requested,
    /// Refused.
    Rejected,
    /// Held for its owner until its deadline.
    Held,
    /// A hold that was not committed in time.
    Expired,
    /// Confirmed by its owner, not started yet.
    Committed,
    /// A change waits for the batch system. Old and new terms are both taken meanwhile.
    ChangeRequested,
    /// Started, not ended.
    Active,
    /// Its end was reached.
    Completed,
    /// Given up before its start.
    Cancelled,
    /// Given up while active.
    Terminated,
}

/// A transition of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Move {
    /// A late commit asks the batch system again.
    Request,
    /// Its capacity is granted, or its hold is prolonged.
    Hold,
    /// There is no room, or the batch system refuses.
    Reject,
    /// Its deadline passes without a commit.
    Expire,
    /// Its owner confirms it, or attaches jobs to it.
    Commit,
    /// Its owner requests new terms.
    RequestChange,
    /// Its owner requests a later end.
    Extend,
    /// A change ends, with the new terms or the old.
    SettleChange,
    /// Its start is reached.
    Begin,
    /// Its end is reached, or its owner releases the rest.
    Complete,
    /// It is given up before its start, by its owner or because the resource failed.
    Cancel,
    /// It is given up while active.
    Terminate,
}

/// A transition that the life cycle does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IllegalMove {
    /// The current state.
    pub from: State,
    /// The transition that is not possible.
    pub attempted: Move,
}

/// Every legal transition: from, by, to.
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
    // A late commit, if the capacity is still free and the site's policy allows it.
    (State::Expired, Move::Commit, State::Committed),
    (State::Expired, Move::Request, State::Requested),
    // Final: a commit that arrives after the cancel is refused.
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
    // Attaching jobs to a committed reservation.
    (State::Committed, Move::Commit, State::Committed),
    (State::Active, Move::Commit, State::Active),
];

impl State {
    /// Every state, in the order of declaration.
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

    /// The state after a transition. The only way to change a state.
    pub fn after(self, attempted: Move) -> Result<State, IllegalMove> {
        let found = MOVES.iter().find(|(from, by, _)| *from == self && *by == attempted);
        found.map(|(_, _, to)| *to).ok_or(IllegalMove { from: self, attempted })
    }

    /// Whether it takes capacity. Holds and pending requests do.
    pub fn holds_capacity(self) -> bool {
        !self.is_over()
    }

    /// Whether it waits for the batch system.
    pub fn is_waiting(self) -> bool {
        matches!(self, State::Requested | State::ChangeRequested)
    }

    /// Whether it was committed and not given up.
    pub fn is_standing(self) -> bool {
        matches!(self, State::Committed | State::ChangeRequested | State::Active | State::Completed)
    }

    /// Whether it is over. An expired hold counts as over, although it can still be committed late.
    pub fn is_over(self) -> bool {
        use State::{Cancelled, Completed, Expired, Rejected, Terminated};
        matches!(self, Rejected | Expired | Completed | Cancelled | Terminated)
    }

    /// Stable name, used in the API and in output.
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
    /// Every transition, in the order of declaration.
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

    /// Stable name, used in the API and in output.
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
    /// The participle for error messages.
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
            // A reservation completes by time or by a release, and only the release can fail.
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

/// Why a reservation was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Because {
    /// Its owner cancelled it.
    #[default]
    Owner,
    /// An operator of the site cancelled it.
    Operator,
    /// It was a hold, and its capacity failed.
    Lost,
}

impl Because {
    /// Stable name, used in the API and in output.
    pub fn word(self) -> &'static str {
        match self {
            Because::Owner => "owner",
            Because::Operator => "operator",
            Because::Lost => "lost",
        }
    }
}

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
