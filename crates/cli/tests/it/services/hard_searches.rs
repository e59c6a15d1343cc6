//! Requests that need a long search of the broker, and other requests in the meantime.
//!
//! What is compared is how many of each are answered: both need the same processors, so that the speed of the machine
//! does not matter. If searches held up others, each of the many steps of a booking would wait for one of them.

use super::asking::{Asker, book, new_id, now, part, together, window};
use super::grid::{Grid, knows, site};
use super::runtime;
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::{Call, Constraint, Request, State, Why};
use std::time::Duration;

/// One site fewer than the parts of the hard request, each of which must be at another site.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Number of concurrent hard requests.
const HARD: usize = 4;

/// A search ends by its amount of work, on a slow machine too.
const RULES: &str = "[rules]\nsearch_time = \"10m\"";

/// Nine parts at different ones of eight sites, with as many constraints as allowed.
fn impossible() -> Request {
    let begin = now() + Seconds(3_600);
    let apart = |one| (one + 1..=NAMES.len()).map(move |other| Constraint::DifferentSites(one, other));
    let pairs: Vec<Constraint> = (0..NAMES.len()).flat_map(apart).collect();
    Request::new(
        vec![window(1, begin, 3_600, begin + Seconds(86_400)); NAMES.len() + 1],
        pairs.iter().cloned().cycle().take(2_048).collect(),
    )
}

async fn ask_hard(asker: Asker) {
    let why = asker.refused(book(new_id(), impossible())).await;
    assert!(matches!(why, Why::NoCandidate { .. }), "{why:?}");
}

/// One request of each kind; one of them books at two sites.
async fn ask_in_turn(ada: &Asker) {
    let client = ada.client();
    client.list(&api::ListQuery::default()).await.unwrap();
    client.health().await.unwrap();
    let begin = now() + Seconds(7_200);
    let booked = ada.get(book(new_id(), together(vec![part(1, begin, 60); 2]))).await;
    assert_eq!(booked.state, State::Committed);
    ada.get(Call::Cancel { id: booked.id }).await;
}

#[test]
fn searches_that_take_seconds_keep_nobody_else_waiting() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        for name in NAMES {
            grid.start("site", name, &site(name, ""), None).await;
        }
        let text = grid.broker_of("grid", RULES, &NAMES);
        grid.start("broker", "grid", &text, None).await;
        let ada = grid.asker("grid");
        let resources: Vec<String> = NAMES.map(|name| format!("{name}/cluster")).to_vec();
        knows(&ada, &resources.iter().map(String::as_str).collect::<Vec<_>>()).await;

        let url = grid.of("grid").url();
        // No call is repeated because its search takes long.
        let patient = || Asker::with_time_out(&url, "ada", Duration::from_secs(540));
        let hard: Vec<_> = (0..HARD).map(|_| tokio::spawn(ask_hard(patient()))).collect();
        let mut turns = 0;
        while hard.iter().any(|one| !one.is_finished()) {
            ask_in_turn(&ada).await;
            turns += 1;
        }
        for one in hard {
            one.await.unwrap();
        }
        eprintln!("{turns} turns of other requests during {HARD} hard ones");
        assert!(turns >= HARD, "others wait for searches");
    });
}
