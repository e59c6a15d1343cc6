//! The copies of a job at one site, one at a time: how things stand with the present one, and when the site is asked what. It
//! changes by events; what is only known from answers is forgotten by a restart, and asked for again.

use super::messages::{Ask, Entry, Outgoing, Pace};
use crate::clock::{Millis, Moment};
use crate::ids::{JobId, Key};
use crate::jobs::{Patience, Repeated};

/// While a site is silent its copy is looked at less often, down to once in so many times the usual pause.
const RAREST: i64 = 8;

/// A site where so many copies were over without having run gets no more: one may have got no go because the broker was away,
/// but a site where it happens again and again cannot run the job.
const MOST_FAILURES: u32 = 3;

/// A site of the ranking, and the copy there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    pub(super) entry: Entry,
    pub(super) state: CopyState,
    /// How many copies were sent there.
    pub(super) sent: usize,
    /// How many of them were over without having run, and were not dropped.
    pub(super) failed: u32,
    /// Whether the site gets no more copies: it refused one, somebody cancelled one there, or it is too late.
    pub(super) closed: bool,
    /// When the site is asked next.
    pub(super) repeated: Repeated,
    /// When it last told how the copy is, in this life of the broker.
    pub(super) heard: Option<Moment>,
    /// When the copy was sent, or when this life began.
    pub(super) since: Moment,
    /// Whether it claimed when the site last told of it.
    pub(super) claims: bool,
    /// Whether it was seen to run.
    pub(super) runs: bool,
    /// Since when the site does not know it.
    pub(super) unknown: Option<Moment>,
    /// Whether the site has been silent for so long that another got a copy in its place.
    pub(super) replaced: bool,
}

/// How things stand with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CopyState {
    /// None was sent.
    Unasked,
    /// Sent, not acknowledged.
    Sent,
    /// The site has it.
    Queued,
    /// It may run.
    Granted,
    /// To be dropped, not acknowledged.
    Dropping,
    /// It is gone, one way or the other.
    Gone,
}

impl CopyState {
    /// Whether it waits for its turn, as far as is known.
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

    /// The id of the present copy.
    pub(super) fn id(&self) -> JobId {
        self.id_of(self.sent)
    }

    /// The ids of all that were sent.
    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> {
        (1..=self.sent).map(|number| self.id_of(number))
    }

    fn id_of(&self, number: usize) -> JobId {
        match number {
            0 | 1 => self.entry.copy,
            later => JobId(Key(self.entry.copy.0).derived(later).0),
        }
    }

    /// A new copy is about to be sent.
    pub(super) fn send_another(&mut self) {
        self.sent += 1;
        self.state = CopyState::Sent;
        (self.heard, self.claims, self.runs, self.unknown, self.replaced) = (None, false, false, None, false);
    }

    /// Whether the site may get another copy, once the present one is gone.
    pub(super) fn is_eligible(&self) -> bool {
        !self.closed && self.failed < MOST_FAILURES
    }

    /// Whether the site may get another copy now.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, CopyState::Unasked | CopyState::Gone) && self.is_eligible()
    }

    /// What the site is asked.
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

    /// Asks the site what is to be asked, and from now on again and again.
    pub(super) fn ask(&mut self, now: Moment, pace: &Pace) -> Option<Outgoing> {
        let ask = self.question()?;
        self.repeated = Repeated::new(&self.patience(pace), now);
        Some(self.outgoing(ask))
    }

    /// Asks again where that is due.
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

    /// The site has told something of it.
    pub(super) fn heard(&mut self, now: Moment, pace: &Pace) {
        (self.heard, self.unknown, self.replaced) = (Some(now), None, false);
        if matches!(self.state, CopyState::Queued | CopyState::Granted) {
            self.repeated = Repeated::new(&self.patience(pace), now);
        }
    }

    /// The site says that it does not know it. Whether that has been so for long enough to be believed.
    pub(super) fn is_unknown(&mut self, now: Moment, pace: &Pace) -> bool {
        let since = *self.unknown.get_or_insert(now);
        self.heard = Some(now);
        now >= since + pace.doubt
    }

    /// Whether it waits, as far as is known, at a site that is not silent.
    pub(super) fn is_present(&self, now: Moment, pace: &Pace) -> bool {
        self.state.waits() && now < self.silent_at(pace)
    }

    /// When the site counts as silent, if nothing is heard before.
    pub(super) fn silent_at(&self, pace: &Pace) -> Moment {
        self.heard.unwrap_or(self.since) + pace.silence
    }

    /// When it is too late for a start there.
    pub(super) fn start_by(&self) -> Option<Moment> {
        let open = self.is_eligible() && self.state != CopyState::Granted;
        self.entry.start_by.filter(|_| open).map(Moment::of)
    }
}
