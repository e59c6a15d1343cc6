//! The copies of jobs that brokers sent to a site: which are queued, which asks for its turn, which may run. It relies on
//! whoever drives it to journal the events before anything is sent or done, and to run a job only when told. It never
//! tells to run one that was not granted, and none twice.

use super::{Ending, JobMessage, Outgoing, Work};
use crate::clock::{Millis, Moment};
use crate::ids::{JobId, Name};
use crate::jobs::patience::{Patience, Repeated};
use std::collections::BTreeMap;

/// What must not be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// A copy came.
    Queued {
        /// Of which job.
        job: JobId,
        /// From which broker.
        broker: Name,
        /// What it is.
        work: Work,
    },
    /// The broker lets it run.
    Granted(JobId),
    /// It is about to be run.
    Started(JobId),
    /// It will not be run here.
    Dropped {
        /// Which job.
        job: JobId,
        /// The broker to be told.
        broker: Name,
    },
    /// It has run.
    Ended {
        /// Which job.
        job: JobId,
        /// How that ended.
        how: Ending,
    },
    /// The broker knows that it was dropped or has ended.
    Noted(JobId),
}

/// What the site is to do with its scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Put a copy into the queue; after a restart, make sure that it is there.
    Queue {
        /// Of which job.
        job: JobId,
        /// What it is.
        work: Work,
    },
    /// The one whose turn it is may run: call [`Copies::turn_came`] again, now or when there is room.
    MayRun(JobId),
    /// Start it.
    Run(JobId),
    /// Go on to the next job: nobody has answered. Its turn will come again.
    PassOver(JobId),
    /// Take it out of the queue.
    Remove(JobId),
}

/// What is to be done, in this order: journal the events, then send and act.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SiteEffects {
    /// To be journalled before anything is sent or done.
    pub events: Vec<Event>,
    /// To be sent.
    pub send: Vec<Outgoing>,
    /// To be done.
    pub actions: Vec<Action>,
}

/// All copies at a site.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Copies {
    /// How often unanswered messages are repeated.
    patience: Patience,
    /// How long a claim may keep room free without an answer.
    hold_room_for: Millis,
    all: BTreeMap<JobId, Copy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Copy {
    broker: Name,
    /// What it is; not kept once it is over.
    work: Option<Work>,
    stand: Stand,
    repeated: Repeated,
}

/// How things stand with one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stand {
    /// In the queue.
    Queued,
    /// Its turn has come; the broker was asked, and is waited for until then.
    Claiming(Moment),
    /// It may run when its turn comes.
    Granted,
    /// It runs.
    Started,
    /// It did not run, and never will; whether the broker knows.
    Dropped(bool),
    /// It ran; whether the broker knows.
    Ended(Ending, bool),
}

impl Copies {
    /// None so far.
    pub fn new(patience: Patience, hold_room_for: Millis) -> Copies {
        Copies { patience, hold_room_for, all: BTreeMap::new() }
    }

    /// A broker says something.
    pub fn on_message(&mut self, now: Moment, from: &Name, message: &JobMessage) -> SiteEffects {
        let mut effects = SiteEffects::default();
        let job = message.job();
        if self.all.get(&job).is_some_and(|copy| copy.broker != *from) {
            return effects;
        }
        match message {
            JobMessage::Submit { work, .. } => self.submitted(now, job, from, work, &mut effects),
            JobMessage::Granted { .. } => self.granted(now, job, from, &mut effects),
            JobMessage::Denied { .. } | JobMessage::Drop { .. } => {
                self.drop_copy(now, job, from, &mut effects);
            }
            JobMessage::Noted { .. } => self.noted(job, &mut effects),
            // These go the other way.
            JobMessage::Submitted { .. }
            | JobMessage::Claim { .. }
            | JobMessage::Dropped { .. }
            | JobMessage::Ended { .. } => {}
        }
        effects
    }

    /// The scheduler would start it now. A copy that may run is started; another asks first, and meanwhile its room
    /// should be kept free.
    pub fn turn_came(&mut self, now: Moment, job: JobId) -> SiteEffects {
        let mut effects = SiteEffects::default();
        let Some(copy) = self.all.get_mut(&job) else { return effects };
        match copy.stand {
            Stand::Queued => {
                copy.stand = Stand::Claiming(now + self.hold_room_for);
                self.say(now, job, &mut effects);
            }
            Stand::Granted => {
                self.note(Event::Started(job), &mut effects);
                effects.actions.push(Action::Run(job));
            }
            Stand::Claiming(_) | Stand::Started | Stand::Dropped(_) | Stand::Ended(..) => {}
        }
        effects
    }

    /// What was running has ended.
    pub fn ended(&mut self, now: Moment, job: JobId, how: Ending) -> SiteEffects {
        let mut effects = SiteEffects::default();
        if self.all.get(&job).is_some_and(|copy| copy.stand == Stand::Started) {
            self.note(Event::Ended { job, how }, &mut effects);
            self.say(now, job, &mut effects);
        }
        effects
    }

    /// The site takes a copy out of its queue on its own account. One that runs is not affected.
    pub fn withdraw(&mut self, now: Moment, job: JobId) -> SiteEffects {
        let mut effects = SiteEffects::default();
        if let Some(broker) = self.all.get(&job).map(|copy| copy.broker.clone()) {
            self.drop_copy(now, job, &broker, &mut effects);
        }
        effects
    }

    /// Time has passed: repeats what was not answered, and passes over copies that wait for an answer too long.
    pub fn tick(&mut self, now: Moment) -> SiteEffects {
        let mut effects = SiteEffects::default();
        for (&job, copy) in &mut self.all {
            if matches!(copy.stand, Stand::Claiming(until) if until <= now) {
                copy.stand = Stand::Queued;
                effects.actions.push(Action::PassOver(job));
            } else if copy.stand.is_open() && copy.repeated.is_due(&self.patience, now) {
                effects.send.extend(copy.message(job));
            }
        }
        effects
    }

    /// When [`Copies::tick`] wants to be called next.
    pub fn next_timer(&self) -> Option<Moment> {
        let timers = self.all.values().filter(|copy| copy.stand.is_open()).map(|copy| match copy.stand {
            Stand::Claiming(until) => until.min(copy.repeated.at),
            _ => copy.repeated.at,
        });
        timers.min()
    }

    /// The jobs that have a copy in the queue.
    pub fn queued(&self) -> impl Iterator<Item = JobId> {
        let in_queue = |stand: Stand| matches!(stand, Stand::Queued | Stand::Claiming(_) | Stand::Granted);
        self.all.iter().filter(move |(_, copy)| in_queue(copy.stand)).map(|(&job, _)| job)
    }

    /// The jobs that run.
    pub fn running(&self) -> impl Iterator<Item = JobId> {
        self.all.iter().filter(|(_, copy)| copy.stand == Stand::Started).map(|(&job, _)| job)
    }

    /// Whether no broker needs to be told anything about this job, and nothing is to be done about it.
    pub fn is_over(&self, job: JobId) -> bool {
        let over = |copy: &Copy| matches!(copy.stand, Stand::Dropped(true) | Stand::Ended(_, true));
        self.all.get(&job).is_none_or(over)
    }

    /// Forgets a job that is over. To be done only when no message about it can be under way any more: until then the
    /// memory of it is what a belated copy is recognised by.
    pub fn forget(&mut self, job: JobId) {
        if self.is_over(job) {
            self.all.remove(&job);
        }
    }

    /// Takes an event from the journal.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Queued { job, broker, work } => {
                let work = Some(work.clone());
                let (broker, repeated) = (broker.clone(), Repeated::NEVER);
                self.all.insert(*job, Copy { broker, work, stand: Stand::Queued, repeated });
            }
            Event::Granted(job) => self.set(*job, Stand::Granted),
            Event::Started(job) => self.set(*job, Stand::Started),
            Event::Dropped { job, broker } => {
                let (broker, repeated) = (broker.clone(), Repeated::NEVER);
                self.all.insert(*job, Copy { broker, work: None, stand: Stand::Dropped(false), repeated });
            }
            Event::Ended { job, how } => self.set(*job, Stand::Ended(*how, false)),
            Event::Noted(job) => {
                if let Some(copy) = self.all.get_mut(job) {
                    copy.stand = copy.stand.noted();
                    copy.work = None;
                }
            }
        }
    }

    /// Goes on after a restart, once all events were applied. Copies are in the queue again, also those that may run; what
    /// was started is lost, and its broker is told.
    pub fn resume(&mut self, now: Moment) -> SiteEffects {
        let mut effects = SiteEffects::default();
        let jobs: Vec<JobId> = self.all.keys().copied().collect();
        for job in jobs {
            let Some(copy) = self.all.get(&job) else { continue };
            match (copy.stand, &copy.work) {
                (Stand::Queued | Stand::Granted | Stand::Claiming(_), Some(work)) => {
                    effects.actions.push(Action::Queue { job, work: work.clone() });
                }
                (Stand::Started, _) => {
                    self.note(Event::Ended { job, how: Ending::Lost }, &mut effects);
                    self.say(now, job, &mut effects);
                }
                _ => self.say(now, job, &mut effects),
            }
        }
        effects
    }

    fn note(&mut self, event: Event, effects: &mut SiteEffects) {
        self.apply(&event);
        effects.events.push(event);
    }

    fn set(&mut self, job: JobId, stand: Stand) {
        self.all.entry(job).and_modify(|copy| copy.stand = stand);
    }

    /// Says what the broker is to answer, and from now on repeats it.
    fn say(&mut self, now: Moment, job: JobId, effects: &mut SiteEffects) {
        let Some(copy) = self.all.get_mut(&job) else { return };
        copy.repeated = Repeated::new(&self.patience, now);
        effects.send.extend(copy.message(job));
    }

    fn submitted(&mut self, now: Moment, job: JobId, from: &Name, work: &Work, effects: &mut SiteEffects) {
        let Some(copy) = self.all.get(&job) else {
            self.note(Event::Queued { job, broker: from.clone(), work: work.clone() }, effects);
            effects.actions.push(Action::Queue { job, work: work.clone() });
            return effects.send.push(Outgoing { to: from.clone(), message: JobMessage::Submitted { job } });
        };
        match copy.stand {
            Stand::Dropped(_) | Stand::Ended(..) => self.report(now, job, from, effects),
            Stand::Queued | Stand::Claiming(_) | Stand::Granted | Stand::Started => {
                effects.send.push(Outgoing { to: from.clone(), message: JobMessage::Submitted { job } });
            }
        }
    }

    fn granted(&mut self, now: Moment, job: JobId, from: &Name, effects: &mut SiteEffects) {
        match self.all.get(&job).map(|copy| copy.stand) {
            Some(Stand::Claiming(_)) => {
                self.note(Event::Granted(job), effects);
                effects.actions.push(Action::MayRun(job));
            }
            // The answer came after the copy was passed over: it runs when its turn comes again.
            Some(Stand::Queued) => self.note(Event::Granted(job), effects),
            Some(Stand::Granted | Stand::Started) => {}
            // A copy that is gone, or one that this site has never seen or has forgotten.
            None => self.drop_copy(now, job, from, effects),
            Some(Stand::Dropped(_) | Stand::Ended(..)) => self.report(now, job, from, effects),
        }
    }

    /// Drops what did not start. A copy that is not here is noted all the same, so that one that comes late is known.
    fn drop_copy(&mut self, now: Moment, job: JobId, from: &Name, effects: &mut SiteEffects) {
        match self.all.get(&job).map(|copy| copy.stand) {
            None => self.note(Event::Dropped { job, broker: from.clone() }, effects),
            Some(Stand::Queued | Stand::Claiming(_) | Stand::Granted) => {
                self.note(Event::Dropped { job, broker: from.clone() }, effects);
                effects.actions.push(Action::Remove(job));
            }
            Some(Stand::Started) => return,
            Some(Stand::Dropped(_) | Stand::Ended(..)) => {}
        }
        self.report(now, job, from, effects);
    }

    /// Says again how it ended, also to a broker that was told before: it would not ask if it knew.
    fn report(&mut self, now: Moment, job: JobId, from: &Name, effects: &mut SiteEffects) {
        let Some(copy) = self.all.get_mut(&job) else { return };
        match copy.stand {
            Stand::Dropped(false) | Stand::Ended(_, false) => self.say(now, job, effects),
            Stand::Dropped(true) => {
                effects.send.push(Outgoing { to: from.clone(), message: JobMessage::Dropped { job } });
            }
            Stand::Ended(how, true) => {
                effects.send.push(Outgoing { to: from.clone(), message: JobMessage::Ended { job, how } });
            }
            Stand::Queued | Stand::Claiming(_) | Stand::Granted | Stand::Started => {}
        }
    }

    fn noted(&mut self, job: JobId, effects: &mut SiteEffects) {
        let unknown = |copy: &Copy| matches!(copy.stand, Stand::Dropped(false) | Stand::Ended(_, false));
        if self.all.get(&job).is_some_and(unknown) {
            self.note(Event::Noted(job), effects);
        }
    }
}

impl Stand {
    /// Whether an answer is expected.
    fn is_open(self) -> bool {
        matches!(self, Stand::Claiming(_) | Stand::Dropped(false) | Stand::Ended(_, false))
    }

    /// The same, known to the broker.
    fn noted(self) -> Stand {
        match self {
            Stand::Dropped(_) => Stand::Dropped(true),
            Stand::Ended(how, _) => Stand::Ended(how, true),
            other => other,
        }
    }
}

impl Copy {
    /// What the broker is to answer, if it is to answer something.
    fn message(&self, job: JobId) -> Option<Outgoing> {
        let message = match self.stand {
            Stand::Claiming(_) => JobMessage::Claim { job },
            Stand::Dropped(false) => JobMessage::Dropped { job },
            Stand::Ended(how, false) => JobMessage::Ended { job, how },
            _ => return None,
        };
        Some(Outgoing { to: self.broker.clone(), message })
    }
}
