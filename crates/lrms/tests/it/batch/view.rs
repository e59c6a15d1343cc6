//! The view of a picture.

use super::pretend::{Fault, Pretend, World};
use super::{batch, batch_of_nodes, seen, settings};
use crate::{at, backing, cpu, inside, job, span};
use bookahead_lrms::Batch;
use bookahead_lrms::batch::{FactState, Handle, Settings, Unit};
use bookahead_lrms::maintenance::{Rule, Window};
use bookahead_plan::{Capacity, Interval, Running, Seconds, Time};
use bookahead_protocol::ReservationId;

const DECADE: i64 = 10 * 365 * 86_400;

fn running(expected_end: i64, capacity: u32) -> Running {
    Running { expected_end: Time(expected_end), capacity: Capacity(capacity), owner: 0 }
}

fn waits(world: &mut World, native: &str, cores: u32, limit: Option<i64>) {
    world.add_job(native, FactState::Waiting, &[], limit);
    world.jobs.last_mut().unwrap().cores = cores;
}

#[test]
fn running_jobs_end_when_their_time_is_up_or_in_ten_years_or_in_a_second() {
    let pretend = Pretend::new(4, 8);
    pretend.world().add_job("1", FactState::Running, &[("n0", 8), ("n1", 2)], Some(100));
    pretend.world().add_job("2", FactState::Running, &[("n1", 1)], None);
    pretend.world().add_job("3", FactState::Running, &[("n2", 4)], Some(5));
    pretend.world().add_job("4", FactState::Running, &[("elsewhere", 4)], Some(5));
    let batch = batch(&pretend);
    assert_eq!(seen(&batch, 10).view.running, [running(10 + DECADE, 1), running(100, 10), running(11, 4)]);
}

#[test]
fn a_node_is_taken_once_until_its_last_job_ends() {
    let pretend = Pretend::new(4, 8);
    pretend.world().add_job("1", FactState::Running, &[("n0", 3), ("n1", 2)], Some(100));
    pretend.world().add_job("2", FactState::Running, &[("n1", 1)], Some(200));
    pretend.world().add_job("3", FactState::Running, &[("n1", 1)], Some(50));
    let batch = batch_of_nodes(&pretend);
    assert_eq!(seen(&batch, 0).view.running, [running(200, 1), running(100, 1)]);
}

#[test]
fn jobs_of_which_it_is_not_told_where_they_run_count_too() {
    let pretend = Pretend::new(2, 8);
    pretend.world().add_job("1", FactState::Running, &[], Some(100));
    let (cores, nodes) = (5, 2);
    let fact = pretend.world().jobs.remove(0);
    pretend.world().jobs.push(bookahead_lrms::batch::JobFact { cores, nodes, ..fact });
    assert_eq!(seen(&batch(&pretend), 0).view.running, [running(100, 5)]);
    assert_eq!(seen(&batch_of_nodes(&pretend), 0).view.running, [running(100, 2)]);
}

#[test]
fn jobs_inside_a_reservation_are_not_seen_until_it_is_gone() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(0, 50, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 2, 100, 100), 1)).unwrap();
    batch.submit(at(0), &inside(job(2, 4, 100, 100), 1)).unwrap();
    pretend.world().pass(10);
    let view = seen(&batch, 10).view.clone();
    assert_eq!((view.running.len(), view.waiting.len()), (0, 0));
    // It is over, and a job in it is still ending.
    pretend.world().reservations.clear();
    assert_eq!(seen(&batch, 12).view.running, [running(101, 2)]);
}

#[test]
fn a_job_that_started_with_its_reservation_while_the_look_was_under_way_is_inside_of_it() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 50, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 4, 30, 30), 1)).unwrap();
    pretend.world().pass(10);
    assert_eq!(pretend.world().jobs[0].started, Some(Time(10)));
    // The clock was read before the jobs.
    pretend.world().clock = 9;
    assert_eq!(seen(&batch, 9).view.running, []);
    // A job that started before the begin of the reservation uses cores outside of it until then.
    pretend.world().jobs[0].started = Some(Time(8));
    assert_eq!(seen(&batch, 9).view.running, [running(38, 4)]);
}

#[test]
fn a_job_that_is_being_ended_with_its_reservation_takes_nothing_beyond_the_end() {
    let pretend = Pretend::new(2, 8);
    pretend.world().reserve_foreign("over", &[0], 0, 20);
    pretend.world().add_job("1", FactState::Running, &[("n0", 8)], Some(100));
    pretend.world().jobs[0].reservations.push(Handle("foreign-over".into()));
    let batch = batch(&pretend);
    assert_eq!(seen(&batch, 21).view.running, [running(100, 8)], "it may run on");
    // It is listed like this while its jobs are ending.
    pretend.world().reservations[0].name.clear();
    let view = seen(&batch, 22).view.clone();
    assert_eq!((view.running.len(), view.foreign.len()), (0, 0));
}

#[test]
fn a_job_that_uses_more_than_its_reservation_has_takes_that_from_others() {
    let pretend = Pretend::new(2, 8);
    pretend.world().reserve_foreign("flexible", &[0], 0, 100);
    pretend.world().add_job("1", FactState::Running, &[("n0", 8), ("n1", 3)], Some(60));
    pretend.world().jobs[0].reservations.push(Handle("foreign-flexible".into()));
    assert_eq!(seen(&batch(&pretend), 0).view.running, [running(60, 3)]);
}

#[test]
fn waiting_jobs_are_in_the_order_of_the_batch_system_and_fit() {
    let pretend = Pretend::new(2, 8);
    let mut world = pretend.world();
    waits(&mut world, "1", 3, Some(100));
    world.clock = -50;
    waits(&mut world, "2", 99, None);
    let held = FactState::Held { why: "an operator held it".into(), orphaned: false };
    world.add_job("3", held, &[], Some(100));
    waits(&mut world, "4", 0, Some(0));
    world.clock = 0;
    drop(world);
    let waiting = seen(&batch(&pretend), 0).view.waiting.clone();
    let shown: Vec<(i64, i64, u32, i32)> =
        waiting.iter().map(|job| (job.submit.0, job.estimate.0, job.capacity.0, job.priority)).collect();
    assert_eq!(shown, [(0, 100, 3, 0), (-50, DECADE, 16, -1), (-50, 1, 1, -2)]);
}

#[test]
fn what_others_reserved_is_counted_once_and_only_where_we_are() {
    let pretend = Pretend::new(2, 8);
    let mut world = pretend.world();
    world.reserve_foreign("maintenance", &[0, 1], 100, 200);
    world.add_foreign("cores", [("n0".into(), 4), ("elsewhere".into(), 8)].into(), 50, 150);
    world.reserve_foreign("over", &[0], -20, 0);
    drop(world);
    let foreign = seen(&batch(&pretend), 0).view.foreign.clone();
    assert_eq!(foreign, [span(50, 100, 4), span(100, 200, 16)]);
    let foreign = seen(&batch_of_nodes(&pretend), 0).view.foreign.clone();
    assert_eq!(foreign, [span(50, 100, 1), span(100, 200, 2)]);
}

#[test]
fn maintenance_of_the_batch_system_and_of_the_site_is_named_and_counted_once() {
    let pretend = Pretend::new(2, 8);
    pretend.world().reserve_foreign("maint-disks", &[0], 100, 200);
    pretend.world().reserve_foreign("course", &[1], 150, 300);
    let settings = Settings {
        maintenance: vec![Window {
            name: "yearly".into(),
            resource: None,
            rule: Rule::once(jiff::civil::date(1970, 1, 1)),
            from: "00:03".parse().unwrap(),
            to: "00:04".parse().unwrap(),
            zone: jiff::tz::TimeZone::UTC,
        }],
        ..settings(Unit::Cores, 16)
    };
    let view = seen(&Batch::new(Box::new(pretend.clone()), settings).unwrap(), 0).view.clone();
    assert_eq!(view.foreign, [span(100, 150, 8), span(150, 240, 16), span(240, 300, 8)]);
    let named = view.maintenance.iter().map(|one| (one.name.as_str(), one.span));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [("maint-disks", span(100, 200, 8)), ("yearly", span(180, 240, 16))]
    );
    let rest = view.foreign_beside_maintenance(Interval::new(Time(0), Time(1_000)));
    assert_eq!(rest, [span(150, 180, 8), span(240, 300, 8)]);
}

#[test]
fn what_failed_is_lost_and_what_is_reserved_on_it_is_away() {
    let pretend = Pretend::new(4, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 12)])).unwrap();
    pretend.world().reserve_foreign("maintenance", &[1], 100, 200);
    pretend.world().add_job("1", FactState::Running, &[("n1", 2), ("n2", 2)], Some(100));
    pretend.world().nodes[1].usable = false;
    let seen = seen(&batch, 2);
    assert_eq!(seen.lost, Capacity(8));
    assert_eq!(seen.backings[&ReservationId(1)], [span(10, 20, 12)]);
    assert_eq!(seen.away, [(ReservationId(1), Capacity(4))].into());
    assert_eq!(seen.view.foreign, []);
    assert_eq!(seen.view.running, [running(100, 2)]);
}

#[test]
fn whole_nodes_that_others_reserved_over_ours_are_not_kept() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 50, 12)])).unwrap();
    batch.keep(at(0), &backing(2, &[span(60, 90, 2)])).unwrap();
    pretend.world().reserve_foreign("later", &[0], 30, 100);
    let kept = seen(&batch, 2).backings.clone();
    assert_eq!(kept[&ReservationId(1)], [span(10, 30, 12), span(30, 50, 4)]);
    assert_eq!(kept[&ReservationId(2)], []);
    assert_eq!(pretend.world().log.len(), 2, "looking does nothing");
}

#[test]
fn cores_that_others_reserved_beside_ours_take_nothing_away() {
    let pretend = Pretend::new(1, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 50, 5)])).unwrap();
    pretend.world().add_foreign("beside", [("n0".into(), 3)].into(), 0, 100);
    assert_eq!(seen(&batch, 2).backings[&ReservationId(1)], [span(10, 50, 5)]);
    // If the cores of each on the node are unknown, only a reservation of the whole node counts.
    pretend.world().reservations[1].cores.insert("n0".into(), 7);
    pretend.world().reservations[1].spread = false;
    assert_eq!(seen(&batch, 4).backings[&ReservationId(1)], [span(10, 50, 5)]);
    pretend.world().reservations[1].cores.insert("n0".into(), 8);
    assert_eq!(seen(&batch, 6).backings[&ReservationId(1)], []);
}

#[test]
fn no_sum_exceeds_what_the_site_offers() {
    let pretend = Pretend::new(4, 8);
    pretend.world().add_job("1", FactState::Running, &[("n0", 8), ("n1", 8)], Some(100));
    pretend.world().add_job("2", FactState::Running, &[("n2", 8)], Some(50));
    pretend.world().reserve_foreign("maintenance", &[0, 1, 2, 3], 100, 200);
    let batch = Batch::new(Box::new(pretend.clone()), settings(Unit::Cores, 20)).unwrap();
    let shown = seen(&batch, 0);
    assert_eq!(shown.view.running, [running(100, 16), running(50, 4)]);
    assert_eq!(shown.view.foreign, [span(100, 200, 20)]);
    assert_eq!(shown.lost, Capacity::ZERO);
    pretend.world().nodes.clear();
    assert_eq!(seen(&batch, 2).lost, Capacity(20));
}

#[test]
fn reservations_are_made_by_a_look_that_is_young_and_what_we_made_since_is_seen_without_another() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    let looks = || pretend.world().looks;
    for (id, second) in [(1, 0), (2, 1), (3, 29)] {
        batch.keep(at(second), &backing(id, &[span(100, 200, 1)])).unwrap();
        assert_eq!(looks(), 1);
    }
    assert_eq!(batch.seen().resources[&cpu()].backings.len(), 3);
    batch.keep(at(31), &backing(4, &[span(100, 200, 1)])).unwrap();
    assert_eq!(looks(), 2, "it is too old");
    batch.keep(at(32), &backing(4, &[span(100, 300, 1)])).unwrap();
    assert_eq!(looks(), 3, "jobs may have come into what is there");
    pretend.world().faults.push_back(Fault::SilentAfter);
    batch.keep(at(33), &backing(5, &[span(100, 200, 1)])).unwrap_err();
    assert_eq!(looks(), 3);
    batch.keep(at(33), &backing(6, &[span(100, 200, 1)])).unwrap();
    assert_eq!(looks(), 4, "it is not known what became of the last");
    assert_eq!(batch.seen().resources[&cpu()].backings.len(), 6);
}

#[test]
fn hostile_numbers_do_no_harm() {
    let pretend = Pretend::new(2, 8);
    let mut world = pretend.world();
    world.nodes[0].cores = u32::MAX;
    world.nodes[1].cores = u32::MAX;
    world.add_foreign("long", [("n0".into(), u32::MAX), ("n1".into(), u32::MAX)].into(), i64::MIN, i64::MAX);
    world.add_foreign("backwards", [("n0".into(), 5)].into(), 50, 20);
    world.add_job("1", FactState::Running, &[("n0", u32::MAX)], Some(i64::MAX));
    world.add_job("2", FactState::Running, &[("n1", u32::MAX)], Some(i64::MIN));
    waits(&mut world, "3", u32::MAX, Some(i64::MIN));
    drop(world);
    let batch = Batch::new(Box::new(pretend.clone()), settings(Unit::Cores, u32::MAX)).unwrap();
    let shown = seen(&batch, 0);
    assert_eq!(shown.view.foreign, [span(i64::MIN, i64::MAX, u32::MAX)]);
    assert_eq!(shown.view.waiting[0].estimate, Seconds(1));
    batch.examine(at(0));
    let nothing =
        Batch::new(Box::new(pretend.clone()), settings(Unit::Cores, 0)).map(|batch| seen(&batch, 0));
    assert_eq!(nothing.unwrap().view.foreign, []);
}
