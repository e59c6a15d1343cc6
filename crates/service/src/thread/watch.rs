//! Watchers: each gets every notice once and in order, from its start or from an event that it has seen. Recent
//! notices are kept in memory; a watcher that returns later than that must query everything again. The same holds
//! for a slow watcher, which delays no others.

use bookahead_api as api;
use bookahead_api::OutOfCalendar;
use bookahead_party::Notice;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Notices kept for watchers that return: a few megabytes.
const REMEMBERED: usize = 8_192;

/// Notices that may wait for a slow watcher.
const WAITING: usize = 1_024;

/// A notice with its event number.
#[derive(Debug, Clone)]
pub struct Numbered {
    /// Number of its event in the journal.
    pub sequence: u64,
    /// The notice.
    pub notice: Notice,
}

impl Numbered {
    /// The notice as the API has it.
    pub(crate) fn event(&self) -> Result<api::Event, OutOfCalendar> {
        let Numbered { sequence, notice } = self;
        let missing = notice.missing.as_ref();
        let could_begin = missing.into_iter().flat_map(|missing| &missing.could_begin);
        Ok(api::Event {
            reservation: notice.id,
            job: notice.job.map(|job| job.id),
            job_state: notice.job.map(|job| job.state.into()),
            exit: notice.job.and_then(|job| job.exit),
            owner: notice.owner.clone(),
            state: notice.state.map(Into::into),
            version: notice.version,
            because: notice.because.map(ToOwned::to_owned),
            missing: missing.map(|missing| missing.capacity.0),
            could_begin: could_begin.filter_map(|begin| (*begin).try_into().ok()).collect(),
            ..api::Event::new(*sequence, notice.at, notice.kind)?
        })
    }
}

/// Notices for watchers that return after a restart.
#[derive(Debug, Default)]
pub struct Recent {
    notices: VecDeque<Numbered>,
    /// Notices up to this event are not known.
    forgotten: u64,
}

impl Recent {
    /// Nothing is known up to this event.
    pub fn after(forgotten: u64) -> Recent {
        Recent { notices: VecDeque::new(), forgotten }
    }

    /// Adds a notice.
    pub fn add(&mut self, numbered: Numbered) {
        if self.notices.len() == REMEMBERED
            && let Some(oldest) = self.notices.pop_front()
        {
            self.forgotten = oldest.sequence;
        }
        self.notices.push_back(numbered);
    }
}

/// All watchers.
#[derive(Debug)]
pub struct Watch {
    sender: broadcast::Sender<Numbered>,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    notices: VecDeque<Numbered>,
    /// Notices since the start by kind, of which there are few.
    counts: BTreeMap<&'static str, u64>,
    /// Notices up to this event are no longer in memory.
    forgotten: u64,
}

/// Initial state of a watcher.
pub struct Watching {
    /// Missed notices, as far as they are in memory.
    pub missed: Vec<Numbered>,
    /// Whether older notices were missed, so that the watcher must query everything again.
    pub anew: bool,
    /// New notices.
    pub receiver: broadcast::Receiver<Numbered>,
}

impl Watch {
    /// Starts without watchers, with the notices of a restart.
    pub fn new(recent: Recent) -> Watch {
        let (sender, _) = broadcast::channel(WAITING);
        let Recent { notices, forgotten } = recent;
        Watch { sender, last: Mutex::new(Last { notices, forgotten, ..Last::default() }) }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, numbered: Numbered) {
        let mut last = self.last();
        if last.notices.len() == REMEMBERED
            && let Some(oldest) = last.notices.pop_front()
        {
            last.forgotten = oldest.sequence;
        }
        *last.counts.entry(numbered.notice.kind).or_default() += 1;
        last.notices.push_back(numbered.clone());
        // Under the lock, so that a new watcher gets each notice either as missed or from the channel, never both.
        let _ = self.sender.send(numbered);
    }

    /// Number of notices since the start, by kind.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.last().counts.clone()
    }

    /// Watches from now on, or after the last event seen.
    pub fn begin(&self, seen: Option<u64>) -> Watching {
        let last = self.last();
        // While `last` is locked: `tell` cannot add a notice between the subscription and the list.
        let receiver = self.sender.subscribe();
        let Some(seen) = seen else { return Watching { missed: Vec::new(), anew: false, receiver } };
        let missed = last.notices.iter().filter(|numbered| numbered.sequence > seen).cloned().collect();
        Watching { missed, anew: seen < last.forgotten, receiver }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_protocol::{Moment, ReservationId};

    fn numbered(sequence: u64) -> Numbered {
        let notice = Notice { id: None, ..Notice::about(Moment(0), "begun", ReservationId(1)) };
        Numbered { sequence, notice }
    }

    #[test]
    fn who_comes_back_gets_what_he_missed_or_is_told_to_look_anew() {
        let watch = Watch::new(Recent::after(10));
        (11..=20).for_each(|sequence| watch.tell(numbered(sequence)));
        let back = watch.begin(Some(17));
        assert_eq!(back.missed.iter().map(|one| one.sequence).collect::<Vec<_>>(), [18, 19, 20]);
        assert!(!back.anew);
        assert!(watch.begin(Some(9)).anew && !watch.begin(Some(10)).anew && !watch.begin(None).anew);
        (21..=21 + REMEMBERED as u64).for_each(|sequence| watch.tell(numbered(sequence)));
        assert!(watch.begin(Some(17)).anew);
        assert_eq!(watch.begin(Some(0)).missed.len(), REMEMBERED);
    }

    #[test]
    fn notices_of_before_a_restart_are_told_again_and_not_counted() {
        let mut recent = Recent::after(3);
        recent.add(numbered(5));
        let watch = Watch::new(recent);
        assert!(watch.begin(Some(2)).anew && watch.counts().is_empty());
        let back = watch.begin(Some(3));
        assert!(!back.anew && back.missed.len() == 1);
        let mut many = Recent::default();
        (1..=REMEMBERED as u64 + 1).for_each(|sequence| many.add(numbered(sequence)));
        assert_eq!((many.notices.len(), many.forgotten), (REMEMBERED, 1));
    }

    #[test]
    fn a_watcher_gets_each_notice_once() {
        let watch = Watch::new(Recent::default());
        watch.tell(numbered(1));
        let mut back = watch.begin(Some(0));
        watch.tell(numbered(2));
        assert_eq!(back.missed.len(), 1);
        assert_eq!(back.receiver.try_recv().map(|one| one.sequence).ok(), Some(2));
        assert!(back.receiver.try_recv().is_err());
    }
}
