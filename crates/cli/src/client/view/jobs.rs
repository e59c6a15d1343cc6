//! Jobs for people.

use super::columns::{Columns, NOTHING, or_nothing};
use crate::client::dates::{Dates, length};
use bookahead_api::{Job, JobState};
use std::io::{self, Write, stdout};

/// How a job is, in words.
pub(crate) fn word(job: &Job) -> String {
    let word = match job.state {
        JobState::Placing => "placing",
        JobState::Waiting => "waiting",
        JobState::Claiming => "waiting for its go",
        JobState::Running => "running",
        JobState::Done => return or_nothing(job.exit, |exit| format!("done, exit code {exit}")),
        JobState::Cancelled => "cancelled",
        JobState::OutOfTime => "out of time",
        JobState::ReservationOver => "ended with its reservation",
        JobState::Lost => "lost",
        JobState::CouldNotStart => "could not start",
    };
    word.to_owned()
}

pub(crate) fn print(jobs: &[Job], dates: &Dates) -> io::Result<()> {
    let submitted = format!("submitted ({})", dates.zone_name());
    let mut table = Columns::new(&[
        "job",
        "state",
        "owner",
        "site",
        "resource",
        "capacity",
        "limit",
        &submitted,
        "started",
        "expected",
        "ended",
        "reservation",
        "more",
    ]);
    for job in jobs {
        table.row([
            job.id.to_string(),
            word(job),
            job.owner.to_string(),
            or_nothing(job.site.as_ref(), ToString::to_string),
            or_nothing(job.resource.as_ref(), ToString::to_string),
            job.capacity.to_string(),
            length(job.limit_seconds),
            dates.wall(job.submitted),
            or_nothing(job.started, |at| dates.wall_end(job.submitted, at)),
            or_nothing(job.expected_start, |at| dates.wall_end(job.submitted, at)),
            or_nothing(job.ended, |at| dates.wall_end(job.submitted, at)),
            or_nothing(job.reservation, |id| id.to_string()),
            job.detail.clone().unwrap_or_else(|| NOTHING.to_owned()),
        ]);
    }
    write!(stdout().lock(), "{}", table.table())
}
