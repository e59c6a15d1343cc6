//! What a race of copies is made of: where copies may go, what sites are asked, what is journalled, and what comes out. Plain
//! values; nothing here decides.

use super::report::SiteReport;
use crate::clock::Millis;
use crate::ids::{JobId, Key, Name};
use crate::jobs::patience::Patience;
use crate::jobs::words::Ending;
use bookahead_plan::{Seconds, Time};
use serde::{Deserialize, Serialize};

/// How long a site should keep the room of a copy that claims, before it ends the copy without having run it: several times
/// as long as the slowest broker takes to look at all its copies, and short enough that a broker that died wastes little.
pub const GO_WITHIN: Millis = Millis::seconds(120);

/// What is to be run, and where it could go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// The best first; of several for one site the first counts.
    pub entries: Vec<Entry>,
    /// How many copies wait at the same time; at least one.
    pub at_once: usize,
    /// Whether the job is itself a copy of another broker's: no copy gets a go before [`super::Race::go`].
    #[serde(default)]
    pub claims: bool,
}

/// A place for copies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The site.
    pub site: Name,
    /// The machine there.
    pub resource: Name,
    /// The id of the first copy there; those of later ones follow from it.
    pub copy: JobId,
    /// How long a copy may run there.
    pub limit: Seconds,
    /// Latest useful start.
    pub start_by: Option<Time>,
}

/// The id of the first copy of a job at a site, by the site's place in the ranking.
pub fn copy_of(job: JobId, place: usize) -> JobId {
    JobId(Key(job.0).derived(place).0)
}

/// What must not be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The job is to be sent to the best of these.
    Begun(Order),
    /// A copy is about to be sent to this site, under an id that was not used before.
    Sent(Name),
    /// This site has its copy.
    Queued(Name),
    /// Of a job that is itself a copy: it may run, so that a claim may be granted.
    Allowed,
    /// The copy at this site may run, and no other unless this one is over without having run. The others are dropped.
    Granted(Name),
    /// Too late for a start at this site; its copy is dropped.
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
    /// The copy that had the go is over.
    Ended(Ending),
}

/// What became of a copy that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Gone {
    /// The site did not take it, and says why.
    Refused(String),
    /// It was over at the site before it had run.
    NeverRan {
        /// Why.
        why: String,
        /// Whether another copy may be sent there.
        again: bool,
    },
    /// The site knows nothing of it any more. It had no go.
    Lost,
    /// It was dropped.
    Dropped {
        /// How long it had run without a go, at a site that does not wait for one.
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
    /// Its owner took it back before it ran.
    Withdrawn,
    /// No site is left where it could run.
    NowhereLeft,
}

/// What a site is asked. Every question can be repeated, and is answered with how the copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// Queue a copy.
    Submit,
    /// How is the copy?
    Look,
    /// Run the copy that claims.
    Go,
    /// End the copy, whether it waits or runs.
    Drop,
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

/// An answer of a site.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incoming {
    /// Of which site.
    pub from: Name,
    /// About which copy.
    pub copy: JobId,
    /// What was asked.
    pub asked: Ask,
    /// How the copy is.
    pub report: SiteReport,
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
