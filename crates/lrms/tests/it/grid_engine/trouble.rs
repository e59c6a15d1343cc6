//! A master that does not answer.

use super::own_cell::OwnCell;
use super::{find, job, reserve, sleeping, until_state, wanted};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{BatchSystem, FactState, Grade, JobSystem, ReservationSystem};
use bookahead_tests::polling::until;

#[test]
fn a_master_that_is_down_is_silence_and_remembers_when_it_is_back() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let handle = reserve(&mut engine, 1000, 100, 2).unwrap();
    let native = engine.submit(&job(1, 600, None, sleeping(600))).unwrap();
    until_state(&cell, &mut engine, &native, |state| *state == FactState::Running);
    let picture = engine.look().unwrap();

    cell.stop_master();
    let silent = |error: LrmsError| assert!(matches!(error, LrmsError::Silent { .. }), "{error:?}");
    silent(engine.look().unwrap_err());
    silent(engine.create(&wanted(picture.clock.unwrap(), 2000, 10, 1), &picture).unwrap_err());
    silent(engine.delete(&handle).unwrap_err());
    silent(engine.submit(&job(1, 600, None, sleeping(600))).unwrap_err());
    silent(engine.cancel(&native).unwrap_err());
    assert!(engine.examine().iter().any(|finding| finding.grade == Grade::Wrong && finding.what == "master"));

    // After a restart, the output for a running job is not valid XML.
    cell.start_master();
    // No command is run before the next probe.
    let picture = until(|| engine.look());
    assert_eq!(picture.reservations.iter().map(|reserved| &reserved.handle).collect::<Vec<_>>(), [&handle]);
    assert_eq!(find(&picture, &native).unwrap().state, FactState::Running);
}
