//! A simulated client: wants reservations and jobs, repeats its calls until they are answered, and does step by step with what
//! it was promised what it was told to. It never crashes: what it was told is what promises are held against.

use super::network::{About, Message};
use bookahead_party::JobCall;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::ids::Identities;
use bookahead_protocol::jobs::{JobAnswer, JobRequest, Work};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Name, Request, Reservation, ReservationId,
    State,
};
use std::collections::{BTreeMap, VecDeque};

/// After this time without an answer a call is repeated, each time after twice as long.
const PATIENCE: Millis = Millis(1_500);
/// No wait is longer, so that a client comes to its end soon after all is well again.
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
    /// Whether it wants it committed at once, in one call.
    pub book: bool,
    /// What it does with what it was promised, each so long after the answer to the one before.
    pub steps: VecDeque<(Millis, Step)>,
}

/// What a client does with what it was promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Asks for more time to decide.
    Hold,
    /// Commits.
    Commit,
    /// Cancels.
    Cancel,
    /// Wants other terms.
    Change(Box<Request>),
    /// Wants it to last so much longer.
    Extend(Seconds),
    /// Gives back all but so much, from so long after its begin on.
    Release(Seconds, Capacity),
    /// Submits a job that is to run in it.
    Submit(Box<JobRequest>),
    /// Cancels the last job that it submitted.
    CancelJob,
}

/// What a client knows of a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The id that it gave to it.
    pub id: ReservationId,
    /// What it wanted; of its steps those that are to come.
    pub wish: Wish,
    /// Every answer, when it came and to what.
    pub answers: Vec<(Moment, &'static str, Answer)>,
    /// When it first asked.
    pub asked: Moment,
    /// Whether it ever wanted to give it up.
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

    fn interval(&self) -> Option<(Time, Time)> {
        let slots = &self.last_reservation()?.slots;
        Some((slots.first()?.interval.begin, slots.iter().map(|slot| slot.interval.end).max()?))
    }
}

/// A job that a client wants to be run, and what it was told of it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// The id that it gave to it.
    pub id: JobId,
    /// What it was told last; None where it was told nothing.
    pub told: Option<JobAnswer>,
}

#[derive(Debug, Clone)]
struct Pending {
    message: Message,
    /// The wish that it is about.
    record: Option<usize>,
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
    /// Jobs that it will want to be run in a queue, the next last.
    wanted_jobs: Vec<(Moment, JobRequest)>,
    records: Vec<Record>,
    jobs: Vec<JobRecord>,
    pending: BTreeMap<About, Pending>,
    /// What it will do, with what.
    agenda: Vec<(Moment, usize, Step)>,
}

impl Client {
    /// One that asks `asks` for its wishes; `maker` is the secret of its identities.
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

    /// It will also want these jobs to be run in a queue.
    pub fn want_jobs(&mut self, mut jobs: Vec<(Moment, JobRequest)>) {
        jobs.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        self.wanted_jobs = jobs;
    }

    /// Whom it asks.
    pub fn asks(&self) -> &Name {
        &self.asks
    }

    /// What became of its wishes, in the order in which it asked.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What became of its jobs, in the order in which it submitted them.
    pub fn jobs(&self) -> &[JobRecord] {
        &self.jobs
    }

    /// Whether it wants nothing more and waits for nothing.
    pub fn is_done(&self) -> bool {
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
                record.cancelled |= keep == Capacity::ZERO;
                Call::Release { id, part: Some(0), from: begin + after, keep }
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
        self.jobs.push(JobRecord { id, told: None });
        self.ask(now, record, id, Some(Box::new(job)))
    }

    /// Submits a job, or cancels it where there is none.
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

    /// Takes an answer.
    pub(super) fn hear(&mut self, now: Moment, message: &Message) {
        // It is asked again later.
        if matches!(message, Message::Answer { answer: Answer::Problem(problem), .. } if problem.why.is_passing())
        {
            return;
        }
        let Some(Pending { message: asked, record, .. }) = self.pending.remove(&message.about()) else {
            return;
        };
        let goes_on = match (message, &asked, record) {
            (Message::Answer { answer, .. }, Message::Call(Envelope { call, .. }), Some(record)) => {
                self.records[record].answers.push((now, call.word(), answer.clone()));
                match answer {
                    Answer::Reservation(reservation) => reservation.state.holds_capacity(),
                    // Whoever does not get other terms has the old ones.
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

/// The same work with the name of the job in it, by which all its copies are known where they run.
fn named(id: JobId, work: &Work) -> Work {
    match work {
        Work::Pretended { run } => Work::Script { text: id.to_string(), arguments: vec![run.0.to_string()] },
        other => other.clone(),
    }
}

/// The job that some work belongs to, and how long it takes.
pub(super) fn job_of(work: &Work) -> Option<(JobId, Seconds)> {
    match work {
        Work::Script { text, arguments } => {
            Some((text.parse().ok()?, Seconds(arguments.first()?.parse().ok()?)))
        }
        _ => None,
    }
}
