//! Jobs that run again, with real programs: restartable jobs (GridSim) go back to the queue of their site when their
//! reservation is over, and a broker submits a job again after its site lost it (Migol).

use super::asking::{Asker, book, new_id, soon, together};
use super::grid::{Grid, site};
use super::runtime;
use crate::folder::share;
use crate::service::PROGRAMS;
use bookahead_api as api;
use bookahead_client::make;
use bookahead_protocol::{Call, JobId};
use bookahead_tests::polling::until_async;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder for the traces of programs, which run as another account.
fn traces(grid: &Grid) -> PathBuf {
    let folder = grid.processes[0].config().with_file_name("traces");
    fs::create_dir_all(&folder).unwrap();
    share(&folder);
    folder
}

async fn submit(at: &Asker, mut job: Value, text: &str) -> JobId {
    let id = make::job_id().unwrap();
    job["id"] = json!(id);
    job["work"] = json!({"type": "script", "text": text});
    let job: api::SubmitJob = serde_json::from_value(job).unwrap();
    at.client().submit(&job, &make::key().unwrap().to_string()).await.unwrap();
    id
}

/// Waits until a job is as wanted.
async fn comes_to(at: &Asker, id: JobId, wanted: impl Fn(&api::Job) -> bool) -> api::Job {
    until_async(async || {
        let job = at.client().job(id).await.map_err(|why| why.to_string())?;
        if wanted(&job) { Ok(job) } else { Err(format!("{job:?}")) }
    })
    .await
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_restartable_job_is_paused_if_running_longer_than_allocated_and_resumed_if_there_is_an_empty_cpu() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", PROGRAMS), None).await;
        let (ada, folder) = (grid.asker("north"), traces(&grid));
        let booked = ada.get(book(new_id(), together(vec![soon(4, 12)]))).await;
        // It saves its work when it is warned, and continues from there in its next run.
        let saved = folder.join("saved");
        let text = format!(
            "#!/bin/sh\ntrap 'echo saved >> {0}' USR1\n\
             if [ -e {0} ]; then echo resumed >> {0}; exit 0; fi\n\
             while :; do sleep 0.1; done\n",
            saved.display()
        );
        let job = json!({"reservation": booked.id, "capacity": 2, "limit_seconds": 600, "restartable": true,
            "warn_seconds": 4});
        let id = submit(&ada, job, &text).await;
        let done = comes_to(&ada, id, |job| job.state.is_over()).await;
        assert_eq!((done.state, done.exit), (api::JobState::Done, Some(0)), "{done:?}");
        assert_eq!((done.restarts, done.reservation, done.restartable), (1, None, true), "{done:?}");
        assert_eq!(read(&saved), "saved\nresumed\n");
    });
}

#[test]
fn a_non_restartable_job_ends_with_its_cancelled_reservation_and_a_restartable_one_goes_back_to_the_queue() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", PROGRAMS), None).await;
        let ada = grid.asker("north");
        let booked = ada.get(book(new_id(), together(vec![soon(4, 600)]))).await;
        let endless = "#!/bin/sh\nexec sleep 600\n";
        let job = |restartable: bool| {
            json!({"reservation": booked.id, "capacity": 2, "limit_seconds": 500, "restartable": restartable})
        };
        let (plain, again) =
            (submit(&ada, job(false), endless).await, submit(&ada, job(true), endless).await);
        for id in [plain, again] {
            comes_to(&ada, id, |job| job.state == api::JobState::Running).await;
        }
        ada.ask(Call::Cancel { id: booked.id }).await;
        let ended = comes_to(&ada, plain, |job| job.state.is_over()).await;
        assert_eq!((ended.state, ended.restarts), (api::JobState::ReservationOver, 0), "{ended:?}");
        let runs = |job: &api::Job| job.restarts == 1 && job.state == api::JobState::Running;
        assert_eq!(comes_to(&ada, again, runs).await.reservation, None);
        // It is known to be the same job after a restart of the site, too.
        grid.of_mut("north").restart().await;
        let ada = grid.asker("north");
        comes_to(&ada, again, runs).await;
        ada.client().cancel_job(again).await.unwrap();
        let ended = comes_to(&ada, again, |job| job.state.is_over()).await;
        assert_eq!((ended.state, ended.restarts), (api::JobState::Cancelled, 1), "{ended:?}");
        grid.check_journals();
    });
}

/// The job runs at a site that is killed and loses its state. `mode` is how the broker places it.
async fn lost_with_its_site(mode: &str) {
    let mut grid = Grid::new();
    for name in ["north", "south"] {
        grid.start("site", name, &site(name, PROGRAMS), None).await;
    }
    let text = grid.broker_of("grid", "rules = { hold_time = \"2s\" }", &["north", "south"]);
    grid.start("broker", "grid", &text, None).await;
    let (ada, folder) = (grid.asker("grid"), traces(&grid));
    super::grid::knows(&ada, &["north/cluster", "south/cluster"]).await;
    // The first run never ends by itself, the second one does at once.
    let pids = folder.join("pids");
    let text = format!(
        "#!/bin/sh\necho $$ >> {0}\n[ \"$(wc -l < {0})\" -gt 1 ] && exit 0\nwhile :; do sleep 1; done\n",
        pids.display()
    );
    let id =
        submit(&ada, json!({"capacity": 2, "limit_seconds": 300, "mode": mode, "retry": 2}), &text).await;
    let first = comes_to(&ada, id, |job| job.state == api::JobState::Running).await.site.unwrap();
    until_async(
        async || if read(&pids).ends_with('\n') { Ok(()) } else { Err("it writes its pid".to_owned()) },
    )
    .await;

    // A site that is merely silent has not lost the job, which still runs there.
    grid.of_mut(first.as_str()).kill9();
    until_async(async || {
        let sites = ada.client().sites().await.map_err(|why| why.to_string())?;
        let up = sites.sites.iter().any(|site| site.name == first && site.state == api::Reachability::Up);
        if up { Err(format!("{first} is silent")) } else { Ok(()) }
    })
    .await;
    let silent = ada.client().job(id).await.unwrap();
    assert!(!silent.state.is_over() && silent.attempts.is_empty(), "{silent:?}");
    assert_eq!(read(&pids).lines().count(), 1);

    // Without its state it does not know the job, ends what is left of it, and says so.
    grid.of(first.as_str()).lose_state();
    grid.of_mut(first.as_str()).restart().await;
    let done = comes_to(&ada, id, |job| job.state.is_over()).await;
    assert_eq!((done.state, done.exit), (api::JobState::Done, Some(0)), "{done:?}");
    assert_eq!(done.attempts.iter().map(|lost| &lost.site).collect::<Vec<_>>(), [&first], "{done:?}");
    assert_ne!(done.site, Some(first), "it runs elsewhere");
    let pids = read(&pids);
    assert_eq!(pids.lines().count(), 2, "{pids}");
    assert!(!Path::new("/proc").join(pids.lines().next().unwrap()).exists(), "the first run is gone");
}

#[test]
fn a_job_that_is_lost_with_its_site_is_submitted_again_elsewhere_and_never_because_the_site_is_merely_silent()
{
    runtime().block_on(lost_with_its_site("flood"));
    runtime().block_on(lost_with_its_site("reserve"));
}
