//! Co-reservations at several sites through brokers: all parts, or nothing anywhere.

use super::asking::{Asker, book, hold, new_id, now, part, together, window};
use super::grid::{CAPACITY, Grid, SITES, Shape, knows, site};
use super::negotiation::{Negotiation, Outcome};
use super::runtime;
use bookahead_api as api;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Call, Constraint, Part, Reservation, State, Why};
use bookahead_tests::polling::until_async;
use std::collections::BTreeSet;

const HOUR: i64 = 3_600;

/// Three sites and a broker that knows them.
async fn grid() -> (Grid, Asker) {
    let (grid, _) = Grid::of_three(Shape::Flat, "", &[]).await;
    let broker = grid.asker("grid");
    knows(&broker, &Shape::Flat.offered()).await;
    (grid, broker)
}

fn in_hours(hours: i64) -> Time {
    now() + Seconds(hours * HOUR)
}

/// All of a cluster for an hour, some time from one to eight hours from now.
fn flexible() -> Part {
    window(CAPACITY, in_hours(1), HOUR, in_hours(8))
}

/// Books the whole capacity of a site for some time.
async fn occupy(grid: &Grid, site: &str, begin: Time, hours: i64) {
    let all = together(vec![part(CAPACITY, begin, hours * HOUR)]);
    let booked = grid.asker(site).get(book(new_id(), all)).await;
    assert_eq!(booked.state, State::Committed);
}

/// Waits until only the earlier reservations are live at the sites.
async fn nothing_new(grid: &Grid, before: usize) {
    let sites = SITES.map(|site| grid.asker(site));
    until_async(async || {
        let mut live = Vec::new();
        for site in &sites {
            live.extend(site.live().await.map_err(|why| why.to_string())?);
        }
        if live.len() == before { Ok(()) } else { Err(format!("{live:?}")) }
    })
    .await;
}

fn sites_of(booked: &Reservation) -> BTreeSet<&str> {
    booked.slots.iter().map(|slot| slot.site.as_str()).collect()
}

#[test]
fn parts_at_three_sites_begin_together_when_all_have_room() {
    runtime().block_on(async {
        let (grid, broker) = grid().await;
        // One site is busy until the third hour, another from the fourth to the sixth.
        occupy(&grid, "north", in_hours(1), 2).await;
        let busy = in_hours(4);
        occupy(&grid, "west", busy, 2).await;
        let booked = broker.get(book(new_id(), together(vec![flexible(); 3]))).await;
        assert_eq!((booked.state, sites_of(&booked)), (State::Committed, BTreeSet::from(SITES)));
        let begin = booked.slots[0].interval.begin;
        assert!(booked.slots.iter().all(|slot| slot.interval.begin == begin), "{booked:?}");
        assert!(begin >= in_hours(3) - Seconds(60) && begin + Seconds(HOUR) <= busy, "{booked:?}");
        for site in SITES {
            let there = grid.asker(site).live().await.unwrap();
            let parts = there.iter().filter(|one| one.slots[0].begin.time() == begin);
            assert_eq!(parts.map(|one| one.state).collect::<Vec<_>>(), [api::State::Committed], "{there:?}");
        }
    });
}

#[test]
fn a_chain_of_parts_is_kept_in_its_order_at_different_sites() {
    runtime().block_on(async {
        let (grid, broker) = grid().await;
        let mut request = together(vec![flexible(), flexible()]);
        let (first, second) = (0, 1);
        let gap = Constraint::After { first, second, least: Seconds(600), most: Some(Seconds(1_200)) };
        request.constraints = vec![gap, Constraint::DifferentSites(0, 1)];
        let held = broker.get(hold(new_id(), request)).await;
        let [one, other] = held.slots.as_slice() else { panic!("{held:?}") };
        let between = other.interval.begin - one.interval.end;
        assert!((600..=1_200).contains(&between.0) && one.site != other.site, "{held:?}");
        let committed = broker.get(Call::Commit { id: held.id, jobs: Vec::new() }).await;
        assert_eq!((committed.state, committed.slots), (State::Committed, held.slots));
        grid.check_journals();
    });
}

#[test]
fn where_one_site_has_no_room_nothing_stays_held_anywhere() {
    runtime().block_on(async {
        let (grid, broker) = grid().await;
        occupy(&grid, "south", in_hours(1), 8).await;
        let why = broker.refused(hold(new_id(), together(vec![flexible(); 3]))).await;
        assert!(matches!(why, Why::NoSlot(_) | Why::NoCandidate { .. }), "{why:?}");
        nothing_new(&grid, 1).await;
        // Two of the three parts can still be held, and are released again.
        let held = broker.get(hold(new_id(), together(vec![flexible(); 2]))).await;
        assert_eq!((held.state, sites_of(&held)), (State::Held, BTreeSet::from(["north", "west"])));
        nothing_new(&grid, 3).await;
        broker.get(Call::Cancel { id: held.id }).await;
        nothing_new(&grid, 1).await;
    });
}

#[test]
fn a_site_that_refuses_what_it_had_offered_makes_all_be_given_back() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        for name in ["north", "south"] {
            grid.start("site", name, &site(name, ""), None).await;
        }
        // It makes offers, but its holds are too short to be committed.
        grid.start("site", "west", &site("west", "holds = { longest = \"1ms\" }"), None).await;
        let text = grid.broker_of("grid", "", &SITES);
        grid.start("broker", "grid", &text, None).await;
        let broker = grid.asker("grid");
        knows(&broker, &Shape::Flat.offered()).await;
        let why = broker.refused(hold(new_id(), together(vec![flexible(); 3]))).await;
        assert!(matches!(why, Why::NoCandidate { tried: 1.., .. }), "{why:?}");
        nothing_new(&grid, 0).await;
    });
}

#[test]
fn a_broker_of_brokers_books_at_sites_it_has_never_heard_of() {
    runtime().block_on(async {
        let (grid, _) = Grid::of_three(Shape::Nested, "", &[]).await;
        assert_eq!(Negotiation::new(&grid, Shape::Nested).run().await, Outcome::Committed);
        let broker = grid.asker("grid");
        let booked = broker.get(book(new_id(), together(vec![flexible(); 3]))).await;
        let resources: BTreeSet<_> = booked.slots.iter().map(|slot| slot.resource.as_str()).collect();
        assert_eq!(resources, BTreeSet::from(Shape::Nested.offered()));
        assert_eq!(sites_of(&booked), BTreeSet::from(SITES));
        let known: BTreeSet<_> =
            broker.client().sites().await.unwrap().sites.into_iter().map(|site| site.name).collect();
        assert_eq!(known, BTreeSet::from(["grid", "inner", "west"].map(Into::into)), "not the two below");
        grid.check_journals();
    });
}
