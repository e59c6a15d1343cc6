//! Nodes that are down for some seconds under reservations of the whole cluster, while jobs of another user wait for
//! any free core. Capacity that the batch system still reserves is not given away: the reservations stay in Slurm
//! unchanged, by name and core, no waiting job starts, and the site reports the missing capacity until the nodes are
//! back.
//!
//! Nodes go down in two ways: an operator sets them down, or their daemons are killed.

use super::cluster::{Cluster, Reserved};
use super::terminal::Terminal;
use crate::services::asking::{Asker, book, new_id, part, soon, together};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_api as api;
use bookahead_protocol::{Call, ReservationId};
use bookahead_tests::polling::{until, until_async};
use std::fs;
use std::time::Duration;

/// An account that exists on every Debian system and that has no logins.
const BOB: &str = "games";

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const CORES: u32 = 4;
const ALL: u32 = 12;

/// Longer than all cases of one test together.
const LENGTH: i64 = 600;

/// Looks of the site at Slurm, one a second: more than the two seconds after which it may move reservations.
const LOOKS: f64 = 6.0;

/// Pause between two looks of the test, because Slurm's commands take the time of the processors.
const PACE: Duration = Duration::from_millis(100);

/// All cores of a cluster reserved twice, now and right after that, and jobs of Bob that wait for a core.
struct Promised {
    cluster: Cluster,
    grid: Grid,
    ada: Asker,
    ids: [ReservationId; 2],
    /// As Slurm shows them.
    reserved: Vec<Reserved>,
    bobs: Vec<String>,
}

impl Promised {
    async fn on(cluster: Cluster, move_after: &str) -> Promised {
        cluster.open_to_others();
        let mut grid = Grid::new();
        let site = cluster.site("north", "", "").replace("move_after = \"2s\"", move_after);
        grid.start("site", "north", &site, None).await;
        let ada = grid.asker("north");
        let first = ada.get(book(new_id(), together(vec![soon(ALL, LENGTH)]))).await;
        let second = part(ALL, first.slots[0].interval.end, LENGTH);
        let ids = [first.id, ada.get(book(new_id(), together(vec![second]))).await.id];
        // One job that needs all cores, and some that would fit on any node.
        let bobs = [(ALL, 10), (CORES, 10), (CORES, 1), (1, 1)];
        let bobs = bobs.map(|(cores, minutes)| cluster.submit_as(BOB, cores, minutes));
        until(|| {
            let shown = cluster.tell(&["scontrol", "-o", "show", "res"]);
            if shown.contains(" State=ACTIVE ") { Ok(()) } else { Err(shown) }
        });
        let reserved = cluster.reservations();
        let cores: Vec<u32> = reserved.iter().map(|one| one.cores).collect();
        assert_eq!(cores, [ALL; 2], "{reserved:?}");
        Promised { cluster, grid, ada, ids, reserved, bobs: bobs.into() }
    }

    /// The missing capacity of each reservation, as the site reports it.
    async fn missing(&self) -> [u32; 2] {
        let mut missing = [0; 2];
        for (missing, id) in missing.iter_mut().zip(self.ids) {
            let shown = self.ada.client().show(id).await.unwrap();
            assert!(matches!(shown.state, api::State::Committed | api::State::Active), "{shown:?}");
            *missing = shown.missing[0];
        }
        missing
    }

    /// Checks that Slurm has the same reservations, has made no new ones, and runs no job of Bob.
    #[track_caller]
    fn is_untouched(&self, made: usize) {
        assert_eq!(self.cluster.reservations(), self.reserved);
        let jobs = self.cluster.jobs();
        let of_bob: Vec<_> = jobs.iter().filter(|job| self.bobs.contains(&job.native)).collect();
        assert_eq!(of_bob.len(), self.bobs.len(), "{jobs:?}");
        assert!(of_bob.iter().all(|job| job.state == "PENDING"), "{of_bob:?}");
        assert_eq!(self.made(), made, "reservations were made");
    }

    /// Number of reservations that the controller has made since its start.
    fn made(&self) -> usize {
        let log = self.cluster.folder().join("slurm/log/slurmctld.log");
        fs::read_to_string(log).unwrap().matches("Created reservation").count()
    }

    /// Nodes with this number of cores are down until the site has reported these cores as missing, and never others,
    /// and has looked at Slurm some times more. Meanwhile nothing changes in Slurm.
    async fn endures(&self, cores: u32) {
        let made = self.made();
        until_async(async || {
            tokio::time::sleep(PACE).await;
            self.is_untouched(made);
            let told = self.missing().await;
            assert!(told.iter().all(|missing| [0, cores].contains(missing)), "{told:?} of {cores}");
            if told == [cores; 2] { Ok(()) } else { Err(format!("{told:?} are missing")) }
        })
        .await;
        self.stays_for_some_looks(made).await;
        assert_eq!(self.missing().await, [cores; 2]);
    }

    /// Nothing changes in Slurm while the site looks at it some times.
    async fn stays_for_some_looks(&self, made: usize) {
        let looks = async || self.ada.figure("bookahead_batch_commands_total{program=\"squeue\"}").await;
        let enough = looks().await + LOOKS;
        until_async(async || {
            tokio::time::sleep(PACE).await;
            self.is_untouched(made);
            let looked = looks().await;
            if looked >= enough { Ok(()) } else { Err(format!("{looked} of {enough} looks")) }
        })
        .await;
    }

    /// The nodes are back: nothing is missing any more, and nothing else has changed.
    async fn is_whole_again(&self) {
        let made = self.made();
        until_async(async || {
            tokio::time::sleep(PACE).await;
            let missing = self.missing().await;
            self.is_untouched(made);
            if missing == [0; 2] { Ok(()) } else { Err(format!("{missing:?} are missing")) }
        })
        .await;
    }

    /// The owner has all reserved cores; the waiting jobs start when the reservations are cancelled, and not before.
    async fn serves_its_owner_first(&self) {
        let terminal = Terminal::at(&self.grid.of("north").url());
        terminal.folder.write("script.sh", "#!/bin/sh\nsleep 600\n");
        let (capacity, id) = (ALL.to_string(), self.ids[0].to_string());
        let words = ["submit", "--capacity", &capacity, "--reservation", &id, "script.sh"];
        let job = terminal.document(&words)["id"].as_str().unwrap().to_owned();
        until(|| match self.cluster.job(&job) {
            Some(job) if job.state == "RUNNING" && job.nodes == "n[1-3]" => Ok(()),
            other => Err(format!("{other:?}")),
        });
        self.is_untouched(self.made());
        for id in self.ids {
            self.ada.get(Call::Cancel { id }).await;
        }
        until(|| {
            let jobs = self.cluster.jobs();
            let runs = jobs.iter().any(|job| self.bobs.contains(&job.native) && job.state == "RUNNING");
            if runs { Ok(()) } else { Err(format!("{jobs:?}")) }
        });
        self.grid.check_journals();
    }

    /// Waits until Slurm shows these nodes as down, or none, while nothing else changes.
    #[track_caller]
    fn until_away(&self, nodes: &[&str]) {
        let made = self.made();
        until(|| {
            self.is_untouched(made);
            let shown = self.cluster.tell(&["sinfo", "-h", "-N", "-o", "%N %T"]);
            let away = |line: &&str| ["down", "unk", "*"].iter().any(|mark| line.contains(mark));
            let away = shown.lines().filter(away).filter_map(|line| line.split(' ').next());
            if away.collect::<Vec<_>>() == nodes { Ok(()) } else { Err(shown.clone()) }
        });
    }
}

#[test]
fn daemons_that_are_killed_and_a_controller_that_starts_without_nodes_cost_no_promised_core() {
    runtime().block_on(async {
        let mut promised = Promised::on(Cluster::of_watched(3, CORES), "move_after = \"2s\"").await;
        promised.cluster.daemons().stop_node("n2");
        promised.until_away(&["n2"]);
        promised.endures(CORES).await;
        promised.cluster.daemons().start_node("n2").unwrap();
        promised.until_away(&[]);
        promised.is_whole_again().await;

        let daemons = promised.cluster.daemons();
        daemons.stop_controller();
        NODES.iter().for_each(|node| daemons.stop_node(node));
        daemons.start_controller().unwrap();
        promised.until_away(&NODES);
        promised.stays_for_some_looks(promised.made()).await;
        NODES.iter().for_each(|node| promised.cluster.daemons().start_node(node).unwrap());
        promised.until_away(&[]);
        promised.is_whole_again().await;
        assert_eq!(promised.made(), 0, "reservations were made after the restart");
        promised.serves_its_owner_first().await;
    });
}

#[test]
fn nodes_that_are_set_down_for_some_seconds_cost_no_promised_core() {
    runtime().block_on(async {
        let promised = Promised::on(Cluster::of_frail(3, CORES), "").await;
        promised.cluster.fail("n2");
        promised.endures(CORES).await;
        promised.cluster.bring_back("n2");
        promised.is_whole_again().await;

        promised.cluster.fail("n[1-3]");
        promised.endures(ALL).await;
        NODES.iter().for_each(|node| promised.cluster.bring_back(node));
        promised.is_whole_again().await;
        promised.serves_its_owner_first().await;
    });
}
