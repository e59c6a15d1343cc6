//! Data types of a race of copies: places for copies, messages to sites, their reports, journal events, and
//! the outcome. A temporary problem never counts as a report.

use crate::clock::Millis;
use crate::ids::{JobId, Key, Name};
use crate::jobs::Patience;
use crate::jobs::words::{Ending, JobAnswer, JobView, JobWord};
use crate::problem::{Problem, Why};
use bookahead_plan::{Seconds, Time};
use serde::{Deserialize, Serialize};

/// A job to run, and where it could go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// Best first. Of several for one site only the first counts.
    pub entries: Vec<Entry>,
    /// Number of copies that wait at the same time; at least one.
    pub at_once: usize,
    /// Whether the job is itself a copy of another broker's: no copy gets a go before [`super::Race::go`].
    #[serde(default)]
    pub claims: bool,
    /// How often another copy may run after a site lost the one that had a go.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A place for copies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The site.
    pub site: Name,
    /// The resource there.
    pub resource: Name,
    /// Id of the first copy there. Those of later ones are derived from it.
    pub copy: JobId,
    /// Time limit of a copy there.
    pub limit: Seconds,
    /// Latest useful start.
    pub start_by: Option<Time>,
}

/// Id of the first copy of a job at a site, by the site's index in the ranking.
pub fn copy_of(job: JobId, place: usize) -> JobId {
    JobId(Key(job.0).derived(place).0)
}

/// Journal entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The race started with these places.
    Begun(Order),
    /// A copy is about to be sent to this site, under a new id.
    Sent(Name),
    /// This site has acknowledged its copy.
    Queued(Name),
    /// For a job that is itself a copy: it may run, so a claim may be granted.
    Allowed,
    /// The copy at this site may run. No other may, unless this one ends without running. The others are
    /// dropped.
    Granted(Name),
    /// It is too late for a start at this site; its copy is dropped.
    Late(Name),
    /// The owner cancelled the job; all copies are dropped.
    Withdrawn,
    /// The copy at this site is gone.
    Gone {
        /// The site.
        site: Name,
        /// Why it is gone.
        how: Gone,
    },
    /// A copy that counted as gone still exists, and is dropped.
    Found(Name),
    /// The granted copy ended.
    Ended(Ending),
}

/// Why a copy is gone.
#[allow(missing_docs, reason = "`why` is what the site says")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Gone {
    /// The site refused it, for this reason.
    Refused(String),
    /// It ended at the site without running.
    NeverRan {
        why: String,
        /// Whether another copy may be sent there.
        again: bool,
    },
    /// The site no longer knows it. It had no go.
    Lost,
    /// It had a go, and the site says that it runs no more and did not finish. Another copy may run instead.
    LostAfterGo(String),
    /// It was dropped.
    Dropped {
        /// How long it ran without a go, at a site that does not wait for one.
        ran: Seconds,
    },
}

/// The result of a race.
#[allow(missing_docs, reason = "`site` is where it ran")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It ran at a site.
    Ended { site: Name, how: Ending },
    /// Its owner cancelled it before it ran.
    Withdrawn,
    /// No site is left that could run it.
    NowhereLeft,
}

/// Messages to a site. Each can be repeated, and is answered with a report about the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// Queue a copy.
    Submit,
    /// Report on the copy.
    Look,
    /// Run the copy that claims.
    Go,
    /// Cancel the copy, whether it waits or runs.
    Drop,
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outgoing {
    /// The site.
    pub to: Name,
    /// The copy it is about.
    pub copy: JobId,
    /// The message.
    pub ask: Ask,
}

/// A site's answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incoming {
    /// The site.
    pub from: Name,
    /// The copy it is about.
    pub copy: JobId,
    /// The message that it answers.
    pub asked: Ask,
    /// Its content.
    pub report: SiteReport,
}

/// Output, in this order: journal the events, then send, then report the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effects {
    /// To be journalled before anything is sent.
    pub events: Vec<Event>,
    /// To be sent.
    pub send: Vec<Outgoing>,
    /// The result, set once.
    pub outcome: Option<Outcome>,
}

/// Intervals and timeouts of messages to sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pace {
    /// Intervals between repetitions of unanswered messages.
    pub patience: Patience,
    /// Interval between queries of a copy. It grows while its site does not answer.
    pub look_every: Millis,
    /// Time without a report after which another site gets a copy instead.
    pub silence: Millis,
    /// How long a site must report a copy as unknown before it counts as gone. A submission may be in flight
    /// until then; no call is in flight for longer.
    pub doubt: Millis,
}

/// A site's report about a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SiteReport {
    /// It waits in the queue.
    Waits,
    /// Its turn has come; it waits for a go.
    Claims,
    /// It runs.
    Runs {
        /// Start of the run, by the site's clock.
        since: Time,
    },
    /// It has ended.
    Ran {
        /// Start of the run. None if it is lost and may not have run.
        since: Option<Time>,
        /// End of the run.
        until: Time,
        /// How it ended.
        how: Ending,
    },
    /// It ended without running.
    NeverRan {
        /// The site's reason.
        why: String,
        /// Whether another copy may be sent there. Not if this one was cancelled there.
        again: bool,
    },
    /// The site does not know it.
    Unknown,
    /// The site refuses for good, for this reason.
    Refused(String),
}

impl SiteReport {
    /// The report in an answer. None if it contains none and should be requested again.
    pub fn of(answer: &JobAnswer) -> Option<SiteReport> {
        match answer {
            Ok(view) => Some(SiteReport::of_view(view)),
            Err(Problem { why: Why::UnknownJob(_), .. }) => Some(SiteReport::Unknown),
            Err(problem) => problem.why.is_final().then(|| SiteReport::Refused(problem.why.to_string())),
        }
    }

    fn of_view(view: &JobView) -> SiteReport {
        // If a site reports no times: a job cannot start before its submission, nor end before its start.
        let since = view.started.unwrap_or(view.submitted);
        let until = view.ended.map_or(since, |ended| ended.max(since));
        let ran = |how| SiteReport::Ran { since: Some(since), until, how };
        match view.state {
            JobWord::Placing | JobWord::Waiting => SiteReport::Waits,
            JobWord::Claiming => SiteReport::Claims,
            JobWord::Running => SiteReport::Runs { since },
            JobWord::Done => ran(Ending::Finished),
            JobWord::OutOfTime => ran(Ending::Failed),
            // Lost with a node.
            _ if view.runs.node_failed && view.started.is_some() => ran(Ending::Lost),
            JobWord::Cancelled | JobWord::ReservationOver if view.started.is_some() => ran(Ending::Failed),
            JobWord::Lost => SiteReport::Ran { since: view.started, until, how: Ending::Lost },
            JobWord::Cancelled | JobWord::ReservationOver => never_ran(view, false),
            JobWord::CouldNotStart => never_ran(view, true),
        }
    }
}

fn never_ran(view: &JobView, again: bool) -> SiteReport {
    let said = view.detail.clone().filter(|detail| !detail.is_empty());
    let why = said.unwrap_or_else(|| "it was cancelled at the site before it ran".to_owned());
    SiteReport::NeverRan { why, again }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;
    use bookahead_plan::{Capacity, Seconds};

    fn job(state: JobWord, started: Option<i64>, ended: Option<i64>) -> Box<JobView> {
        Box::new(JobView {
            rerun: Default::default(),
            runs: Default::default(),
            id: JobId(1),
            owner: "ada".into(),
            site: None,
            resource: None,
            reservation: None,
            capacity: Capacity(1),
            limit: Seconds(60),
            state,
            submitted: Time(100),
            started: started.map(Time),
            ended: ended.map(Time),
            expected_start: None,
            exit: None,
            native_id: None,
            detail: None,
            description: Default::default(),
        })
    }

    fn of(state: JobWord, started: Option<i64>) -> SiteReport {
        SiteReport::of(&Ok(job(state, started, Some(130)))).unwrap()
    }

    #[test]
    fn a_job_that_was_ended_while_it_ran_has_run_and_one_that_was_ended_before_has_not() {
        let ran = |how| SiteReport::Ran { since: Some(Time(120)), until: Time(130), how };
        assert_eq!(of(JobWord::Cancelled, Some(120)), ran(Ending::Failed));
        assert_eq!(of(JobWord::Lost, Some(120)), ran(Ending::Lost));
        assert_eq!(of(JobWord::Done, Some(120)), ran(Ending::Finished));
        assert!(matches!(of(JobWord::Cancelled, None), SiteReport::NeverRan { again: false, .. }));
        assert!(matches!(of(JobWord::CouldNotStart, None), SiteReport::NeverRan { again: true, .. }));
        assert_eq!(of(JobWord::Waiting, None), SiteReport::Waits);
        assert_eq!(of(JobWord::Claiming, None), SiteReport::Claims);
    }

    #[test]
    fn a_job_that_is_lost_may_have_run_or_not() {
        let lost = SiteReport::Ran { since: None, until: Time(130), how: Ending::Lost };
        assert_eq!(of(JobWord::Lost, None), lost);
    }

    #[test]
    fn an_end_without_a_start_is_taken_for_a_run_of_no_length() {
        let done = SiteReport::of(&Ok(job(JobWord::Done, None, Some(90)))).unwrap();
        let how = Ending::Finished;
        assert_eq!(done, SiteReport::Ran { since: Some(Time(100)), until: Time(100), how });
    }

    #[test]
    fn only_an_answer_that_stays_the_same_is_a_refusal() {
        let of = |why| SiteReport::of(&Err(Problem::new(why)));
        assert_eq!(of(Why::UnknownJob(JobId(1))), Some(SiteReport::Unknown));
        assert_eq!(of(Why::JobRefused("no".into())), Some(SiteReport::Refused("no".into())));
        assert!(matches!(of(Why::Circle), Some(SiteReport::Refused(_))));
        for passing in [Why::Busy, Why::NoBatchSystem, Why::ClockInDoubt, Why::Silence] {
            assert_eq!(of(passing.clone()), None, "{passing:?}");
        }
    }
}
