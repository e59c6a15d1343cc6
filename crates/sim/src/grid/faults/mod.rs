//! Random grids in which random things go wrong: sites with little room and brokers of brokers, clients that commit,
//! change, cancel and forget, a network that loses and doubles, parties that crash in the middle of what they do, batch systems
//! that stall, refuse and forget. Then all is put right, everybody comes to an end, and the witness speaks. One seed gives
//! one schedule, to the bit.
//!
//! Which kinds of faults a schedule has is drawn too ([`Kinds`]), so that some schedules have few kinds of which much happens.

mod draw;
mod parties;
mod troubles;
mod wishes;

use super::log::Tally;
use super::witness::Violation;
use super::{Flaw, Grid};
use bookahead_protocol::{Millis, Moment};
use draw::{Draw, Kinds};

/// Things go wrong until then; after it everything is put right.
const HEALED: Moment = Moment(40_000);
/// Everybody must have come to an end by then.
const SETTLED: Moment = Moment(3_600_000);
/// When nobody has anything under way, books and batch systems agree after this time: some looks, of which one may come just
/// before something is due.
const AGREED_AFTER: Millis = Millis(25_000);

/// What came of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The schedule.
    pub seed: u64,
    /// What went wrong.
    pub injected: Tally,
    /// What was reached in spite of it.
    pub reached: Tally,
    /// What must not be.
    pub violations: Vec<Violation>,
}

/// Runs the schedule of a seed.
pub fn run(seed: u64, flaw: Option<Flaw>) -> Outcome {
    finish(seed, &mut grid(seed, flaw))
}

/// Runs it again and keeps all that happens.
pub fn replay(seed: u64, flaw: Option<Flaw>) -> (Outcome, Grid) {
    let mut grid = grid(seed, flaw);
    grid.log.keep();
    (finish(seed, &mut grid), grid)
}

fn finish(seed: u64, grid: &mut Grid) -> Outcome {
    grid.run(HEALED);
    let settled = grid.settle(SETTLED);
    grid.run(grid.now() + AGREED_AFTER);
    // What has come due meanwhile is under way.
    let settled = settled && grid.settle(SETTLED);
    let violations = grid.verdict(settled);
    let (injected, reached) = (grid.injected(), grid.witness.reached.clone());
    Outcome { seed, injected, reached, violations }
}

/// The grid of a seed, with all that will go wrong.
fn grid(seed: u64, flaw: Option<Flaw>) -> Grid {
    let mut draw = Draw::new(seed);
    let kinds = Kinds::draw(&mut draw);
    let parties = parties::draw(&mut draw, &kinds, seed);
    let rules = troubles::network(&mut draw);
    let mut grid = Grid::new(parties, rules, seed);
    if let Some(flaw) = flaw {
        grid.break_by(flaw);
    }
    grid.begin_beating();
    troubles::draw(&mut draw, &kinds, &mut grid);
    grid
}
