//! Kill -9 of a site between Slurm and its journal, in both orders, at every step. A Slurm reservation that is not in
//! the journal is deleted after the restart, with a log message; one that the journal has released is deleted too;
//! committed ones stay; and Slurm never has two reservations for one.

use super::cluster::Cluster;
use crate::services::asking::{Asker, book, hold, new_id, now, part, together};
use crate::services::grid::Grid;
use crate::services::process::Began;
use crate::services::runtime;
use crate::services::witness::exported;
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::{Call, ReservationId, State};
use bookahead_service::thread::Point;
use bookahead_tests::polling::until_async;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// The state in which a killed site left Slurm and its journal.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Found {
    /// Slurm had a reservation that the journal did not know.
    unknown: bool,
    /// Slurm had a reservation that the journal had released.
    given_up: bool,
}

/// The Slurm reservations of a site, by reservation; more than one for a reservation is a failure.
fn kept(cluster: &Cluster, site: &str) -> BTreeSet<ReservationId> {
    let mut counts: BTreeMap<ReservationId, usize> = BTreeMap::new();
    for tag in cluster.tags(site) {
        *counts.entry(tag.id).or_default() += 1;
    }
    assert!(counts.values().all(|count| *count == 1), "{:?}", cluster.reservations());
    counts.into_keys().collect()
}

/// The last state of each reservation in the journal.
fn last_words(journal: &Path) -> BTreeMap<ReservationId, String> {
    let mut words = BTreeMap::new();
    for line in exported(journal) {
        let Some((kind, what)) = line["event"]["Book"]["what"].as_object().and_then(|all| all.iter().next())
        else {
            continue;
        };
        if let Some(id) = what["id"].as_str() {
            words.insert(id.parse().unwrap(), kind.clone());
        }
    }
    words
}

fn found(cluster: &Cluster, site: &str, journal: &Path) -> Found {
    let (there, words) = (kept(cluster, site), last_words(journal));
    let is = |id: &ReservationId, word: &str| words.get(id).is_some_and(|last| last == word);
    Found {
        unknown: there.iter().any(|id| !words.contains_key(id)),
        given_up: there.iter().any(|id| is(id, "Cancelled")),
    }
}

/// One reservation is booked and stays, another is held, committed and cancelled; at the end both are cancelled.
struct Errand<'a> {
    cluster: &'a Cluster,
    site: &'a str,
    ada: Asker,
}

impl Errand<'_> {
    async fn run(&self) {
        let (stays, goes) = (new_id(), new_id());
        let wanted = |cores| together(vec![part(cores, now() + Seconds(3_600), 600)]);
        let booked = self.ada.get(book(stays, wanted(2))).await;
        assert_eq!(booked.state, State::Committed);
        self.ada.get(hold(goes, wanted(1))).await;
        self.ada.get(Call::Commit { id: goes, jobs: Vec::new() }).await;
        self.ada.get(Call::Cancel { id: goes }).await;
        self.kept_are(&[stays]).await;
        let live = until_async(async || self.ada.live().await.map_err(|why| why.to_string())).await;
        let [shown] = &live[..] else { panic!("{live:?}") };
        assert_eq!((shown.id, shown.state, &shown.missing[..]), (stays, api::State::Committed, &[0][..]));
        self.ada.get(Call::Cancel { id: stays }).await;
        self.kept_are(&[]).await;
    }

    /// Waits until Slurm has exactly these.
    async fn kept_are(&self, ids: &[ReservationId]) {
        until_async(async || {
            let left = kept(self.cluster, self.site);
            if left.iter().eq(ids) { Ok(()) } else { Err(format!("{left:?}, and not {ids:?}")) }
        })
        .await;
    }
}

/// The state after the site was killed the n-th time that it passed a point; None if it does not pass it that often.
async fn crash_at(cluster: &Cluster, point: Point, count: u32) -> Option<Found> {
    let name = format!("{}{count}", point.word());
    let mut grid = Grid::new();
    grid.label.clone_from(&name);
    let stop_at = format!("{}:{count}", point.word());
    let began = grid.start("site", &name, &cluster.site(&name, "", ""), Some(&stop_at)).await;
    let mut crash = None;
    if began == Began::Stopped {
        crash = Some(kill_and_restart(cluster, &mut grid, &name).await);
    }
    let errand = Errand { cluster, site: &name, ada: grid.asker(&name) };
    // The last restart is waited for, also if the errand ends before it.
    let done = Cell::new(false);
    let run = async {
        errand.run().await;
        done.set(true);
    };
    tokio::join!(run, kill_when_stopped(cluster, &mut grid, &name, &mut crash, &done));
    if grid.of(&name).is_stopped() {
        // It stopped in its very last step.
        crash = Some(kill_and_restart(cluster, &mut grid, &name).await);
        errand.kept_are(&[]).await;
    }
    grid.check_journals();
    crash
}

async fn kill_when_stopped(
    cluster: &Cluster,
    grid: &mut Grid,
    name: &str,
    crash: &mut Option<Found>,
    done: &Cell<bool>,
) {
    while !done.get() {
        if grid.of(name).is_stopped() {
            *crash = Some(kill_and_restart(cluster, grid, name).await);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The state before the restart. Slurm and the journal agree again when the site is ready.
async fn kill_and_restart(cluster: &Cluster, grid: &mut Grid, name: &str) -> Found {
    grid.of_mut(name).kill9();
    let journal = grid.of(name).journal();
    let found = found(cluster, name, &journal);
    grid.of_mut(name).start(None).await;
    if found.unknown || found.given_up {
        until_async(async || match grid.of(name).said() {
            said if said.contains("deleting a reservation in the batch system") => Ok(()),
            said => Err(format!("an orphan should be told: {said}")),
        })
        .await;
    }
    found
}

/// All crashes at a point.
fn crashes(cluster: &Cluster, point: Point) -> Vec<Found> {
    (1..).map_while(|count| runtime().block_on(crash_at(cluster, point, count))).collect()
}

#[test]
#[cfg(debug_assertions)]
fn a_site_killed_between_slurm_and_its_journal_leaves_nothing_over_and_loses_nothing() {
    let cluster = Cluster::of(2, 4);
    let [decided, written] = std::thread::scope(|scope| {
        let cluster = &cluster;
        let threads = [Point::Decided, Point::Written];
        let threads = threads.map(|point| scope.spawn(move || crashes(cluster, point)));
        threads.map(|thread| thread.join().unwrap())
    });
    eprintln!("killed before the journal: {decided:?}, and after it: {written:?}");
    assert!(decided.len() >= 4 && written.len() >= 4, "one for each call");
    // A request is journaled before Slurm is called, and capacity is released in Slurm after that is journaled.
    assert!(!decided.iter().chain(&written).any(|found| found.unknown));
    assert!(!decided.iter().any(|found| found.given_up));
    assert!(written.iter().any(|found| found.given_up));
}
