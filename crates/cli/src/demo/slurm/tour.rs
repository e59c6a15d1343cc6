//! The guided tour with two Slurm clusters: a co-reservation that Slurm really enforces, jobs that start in it at the
//! promised time, and its cancellation without leftovers.

use super::super::grid::Grid;
use super::super::tour::{Guide, foreign, id_in};
use super::clusters::Cluster;
use crate::output::say;
use anyhow::{Context, Result, ensure};
use bookahead_api::{JobState, Timestamp};
use bookahead_client::{Client, Options};
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

/// The job that runs in the reservation at each site.
const SCRIPT: (&str, &str) = ("half.sh", include_str!("half.sh"));

/// Timeout for a job to start: the reservation begins after 20 seconds.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Timeout for a cancelled reservation to disappear from Slurm, which has to cancel its jobs first.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Poll interval.
const PAUSE: Duration = Duration::from_millis(200);

struct Submitted<'a> {
    cluster: &'a Cluster,
    client: Client,
    /// Id of the part at the site.
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

/// Prints commands to try next.
pub(super) fn say_more(grid: &Grid, clusters: &[Cluster]) {
    say!("\nWhere to look next:");
    say!("   $ bookahead sites --server {}", grid.url());
    for cluster in clusters {
        say!("   $ SLURM_CONF={} squeue", cluster.conf().display());
    }
}

async fn look_around(guide: &mut Guide, clusters: &[Cluster]) -> Result<()> {
    guide.goes_on("Two sites and their broker. Each site controls its own Slurm cluster, where jobs of local users run and wait.").await?;
    guide.types(&["sites"]).await?;
    if let Some(cluster) = clusters.first() {
        guide.goes_on("The queue of the first cluster, as Slurm shows it.").await?;
        let columns = "--format=%.6i %.9j %.8T %.5C %.6l %R";
        guide.types_foreign(cluster.command("squeue", [columns])).await?;
    }
    guide.goes_on(
        "When are eight cores free there for a minute? A probe books nothing. The last columns show how each start would \
         affect the waiting jobs.",
    ).await?;
    let words = "probe --capacity 8 --duration 1m --from +20s --until +9m --resource alpha/cluster --most 6";
    guide.types(&words.split(' ').collect::<Vec<_>>()).await?;
    Ok(())
}

/// Reserves and commits both clusters together. Returns the id.
async fn book(guide: &mut Guide, clusters: &[Cluster]) -> Result<String> {
    guide.goes_on(
        "Now reserve eight cores of alpha and four of beta, together, in twenty seconds: both or none. Each site makes the \
         reservation in Slurm before it answers.",
    ).await?;
    let parts =
        ["capacity=8 duration=1m resource=alpha/cluster", "capacity=4 duration=1m resource=beta/cluster"];
    let words =
        ["reserve", "--part", parts[0], "--part", parts[1], "--together", "--from", "+20s", "--hold", "15s"];
    let held = guide.types(&words).await?;
    let id = id_in(&held, "rsv_").context("nothing was reserved; please report this as a bug")?;
    guide.goes_on("It is only held, and expires unless you commit it, in Slurm too. Commit it.").await?;
    guide.types(&["commit", &id]).await?;
    if let Some(cluster) = clusters.first() {
        guide.goes_on("Slurm has the reservation: no other job runs on these cores in that minute.").await?;
        guide.types_foreign(cluster.command("scontrol", ["show", "reservation"])).await?;
    }
    Ok(id)
}

/// Submits a script into the reservation at both sites.
async fn submit<'a>(guide: &mut Guide, grid: &Grid, clusters: &'a [Cluster]) -> Result<Vec<Submitted<'a>>> {
    guide.goes_on(
        "Each site has its part under its own id. Submit a script to each part: it waits until the reservation begins.",
    ).await?;
    let mut jobs = Vec::new();
    for cluster in clusters {
        let site = grid.sites().find(|(name, _)| *name == cluster.name());
        let (_, url) = site.context("a cluster has no site; please report this as a bug")?;
        let client = Client::new(url, Options::default())?;
        // With full ids: an abbreviated one would be parsed as the id of another reservation.
        let listed = guide.types(&["list", "--mine", "--full-ids", "--server", url]).await?;
        let part = id_in(&listed, "rsv_")
            .context("the site has no part of the reservation; please report this as a bug")?;
        let said = guide.types(&["submit", "--server", url, "--reservation", &part, SCRIPT.0]).await?;
        let job = id_in(&said, "job_").context("no job was submitted; please report this as a bug")?;
        let slots = client.show(part.parse()?).await?.slots;
        let promised = slots.first().context("the part has no slot; please report this as a bug")?.begin;
        jobs.push(Submitted { cluster, client, part, job, promised });
    }
    Ok(jobs)
}

/// Waits until all jobs run, and prints the promised and the actual start of each.
async fn wait_for_starts(guide: &mut Guide, jobs: &[Submitted<'_>]) -> Result<()> {
    let begin = jobs.iter().map(|job| job.promised).max();
    let begin = begin.map_or_else(String::new, |begin| begin.to_string());
    guide.goes_on(&format!("Now wait until {begin}. The promised and the actual starts:")).await?;
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
    /// Its start time according to Slurm, and the first line of its output.
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
                "the job at {} should run but is {state:?} {}; please report this as a bug",
                self.cluster.name(),
                seen.detail.unwrap_or_default()
            );
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Cancels the reservation, and checks that Slurm has deleted it.
async fn cancel(guide: &mut Guide, jobs: &[Submitted<'_>], id: &str) -> Result<()> {
    guide.goes_on("Cancel the reservation: the rest of it becomes free at both sites.").await?;
    guide.types(&["cancel", id]).await?;
    guide.goes_on("Its jobs are cancelled, and Slurm no longer has the reservation.").await?;
    for Submitted { cluster, part, .. } in jobs {
        let began = Instant::now();
        let show = || cluster.command("scontrol", ["show", "reservation"]);
        // The name of the Slurm reservation contains the digits of the id.
        while foreign(show()).await?.contains(part.trim_start_matches("rsv_")) {
            ensure!(
                began.elapsed() < GONE_WITHIN,
                "{} still has the reservation after {GONE_WITHIN:?}; please report this as a bug",
                cluster.name()
            );
            tokio::time::sleep(PAUSE).await;
        }
        guide.types_foreign(show()).await?;
    }
    Ok(())
}
