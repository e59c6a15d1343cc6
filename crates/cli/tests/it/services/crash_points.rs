//! Kill -9 at every step of a negotiation: a site or the broker stops the first, second, third time that it passes a
//! point ([`Point`]), is killed there and restarted, until it no longer passes the point. No promise is lost, no part
//! is half done, and nothing is left over.

use super::grid::{Grid, PATIENT, Shape};
use super::kill_each_time;
use super::negotiation::{Negotiation, Outcome, Phase};
use bookahead_service::thread::Point;
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

at_each_point!(whenever_the_broker_is_killed_all_parts_are_agreed: Lane::cover, Course::Agreed, "grid");
at_each_point!(whenever_a_site_is_killed_all_parts_are_agreed: Lane::cover, Course::Agreed, "north");
at_each_point!(whenever_the_broker_is_killed_all_parts_are_rolled_back: Lane::cover, Course::RolledBack, "grid");
at_each_point!(whenever_a_site_is_killed_all_parts_are_rolled_back: Lane::cover, Course::RolledBack, "north");
at_each_point!(whenever_an_inner_broker_is_killed_all_parts_are_agreed: Lane::cover, Course::Nested, "inner");

impl Course {
    /// Settings of the brokers. A silent site is given up soon; no other timeout passes on a slow machine.
    fn rules(self) -> &'static str {
        match self {
            Course::Agreed | Course::Nested => PATIENT,
            Course::RolledBack => "[rules]\nsurvey_time = \"30s\"\nhold_time = \"1s\"",
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
    fn cover(point: Point, course: Course, victim: &'static str) {
        let lane = Lane { course, victim, point };
        kill_each_time(fewest(lane), async |count| {
            let outcome = lane.crash_at(count).await;
            eprintln!("{count}: {outcome:?}");
            outcome.is_some()
        });
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
