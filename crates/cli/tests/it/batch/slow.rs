//! A Slurm whose commands do not end, or whose controller is gone, while fifty reservations are requested: requests
//! without a batch command are answered meanwhile, and the others get what fits when Slurm is back.
//!
//! Slurm stands still until the test has the answers that must not wait for it. So a request that waits for a batch
//! command cannot be answered at all, and the test fails on any machine.

use super::cluster::Cluster;
use super::gate::{Gate, Kind};
use crate::services::asking::{Asker, hold, new_id, now, part, together};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_api as api;
use bookahead_lrms::command::MOST_AT_ONCE;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Answer, Call, Request, ReservationId, State};
use bookahead_tests::polling::until_async;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Number of concurrent requests.
const ASKED: usize = 50;

/// Number of holds made before, which are committed meanwhile.
const HELD: u32 = 4;

/// A client waits this long for one of the fifty: as long as the site waits for Slurm.
const GRANTED_WITHIN: Duration = Duration::from_secs(540);

struct World {
    cluster: Cluster,
    gate: Gate,
    grid: Grid,
    held: Vec<ReservationId>,
}

fn one(begin: Time) -> Request {
    together(vec![part(1, begin, 60)])
}

impl World {
    async fn new() -> World {
        let mut cluster = Cluster::of(4, 16);
        let gate = Gate::of(&mut cluster);
        let mut grid = Grid::new();
        // Longer than the test: no command times out, and no request is given up.
        let limits = "time_out = \"5m\"\nanswer_within = \"10m\"";
        let batch = format!("commands = \"{}\"\n{limits}", gate.path().display());
        grid.start("site", "north", &cluster.site("north", &batch, ""), None).await;
        let (ada, mut held) = (grid.asker("north"), Vec::new());
        for number in 0..HELD {
            let begin = now() + Seconds(7_200 + 60 * i64::from(number));
            held.push(ada.get(hold(new_id(), one(begin))).await.id);
        }
        World { cluster, gate, grid, held }
    }

    /// Makes all requests at once, and waits until all of them wait for Slurm, with as many commands as may run at a
    /// time.
    async fn ask_for_fifty(&self) -> Vec<JoinHandle<Answer>> {
        let (begin, url) = (now() + Seconds(3_600), self.grid.of("north").url());
        let ask = |_| {
            let asker = Asker::with_time_out(&url, "ada", GRANTED_WITHIN);
            tokio::spawn(async move { asker.ask(hold(new_id(), one(begin))).await })
        };
        let (ada, asked) = (self.grid.asker("north"), (0..ASKED).map(ask).collect());
        until_async(async || {
            let requested = ada.figure("bookahead_reservations{state=\"requested\"}").await as usize;
            let waiting = (requested, self.gate.waiting(Kind::Orders).len());
            if waiting == (ASKED, MOST_AT_ONCE) { Ok(()) } else { Err(format!("{waiting:?} wait")) }
        })
        .await;
        asked
    }

    /// Each kind of request that needs no batch command is answered, and none of the fifty.
    async fn others_are_answered(&self, asked: &[JoinHandle<Answer>]) {
        let ada = self.grid.asker("north");
        for &id in &self.held {
            let client = ada.client();
            client.list(&api::ListQuery::default()).await.unwrap();
            client.show(id).await.unwrap();
            client.health().await.unwrap();
            client.metrics().await.unwrap();
            let committed = ada.get(Call::Commit { id, jobs: Vec::new() }).await;
            assert_eq!(committed.state, State::Committed);
        }
        assert_eq!(ada.get(Call::Cancel { id: self.held[0] }).await.state, State::Cancelled);
        assert!(!asked.iter().any(JoinHandle::is_finished), "Slurm has not answered");
    }

    /// All of the fifty fit, and get what they asked for.
    async fn all_are_granted(&self, asked: Vec<JoinHandle<Answer>>) {
        for one in asked {
            match one.await.unwrap() {
                Answer::Reservation(held) => assert_eq!(held.state, State::Held),
                other => panic!("{other:?}"),
            }
        }
        self.grid.check_journals();
    }
}

#[test]
fn a_slow_slurm_keeps_nobody_waiting_who_does_not_need_it_and_grants_what_fits() {
    runtime().block_on(async {
        let world = World::new().await;
        let orders = world.gate.close(Kind::Orders);
        let asked = world.ask_for_fifty().await;
        // From here on looks do not end either.
        let others = world.gate.close(Kind::Others);
        world.gate.has_waiting(Kind::Others, 1).await;
        world.others_are_answered(&asked).await;
        assert_eq!(world.gate.waiting(Kind::Orders).len(), MOST_AT_ONCE, "neither fewer nor more");
        drop((orders, others));
        world.all_are_granted(asked).await;
        assert_eq!(world.gate.passed(Kind::Orders), HELD as usize + ASKED, "one command each");
    });
}

#[test]
fn a_controller_that_is_gone_costs_nobody_else_anything_and_is_used_again_when_it_is_back() {
    runtime().block_on(async {
        let mut world = World::new().await;
        let orders = world.gate.close(Kind::Orders);
        let asked = world.ask_for_fifty().await;
        world.cluster.daemons().stop_controller();
        // The commands that waited, and those of looks, do not find the controller.
        drop(orders);
        let ada = world.grid.asker("north");
        until_async(async || {
            let silent = ada.figure("bookahead_batch_silent_seconds").await;
            if silent > 0.0 { Ok(()) } else { Err("the site has noticed it") }
        })
        .await;
        world.others_are_answered(&asked).await;
        world.cluster.daemons().start_controller().unwrap();
        // A controller that has just started refuses everything until its nodes have registered.
        for one in asked {
            match one.await.unwrap() {
                Answer::Reservation(held) => assert_eq!(held.state, State::Held),
                Answer::Problem(problem) => assert!(problem.why.to_string().contains("busy"), "{problem:?}"),
                other => panic!("{other:?}"),
            }
        }
        until_async(async || match ada.ask(hold(new_id(), one(now() + Seconds(10_800)))).await {
            Answer::Reservation(held) if held.state == State::Held => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        world.grid.check_journals();
    });
}
