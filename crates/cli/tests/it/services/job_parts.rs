//! Jobs submitted to a broker for parts of a co-reservation: each runs once, in the part that its owner names, from its
//! start on, even if the broker is killed, and also through a broker of brokers.

use super::asking::{Asker, book, new_id, now, together, window};
use super::grid::{CAPACITY, Grid, SITES, knows, site};
use super::process::Began;
use super::{kill_each_time, runtime};
use crate::batch::terminal::Terminal;
use crate::service::PROGRAMS;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options, make};
use bookahead_plan::Seconds;
use bookahead_protocol::{Answer, Call, JobId, Name, Reservation, ReservationId, State};
use bookahead_service::thread::Point;
use bookahead_tests::polling::until_async;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Notice that leaves time to commit before the start, even on a busy machine.
const LOOK: &str = "job_look = \"100ms\"\njob_notice = \"8s\"";

/// Sites that run programs.
async fn sites() -> Grid {
    let mut grid = Grid::new();
    for name in SITES {
        grid.start("site", name, &site(name, PROGRAMS), None).await;
    }
    grid
}

/// Three sites that run programs, and their broker.
async fn grid() -> Grid {
    let mut grid = sites().await;
    let text = grid.broker_of("grid", LOOK, &SITES);
    grid.start("broker", "grid", &text, None).await;
    knows(&grid.asker("grid"), &["north/cluster", "south/cluster", "west/cluster"]).await;
    grid
}

/// The whole capacity of some sites for ten minutes, starting in this many seconds. If the machine is too busy to hold
/// all parts before that start, it is tried again with a later one.
async fn parts(broker: &Asker, number: usize, seconds: i64) -> Reservation {
    until_async(async || {
        let begin = now() + Seconds(seconds);
        let part = window(CAPACITY, begin, 600, begin + Seconds(660));
        match broker.ask(book(new_id(), together(vec![part; number]))).await {
            Answer::Reservation(booked) if booked.state == State::Committed => Ok(booked),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// The file in which a job records its runs.
fn trace(grid: &Grid, name: &str) -> PathBuf {
    grid.of("grid").config().with_file_name(format!("{name}.trace"))
}

/// Start times of the runs of a job.
fn runs(trace: &Path) -> Vec<i64> {
    let text = fs::read_to_string(trace).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn short(trace: &Path) -> String {
    format!("#!/bin/sh\ndate +%s >> '{}'\n", trace.display())
}

/// A script that runs until it is killed.
fn endless(trace: &Path) -> String {
    format!("#!/bin/sh\ndate +%s >> '{}'\nexec sleep 300\n", trace.display())
}

/// A job in a reservation, with its key.
fn job(reservation: Option<ReservationId>, resource: Option<&str>, text: &str) -> (api::SubmitJob, String) {
    let document = json!({
        "id": make::job_id().unwrap(), "reservation": reservation, "resource": resource, "capacity": 2,
        "limit_seconds": 300, "work": {"type": "script", "text": text}
    });
    (serde_json::from_value(document).unwrap(), make::key().unwrap().to_string())
}

/// A client that makes each call once and accepts a missing answer.
fn once(grid: &Grid, name: &str) -> Client {
    let options = Options { user: Some("ada".into()), patience: Duration::ZERO, ..Options::default() };
    Client::new(&grid.of(name).url(), options).unwrap()
}

/// Repeats a call until there is an answer; a permanent error is a failure.
async fn insist<T>(mut call: impl AsyncFnMut() -> Result<T, ClientError>) -> T {
    until_async(async || {
        call().await.map_err(|why| if why.may_pass() { why.to_string() } else { panic!("{why:?}") })
    })
    .await
}

/// Waits until a job is in a state.
async fn comes_to(client: &Client, id: JobId, state: api::JobState) -> api::Job {
    until_async(async || {
        let job = client.job(id).await.map_err(|why| why.to_string())?;
        assert!(job.state == state || !job.state.is_over(), "{job:?}");
        if job.state == state { Ok(job) } else { Err(format!("{job:?}")) }
    })
    .await
}

#[test]
fn jobs_run_in_the_parts_that_they_name_from_the_begin_of_the_reservation_on() {
    let runtime = runtime();
    let grid = runtime.block_on(grid());
    let ada = Terminal::at(&grid.of("grid").url());
    let booked = runtime.block_on(parts(&grid.asker("grid"), 2, 8));
    let begin = booked.slots[0].interval.begin;
    let id = booked.id.to_string();
    let resources: Vec<&str> = booked.slots.iter().map(|slot| slot.resource.as_str()).collect();

    ada.folder.write("job.sh", "#!/bin/sh\n");
    let unclear = ada.run(&["submit", "--reservation", &id, "job.sh"]);
    assert_eq!(unclear.code, Some(3), "{unclear:?}");
    for word in ["job-refused", resources[0], resources[1], "--resource"] {
        assert!(unclear.err.contains(word), "'{word}' is missing: {unclear:?}");
    }
    let nowhere = ada.run(&["submit", "--reservation", &id, "--resource", "east/cluster", "job.sh"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
    assert!(nowhere.err.contains(resources[0]) && nowhere.err.contains(resources[1]), "{nowhere:?}");

    let flooded = ada.run(&["submit", "--reservation", &id, "--mode", "flood", "job.sh"]);
    assert!(flooded.code == Some(2) && flooded.err.contains("--mode"), "{flooded:?}");

    let mut jobs = Vec::new();
    for resource in &resources {
        let trace = trace(&grid, &resource.replace('/', "-"));
        ada.folder.write("job.sh", short(&trace));
        let job = ada.document(&["submit", "--reservation", &id, "--resource", resource, "job.sh"]);
        let (peer, _) = resource.split_once('/').unwrap();
        assert_eq!((&job["reservation"], &job["resource"]), (&json!(id), &json!(resource)), "{job}");
        assert_eq!((&job["site"], &job["capacity"]), (&json!(peer), &json!(CAPACITY)), "{job}");
        jobs.push((job["id"].as_str().unwrap().to_owned(), trace));
    }
    for (job, trace) in &jobs {
        runtime.block_on(until_async(async || match ada.document(&["show", job]) {
            done if done["state"] == "done" => Ok(()),
            other => Err(other.to_string()),
        }));
        let began = runs(trace);
        assert!(began.len() == 1 && began[0] >= begin.0, "{began:?} for {}", begin.0);
    }
    let shown = ada.document(&["show", &id]);
    for (part, (job, _)) in jobs.iter().enumerate() {
        let attached = json!({"job": job, "part": part});
        assert!(shown["jobs"].as_array().unwrap().contains(&attached), "{attached} in {shown}");
    }
    grid.check_journals();
}

#[test]
fn a_job_is_cancelled_through_the_broker_and_ends_with_its_reservation() {
    runtime().block_on(async {
        let grid = grid().await;
        let (broker, client) = (grid.asker("grid"), once(&grid, "grid"));
        let booked = parts(&broker, 2, 3).await;
        let mut ids = Vec::new();
        for slot in &booked.slots {
            let trace = trace(&grid, slot.site.as_str());
            let (job, key) = job(Some(booked.id), Some(slot.resource.as_str()), &endless(&trace));
            ids.push(client.submit(&job, &key).await.unwrap().id);
        }
        for id in &ids {
            comes_to(&client, *id, api::JobState::Running).await;
        }
        client.cancel_job(ids[0]).await.unwrap();
        let cancelled = comes_to(&client, ids[0], api::JobState::Cancelled).await;
        assert_eq!(cancelled.reservation, Some(booked.id));
        let other = comes_to(&client, ids[1], api::JobState::Running).await;
        assert_eq!(other.resource, Some(booked.slots[1].resource.clone()), "the reservation is still there");
        broker.get(Call::Cancel { id: booked.id }).await;
        comes_to(&client, ids[1], api::JobState::ReservationOver).await;
        let (late, key) = job(Some(booked.id), Some(booked.slots[0].resource.as_str()), "#!/bin/sh\n");
        let refused = client.submit(&late, &key).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().code, "illegal");
        grid.check_journals();
    });
}

#[test]
fn through_a_broker_of_brokers_jobs_run_in_parts_and_in_reservations_that_are_found() {
    runtime().block_on(async {
        let mut grid = sites().await;
        let inner = grid.broker_of("inner", LOOK, &["north", "south"]);
        grid.start("broker", "inner", &inner, None).await;
        knows(&grid.asker("inner"), &["north/cluster", "south/cluster"]).await;
        let text = grid.broker_of("grid", LOOK, &["inner", "west"]);
        grid.start("broker", "grid", &text, None).await;
        let broker = grid.asker("grid");
        knows(&broker, &["inner/north/cluster", "inner/south/cluster", "west/cluster"]).await;
        let booked = parts(&broker, 3, 3).await;
        let client = once(&grid, "grid");
        let mut jobs = Vec::new();
        for resource in ["inner/north/cluster", "inner/south/cluster", "west/cluster"] {
            let trace = trace(&grid, &resource.replace('/', "-"));
            let (job, key) = job(Some(booked.id), Some(resource), &short(&trace));
            client.submit(&job, &key).await.unwrap();
            jobs.push((job.id.unwrap(), Name::from(resource), trace));
        }
        for (id, resource, trace) in &jobs {
            let done = comes_to(&client, *id, api::JobState::Done).await;
            assert_eq!((done.reservation, done.resource.as_ref()), (Some(booked.id), Some(resource)));
            assert_eq!(runs(trace).len(), 1);
        }
        let below = once(&grid, "inner").job(jobs[1].0).await.unwrap();
        assert_eq!((below.site, below.resource), (Some("south".into()), Some("south/cluster".into())));
        broker.get(Call::Cancel { id: booked.id }).await;
        for site in ["north", "south", "west"] {
            let asker = grid.asker(site);
            until_async(async || match asker.live().await.map_err(|why| why.to_string())?.len() {
                0 => Ok(()),
                left => Err(format!("{left} are left at {site}")),
            })
            .await;
        }
        // The broker may also place a job at another broker.
        for resource in ["inner/south/cluster", "west/cluster"] {
            let trace = trace(&grid, &make::job_id().unwrap().to_string());
            let (job, key) = job(None, Some(resource), &short(&trace));
            client.submit(&job, &key).await.unwrap();
            comes_to(&client, job.id.unwrap(), api::JobState::Done).await;
            assert_eq!(runs(&trace).len(), 1);
        }
        grid.check_journals();
    });
}

/// Whether the broker passes a point this often with a job in a part; if so, it was killed there.
async fn crash_at(point: Point, count: u32) -> bool {
    let mut grid = grid().await;
    grid.label = format!("{point:?} {count}");
    let booked = parts(&grid.asker("grid"), 2, 3).await;
    grid.of_mut("grid").kill9();
    let mut crashed =
        grid.of_mut("grid").start(Some(&format!("{}:{count}", point.word()))).await == Began::Stopped;
    if crashed {
        grid.of_mut("grid").restart().await;
    }
    let client = once(&grid, "grid");
    let trace = trace(&grid, "once");
    let (job, key) = job(Some(booked.id), Some(booked.slots[1].resource.as_str()), &short(&trace));
    let course = async {
        insist(async || client.submit(&job, &key).await).await;
        comes_to(&client, job.id.unwrap(), api::JobState::Done).await;
        // The same call is the same job, which has ended.
        insist(async || client.submit(&job, &key).await).await
    };
    let again = tokio::select! {
        again = course => again,
        never = grid.kill_when_stopped("grid", &mut crashed) => match never {},
    };
    assert_eq!((again.state, again.reservation), (api::JobState::Done, Some(booked.id)));
    assert_eq!(runs(&trace).len(), 1, "it should run once");
    grid.check_journals();
    crashed || grid.of("grid").is_stopped()
}

at_each_point!(wherever_the_broker_is_killed_a_job_runs_once_in_its_part: kill_at);

fn kill_at(point: Point) {
    // It wakes, submits the job, gets the site's answer, and learns of its end. Only the answer and the call to the
    // site are sent in the same step.
    let fewest = if point == Point::Sending { 1 } else { 4 };
    kill_each_time(fewest, async |count| crash_at(point, count).await);
}
