//! The tour through two Slurms: a reservation over both that is really kept, jobs that start in it when it was promised, and
//! nothing left of it in the end.

use super::super::grid::Grid;
use super::super::tour::{Guide, foreign, id_in};
use super::clusters::Cluster;
use crate::output::say;
use anyhow::{Context, Result, ensure};
use bookahead_api::{JobState, Timestamp};
use bookahead_client::{Client, Options};
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

/// What runs in the reservation at each site.
const SCRIPT: (&str, &str) = ("half.sh", include_str!("half.sh"));

/// A job that has not started so long after its promise never will.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A reservation that was cancelled is gone from Slurm after this time: its jobs are ended first.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(200);

/// What was submitted to a site.
struct Submitted<'a> {
    cluster: &'a Cluster,
    client: Client,
    /// The part of the reservation that the site has.
    part: String,
    job: String,
    promised: Timestamp,
}

pub(super) async fn run(grid: &Grid, clusters: &[Cluster]) -> Result<()> {
    let mut guide = Guide::to(grid.url())?;
    guide.put(SCRIPT.0, SCRIPT.1)?;
    look_around(&mut guide, clusters).await?;
    let id = book(&mut guide, clusters).await?;
    let jobs = submit(&mut guide, grid, clusters).await?;
    wait_for_starts(&mut guide, &jobs).await?;
    cancel(&mut guide, &jobs, &id).await
}

/// What to type next, while all goes on.
pub(super) fn say_more(grid: &Grid, clusters: &[Cluster]) {
    say!("\nWhere to look next:");
    say!("   $ bookahead sites --server {}", grid.url());
    for cluster in clusters {
        say!("   $ SLURM_CONF={} squeue", cluster.conf().display());
    }
}

async fn look_around(guide: &mut Guide, clusters: &[Cluster]) -> Result<()> {
    guide.goes_on("Two sites and their broker. Each site drives a Slurm of its own, in which jobs of local users run and wait.").await?;
    guide.types(&["sites"]).await?;
    if let Some(cluster) = clusters.first() {
        guide.goes_on("The queue of the first, as Slurm shows it.").await?;
        let columns = "--format=%.6i %.9j %.8T %.5C %.6l %R";
        guide.types_foreign(cluster.command("squeue", [columns])).await?;
    }
    guide.goes_on(
        "When could you have eight cores there for a minute? Nothing is booked by asking. The last columns say what each \
         begin would do to the jobs that wait.",
    ).await?;
    let words = "probe --capacity 8 --duration 1m --from +20s --until +9m --resource alpha/cluster --most 6";
    guide.types(&words.split(' ').collect::<Vec<_>>()).await?;
    Ok(())
}

/// Books both clusters together; the id of that.
async fn book(guide: &mut Guide, clusters: &[Cluster]) -> Result<String> {
    guide.goes_on(
        "Now eight cores of alpha and four of beta, together, in twenty seconds: both or none. Each site has its Slurm agree before \
         it answers.",
    ).await?;
    let parts =
        ["capacity=8 duration=1m resource=alpha/cluster", "capacity=4 duration=1m resource=beta/cluster"];
    let words =
        ["reserve", "--part", parts[0], "--part", parts[1], "--together", "--from", "+20s", "--hold", "15s"];
    let held = guide.types(&words).await?;
    let id = id_in(&held, "rsv_").context("nothing was reserved; this is a defect")?;
    guide
        .goes_on("It is held, not booked: if nobody commits it, it is given back, in Slurm too. Commit it.")
        .await?;
    guide.types(&["commit", &id]).await?;
    if let Some(cluster) = clusters.first() {
        guide.goes_on("It is really there: nobody else's job runs on these cores in that minute.").await?;
        guide.types_foreign(cluster.command("scontrol", ["show", "reservation"])).await?;
    }
    Ok(id)
}

/// Submits a script into the reservation at both sites.
async fn submit<'a>(guide: &mut Guide, grid: &Grid, clusters: &'a [Cluster]) -> Result<Vec<Submitted<'a>>> {
    guide.goes_on(
        "Each site has its part under an id of its own. A script is submitted into each: it waits until the reservation begins.",
    ).await?;
    let mut jobs = Vec::new();
    for cluster in clusters {
        let site = grid.sites().find(|(name, _)| *name == cluster.name());
        let (_, url) = site.context("a cluster without a site; this is a defect")?;
        let client = Client::new(url, Options::default())?;
        let listed = guide.types(&["list", "--mine", "--full-ids", "--server", url]).await?;
        let part = id_in(&listed, "rsv_").context("the site has no part of it; this is a defect")?;
        let said = guide.types(&["submit", "--server", url, "--reservation", &part, SCRIPT.0]).await?;
        let job = id_in(&said, "job_").context("no job was submitted; this is a defect")?;
        let slots = client.show(part.parse()?).await?.slots;
        let promised = slots.first().context("the part has no slot; this is a defect")?.begin;
        jobs.push(Submitted { cluster, client, part, job, promised });
    }
    Ok(jobs)
}

/// Waits until all run, and says when each was to start and when it did.
async fn wait_for_starts(guide: &mut Guide, jobs: &[Submitted<'_>]) -> Result<()> {
    let begin = jobs.iter().map(|job| job.promised).max();
    let begin = begin.map_or_else(String::new, |begin| begin.to_string());
    guide.goes_on(&format!("Now wait until {begin}. Promised was, and happened:")).await?;
    for job in jobs {
        let (started, wrote) = job.started().await?;
        let late = started.time().0 - job.promised.time().0;
        let (name, promised) = (job.cluster.name(), job.promised);
        writeln!(
            stdout(),
            "{name}: promised {promised}, started {started}, {late} s later; its script wrote: {wrote}"
        )?;
    }
    Ok(())
}

impl Submitted<'_> {
    /// When it started, by Slurm, and what it wrote then.
    async fn started(&self) -> Result<(Timestamp, String)> {
        let began = Instant::now();
        loop {
            let seen = self.client.job(self.job.parse()?).await?;
            let wrote = self.cluster.written_by(&self.job);
            if let (Some(started), Some(line)) = (seen.started, wrote.lines().next()) {
                return Ok((started, line.to_owned()));
            }
            let state = seen.state;
            ensure!(
                began.elapsed() < STARTS_WITHIN && matches!(state, JobState::Waiting | JobState::Running),
                "the job at {} should run and is {state:?} {}; this is a defect",
                self.cluster.name(),
                seen.detail.unwrap_or_default()
            );
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Cancels the reservation, and sees that nothing of it is left.
async fn cancel(guide: &mut Guide, jobs: &[Submitted<'_>], id: &str) -> Result<()> {
    guide.goes_on("That is enough. Whoever cancels early gives the rest back, at both sites.").await?;
    guide.types(&["cancel", id]).await?;
    guide.goes_on("The jobs in it are ended, and Slurm has nothing of it any more.").await?;
    for Submitted { cluster, part, .. } in jobs {
        let began = Instant::now();
        let show = || cluster.command("scontrol", ["show", "reservation"]);
        // In Slurm its name has the digits of the id.
        while foreign(show()).await?.contains(part.trim_start_matches("rsv_")) {
            ensure!(
                began.elapsed() < GONE_WITHIN,
                "{} still keeps it after {GONE_WITHIN:?}; this is a defect",
                cluster.name()
            );
            tokio::time::sleep(PAUSE).await;
        }
        guide.types_foreign(show()).await?;
    }
    Ok(())
}
