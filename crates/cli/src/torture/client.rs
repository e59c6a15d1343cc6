//! One client of the grid. It holds, books, commits, changes, extends and cancels reservations at sites and brokers,
//! chosen by its seed, and repeats every call with the same key until there is an answer. An acknowledged answer
//! becomes a [`Promise`], an answer that breaks a rule a [`Violation`].

use super::checker::{Expected, Promise, Rule, Term, Violation};
use super::counts::Counts;
use super::daemons::{CAPACITY, Daemon, Role, terms};
use super::now_ms;
use crate::chance::Chance;
use anyhow::Result;
use bookahead_client::{Client, ClientError};
use bookahead_plan::placement;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{
    Answer, Call, Caller, Constraint, Envelope, Key, Millis, Part, Request, Reservation, ReservationId, State,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Live reservations of one client. With the default of eight clients they about fill the default of three sites, so
/// that many requests compete.
const MOST_LIVE: usize = 12;
/// Answered calls that are kept to be repeated later. Few, so that none is older than the retention of the sites.
const MOST_RECENT: usize = 16;
/// How long to repeat a call without an answer: no daemon is down for longer than a second or two.
const PATIENCE: Duration = Duration::from_secs(60);
/// Repetitions of a temporarily refused call before the refusal is accepted.
const MOST_REFUSALS: u32 = 3;
/// Duration of holds that the client will commit.
const LONG_HOLD: Millis = Millis::seconds(120);
/// Duration of holds that the client leaves to expire.
const SHORT_HOLD: Millis = Millis::seconds(5);
/// A hold with less time left is not committed any more: with restarts in between the commit might be too late.
const ENOUGH_MS: i64 = 30_000;
/// Range of start times, in hours: short enough that requests compete.
const HOURS: u32 = 24;

#[derive(Clone)]
pub(super) struct Party {
    name: String,
    role: Role,
    client: Client,
}

impl Party {
    pub(super) fn new(daemon: &Daemon) -> Result<Party, ClientError> {
        Ok(Party { name: daemon.name.clone(), role: daemon.role, client: daemon.client("client")? })
    }
}

/// An answered call that may be repeated.
struct Answered {
    party: usize,
    envelope: Envelope,
    answer: Answer,
}

pub(super) struct Worker {
    number: u32,
    chance: Chance,
    parties: Vec<Party>,
    sites: u32,
    /// The first second that can be reserved.
    begin: Time,
    /// Reservations made so far. The number is part of the owner's name, which must be unique.
    made: u64,
    live: Vec<(usize, Promise)>,
    /// Refused, cancelled and expired ones since the last check.
    over: Vec<Promise>,
    recent: VecDeque<Answered>,
    pub(super) counts: Counts,
    pub(super) violations: Vec<Violation>,
}

impl Worker {
    pub(super) fn new(number: u32, seed: u64, parties: Vec<Party>, begin: Time) -> Worker {
        // From 1: the first client must not get the seed itself, which the choice of kills uses.
        let chance = Chance(seed ^ u64::from(number + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let sites = parties.iter().filter(|party| party.role == Role::Site).count();
        let sites = u32::try_from(sites).unwrap_or(u32::MAX);
        Worker {
            number,
            chance,
            parties,
            sites,
            begin,
            made: 0,
            live: Vec::new(),
            over: Vec::new(),
            recent: VecDeque::new(),
            counts: Counts::default(),
            violations: Vec::new(),
        }
    }

    /// Works until it is paused. The current call is finished first.
    pub(super) async fn run(mut self, paused: &AtomicBool) -> Worker {
        while !paused.load(Ordering::Relaxed) {
            let result = self.act().await;
            self.violations.extend(result.err());
        }
        self
    }

    pub(super) fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.live.iter().map(|(_, promise)| promise).chain(&self.over)
    }

    /// Drops finished promises after a check.
    pub(super) fn forget_over(&mut self) {
        self.over.clear();
        let now = now_ms();
        self.live.retain(|(_, promise)| !promise.is_over(now));
    }

    async fn act(&mut self) -> Result<(), Violation> {
        let new = self.live.is_empty() || self.live.len() < MOST_LIVE && self.chance.in_percent(40);
        if new {
            return self.reserve().await;
        }
        if !self.recent.is_empty() && self.chance.in_percent(15) {
            return self.repeat().await;
        }
        let at = self.draw(self.live.len());
        // Removed during the call and added again with its new state. After a violation it stays out, so that one fault
        // is reported once.
        let (party, promise) = self.live.swap_remove(at);
        match promise.expected {
            Expected::Over => {
                self.over.push(promise);
                Ok(())
            }
            Expected::Held { at_least, .. } if at_least - now_ms() < ENOUGH_MS => {
                if promise.is_over(now_ms()) {
                    self.over.push(promise);
                } else {
                    self.live.push((party, promise));
                }
                Ok(())
            }
            Expected::Held { at_least, .. } => match self.draw(10) {
                0..7 => self.commit(party, promise, at_least).await,
                7..9 => self.hold_longer(party, promise).await,
                _ => self.cancel(party, promise).await,
            },
            Expected::Committed => match self.draw(10) {
                0..3 => self.change(party, promise).await,
                3..5 => self.extend(party, promise).await,
                _ => self.cancel(party, promise).await,
            },
        }
    }

    fn draw(&mut self, bound: usize) -> usize {
        self.chance.below(u32::try_from(bound).unwrap_or(u32::MAX)) as usize
    }

    async fn reserve(&mut self) -> Result<(), Violation> {
        let at_site = self.chance.in_percent(60);
        let brokers = self.parties.len() - self.sites as usize;
        let party = if at_site {
            self.chance.below(self.sites) as usize
        } else {
            self.sites as usize + self.draw(brokers)
        };
        // Cannot underflow: the command line requires two sites.
        let parts = if at_site { 1 } else { 2 + self.chance.below(self.sites.min(3) - 1) };
        let (request, book) = (self.request(parts), self.chance.in_percent(50));
        let hold_for = if self.chance.in_percent(15) { SHORT_HOLD } else { LONG_HOLD };
        self.made += 1;
        let owner = format!("u{}-{}", self.number, self.made);
        let id = ReservationId(self.random());
        let (name, sent) = (self.parties[party].name.clone(), now_ms());
        let call = Call::Reserve { id, request, hold_for, book };
        let answer = self.call(party, &owner, call).await?;
        let mut promise = Promise { party: name, id, owner, expected: Expected::Over, terms: Vec::new() };
        match answer {
            Answer::Reservation(shown) => {
                promise.expected = match (shown.state, shown.held_for) {
                    (State::Committed, _) if book => Expected::Committed,
                    (State::Held, Some(held_for)) if !book => held(sent, held_for),
                    _ => return Err(unfit("reserve", &promise, &Answer::Reservation(shown))),
                };
                promise.terms = terms(&promise.party, &shown.slots);
                self.live.push((party, promise));
            }
            // A refused reservation must not take capacity anywhere, so it is checked like a cancelled one.
            _ => self.over.push(promise),
        }
        Ok(())
    }

    /// A hold that has not expired must be committable, whatever is killed.
    async fn commit(&mut self, party: usize, mut promise: Promise, until: i64) -> Result<(), Violation> {
        let call = Call::Commit { id: promise.id, jobs: Vec::new() };
        let answer = self.call(party, &promise.owner, call).await?;
        match &answer {
            Answer::Reservation(shown) if shown.state == State::Committed => {
                promise.expected = Expected::Committed;
                let same = terms(&promise.party, &shown.slots) == promise.terms;
                let wrong = (!same).then(|| unfit("commit", &promise, &answer));
                self.live.push((party, promise));
                wrong.map_or(Ok(()), Err)
            }
            // All attempts together took longer than the hold.
            Answer::Problem(_) if now_ms() > until => {
                self.live.push((party, promise));
                Ok(())
            }
            _ => Err(unfit("commit", &promise, &answer)),
        }
    }

    /// After a refusal, the holds at some sites may still have been prolonged, so only the upper bound moves.
    async fn hold_longer(&mut self, party: usize, mut promise: Promise) -> Result<(), Violation> {
        let sent = now_ms();
        let call = Call::Hold { id: promise.id, hold_for: LONG_HOLD };
        let answer = self.call(party, &promise.owner, call).await?;
        promise.expected = match (answer, promise.expected) {
            (Answer::Reservation(Reservation { held_for: Some(held_for), state: State::Held, .. }), _) => {
                held(sent, held_for)
            }
            (_, Expected::Held { at_least, .. }) => {
                Expected::Held { at_least, at_most: now_ms() + LONG_HOLD.0 }
            }
            (_, expected) => expected,
        };
        self.live.push((party, promise));
        Ok(())
    }

    async fn cancel(&mut self, party: usize, mut promise: Promise) -> Result<(), Violation> {
        let answer = self.call(party, &promise.owner, Call::Cancel { id: promise.id }).await?;
        match &answer {
            Answer::Reservation(shown) if shown.state == State::Cancelled => {
                promise.expected = Expected::Over;
                self.over.push(promise);
                Ok(())
            }
            _ => Err(unfit("cancel", &promise, &answer)),
        }
    }

    /// Moves all parts by an hour. Without room for it, all must stay as they are.
    async fn change(&mut self, party: usize, promise: Promise) -> Result<(), Violation> {
        let hour = if self.chance.in_percent(50) { 3_600 } else { -3_600 };
        let moved = |term: &Term| part(term.capacity, term.begin + hour, term.end + hour, term.end + hour);
        let request = together(promise.terms.iter().map(moved).collect());
        let call = Call::Change { id: promise.id, version: None, request };
        self.other_terms(party, promise, call).await
    }

    async fn extend(&mut self, party: usize, promise: Promise) -> Result<(), Violation> {
        let end = promise.terms.iter().map(|term| term.end).max().unwrap_or(0) + 1_800;
        let call = Call::Extend { id: promise.id, version: None, end: Time(end) };
        self.other_terms(party, promise, call).await
    }

    async fn other_terms(&mut self, party: usize, mut promise: Promise, call: Call) -> Result<(), Violation> {
        let word = call.word();
        match self.call(party, &promise.owner, call).await? {
            Answer::Reservation(shown) if shown.state == State::Committed => {
                promise.terms = terms(&promise.party, &shown.slots);
            }
            Answer::Problem(_) => {}
            answer => return Err(unfit(word, &promise, &answer)),
        }
        self.live.push((party, promise));
        Ok(())
    }

    /// Repeats an answered call, which must get the same answer.
    async fn repeat(&mut self) -> Result<(), Violation> {
        let at = self.draw(self.recent.len());
        let Some(Answered { party, envelope, answer }) = self.recent.remove(at) else { return Ok(()) };
        let again = self.insist(party, &envelope).await?;
        self.counts.repeated += 1;
        if is_same(&answer, &again) {
            return Ok(());
        }
        let (word, name) = (envelope.call.word(), &self.parties[party].name);
        let detail = format!("{word} at {name} got {answer:?}, and when it was repeated {again:?}");
        Err(Violation::new(Rule::NotOnce, detail))
    }

    /// Makes a new call and counts its answer.
    async fn call(&mut self, party: usize, owner: &str, call: Call) -> Result<Answer, Violation> {
        let caller = Caller { user: owner.into(), roles: Vec::new() };
        let envelope = Envelope { key: Key(self.random()), caller, call };
        let answer = self.insist(party, &envelope).await?;
        let is_refused = matches!(answer, Answer::Problem(_));
        self.counts.add(self.parties[party].role, envelope.call.word(), is_refused);
        // A temporary refusal may be answered differently when it is repeated.
        if !is_passing(&answer) {
            self.recent.push_back(Answered { party, envelope, answer: answer.clone() });
            if self.recent.len() > MOST_RECENT {
                self.recent.pop_front();
            }
        }
        Ok(answer)
    }

    /// Repeats a call until there is an answer. Commit and cancel are also repeated while they are temporarily refused,
    /// because they must succeed in the end.
    async fn insist(&mut self, party: usize, envelope: &Envelope) -> Result<Answer, Violation> {
        let (party, until) = (&self.parties[party], Instant::now() + PATIENCE);
        let must_pass = matches!(envelope.call, Call::Commit { .. } | Call::Cancel { .. });
        let mut refusals = 0;
        loop {
            let failure = match party.client.call(envelope, None).await {
                Ok(answer) if is_passing(&answer) && (must_pass || refusals < MOST_REFUSALS) => {
                    refusals += 1;
                    answer.word().to_owned()
                }
                Ok(answer) => return Ok(answer),
                Err(failure) if may_pass(&failure) => failure.to_string(),
                Err(failure) => return Err(no_answer(party, envelope, &failure.to_string())),
            };
            if Instant::now() > until {
                return Err(no_answer(party, envelope, &failure));
            }
            self.counts.sent_again += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn random(&mut self) -> u128 {
        u128::from(self.chance.number()) << 64 | u128::from(self.chance.number())
    }

    /// Parts of equal duration that start together, at a fixed time or within a window of half a day.
    fn request(&mut self, parts: u32) -> Request {
        let hours = i64::from(1 + self.chance.below(4));
        let begin = self.begin.0 + i64::from(self.chance.below(HOURS)) * 3_600;
        let end = begin + hours * 3_600;
        let latest_end = if self.chance.in_percent(50) { end } else { end + 12 * 3_600 };
        let mut part = || part(1 + self.chance.below(CAPACITY / 2), begin, end, latest_end);
        let mut request = together((0..parts).map(|_| part()).collect());
        if parts > 1 {
            request.constraints.push(Constraint::DifferentSites(0, 1));
        }
        request
    }
}

/// The bounds of the deadline of a hold that was requested at `sent` and answered now.
fn held(sent: i64, held_for: Millis) -> Expected {
    Expected::Held { at_least: sent + held_for.0, at_most: now_ms() + held_for.0 }
}

fn part(capacity: u32, begin: i64, end: i64, latest_end: i64) -> Part {
    let wanted = placement::Request {
        earliest_start: Time(begin),
        latest_end: Time(latest_end),
        duration: Seconds(end - begin),
        capacity: Capacity(capacity),
    };
    Part::new(wanted, "processors")
}

fn together(parts: Vec<Part>) -> Request {
    let same = |second| Constraint::Offset { first: 0, second, by: Seconds(0) };
    let constraints = (1..parts.len()).map(same).collect();
    Request::new(parts, constraints)
}

/// Whether it is a temporary refusal, so that the same call may get another answer later.
fn is_passing(answer: &Answer) -> bool {
    matches!(answer, Answer::Problem(problem) if !problem.why.is_final())
}

/// Whether to repeat the call. After a timeout of the server (504) it may still be carried out.
fn may_pass(failure: &ClientError) -> bool {
    failure.may_pass() || failure.problem().is_some_and(|problem| problem.status == 504)
}

/// Whether two answers are the same, apart from the remaining time of a hold.
fn is_same(one: &Answer, other: &Answer) -> bool {
    match (one, other) {
        (Answer::Reservation(one), Answer::Reservation(other)) => {
            Reservation { held_for: None, ..one.clone() } == Reservation { held_for: None, ..other.clone() }
        }
        _ => one.word() == other.word(),
    }
}

fn unfit(word: &str, promise: &Promise, answer: &Answer) -> Violation {
    let Promise { id, owner, party, .. } = promise;
    let detail = format!("{word} of {id} of {owner} at {party}, which was {promise}, got {answer:?}");
    Violation::new(Rule::LostPromise, detail)
}

fn no_answer(party: &Party, envelope: &Envelope, failure: &str) -> Violation {
    let detail = format!("{} at {} got no answer: {failure}", envelope.call.word(), party.name);
    Violation::new(Rule::NoAnswer, detail)
}
