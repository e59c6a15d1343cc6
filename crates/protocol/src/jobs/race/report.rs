//! What a site's answer about a copy means to the race of its copies. Relies on the words that sites use for all jobs; it
//! never takes a passing problem for an answer.

use crate::jobs::words::{Ending, JobView, JobWord};
use crate::problem::{Problem, Why};
use bookahead_plan::Time;

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
    pub fn of(answer: &Result<Box<JobView>, Problem>) -> Option<SiteReport> {
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
