//! The plainest book: every second of every reservation in an array, time in steps of a tenth of a second.
//! One resource, no jobs, no limits, no failures.

use bookahead_plan::placement;
use bookahead_protocol::State;
use std::collections::BTreeMap;

/// Nothing is asked for beyond this second.
pub(super) const SECONDS: usize = 400;
/// The step of time, in milliseconds.
pub(super) const STEP: i64 = 100;

pub(super) struct Plain {
    capacity: u32,
    longest_hold: i64,
    late_commits: bool,
    now: i64,
    items: BTreeMap<u128, Item>,
}

pub(super) struct Item {
    owner: usize,
    asked: (i64, i64, i64, u32),
    pub(super) state: State,
    /// What it was promised at each second.
    promised: [u32; SECONDS],
    /// What it takes at each second.
    takes: [u32; SECONDS],
    deadline: i64,
    /// Whether it was ever promised anything.
    real: bool,
}

pub(super) type Word = Result<State, &'static str>;

impl Item {
    fn begin(&self) -> i64 {
        self.promised.iter().position(|&taken| taken > 0).unwrap_or(0) as i64
    }

    fn end(&self) -> i64 {
        self.promised.iter().rposition(|&taken| taken > 0).map_or(0, |last| last as i64 + 1)
    }

    fn ends(&mut self, state: State, now: i64) {
        self.state = state;
        for second in rest(now)..SECONDS {
            self.takes[second] = 0;
            if matches!(state, State::Completed | State::Terminated) {
                self.promised[second] = 0;
            }
        }
    }
}

/// The first second that has not begun.
fn rest(now: i64) -> usize {
    usize::try_from((now + 999) / 1_000).unwrap().min(SECONDS)
}

impl Plain {
    pub(super) fn new(capacity: u32, longest_hold: i64, late_commits: bool) -> Plain {
        Plain { capacity, longest_hold, late_commits, now: 0, items: BTreeMap::new() }
    }

    pub(super) fn advance(&mut self, now: i64) {
        while self.now <= now {
            for item in self.items.values_mut().filter(|item| item.real) {
                if item.state == State::Held && item.deadline <= self.now {
                    item.ends(State::Rejected, self.now);
                }
                if item.state == State::Committed && item.begin() * 1_000 <= self.now {
                    item.state = State::Active;
                }
                if item.state == State::Active && item.end() * 1_000 <= self.now {
                    item.ends(State::Completed, self.now);
                }
            }
            self.now += STEP;
        }
        self.now = now;
    }

    pub(super) fn taken(&self, second: usize) -> u32 {
        self.items.values().map(|item| item.takes[second]).sum()
    }

    fn free(&self, second: usize) -> u32 {
        self.capacity - self.taken(second)
    }

    fn first_fit(&self, wanted: &placement::Request, from: i64) -> Option<i64> {
        let from = wanted.earliest_start.0.max(from);
        (from..=wanted.latest_start().0).find(|&start| {
            (start..start + wanted.duration.0).all(|second| self.free(second as usize) >= wanted.capacity.0)
        })
    }

    fn owned(&mut self, id: u128, owner: usize) -> Result<&mut Item, &'static str> {
        let item = self.items.get_mut(&id).ok_or("unknown")?;
        if item.owner == owner { Ok(item) } else { Err("not-owner") }
    }

    pub(super) fn reserve(
        &mut self,
        id: u128,
        owner: usize,
        wanted: &placement::Request,
        hold_for: i64,
        book: bool,
    ) -> Word {
        let asked = (wanted.earliest_start.0, wanted.latest_end.0, wanted.duration.0, wanted.capacity.0);
        if let Some(item) = self.items.get(&id) {
            if item.owner != owner || item.asked != asked {
                return Err("id-taken");
            }
            return if item.real { Ok(item.state) } else { Err("refused") };
        }
        let second = self.now / 1_000;
        let start = self.first_fit(wanted, if book { second } else { second + 1 });
        let mut item = Item {
            owner,
            asked,
            state: State::Rejected,
            promised: [0; SECONDS],
            takes: [0; SECONDS],
            deadline: self.now,
            real: start.is_some(),
        };
        if let Some(start) = start {
            item.promised[start as usize..(start + wanted.duration.0) as usize].fill(wanted.capacity.0);
            item.takes = item.promised;
            item.state = if book { State::Committed } else { State::Held };
            item.deadline = (self.now + hold_for.min(self.longest_hold)).min(start * 1_000);
        }
        let word = if item.real { Ok(item.state) } else { Err("refused") };
        self.items.insert(id, item);
        word
    }

    pub(super) fn extend(&mut self, id: u128, owner: usize, hold_for: i64) -> Word {
        let (now, longest) = (self.now, self.longest_hold);
        let item = self.owned(id, owner)?;
        match (item.real, item.state) {
            (false, _) => Err("refused"),
            (true, State::Held) => {
                let longer = (now + hold_for.min(longest)).min(item.begin() * 1_000);
                item.deadline = item.deadline.max(longer);
                Ok(State::Held)
            }
            (true, State::Rejected) => Err("expired"),
            (true, state @ (State::Committed | State::Active)) => Ok(state),
            _ => Err("illegal"),
        }
    }

    pub(super) fn commit(&mut self, id: u128, owner: usize) -> Word {
        let (now, late) = (self.now, self.late_commits);
        let item = self.owned(id, owner)?;
        match (item.real, item.state) {
            (false, _) => return Err("refused"),
            (true, State::Held) => item.state = State::Committed,
            (true, State::Committed | State::Active) => {}
            (true, State::Rejected) if late => return self.commit_late(id, now),
            (true, State::Rejected) => return Err("expired"),
            _ => return Err("illegal"),
        }
        Ok(self.items[&id].state)
    }

    fn commit_late(&mut self, id: u128, now: i64) -> Word {
        let mut promised = self.items[&id].promised;
        promised[..usize::try_from(now / 1_000).unwrap().min(SECONDS)].fill(0);
        let free = (0..SECONDS).all(|second| promised[second] <= self.free(second));
        if !free || promised.iter().all(|&taken| taken == 0) {
            return Err("expired");
        }
        let item = self.items.get_mut(&id).unwrap();
        (item.promised, item.takes, item.state) = (promised, promised, State::Committed);
        Ok(State::Committed)
    }

    pub(super) fn cancel(&mut self, id: u128, owner: usize) -> Word {
        let now = self.now;
        let item = self.owned(id, owner)?;
        match item.state {
            State::Held | State::Committed => item.ends(State::Cancelled, now),
            // Nothing can be committed late then.
            State::Rejected if item.real => item.state = State::Cancelled,
            State::Active => item.ends(State::Terminated, now),
            State::Completed => return Err("illegal"),
            _ => {}
        }
        Ok(item.state)
    }

    pub(super) fn release(&mut self, id: u128, owner: usize, from: i64, keep: u32) -> Word {
        let now = self.now;
        let item = self.owned(id, owner)?;
        if !item.real {
            return Err("refused");
        }
        if !item.state.holds_capacity() {
            return Err("illegal");
        }
        let mut left = item.promised;
        let from_second = rest(now).max(usize::try_from(from).unwrap());
        left[from_second..].iter_mut().for_each(|taken| *taken = keep.min(*taken));
        let over = keep == 0 && from <= (rest(now) as i64).max(item.begin());
        match item.state {
            State::Active if over => item.ends(State::Completed, now),
            _ if over => item.ends(State::Cancelled, now),
            _ => (item.promised, item.takes) = (left, left),
        }
        Ok(item.state)
    }

    pub(super) fn change(&mut self, id: u128, owner: usize, wanted: &placement::Request) -> Word {
        let second = self.now / 1_000;
        let item = self.owned(id, owner)?;
        if !item.real {
            return Err("refused");
        }
        if item.state != State::Committed {
            return Err("illegal");
        }
        let old = std::mem::replace(&mut item.takes, [0; SECONDS]);
        let start = self.first_fit(wanted, second);
        let item = self.items.get_mut(&id).unwrap();
        let Some(start) = start else {
            item.takes = old;
            return Err("refused");
        };
        item.promised = [0; SECONDS];
        item.promised[start as usize..(start + wanted.duration.0) as usize].fill(wanted.capacity.0);
        item.takes = item.promised;
        Ok(State::Committed)
    }
}
