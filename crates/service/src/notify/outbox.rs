//! Notices to deliver, and the last event of the journal that they cover. The journal is authoritative: later
//! events are found there after a restart. So the file may lag by a second, and must be current only before a
//! snapshot replaces events ([`Outbox::settle`]). Notices delivered since the last write are delivered again, with
//! the same id.

use super::target::{self, Letter, Target};
use crate::state_file::StateFile;
use bookahead_api as api;
use bookahead_party::Notice;
use bookahead_protocol::Name;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Most notices that may wait for one target: a few megabytes. Further ones are dropped and counted as failed.
const MOST_WAITING: usize = 10_000;

/// The file is also written when it is this many events behind, even without new notices. It bounds the events to
/// scan after a restart.
const EVENTS_BEHIND: u64 = 10_000;

/// How long a snapshot waits until the events before it are durable.
const PATIENCE: Duration = Duration::from_secs(30);

/// Notices to deliver.
pub struct Outbox {
    service: Name,
    place: StateFile,
    pub(super) targets: Vec<Target>,
    queues: Mutex<Queues>,
    /// Signals that events were processed.
    seen: Condvar,
    /// Held while the file is written, so that an older state never replaces a newer one.
    writing: Mutex<()>,
    /// One per target: signals a new notice.
    pub(super) came: Vec<Notify>,
    /// Signals that the file is out of date.
    pub(super) stale: Notify,
}

#[derive(Default)]
struct Queues {
    /// Random number of the journal, so that notice ids differ from those of an earlier journal.
    epoch: u64,
    /// All events up to this one are delivered or queued.
    seen: u64,
    /// The value of `seen` in the file.
    written: u64,
    /// One queue per target, keyed by event number.
    waiting: Vec<BTreeMap<u64, Letter>>,
    counts: Vec<Counts>,
}

/// Counters of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) delivered: u64,
    /// Given up, or dropped because the queue was full.
    pub(crate) failed: u64,
    pub(crate) waiting: usize,
}

/// Contents of the file.
#[derive(Serialize, Deserialize)]
struct Written {
    epoch: u64,
    seen: u64,
    waiting: Vec<Letter>,
}

impl Outbox {
    pub(super) fn new(service: Name, place: StateFile, targets: Vec<Target>) -> Outbox {
        let queues = Queues {
            waiting: targets.iter().map(|_| BTreeMap::new()).collect(),
            counts: vec![Counts::default(); targets.len()],
            ..Queues::default()
        };
        Outbox {
            service,
            place,
            came: targets.iter().map(|_| Notify::new()).collect(),
            targets,
            queues: Mutex::new(queues),
            seen: Condvar::new(),
            writing: Mutex::default(),
            stale: Notify::new(),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the file. `last` is the last event of the journal, and events up to `snapshot` are gone. Returns the
    /// last event that needs no more processing. Without a file, only new events lead to notices.
    pub(crate) fn open(&self, snapshot: u64, last: u64) -> io::Result<u64> {
        let written = match self.place.read()? {
            Some(bytes) => serde_json::from_slice::<Written>(&bytes).map_err(|why| {
                let advice = "remove it to notify owners of new events only";
                io::Error::new(ErrorKind::InvalidData, format!("{}: {why}; {advice}", self.place))
            })?,
            None => Written::new(last)?,
        };
        // The journal is shorter than the outbox says, so it is another journal.
        let written = if written.seen > last { Written::new(last)? } else { written };
        if written.seen < snapshot {
            let event = "notices_lost";
            tracing::error!(event, party = %self.service, "no notices were sent for some events before the last snapshot");
        }
        let mut queues = self.queues();
        (queues.epoch, queues.seen) = (written.epoch, written.seen);
        for letter in written.waiting {
            self.put(&mut queues, letter);
        }
        drop(queues);
        self.save()?;
        Ok(written.seen)
    }

    /// Processes all events up to `last`.
    pub(crate) fn note<'a>(&self, last: u64, notices: impl Iterator<Item = (u64, &'a Notice)>) {
        let mut queues = self.queues();
        let mut came = false;
        // After a restart the journal repeats events that the file covers already.
        for (sequence, notice) in notices.filter(|(sequence, _)| *sequence > queues.seen).collect::<Vec<_>>()
        {
            for letter in self.letters(queues.epoch, sequence, notice) {
                came |= self.put(&mut queues, letter);
            }
        }
        queues.seen = queues.seen.max(last);
        if came || queues.seen - queues.written >= EVENTS_BEHIND {
            self.stale.notify_one();
        }
        self.seen.notify_all();
    }

    /// One notice for the command, and one for the webhook of the reservation.
    fn letters(&self, epoch: u64, sequence: u64, notice: &Notice) -> Vec<Letter> {
        let (Some(what), Some(reservation), Some(owner)) =
            (notice.told_owner(), notice.id, notice.owner.as_ref())
        else {
            return Vec::new();
        };
        let id = format!("ntc_{epoch:016x}_{sequence}");
        let Ok(at) = notice.at.try_into() else { return Vec::new() };
        let begins = notice.missing.iter().flat_map(|missing| &missing.could_begin);
        let document = api::Notice {
            id: id.clone(),
            service: self.service.clone(),
            reservation,
            owner: owner.clone(),
            what: what.to_owned(),
            at,
            because: notice.because.map(ToOwned::to_owned),
            state: notice.state.map(Into::into),
            version: notice.version,
            missing: notice.missing.as_ref().map(|missing| missing.capacity.0),
            could_begin: begins.filter_map(|begin| (*begin).try_into().ok()).collect(),
        };
        // Serialization of these types cannot fail.
        let body = serde_json::to_string(&document).unwrap_or_default();
        let since_ms = u64::try_from(target::now().as_millis()).unwrap_or(u64::MAX);
        let letter = Letter { sequence, id, reservation, webhook: None, since_ms, body };
        let to_webhook =
            notice.webhook.clone().map(|webhook| Letter { webhook: Some(webhook.into()), ..letter.clone() });
        [letter].into_iter().chain(to_webhook).collect()
    }

    /// Queues a notice. Returns `false` if it has no target, or the queue is full.
    fn put(&self, queues: &mut Queues, letter: Letter) -> bool {
        let is_for = |target: &Target| target.is_for(letter.webhook.as_deref());
        let Some(at) = self.targets.iter().position(is_for) else {
            if let Some(webhook) = &letter.webhook {
                let (event, id) = ("notice_dropped", &letter.id);
                tracing::warn!(
                    event,
                    id,
                    webhook,
                    "notice dropped: no [[notify.webhook]] covers the webhook any more"
                );
            }
            return false;
        };
        if queues.waiting[at].len() >= MOST_WAITING {
            let (event, id, to) = ("notice_dropped", &letter.id, self.targets[at].name());
            tracing::error!(event, id, to, "notice dropped: {MOST_WAITING} notices are waiting already");
            queues.counts[at].failed += 1;
            return false;
        }
        queues.waiting[at].insert(letter.sequence, letter);
        self.came[at].notify_one();
        true
    }

    /// Visits the first waiting notice of each reservation for a target, in order of events, until `visit` stops.
    pub(super) fn visit_first(&self, at: usize, mut visit: impl FnMut(&Letter) -> ControlFlow<()>) {
        let queues = self.queues();
        let mut seen = BTreeSet::new();
        for letter in queues.waiting[at].values().filter(|letter| seen.insert(letter.reservation)) {
            if visit(letter).is_break() {
                return;
            }
        }
    }

    /// A notice was delivered or given up.
    pub(super) fn done(&self, at: usize, sequence: u64, delivered: bool) {
        let mut queues = self.queues();
        queues.waiting[at].remove(&sequence);
        let counts = &mut queues.counts[at];
        *(if delivered { &mut counts.delivered } else { &mut counts.failed }) += 1;
        self.stale.notify_one();
    }

    /// Names and counters of the targets.
    pub(crate) fn counts(&self) -> Vec<(String, Counts)> {
        let queues = self.queues();
        let counts = queues.counts.iter().zip(&queues.waiting);
        let counts = counts.map(|(counts, waiting)| Counts { waiting: waiting.len(), ..*counts });
        self.targets.iter().map(Target::name).zip(counts).collect()
    }

    /// Why a webhook cannot be used; names the setting that would allow it.
    pub(crate) fn refuses(&self, webhook: &str) -> Option<String> {
        if let Err(why) = super::prefix::sound(webhook) {
            return Some(format!("cannot use the webhook {}: {why}", webhook.escape_debug()));
        }
        let covered = self.targets.iter().any(|target| target.is_for(Some(webhook)));
        (!covered).then(|| not_allowed(webhook))
    }

    /// Waits until all events up to this one are processed, and writes the file. Required before a snapshot
    /// replaces the events.
    pub(crate) fn settle(&self, up_to: u64) -> io::Result<()> {
        let behind = |queues: &mut Queues| queues.seen < up_to;
        let waited = self.seen.wait_timeout_while(self.queues(), PATIENCE, behind);
        let (queues, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(queues);
        if waited.timed_out() {
            return Err(io::Error::new(ErrorKind::TimedOut, "events are not durable yet"));
        }
        self.save()
    }

    /// Writes the file.
    pub(crate) fn save(&self) -> io::Result<()> {
        // `queues` is not locked while the file is written, so that the party never waits for the disk here.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = self.queues();
        let waiting = queues.waiting.iter().flat_map(BTreeMap::values).cloned().collect();
        let written = Written { epoch: queues.epoch, seen: queues.seen, waiting };
        drop(queues);
        self.place.write(&serde_json::to_vec(&written)?)?;
        self.queues().written = written.seen;
        Ok(())
    }
}

/// Error text for a webhook that the configuration does not allow.
pub(crate) fn not_allowed(webhook: &str) -> String {
    format!(
        "the webhook {} is not below an allowed URL; the operator allows one with \
         [[notify.webhook]] prefix in the configuration",
        webhook.escape_debug()
    )
}

impl Written {
    /// An outbox without notices that covers all events up to `seen`.
    fn new(seen: u64) -> io::Result<Written> {
        let mut bytes = [0; 8];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| io::Error::other("the system provides no random numbers"))?;
        Ok(Written { epoch: u64::from_be_bytes(bytes), seen, waiting: Vec::new() })
    }
}
