//! One copy of a job: how things stand with it, and when its site is asked what. It changes by events; what is only known from
//! answers is forgotten by a restart, and asked for again.

use super::words::{Ask, Entry, Outgoing, Pace};
use crate::clock::{Millis, Moment};
use crate::jobs::flooding::Ending;
use crate::jobs::patience::{Patience, Repeated};
use bookahead_plan::{Seconds, Time};

/// While a site is silent its copy is looked at less often, down to once in so many times the usual pause.
const RAREST: i64 = 8;

/// A copy, or a place for one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    pub(super) entry: Entry,
    pub(super) stand: Stand,
    /// When its site is asked next.
    pub(super) repeated: Repeated,
    /// When its site last told how it is, in this life of the broker.
    pub(super) heard: Option<Moment>,
    /// When it was sent, or when this life began.
    pub(super) since: Moment,
    /// That it was seen to run, or to have run.
    pub(super) sighted: Option<Sighted>,
    /// Since when its site does not know it.
    pub(super) unknown: Option<Moment>,
    /// Whether its site has been silent for so long that another got a copy in its place.
    pub(super) replaced: bool,
}

/// A run that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Sighted {
    /// Since when it runs.
    pub(super) since: Time,
    /// How it ended, if it has.
    pub(super) over: Option<Ending>,
}

/// How things stand with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stand {
    /// Not sent.
    Unasked,
    /// Sent, not acknowledged.
    Sent,
    /// The site has it.
    Queued,
    /// To be dropped, not acknowledged.
    Dropping,
    /// It is gone, one way or the other.
    Gone,
}

impl Stand {
    /// Whether it may start, and that is wanted.
    pub(super) fn may_start(self) -> bool {
        matches!(self, Stand::Sent | Stand::Queued)
    }

    /// What its site is asked.
    pub(super) fn ask(self) -> Option<Ask> {
        match self {
            Stand::Sent => Some(Ask::Submit),
            Stand::Queued => Some(Ask::Look),
            Stand::Dropping => Some(Ask::Drop),
            Stand::Unasked | Stand::Gone => None,
        }
    }
}

impl Copy {
    pub(super) fn new(entry: Entry) -> Copy {
        Copy {
            entry,
            stand: Stand::Unasked,
            repeated: Repeated::NEVER,
            heard: None,
            since: Moment(0),
            sighted: None,
            unknown: None,
            replaced: false,
        }
    }

    /// Asks its site what is to be asked, and from now on again and again.
    pub(super) fn ask(&mut self, now: Moment, pace: &Pace) -> Option<Outgoing> {
        let ask = self.stand.ask()?;
        self.repeated = Repeated::new(&self.patience(pace), now);
        Some(self.outgoing(ask))
    }

    /// Asks again where that is due.
    pub(super) fn ask_again(&mut self, now: Moment, pace: &Pace) -> Option<Outgoing> {
        let ask = self.stand.ask()?;
        let patience = self.patience(pace);
        self.repeated.is_due(&patience, now).then(|| self.outgoing(ask))
    }

    fn outgoing(&self, ask: Ask) -> Outgoing {
        Outgoing { to: self.entry.site.clone(), copy: self.entry.copy, ask }
    }

    fn patience(&self, pace: &Pace) -> Patience {
        match self.stand {
            Stand::Queued => {
                Patience { first: pace.look_every, longest: Millis(pace.look_every.0.saturating_mul(RAREST)) }
            }
            _ => pace.patience,
        }
    }

    /// Its site has told something of it.
    pub(super) fn heard(&mut self, now: Moment, pace: &Pace) {
        (self.heard, self.unknown, self.replaced) = (Some(now), None, false);
        if self.stand == Stand::Queued {
            self.repeated = Repeated::new(&self.patience(pace), now);
        }
    }

    /// Its site says that it does not know it. Whether that has been so for long enough to be believed.
    pub(super) fn is_unknown(&mut self, now: Moment, pace: &Pace) -> bool {
        let since = *self.unknown.get_or_insert(now);
        self.heard = Some(now);
        now >= since + pace.doubt
    }

    /// Whether it waits, as far as is known, at a site that is not silent.
    pub(super) fn is_present(&self, now: Moment, pace: &Pace) -> bool {
        self.stand.may_start() && now < self.silent_at(pace)
    }

    /// When its site counts as silent, if nothing is heard before.
    pub(super) fn silent_at(&self, pace: &Pace) -> Moment {
        self.heard.unwrap_or(self.since) + pace.silence
    }

    /// Whether it may have started before this without our knowing: its site has told nothing of it since.
    pub(super) fn may_run_since(&self, before: Moment) -> bool {
        let unseen = self.stand.may_start() && self.sighted.is_none();
        unseen && self.heard.is_none_or(|heard| heard < before)
    }

    /// When it is too late for it to start.
    pub(super) fn start_by(&self) -> Option<Moment> {
        let waits = matches!(self.stand, Stand::Unasked | Stand::Sent | Stand::Queued);
        self.entry.start_by.filter(|_| waits && self.sighted.is_none()).map(Moment::of)
    }
}

/// For how long something ran, by clocks that may disagree.
pub(super) fn length(since: Time, until: Time) -> Seconds {
    Seconds((until - since).0.max(0))
}
