//! Duration of a look with many waiting jobs.

use super::own_cell::{OwnCell, SLOTS};
use super::until_state;
use bookahead_lrms::batch::{BatchSystem, FactState};
use std::time::{Duration, Instant};

const MANY: usize = 1000;

/// A look takes less than this many times the time of the command that prints the jobs.
const MOST: u32 = 10;

#[test]
fn a_look_at_a_thousand_waiting_jobs_takes_little_longer_than_to_print_them() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let full = cell.submit(&["-pe", "smp", &SLOTS.to_string(), "-l", "h_rt=600"], 600);
    until_state(&cell, &mut engine, &full, |state| *state == FactState::Running);
    // One command creates them all: copies of the first.
    let first = cell.submit(&["-pe", "smp", "2", "-l", "h_rt=600"], 600);
    let mut words = vec!["qresub"];
    words.resize(MANY, &first);
    cell.done(&words);

    // At best, in turn, so that a busy machine slows down both.
    let (mut bare, mut look) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let began = Instant::now();
        cell.done(&["qstat", "-j", "*", "-xml"]);
        bare = bare.min(began.elapsed());
        let began = Instant::now();
        let picture = engine.look().unwrap();
        look = look.min(began.elapsed());
        let waiting = picture.jobs.iter().filter(|job| job.state == FactState::Waiting);
        assert_eq!(waiting.count(), MANY);
    }
    println!("a look at {MANY} waiting jobs took {look:?}, qstat alone {bare:?}");
    assert!(look < MOST * bare, "{look:?}, qstat alone {bare:?}");
}
