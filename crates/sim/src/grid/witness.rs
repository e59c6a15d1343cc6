//! What must be true of a grid, whatever goes wrong, held against what its parties say and what is in their books. The
//! witness stands outside: it hears every message and sees every book, and decides nothing.
//!
//! - *Capacity*: at no time do running jobs and reservations exceed a resource.
//! - *All or nothing*: when all is settled, the parts of a booking are all standing or none is.
//! - *Kept promises*: what was said to be held or committed is, after any crash; it changes only by its owner's command,
//!   its deadline, or a failure that was reported.
//! - *Once*: a repeated call gets the same answer, and nothing is booked that nobody asked for.

use super::message::Message;
use super::party::{Party, Role, Written};
use super::{Cluster, Site};
use bookahead_plan::{Capacity, Interval, Profile, Span, Time};
use bookahead_protocol::broker::{Booking, Event, Outcome};
use bookahead_protocol::{Answer, Call, Key, Moment, Name, Reservation, ReservationId, State, Why};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// When it was seen.
    pub at: Moment,
    /// What was seen.
    pub what: String,
}

/// What must be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Nothing is given twice.
    Capacity,
    /// All parts or none.
    AllOrNothing,
    /// What was said holds.
    KeptPromises,
    /// Repetitions change nothing.
    Once,
    /// What was begun comes to an end.
    Settled,
}

/// What was said of a reservation last.
#[derive(Debug, Clone)]
struct Promise {
    state: State,
    intervals: Vec<Interval>,
    /// Of a hold: until when, by the clock of whoever said it.
    until: Moment,
}

/// How often things happened that are worth having seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// Bookings that brokers committed.
    pub commits: u64,
    /// Candidates that could not be held and were given back.
    pub rollbacks: u64,
    /// Holds that evaporated, at sites and at brokers.
    pub expiries: u64,
    /// Decided bookings of which a part was lost, and that were undone.
    pub compensations: u64,
    /// Bookings that a crash interrupted, given back after the restart.
    pub interrupted: u64,
    /// Decided bookings that were finished after a restart.
    pub finished: u64,
    /// Bookings that were refused.
    pub refusals: u64,
    /// Bookings that their owners cancelled.
    pub cancels: u64,
}

/// Hears and sees everything.
pub struct Witness {
    answers: BTreeMap<(usize, Key), Answer>,
    promises: BTreeMap<(usize, ReservationId), Promise>,
    /// Calls that only ask: their answers change with the schedule.
    asking: BTreeSet<Key>,
    /// Reservations that somebody has asked to give up, whether that was heard or not.
    pub(super) given_up: BTreeSet<ReservationId>,
    /// Holds that somebody wanted to be longer: they may be, even if the answer was never said.
    extended: BTreeSet<(usize, ReservationId)>,
    /// Commands that end or change a reservation, as they were heard.
    ended_by_command: BTreeSet<(usize, ReservationId)>,
    failed: Vec<bool>,
    /// What was seen that must not be.
    pub violations: Vec<Violation>,
    /// What was seen that is worth having seen.
    pub reached: Reached,
}

impl Witness {
    pub(super) fn new(parties: usize) -> Witness {
        Witness {
            answers: BTreeMap::new(),
            promises: BTreeMap::new(),
            asking: BTreeSet::new(),
            given_up: BTreeSet::new(),
            extended: BTreeSet::new(),
            ended_by_command: BTreeSet::new(),
            failed: vec![false; parties],
            violations: Vec::new(),
            reached: Reached::default(),
        }
    }

    pub(super) fn violated(&mut self, rule: Rule, at: Moment, what: String) {
        let seen = self.violations.iter().any(|before| before.rule == rule && before.what == what);
        if !seen {
            self.violations.push(Violation { rule, at, what });
        }
    }

    /// Part of a site's resource fails.
    pub(super) fn failed(&mut self, at: usize) {
        self.failed[at] = true;
    }

    /// A party hears something.
    pub(super) fn heard(&mut self, by: usize, message: &Message) {
        let Message::Call(envelope) = message else { return };
        if envelope.call.only_asks() {
            self.asking.insert(envelope.key);
        }
        if let Call::Hold { id, .. } = &envelope.call {
            self.extended.insert((by, *id));
        }
        if let Call::Cancel { id } | Call::Release { id, .. } | Call::Change { id, .. } = &envelope.call {
            self.ended_by_command.insert((by, *id));
        }
    }

    /// Something was written down.
    pub(super) fn written(&mut self, written: &Written) {
        match written.word {
            "gave-up" => self.reached.rollbacks += 1,
            "expired" => self.reached.expiries += 1,
            "part-lost" => self.reached.compensations += 1,
            _ => {}
        }
    }

    /// A party says something.
    pub(super) fn said(&mut self, now: Moment, by: usize, message: &Message) {
        let (key, answer) = match message {
            Message::Answer { key, answer } => (key, answer),
            Message::Call(envelope) => {
                if let Call::Cancel { id } = &envelope.call {
                    self.given_up.insert(*id);
                }
                return;
            }
        };
        if is_binding(answer) && !self.asking.contains(key) {
            let settled = without_countdown(answer);
            let before = self.answers.entry((by, *key)).or_insert_with(|| settled.clone());
            if *before != settled {
                let what = format!("party {by} answers {key} with {settled:?} after {before:?}");
                self.violated(Rule::Once, now, what);
            }
        }
        if let Answer::Reservation(reservation) = answer {
            self.promised(now, by, reservation);
        }
    }

    fn promised(&mut self, now: Moment, by: usize, reservation: &Reservation) {
        let Reservation { id, state, slots, held_for, .. } = reservation;
        let until = held_for.map_or(Moment::MAX, |left| now + left);
        let intervals = slots.iter().map(|slot| slot.interval).collect();
        let promise = Promise { state: *state, intervals, until };
        let before = self.promises.get(&(by, *id));
        // An old answer that is repeated takes nothing back.
        let stale = before.is_some_and(|before| {
            before.state != State::Held && *state == State::Held
                || before.state == *state && before.until > until
        });
        if matches!(state, State::Held | State::Committed | State::Active) && !stale {
            self.promises.insert((by, *id), promise);
        }
    }

    /// A party has done something: is its book still sound?
    pub(super) fn look(&mut self, now: Moment, party: &Party, at: usize) {
        let Role::Site(site) = &party.role else { return };
        if !party.up {
            return;
        }
        for offered in &site.rules().resources {
            let name = &offered.resource.name;
            let capacity = offered.resource.capacity;
            if let Some((when, over)) = overbooked(site, name, capacity, now.second(), self.failed[at]) {
                let what = format!("{}: {name} is overbooked by {over} at {when}", party.name);
                self.violated(Rule::Capacity, now, what);
            }
        }
    }

    /// A party has started again: is all still there that it had promised?
    pub(super) fn restarted(&mut self, now: Moment, party: &Party, at: usize) {
        if let Role::Broker(broker) = &party.role {
            for event in
                broker.journal().iter().rev().take_while(|event| !matches!(event, Event::Woke { .. }))
            {
                let interrupted = matches!(event, Event::Closed { outcome: Outcome::Refused(problem), .. }
                    if problem.why == Why::Interrupted);
                self.reached.interrupted += u64::from(interrupted);
            }
            let finishing = broker.head().bookings().filter(|booking| booking.is_being_committed());
            self.reached.finished += finishing.count() as u64;
        }
        self.check_promises(now, party, at);
    }

    pub(super) fn check_promises(&mut self, now: Moment, party: &Party, at: usize) {
        let promises = self.promises.range((at, ReservationId(0))..=(at, ReservationId(u128::MAX)));
        let broken: Vec<String> = promises
            .filter_map(|((_, id), promise)| {
                let commanded = self.ended_by_command.contains(&(at, *id));
                let extended = self.extended.contains(&(at, *id));
                let until = if extended && now > promise.until { now } else { promise.until };
                let promise = &Promise { until, ..promise.clone() };
                let problem = match &party.role {
                    Role::Site(site) => site_keeps(site, *id, promise, now, commanded || self.failed[at]),
                    Role::Broker(broker) => {
                        let booking = broker.head().bookings().find(|booking| booking.id == *id);
                        broker_keeps(booking, promise, now, commanded)
                    }
                    Role::Client(_) => Ok(()),
                };
                problem.err().map(|problem| format!("{}: {id} {problem}", party.name))
            })
            .collect();
        for what in broken {
            self.violated(Rule::KeptPromises, now, what);
        }
    }
}

/// Whether an answer is a fact about a reservation that a repetition must repeat. Not knowing an id, or having no time,
/// says nothing about it.
fn is_binding(answer: &Answer) -> bool {
    match answer {
        Answer::Problem(problem) => {
            !problem.why.is_passing() && !matches!(problem.why, Why::Unknown(_) | Why::Silence)
        }
        Answer::Offers(_) | Answer::Reservation(_) => true,
    }
}

fn without_countdown(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    if let Answer::Reservation(reservation) = &mut answer {
        reservation.held_for = None;
    }
    answer
}

/// Where and by how much a resource is given more than once, running jobs included.
fn overbooked(
    site: &Site,
    resource: &Name,
    capacity: Capacity,
    now: Time,
    failed: bool,
) -> Option<(Time, i64)> {
    let mut room = Profile::new(capacity, now);
    let lost = site.ledger().lost_capacity(resource);
    room.add(Span { interval: Interval::new(now, Time::MAX), capacity: lost });
    for (_, entry) in site.ledger().entries().filter(|(_, entry)| entry.resource == *resource) {
        entry.takes().into_iter().for_each(|span| room.add(span));
    }
    let cluster = site.clusters().get(resource);
    // After a failure, a job is stopped when what is left is needed for a reservation, and not before.
    for job in cluster.filter(|_| !failed).map(Cluster::running).unwrap_or_default() {
        room.add(Span { interval: Interval::new(now, job.expected_end), capacity: job.capacity });
    }
    let with_jobs = cluster.filter(|cluster| !cluster.running().is_empty());
    let in_cluster = with_jobs.map(Cluster::free_now).filter(|free| *free < 0).map(|free| (now, -free));
    room.first_below(now, 0).map(|(when, free)| (when, -free)).or(in_cluster)
}

fn site_keeps(
    site: &Site,
    id: ReservationId,
    promise: &Promise,
    now: Moment,
    excused: bool,
) -> Result<(), String> {
    let Some(entry) = site.ledger().entry(id) else {
        return Err("was promised and is not known any more".to_owned());
    };
    if promise.intervals != [entry.interval()] && !excused {
        return Err(format!("was promised for {:?} and is for {:?}", promise.intervals, entry.interval()));
    }
    state_keeps(promise, entry.state, now, excused)
}

fn broker_keeps(
    booking: Option<&Booking>,
    promise: &Promise,
    now: Moment,
    excused: bool,
) -> Result<(), String> {
    let Some(booking) = booking else { return Err("was promised and is not known any more".to_owned()) };
    // One that was held may have lost a part when it was to be committed.
    let lost = promise.state == State::Held && booking.outcome == Some(Outcome::PartLost);
    if booking.is_being_committed() {
        return Ok(());
    }
    state_keeps(promise, booking.state, now, excused || lost)
}

fn state_keeps(promise: &Promise, state: State, now: Moment, excused: bool) -> Result<(), String> {
    let kept = match (promise.state, state) {
        (State::Held, State::Held) => now <= promise.until,
        (State::Held, State::Rejected) => now >= promise.until,
        (_, State::Cancelled | State::Terminated) => excused,
        (State::Held, _) => true,
        (_, state) => is_standing(state),
    };
    if kept {
        Ok(())
    } else {
        Err(format!("was promised as {} until {} and is {state}", promise.state, promise.until))
    }
}

/// Whether it was committed and not given up.
pub(super) fn is_standing(state: State) -> bool {
    matches!(state, State::Committed | State::ChangeRequested | State::Active | State::Completed)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Capacity => "capacity",
            Rule::AllOrNothing => "all or nothing",
            Rule::KeptPromises => "kept promises",
            Rule::Once => "once",
            Rule::Settled => "settled",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.at, self.what)
    }
}
