//! What a site's answer about a copy of a job means to the race of its copies.

use bookahead_api as api;
use bookahead_protocol::jobs::flooding::Ending;
use bookahead_protocol::jobs::race::Told;

/// What an answer says; None where it says nothing, and should be asked for again.
pub(super) fn told(answer: &Result<Box<api::Job>, api::Problem>) -> Option<Told> {
    match answer {
        Ok(job) => Some(of_job(job)),
        Err(problem) if problem.code == api::Code::UnknownJob.word() => Some(Told::Unknown),
        Err(problem) if problem.is_final() => Some(Told::Refused(problem.detail.clone())),
        Err(_) => None,
    }
}

fn of_job(job: &api::Job) -> Told {
    let started = job.started.map(api::Timestamp::time);
    // Where a site does not say when, the job cannot have started before it was submitted, nor ended before it started.
    let since = started.unwrap_or_else(|| job.submitted.time());
    let until = job.ended.map_or(since, api::Timestamp::time).max(since);
    let ran = |how| Told::Ran { since, until, how };
    match job.state {
        api::JobState::Placing | api::JobState::Waiting => Told::Waits,
        api::JobState::Running => Told::Runs { since },
        api::JobState::Done => ran(Ending::Finished),
        api::JobState::OutOfTime => ran(Ending::Failed),
        api::JobState::Cancelled | api::JobState::ReservationOver if started.is_some() => ran(Ending::Failed),
        api::JobState::Lost if started.is_some() => ran(Ending::Lost),
        api::JobState::Cancelled
        | api::JobState::ReservationOver
        | api::JobState::Lost
        | api::JobState::CouldNotStart => Told::NeverRan(why_not(job)),
    }
}

fn why_not(job: &api::Job) -> String {
    let said = job.detail.clone().filter(|detail| !detail.is_empty());
    said.unwrap_or_else(|| "it was ended there before it had run".to_owned())
}

/// The copy of a job as the job itself.
pub(super) fn as_the_job(copy: &api::Job, job: &api::Job) -> api::Job {
    api::Job {
        id: job.id,
        owner: job.owner.clone(),
        site: job.site.clone(),
        submitted: job.submitted,
        ..copy.clone()
    }
}

/// When the first of some copies would start, by the plans of their sites.
pub(super) fn earliest<'a>(copies: impl Iterator<Item = &'a api::Job>) -> Option<api::Timestamp> {
    copies.filter_map(|copy| copy.expected_start).min_by_key(|start| start.time())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Time;

    fn job(state: api::JobState, started: Option<i64>, ended: Option<i64>) -> Box<api::Job> {
        let stamp = |second: i64| api::Timestamp::nearest(Time(second));
        Box::new(api::Job {
            id: bookahead_protocol::JobId(1),
            owner: "ada".into(),
            site: None,
            resource: None,
            reservation: None,
            capacity: 1,
            limit_seconds: 60,
            state,
            submitted: stamp(100),
            started: started.map(stamp),
            ended: ended.map(stamp),
            expected_start: None,
            exit: None,
            detail: None,
        })
    }

    #[test]
    fn a_job_that_was_ended_while_it_ran_has_run_and_one_that_was_ended_before_has_not() {
        let of = |state, started| told(&Ok(job(state, started, Some(130)))).unwrap();
        let ran = |how| Told::Ran { since: Time(120), until: Time(130), how };
        assert_eq!(of(api::JobState::Cancelled, Some(120)), ran(Ending::Failed));
        assert_eq!(of(api::JobState::Lost, Some(120)), ran(Ending::Lost));
        assert_eq!(of(api::JobState::Done, Some(120)), ran(Ending::Finished));
        assert!(matches!(of(api::JobState::Cancelled, None), Told::NeverRan(_)));
        assert!(matches!(of(api::JobState::Lost, None), Told::NeverRan(_)));
        assert_eq!(of(api::JobState::Waiting, None), Told::Waits);
    }

    #[test]
    fn what_a_site_does_not_say_is_taken_so_that_nothing_is_wasted_that_was_not() {
        let done = told(&Ok(job(api::JobState::Done, None, Some(90)))).unwrap();
        assert_eq!(done, Told::Ran { since: Time(100), until: Time(100), how: Ending::Finished });
    }

    #[test]
    fn only_an_answer_that_stays_the_same_is_a_refusal() {
        let of = |code| told(&Err(api::Problem::new(code, "so it is")));
        assert_eq!(of(api::Code::UnknownJob), Some(Told::Unknown));
        assert_eq!(of(api::Code::JobRefused), Some(Told::Refused("so it is".into())));
        assert_eq!(of(api::Code::Circle), Some(Told::Refused("so it is".into())));
        for passing in [api::Code::Unavailable, api::Code::TooManyRequests, api::Code::Unauthenticated] {
            assert_eq!(of(passing), None, "{passing:?}");
        }
    }
}
