//! Watching over crashes and restarts: a watcher that reconnects with its last event misses nothing, or is told that it
//! did.

use super::asking::{Asker, book, hold, new_id, now, part, together};
use super::grid::{Grid, Shape, knows, site};
use super::witness::exported;
use super::{kill_each_time, runtime};
use bookahead_api as api;
use bookahead_client::Watch;
use bookahead_plan::Seconds;
use bookahead_protocol::{Call, ReservationId};
use bookahead_service::thread::Point;
use bookahead_tests::polling::{PATIENCE, until_async};
use std::path::Path;

/// The events of a site in its journal: number, kind and reservation.
pub(super) fn written(journal: &Path) -> Vec<(u64, String, ReservationId)> {
    let told = |line: &serde_json::Value| {
        let (kind, what) = line["event"]["Book"]["what"].as_object()?.iter().next()?;
        let id = what["id"].as_str()?.parse().ok()?;
        Some((line["sequence"].as_u64()?, kind.to_lowercase(), id))
    };
    exported(journal).iter().filter_map(told).collect()
}

/// A watcher of a site, and the events that it got, in order.
struct Watcher {
    site: Asker,
    watch: Watch,
    told: Vec<api::Event>,
}

impl Watcher {
    /// Watches from now on.
    async fn new(site: &Asker) -> Watcher {
        let watch = again(site, None).await;
        Watcher { site: site.clone(), watch, told: Vec::new() }
    }

    /// Waits for one event. Reconnects if the service ends the stream.
    async fn listen(&mut self) {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.watch.next()).await;
            match next.unwrap_or_else(|_| panic!("nothing more was told: {:?}", self.told)).unwrap() {
                Some(event) => return self.told.push(event),
                None => self.watch = again(&self.site, self.watch.last()).await,
            }
        }
    }

    /// Waits for an event, or for the notice that it was missed.
    async fn listen_until(&mut self, sequence: u64) {
        while self.told.last().is_none_or(|event| event.sequence < sequence) {
            self.listen().await;
        }
    }

    /// Events are in order, none is repeated, and none is missing without a notice.
    fn check(&self, written: &[(u64, String, ReservationId)]) {
        let mut seen = 0;
        for event in &self.told {
            if event.kind == "reset" {
                assert!(event.sequence >= seen, "{:#?}", self.told);
            } else {
                let missed: Vec<_> =
                    written.iter().filter(|(at, ..)| (seen + 1..event.sequence).contains(at)).collect();
                assert!(
                    event.sequence > seen && missed.is_empty(),
                    "{missed:?} of {written:?} in {:#?}",
                    self.told
                );
                let this = (event.sequence, event.kind.clone(), event.reservation.unwrap());
                assert!(written.contains(&this), "{this:?} in {written:?}");
            }
            seen = event.sequence;
        }
    }
}

/// Watches from an event on, as soon as the service answers.
async fn again(site: &Asker, after: Option<u64>) -> Watch {
    until_async(async || site.client().watch(None, after).await.map_err(|why| why.to_string())).await
}

/// Creates and cancels several reservations.
pub(super) async fn live_through(ada: &Asker) -> ReservationId {
    let mut last = new_id();
    for hour in 1..=2 {
        let id = new_id();
        ada.get(hold(id, together(vec![part(1, now() + Seconds(hour * 3_600), 60)]))).await;
        ada.get(Call::Commit { id, jobs: Vec::new() }).await;
        ada.get(Call::Cancel { id }).await;
        last = id;
    }
    last
}

/// Whether the site passes a point this often; if so, it was killed there.
async fn crash_at(point: Point, count: u32) -> bool {
    let mut grid = Grid::new();
    grid.label = format!("{point:?} {count}");
    let stop_at = format!("{}:{count}", point.word());
    grid.start("site", "north", &site("north", ""), Some(&stop_at)).await;
    let (ada, journal) = (grid.asker("north"), grid.of("north").journal());
    let mut watcher = Watcher::new(&ada).await;
    let mut crashed = false;
    let watched = async {
        let last = tokio::select! {
            last = live_through(&ada) => last,
            () = async { loop { watcher.listen().await } } => unreachable!("the watcher never ends"),
        };
        let written = written(&journal);
        let (end, kind, id) = written.last().unwrap();
        assert_eq!((kind.as_str(), *id), ("cancelled", last));
        watcher.listen_until(*end).await;
        written
    };
    let written = tokio::select! {
        written = watched => written,
        never = grid.kill_when_stopped("north", &mut crashed) => match never {},
    };
    watcher.check(&written);
    crashed
}

at_each_point!(who_watches_a_site_that_is_killed_misses_nothing_or_is_told_so: kill_at);

fn kill_at(point: Point) {
    // A site only answers, one message at a time, so that nothing is ever sent in part.
    let fewest = if point == Point::Sending { 0 } else { 6 };
    kill_each_time(fewest, async |count| crash_at(point, count).await);
}

#[test]
fn who_watches_a_broker_is_told_of_a_changed_note() {
    runtime().block_on(async {
        let (grid, _) = Grid::of_three(Shape::Flat, "", &[]).await;
        let ada = grid.asker("grid");
        knows(&ada, &Shape::Flat.offered()).await;
        // A booking of one part changes in one step at its site, one of several parts at all sites together.
        for (parts, kind) in [(1, "request-changed"), (2, "change-settled")] {
            let (id, mut request) = (new_id(), together(vec![part(1, now() + Seconds(3_600), 60); parts]));
            ada.get(book(id, request.clone())).await;
            let mut watcher = Watcher::new(&ada).await;
            request.description.note = Some("room 5".into());
            ada.get(Call::Change { id, request, version: None }).await;
            while watcher.told.last().is_none_or(|event| event.kind != kind) {
                watcher.listen().await;
            }
            assert_eq!(watcher.told.last().unwrap().reservation, Some(id));
        }
    });
}

#[test]
fn who_watches_a_site_that_is_restarted_goes_on_where_he_was_or_is_told_to_look_anew() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", ""), None).await;
        let (ada, journal) = (grid.asker("north"), grid.of("north").journal());
        let mut watcher = Watcher::new(&ada).await;
        for round in 1..=3 {
            live_through(&ada).await;
            let written = written(&journal);
            assert_eq!(written.len(), 6 * round);
            watcher.listen_until(written.last().unwrap().0).await;
            watcher.check(&written);
            let north = grid.of_mut("north");
            north.signal("TERM");
            assert!(north.ended().await.0.success());
            north.start(None).await;
        }
    });
}
