//! What submitting a job costs: calls and round trips, counted, and the computing time of our own code, measured. What the
//! network, the encryption and the batch system add is not in it.

use super::scaling::Clock;
use super::setup::CLUSTERS;
use super::sites::{Cost, Grid, calendar};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::jobs::flooding::{Action, Ending, Outgoing};
use bookahead_protocol::jobs::{Copies, Flood, JobMessage, Patience, Work};
use bookahead_protocol::{JobId, Millis, Moment, Name, ReservationId};

/// The paper's background: up to ten jobs and reservations.
const BACKGROUND: usize = 10;
const REPEATED: usize = 21;

/// What each way to submit costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    /// A reservation: hold and commit.
    pub(super) reservation: Way,
    /// The best of three out of three sites.
    pub(super) best_of_three: Way,
    /// The same out of a hundred sites.
    pub(super) of_a_hundred: Way,
    /// Messages from the submission of three copies to the end of the one that ran, and of all copies.
    pub(super) flooding: usize,
}

/// One way.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Way {
    /// What was counted.
    pub(super) cost: Cost,
    /// Computing time in microseconds, of all parties together.
    pub(super) computing: f64,
}

/// Counts and measures. None where nothing could be booked.
pub(super) fn measure(clock: Clock<'_>) -> Option<Costs> {
    let calendar = calendar(BACKGROUND, CLUSTERS[1].capacity());
    let (mut few, mut many) = (Grid::new(3, &calendar)?, Grid::new(100, &calendar)?);
    let best = |grid: &mut Grid| {
        let (cost, booked) = grid.best_of_three(Time(0));
        booked.map(|(site, id)| (cost, Some(site), id))
    };
    let one = |grid: &mut Grid| {
        let (cost, booked) = grid.reserve(Time(0));
        booked.map(|id| (cost, None, id))
    };
    Some(Costs {
        reservation: way(&mut few, clock, one)?,
        best_of_three: way(&mut few, clock, best)?,
        of_a_hundred: way(&mut many, clock, best)?,
        flooding: flooding(),
    })
}

fn way(
    grid: &mut Grid,
    clock: Clock<'_>,
    submit: impl Fn(&mut Grid) -> Option<(Cost, Option<Name>, ReservationId)>,
) -> Option<Way> {
    let mut times = Vec::new();
    let mut counted = Cost::default();
    for _ in 0..REPEATED {
        let begun = clock();
        let (cost, site, id) = submit(grid)?;
        times.push(clock() - begun);
        counted = cost;
        grid.give_back(site.as_ref(), id);
    }
    times.sort_unstable();
    let computing = times[REPEATED / 2].as_nanos() as f64 / 1_000.0;
    Some(Way { cost: counted, computing })
}

const JOB: JobId = JobId(1);

/// The messages of a job that is sent to three sites, of which the second could start it first.
fn flooding() -> usize {
    let names: [Name; 3] = ["a".into(), "b".into(), "c".into()];
    let work = Work { owner: "owner".into(), cores: Capacity(8), estimate: Seconds(3_600) };
    let copies = names.iter().map(|name| (name.clone(), work.clone())).collect();
    let empty = |name| (name, Copies::new(Patience::default(), Millis::seconds(5)));
    let mut post = Post { flood: Flood::new(JOB), sites: names.map(empty).into(), letters: Vec::new() };
    let sent = post.flood.start(Moment(0), copies, Patience::default()).send;
    post.broker_sends(sent);
    let submitted = post.deliver();
    let claim = post.sites[1].1.turn_came(Moment(0), JOB).send;
    post.site_sends(1, claim);
    let granted = post.deliver();
    let end = post.sites[1].1.ended(Moment(0), JOB, Ending::Finished).send;
    post.site_sends(1, end);
    submitted + granted + post.deliver()
}

/// Carries messages between a broker and sites that run whatever they may.
struct Post {
    flood: Flood,
    sites: Vec<(Name, Copies)>,
    /// From a site by its place, to the broker; or the other way.
    letters: Vec<(Letter, JobMessage)>,
}

enum Letter {
    ToBroker(usize),
    ToSite(usize),
}

impl Post {
    fn broker_sends(&mut self, sent: Vec<Outgoing>) {
        for out in sent {
            let at = self.sites.iter().position(|(name, _)| *name == out.to);
            self.letters.extend(at.map(|at| (Letter::ToSite(at), out.message)));
        }
    }

    fn site_sends(&mut self, at: usize, sent: Vec<Outgoing>) {
        self.letters.extend(sent.into_iter().map(|out| (Letter::ToBroker(at), out.message)));
    }

    /// Delivers until nobody has anything more to say; answers how many messages that were.
    fn deliver(&mut self) -> usize {
        let mut count = 0;
        while !self.letters.is_empty() {
            count += 1;
            match self.letters.remove(0) {
                (Letter::ToBroker(at), message) => {
                    let sent = self.flood.on_message(Moment(0), &self.sites[at].0, &message).send;
                    self.broker_sends(sent);
                }
                (Letter::ToSite(at), message) => {
                    let effects = self.sites[at].1.on_message(Moment(0), &"broker".into(), &message);
                    if effects.actions.contains(&Action::MayRun(JOB)) {
                        self.sites[at].1.turn_came(Moment(0), JOB);
                    }
                    self.site_sends(at, effects.send);
                }
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_cost_of_each_way_by_hand() {
        let costs = measure(&|| Duration::ZERO).unwrap();
        assert_eq!(costs.reservation.cost, Cost { calls: 2, rounds: 2 }, "hold, commit");
        assert_eq!(
            costs.best_of_three.cost,
            Cost { calls: 6, rounds: 2 },
            "three holds; a commit and two cancels"
        );
        assert_eq!(costs.of_a_hundred.cost, costs.best_of_three.cost);
        // Submit and its answer three times, claim and grant, drop with two answers twice, end and its answer.
        assert_eq!(costs.flooding, 6 + 2 + 6 + 2);
    }
}
