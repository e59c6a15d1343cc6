//! What a race of copies is made of: where copies may go, what sites are asked, what their answers mean, what is journalled,
//! and what comes out. Plain values. A passing problem is never taken for an answer.

use crate::clock::Millis;
use crate::ids::{JobId, Key, Name};
use crate::jobs::Patience;
use crate::jobs::words::{Ending, JobAnswer, JobView, JobWord};
use crate::problem::{Problem, Why};
use bookahead_plan::{Seconds, Time};
use serde::{Deserialize, Serialize};

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
#[allow(missing_docs, reason = "`why` is what the site says")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Gone {
    /// The site did not take it, and says why.
    Refused(String),
    /// It was over at the site before it had run.
    NeverRan {
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
#[allow(missing_docs, reason = "`site` is where it ran")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It ran at a site.
    Ended { site: Name, how: Ending },
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

/// What a site tells of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SiteReport {
    /// It waits.
    Waits,
    /// Its turn has come, and it waits for a go.
    Claims,
    /// It runs.
    Runs {
        /// Since when, by the site's clock.
        since: Time,
    },
    /// It is over.
    Ran {
        /// Since when it ran; None where it is lost and may not have run.
        since: Option<Time>,
        /// Until when.
        until: Time,
        /// How that ended.
        how: Ending,
    },
    /// It is over and has not run.
    NeverRan {
        /// Why.
        why: String,
        /// Whether another copy may be sent there: not where somebody cancelled this one.
        again: bool,
    },
    /// The site does not know it.
    Unknown,
    /// The site does not do what was asked, and never will; why.
    Refused(String),
}

impl SiteReport {
    /// What an answer says; None where it says nothing, and should be asked for again.
    pub fn of(answer: &JobAnswer) -> Option<SiteReport> {
        match answer {
            Ok(view) => Some(SiteReport::of_view(view)),
            Err(Problem { why: Why::UnknownJob(_), .. }) => Some(SiteReport::Unknown),
            Err(problem) => problem.why.is_final().then(|| SiteReport::Refused(problem.why.to_string())),
        }
    }

    fn of_view(view: &JobView) -> SiteReport {
        // Where a site does not say when, the job cannot have started before it was submitted, nor ended before it started.
        let since = view.started.unwrap_or(view.submitted);
        let until = view.ended.map_or(since, |ended| ended.max(since));
        let ran = |how| SiteReport::Ran { since: Some(since), until, how };
        match view.state {
            JobWord::Placing | JobWord::Waiting => SiteReport::Waits,
            JobWord::Claiming => SiteReport::Claims,
            JobWord::Running => SiteReport::Runs { since },
            JobWord::Done => ran(Ending::Finished),
            JobWord::OutOfTime => ran(Ending::Failed),
            JobWord::Cancelled | JobWord::ReservationOver if view.started.is_some() => ran(Ending::Failed),
            JobWord::Lost => SiteReport::Ran { since: view.started, until, how: Ending::Lost },
            JobWord::Cancelled | JobWord::ReservationOver => never_ran(view, false),
            JobWord::CouldNotStart => never_ran(view, true),
        }
    }
}

fn never_ran(view: &JobView, again: bool) -> SiteReport {
    let said = view.detail.clone().filter(|detail| !detail.is_empty());
    let why = said.unwrap_or_else(|| "it was ended there before it had run".to_owned());
    SiteReport::NeverRan { why, again }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;
    use bookahead_plan::{Capacity, Seconds};

    fn job(state: JobWord, started: Option<i64>, ended: Option<i64>) -> Box<JobView> {
        Box::new(JobView {
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
        for passing in [Why::Busy, Why::NoBatchSystem, Why::Silence] {
            assert_eq!(of(passing.clone()), None, "{passing:?}");
        }
    }
}
