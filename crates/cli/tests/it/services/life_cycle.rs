//! The life cycle of reservations at one site, from a probe to the end, with a program that really runs; and all ways
//! in which a reservation ends earlier.

use super::asking::{Asker, is_live, new_id, now, part, together, window};
use super::grid::{CAPACITY, Grid, site};
use super::runtime;
use super::witness::check_journal;
use crate::service::PROGRAMS;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Watch, make};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Part, ReservationId};
use bookahead_tests::polling::{PATIENCE, until_async};
use std::path::Path;

/// The JSON of a request.
fn document(part: Part) -> api::Request {
    together(vec![part]).try_into().unwrap()
}

fn reserve(part: Part, hold_for: i64) -> api::Reserve {
    api::Reserve {
        id: Some(new_id()),
        request: document(part),
        hold_for_seconds: api::FineSeconds(hold_for),
        book: false,
    }
}

async fn hold(client: &Client, part: Part, hold_for: i64) -> api::Reservation {
    let key = make::key().unwrap().to_string();
    client.reserve(&reserve(part, hold_for), &key).await.unwrap()
}

fn stamp(time: Time) -> api::Timestamp {
    time.try_into().unwrap()
}

/// The status and the code of a refusal.
#[track_caller]
fn refusal<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> (u16, String) {
    let error = answer.expect_err("it should be refused");
    let problem = error.problem().unwrap_or_else(|| panic!("{error:?}"));
    (problem.status, problem.code.clone())
}

/// Waits until a reservation is in a state.
async fn comes_to(client: &Client, id: ReservationId, state: api::State) -> api::Reservation {
    until_async(async || {
        let shown = client.show(id).await.map_err(|why| why.to_string())?;
        if shown.state == state { Ok(shown) } else { Err(format!("{state:?} in {shown:?}")) }
    })
    .await
}

/// The events up to and including the first of this kind.
async fn told_until(watch: &mut Watch, kind: &str) -> Vec<api::Event> {
    let mut told = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, watch.next()).await;
        let event = next.unwrap_or_else(|_| panic!("{kind} was never told: {told:?}")).unwrap().unwrap();
        let last = event.kind == kind;
        told.push(event);
        if last {
            return told;
        }
    }
}

fn kinds(told: &[api::Event]) -> Vec<&str> {
    told.iter().map(|event| event.kind.as_str()).collect()
}

/// A program that writes a file.
fn script(reservation: ReservationId, trace: &Path) -> api::SubmitJob {
    let text = format!("#!/bin/sh\necho \"$BOOKAHEAD_RESERVATION\" >> '{}'\n", trace.display());
    let work = serde_json::json!({"type": "script", "text": text});
    let job =
        serde_json::json!({"reservation": reservation, "capacity": 4, "limit_seconds": 5, "work": work});
    serde_json::from_value(job).unwrap()
}

#[test]
fn a_reservation_lives_from_a_probe_to_its_end_with_a_program_in_it() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", PROGRAMS), None).await;
        let north = grid.of("north");
        let ada = Asker::new(&north.url(), "ada").client().clone();
        let mut watch = ada.watch(None, None).await.unwrap();

        // Far enough ahead that all calls below are made before it begins.
        let begin = now() + Seconds(12);
        let wanted = part(4, begin, 20);
        let probe = api::Probe { request: document(wanted.clone()), most: None, starts: Vec::new() };
        let offers = ada.probe(&probe).await.unwrap().offers;
        assert_eq!((offers.len(), offers[0].slots[0].begin), (1, stamp(begin)));
        let held = hold(&ada, wanted, 5_000).await;
        let (id, version) = (held.id, held.version);
        assert_eq!((held.state, held.slots[0].begin), (api::State::Held, stamp(begin)));
        let longer = ada.hold(id, &api::Hold { hold_for_seconds: api::FineSeconds(60_000) }).await.unwrap();
        assert!(longer.held_for_seconds > held.held_for_seconds, "{longer:?}");
        let committed = ada.commit(id, &api::Commit::default()).await.unwrap();
        assert_eq!((committed.state, committed.held_for_seconds), (api::State::Committed, None));

        let trace = north.config().with_file_name("trace");
        let job = ada.submit(&script(id, &trace), &make::key().unwrap().to_string()).await.unwrap();
        assert_eq!((job.state, job.reservation), (api::JobState::Waiting, Some(id)));
        let change = api::Change { request: document(part(4, begin, 30)) };
        let changed = ada.change(id, Some(version), &change).await.unwrap();
        assert_eq!((changed.slots[0].end, changed.version), (stamp(begin + Seconds(30)), version + 1));
        assert_eq!(refusal(ada.change(id, Some(version), &change).await), (412, "changed".into()));
        let shown = ada.show(id).await.unwrap();
        assert_eq!(shown.request.as_ref().map(|request| request.parts.len()), Some(1));
        assert_eq!(api::Reservation { request: None, ..shown }, changed);
        assert!(!trace.exists(), "it runs when the reservation begins, and not before");

        comes_to(&ada, id, api::State::Active).await;
        let done = until_async(async || {
            let shown = ada.job(job.id).await.map_err(|why| why.to_string())?;
            if shown.state.is_over() { Ok(shown) } else { Err(format!("{shown:?}")) }
        });
        let done = done.await;
        assert_eq!((done.state, done.exit), (api::JobState::Done, Some(0)), "{done:?}");
        assert!(done.started.unwrap() >= stamp(begin), "{done:?}");
        assert_eq!(
            std::fs::read_to_string(&trace).unwrap(),
            format!("{id}\n"),
            "once, and in its reservation"
        );

        let rest = api::Release { part: Some(0), from: stamp(now()), keep: 0, end_jobs: false };
        assert_eq!(ada.release(id, &rest).await.unwrap().state, api::State::Completed);
        let told = told_until(&mut watch, "completed").await;
        let booked = ["held", "held-longer", "committed", "committed", "job-submitted"];
        let kept =
            ["change-requested", "change-settled", "begun", "job-started", "job-completed", "completed"];
        assert_eq!(kinds(&told), [&booked[..], &kept].concat());
        assert!(told.windows(2).all(|two| two[0].sequence < two[1].sequence), "{told:?}");
        assert!(told.iter().all(|event| event.reservation == Some(id)), "{told:?}");
        let over = api::ListQuery { state: Some("completed".parse().unwrap()), ..api::ListQuery::default() };
        assert_eq!(
            ada.list(&over).await.unwrap().reservations,
            ada.list(&Default::default()).await.unwrap().reservations
        );

        let north = grid.of_mut("north");
        north.signal("TERM");
        assert!(north.ended().await.0.success());
        check_journal(&north.journal());
    });
}

#[test]
fn a_hold_that_is_not_committed_evaporates_and_may_be_committed_late_where_the_room_is_still_free() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", ""), None).await;
        grid.start("site", "strict", &site("strict", "holds = { late_commits = false }"), None).await;
        let [ada, grace] =
            ["ada", "grace"].map(|user| Asker::new(&grid.of("north").url(), user).client().clone());
        let strict = grid.asker("strict").client().clone();
        let mut watch = ada.watch(None, None).await.unwrap();
        let all = |hours: i64| part(CAPACITY, now() + Seconds(hours * 3_600), 3_600);

        let [free, taken] = [hold(&ada, all(1), 50).await.id, hold(&ada, all(3), 50).await.id];
        for id in [free, taken] {
            comes_to(&ada, id, api::State::Expired).await;
        }
        // On a busy machine the first hold may expire before the second is granted.
        let mut told = told_until(&mut watch, "expired").await;
        told.extend(told_until(&mut watch, "expired").await);
        for id in [free, taken] {
            let of_it: Vec<_> = told.iter().filter(|event| event.reservation == Some(id)).cloned().collect();
            assert_eq!(kinds(&of_it), ["held", "expired"]);
        }
        hold(&grace, all(3), 60_000).await;
        assert_eq!(ada.commit(free, &api::Commit::default()).await.unwrap().state, api::State::Committed);
        assert_eq!(refusal(ada.commit(taken, &api::Commit::default()).await), (410, "expired".into()));

        let late = hold(&strict, all(1), 50).await.id;
        comes_to(&strict, late, api::State::Expired).await;
        assert_eq!(refusal(strict.commit(late, &api::Commit::default()).await), (410, "expired".into()));
        grid.check_journals();
    });
}

#[test]
fn what_is_given_up_is_free_again_whoever_asks_next_and_stays_given_up() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", ""), None).await;
        let [ada, grace] = ["ada", "grace"].map(|user| Asker::new(&grid.of("north").url(), user));
        let begin = now() + Seconds(3_600);
        let all = || part(CAPACITY, begin, 3_600);
        let held = hold(ada.client(), all(), 60_000).await.id;
        let rival = reserve(all(), 60_000);
        let key = make::key().unwrap().to_string();
        assert_eq!(refusal(grace.client().reserve(&rival, &key).await), (409, "no-room".into()));
        assert_eq!(ada.client().cancel(held).await.unwrap().state, api::State::Cancelled);
        assert_eq!(
            refusal(ada.client().commit(held, &api::Commit::default()).await),
            (409, "illegal".into())
        );
        assert_eq!(
            ada.client().cancel(held).await.unwrap().state,
            api::State::Cancelled,
            "as often as one likes"
        );

        // The same call keeps its refusal; a new call finds the free capacity.
        assert_eq!(refusal(grace.client().reserve(&rival, &key).await), (409, "no-room".into()));
        let new = hold(grace.client(), window(CAPACITY, begin, 3_600, begin + Seconds(7_200)), 60_000).await;
        assert_eq!(new.slots[0].begin, stamp(begin));
        let live = grace.live().await.unwrap();
        assert!(live.len() == 1 && live.iter().all(|one| is_live(one.state) && one.id == new.id), "{live:?}");
    });
}
