//! A flooded job at sites that run programs, through a broker that is killed: one copy runs, the others are withdrawn,
//! and no copy is left when the owner cancels the job.

use super::asking::Asker;
use super::grid::{Grid, knows, site};
use super::process::Began;
use super::{kill_each_time, runtime};
use crate::folder::share;
use crate::service::PROGRAMS;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options, make};
use bookahead_protocol::{JobId, Name};
use bookahead_service::thread::Point;
use bookahead_tests::polling::until_async;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SITES: [&str; 2] = ["north", "south"];
const LOOK: &str = "job_look = \"100ms\"";

/// Two sites that run programs, and a broker that stops at a point, if one is given. Also returns whether the broker
/// stopped before it was ready, and was killed and restarted.
async fn grid(stop_at: Option<&str>) -> (Grid, bool) {
    let mut grid = Grid::new();
    for name in SITES {
        grid.start("site", name, &site(name, PROGRAMS), None).await;
    }
    let text = grid.broker_of("grid", LOOK, &SITES);
    let stopped = grid.start("broker", "grid", &text, stop_at).await == Began::Stopped;
    if stopped {
        grid.of_mut("grid").restart().await;
    }
    (grid, stopped)
}

/// A user with one job, and the files by which its copies are found.
struct Owner {
    broker: Asker,
    /// A client of the broker that makes each call once and accepts a missing answer.
    once: Client,
    sites: Vec<(Name, Client)>,
    folder: PathBuf,
    job: api::SubmitJob,
    key: String,
}

impl Owner {
    fn new(grid: &Grid) -> Owner {
        let folder = grid.of("grid").config().with_file_name("traces");
        fs::create_dir_all(&folder).unwrap();
        share(&folder);
        let text = format!(
            "#!/bin/sh\necho $$ > '{0}'/$BOOKAHEAD_JOB.new\nmv '{0}'/$BOOKAHEAD_JOB.new '{0}'/$BOOKAHEAD_JOB\nexec sleep 300\n",
            folder.display()
        );
        let job = json!({
            "id": make::job_id().unwrap(), "capacity": 4, "limit_seconds": 600, "mode": "flood",
            "work": {"type": "script", "text": text}
        });
        let options = Options { user: Some("ada".into()), patience: Duration::ZERO, ..Options::default() };
        let client = |name: &str| grid.asker(name).client().clone();
        Owner {
            broker: grid.asker("grid"),
            once: Client::new(&grid.of("grid").url(), options).unwrap(),
            sites: SITES.iter().map(|name| (Name::from(*name), client(name))).collect(),
            folder,
            job: serde_json::from_value(job).unwrap(),
            key: make::key().unwrap().to_string(),
        }
    }

    fn id(&self) -> JobId {
        self.job.id.unwrap()
    }

    /// Repeats a call until there is an answer; a broker that was killed has to find its sites first.
    async fn submit(&self) {
        until_async(async || {
            knows(&self.broker, &["north/cluster", "south/cluster"]).await;
            passing(self.once.submit(&self.job, &self.key).await)
        })
        .await;
    }

    async fn shown(&self) -> Result<api::Job, String> {
        passing(self.once.job(self.id()).await)
    }

    /// The processes of running copies.
    fn processes(&self) -> Vec<u32> {
        let traces = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        let ids = traces.filter(|path| path.extension().is_none());
        let ids = ids.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
        ids.filter(|id: &u32| Path::new("/proc").join(id.to_string()).exists()).collect()
    }

    /// The copies at a site that have not ended.
    async fn copies(&self, site: &Client) -> Result<Vec<api::Job>, String> {
        let mut jobs = passing(site.jobs(&api::JobsQuery::default()).await)?.jobs;
        jobs.retain(|job| !job.state.is_over() && job.capacity == self.job.capacity);
        Ok(jobs)
    }

    /// Waits until one copy runs, at the site that the broker names, and no other is left.
    async fn runs_once(&self) -> Name {
        until_async(async || {
            let job = self.shown().await?;
            let Some(winner) = job.site.clone().filter(|_| job.state == api::JobState::Running) else {
                return Err(format!("{job:?}"));
            };
            for (name, site) in &self.sites {
                let copies = self.copies(site).await?;
                let expected = if *name == winner { 1 } else { 0 };
                if copies.len() != expected {
                    return Err(format!("{winner} has won, and at {name} are {copies:?}"));
                }
            }
            let processes = self.processes();
            if processes.len() == 1 { Ok(winner) } else { Err(format!("{processes:?} run, and not one")) }
        })
        .await
    }

    /// Cancels the job, and waits until no copy is left.
    async fn give_up(&self) {
        until_async(async || passing(self.once.cancel_job(self.id()).await)).await;
        until_async(async || {
            let job = self.shown().await?;
            if job.state != api::JobState::Cancelled {
                return Err(format!("{job:?}"));
            }
            for (name, site) in &self.sites {
                let copies = self.copies(site).await?;
                if !copies.is_empty() {
                    return Err(format!("at {name} are {copies:?}"));
                }
            }
            if self.processes().is_empty() { Ok(()) } else { Err("a process runs on".into()) }
        })
        .await;
    }
}

/// Fails unless the error is temporary.
fn passing<T>(answer: Result<T, ClientError>) -> Result<T, String> {
    answer.map_err(|why| if why.may_pass() { why.to_string() } else { panic!("{why:?}") })
}

/// Whether the broker passes a point this often; if so, it was killed there.
async fn crash_at(point: Point, count: u32) -> bool {
    let stop_at = format!("{}:{count}", point.word());
    let (mut grid, mut crashed) = grid(Some(&stop_at)).await;
    grid.label = format!("{point:?} {count}");
    let owner = Owner::new(&grid);
    let course = async {
        owner.submit().await;
        owner.runs_once().await;
        owner.give_up().await;
    };
    tokio::select! {
        () = course => {}
        never = grid.kill_when_stopped("grid", &mut crashed) => match never {},
    }
    grid.check_journals();
    crashed || grid.of("grid").is_stopped()
}

at_each_point!(wherever_the_broker_is_killed_one_copy_runs_and_none_is_left_of_what_was_given_up: kill_at);

fn kill_at(point: Point) {
    // In three of six steps several messages are sent.
    kill_each_time(3, async |count| crash_at(point, count).await);
}

#[test]
fn a_job_that_waited_through_a_kill_of_the_broker_runs_once_where_there_is_room_first() {
    runtime().block_on(async {
        let (mut grid, _) = grid(None).await;
        let owner = Owner::new(&grid);
        let mut filling = Vec::new();
        for (_, site) in &owner.sites {
            let work = json!({"type": "script", "text": "#!/bin/sh\nexec sleep 300\n"});
            let job = json!({"capacity": 8, "limit_seconds": 600, "work": work});
            let (job, key) = (serde_json::from_value(job).unwrap(), make::key().unwrap().to_string());
            filling.push(site.submit(&job, &key).await.unwrap().id);
        }
        owner.submit().await;
        let all_wait = async |owner: &Owner| {
            until_async(async || {
                for (name, site) in &owner.sites {
                    let copies = owner.copies(site).await?;
                    let [copy] = copies.as_slice() else { return Err(format!("at {name} are {copies:?}")) };
                    assert_eq!(copy.state, api::JobState::Waiting);
                }
                Ok(())
            })
            .await;
        };
        all_wait(&owner).await;
        grid.of_mut("grid").kill9();
        // Capacity becomes free at south between two polls.
        let (south, at_south) = &owner.sites[1];
        at_south.cancel_job(filling[1]).await.unwrap();
        // The copy has its capacity, but does not run before the broker permits it.
        until_async(async || match owner.copies(at_south).await?.as_slice() {
            [copy] if copy.state == api::JobState::Claiming => Ok(()),
            copies => Err(format!("{copies:?}")),
        })
        .await;
        assert!(owner.processes().is_empty());
        assert_eq!(grid.of_mut("grid").start(None).await, Began::Ready);
        assert_eq!(owner.runs_once().await, *south);
        let at_north = owner.sites[0].1.jobs(&api::JobsQuery::default()).await.unwrap().jobs;
        let copies: Vec<&api::Job> = at_north.iter().filter(|job| job.capacity == 4).collect();
        assert!(matches!(copies[..], [api::Job { state: api::JobState::Cancelled, started: None, .. }]));
        owner.give_up().await;
        // A program survives the end of its site.
        owner.sites[0].1.cancel_job(filling[0]).await.unwrap();
        grid.check_journals();
    });
}

#[test]
fn the_command_line_floods_and_shows_one_job() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        for name in SITES {
            grid.start("site", name, &site(name, ""), None).await;
        }
        let text = grid.broker_of("grid", LOOK, &SITES);
        grid.start("broker", "grid", &text, None).await;
        knows(&grid.asker("grid"), &["north/cluster", "south/cluster"]).await;
        let submit =
            ["submit", "--mode", "flood", "--copies", "2", "--pretend", "1s", "--limit", "10s", "--json"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_bookahead"));
        command.args(submit).args(["--server", &grid.of("grid").url(), "--user", "ada"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let submitted: api::Job = serde_json::from_slice(&output.stdout).unwrap();
        let broker = grid.asker("grid").client().clone();
        let done = until_async(async || {
            let jobs = passing(broker.jobs(&api::JobsQuery::default()).await)?.jobs;
            assert_eq!(jobs.len(), 1);
            if jobs[0].state.is_over() { Ok(jobs[0].clone()) } else { Err(format!("{jobs:?}")) }
        });
        let done = done.await;
        assert_eq!((done.id, done.state), (submitted.id, api::JobState::Done), "{done:?}");
        assert!(SITES.map(Name::from).contains(done.site.as_ref().unwrap()));
    });
}
