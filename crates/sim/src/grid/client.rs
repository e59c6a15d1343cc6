//! A simulated client: requests reservations and jobs, repeats its calls until they are answered, and follows a script
//! of steps with each promise. It never crashes: the answers that it got are the promises that the witness checks.

use super::network::{About, Message};
use bookahead_party::JobCall;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::ids::Identities;
use bookahead_protocol::jobs::{JobAnswer, JobRequest, Rerun, Work};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Name, Request, Reservation, ReservationId,
    State,
};
use std::collections::{BTreeMap, VecDeque};

/// First pause before an unanswered call is repeated; it doubles with each repetition.
const PATIENCE: Millis = Millis(1_500);
/// Longest such pause. It bounds how long a client takes to finish after all faults end.
const LONGEST_PATIENCE: Millis = Millis(20_000);

/// A reservation that a client will request, and its further steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Time of the first call.
    pub at: Moment,
    /// The requested reservation.
    pub request: Request,
    /// Requested length of the hold.
    pub hold_for: Millis,
    /// Whether to book in one call instead of holding first.
    pub book: bool,
    /// Steps after a promise, each with its delay after the previous answer.
    pub steps: VecDeque<(Millis, Step)>,
}

/// A step of a client after a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Asks to hold it longer, for the same time again.
    Hold,
    /// Commits the hold.
    Commit,
    /// Cancels the reservation.
    Cancel,
    /// Requests other terms.
    Change(Box<Request>),
    /// Requests an end that is later by this much.
    Extend(Seconds),
    /// Releases all but this capacity, from this long after the begin on.
    Release(Seconds, Capacity),
    /// Submits a job into the reservation.
    Submit(Box<JobRequest>),
    /// Cancels the last submitted job; skipped if there is none.
    CancelJob,
}

/// A requested reservation as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Id chosen by the client.
    pub id: ReservationId,
    /// The wish, with the remaining steps.
    pub wish: Wish,
    /// All answers, with their time and the name of the call.
    pub answers: Vec<(Moment, &'static str, Answer)>,
    /// Time of the first call.
    pub asked: Moment,
    /// Whether the client has ever sent a cancel, or released everything.
    pub cancelled: bool,
}

impl Record {
    /// Whether the last reservation in an answer was committed or active.
    pub fn was_told_committed(&self) -> bool {
        self.last_reservation().is_some_and(|told| matches!(told.state, State::Committed | State::Active))
    }

    fn last_reservation(&self) -> Option<&Reservation> {
        self.answers.iter().rev().find_map(|(_, _, answer)| match answer {
            Answer::Reservation(reservation) => Some(reservation),
            _ => None,
        })
    }

    /// Whether the last answer was a problem.
    pub(crate) fn was_told_no(&self) -> bool {
        matches!(self.last(), Some(Answer::Problem(_)))
    }

    /// The last answer; None if there was none.
    pub fn last(&self) -> Option<&Answer> {
        self.answers.last().map(|(_, _, answer)| answer)
    }

    fn interval(&self) -> Option<(Time, Time)> {
        let slots = &self.last_reservation()?.slots;
        Some((slots.first()?.interval.begin, slots.iter().map(|slot| slot.interval.end).max()?))
    }
}

/// A submitted job as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Id chosen by the client.
    pub id: JobId,
    /// Whether it may run again.
    pub rerun: Rerun,
    /// The last answer; None if there was none.
    pub told: Option<JobAnswer>,
}

#[derive(Debug, Clone)]
struct Pending {
    message: Message,
    /// Index of the wish, if the message belongs to one.
    record: Option<usize>,
    due: Moment,
    wait: Millis,
}

/// A client with its scheduled wishes and jobs.
pub struct Client {
    /// Site or broker that it calls.
    asks: Name,
    caller: Caller,
    identities: Identities,
    /// Future wishes, the next one last.
    wishes: Vec<Wish>,
    /// Future jobs outside reservations, the next one last.
    wanted_jobs: Vec<(Moment, JobRequest)>,
    records: Vec<Record>,
    jobs: Vec<JobRecord>,
    pending: BTreeMap<About, Pending>,
    /// Scheduled steps: time, index of the record, step.
    agenda: Vec<(Moment, usize, Step)>,
}

impl Client {
    /// A client of `asks`. `maker` seeds its ids and keys and must be unique in the grid.
    pub fn new(asks: Name, user: &str, maker: u128, mut wishes: Vec<Wish>) -> Client {
        wishes.sort_by_key(|wish| std::cmp::Reverse(wish.at));
        Client {
            asks,
            caller: Caller { user: user.into(), roles: Vec::new() },
            identities: Identities::new(maker, 0),
            wishes,
            wanted_jobs: Vec::new(),
            records: Vec::new(),
            jobs: Vec::new(),
            pending: BTreeMap::new(),
            agenda: Vec::new(),
        }
    }

    /// Schedules jobs outside reservations.
    pub(crate) fn want_jobs(&mut self, mut jobs: Vec<(Moment, JobRequest)>) {
        jobs.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        self.wanted_jobs = jobs;
    }

    /// Name of the site or broker that it calls.
    pub fn asks(&self) -> &Name {
        &self.asks
    }

    /// Its reservations, in the order of their first calls.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Its jobs, in the order of submission.
    pub fn jobs(&self) -> &[JobRecord] {
        &self.jobs
    }

    /// Whether nothing is scheduled and no call is unanswered.
    pub(crate) fn is_done(&self) -> bool {
        self.wishes.is_empty()
            && self.wanted_jobs.is_empty()
            && self.pending.is_empty()
            && self.agenda.is_empty()
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        let wish = self.wishes.last().map(|wish| wish.at);
        let job = self.wanted_jobs.last().map(|(at, _)| *at);
        let pending = self.pending.values().map(|pending| pending.due).min();
        let agenda = self.agenda.iter().map(|(at, _, _)| *at).min();
        [wish, job, pending, agenda].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, now: Moment) -> Vec<Message> {
        let mut send = Vec::new();
        while let Some(wish) = self.wishes.pop_if(|wish| wish.at <= now) {
            let id = ReservationId(self.identities.make());
            let Wish { request, hold_for, book, .. } = wish.clone();
            let call = Call::Reserve { id, request, hold_for, book };
            self.records.push(Record { id, wish, answers: Vec::new(), asked: now, cancelled: false });
            let record = self.records.len() - 1;
            send.push(self.call(now, record, call));
        }
        while let Some((_, job)) = self.wanted_jobs.pop_if(|(at, _)| *at <= now) {
            send.push(self.submit(now, None, job));
        }
        for (_, record, step) in self.agenda.extract_if(.., |(at, _, _)| *at <= now).collect::<Vec<_>>() {
            send.extend(self.take_step(now, record, step));
        }
        for pending in self.pending.values_mut().filter(|pending| pending.due <= now) {
            pending.wait = Millis(pending.wait.0.saturating_mul(2).min(LONGEST_PATIENCE.0));
            pending.due = now + pending.wait;
            send.push(pending.message.clone());
        }
        send
    }

    fn take_step(&mut self, now: Moment, at: usize, step: Step) -> Option<Message> {
        let record = &mut self.records[at];
        let (id, hold_for) = (record.id, record.wish.hold_for);
        let (begin, end) = record.interval().unwrap_or((Time(0), Time(0)));
        let call = match step {
            Step::Hold => Call::Hold { id, hold_for },
            Step::Commit => Call::Commit { id, jobs: Vec::new() },
            Step::Cancel => {
                record.cancelled = true;
                Call::Cancel { id }
            }
            Step::Change(request) => Call::Change { id, version: None, request: *request },
            Step::Extend(by) => Call::Extend { id, version: None, end: end + by },
            Step::Release(after, keep) => {
                // Keeping nothing ends the reservation, like a cancel.
                record.cancelled |= keep == Capacity::ZERO;
                Call::Release { id, part: Some(0), from: begin + after, keep, end_jobs: false }
            }
            Step::Submit(job) => {
                let job = JobRequest { reservation: Some(id), ..*job };
                return Some(self.submit(now, Some(at), job));
            }
            Step::CancelJob => {
                let Some(job) = self.jobs.last().map(|job| job.id) else {
                    self.go_on(now, at);
                    return None;
                };
                return Some(self.ask(now, Some(at), job, None));
            }
        };
        Some(self.call(now, at, call))
    }

    fn submit(&mut self, now: Moment, record: Option<usize>, mut job: JobRequest) -> Message {
        let id = JobId(self.identities.make());
        job.work = named(id, &job.work);
        self.jobs.push(JobRecord { id, rerun: job.rerun, told: None });
        self.ask(now, record, id, Some(Box::new(job)))
    }

    /// Submits `job`, or cancels job `id` if there is no `job`.
    fn ask(
        &mut self,
        now: Moment,
        record: Option<usize>,
        id: JobId,
        job: Option<Box<JobRequest>>,
    ) -> Message {
        let ask = if job.is_some() { JobCall::Submit } else { JobCall::Drop };
        self.send(now, record, Message::Job { caller: self.caller.clone(), id, ask, job })
    }

    fn call(&mut self, now: Moment, record: usize, call: Call) -> Message {
        let envelope = Envelope { key: Key(self.identities.make()), caller: self.caller.clone(), call };
        self.send(now, Some(record), Message::Call(envelope))
    }

    fn send(&mut self, now: Moment, record: Option<usize>, message: Message) -> Message {
        let pending = Pending { message: message.clone(), record, due: now + PATIENCE, wait: PATIENCE };
        self.pending.insert(message.about(), pending);
        message
    }

    pub(super) fn hear(&mut self, now: Moment, message: &Message) {
        // After a passing problem the call stays pending and is repeated.
        if matches!(message, Message::Answer { answer: Answer::Problem(problem), .. } if problem.why.is_passing())
        {
            return;
        }
        // Without a pending call it is a duplicate, or a second answer to a repeated call.
        let Some(Pending { message: asked, record, .. }) = self.pending.remove(&message.about()) else {
            return;
        };
        let goes_on = match (message, &asked, record) {
            (Message::Answer { answer, .. }, Message::Call(Envelope { call, .. }), Some(record)) => {
                self.records[record].answers.push((now, call.word(), answer.clone()));
                match answer {
                    Answer::Reservation(reservation) => reservation.state.holds_capacity(),
                    // After a refused change the old terms stand, so the script continues.
                    _ => matches!(call, Call::Change { .. } | Call::Extend { .. } | Call::Release { .. }),
                }
            }
            (Message::JobAnswer { id, answer, .. }, ..) => {
                let job = self.jobs.iter_mut().find(|job| job.id == *id);
                job.into_iter().for_each(|job| job.told = Some(answer.clone()));
                true
            }
            _ => false,
        };
        if let Some(record) = record.filter(|_| goes_on) {
            self.go_on(now, record);
        }
    }

    fn go_on(&mut self, now: Moment, record: usize) {
        if let Some((wait, step)) = self.records[record].wish.steps.pop_front() {
            self.agenda.push((now + wait, record, step));
        }
    }
}

/// The same work with the id of the job in it, so that executions of all copies can be counted per job.
fn named(id: JobId, work: &Work) -> Work {
    match work {
        Work::Pretended { run } => Work::Script { text: id.to_string(), arguments: vec![run.0.to_string()] },
        other => other.clone(),
    }
}

/// Id of the job behind some work, and its run time; the inverse of `named`.
pub(super) fn job_of(work: &Work) -> Option<(JobId, Seconds)> {
    match work {
        Work::Script { text, arguments } => {
            Some((text.parse().ok()?, Seconds(arguments.first()?.parse().ok()?)))
        }
        _ => None,
    }
}
