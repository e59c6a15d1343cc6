//! Kill -9 at random moments: sites and brokers, one after the other, while a negotiation is under way. The enumeration of
//! [`super::crash_points`] knows only steps of the party thread; a moment can lie anywhere, and a second crash may come before all
//! is well again after the first.

use super::grid::{Grid, SITES, Shape};
use super::negotiation::{Negotiation, Outcome};
use super::{quick, runtime, side_by_side};
use std::time::Duration;

/// Numbers that look like chance and are the same on every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn whenever_somebody_is_killed_what_was_promised_is_kept_and_nothing_is_left_over() {
    let rounds = if quick() { 8 } else { 40 };
    let outcomes = side_by_side((2000..2000 + rounds).collect(), |seed| runtime().block_on(round(seed)));
    let committed = outcomes.iter().filter(|outcome| **outcome == Outcome::Committed).count();
    eprintln!("{committed} of {rounds} were committed: {outcomes:?}");
    assert!(committed > 0);
}

/// What came of a negotiation in which somebody is killed now and then.
async fn round(seed: u64) -> Outcome {
    let mut chance = Chance(seed);
    let shape = if chance.below(2) == 0 { Shape::Flat } else { Shape::Nested };
    let (mut grid, _) = Grid::of_three(shape, "", &[]).await;
    grid.label = format!("seed {seed}, {shape:?}");
    let negotiation = Negotiation::new(&grid, shape);
    let kills = 1 + chance.below(4);
    let victims: Vec<&str> = SITES.into_iter().chain(shape.broker_names()).collect();
    let killing = async {
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(chance.below(150))).await;
            let victim = victims[chance.below(victims.len() as u64) as usize];
            grid.of_mut(victim).restart().await;
        }
    };
    let (outcome, ()) = tokio::join!(negotiation.run(), killing);
    // Where the last was killed after all was over, it still knows that.
    negotiation.nothing_is_left().await;
    grid.check_journals();
    outcome
}
