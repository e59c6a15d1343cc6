//! Services that are stopped, and clients that disconnect, in the middle of a call: the call is completed, promises are
//! kept, and a client that comes back gets the answer.

use super::asking::{Asker, hold, is_same, new_id, now, part, together};
use super::grid::{CAPACITY, Grid, SITES, Shape, knows, site};
use super::runtime;
use crate::service::{Connection, connect};
use bookahead_api::Operation;
use bookahead_client::ClientError;
use bookahead_plan::Seconds;
use bookahead_protocol::{Answer, Call, Envelope, State};
use bookahead_tests::polling::until_async;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// A call for three parts that take the whole capacity.
pub(super) fn three_parts(asker: &Asker) -> Envelope {
    asker.envelope(hold(new_id(), together(vec![part(CAPACITY, now() + Seconds(3_600), 3_600); 3])))
}

/// A grid of three whose broker knows its sites. One site is suspended until it is continued, and the broker waits for
/// it that long.
async fn with_one_asleep() -> (Grid, Asker) {
    let patient = "[rules]\nsurvey_time = \"10m\"\nhold_time = \"10m\"";
    let (grid, _) = Grid::of_three(Shape::Flat, patient, &[]).await;
    let broker = grid.asker("grid");
    knows(&broker, &Shape::Flat.offered()).await;
    grid.of("west").signal("STOP");
    (grid, broker)
}

/// Waits until a negotiation has started: another site has been called.
pub(super) async fn is_under_way(grid: &Grid) {
    let north = grid.asker("north");
    until_async(async || {
        let metrics = north.client().metrics().await.map_err(|why| why.to_string())?;
        let asked = metrics.lines().any(|line| line.contains("call=\"probe\""));
        if asked { Ok(()) } else { Err("a site is asked".to_owned()) }
    })
    .await;
}

/// Every site has one part of it.
pub(super) async fn is_held_everywhere(grid: &Grid) {
    for site in SITES {
        let live = grid.asker(site).live().await.unwrap();
        assert_eq!(live.len(), 1, "at {site}: {live:?}");
    }
}

/// Sends a call over HTTP, without our client library.
fn send_raw(address: &str, envelope: &Envelope) -> Box<dyn Connection> {
    let operation = Operation::try_from(envelope.call.clone()).unwrap();
    let (path, body) = (operation.path(), operation.body().unwrap().unwrap());
    let (user, key, length) = (&envelope.caller.user, envelope.key, body.len());
    let mut stream = connect(address);
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nbookahead-user: {user}\r\nidempotency-key: \"{key}\"\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    stream
}

#[test]
fn a_client_that_leaves_in_the_middle_and_comes_back_gets_the_answer_of_its_first_call() {
    runtime().block_on(async {
        let (grid, broker) = with_one_asleep().await;
        let call = three_parts(&broker);
        let gone = send_raw(&grid.of("grid").url(), &call);
        is_under_way(&grid).await;
        drop(gone);
        let again = broker.client().call(&call, None).await;
        assert!(matches!(again, Err(ClientError::KeyInFlight(_))), "{again:?}");
        grid.of("west").signal("CONT");
        let answer = broker.insist(&call).await;
        assert!(matches!(&answer, Answer::Reservation(held) if held.state == State::Held), "{answer:?}");
        assert!(is_same(&answer, &broker.insist(&call).await));
        assert_eq!(broker.all().await.unwrap().len(), 1, "it was booked once");
        is_held_everywhere(&grid).await;
    });
}

#[test]
fn a_broker_that_is_told_to_end_in_the_middle_of_a_negotiation_comes_to_its_end_first() {
    runtime().block_on(async {
        let (mut grid, broker) = with_one_asleep().await;
        let call = three_parts(&broker);
        let asking = tokio::spawn({
            let (broker, call) = (broker.clone(), call.clone());
            async move { broker.client().call(&call, None).await }
        });
        is_under_way(&grid).await;
        grid.of("grid").signal("TERM");
        grid.of("west").signal("CONT");
        let answer = asking.await.unwrap().unwrap();
        assert!(matches!(&answer, Answer::Reservation(held) if held.state == State::Held), "{answer:?}");
        let (status, said) = grid.of_mut("grid").ended().await;
        assert!(status.success(), "{said}");
        grid.of_mut("grid").start(None).await;
        assert!(is_same(&answer, &broker.insist(&call).await));
        let Some(id) = call.call.id() else { unreachable!("it is about a reservation") };
        let committed = broker.get(Call::Commit { id, jobs: Vec::new() }).await;
        assert_eq!(committed.state, State::Committed);
        is_held_everywhere(&grid).await;
    });
}

#[test]
fn a_site_that_is_told_to_end_under_load_keeps_what_it_has_answered_and_answers_the_rest_later() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", ""), None).await;
        let ada = grid.asker("north");
        let calls = calls(&ada);
        let answers = answers_until_the_end(&grid, &ada, &calls).await;
        let (status, said) = grid.of_mut("north").ended().await;
        assert!(status.success(), "{said}");
        grid.check_journals();
        grid.of_mut("north").start(None).await;
        let kept: BTreeSet<_> = ada.live().await.unwrap().into_iter().map(|held| held.id).collect();
        let answered = answers.iter().flatten().count();
        eprintln!(
            "{answered} of {} calls were answered before the end, {} were done",
            calls.len(),
            kept.len()
        );
        assert!((1..calls.len()).contains(&answered), "it should end in the middle");
        assert_eq!(kept.len(), answered, "what it took it answers");
        for (call, answer) in calls.iter().zip(&answers) {
            let again = ada.insist(call).await;
            if let Some(answer) = answer {
                assert!(kept.contains(&call.call.id().unwrap()), "{answer:?} is lost");
                assert!(is_same(answer, &again), "{answer:?}, and then {again:?}");
            }
        }
        assert_eq!(ada.live().await.unwrap().len(), calls.len(), "all of them, and each once");
    });
}

/// Calls that do not conflict with each other.
fn calls(ada: &Asker) -> Vec<Envelope> {
    let in_an_hour = now() + Seconds(3_600);
    let request = |at: i64| together(vec![part(CAPACITY, in_an_hour + Seconds(60 * at), 60)]);
    (0..400).map(|at| ada.envelope(hold(new_id(), request(at)))).collect()
}

/// The answers to many concurrent calls, each made once; the site is stopped after the first answer.
async fn answers_until_the_end(grid: &Grid, ada: &Asker, calls: &[Envelope]) -> Vec<Option<Answer>> {
    const AT_A_TIME: usize = 8;
    let mut asking = tokio::task::JoinSet::new();
    for some in calls.chunks(calls.len() / AT_A_TIME) {
        let (ada, some) = (ada.clone(), some.to_vec());
        asking.spawn(async move {
            let mut answers = Vec::new();
            for call in some {
                answers.push((call.key, ada.client().call(&call, None).await.ok()));
            }
            answers
        });
    }
    until_async(async || {
        let live = ada.live().await.map_err(|why| why.to_string())?;
        if live.is_empty() { Err("something is held".to_owned()) } else { Ok(()) }
    })
    .await;
    grid.of("north").signal("TERM");
    let mut answers: BTreeMap<_, _> = asking.join_all().await.into_iter().flatten().collect();
    calls.iter().map(|call| answers.remove(&call.key).unwrap()).collect()
}
