//! One job that was sent to several sites, at the broker: which copy may run, and which are still to be dropped. It never
//! grants two claims.

use super::{Ending, JobMessage, Outgoing, Work};
use crate::clock::Moment;
use crate::ids::{JobId, Name};
use crate::jobs::patience::{Patience, Repeated};

/// What must not be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The job is about to be sent to these sites.
    Begun {
        /// Where, and as what: the estimate differs from site to site.
        copies: Vec<(Name, Work)>,
        /// How often unanswered messages are repeated.
        patience: Patience,
    },
    /// This site may run it, and no other ever.
    Granted(Name),
    /// No site may run it: its owner does not want it any more.
    Withdrawn,
    /// There is no copy at this site any more.
    Dropped(Name),
    /// It ran.
    Ended(Ending),
}

/// What became of the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It ran at a site.
    Ended {
        /// Where.
        site: Name,
        /// How that ended.
        how: Ending,
    },
    /// Its owner took it back before it ran.
    Withdrawn,
    /// Every site dropped its copy before one ran.
    NowhereLeft,
}

/// What is to be done, in this order: journal the events, then send, then tell the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FloodEffects {
    /// To be journalled before anything is sent.
    pub events: Vec<Event>,
    /// To be sent.
    pub send: Vec<Outgoing>,
    /// What became of the job, once.
    pub outcome: Option<Outcome>,
}

/// One job at several sites.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Flood {
    job: JobId,
    copies: Vec<Copy>,
    patience: Patience,
    granted: Option<Name>,
    withdrawn: bool,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Copy {
    site: Name,
    work: Work,
    stand: Stand,
    repeated: Repeated,
}

/// How things stand with one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stand {
    /// Sent, not acknowledged.
    Sent,
    /// The site has it.
    Queued,
    /// To be dropped, not acknowledged.
    Dropping,
    /// It is gone, one way or the other.
    Gone,
}

impl Flood {
    /// Nothing sent yet.
    pub fn new(job: JobId) -> Flood {
        Flood {
            job,
            copies: Vec::new(),
            patience: Patience::default(),
            granted: None,
            withdrawn: false,
            outcome: None,
        }
    }

    /// Sends a copy to each of these sites, one to a site. Does nothing where that was done before.
    pub fn start(&mut self, now: Moment, copies: Vec<(Name, Work)>, patience: Patience) -> FloodEffects {
        let mut effects = FloodEffects::default();
        if self.copies.is_empty() && self.outcome.is_none() {
            let mut one_each: Vec<(Name, Work)> = Vec::new();
            for (site, work) in copies {
                if !one_each.iter().any(|(known, _)| *known == site) {
                    one_each.push((site, work));
                }
            }
            self.note(Event::Begun { copies: one_each, patience }, &mut effects);
            self.send_open(now, &mut effects);
        }
        effects
    }

    /// A site says something about this job.
    pub fn on_message(&mut self, now: Moment, from: &Name, message: &JobMessage) -> FloodEffects {
        let mut effects = FloodEffects::default();
        if message.job() != self.job {
            return effects;
        }
        match message {
            JobMessage::Submitted { .. } => self.submitted(from),
            JobMessage::Claim { .. } => self.claimed(now, from, &mut effects),
            JobMessage::Dropped { job } => {
                let noted = JobMessage::Noted { job: *job };
                effects.send.push(Outgoing { to: from.clone(), message: noted });
                self.dropped(from, &mut effects);
            }
            JobMessage::Ended { job, how } => {
                let noted = JobMessage::Noted { job: *job };
                effects.send.push(Outgoing { to: from.clone(), message: noted });
                self.ended(from, *how, &mut effects);
            }
            // These go the other way.
            JobMessage::Submit { .. }
            | JobMessage::Granted { .. }
            | JobMessage::Denied { .. }
            | JobMessage::Drop { .. }
            | JobMessage::Noted { .. } => {}
        }
        effects
    }

    /// The owner does not want it any more. Once a site was granted the job, it is too late for that.
    pub fn withdraw(&mut self, now: Moment) -> FloodEffects {
        let mut effects = FloodEffects::default();
        if self.granted.is_none() && self.outcome.is_none() && !self.withdrawn {
            self.note(Event::Withdrawn, &mut effects);
            self.send_open(now, &mut effects);
        }
        effects
    }

    /// Time has passed: repeats what was not answered.
    pub fn tick(&mut self, now: Moment) -> FloodEffects {
        let mut effects = FloodEffects::default();
        let patience = self.patience;
        for copy in self.copies.iter_mut().filter(|copy| copy.stand.is_open()) {
            if copy.repeated.is_due(&patience, now) {
                effects.send.extend(copy.message(self.job));
            }
        }
        effects
    }

    /// When [`Flood::tick`] wants to be called next.
    pub fn next_timer(&self) -> Option<Moment> {
        self.copies.iter().filter(|copy| copy.stand.is_open()).map(|copy| copy.repeated.at).min()
    }

    /// The site that may run it, once there is one.
    pub fn granted(&self) -> Option<&Name> {
        self.granted.as_ref()
    }

    /// What became of the job, once that is known.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether the job is done with and no copy is left anywhere. From then on its messages may be answered by
    /// [`answer_stranger`].
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && self.copies.iter().all(|copy| copy.stand == Stand::Gone)
    }

    /// Takes an event from the journal.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Begun { copies, patience } => {
                self.patience = *patience;
                self.copies = copies.iter().map(|(site, work)| Copy::new(site, work)).collect();
            }
            Event::Granted(winner) => {
                self.granted = Some(winner.clone());
                for copy in self.copies.iter_mut().filter(|copy| copy.stand != Stand::Gone) {
                    copy.stand = if copy.site == *winner { Stand::Queued } else { Stand::Dropping };
                }
            }
            Event::Withdrawn => {
                self.withdrawn = true;
                let left = self.copies.iter_mut().filter(|copy| copy.stand != Stand::Gone);
                left.for_each(|copy| copy.stand = Stand::Dropping);
            }
            Event::Dropped(site) => self.gone(site),
            Event::Ended(_) => self.granted.clone().iter().for_each(|site| self.gone(site)),
        }
        self.outcome = self.outcome.take().or_else(|| self.concluded(event));
    }

    /// Goes on after a restart, once all events were applied: says again whatever may not have been heard.
    pub fn resume(&mut self, now: Moment) -> FloodEffects {
        let mut effects = FloodEffects::default();
        self.send_open(now, &mut effects);
        effects
    }

    /// Takes an event, and tells the outcome with the one that decides it.
    fn note(&mut self, event: Event, effects: &mut FloodEffects) {
        let was_open = self.outcome.is_none();
        self.apply(&event);
        effects.events.push(event);
        if was_open {
            effects.outcome = self.outcome.clone();
        }
    }

    fn submitted(&mut self, from: &Name) {
        let sent = self.copies.iter_mut().filter(|copy| copy.site == *from && copy.stand == Stand::Sent);
        sent.for_each(|copy| copy.stand = Stand::Queued);
    }

    /// The first claim is granted, a repeated one again, as long as the job has not ended; all others are denied.
    fn claimed(&mut self, now: Moment, from: &Name, effects: &mut FloodEffects) {
        let has_copy = self.copies.iter().any(|copy| copy.site == *from && copy.stand.may_run());
        if self.granted.is_none() && !self.withdrawn && has_copy {
            self.note(Event::Granted(from.clone()), effects);
            self.send_open(now, effects);
        }
        let its_own = self.granted.as_ref() == Some(from) && self.outcome.is_none();
        let job = self.job;
        let message = if its_own { JobMessage::Granted { job } } else { JobMessage::Denied { job } };
        effects.send.push(Outgoing { to: from.clone(), message });
    }

    fn dropped(&mut self, from: &Name, effects: &mut FloodEffects) {
        if self.copies.iter().any(|copy| copy.site == *from && copy.stand != Stand::Gone) {
            self.note(Event::Dropped(from.clone()), effects);
        }
    }

    fn ended(&mut self, from: &Name, how: Ending, effects: &mut FloodEffects) {
        if self.granted.as_ref() == Some(from) && self.outcome.is_none() {
            self.note(Event::Ended(how), effects);
        }
    }

    fn gone(&mut self, site: &Name) {
        let left = self.copies.iter_mut().filter(|copy| copy.site == *site);
        left.for_each(|copy| copy.stand = Stand::Gone);
    }

    /// What has become of the job by this event, if that is decided now.
    fn concluded(&self, event: &Event) -> Option<Outcome> {
        match event {
            Event::Ended(how) => Some(Outcome::Ended { site: self.granted.clone()?, how: *how }),
            Event::Withdrawn => Some(Outcome::Withdrawn),
            Event::Begun { .. } | Event::Dropped(_) => {
                let left = match &self.granted {
                    Some(winner) => {
                        self.copies.iter().any(|copy| copy.site == *winner && copy.stand.may_run())
                    }
                    None => self.copies.iter().any(|copy| copy.stand != Stand::Gone),
                };
                (!left).then_some(Outcome::NowhereLeft)
            }
            Event::Granted(_) => None,
        }
    }

    /// Says to every site that owes an answer what it is to answer.
    fn send_open(&mut self, now: Moment, effects: &mut FloodEffects) {
        let patience = self.patience;
        for copy in self.copies.iter_mut().filter(|copy| copy.stand.is_open()) {
            copy.repeated = Repeated::new(&patience, now);
            effects.send.extend(copy.message(self.job));
        }
    }
}

impl Stand {
    /// Whether an answer is expected.
    fn is_open(self) -> bool {
        matches!(self, Stand::Sent | Stand::Dropping)
    }

    /// Whether the site may have a copy that nobody told it to drop.
    fn may_run(self) -> bool {
        matches!(self, Stand::Sent | Stand::Queued)
    }
}

impl Copy {
    fn new(site: &Name, work: &Work) -> Copy {
        Copy { site: site.clone(), work: work.clone(), stand: Stand::Sent, repeated: Repeated::NEVER }
    }

    fn message(&self, job: JobId) -> Option<Outgoing> {
        let message = match self.stand {
            Stand::Sent => JobMessage::Submit { job, work: self.work.clone() },
            Stand::Dropping => JobMessage::Drop { job },
            Stand::Queued | Stand::Gone => return None,
        };
        Some(Outgoing { to: self.site.clone(), message })
    }
}

/// The answer of a broker that does not know the job, or does not any more: whatever a site has of it is not to run.
/// Since a job is journalled before it is sent, an unknown one has been settled.
pub fn answer_stranger(message: &JobMessage) -> Option<JobMessage> {
    let job = message.job();
    match message {
        JobMessage::Claim { .. } | JobMessage::Submitted { .. } => Some(JobMessage::Denied { job }),
        JobMessage::Dropped { .. } | JobMessage::Ended { .. } => Some(JobMessage::Noted { job }),
        JobMessage::Submit { .. }
        | JobMessage::Granted { .. }
        | JobMessage::Denied { .. }
        | JobMessage::Drop { .. }
        | JobMessage::Noted { .. } => None,
    }
}
