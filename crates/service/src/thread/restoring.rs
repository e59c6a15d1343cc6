//! Restores a party from its journal, one event after the other, and finds the notices and the usage that were not
//! recorded before it ended. Memory for events is needed only for those.

use super::{Numbered, PartyError, PartyOptions, Recent};
use crate::journal::{Journal, Record, Restore, Snapshot};
use bookahead_party::{Party, Subject};
use bookahead_protocol::Moment;

/// A party restored from its journal.
pub(super) struct Opened<P: Party> {
    pub(super) party: P,
    pub(super) journal: Journal<P::Event>,
    pub(super) last: u64,
    /// Number of the last event that a snapshot covers.
    pub(super) last_snapshot: u64,
    /// Wall-clock time of the last write.
    pub(super) newest: Option<Moment>,
    pub(super) recent: Recent,
}

/// A party being restored.
pub(super) struct Restoring<'a, P: Party> {
    options: &'a PartyOptions,
    party: P,
    last: u64,
    last_snapshot: u64,
    newest: Option<i64>,
    /// Number of events after the snapshot.
    pub(super) events: u64,
    /// Owners have got their notices up to this event.
    told: u64,
    /// The history has everything up to this event.
    recorded: u64,
    /// Notices after one of these two.
    notices: Vec<Numbered>,
    /// Subjects of events that the history lacks.
    subjects: Vec<Subject>,
    recent: Recent,
    failed: Option<PartyError>,
}

impl<'a, P: Party> Restoring<'a, P> {
    pub(super) fn new(options: &'a PartyOptions, party: P) -> Restoring<'a, P> {
        Restoring {
            options,
            party,
            last: 0,
            last_snapshot: 0,
            newest: None,
            events: 0,
            told: u64::MAX,
            recorded: u64::MAX,
            notices: Vec::new(),
            subjects: Vec::new(),
            recent: Recent::default(),
            failed: None,
        }
    }

    fn try_begin(&mut self, snapshot: Option<Snapshot>) -> Result<(), PartyError> {
        let PartyOptions { outbox, history, clock, .. } = self.options;
        if let Some(snapshot) = snapshot {
            let state = snapshot.state()?;
            drop(snapshot);
            self.party.restore(state).map_err(|why| self.options.unfit(why))?;
        }
        // Owners get notices for events that they were not notified of before.
        if let Some(outbox) = outbox {
            self.told = outbox.open(self.last_snapshot, self.last).map_err(PartyError::Outbox)?;
        }
        if let Some(history) = history {
            self.recorded = history.open(self.last_snapshot, self.last, clock.now().second());
        }
        Ok(())
    }

    /// The restored party. The journal is verified.
    pub(super) fn opened(self, journal: Journal<P::Event>) -> Result<Opened<P>, PartyError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let Restoring { party, last, last_snapshot, newest, notices, recent, .. } = self;
        if let Some(outbox) = &self.options.outbox {
            let untold = notices.iter().filter(|numbered| numbered.sequence > self.told);
            outbox.note(last, untold.map(|numbered| (numbered.sequence, &numbered.notice)));
        }
        if let Some(history) = &self.options.history {
            let notices = notices.iter().filter(|numbered| numbered.sequence > self.recorded);
            history.note(last, self.subjects.into_iter(), notices);
        }
        Ok(Opened { party, journal, last, last_snapshot, newest: newest.map(Moment), recent })
    }
}

impl<P: Party> Restore<P::Event> for Restoring<'_, P> {
    fn begin(&mut self, snapshot: Option<Snapshot>, last: u64) {
        self.last = last;
        self.last_snapshot = snapshot.as_ref().map_or(0, |snapshot| snapshot.up_to);
        self.newest = snapshot.as_ref().map(|snapshot| snapshot.written_at);
        self.recent = Recent::after(self.last_snapshot);
        self.failed = self.try_begin(snapshot).err();
    }

    fn event(&mut self, Record { sequence, written_at, event }: Record<P::Event>) {
        if self.failed.is_some() {
            return;
        }
        self.events += 1;
        self.newest = self.newest.max(Some(written_at));
        self.party.apply(&event);
        let subject = P::subject(&event);
        // Those of jobs are known only when they happen.
        if matches!(subject, Some(Subject::Job(_))) {
            self.recent = Recent::after(sequence);
        }
        self.subjects.extend(subject.filter(|_| sequence > self.recorded));
        let Some(notice) = self.party.notice_of(self.options.clock.now(), &event) else { return };
        if sequence > self.told.min(self.recorded) {
            self.notices.push(Numbered { sequence, notice: notice.clone() });
        }
        self.recent.add(Numbered { sequence, notice });
    }
}
