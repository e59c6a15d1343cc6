//! Parts that are lost at their sites, behind the brokers that booked them: the owner sees it, and is notified, at
//! every broker.

use super::asking::{Asker, book, new_id, now, part, together};
use super::grid::{CAPACITY, Grid, knows, site};
use super::runtime;
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{
    Call, Condition, Lost, OnLoss, Part, Request, Reservation, ReservationId, State, Why,
};
use bookahead_tests::polling::until_async;

/// Sites a and b with an inner broker, and an outer broker with c and the inner broker.
async fn two_levels() -> Grid {
    let mut grid = Grid::new();
    for name in ["a", "b", "c"] {
        grid.start("site", name, &site(name, ""), None).await;
    }
    let low = grid.broker_of("low", "", &["a", "b"]);
    grid.start("broker", "low", &low, None).await;
    let top = grid.broker_of("top", "", &["low", "c"]);
    grid.start("broker", "top", &top, None).await;
    knows(&grid.asker("top"), &["low/a/cluster", "low/b/cluster", "c/cluster"]).await;
    grid
}

/// All of a and of c, at the same time, without replacement of lost parts.
fn wanted() -> Request {
    let begin = now() + Seconds(3_600);
    let at = |resource: &str| Part { resource: Some(resource.into()), ..part(CAPACITY, begin, 3_600) };
    let both = together(vec![at("low/a/cluster"), at("c/cluster")]);
    Request { on_loss: OnLoss::Keep, ..both }
}

async fn booked(grid: &Grid) -> ReservationId {
    let id = new_id();
    let booked = grid.asker("top").get(book(id, wanted())).await;
    assert_eq!((booked.state, booked.condition), (State::Committed, Condition::Whole));
    id
}

/// Cancels the only reservation at a site, as its owner or as an operator.
async fn cancel_at(grid: &Grid, name: &str, user: &str) {
    let asker = Asker::new(&grid.of(name).url(), user);
    let [there] = asker.live().await.unwrap().try_into().unwrap();
    asker.get(Call::Cancel { id: there.id }).await;
}

async fn shown_when(asker: &Asker, id: ReservationId, is: impl Fn(&Reservation) -> bool) -> Reservation {
    until_async(async || {
        let shown = asker.get(Call::Show { id }).await;
        if is(&shown) { Ok(shown) } else { Err(format!("{shown:?}")) }
    })
    .await
}

#[test]
fn a_part_that_an_operator_cancels_is_shown_as_lost_through_two_brokers() {
    runtime().block_on(async {
        let mut grid = two_levels().await;
        let ada = grid.asker("top");
        let id = booked(&grid).await;
        cancel_at(&grid, "a", "operator").await;
        let shown = shown_when(&ada, id, |shown| shown.condition == Condition::Broken).await;
        assert_eq!(shown.state, State::Committed, "the other part stands");
        assert_eq!(shown.missing, [Capacity(CAPACITY), Capacity::ZERO]);
        assert_eq!((shown.losses[0].part, shown.losses[0].why), (0, Lost::Revoked));
        // The rest is lost while the broker is down.
        grid.of_mut("top").kill9();
        cancel_at(&grid, "c", "ada").await;
        grid.of_mut("top").restart().await;
        let ada = grid.asker("top");
        let shown = shown_when(&ada, id, |shown| shown.state == State::Cancelled).await;
        let why: Vec<Lost> = shown.losses.iter().map(|loss| loss.why).collect();
        assert_eq!(why, [Lost::Revoked, Lost::GivenUp]);
        // The free capacity can be booked again.
        booked(&grid).await;
    });
}

#[test]
fn a_part_that_is_released_as_a_whole_is_gone_at_once() {
    runtime().block_on(async {
        let grid = two_levels().await;
        let ada = grid.asker("top");
        let id = booked(&grid).await;
        let release =
            |part| Call::Release { id, part: Some(part), from: now(), keep: Capacity::ZERO, end_jobs: false };
        let left = ada.get(release(0)).await;
        assert_eq!((left.state, left.condition), (State::Committed, Condition::Broken));
        assert_eq!((left.losses.len(), left.losses[0].why), (1, Lost::GivenUp));
        assert_eq!(ada.get(release(1)).await.state, State::Cancelled);
        assert_eq!(ada.get(Call::Show { id }).await.state, State::Cancelled);
        assert!(matches!(ada.refused(Call::Commit { id, jobs: vec![] }).await, Why::Illegal(_)));
    });
}
