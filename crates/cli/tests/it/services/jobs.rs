//! Programs at a site that is killed: each runs once, whether the site is running or not, and no cancelled program
//! keeps running.

use super::asking::{Asker, book, new_id, soon, together};
use super::grid::{Grid, site};
use super::{kill_each_time, runtime};
use crate::folder::share;
use crate::service::PROGRAMS;
use bookahead_api as api;
use bookahead_client::{ClientError, make};
use bookahead_protocol::{JobId, State};
use bookahead_service::thread::Point;
use bookahead_tests::polling::until_async;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The jobs of a user, and the files by which they are found.
struct Errands {
    ada: Asker,
    folder: PathBuf,
}

impl Errands {
    fn new(grid: &Grid) -> Errands {
        let north = grid.of("north");
        let folder = north.config().with_file_name("traces");
        fs::create_dir_all(&folder).unwrap();
        share(&folder);
        Errands { ada: grid.asker("north"), folder }
    }

    fn trace(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// One program in a reservation, one in the queue, and one that is cancelled.
    async fn run(&self) {
        let booked = self.ada.get(book(new_id(), together(vec![soon(4, 600)]))).await;
        assert_eq!(booked.state, State::Committed);
        let waiting = self.job("reserved", Some(booked.id));
        let queued = self.job("queued", None);
        let endless = self.endless();
        for (job, key) in [&waiting, &queued, &endless] {
            self.submit(job, key).await;
        }
        let pid =
            until_async(async || fs::read_to_string(self.trace("pid")).map_err(|why| why.to_string())).await;
        self.cancel(endless.0.id.unwrap()).await;
        for (name, (job, key)) in [("reserved", &waiting), ("queued", &queued)] {
            let done = self.over(job.id.unwrap()).await;
            assert_eq!((done.state, done.exit), (api::JobState::Done, Some(0)), "{done:?}");
            // The same call is the same job, which has ended.
            assert_eq!(self.submit(job, key).await, done);
            assert_eq!(fs::read_to_string(self.trace(name)).unwrap(), "ran\n", "{name} should run once");
        }
        assert_eq!(self.over(endless.0.id.unwrap()).await.state, api::JobState::Cancelled);
        until_async(async || {
            let process = Path::new("/proc").join(pid.trim());
            if process.exists() { Err(format!("{} is gone", process.display())) } else { Ok(()) }
        })
        .await;
        let jobs = self.ada.client().jobs(&api::JobsQuery::default()).await;
        assert!(jobs.is_ok_and(|all| all.jobs.len() == 3), "each is there once");
    }

    fn job(
        &self,
        name: &str,
        reservation: Option<bookahead_protocol::ReservationId>,
    ) -> (api::SubmitJob, String) {
        let text = format!("#!/bin/sh\necho ran >> '{}'\n", self.trace(name).display());
        with_key(json!({
            "id": make::job_id().unwrap(), "reservation": reservation, "capacity": 2, "limit_seconds": 60,
            "work": {"type": "script", "text": text}
        }))
    }

    fn endless(&self) -> (api::SubmitJob, String) {
        let pid = self.trace("pid");
        let text =
            format!("#!/bin/sh\necho $$ > '{0}.new'\nmv '{0}.new' '{0}'\nexec sleep 300\n", pid.display());
        with_key(json!({
            "id": make::job_id().unwrap(), "capacity": 1, "limit_seconds": 600,
            "work": {"type": "script", "text": text}
        }))
    }

    /// Repeats a call until there is an answer.
    async fn submit(&self, job: &api::SubmitJob, key: &str) -> api::Job {
        until_async(async || passing(self.ada.client().submit(job, key).await)).await
    }

    async fn cancel(&self, id: JobId) {
        until_async(async || passing(self.ada.client().cancel_job(id).await)).await;
    }

    /// Waits until the job is in a final state.
    async fn over(&self, id: JobId) -> api::Job {
        until_async(async || {
            let job = passing(self.ada.client().job(id).await)?;
            if job.state.is_over() { Ok(job) } else { Err(format!("{job:?}")) }
        })
        .await
    }
}

fn with_key(document: serde_json::Value) -> (api::SubmitJob, String) {
    (serde_json::from_value(document).unwrap(), make::key().unwrap().to_string())
}

/// Fails unless the error is temporary.
fn passing<T>(answer: Result<T, ClientError>) -> Result<T, String> {
    answer.map_err(|why| if why.may_pass() { why.to_string() } else { panic!("{why:?}") })
}

/// Whether the site passes a point this often; if so, it was killed there.
async fn crash_at(point: Point, count: u32) -> bool {
    let mut grid = Grid::new();
    grid.label = format!("{point:?} {count}");
    let stop_at = format!("{}:{count}", point.word());
    grid.start("site", "north", &site("north", PROGRAMS), Some(&stop_at)).await;
    let errands = Errands::new(&grid);
    let mut crashed = false;
    tokio::select! {
        () = errands.run() => {}
        never = grid.kill_when_stopped("north", &mut crashed) => match never {},
    }
    grid.check_journals();
    crashed || grid.of("north").is_stopped()
}

at_each_point!(wherever_a_site_is_killed_programs_run_once_and_none_runs_on_that_was_given_up: kill_at);

fn kill_at(point: Point) {
    // A site only answers, one message at a time, so that nothing is ever sent in part.
    let fewest = if point == Point::Sending { 0 } else { 6 };
    kill_each_time(fewest, async |count| crash_at(point, count).await);
}

#[test]
fn a_job_does_not_wait_for_ever_in_a_booking_that_shrank() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", PROGRAMS), None).await;
        let errands = Errands::new(&grid);
        let ada = errands.ada.client();
        let booked = errands.ada.get(book(new_id(), together(vec![soon(4, 600)]))).await;
        let (mut job, key) = errands.job("reserved", Some(booked.id));
        job.capacity = 4;
        errands.submit(&job, &key).await;
        let from = booked.slots[0].interval.begin.try_into().unwrap();
        let release = |end_jobs| api::Release { part: None, from, keep: 1, end_jobs };
        let refused = ada.release(booked.id, &release(false)).await.unwrap_err();
        let id = job.id.unwrap();
        let problem = refused.problem().unwrap_or_else(|| panic!("{refused:?}"));
        assert!(problem.code == "jobs-inside" && problem.detail.contains(&id.to_string()), "{problem:?}");
        let released = ada.release(booked.id, &release(true)).await.unwrap();
        assert_eq!(released.slots[0].capacity, 1);
        assert_eq!(errands.over(id).await.state, api::JobState::Cancelled);
        grid.check_journals();
    });
}
