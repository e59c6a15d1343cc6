//! The invariants of a grid under faults. The witness is outside of the system under test: it sees every message,
//! ledger and batch system, compares what the parties said with what they have, and decides nothing.

use super::clocks::completed_early;
use super::cluster::covers;
use super::host::Written;
use super::network::Message;
use super::{Cluster, Party, Role, Site, Tally};
use bookahead_plan::{Capacity, Interval, Profile, Span, Time};
use bookahead_protocol::broker::{Booking, Event, Outcome, Stage};
use bookahead_protocol::ledger::Entry;
use bookahead_protocol::{
    Answer, Call, Key, Millis, Moment, Name, OnLoss, Reservation, ReservationId, State, Why,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Slack beyond the site's own limit for answering a call that waits for a batch system: clocks jump by up to 3 s at a time,
/// and writing takes time.
const MARGIN: Millis = Millis(6_000);

/// More than a clock that is followed differs from the time of the grid: up to three jumps of 3 s.
const CLOCKS_DIFFER: Millis = Millis(10_000);

/// Upper bound of the time from a crash until the site has restarted and polled its batch system: faults end after 40
/// s.
const LOOKED_AFTER: Millis = Millis(42_000);

/// A hold is timed from its decision, but its answer leaves only after this and all earlier decisions are durable.
const WRITTEN_WITHIN: Millis = Millis(100);

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub rule: Rule,
    /// Time at which it was detected.
    pub at: Moment,
    /// Description for people, with the parties and ids involved.
    pub what: String,
}

/// The invariants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Running jobs and reservations never exceed the capacity of a resource, in the ledgers and in the batch systems.
    Capacity,
    /// In a settled grid all parts of a booking stand, or none does.
    AllOrNothing,
    /// An acknowledged hold or commit survives any crash. It changes only by its owner's command, its deadline, or a
    /// reported failure.
    KeptPromises,
    /// A repeated call gets the same answer and has no second effect.
    Once,
    /// Every operation comes to an end.
    Settled,
    /// Some time after all faults end, every backing and job of a site in its batch system is in its ledger.
    NothingOrphaned,
    /// A job runs at most once, counted over all copies; or, where its owner allows it, again after that run is over.
    JobsRunOnce,
    /// When a site says that it holds a reservation, its batch system has the backing, unless a fault removed it.
    Backed,
    /// A backing is not given up because its nodes are away.
    NothingGivenAway,
    /// Some seconds after all faults end, everything that a broker shows as committed is committed at its sites.
    NoPhantoms,
    /// All parts of a booking get new terms or none does, and a broker shows the terms that its sites have.
    ChangedTogether,
    /// A call that waits for a batch system gets an answer in bounded time, even if the batch system stays silent.
    AnsweredInTime,
    /// Replaying all events from the first gives the present state of the party.
    JournalIsTruth,
}

/// The last acknowledged state of a reservation.
#[derive(Debug, Clone)]
struct Promise {
    state: State,
    intervals: Vec<Interval>,
    /// End of a hold by the clock of the party that answered.
    until: Moment,
    /// The same by the latest time that this party has seen: it uses that one after its clock was set back.
    until_latest: Moment,
}

/// Observes all parties and records violations.
#[derive(Default)]
pub struct Witness {
    answers: BTreeMap<(usize, Key), Answer>,
    promises: BTreeMap<(usize, ReservationId), Promise>,
    /// Keys of read-only calls: their answers may differ, because the schedule changes.
    asking: BTreeSet<Key>,
    /// Reservations with a cancel that was sent, whether it arrived or not.
    pub(super) given_up: BTreeSet<ReservationId>,
    /// Holds with a request for more time: it may have taken effect even if the answer was lost.
    extended: BTreeSet<(usize, ReservationId)>,
    /// Received commands that end or change a reservation.
    ended_by_command: BTreeSet<(usize, ReservationId)>,
    /// Reservations that were changed at a party behind the back of their creator.
    pub(super) interfered: BTreeSet<(usize, ReservationId)>,
    /// Sites that lost capacity.
    pub(super) failed: BTreeSet<usize>,
    /// Sites that lost their disk: they know only the backings in their batch system.
    pub(super) lost_disks: BTreeSet<usize>,
    /// All violations so far, each kind and text once.
    pub violations: Vec<Violation>,
    /// Counts of situations worth reaching; a run that reaches none of them tests little.
    pub reached: Tally,
}

impl Witness {
    pub(super) fn violated(&mut self, rule: Rule, at: Moment, what: String) {
        let seen = self.violations.iter().any(|before| before.rule == rule && before.what == what);
        if !seen {
            self.violations.push(Violation { rule, at, what });
        }
    }

    /// The journal of a site is lost. Only commits with an intact backing are still promised.
    pub(super) fn disk_lost(&mut self, party: &Party, at: usize) {
        self.lost_disks.insert(at);
        self.answers.retain(|(by, _), _| *by != at);
        let Role::Site(site) = &party.role else { return };
        self.promises.retain(|(by, id), promise| {
            // A reservation that ends before the site has restarted and polled is not adopted.
            let whole = |entry: &&Entry| {
                let lasts = Moment::of(entry.end()) > party.latest + LOOKED_AFTER;
                lasts && entry.is_live() && entry.missing == Capacity::ZERO
            };
            let entry = site.ledger().entry(*id).filter(whole);
            let kept = entry.is_some_and(|entry| {
                let now = party.latest.second().max(site.batch.time(party.latest));
                promise.state != State::Held
                    && covers(&site.batch.kept(&entry.resource, *id), &entry.takes(), now)
            });
            *by != at || (kept && !site.batch.touched.contains(id))
        });
    }

    pub(super) fn heard(&mut self, by: usize, message: &Message) {
        let Message::Call(envelope) = message else { return };
        if envelope.call.only_asks() {
            self.asking.insert(envelope.key);
        }
        match &envelope.call {
            Call::Hold { id, .. } => drop(self.extended.insert((by, *id))),
            Call::Release { id, .. } => {
                self.ended_by_command.insert((by, *id));
                self.interfered.insert((by, *id));
            }
            Call::Cancel { id }
            | Call::Change { id, .. }
            | Call::Extend { id, .. }
            | Call::PrepareChange { id, .. } => {
                self.ended_by_command.insert((by, *id));
            }
            _ => {}
        }
    }

    pub(super) fn written(&mut self, written: &Written) {
        self.reached.count(match written.word {
            "gave-up" => "rollbacks",
            "expired" => "expiries",
            "part-lost" => "compensations",
            "granted" => "granted_by_the_batch_system",
            "not-granted" => "not_granted_by_the_batch_system",
            "change-settled" => "terms_changed",
            "change-prepared" => "changes_prepared",
            "change-given-up" => "prepared_changes_given_up",
            "change-decided" => "changes_of_several_parts",
            "released" => "released_in_part",
            "missing" => "degraded_or_mended",
            "job-started" => "jobs_started",
            "job-over" => "jobs_over",
            "job-claimed" => "jobs_claimed",
            "job-requeued" => "jobs_requeued",
            "job-retried" => "jobs_retried",
            "job-warned" => "jobs_warned",
            _ => return,
        });
    }

    pub(super) fn said(&mut self, (now, latest): (Moment, Moment), by: usize, message: &Message) {
        let (key, answer) = match message {
            Message::Answer { key, answer } => (key, answer),
            Message::Call(envelope) => {
                if let Call::Cancel { id } = &envelope.call {
                    self.given_up.insert(*id);
                }
                return;
            }
            Message::Job { .. } | Message::JobAnswer { .. } => return,
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
            self.promised((now, latest), by, reservation);
        }
    }

    fn promised(&mut self, (now, latest): (Moment, Moment), by: usize, reservation: &Reservation) {
        let Reservation { id, state, slots, held_for, .. } = reservation;
        let until = held_for.map_or(Moment::MAX, |left| now + left);
        let until_latest = held_for.map_or(Moment::MAX, |left| now.max(latest) + left);
        let intervals = slots.iter().map(|slot| slot.interval).collect();
        let promise = Promise { state: *state, intervals, until, until_latest };
        let before = self.promises.get(&(by, *id));
        // A repeated call gets its old answer, which does not withdraw a newer promise.
        let stale = before.is_some_and(|before| {
            before.state != State::Held && *state == State::Held
                || before.state == *state && before.until > until
        });
        if matches!(state, State::Held | State::Committed | State::Active) && !stale {
            self.promises.insert((by, *id), promise);
        }
    }

    /// Checks that a reservation which a site reports has its backing, if the batch system is external.
    pub(super) fn backed(&mut self, now: Moment, party: &Party, message: &Message) {
        let (Role::Site(site), Message::Answer { answer: Answer::Reservation(said), .. }) =
            (&party.role, message)
        else {
            return;
        };
        if !site.asks() || site.batch.touched.contains(&said.id) {
            return;
        }
        // A repeated answer about an older state promises nothing.
        let same = |entry: &&Entry| {
            let told = matches!(said.state, State::Held | State::Committed | State::Active);
            told && (entry.state, entry.version, entry.missing) == (said.state, said.version, Capacity::ZERO)
        };
        let Some(entry) = site.ledger().entry(said.id).filter(same) else { return };
        let kept = site.batch.kept(&entry.resource, said.id);
        let from = site.batch.time(now).max(now.second());
        if !covers(&kept, &entry.takes(), from) {
            let what = format!("{}: {} is said to be {} and is not kept", party.name, said.id, said.state);
            self.violated(Rule::Backed, now, what);
        }
        let tres = site.batch.tres.get(&said.id).cloned().unwrap_or_default();
        if let Some((name, amount)) = tres.lacks(entry.tres()) {
            let what =
                format!("{}: {} is said to have {amount} of {name}, and has {tres}", party.name, said.id);
            self.violated(Rule::Backed, now, what);
        }
    }

    /// Checks the ledger and the waiting calls of a party after a step.
    pub(super) fn look(&mut self, now: Moment, party: &mut Party, at: usize) {
        let Role::Site(site) = &mut party.role else { return };
        if party.up {
            let limit = site.rules().consent.unwrap_or_default() + MARGIN;
            let waits = site.host.calls.first_key_value().map(|(_, asker)| now + party.ahead - asker.since);
            if waits.is_some_and(|waits| waits > limit) {
                let what = format!("{}: a call has waited for more than {limit}", party.name);
                self.violated(Rule::AnsweredInTime, now, what);
            }
        }
        // Most steps of a large grid are probes, which change nothing.
        let state = (party.up, self.failed.contains(&at), site.changes());
        if site.looked.as_ref() == Some(&state) {
            return;
        }
        self.look_for_room(now, party, at);
        if let Role::Site(site) = &mut party.role {
            site.looked = Some((state.0, state.1, site.changes()));
        }
    }

    /// Checks that neither the ledger of a site nor its batch system has given away more than there is.
    fn look_for_room(&mut self, now: Moment, party: &mut Party, at: usize) {
        let Role::Site(site) = &mut party.role else { return };
        // An in-process scheduler is told of released room only when the release is durable, but it can be promised
        // before that.
        let durable = site.asks() || site.host.is_durable();
        for cluster in site.batch.clusters.values_mut().filter(|_| durable) {
            if let Some((when, over)) = cluster.overfull().filter(|_| !self.failed.contains(&at)) {
                let what = format!("{}: {over} more is kept and runs at {when} than there is", party.name);
                self.violated(Rule::Capacity, now, what);
            }
        }
        if !party.up {
            return;
        }
        for offered in &site.rules().resources {
            let name = &offered.resource.name;
            let capacity = offered.resource.capacity;
            // A release takes effect at the next full second.
            let latest = Moment(party.latest.0 + 999).second();
            if let Some((when, over)) = overbooked(site, name, capacity, latest, self.failed.contains(&at)) {
                let what = format!("{}: {name} is overbooked by {over} at {when}", party.name);
                self.violated(Rule::Capacity, now, what);
            }
            for (thing, total) in offered.resource.tres.iter() {
                if let Some((when, over)) = overbooked_tres(site, name, (thing, total), latest) {
                    let what = format!("{}: {thing} of {name} is overbooked by {over} at {when}", party.name);
                    self.violated(Rule::Capacity, now, what);
                }
            }
        }
    }

    /// Checks that a restarted party still has its promises.
    pub(super) fn restarted(&mut self, now: Moment, party: &Party, at: usize) {
        if let Role::Broker(broker) = &party.role {
            let last =
                broker.bookings_journal().rev().take_while(|event| !matches!(event, Event::Woke { .. }));
            let interrupted = last.filter(|event| {
                matches!(event, Event::Closed { outcome: Outcome::Refused(problem), .. }
                    if problem.why == Why::Interrupted)
            });
            self.reached.add("interrupted", interrupted.count() as u64);
            let finishing = broker.head().bookings().filter(|booking| booking.is_being_committed());
            self.reached.add("finished_after_restart", finishing.count() as u64);
            let decided = |booking: &&Booking| {
                booking.change.as_ref().is_some_and(|change| change.stage == Stage::Decided)
            };
            let changing = broker.head().bookings().filter(decided).count();
            self.reached.add("changes_finished_after_restart", changing as u64);
        }
        // A site without a journal adopts its backings only with the first poll.
        if !self.lost_disks.contains(&at) {
            self.check_promises(now, party, at);
        }
    }

    /// Checks that nothing was completed long before its end.
    pub(super) fn ended_early(&mut self, now: Moment, party: &Party, at: usize) {
        for what in completed_early(party, now, CLOCKS_DIFFER) {
            let interfered = self.failed.contains(&at) || self.lost_disks.contains(&at);
            if !interfered {
                self.violated(Rule::KeptPromises, now, format!("{}: {what}", party.name));
            }
        }
    }

    pub(super) fn check_promises(&mut self, now: Moment, party: &Party, at: usize) {
        let promises = self.promises.range((at, ReservationId(0))..=(at, ReservationId(u128::MAX)));
        let broken: Vec<String> = promises
            .filter_map(|((_, id), promise)| {
                let commanded = self.ended_by_command.contains(&(at, *id));
                let extended = self.extended.contains(&(at, *id));
                let until_latest = promise.until_latest.max(if extended { now } else { promise.until });
                let promise = &Promise { until_latest, ..promise.clone() };
                let times = (now, now.max(party.latest));
                let problem = match &party.role {
                    Role::Site(site) => {
                        let taken_away = site.batch.touched.contains(id) || self.failed.contains(&at);
                        let lost_disk = self.lost_disks.contains(&at);
                        if lost_disk && (commanded || taken_away) && site.ledger().entry(*id).is_none() {
                            return None;
                        }
                        site_keeps(site, *id, promise, times, (commanded || taken_away, lost_disk))
                    }
                    Role::Broker(broker) => {
                        broker_keeps(broker.head().booking(*id), promise, times, commanded)
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

/// Whether a repetition must get the same answer. Passing problems, unknown ids and silence are not facts about a
/// reservation.
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

/// First time and amount by which reservations and running jobs exceed a resource.
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
    // An external batch system refuses room that jobs have taken meanwhile. After a capacity failure a job is stopped
    // only when a reservation needs its room.
    let cluster = site.clusters().get(resource).filter(|_| !failed && !site.asks());
    for job in cluster.map(Cluster::running).unwrap_or_default() {
        room.add(Span { interval: Interval::new(now, job.expected_end), capacity: job.capacity });
    }
    room.first_below(now, 0).map(|(when, free)| (when, -free))
}

/// Like [`overbooked`], for a thing beside the capacity. Of a change in progress only the old terms count.
fn overbooked_tres(
    site: &Site,
    resource: &Name,
    (thing, total): (&Name, Capacity),
    now: Time,
) -> Option<(Time, i64)> {
    let mut room = Profile::new(total, now);
    let live = |entry: &&Entry| entry.resource == *resource && entry.is_live();
    for entry in site.ledger().entries().map(|(_, entry)| entry).filter(live) {
        room.add(Span { interval: entry.interval(), capacity: entry.tres().of(thing) });
    }
    room.first_below(now, 0).map(|(when, free)| (when, -free))
}

fn site_keeps(
    site: &Site,
    id: ReservationId,
    promise: &Promise,
    times: (Moment, Moment),
    (excused, lost_disk): (bool, bool),
) -> Result<(), String> {
    let Some(entry) = site.ledger().entry(id) else {
        return Err("was promised and is not known any more".to_owned());
    };
    // A hold that expired and was committed late covers only the remaining time.
    let expired = promise.state == State::Held && promise.until <= times.1;
    // The backing of a late commit still begins at the old time, and a site without a journal adopts it like that.
    let same = |promised: &Interval| {
        let is = entry.interval();
        is == *promised || lost_disk && is.end == promised.end && is.begin < promised.begin
    };
    if !promise.intervals.iter().all(same) && !excused && !expired {
        return Err(format!("was promised for {:?} and is for {:?}", promise.intervals, entry.interval()));
    }
    state_keeps(promise, entry.state, times, excused)
}

fn broker_keeps(
    booking: Option<&Booking>,
    promise: &Promise,
    times: (Moment, Moment),
    excused: bool,
) -> Result<(), String> {
    let Some(booking) = booking else { return Err("was promised and is not known any more".to_owned()) };
    // A commit can fail for one part of a hold; then the whole booking is given up.
    let undone = promise.state == State::Held && booking.outcome == Some(Outcome::PartLost);
    // With `on_loss = cancel` the broker cancels the booking by itself.
    let on_loss = booking.asked.as_ref().map(|asked| asked.request.on_loss);
    let cancelled = booking.outcome == Some(Outcome::Lost) && on_loss == Some(OnLoss::Cancel);
    // If no site has any part left, the sites are checked for it and not the broker.
    let gone =
        !booking.children.is_empty() && (0..booking.children.len()).all(|part| !booking.has_part(part));
    if booking.is_being_committed() {
        return Ok(());
    }
    state_keeps(promise, booking.state, times, excused || undone || gone || cancelled)
}

fn state_keeps(
    promise: &Promise,
    state: State,
    (now, latest): (Moment, Moment),
    excused: bool,
) -> Result<(), String> {
    let kept = match (promise.state, state) {
        (State::Held, State::Held) => now <= promise.until_latest,
        (State::Held, State::Expired | State::Rejected) => latest + WRITTEN_WITHIN >= promise.until,
        (_, State::Cancelled | State::Terminated) => excused,
        (State::Held, _) => true,
        (_, state) => state.is_standing(),
    };
    if kept {
        Ok(())
    } else {
        Err(format!("was promised as {} until {} and is {state}", promise.state, promise.until))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Capacity => "capacity",
            Rule::AllOrNothing => "all or nothing",
            Rule::KeptPromises => "kept promises",
            Rule::Once => "once",
            Rule::Settled => "settled",
            Rule::NothingOrphaned => "nothing orphaned",
            Rule::JobsRunOnce => "a job runs once",
            Rule::Backed => "no promise without backing",
            Rule::NothingGivenAway => "nothing given away",
            Rule::NoPhantoms => "no phantoms",
            Rule::ChangedTogether => "changed together",
            Rule::AnsweredInTime => "answered in time",
            Rule::JournalIsTruth => "the journal is the truth",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.at, self.what)
    }
}
