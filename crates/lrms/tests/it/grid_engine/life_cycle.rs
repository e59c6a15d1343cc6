//! A reservation from its grant to its end, with jobs inside.

use super::own_cell::{OwnCell, SLOTS};
use super::{find, job, reserve, script, sleeping, stands, until_state, wanted};
use bookahead_lrms::batch::{BatchSystem, FactState, Handle, JobSystem, ReservationSystem};
use bookahead_lrms::grid_engine::GridEngine;
use bookahead_plan::Seconds;
use std::collections::BTreeMap;
use std::time::SystemTime;

#[test]
fn a_job_starts_with_its_reservation_and_is_gone_with_it() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let before = engine.look().unwrap();
    let wanted = wanted(before.clock.unwrap(), 6, 10, 4);
    let handle = engine.create(&wanted, &before).unwrap().handle;
    let (begin, end) = (wanted.interval.begin, wanted.interval.end);

    let picture = engine.look().unwrap();
    let reserved = &picture.reservations[0];
    assert_eq!(
        (&reserved.handle, &reserved.name, reserved.interval),
        (&handle, &wanted.name, wanted.interval)
    );
    assert_eq!(reserved.cores, BTreeMap::from([(cell.instance("all.q"), 4)]));
    assert_eq!((reserved.spread, &reserved.accounts), (true, &vec!["root".to_owned()]));

    let long = engine.submit(&job(3, 3600, Some(&handle), sleeping(600))).unwrap();
    let short = engine.submit(&job(1, 5, Some(&handle), script("exit 3"))).unwrap();
    let waits = stands(&mut engine, &long).unwrap();
    assert_eq!((&waits.state, waits.cores), (&FactState::Waiting, 3));
    assert_eq!((waits.limit, waits.reservations), (Some(Seconds(10)), vec![handle.clone()]));

    let runs = until_state(&cell, &mut engine, &long, |state| *state == FactState::Running);
    let late = runs.started.unwrap() - begin;
    // How late depends on the machine.
    assert!((0..10).contains(&late.0), "it started {late} s after its reservation");
    assert_eq!(runs.placed, BTreeMap::from([(cell.instance("all.q"), 3)]));
    let done = until_state(&cell, &mut engine, &short, FactState::is_over);
    assert_eq!(done.state, FactState::Done { exit: 3 });

    let ended = wait_for_the_end(&cell, &mut engine, &handle, &long);
    assert!(ended >= end.0, "it was gone {} s before its end", end.0 - ended);
    let over = until_state(&cell, &mut engine, &long, FactState::is_over);
    assert_eq!((over.state, over.ended), (FactState::OutOfTime, Some(end)));
}

/// The time at which neither the reservation nor its job existed any more.
fn wait_for_the_end(cell: &OwnCell, engine: &mut GridEngine, handle: &Handle, native: &str) -> i64 {
    cell.until("the reservation is over", || {
        let picture = engine.look().unwrap();
        let reserved = picture.reservations.iter().any(|reserved| reserved.handle == *handle);
        !reserved && find(&picture, native).is_none()
    });
    // Not the clock of the look, which is read in parallel and may be a second older than the lists.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

#[test]
fn deleting_a_reservation_ends_the_jobs_inside() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    // It should have begun ten seconds ago, so it begins at once.
    let handle = reserve(&mut engine, -10, 600, SLOTS).unwrap();
    let runs = engine.submit(&job(6, 60, Some(&handle), sleeping(60))).unwrap();
    let waits = engine.submit(&job(6, 60, Some(&handle), sleeping(60))).unwrap();
    until_state(&cell, &mut engine, &runs, |state| *state == FactState::Running);
    assert_eq!(stands(&mut engine, &waits).unwrap().state, FactState::Waiting);

    engine.delete(&handle).unwrap();
    let picture = engine.look().unwrap();
    assert_eq!((picture.reservations.len(), find(&picture, &runs), find(&picture, &waits)), (0, None, None));
    engine.delete(&handle).unwrap();
    for native in [runs, waits] {
        assert_eq!(until_state(&cell, &mut engine, &native, FactState::is_over).state, FactState::Cancelled);
    }
    // All slots are available again.
    reserve(&mut engine, 1000, 10, SLOTS).unwrap();
}

#[test]
fn jobs_can_be_cancelled_and_run_out_of_time() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let limited = engine.submit(&job(2, 2, None, sleeping(60))).unwrap();
    let runs = engine.submit(&job(6, 60, None, sleeping(60))).unwrap();
    let waits = engine.submit(&job(6, 60, None, sleeping(60))).unwrap();
    until_state(&cell, &mut engine, &runs, |state| *state == FactState::Running);
    for native in [&runs, &waits, &runs, "4711"] {
        engine.cancel(native).unwrap();
    }
    for native in [&runs, &waits] {
        assert_eq!(until_state(&cell, &mut engine, native, FactState::is_over).state, FactState::Cancelled);
    }
    assert_eq!(until_state(&cell, &mut engine, &limited, FactState::is_over).state, FactState::OutOfTime);
    assert_eq!(engine.outcome("4711").unwrap(), None);
    engine.cancel(&runs).unwrap();
}
