//! The simplest ledger: every second of every reservation in an array, time in steps of 100 ms. One resource,
//! no jobs, no limits, no failures.

use bookahead_plan::placement;
use bookahead_protocol::State;
use std::collections::BTreeMap;

/// The last second of the model; no request goes beyond it.
pub(super) const SECONDS: usize = 400;
/// The time step in milliseconds.
pub(super) const STEP: i64 = 100;

/// Capacity at each second.
type Terms = [u32; SECONDS];

pub(super) struct Plain {
    capacity: u32,
    longest_hold: i64,
    late_commits: bool,
    /// Time limit for the batch system. None if it is not asked.
    consent: Option<i64>,
    now: i64,
    items: BTreeMap<u128, Item>,
    /// Refused requests, by id and owner.
    denied: BTreeMap<(u128, usize), Asked>,
    /// Capacity that late refusals had taken until then.
    taken_before: Terms,
    /// Final answers to calls that waited, by key.
    pub(super) told: BTreeMap<u128, Word>,
}

type Asked = (i64, i64, i64, u32);

struct Item {
    owner: usize,
    asked: Asked,
    state: State,
    /// Promised capacity at each second.
    promised: Terms,
    /// Capacity taken at each second.
    takes: Terms,
    /// When the hold started.
    since: i64,
    deadline: i64,
    waiting: Option<Wait>,
    /// The last change that was prepared or given up, and whether it was accepted.
    last_change: Option<(u128, bool)>,
}

struct Wait {
    until: i64,
    /// Key of the call.
    key: u128,
    then: Then,
}

enum Then {
    Hold(i64),
    Book,
    CommitLate,
    Change { to: Box<Terms>, begun: bool, prepares: Option<Prepares> },
}

/// A two-phase change, which waits for its owner once it is granted.
#[derive(Clone, Copy)]
struct Prepares {
    change: u128,
    hold_for: i64,
    ready: bool,
}

/// New terms: a request, or a later end.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    Request(&'a placement::Request),
    Until(i64),
}

/// `Err("waits")` if the answer comes later.
pub(super) type Word = Result<State, &'static str>;

impl Item {
    fn begin(&self) -> i64 {
        self.promised.iter().position(|&taken| taken > 0).unwrap_or(0) as i64
    }

    fn end(&self) -> i64 {
        end(&self.promised)
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

    fn prepares(&self) -> Option<Prepares> {
        match self.waiting.as_ref()?.then {
            Then::Change { prepares, .. } => prepares,
            _ => None,
        }
    }

    fn is_ready(&self) -> bool {
        self.prepares().is_some_and(|prepares| prepares.ready)
    }

    /// Whether a call waits for an answer.
    fn stop_waiting(&mut self, accepted: bool) -> bool {
        let ready = self.is_ready();
        self.last_change = self.prepares().map(|prepares| (prepares.change, accepted)).or(self.last_change);
        self.waiting.take().is_some() && !ready
    }

    /// From now on it takes its promised capacity.
    fn takes_its_terms(&mut self, state: State, now: i64) {
        self.state = state;
        self.takes[rest(now)..].copy_from_slice(&self.promised[rest(now)..]);
    }
}

fn end(terms: &Terms) -> i64 {
    terms.iter().rposition(|&taken| taken > 0).map_or(0, |last| last as i64 + 1)
}

/// The first second that has not begun.
fn rest(now: i64) -> usize {
    usize::try_from((now + 999) / 1_000).unwrap().min(SECONDS)
}

impl Plain {
    pub(super) fn new(capacity: u32, longest_hold: i64, late_commits: bool, consent: Option<i64>) -> Plain {
        let (items, denied, told) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let taken_before = [0; SECONDS];
        Plain { capacity, longest_hold, late_commits, consent, now: 0, items, denied, taken_before, told }
    }

    /// State of each reservation that was promised something, or may be.
    pub(super) fn states(&self) -> BTreeMap<u128, State> {
        self.items.iter().map(|(id, item)| (*id, item.state)).collect()
    }

    pub(super) fn advance(&mut self, now: i64) {
        while self.now <= now {
            let ids: Vec<u128> = self.items.keys().copied().collect();
            ids.into_iter().for_each(|id| self.pass(id));
            self.now += STEP;
        }
        self.now = now;
    }

    /// Applies the effect of this moment to a reservation.
    fn pass(&mut self, id: u128) {
        let now = self.now;
        let item = self.items.get_mut(&id).unwrap();
        match item.state {
            State::Held if item.deadline <= now => item.ends(State::Expired, now),
            State::Committed if item.begin() * 1_000 <= now => item.state = State::Active,
            State::Requested | State::ChangeRequested => self.pass_waiting(id),
            _ => {}
        }
        if let Some(item) = self.items.get_mut(&id)
            && item.state == State::Active
            && item.end() * 1_000 <= now
        {
            item.ends(State::Completed, now);
        }
    }

    fn pass_waiting(&mut self, id: u128) {
        let now = self.now;
        let item = self.items.get_mut(&id).unwrap();
        let Wait { until, ref then, key } = *item.waiting.as_ref().unwrap();
        match *then {
            // It completes in the same moment.
            Then::Change { begun: true, .. } if item.end() * 1_000 <= now => item.state = State::Active,
            Then::Change { begun: false, .. } if item.begin() * 1_000 <= now => {
                item.takes_its_terms(State::Active, now);
            }
            _ if until <= now => return self.refuse(id),
            _ => return,
        }
        if item.stop_waiting(false) {
            self.told.insert(key, Err("refused"));
        }
    }

    /// The batch system grants.
    pub(super) fn grant(&mut self, id: u128) {
        let (now, longest) = (self.now, self.longest_hold);
        let Some(item) = self.items.get_mut(&id) else { return };
        if item.is_ready() {
            return;
        }
        if let Some(Wait { until, key, then: Then::Change { to, begun, prepares: Some(prepares) } }) =
            &mut item.waiting
        {
            let key = *key;
            let first = |terms: &Terms| terms.iter().position(|&taken| taken > 0).unwrap_or(0) as i64;
            let latest = |terms: &Terms| if *begun { end(terms) } else { first(terms) };
            let latest = latest(to).min(latest(&item.promised)) * 1_000;
            *until = (now + prepares.hold_for.min(longest)).min(latest);
            prepares.ready = true;
            self.told.insert(key, Ok(State::ChangeRequested));
            return;
        }
        let Some(wait) = item.waiting.take() else { return };
        match wait.then {
            Then::Hold(hold_for) => {
                item.state = State::Held;
                item.since = now;
                item.deadline = (now + hold_for.min(longest)).min(item.begin() * 1_000);
            }
            Then::Book | Then::CommitLate => item.state = State::Committed,
            Then::Change { to, begun, .. } => {
                item.promised = *to;
                item.takes_its_terms(if begun { State::Active } else { State::Committed }, now);
            }
        }
        self.told.insert(wait.key, Ok(item.state));
    }

    /// The batch system refuses.
    pub(super) fn refuse_by_batch(&mut self, id: u128) {
        if !self.items.get(&id).is_some_and(Item::is_ready) {
            self.refuse(id);
        }
    }

    /// The batch system refuses, or an answer did not come in time.
    fn refuse(&mut self, id: u128) {
        let now = self.now;
        let Some(item) = self.items.get_mut(&id) else { return };
        let (ready, prepares) = (item.is_ready(), item.prepares());
        item.last_change = prepares.map(|prepares| (prepares.change, false)).or(item.last_change);
        let Some(wait) = item.waiting.take() else { return };
        match wait.then {
            Then::Hold(_) | Then::Book => {
                self.denied.insert((id, item.owner), item.asked);
                for second in 0..rest(now) {
                    self.taken_before[second] += item.takes[second];
                }
                self.items.remove(&id);
            }
            Then::CommitLate => item.ends(State::Expired, now),
            Then::Change { begun, .. } => {
                item.takes_its_terms(if begun { State::Active } else { State::Committed }, now);
            }
        }
        if !ready {
            self.told.insert(wait.key, Err("refused"));
        }
    }

    pub(super) fn taken(&self, second: usize) -> u32 {
        self.taken_before[second] + self.items.values().map(|item| item.takes[second]).sum::<u32>()
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
        let denied = self.denied.contains_key(&(id, owner));
        let item = self.items.get_mut(&id).ok_or(if denied { "refused" } else { "unknown" })?;
        if item.owner == owner { Ok(item) } else { Err("not-owner") }
    }

    pub(super) fn reserve(
        &mut self,
        key: u128,
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
            return match &item.waiting {
                Some(Wait { then: Then::CommitLate, .. }) => Err("busy"),
                Some(Wait { then: Then::Hold(_) | Then::Book, .. }) => Err("waits"),
                _ => Ok(item.state),
            };
        }
        if let Some(before) = self.denied.get(&(id, owner)) {
            return Err(if *before == asked { "refused" } else { "id-taken" });
        }
        let second = self.now / 1_000;
        let start = self.first_fit(wanted, if book { second } else { second + 1 });
        let Some(start) = start else {
            self.denied.insert((id, owner), asked);
            return Err("refused");
        };
        let mut item = Item {
            owner,
            asked,
            state: State::Requested,
            promised: [0; SECONDS],
            takes: [0; SECONDS],
            since: self.now,
            deadline: self.now,
            waiting: None,
            last_change: None,
        };
        let end = start + wanted.duration.0;
        item.promised[start as usize..end as usize].fill(wanted.capacity.0);
        item.takes = item.promised;
        let until = self.consent.map_or(self.now, |limit| self.now + limit);
        let until = until.min(if book { end } else { start } * 1_000);
        let then = if book { Then::Book } else { Then::Hold(hold_for) };
        item.waiting = Some(Wait { until, key, then });
        self.items.insert(id, item);
        self.at_once(id, Err("waits"))
    }

    /// Without a batch system, pending steps are granted at once.
    fn at_once(&mut self, id: u128, word: Word) -> Word {
        if word == Err("waits") && self.consent.is_none() {
            self.grant(id);
            return Ok(self.items[&id].state);
        }
        word
    }

    pub(super) fn hold(&mut self, id: u128, owner: usize, hold_for: i64) -> Word {
        let (now, longest) = (self.now, self.longest_hold);
        let item = self.owned(id, owner)?;
        match item.state {
            State::Held => {
                let longer = (now + hold_for).min(item.since + longest).min(item.begin() * 1_000);
                item.deadline = item.deadline.max(longer);
                Ok(State::Held)
            }
            State::Expired => Err("expired"),
            State::Requested => Err("busy"),
            state @ (State::Committed | State::ChangeRequested | State::Active) => Ok(state),
            _ => Err("illegal"),
        }
    }

    pub(super) fn commit(&mut self, key: u128, id: u128, owner: usize) -> Word {
        let late = self.late_commits;
        let item = self.owned(id, owner)?;
        match (item.state, &item.waiting) {
            (_, Some(Wait { then: Then::CommitLate, .. })) => return Err("waits"),
            (_, Some(_)) => return Err("busy"),
            (State::Held, _) => item.state = State::Committed,
            (State::Committed | State::Active, _) => {}
            (State::Expired, _) if late => return self.commit_late(key, id),
            (State::Expired, _) => return Err("expired"),
            _ => return Err("illegal"),
        }
        Ok(self.items[&id].state)
    }

    fn commit_late(&mut self, key: u128, id: u128) -> Word {
        let mut promised = self.items[&id].promised;
        promised[..usize::try_from(self.now / 1_000).unwrap().min(SECONDS)].fill(0);
        let free = (0..SECONDS).all(|second| promised[second] <= self.free(second));
        if !free || promised.iter().all(|&taken| taken == 0) {
            return Err("expired");
        }
        let until = (self.now + self.consent.unwrap_or(0)).min(end(&promised) * 1_000);
        let item = self.items.get_mut(&id).unwrap();
        (item.promised, item.takes, item.state) = (promised, promised, State::Requested);
        item.waiting = Some(Wait { until, key, then: Then::CommitLate });
        self.at_once(id, Err("waits"))
    }

    pub(super) fn cancel(&mut self, id: u128, owner: usize) -> Word {
        let now = self.now;
        if !self.items.contains_key(&id) && self.denied.contains_key(&(id, owner)) {
            return Ok(State::Rejected);
        }
        let item = self.owned(id, owner)?;
        let begun = matches!(item.waiting, Some(Wait { then: Then::Change { begun: true, .. }, .. }));
        match item.state {
            State::Active => item.ends(State::Terminated, now),
            State::ChangeRequested if begun => item.ends(State::Terminated, now),
            State::Requested | State::Held | State::Committed | State::ChangeRequested => {
                item.ends(State::Cancelled, now);
            }
            // Then nothing can be committed late.
            State::Expired => item.state = State::Cancelled,
            State::Completed => return Err("illegal"),
            _ => {}
        }
        let (state, key) = (item.state, item.waiting.as_ref().map(|wait| wait.key));
        if let (true, Some(key)) = (item.stop_waiting(false), key) {
            self.told.insert(key, Ok(state));
        }
        Ok(state)
    }

    pub(super) fn release(&mut self, id: u128, owner: usize, from: i64, keep: u32) -> Word {
        let now = self.now;
        let item = self.owned(id, owner)?;
        if !item.state.holds_capacity() {
            return Err("illegal");
        }
        if item.waiting.is_some() {
            return Err("busy");
        }
        if from >= item.end() {
            return Err("not-released");
        }
        let mut left = item.promised;
        let from_second = rest(now).max(usize::try_from(from).unwrap());
        let most = left[from_second..].iter().max().copied().unwrap_or(0);
        if most > 0 && keep > most {
            return Err("not-released");
        }
        left[from_second..].iter_mut().for_each(|taken| *taken = keep.min(*taken));
        let over = keep == 0 && from <= (rest(now) as i64).max(item.begin());
        match item.state {
            State::Active if over => item.ends(State::Completed, now),
            _ if over => item.ends(State::Cancelled, now),
            _ => (item.promised, item.takes) = (left, left),
        }
        Ok(item.state)
    }

    pub(super) fn change(&mut self, key: u128, id: u128, owner: usize, wanted: Wanted<'_>) -> Word {
        let to = self.other_terms(id, owner, wanted)?;
        let item = self.items.get_mut(&id).unwrap();
        if item.state == State::Active && end(&to) <= item.end() {
            (item.promised, item.takes) = (to, to);
            return Ok(item.state);
        }
        if to == item.promised && matches!(wanted, Wanted::Until(_)) {
            return Ok(item.state);
        }
        self.want(key, id, to, None);
        self.at_once(id, Err("waits"))
    }

    pub(super) fn prepare(
        &mut self,
        key: u128,
        id: u128,
        owner: usize,
        wanted: Wanted<'_>,
        (change, hold_for): (u128, i64),
    ) -> Word {
        let item = self.owned(id, owner)?;
        match item.prepares().filter(|prepares| prepares.change == change) {
            Some(prepares) if prepares.ready => return Ok(item.state),
            Some(_) => return Err("waits"),
            None => {}
        }
        match item.last_change.filter(|(last, _)| *last == change) {
            Some((_, true)) => return Ok(item.state),
            Some((_, false)) => return Err("not-prepared"),
            None => {}
        }
        let to = self.other_terms(id, owner, wanted)?;
        let item = &self.items[&id];
        let more = to.iter().zip(item.promised).any(|(new, old)| *new > old);
        self.want(key, id, to, Some(Prepares { change, hold_for, ready: false }));
        if self.consent.is_none() || !more {
            self.grant(id);
            return Ok(State::ChangeRequested);
        }
        Err("waits")
    }

    pub(super) fn finish(&mut self, id: u128, owner: usize, change: u128, accept: bool) -> Word {
        let now = self.now;
        let item = self.owned(id, owner)?;
        let Some(prepares) = item.prepares().filter(|prepares| prepares.change == change) else {
            let over = !item.state.holds_capacity();
            return match item.last_change.filter(|(last, _)| *last == change) {
                Some((_, accepted)) if accepted == accept => Ok(item.state),
                _ if accept && over => Err("illegal"),
                Some(_) => Err("not-prepared"),
                None if accept => Err("not-prepared"),
                None => {
                    item.last_change = if over { item.last_change } else { Some((change, false)) };
                    Ok(item.state)
                }
            };
        };
        if accept && !prepares.ready {
            return Err("busy");
        }
        let Some(Wait { key, then: Then::Change { to, begun, .. }, .. }) = item.waiting.take() else {
            unreachable!()
        };
        item.last_change = Some((change, accept));
        if accept {
            item.promised = *to;
        }
        item.takes_its_terms(if begun { State::Active } else { State::Committed }, now);
        let state = item.state;
        if !prepares.ready {
            self.told.insert(key, Err("not-prepared"));
        }
        Ok(state)
    }

    /// The requested terms, if there is room for them.
    fn other_terms(&mut self, id: u128, owner: usize, wanted: Wanted<'_>) -> Result<Terms, &'static str> {
        let from = rest(self.now) as i64;
        let item = self.owned(id, owner)?;
        if item.waiting.is_some() {
            return Err("busy");
        }
        match (wanted, item.state) {
            (Wanted::Until(end), State::Committed | State::Active) => {
                let terms = item.promised;
                self.until(id, terms, end)
            }
            (Wanted::Request(wanted), State::Active) => self.of_active(id, wanted),
            (Wanted::Request(wanted), State::Committed) => {
                let old = std::mem::replace(&mut item.takes, [0; SECONDS]);
                let start = self.first_fit(wanted, from);
                self.items.get_mut(&id).unwrap().takes = old;
                let start = start.ok_or("refused")?;
                let mut to = [0; SECONDS];
                to[start as usize..(start + wanted.duration.0) as usize].fill(wanted.capacity.0);
                Ok(to)
            }
            _ => Err("illegal"),
        }
    }

    fn of_active(&mut self, id: u128, wanted: &placement::Request) -> Result<Terms, &'static str> {
        let from = rest(self.now);
        let item = self.items.get_mut(&id).unwrap();
        let until = item.begin() + wanted.duration.0;
        let most = item.promised[from..].iter().max().copied().unwrap_or(0);
        let begins = wanted.earliest_start.0 <= item.begin() && until <= wanted.latest_end.0;
        if !begins || until <= from as i64 || most > 0 && wanted.capacity.0 > most {
            return Err("unsupported");
        }
        let mut to = item.promised;
        to[from..].iter_mut().for_each(|taken| *taken = wanted.capacity.0.min(*taken));
        if until <= item.end() {
            to[until as usize..].fill(0);
            return Ok(to);
        }
        self.until(id, to, until)
    }

    /// Terms with a later end, and the capacity at the current end.
    fn until(&self, id: u128, mut to: Terms, until: i64) -> Result<Terms, &'static str> {
        let end = self.items[&id].end();
        if until <= end {
            return Ok(to);
        }
        let capacity = to[end as usize - 1];
        to[end as usize..until as usize].fill(capacity);
        if (end..until).any(|second| self.free(second as usize) < capacity) {
            return Err("refused");
        }
        Ok(to)
    }

    fn want(&mut self, key: u128, id: u128, to: Terms, prepares: Option<Prepares>) {
        let until = (self.now + self.consent.unwrap_or(0)).min(end(&to) * 1_000);
        let item = self.items.get_mut(&id).unwrap();
        let begun = item.state == State::Active;
        for (takes, wanted) in item.takes.iter_mut().zip(to) {
            *takes = wanted.max(*takes);
        }
        item.state = State::ChangeRequested;
        item.waiting = Some(Wait { until, key, then: Then::Change { to: Box::new(to), begun, prepares } });
    }
}
