//! Maintenance reservations of Slurm: planned around, and shown by their names.

use super::cluster::Cluster;
use crate::services::asking::{book, new_id, now, part, together, window};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_api as api;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{State, Why};
use bookahead_tests::polling::until;

/// A maintenance reservation, as an administrator makes it.
fn maintain(cluster: &Cluster, name: &str, nodes: &str, (begin, end): (Time, Time), flags: &str) {
    let time = |time: Time| jiff::Timestamp::from_second(time.0).unwrap().strftime("%FT%T").to_string();
    let words = [
        format!("ReservationName={name}"),
        format!("Nodes={nodes}"),
        format!("StartTime={}", time(begin)),
        format!("EndTime={}", time(end)),
        format!("Flags={flags}"),
        "Users=root".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    cluster.tell(&[&["scontrol", "create", "reservation"], &words[..]].concat());
}

#[test]
fn maintenance_of_slurm_and_of_the_site_is_planned_around_and_named_in_refusals_probes_and_the_schedule() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let (begin, end) = (now() + Seconds(7_200), now() + Seconds(10_800));
        let (weekly, site_window) = (begin + Seconds(7 * 86_400), now() + Seconds(86_400));
        maintain(&cluster, "firmware", "n[1-2]", (begin, end), "MAINT");
        maintain(&cluster, "disks", "n1", (begin + Seconds(86_400), end + Seconds(86_400)), "MAINT,WEEKLY");
        let day = jiff::Timestamp::from_second(site_window.0).unwrap().strftime("%Y-%m-%d").to_string();
        // A whole day of the site's own, in three days: at any hour of the day, the others are over before it.
        let day: jiff::civil::Date = day.parse().unwrap();
        let own_day = day.tomorrow().unwrap().tomorrow().unwrap();
        let own = format!(
            "[[maintenance]]\nname = \"move\"\nstart = \"{own_day}\"\nfrom = \"00:00\"\nto = \"24:00\"\n\
             zone = \"UTC\"\n"
        );
        let mut grid = Grid::new();
        grid.start("site", "north", &cluster.site("north", "", &own), None).await;
        let ada = grid.asker("north");

        let refused = ada.refused(book(new_id(), together(vec![part(1, begin + Seconds(60), 600)]))).await;
        let because =
            |name: &str, until| Why::Maintenance { name: name.into(), until, not_before: Some(until) };
        assert_eq!(refused, because("firmware", end));
        // It begins after the maintenance where it may.
        let later = window(4, begin + Seconds(60), 600, end + Seconds(3_600));
        let booked = ada.get(book(new_id(), together(vec![later]))).await;
        assert_eq!((booked.state, booked.slots[0].interval.begin), (State::Committed, end));
        assert_eq!(cluster.one_for("north", booked.id).begin, end.0);
        // One node is left beside the other maintenance, this week and the next.
        for week in [0, 7] {
            let on_disks = begin + Seconds((week + 1) * 86_400);
            let all = ada.refused(book(new_id(), together(vec![part(4, on_disks, 600)]))).await;
            assert!(matches!(&all, Why::Maintenance { name, .. } if name.as_str() == "disks"), "{all:?}");
            let half = ada.get(book(new_id(), together(vec![part(2, on_disks, 600)]))).await;
            // Slurm places it without regard to later repetitions; the site then moves it.
            until(|| match &cluster.kept_for("north", half.id)[..] {
                [kept] if kept.nodes == "n2" => Ok(()),
                kept => Err(format!("{kept:?}")),
            });
        }
        let own_begin = Time(own_day.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_second());
        let refused = ada.refused(book(new_id(), together(vec![part(1, own_begin, 600)]))).await;
        assert!(matches!(&refused, Why::Maintenance { name, .. } if name.as_str() == "move"), "{refused:?}");

        let stamp = api::Timestamp::nearest;
        let query = api::ScheduleQuery {
            resource: None,
            from: Some(stamp(now())),
            until: Some(stamp(weekly + Seconds(2 * 86_400))),
            pixels: None,
        };
        let drawn = ada.client().schedule(&query).await.unwrap();
        let named = |name: &str| {
            let blocks = drawn.resources[0].blocks.iter();
            let here = blocks.filter(|block| block.kind == api::BlockKind::Maintenance);
            let named = here.filter(|block| block.name.as_deref() == Some(name));
            named.map(|block| (block.begin, block.end, block.capacity)).collect::<Vec<_>>()
        };
        assert_eq!(named("firmware"), [(stamp(begin), stamp(end), 4)]);
        assert_eq!(named("move").len(), 1);
        assert_eq!(named("disks").len(), 2, "once a week");
        assert!(drawn.resources[0].blocks.iter().all(|block| block.kind != api::BlockKind::Foreign));
        let calendar = ada.client().calendar(&api::CalendarQuery::default()).await.unwrap();
        for name in ["firmware", "disks", "move"] {
            assert!(calendar.contains(&format!("SUMMARY:Maintenance: {name}\r\n")), "{calendar}");
        }
        // What is over is forgotten.
        cluster.tell(&["scontrol", "delete", "reservation", "firmware"]);
        until(|| match &cluster.reservations()[..] {
            left if left.iter().all(|one| one.name != "firmware") => Ok(()),
            left => Err(format!("{left:?}")),
        });
        grid.check_journals();
    });
}
