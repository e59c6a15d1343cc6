//! Several clients that request the same capacity.

use super::asking::{Asker, book, hold, new_id, now, part, together, window};
use super::grid::{CAPACITY, Grid, Shape, knows, site};
use super::runtime;
use bookahead_client::ClientError;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Answer, Call, Constraint, Envelope, Problem, Request, State, Why};
use bookahead_tests::cases::quick;
use bookahead_tests::polling::until_async;

/// Each round has its own hours.
fn hour(round: i64) -> Time {
    now() + Seconds((round + 1) * 3_600)
}

#[test]
fn of_two_who_want_the_last_processors_exactly_one_gets_them() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", ""), None).await;
        let rivals = ["ada", "grace"].map(|user| Asker::new(&grid.of("north").url(), user));
        let mut wins = [0; 2];
        for round in 0..100 {
            let begin = hour(round);
            let calls = rivals
                .each_ref()
                .map(|rival| rival.envelope(hold(new_id(), together(vec![part(CAPACITY, begin, 3_600)]))));
            let (one, other) = tokio::join!(
                rivals[0].client().call(&calls[0], None),
                rivals[1].client().call(&calls[1], None)
            );
            let answers = [one, other].map(Result::unwrap);
            let won = answers
                .each_ref()
                .map(|answer| matches!(answer, Answer::Reservation(held) if held.state == State::Held));
            assert_eq!(won.iter().filter(|won| **won).count(), 1, "{answers:?}");
            let (winner, loser) = if won[0] { (0, 1) } else { (1, 0) };
            wins[winner] += 1;
            assert_no_room(&rivals[loser], &calls[loser], &answers[loser]).await;
        }
        eprintln!("of 100 races the first to be asked for won {}, the other {}", wins[0], wins[1]);
        assert_eq!(rivals[0].live().await.unwrap().len(), 100);
    });
}

/// The loser was refused for lack of room, with the right status, and a repeated call gets the same answer.
async fn assert_no_room(loser: &Asker, call: &Envelope, answer: &Answer) {
    let Answer::Problem(problem) = answer else { panic!("{answer:?}") };
    let Problem { why: Why::NoSlot(_), .. } = **problem else { panic!("{problem:?}") };
    let Call::Reserve { id, request, hold_for, book } = call.call.clone() else { panic!("{call:?}") };
    let document = bookahead_api::Reserve {
        id: Some(id),
        request: request.try_into().unwrap(),
        hold_for_seconds: hold_for.into(),
        book,
    };
    let again = loser.client().reserve(&document, &call.key.to_string()).await;
    let Err(ClientError::Refused(told)) = again else { panic!("{again:?}") };
    assert_eq!((told.status, told.code.as_str()), (409, "no-room"), "{told:?}");
}

#[test]
fn of_two_brokers_that_want_the_same_parts_at_most_one_gets_them_and_never_some_of_them() {
    runtime().block_on(async {
        let (mut grid, _) = Grid::of_three(Shape::Flat, "", &[]).await;
        let text = grid.broker_of("other", "", &super::grid::SITES);
        grid.start("broker", "other", &text, None).await;
        let brokers = ["grid", "other"].map(|name| grid.asker(name));
        for broker in &brokers {
            knows(broker, &Shape::Flat.offered()).await;
        }
        let sites = super::grid::SITES.map(|site| grid.asker(site));
        let mut won = 0;
        for round in 0..if quick() { 5 } else { 20 } {
            let all = together(vec![part(CAPACITY, hour(round), 3_600); 3]);
            let (one, other) = tokio::join!(
                brokers[0].ask(hold(new_id(), all.clone())),
                brokers[1].ask(hold(new_id(), all.clone()))
            );
            let held = [one, other].iter().filter(|answer| matches!(answer, Answer::Reservation(_))).count();
            assert!(held <= 1, "both have it");
            won += held;
            // The parts that the other client got are released.
            until_async(async || {
                for site in &sites {
                    let live = site.live().await.map_err(|why| why.to_string())?;
                    if live.len() != won {
                        return Err(format!("{won} should be live: {live:?}"));
                    }
                }
                Ok(())
            })
            .await;
        }
        eprintln!("{won} races had a winner");
    });
}

#[test]
fn of_many_who_ask_a_broker_at_once_all_are_granted_what_fits() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        for name in ["a", "b"] {
            grid.start("site", name, &site(name, ""), None).await;
        }
        let broker = grid.broker_of("grid", "", &["a", "b"]);
        grid.start("broker", "grid", &broker, None).await;
        knows(&grid.asker("grid"), &["a/cluster", "b/cluster"]).await;
        // Each takes more than half of both sites for an hour, so that they run one after the other.
        let begin = now() + Seconds(3_600);
        let each = window(CAPACITY / 2 + 1, begin, 3_600, begin + Seconds(8 * 3_600));
        let request = Request {
            constraints: vec![
                Constraint::Offset { first: 0, second: 1, by: Seconds(0) },
                Constraint::DifferentSites(0, 1),
            ],
            ..together(vec![each; 2])
        };
        let asked: Vec<_> = (0..8)
            .map(|_| {
                let (asker, request) = (grid.asker("grid"), request.clone());
                tokio::spawn(async move { asker.ask(book(new_id(), request)).await })
            })
            .collect();
        for answer in asked {
            let answer = answer.await.unwrap();
            assert!(
                matches!(&answer, Answer::Reservation(one) if one.state == State::Committed),
                "{answer:?}"
            );
        }
    });
}
