//! Kill -9 at every step of healing: an operator cancels one of two parts at its site and the third site replaces it.
//! The broker or a site stops the first, second, third time that it passes a point, is killed there and restarted,
//! until it no longer passes the point. Each time the booking becomes whole again, and nothing is left over.

use super::asking::{Asker, book, new_id, now, part, together};
use super::grid::{CAPACITY, Grid, PATIENT, Shape, knows};
use super::kill_each_time;
use super::process::Began;
use bookahead_plan::Seconds;
use bookahead_protocol::{Call, Condition, Lost, Reservation, ReservationId};
use bookahead_service::thread::Point;
use bookahead_tests::polling::until_async;

/// The process that is killed, and the point.
#[derive(Debug, Clone, Copy)]
struct Lane {
    victim: &'static str,
    point: Point,
}

at_each_point!(whenever_the_broker_is_killed_a_lost_part_is_replaced_once: Lane::cover, "grid", 3);
at_each_point!(whenever_the_new_site_is_killed_a_lost_part_is_replaced_once: Lane::cover, "west", 2);
// It only gets another cancel of its part.
at_each_point!(whenever_the_old_site_is_killed_a_lost_part_is_replaced_once: Lane::cover, "south", 0);

impl Lane {
    fn cover(point: Point, victim: &'static str, fewest: usize) {
        // One part is replaced, with one call at a time, so that nothing is ever sent in part.
        let fewest = if point == Point::Sending { 0 } else { fewest };
        kill_each_time(fewest, async |count| Lane { victim, point }.crash_at(count).await);
    }

    /// Whether the victim passed the point this often.
    async fn crash_at(self, count: u32) -> bool {
        let rules = format!("{PATIENT}\nheal_after = \"100ms\"");
        let (mut grid, _) = Grid::of_three(Shape::Flat, &rules, &[]).await;
        grid.label = format!("{self:?} {count}");
        let ada = grid.asker("grid");
        knows(&ada, &Shape::Flat.offered()).await;
        let id = new_id();
        let begin = now() + Seconds(3_600);
        let booked = ada.get(book(id, together(vec![part(CAPACITY, begin, 3_600); 2]))).await;
        assert_eq!(places(&booked), ["north", "south"]);
        let operator = Asker::new(&grid.of("south").url(), "operator");
        let [lost] = operator.live().await.unwrap().try_into().unwrap();
        // A process that is down misses the cancel, and one that is up may react at once; both orders are covered.
        let mut crashed = false;
        if self.victim != "south" {
            crashed |= self.arm(&mut grid, count).await;
        }
        operator.get(Call::Cancel { id: lost.id }).await;
        if self.victim == "south" {
            crashed |= self.arm(&mut grid, count).await;
        }
        tokio::select! {
            () = healed(&ada, id) => {}
            never = grid.kill_when_stopped(self.victim, &mut crashed) => match never {},
        }
        if grid.of(self.victim).is_stopped() {
            crashed = true;
            grid.of_mut(self.victim).restart().await;
        }
        for (name, kept) in [("north", 1), ("south", 0), ("west", 1)] {
            let asker = grid.asker(name);
            until_async(async || {
                let live = asker.live().await.map_err(|why| format!("{why:?}"))?;
                if live.len() == kept { Ok(()) } else { Err(format!("{name}: {live:?}")) }
            })
            .await;
        }
        grid.check_journals();
        crashed
    }

    /// Makes the victim stop at the point from now on; returns whether it did at once.
    async fn arm(self, grid: &mut Grid, count: u32) -> bool {
        let victim = grid.of_mut(self.victim);
        victim.kill9();
        let stopped = victim.start(Some(&format!("{}:{count}", self.point.word()))).await == Began::Stopped;
        if stopped {
            victim.restart().await;
        }
        stopped
    }
}

fn places(booked: &Reservation) -> Vec<&str> {
    booked.slots.iter().map(|slot| slot.site.as_str()).collect()
}

/// Waits until the lost part is replaced.
async fn healed(ada: &Asker, id: ReservationId) {
    until_async(async || {
        let shown = ada.get(Call::Show { id }).await;
        let whole = shown.condition == Condition::Whole && shown.losses.is_empty();
        let replaced: Vec<_> = shown.replaced.iter().map(|replaced| (replaced.part, replaced.why)).collect();
        if whole && places(&shown) == ["north", "west"] && replaced == [(1, Lost::Revoked)] {
            Ok(())
        } else {
            Err(format!("{shown:?}"))
        }
    })
    .await;
}
