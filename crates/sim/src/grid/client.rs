//! A simulated client: wants reservations, repeats its calls until they are answered, and commits, cancels or forgets
//! what it was promised, as it was told to. It never crashes: what it was told is what promises are held against.

use super::message::Message;
use bookahead_protocol::ids::Identities;
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, Key, Millis, Moment, Name, Request, Reservation, ReservationId, State,
};
use std::collections::BTreeMap;

/// After so long without an answer a call is repeated, each time after twice as long.
const PATIENCE: Millis = Millis(1_500);
/// No wait is longer.
const LONGEST_PATIENCE: Millis = Millis(20_000);

/// What a client wants, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// When it asks.
    pub at: Moment,
    /// What it asks for.
    pub request: Request,
    /// How long it wants what it gets to be held.
    pub hold_for: Millis,
    /// What it does then.
    pub intent: Intent,
}

/// What a client does with what it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Wants it committed at once, in one call.
    Book,
    /// Commits after a while.
    Commit(Millis),
    /// Asks for more time, then commits.
    ExtendAndCommit(Millis),
    /// Cancels after a while.
    Cancel(Millis),
    /// Commits after a while, and cancels after another.
    CommitAndCancel(Millis, Millis),
    /// Never comes back.
    Forget,
}

/// What a client knows of a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The id that it gave to it.
    pub id: ReservationId,
    /// What it wanted.
    pub wish: Wish,
    /// Every answer, when it came and to what.
    pub answers: Vec<(Moment, &'static str, Answer)>,
    /// When it first asked.
    pub asked: Moment,
    /// Whether it ever sent a cancel.
    pub cancelled: bool,
}

impl Record {
    /// Whether it was told that it is committed.
    pub fn was_told_committed(&self) -> bool {
        self.last_reservation().is_some_and(|told| matches!(told.state, State::Committed | State::Active))
    }

    fn last_reservation(&self) -> Option<&Reservation> {
        self.answers.iter().rev().find_map(|(_, _, answer)| match answer {
            Answer::Reservation(reservation) => Some(reservation),
            _ => None,
        })
    }

    /// Whether it was told that it cannot have it, or not any more.
    pub fn was_told_no(&self) -> bool {
        matches!(self.last(), Some(Answer::Problem(_)))
    }

    /// The last answer.
    pub fn last(&self) -> Option<&Answer> {
        self.answers.last().map(|(_, _, answer)| answer)
    }
}

#[derive(Debug, Clone)]
struct Pending {
    envelope: Envelope,
    due: Moment,
    wait: Millis,
}

/// A client.
pub struct Client {
    /// Whom it asks.
    asks: Name,
    caller: Caller,
    identities: Identities,
    /// What it will want, the next last.
    wishes: Vec<Wish>,
    records: Vec<Record>,
    pending: BTreeMap<Key, (usize, Pending)>,
    /// What it will do, with what.
    agenda: Vec<(Moment, usize, Step)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Extend,
    Commit,
    Cancel,
}

impl Client {
    /// One that asks `asks` for its wishes; `maker` is the number in front of its identities.
    pub fn new(asks: Name, user: &str, maker: u64, mut wishes: Vec<Wish>) -> Client {
        wishes.sort_by_key(|wish| std::cmp::Reverse(wish.at));
        Client {
            asks,
            caller: Caller { user: user.into(), roles: Vec::new() },
            identities: Identities::new(maker, 0),
            wishes,
            records: Vec::new(),
            pending: BTreeMap::new(),
            agenda: Vec::new(),
        }
    }

    /// Whom it asks.
    pub fn asks(&self) -> &Name {
        &self.asks
    }

    /// What became of its wishes, in the order in which it asked.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Whether it wants nothing more and waits for nothing.
    pub fn is_done(&self) -> bool {
        self.wishes.is_empty() && self.pending.is_empty() && self.agenda.is_empty()
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        let wish = self.wishes.last().map(|wish| wish.at);
        let pending = self.pending.values().map(|(_, pending)| pending.due).min();
        let agenda = self.agenda.iter().map(|(at, _, _)| *at).min();
        [wish, pending, agenda].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, now: Moment) -> Vec<(Name, Message)> {
        let mut send = Vec::new();
        while let Some(wish) = self.wishes.pop_if(|wish| wish.at <= now) {
            let id = ReservationId(self.identities.make());
            let call = Call::Reserve {
                id,
                request: wish.request.clone(),
                hold_for: wish.hold_for,
                book: wish.intent == Intent::Book,
            };
            self.records.push(Record { id, wish, answers: Vec::new(), asked: now, cancelled: false });
            let record = self.records.len() - 1;
            send.push(self.call(now, record, call));
        }
        let due: Vec<_> = self.agenda.extract_if(.., |(at, _, _)| *at <= now).collect();
        for (_, record, step) in due {
            let Record { id, wish, cancelled, .. } = &mut self.records[record];
            let call = match step {
                Step::Extend => Call::Hold { id: *id, hold_for: wish.hold_for },
                Step::Commit => Call::Commit { id: *id, jobs: Vec::new() },
                Step::Cancel => {
                    *cancelled = true;
                    Call::Cancel { id: *id }
                }
            };
            send.push(self.call(now, record, call));
        }
        for (_, pending) in self.pending.values_mut().filter(|(_, pending)| pending.due <= now) {
            pending.wait = Millis(pending.wait.0.saturating_mul(2).min(LONGEST_PATIENCE.0));
            pending.due = now + pending.wait;
            send.push((self.asks.clone(), Message::Call(pending.envelope.clone())));
        }
        send
    }

    fn call(&mut self, now: Moment, record: usize, call: Call) -> (Name, Message) {
        let envelope = Envelope { key: Key(self.identities.make()), caller: self.caller.clone(), call };
        let pending = Pending { envelope: envelope.clone(), due: now + PATIENCE, wait: PATIENCE };
        self.pending.insert(envelope.key, (record, pending));
        (self.asks.clone(), Message::Call(envelope))
    }

    pub(super) fn answer(&mut self, now: Moment, key: Key, answer: &Answer) {
        let Some((at, pending)) = self.pending.remove(&key) else { return };
        let record = &mut self.records[at];
        let call = &pending.envelope.call;
        record.answers.push((now, call.word(), answer.clone()));
        let Answer::Reservation(reservation) = answer else { return };
        let next = match (call, reservation.state, record.wish.intent) {
            (Call::Reserve { .. }, State::Held, Intent::Commit(wait) | Intent::CommitAndCancel(wait, _)) => {
                (wait, Step::Commit)
            }
            (Call::Reserve { .. }, State::Held, Intent::ExtendAndCommit(wait)) => (wait, Step::Extend),
            (Call::Hold { .. }, State::Held, Intent::ExtendAndCommit(wait)) => (wait, Step::Commit),
            (Call::Reserve { .. }, State::Held, Intent::Cancel(wait)) => (wait, Step::Cancel),
            (Call::Commit { .. }, State::Committed, Intent::CommitAndCancel(_, wait)) => (wait, Step::Cancel),
            _ => return,
        };
        self.agenda.push((now + next.0, at, next.1));
    }
}
