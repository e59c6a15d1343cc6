//! What a race of copies is made of: where copies may go, what is asked and told, what is journalled, and what comes out. Plain
//! values; nothing here decides.

use crate::clock::Millis;
use crate::ids::{JobId, Key, Name};
use crate::jobs::flooding::Ending;
use crate::jobs::patience::Patience;
use bookahead_plan::{Seconds, Time};
use serde::{Deserialize, Serialize};

/// A place for a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The site.
    pub site: Name,
    /// The machine there.
    pub resource: Name,
    /// What the copy is called there.
    pub copy: JobId,
    /// How long it may run there.
    pub limit: Seconds,
    /// It is of no use if it has not started by then.
    pub start_by: Option<Time>,
}

/// The id of a copy, by its place among all: the same whenever it is made anew, so that a repeated submission is known.
pub fn copy_of(job: JobId, place: usize) -> JobId {
    JobId(Key(job.0).derived(place).0)
}

/// What must not be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The job is to be sent to the best of these.
    Begun {
        /// Where it could go, the best first, each site once.
        entries: Vec<Entry>,
        /// So many copies wait at the same time.
        at_once: usize,
    },
    /// A copy is about to be sent to this site.
    Sent(Name),
    /// This site has its copy.
    Queued(Name),
    /// This copy was the first to start; all others are dropped.
    Won(Name),
    /// This copy has not started in time, and is dropped.
    Late(Name),
    /// The owner does not want it any more; all copies are dropped.
    Withdrawn,
    /// There is no copy at this site any more.
    Gone {
        /// Where.
        site: Name,
        /// What became of it.
        how: Gone,
    },
    /// A copy that counted as gone is there after all, and is dropped.
    Found(Name),
    /// The copy that won is over.
    Ended(Ending),
}

/// What became of a copy that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Gone {
    /// The site did not take it, and says why.
    Refused(String),
    /// It was ended at the site before it had run, and why.
    Ended(String),
    /// The site knows nothing of it any more.
    Lost,
    /// It was dropped.
    Dropped {
        /// How long it had run in vain.
        ran: Seconds,
    },
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
    /// Its owner took it back before a copy was known to run.
    Withdrawn,
    /// No site is left where it could run.
    NowhereLeft,
}

/// What a site is asked. Every question can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// Queue a copy; where it is known, say how it is.
    Submit,
    /// How is the copy?
    Look,
    /// End the copy, whether it waits or runs.
    Drop,
}

/// What a site tells of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Told {
    /// It waits.
    Waits,
    /// It runs.
    Runs {
        /// Since when, by the site's clock.
        since: Time,
    },
    /// It ran, and is over.
    Ran {
        /// Since when.
        since: Time,
        /// Until when.
        until: Time,
        /// How that ended.
        how: Ending,
    },
    /// It is over and has not run; why.
    NeverRan(String),
    /// The site does not know it.
    Unknown,
    /// The site does not do what was asked, and never will; why.
    Refused(String),
}

/// A question to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outgoing {
    /// To which site.
    pub to: Name,
    /// About which copy.
    pub copy: JobId,
    /// What.
    pub ask: Ask,
}

/// What is to be done, in this order: journal the events, then send, then tell the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effects {
    /// To be journalled before anything is sent.
    pub events: Vec<Event>,
    /// To be sent.
    pub send: Vec<Outgoing>,
    /// What became of the job, once.
    pub outcome: Option<Outcome>,
}

/// How often sites are asked, and what their silence means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pace {
    /// How often what is to be done is said again until it is answered.
    pub patience: Patience,
    /// How often a copy is looked at; less often while its site is silent.
    pub look_every: Millis,
    /// A site that has said nothing of its copy for so long is silent: another one gets a copy in its place.
    pub silence: Millis,
    /// A copy that its site does not know counts as gone if that is so for this long: until then a submission may be under
    /// way. No call is under way for longer.
    pub doubt: Millis,
}
