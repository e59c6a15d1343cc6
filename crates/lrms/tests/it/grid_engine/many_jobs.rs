//! Duration of a look with many waiting jobs.

use super::own_cell::{OwnCell, SLOTS};
use super::until;
use bookahead_lrms::batch::{BatchSystem, FactState};
use std::time::{Duration, Instant};

const MANY: usize = 1000;

#[test]
fn a_look_at_a_thousand_waiting_jobs_answers_within_a_second() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let full = cell.submit(&["-pe", "smp", &SLOTS.to_string(), "-l", "h_rt=600"], 600);
    until(&cell, &mut engine, &full, |state| *state == FactState::Running);
    // One command creates them all: copies of the first.
    let first = cell.submit(&["-pe", "smp", "2", "-l", "h_rt=600"], 600);
    let mut words = vec!["qresub"];
    words.resize(MANY, &first);
    cell.done(&words);

    let looks = [(); 3].map(|()| {
        let began = Instant::now();
        let picture = engine.look().unwrap();
        let took = began.elapsed();
        let waiting = picture.jobs.iter().filter(|job| job.state == FactState::Waiting);
        assert_eq!(waiting.count(), MANY);
        took
    });
    let best = looks.iter().min().unwrap();
    println!("a look at {MANY} waiting jobs took {looks:?}, at best {best:?}");
    assert!(*best < Duration::from_secs(1), "{looks:?}");
}
