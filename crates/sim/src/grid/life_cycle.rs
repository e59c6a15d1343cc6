//! The life of a reservation: nine states, and one function that says which moves are legal (Section 2 and Figure 1 of
//! the paper). It decides nothing but legality; whether there is room or whether the time has come is for others.

use std::fmt;

/// Where in its life a reservation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Asked for, not yet answered.
    Requested,
    /// Refused for lack of room, or accepted and not committed in time.
    Rejected,
    /// Held for the user until its expiry.
    Accepted,
    /// Confirmed: the resource will honour it.
    Committed,
    /// The user wants other terms, not yet answered.
    ChangeRequested,
    /// Its start has come and its end has not.
    Active,
    /// Its end has come.
    Completed,
    /// Given up by the user before its start.
    Cancelled,
    /// Given up by the user while active.
    Terminated,
}

/// What can happen to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    /// The resource has room.
    Accept,
    /// The resource has none.
    Reject,
    /// Nobody committed it in time.
    Expire,
    /// The user confirms, or attaches jobs to what is confirmed.
    Commit,
    /// The user wants other terms.
    RequestChange,
    /// The resource has answered: with the new terms or the old.
    SettleChange,
    /// Its start has come.
    Begin,
    /// Its end has come.
    Complete,
    /// The user gives it up before its start.
    Cancel,
    /// The user gives it up while active.
    Terminate,
}

/// A move that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IllegalMove {
    /// From this state
    pub from: State,
    /// one cannot do this.
    pub attempted: Move,
}

impl State {
    /// Every state.
    pub const ALL: [State; 9] = [
        State::Requested,
        State::Rejected,
        State::Accepted,
        State::Committed,
        State::ChangeRequested,
        State::Active,
        State::Completed,
        State::Cancelled,
        State::Terminated,
    ];

    /// The state after a move: the only way from one to another.
    pub fn after(self, attempted: Move) -> Result<State, IllegalMove> {
        match (self, attempted) {
            (State::Requested, Move::Accept) => Ok(State::Accepted),
            (State::Requested, Move::Reject) | (State::Accepted, Move::Expire) => Ok(State::Rejected),
            (State::Accepted | State::Committed, Move::Commit)
            | (State::ChangeRequested, Move::SettleChange) => Ok(State::Committed),
            (State::Committed, Move::RequestChange) => Ok(State::ChangeRequested),
            (State::Committed, Move::Begin) => Ok(State::Active),
            (State::Active, Move::Complete) => Ok(State::Completed),
            (State::Accepted | State::Committed, Move::Cancel) => Ok(State::Cancelled),
            (State::Active, Move::Terminate) => Ok(State::Terminated),
            (from, attempted) => Err(IllegalMove { from, attempted }),
        }
    }

    /// Whether nothing can happen to it any more.
    pub fn is_final(self) -> bool {
        matches!(self, State::Rejected | State::Completed | State::Cancelled | State::Terminated)
    }
}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reservation that is {:?} cannot {:?}", self.from, self.attempted)
    }
}

impl std::error::Error for IllegalMove {}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVES: [Move; 10] = [
        Move::Accept,
        Move::Reject,
        Move::Expire,
        Move::Commit,
        Move::RequestChange,
        Move::SettleChange,
        Move::Begin,
        Move::Complete,
        Move::Cancel,
        Move::Terminate,
    ];

    #[test]
    fn twelve_moves_are_legal_and_final_states_have_none() {
        let legal = |state: State| MOVES.iter().filter(|&&attempted| state.after(attempted).is_ok()).count();
        assert_eq!(State::ALL.map(legal).iter().sum::<usize>(), 12);
        for state in State::ALL {
            assert_eq!(state.is_final(), legal(state) == 0, "{state:?}");
        }
    }

    #[test]
    fn a_reservation_that_was_not_committed_in_time_cannot_be_committed() {
        let expired =
            State::Requested.after(Move::Accept).and_then(|state| state.after(Move::Expire)).unwrap();
        let error = expired.after(Move::Commit).unwrap_err();
        assert_eq!(error, IllegalMove { from: State::Rejected, attempted: Move::Commit });
        assert_eq!(error.to_string(), "a reservation that is Rejected cannot Commit");
    }

    #[test]
    fn every_state_can_be_reached() {
        let mut reached = vec![State::Requested];
        let mut at = 0;
        while let Some(&state) = reached.get(at) {
            for next in MOVES.iter().filter_map(|&attempted| state.after(attempted).ok()) {
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
