//! A site with a slow batch system, through its routes: a call waits for it, and nothing else does.

use crate::http::{LONG, North, reserve, site_rules};
use bookahead_party::site::{OnLostJournal, SiteOptions};
use bookahead_party::{BatchError, BatchOrder, BatchReport, Input, Look, Seen, Tagged};
use bookahead_plan::{Capacity, Interval, Seconds, Span};
use bookahead_protocol::{Millis, ReservationId};
use bookahead_service::clock::Clock;
use bookahead_service::http::Limits;
use bookahead_service::thread::{BatchSide, Liveness, PartyHandle};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};

/// A batch system controlled by the test.
#[derive(Clone)]
struct Slow {
    orders: Arc<Mutex<mpsc::Receiver<BatchOrder>>>,
    party: Arc<Mutex<Option<PartyHandle>>>,
}

impl Slow {
    /// A site with eight processors on it, which polls only every hour by itself. A probe after a poll older than
    /// `look_every` triggers another.
    async fn start(consent: Millis, look_every: Millis) -> (North, Slow) {
        let (sender, orders) = mpsc::channel();
        let slow = Slow { orders: Arc::new(Mutex::new(orders)), party: Arc::default() };
        let told = slow.clone();
        let options = SiteOptions {
            on_lost_journal: Some(OnLostJournal::Ask),
            look_every: Millis::seconds(3_600),
            ..SiteOptions::default()
        };
        let site = (site_rules(Some(consent)), options);
        let north = North::with_batch(Limits::default(), Some(look_every), site, move |party| {
            *told.party.lock().unwrap() = Some(party.clone());
            BatchSide::Worker(Box::new(move |orders| {
                orders.into_iter().for_each(|order| drop(sender.send(order)));
            }))
        });
        let north = north.await;
        (north, slow)
    }

    /// The next order.
    fn order(&self) -> BatchOrder {
        tokio::task::block_in_place(|| self.orders.lock().unwrap().recv_timeout(LONG)).unwrap()
    }

    fn report(&self, report: BatchReport) {
        self.party.lock().unwrap().as_ref().unwrap().tell(Input::Batch(report));
    }

    /// Carries out an order. A poll finds only these backings.
    fn carry_out(&self, order: &BatchOrder, tagged: Vec<Tagged>) {
        let report = match order {
            BatchOrder::Look { order } => {
                let resources = BTreeMap::from([("cluster".into(), Arc::new(Seen::default()))]);
                let look = Look { resources, tagged, ..Look::default() };
                BatchReport::Looked { order: Some(*order), at: Clock::WALL.now(), outcome: Ok(look) }
            }
            BatchOrder::Keep { order, backing } => {
                BatchReport::Kept { order: *order, id: backing.id, outcome: Ok(()) }
            }
            other => panic!("{other:?} was not expected"),
        };
        self.report(report);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_batch_system_takes_its_time_everything_else_is_answered() {
    let (north, slow) = Slow::start(Millis::seconds(60), Millis::seconds(3_600)).await;
    let ada = north.ada();
    slow.carry_out(&slow.order(), Vec::new());
    let body = json!({"request": crate::http::request(4), "book": true}).to_string();
    let waiting = ada.begin("POST", "/v1/reservations", &[("idempotency-key", "k")], &body).await;
    let keep = slow.order();
    assert!(matches!(&keep, BatchOrder::Keep { backing, .. } if backing.spans.len() == 1), "{keep:?}");
    for path in
        ["/v1/reservations", "/v1/resources", "/v1/schedule", "/v1/sites", "/v1/jobs", "/v1/calendar.ics"]
    {
        assert_eq!(ada.get(path).await.status, 200, "{path}");
    }
    let probed = ada.post("/v1/probes", &json!({"request": crate::http::request(4)})).await.document(200);
    assert_eq!(probed["looked_seconds_ago"], 0);
    let offered = |probed: &serde_json::Value| probed["offers"][0]["slots"][0]["capacity"].clone();
    assert_eq!(offered(&probed), 4, "what waits is taken, and there is other room");
    let health = ada.get("/v1/health").await.document(200);
    assert_eq!((&health["status"], &health["batch"]["state"]), (&json!("ready"), &json!("ok")));
    slow.carry_out(&keep, Vec::new());
    let answer = tokio::time::timeout(LONG, crate::http::Reply::read(waiting)).await.unwrap();
    let booked = answer.document(201);
    assert_eq!(booked["state"], "committed");
    let shown = ada.get(&format!("/v1/reservations/{}", booked["id"].as_str().unwrap())).await;
    assert_eq!(shown.document(200)["state"], "committed", "what was answered is shown");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_batch_system_refuses_is_told_in_its_words_and_what_it_does_not_answer_is_refused_in_time() {
    let (north, slow) = Slow::start(Millis::seconds(1), Millis::seconds(3_600)).await;
    let ada = north.ada();
    slow.carry_out(&slow.order(), Vec::new());
    let asked = tokio::spawn({
        let ada = ada.clone();
        async move { ada.post_once("/v1/reservations", "refused", &reserve(4)).await }
    });
    let BatchOrder::Keep { order, backing } = slow.order() else { panic!("no reservation was ordered") };
    let outcome = Err(BatchError::Refused("Requested nodes are busy".into()));
    slow.report(BatchReport::Kept { order, id: backing.id, outcome });
    let refused = asked.await.unwrap();
    assert_eq!(refused.problem(), (409, "not-granted".into()));
    assert!(refused.body.contains("Requested nodes are busy"), "{}", refused.body);
    let late = ada.post_once("/v1/reservations", "late", &reserve(4)).await;
    assert_eq!(late.problem(), (409, "batch-timeout".into()));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_after_an_old_look_has_the_site_look_again() {
    let (north, slow) = Slow::start(Millis::seconds(60), Millis(0)).await;
    let ada = north.ada();
    let first = slow.order();
    let probe = json!({"request": crate::http::request(4)});
    let early = ada.begin("POST", "/v1/probes", &[], &probe.to_string()).await;
    slow.carry_out(&first, Vec::new());
    let early = tokio::time::timeout(LONG, crate::http::Reply::read(early)).await.unwrap();
    assert_eq!(early.status, 200, "it waits for the first look");
    let probed = ada.post("/v1/probes", &probe).await.document(200);
    assert!(probed["looked_seconds_ago"].is_u64(), "{probed}");
    // Only a probe triggers this poll.
    while slow.orders.lock().unwrap().try_recv().is_err() {
        ada.post("/v1/probes", &probe).await.document(200);
    }
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_does_not_know_what_it_finds_ends_with_a_message() {
    let (north, slow) = Slow::start(Millis::seconds(60), Millis::seconds(3_600)).await;
    let begin = Clock::WALL.now().second() + Seconds(3_600);
    let spans = vec![Span { interval: Interval::new(begin, begin + Seconds(60)), capacity: Capacity(2) }];
    let id = ReservationId(7);
    let found = Tagged { id, owner: None, resource: "cluster".into(), spans, tres: Default::default() };
    slow.carry_out(&slow.order(), vec![found]);
    let why = tokio::task::block_in_place(|| north.ended()).unwrap_err();
    assert!(why.to_string().contains("--adopt"), "{why}");
    let party = slow.party.lock().unwrap().take().unwrap();
    assert_eq!(party.liveness(), Liveness::Ended);
}
