//! Nodes that fail under reservations: reservations that fit elsewhere are moved within the cluster. For the others the
//! owner is told what is missing and when it could be whole, and they are whole again when the node is back.

use super::cluster::{Cluster, Queued};
use super::terminal::Terminal;
use crate::services::asking::{Asker, book, new_id, now, part, soon, together, window};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::{Part, Reservation, ReservationId, State};
use bookahead_tests::polling::{until, until_async};

#[test]
fn a_reservation_whose_node_fails_moves_or_says_what_is_missing_until_the_node_is_back() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let (grid, ada, mut watcher) = cluster.watched_site().await;
        let begin = now() + Seconds(3_600);

        let first = ada.get(book(new_id(), together(vec![part(2, begin, 60)]))).await;
        assert_eq!(first.state, State::Committed);
        let before = cluster.one_for("north", first.id);
        let other = if before.nodes == "n1" { "n2" } else { "n1" };
        assert!(["n1", "n2"].contains(&before.nodes.as_str()), "{before:?}");
        cluster.fail(&before.nodes);
        until(|| match &cluster.kept_for("north", first.id)[..] {
            [moved] if moved.nodes == other && moved.cores == 2 => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        let shown = ada.client().show(first.id).await.unwrap();
        assert_eq!(shown.missing, [0], "there was room on the other node: {shown:?}");
        cluster.bring_back(&before.nodes);

        // The second has a window: it could also start when the first is over.
        let flexible = window(2, begin, 60, begin + Seconds(600));
        let second = until_granted(&ada, flexible).await;
        assert_eq!(second.slots[0].interval.begin, begin, "both at once");
        let failed = cluster.one_for("north", second.id).nodes;
        cluster.fail(&failed);
        let told = watcher.hears_missing(second.id, 2).await;
        assert!(told.could_begin.iter().any(|at| at.time() >= begin + Seconds(60)), "{told:?}");
        assert_eq!(ada.client().show(second.id).await.unwrap().missing, [2]);
        let shown = ada.client().show(first.id).await.unwrap();
        assert_eq!(shown.missing, [0], "the older is not hit");
        until(|| match &cluster.kept_for("north", first.id)[..] {
            [kept] if kept.cores == 2 && kept.nodes != failed => Ok(()),
            kept => Err(format!("{kept:?}")),
        });

        cluster.bring_back(&failed);
        watcher.hears_missing(second.id, 0).await;
        until(|| {
            let kept = [first.id, second.id].map(|id| cluster.kept_for("north", id));
            let whole = kept.iter().all(|kept| matches!(&kept[..], [one] if one.cores == 2));
            if whole && kept[0][0].nodes != kept[1][0].nodes { Ok(()) } else { Err(format!("{kept:?}")) }
        });
        assert_eq!(ada.client().show(second.id).await.unwrap().missing, [0]);
        grid.check_journals();
    });
}

/// A reservation over two nodes, with a job on each of its cores.
struct Busy {
    ada: Terminal,
    id: ReservationId,
    jobs: Vec<String>,
}

impl Busy {
    async fn start(grid: &Grid, cluster: &Cluster) -> Busy {
        let asker = grid.asker("north");
        let id = asker.get(book(new_id(), together(vec![soon(4, 600)]))).await.id;
        let ada = Terminal::at(&grid.of("north").url());
        ada.folder.write("script.sh", "#!/bin/sh\nsleep 600\n");
        let words = ["submit", "--capacity", "1", "--reservation", &id.to_string(), "script.sh"];
        let submit = |_| ada.document(&words)["id"].as_str().unwrap().to_owned();
        let jobs: Vec<String> = (0..4).map(submit).collect();
        let busy = Busy { ada, id, jobs };
        until(|| match busy.running(cluster).len() {
            4 => Ok(()),
            _ => Err(format!("{:?}", cluster.jobs())),
        });
        busy
    }

    /// Its running jobs.
    fn running(&self, cluster: &Cluster) -> Vec<Queued> {
        let jobs = self.jobs.iter().filter_map(|job| cluster.job(job));
        jobs.filter(|job| job.state == "RUNNING").collect()
    }
}

#[test]
fn a_reservation_with_jobs_says_what_is_missing_while_a_node_is_down_or_moves_and_its_other_jobs_run_on() {
    runtime().block_on(async {
        let cluster = Cluster::of_frail(4, 2);
        let (grid, ada, mut watcher) = cluster.watched_site().await;
        // The other nodes are reserved, so that there is no room at first.
        cluster.reserve_nodes("course", "n3,n4", now() + Seconds(60), now() + Seconds(3_600));
        let busy = Busy::start(&grid, &cluster).await;
        let before = cluster.one_for("north", busy.id);
        assert_eq!(before.nodes, "n[1-2]");

        cluster.fail("n1");
        watcher.hears_missing(busy.id, 2).await;
        let shown = ada.client().show(busy.id).await.unwrap();
        assert_eq!((shown.state, &shown.missing[..]), (api::State::Active, &[2][..]));
        assert_eq!(cluster.one_for("north", busy.id), before, "what is left of it stays as it is");
        let left = busy.running(&cluster);
        assert!(left.len() == 2 && left.iter().all(|job| job.nodes == "n2"), "{left:?}");

        cluster.bring_back("n1");
        watcher.hears_missing(busy.id, 0).await;
        assert_eq!(ada.client().show(busy.id).await.unwrap().missing, [0]);
        assert_eq!(cluster.one_for("north", busy.id), before);

        // Now there is room, and all of it moves; running jobs stay where they are.
        cluster.tell(&["scontrol", "delete", "reservation", "course"]);
        cluster.fail("n1");
        until(|| match &cluster.kept_for("north", busy.id)[..] {
            [moved] if moved.nodes == "n[3-4]" && moved.cores == 4 => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        assert_eq!(ada.client().show(busy.id).await.unwrap().missing, [0]);
        assert_eq!(busy.running(&cluster), left);
        busy.ada.document(&["cancel", &busy.id.to_string()]);
        until(|| if cluster.reservations().is_empty() { Ok(()) } else { Err("something is kept") });
        grid.check_journals();
    });
}

/// Books as soon as the site has noticed the free capacity.
async fn until_granted(ada: &Asker, part: Part) -> Reservation {
    let (begin, request) = (part.wanted.earliest_start, together(vec![part]));
    let probe = api::Probe { request: request.clone().try_into().unwrap(), most: None, starts: Vec::new() };
    until_async(async || {
        let offers = ada.client().probe(&probe).await.map_err(|why| why.to_string())?;
        let soon = offers.offers.first().is_some_and(|offer| offer.slots[0].begin.time() == begin);
        if soon { Ok(()) } else { Err(format!("{offers:?}")) }
    })
    .await;
    ada.get(book(new_id(), request)).await
}
