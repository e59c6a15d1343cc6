//! A client that watches a site and waits for events.

use crate::services::asking::Asker;
use bookahead_api as api;
use bookahead_client::Watch;
use bookahead_protocol::ReservationId;
use bookahead_tests::polling::PATIENCE;

/// A client that watches a site.
pub(crate) struct Watcher {
    watch: Watch,
    told: Vec<api::Event>,
}

impl Watcher {
    /// Watches from now on.
    pub(crate) async fn of(site: &Asker) -> Watcher {
        Watcher { watch: site.client().watch(None, None).await.unwrap(), told: Vec::new() }
    }

    /// Waits for an event of this kind about a reservation.
    pub(crate) async fn hears(&mut self, kind: &str, id: ReservationId) -> api::Event {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.watch.next()).await;
            let next = next.unwrap_or_else(|_| panic!("{kind} was never told: {:#?}", self.told));
            let event = next.unwrap().unwrap();
            self.told.push(event.clone());
            if event.kind == kind && event.reservation == Some(id) {
                return event;
            }
        }
    }

    /// Waits for the event that this much of a reservation is missing.
    pub(crate) async fn hears_missing(&mut self, id: ReservationId, capacity: u32) -> api::Event {
        loop {
            let event = self.hears("missing", id).await;
            if event.missing == Some(capacity) {
                return event;
            }
        }
    }
}
