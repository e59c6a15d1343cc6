//! Flooded jobs through a broker, with sites that run them: copies wait at several sites, one runs, and none is
//! left, even if services stop, refuse or are silent meanwhile.

use crate::daemon::{GRID, broker, client, registered, site, stop};
use bookahead_api as api;
use bookahead_client::{Client, make};
use bookahead_protocol::{JobId, Name};
use bookahead_service::config::SiteConfig;
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_tests::polling::until_some;
use serde_json::json;
use tempfile::TempDir;

const BROKER: &str = "job_look = \"100ms\"\n";

/// A broker and sites of eight processors that register with it.
struct Grid {
    folder: TempDir,
    broker: Option<Running>,
    sites: Vec<Running>,
}

fn site_of(name: &str, broker: &str, more: &str) -> SiteConfig {
    site(&format!(
        "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\nheartbeat = \"100ms\"\n{more}\
         [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 8\n[[broker]]\nurl = \"{broker}\"\n"
    ))
}

impl Grid {
    async fn of(sites: &[(&str, &str)]) -> Grid {
        let folder = TempDir::new().unwrap();
        // Programs that run as another account have to reach their folders below.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let running = daemon::broker(&broker(&format!("{GRID}{BROKER}")), folder.path()).await.unwrap();
        let mut grid = Grid { folder, broker: Some(running), sites: Vec::new() };
        for (name, more) in sites {
            grid.start_site(name, more).await;
        }
        grid
    }

    async fn start_site(&mut self, name: &str, more: &str) {
        let config = site_of(name, self.url(), more);
        self.sites.push(daemon::site(&config, self.folder.path(), OnLostJournal::Ask).await.unwrap());
        registered(&self.asked(), name).await;
    }

    async fn stop_site(&mut self, name: &str) {
        let at = self.sites.iter().position(|site| *site.name() == Name::from(name)).unwrap();
        stop(self.sites.remove(at)).await;
    }

    fn url(&self) -> &str {
        self.broker.as_ref().unwrap().url()
    }

    fn asked(&self) -> Client {
        client(self.url())
    }

    fn at(&self, name: &str) -> Client {
        client(self.sites.iter().find(|site| *site.name() == Name::from(name)).unwrap().url())
    }

    async fn stop_broker(&mut self) {
        stop(self.broker.take().unwrap()).await;
    }

    /// Restarts the broker with its peers in the configuration, because they register at its old address.
    async fn start_broker(&mut self) {
        let peers = self
            .sites
            .iter()
            .map(|site| format!("[[peer]]\nname = \"{}\"\nurl = \"{}\"\n", site.name(), site.url()));
        let text = format!("{GRID}{BROKER}{}", peers.collect::<String>());
        self.broker = Some(daemon::broker(&broker(&text), self.folder.path()).await.unwrap());
    }

    async fn end(mut self) {
        self.stop_broker().await;
        for site in self.sites {
            stop(site).await;
        }
    }

    /// Fills a site with a job of another user, so that others wait.
    async fn fill(&self, name: &str) -> JobId {
        let job = submit(&self.at(name), json!({})).await;
        state_of(&self.at(name), job, api::JobState::Running).await;
        job
    }

    /// Number of jobs at a site in a state, without those that fill it.
    async fn count(&self, name: &str, state: api::JobState) -> usize {
        let jobs = self.at(name).jobs(&api::JobsQuery::default()).await.unwrap().jobs;
        jobs.iter().filter(|job| job.state == state && job.capacity == 4).count()
    }

    /// Waits for a number of copies in a state at a site.
    async fn has(&self, name: &str, count: usize, state: api::JobState) {
        let what = format!("{count} copies at {name} are {state:?}");
        until_some(&what, || async { (self.count(name, state).await == count).then_some(()) }).await;
    }
}

/// Submits a job of eight processors for an hour, with changes.
async fn submit(to: &Client, more: serde_json::Value) -> JobId {
    let mut job = json!({
        "id": make::job_id().unwrap(), "capacity": 8, "limit_seconds": 3600,
        "work": {"type": "pretended", "run_seconds": 3600}
    });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let job: api::SubmitJob = serde_json::from_value(job).unwrap();
    to.submit(&job, &make::key().unwrap().to_string()).await.unwrap().id
}

async fn flood(grid: &Grid, more: serde_json::Value) -> JobId {
    let mut job = json!({"capacity": 4, "mode": "flood"});
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    submit(&grid.asked(), job).await
}

async fn state_of(at: &Client, id: JobId, state: api::JobState) -> api::Job {
    until_some(&format!("{id} is {state:?}"), || async {
        at.job(id).await.ok().filter(|job| job.state == state)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_at_several_sites_and_runs_at_the_first_that_has_room() {
    let grid = Grid::of(&[("north", ""), ("south", ""), ("west", "")]).await;
    for name in ["north", "west"] {
        grid.fill(name).await;
    }
    let filling = grid.fill("south").await;
    let id = flood(&grid, json!({})).await;
    for name in ["north", "south", "west"] {
        grid.has(name, 1, api::JobState::Waiting).await;
    }
    let waiting = state_of(&grid.asked(), id, api::JobState::Waiting).await;
    assert_eq!((waiting.id, waiting.site), (id, None));
    grid.at("south").cancel_job(filling).await.unwrap();
    let running = state_of(&grid.asked(), id, api::JobState::Running).await;
    assert_eq!(running.site, Some("south".into()));
    for name in ["north", "west"] {
        grid.has(name, 1, api::JobState::Cancelled).await;
    }
    assert_eq!(grid.asked().jobs(&api::JobsQuery::default()).await.unwrap().jobs.len(), 1, "one job");
    grid.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_could_start_at_once_one_copy_is_left() {
    let grid = Grid::of(&[("north", ""), ("south", ""), ("west", "")]).await;
    let id = flood(&grid, json!({})).await;
    let running = state_of(&grid.asked(), id, api::JobState::Running).await;
    let winner = running.site.unwrap();
    for name in ["north", "south", "west"] {
        let won = winner == Name::from(name);
        until_some("the others are gone", || async {
            let running = grid.count(name, api::JobState::Running).await;
            let waiting = grid.count(name, api::JobState::Waiting).await;
            (running == usize::from(won) && waiting == 0).then_some(())
        })
        .await;
    }
    grid.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_copies_wait_as_were_asked_for_and_a_cancel_ends_them_all() {
    let grid = Grid::of(&[("north", ""), ("south", ""), ("west", "")]).await;
    for name in ["north", "south", "west"] {
        grid.fill(name).await;
    }
    let id = flood(&grid, json!({"copies": 2})).await;
    until_some("two copies wait", || async {
        let mut waiting = 0;
        for name in ["north", "south", "west"] {
            waiting += grid.count(name, api::JobState::Waiting).await;
        }
        (waiting == 2).then_some(())
    })
    .await;
    let cancelled = grid.asked().cancel_job(id).await.unwrap();
    assert_eq!(cancelled.state, api::JobState::Cancelled);
    for name in ["north", "south", "west"] {
        grid.has(name, 0, api::JobState::Waiting).await;
    }
    grid.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_broker_is_away_no_copy_runs_and_when_it_is_back_one_does() {
    let mut grid = Grid::of(&[("north", ""), ("south", "")]).await;
    let (north, south) = (grid.fill("north").await, grid.fill("south").await);
    let id = flood(&grid, json!({})).await;
    for name in ["north", "south"] {
        grid.has(name, 1, api::JobState::Waiting).await;
    }
    grid.stop_broker().await;
    for (name, filling) in [("north", north), ("south", south)] {
        grid.at(name).cancel_job(filling).await.unwrap();
        grid.has(name, 1, api::JobState::Claiming).await;
    }
    grid.start_broker().await;
    let job = state_of(&grid.asked(), id, api::JobState::Running).await;
    let (won, lost) = if job.site == Some("north".into()) { ("north", "south") } else { ("south", "north") };
    grid.has(lost, 1, api::JobState::Cancelled).await;
    assert_eq!(grid.count(won, api::JobState::Running).await, 1);
    assert_eq!(grid.at(lost).job(copy_at(&grid, lost).await).await.unwrap().started, None, "it never ran");
    grid.end().await;
}

/// The copy at a site.
async fn copy_at(grid: &Grid, name: &str) -> JobId {
    let jobs = grid.at(name).jobs(&api::JobsQuery::default()).await.unwrap().jobs;
    jobs.iter().find(|job| job.capacity == 4).unwrap().id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_refuses_is_left_out_and_where_all_refuse_that_is_told() {
    let programs =
        "security = { trust_local_users = true }\njobs = { processes = true, account = \"nobody\" }\n";
    let script = json!({"copies": 1, "work": {"type": "script", "text": "#!/bin/sh\nexit 3\n"}});
    // north and south run no programs; they rank before west by their names.
    let mut grid = Grid::of(&[("north", ""), ("south", ""), ("west", programs)]).await;
    let id = flood(&grid, script.clone()).await;
    let done = state_of(&grid.asked(), id, api::JobState::Done).await;
    assert_eq!((done.site, done.exit), (Some("west".into()), Some(3)));
    grid.stop_site("west").await;
    until_some("west is silent", || async {
        let sites = grid.asked().sites().await.unwrap().sites;
        let west = sites.into_iter().find(|site| site.name == Name::from("west"))?;
        (west.state == api::Reachability::Silent).then_some(())
    })
    .await;
    let id = flood(&grid, script).await;
    let refused = state_of(&grid.asked(), id, api::JobState::CouldNotStart).await;
    let why = refused.detail.unwrap();
    assert!(why.contains("north refused it") && why.contains("south refused it"), "{why}");
    grid.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_at_a_site_that_is_away_is_cancelled_when_it_is_back() {
    let mut grid = Grid::of(&[("north", ""), ("south", "")]).await;
    let (_, south) = (grid.fill("north").await, grid.fill("south").await);
    let id = flood(&grid, json!({})).await;
    for name in ["north", "south"] {
        grid.has(name, 1, api::JobState::Waiting).await;
    }
    grid.stop_site("north").await;
    grid.at("south").cancel_job(south).await.unwrap();
    let running = until_some("it runs and says what is left", || async {
        let job = grid.asked().job(id).await.unwrap();
        (job.state == api::JobState::Running).then_some(job)
    })
    .await;
    assert_eq!(running.site, Some("south".into()));
    assert!(
        running.detail.unwrap().contains("a copy at north will be cancelled as soon as the site answers")
    );
    grid.start_site("north", "").await;
    grid.has("north", 1, api::JobState::Cancelled).await;
    grid.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_at_a_broker_goes_to_a_site_of_its_own_and_is_gone_from_there_too() {
    let grid = Grid::of(&[("north", "")]).await;
    let north = grid.fill("north").await;
    let folder = TempDir::new().unwrap();
    let inner = format!("{}{BROKER}[[broker]]\nurl = \"{}\"\n", GRID.replace("grid", "inner"), grid.url());
    let inner = daemon::broker(&broker(&inner), folder.path()).await.unwrap();
    let south =
        daemon::site(&site_of("south", inner.url(), ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    let below = client(south.url());
    submit(&below, json!({})).await;
    until_some("the resources of the site are known at the top", || async {
        let resources = grid.asked().resources().await.unwrap().resources;
        resources.into_iter().find(|resource| resource.name == Name::from("inner/south/cluster"))
    })
    .await;
    let id = flood(&grid, json!({})).await;
    grid.has("north", 1, api::JobState::Waiting).await;
    let copies = |state: api::JobState| {
        let below = below.clone();
        async move {
            let jobs = below.jobs(&api::JobsQuery::default()).await.unwrap().jobs;
            jobs.iter().filter(|job| job.state == state && job.capacity == 4).count()
        }
    };
    until_some("a copy waits below", || async { (copies(api::JobState::Waiting).await == 1).then_some(()) })
        .await;
    grid.at("north").cancel_job(north).await.unwrap();
    assert_eq!(state_of(&grid.asked(), id, api::JobState::Running).await.site, Some("north".into()));
    until_some("it is gone", || async { (copies(api::JobState::Cancelled).await == 1).then_some(()) }).await;
    grid.end().await;
    stop(inner).await;
    stop(south).await;
}
