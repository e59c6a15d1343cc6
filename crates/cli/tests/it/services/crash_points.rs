//! Kill -9 at every step of a negotiation: a site or the broker stops the first, second, third time that it passes a
//! point ([`Point`]), is killed there and restarted, until it no longer passes the point. No promise is lost, no part
//! is half done, and nothing is left over.

use super::grid::{Grid, PATIENT, Shape};
use super::negotiation::{Negotiation, Outcome, Phase};
use super::{quick, runtime, side_by_side};
use bookahead_service::thread::Point;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

/// The result of the negotiation without a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Course {
    /// All parts are held, committed and cancelled.
    Agreed,
    /// The third site accepts its call but does not answer, so that the parts of the others are released.
    RolledBack,
    /// All parts are held, committed and cancelled, two of them through a second broker.
    Nested,
}

/// The process that is killed, and the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lane {
    course: Course,
    victim: &'static str,
    point: Point,
}

/// The result of a lane.
struct Covered {
    lane: Lane,
    /// One entry for each time that the point was passed.
    outcomes: Vec<Outcome>,
}

#[test]
#[cfg(debug_assertions)]
fn whoever_is_killed_at_any_step_what_was_promised_is_kept_and_nothing_is_left_over() {
    Course::Agreed.cover();
}

#[test]
#[cfg(debug_assertions)]
fn whoever_is_killed_while_a_silent_site_is_given_up_nothing_is_left_over() {
    if !quick() {
        Course::RolledBack.cover();
    }
}

#[test]
#[cfg(debug_assertions)]
fn whenever_the_inner_of_two_brokers_is_killed_what_was_promised_is_kept_and_nothing_is_left_over() {
    if !quick() {
        Course::Nested.cover();
    }
}

impl Course {
    /// One process of each kind, because the sites are alike.
    fn victims(self) -> &'static [&'static str] {
        match self {
            Course::Agreed | Course::RolledBack => &["grid", "north"],
            Course::Nested => &["inner"],
        }
    }

    /// Settings of the brokers. A silent site is given up soon; no other timeout passes on a slow machine.
    fn rules(self) -> &'static str {
        match self {
            Course::Agreed | Course::Nested => PATIENT,
            Course::RolledBack => "[rules]\nsurvey_time = \"30s\"\nhold_time = \"1s\"",
        }
    }

    /// Runs all its lanes, several at a time.
    fn cover(self) {
        let points = if quick() { vec![Point::Decided, Point::Sending] } else { Point::ALL.to_vec() };
        let lane = |victim| points.iter().map(move |&point| Lane { course: self, victim, point });
        let covered = side_by_side(self.victims().iter().copied().flat_map(lane).collect(), Lane::cover);
        for Covered { lane, outcomes } in &covered {
            let mut counts = BTreeMap::new();
            outcomes.iter().for_each(|outcome| *counts.entry(format!("{outcome:?}")).or_insert(0) += 1);
            let (Lane { course, victim, point }, crashes) = (lane, outcomes.len());
            eprintln!("{course:?} {victim:>5} {:<7} {crashes:>2} crashes: {counts:?}", point.word());
            assert!(crashes >= fewest(*lane), "{lane:?}: {outcomes:?}");
        }
    }
}

/// Minimum number of steps that the enumeration must cover, however events are grouped into appends. With fewer it has
/// missed something.
fn fewest(lane: Lane) -> usize {
    match (lane.course, lane.victim, lane.point) {
        // A site only answers, one message at a time, so that nothing is ever sent in part.
        (_, "north", Point::Sending) => 0,
        (Course::Agreed, "north", _) => 6,
        (Course::RolledBack, "north", _) => 4,
        (Course::Agreed, ..) => 10,
        (Course::RolledBack, ..) => 7,
        (Course::Nested, _, Point::Sending) => 1,
        (Course::Nested, ..) => 18,
    }
}

impl Lane {
    fn cover(self) -> Covered {
        let crashes = (1..).map_while(|count| runtime().block_on(self.crash_at(count)));
        Covered { lane: self, outcomes: crashes.collect() }
    }

    /// The result of a negotiation in which the victim was killed the n-th time that it passed the point; None if it
    /// does not pass it that often.
    async fn crash_at(self, count: u32) -> Option<Outcome> {
        let point = format!("{}:{count}", self.point.word());
        let shape = if self.course == Course::Nested { Shape::Nested } else { Shape::Flat };
        let silent = (self.course == Course::RolledBack).then_some(("west", "decided:1"));
        let stop: Vec<_> = silent.into_iter().chain([(self.victim, point.as_str())]).collect();
        let (mut grid, mut crashed) = Grid::of_three(shape, self.course.rules(), &stop).await;
        grid.label = format!("{self:?} {count}");
        let negotiation = Negotiation::new(&grid, shape);
        let outcome = tokio::select! {
            outcome = negotiation.run() => outcome,
            never = self.kill_those_who_stop(&mut grid, &mut crashed, || negotiation.phase()) => match never {},
        };
        if grid.of(self.victim).is_stopped() {
            // It stopped in its very last step.
            crashed = true;
            grid.of_mut(self.victim).restart().await;
            negotiation.nothing_is_left().await;
        }
        grid.check_journals();
        crashed.then_some(outcome)
    }

    async fn kill_those_who_stop(
        self,
        grid: &mut Grid,
        crashed: &mut bool,
        phase: impl Fn() -> Phase,
    ) -> Infallible {
        loop {
            if grid.of(self.victim).is_stopped() {
                *crashed = true;
                grid.of_mut(self.victim).restart().await;
            }
            // The silent site comes back when the broker no longer waits for it.
            if self.course == Course::RolledBack && grid.of("west").is_stopped() && phase() != Phase::Between
            {
                grid.of_mut("west").restart().await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
