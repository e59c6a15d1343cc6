//! The copies of a job at one site, one at a time: the state of the current one, and when to send which
//! message. State changes by events. Information from answers only is lost in a restart, and requested again.

use super::messages::{Ask, Entry, Outgoing, Pace};
use crate::clock::{Millis, Moment};
use crate::ids::{JobId, Key};
use crate::jobs::{Patience, Repeated};

/// Factor by which the interval of queries grows at most, while a site does not answer.
const RAREST: i64 = 8;

/// Number of failed copies after which a site gets no more. One failure may be due to a broker outage (no go
/// in time); repeated failures mean that the site cannot run the job.
const MOST_FAILURES: u32 = 3;

/// A ranked site and its current copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    pub(super) entry: Entry,
    pub(super) state: CopyState,
    /// Number of copies sent there.
    pub(super) sent: usize,
    /// Number of copies that ended without running and were not dropped.
    pub(super) failed: u32,
    /// Whether the site gets no more copies: it refused one, one was cancelled there, it lost one that ran, or it is too late.
    pub(super) closed: bool,
    /// Timer of the next message to the site.
    pub(super) repeated: Repeated,
    /// Last report about the copy since the broker started.
    pub(super) heard: Option<Moment>,
    /// When the copy was sent, or when the broker started.
    pub(super) since: Moment,
    /// Whether the last report said that it claims.
    pub(super) claims: bool,
    /// Whether it was reported as running.
    pub(super) runs: bool,
    /// Since when the site reports it as unknown.
    pub(super) unknown: Option<Moment>,
    /// Whether another site got a copy in its place, because this one did not answer.
    pub(super) replaced: bool,
}

/// State of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CopyState {
    /// Not sent.
    Unasked,
    /// Sent, not acknowledged.
    Sent,
    /// Acknowledged by the site.
    Queued,
    /// It may run.
    Granted,
    /// To be dropped, not acknowledged.
    Dropping,
    /// It no longer exists at the site, for whatever reason.
    Gone,
}

impl CopyState {
    /// Whether it waits for its turn, according to the last report.
    pub(super) fn waits(self) -> bool {
        matches!(self, CopyState::Sent | CopyState::Queued)
    }
}

impl Copy {
    pub(super) fn new(entry: Entry) -> Copy {
        Copy {
            entry,
            state: CopyState::Unasked,
            sent: 0,
            failed: 0,
            closed: false,
            repeated: Repeated::NEVER,
            heard: None,
            since: Moment(0),
            claims: false,
            runs: false,
            unknown: None,
            replaced: false,
        }
    }

    /// Id of the current copy.
    pub(super) fn id(&self) -> JobId {
        self.id_of(self.sent)
    }

    /// Ids of all copies sent.
    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> {
        (1..=self.sent).map(|number| self.id_of(number))
    }

    fn id_of(&self, number: usize) -> JobId {
        match number {
            0 | 1 => self.entry.copy,
            // Derived, not random: after a crash the same ids follow from the journal.
            later => JobId(Key(self.entry.copy.0).derived(later).0),
        }
    }

    pub(super) fn send_another(&mut self) {
        self.sent += 1;
        self.state = CopyState::Sent;
        (self.heard, self.claims, self.runs, self.unknown, self.replaced) = (None, false, false, None, false);
    }

    /// Whether the site may get another copy, once the current one is gone.
    pub(super) fn is_eligible(&self) -> bool {
        !self.closed && self.failed < MOST_FAILURES
    }

    /// Whether the site may get another copy now.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, CopyState::Unasked | CopyState::Gone) && self.is_eligible()
    }

    /// The message to send to the site in this state.
    pub(super) fn question(&self) -> Option<Ask> {
        match self.state {
            CopyState::Sent => Some(Ask::Submit),
            CopyState::Queued => Some(Ask::Look),
            CopyState::Granted if self.runs => Some(Ask::Look),
            CopyState::Granted => Some(Ask::Go),
            CopyState::Dropping => Some(Ask::Drop),
            CopyState::Unasked | CopyState::Gone => None,
        }
    }

    /// Sends the message for this state and starts its repetition timer.
    pub(super) fn ask(&mut self, now: Moment, pace: &Pace) -> Option<Outgoing> {
        let ask = self.question()?;
        self.repeated = Repeated::new(&self.patience(pace), now);
        Some(self.outgoing(ask))
    }

    /// Repeats the message if that is due.
    pub(super) fn ask_again(&mut self, now: Moment, pace: &Pace) -> Option<Outgoing> {
        let ask = self.question()?;
        let patience = self.patience(pace);
        self.repeated.is_due(&patience, now).then(|| self.outgoing(ask))
    }

    fn outgoing(&self, ask: Ask) -> Outgoing {
        Outgoing { to: self.entry.site.clone(), copy: self.id(), ask }
    }

    fn patience(&self, pace: &Pace) -> Patience {
        match self.question() {
            Some(Ask::Look) => {
                Patience { first: pace.look_every, longest: Millis(pace.look_every.0.saturating_mul(RAREST)) }
            }
            _ => pace.patience,
        }
    }

    /// Records that the site reported something about it.
    pub(super) fn heard(&mut self, now: Moment, pace: &Pace) {
        (self.heard, self.unknown, self.replaced) = (Some(now), None, false);
        self.ask_soon(now, pace);
    }

    /// The site answers, so queries need not be rare any more.
    fn ask_soon(&mut self, now: Moment, pace: &Pace) {
        if matches!(self.state, CopyState::Queued | CopyState::Granted) {
            self.repeated = Repeated::new(&self.patience(pace), now);
        }
    }

    /// Records that the site does not know it. Returns whether that has lasted long enough to be believed.
    pub(super) fn is_unknown(&mut self, now: Moment, pace: &Pace) -> bool {
        let since = *self.unknown.get_or_insert(now);
        self.heard = Some(now);
        self.ask_soon(now, pace);
        now >= since + pace.doubt
    }

    /// Whether it waits at a site that answers.
    pub(super) fn is_present(&self, now: Moment, pace: &Pace) -> bool {
        self.state.waits() && now < self.silent_at(pace)
    }

    /// When the site counts as silent without a further report.
    pub(super) fn silent_at(&self, pace: &Pace) -> Moment {
        self.heard.unwrap_or(self.since) + pace.silence
    }

    /// Latest useful start there, while it can still matter.
    pub(super) fn start_by(&self) -> Option<Moment> {
        let open = self.is_eligible() && self.state != CopyState::Granted;
        self.entry.start_by.filter(|_| open).map(Moment::of)
    }
}
