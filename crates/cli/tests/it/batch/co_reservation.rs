//! A co-reservation over two Slurm clusters and a site with the built-in scheduler: jobs submitted at the broker start
//! in the promised second at all three, and end with it.

use super::cluster::Cluster;
use super::jobs::Traces;
use super::terminal::Terminal;
use super::wait_for;
use crate::folder::shared_folder;
use crate::service::PROGRAMS;
use crate::services::asking::{book, hold, new_id, now, part, together};
use crate::services::grid::{Grid, knows};
use crate::services::runtime;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Call, Condition, Lost, Part, Request, Reservation, State};
use bookahead_tests::polling::{until, until_async};

/// The capacity of each site; a part that takes all of it needs its own site.
const ALL: u32 = 4;

const SITES: [&str; 3] = ["north", "south", "west"];

/// The configuration of a site that runs programs itself.
const PLAIN: &str = "name = \"west\"\n[[resource]]\nname = \"cluster\"\n\
                     kind = \"processors\"\ncapacity = 4\n";

#[test]
fn jobs_in_a_co_reservation_start_on_the_promised_second_at_two_slurms_and_a_plain_site() {
    let clusters = [Cluster::of(2, 2), Cluster::of(2, 2)];
    let mut grid = Grid::new();
    let runtime = runtime();
    runtime.block_on(async {
        for (name, cluster) in SITES.iter().zip(&clusters) {
            grid.start("site", name, &cluster.site(name, "", ""), None).await;
        }
        grid.start("site", "west", &format!("{PROGRAMS}\n{PLAIN}"), None).await;
        let text = grid.broker_of("grid", "", &SITES);
        grid.start("broker", "grid", &text, None).await;
    });
    let (begin, end, booked) = runtime.block_on(async {
        let ada = grid.asker("grid");
        knows(&ada, &["north/cluster", "south/cluster", "west/cluster"]).await;
        let begin = now() + Seconds(20);
        let held = ada.get(hold(new_id(), together(vec![part(ALL, begin, 6); 3]))).await;
        let committed = ada.get(Call::Commit { id: held.id, jobs: Vec::new() }).await;
        assert_eq!(committed.state, State::Committed);
        (begin, begin + Seconds(6), committed)
    });
    assert!(booked.slots.iter().all(|slot| slot.interval.begin == begin), "{booked:?}");

    let folder = shared_folder();
    let traces = SITES.map(|name| Traces::new(folder.path(), name));
    let ada = Terminal::at(&grid.of("grid").url());
    let mut jobs = Vec::new();
    for (site, traces) in SITES.iter().zip(&traces) {
        let there = runtime.block_on(grid.asker(site).live()).unwrap();
        assert_eq!(there.len(), 1, "one part should be at {site}: {there:?}");
        ada.folder.write("script.sh", traces.endless());
        let (id, resource) = (booked.id.to_string(), format!("{site}/cluster"));
        let job = ada.document(&["submit", "--reservation", &id, "--resource", &resource, "script.sh"]);
        jobs.push(job["id"].as_str().unwrap().to_owned());
    }
    assert!(now() < begin, "all that was to be said before it begins");
    let began: Vec<i64> = traces.iter().map(Traces::began).collect();
    eprintln!("promised {}, began {began:?}", begin.0);
    // How late they are depends on the machine.
    assert!(began.iter().all(|second| (begin.0..end.0).contains(second)), "{began:?} for {}", begin.0);

    wait_for(end);
    let ended: Vec<i64> = traces.iter().map(Traces::ended).collect();
    eprintln!("ends at {}, last lived {ended:?}", end.0);
    for cluster in &clusters {
        until(|| {
            let left = cluster.reservations();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }
    for job in &jobs {
        until(|| {
            let shown = ada.document(&["show", job]);
            // The limit of a job is the rest of its reservation, so that both end at the same time.
            let ended = ["reservation-over", "out-of-time"].map(Into::into).contains(&shown["state"]);
            if ended { Ok(()) } else { Err(shown.to_string()) }
        });
    }
    grid.check_journals();
}

#[test]
fn a_part_whose_nodes_are_drained_is_replaced_at_another_cluster() {
    let clusters = [Cluster::of(2, 2), Cluster::of(2, 2)];
    let [north, south] = &clusters;
    let mut grid = Grid::new();
    runtime().block_on(async {
        for (name, cluster) in SITES.iter().zip(&clusters) {
            grid.start("site", name, &cluster.site(name, "", ""), None).await;
        }
        let text = grid.broker_of("grid", "[rules]\nheal_after = \"2s\"", &SITES[..2]);
        grid.start("broker", "grid", &text, None).await;
        let ada = grid.asker("grid");
        knows(&ada, &["north/cluster", "south/cluster"]).await;
        let begin = now() + Seconds(3_600);
        let at_north = Part { resource: Some("north/cluster".into()), ..part(2, begin, 600) };
        let other = ada.get(book(new_id(), Request::single(at_north))).await;
        let booked = ada.get(book(new_id(), together(vec![part(2, begin, 600); 2]))).await;
        let places = |booked: &Reservation| -> Vec<String> {
            booked.slots.iter().map(|slot| slot.site.to_string()).collect()
        };
        assert_eq!(places(&booked), SITES[..2], "there is not more room at north");
        ada.get(Call::Cancel { id: other.id }).await;
        let before = grid.asker("north").live().await.unwrap();
        for node in ["n1", "n2"] {
            south.tell(&["scontrol", "update", &format!("NodeName={node}"), "State=DRAIN", "Reason=repair"]);
        }
        let healed = until_async(async || {
            let shown = ada.get(Call::Show { id: booked.id }).await;
            let whole = shown.condition == Condition::Whole && !shown.replaced.is_empty();
            if whole { Ok(shown) } else { Err(format!("{shown:?}")) }
        })
        .await;
        assert_eq!(places(&healed), ["north"; 2]);
        assert_eq!(healed.slots.iter().map(|slot| slot.interval.begin).min(), Some(begin));
        assert_eq!((healed.replaced[0].part, healed.replaced[0].why), (1, Lost::Degraded));
        let now_there = grid.asker("north").live().await.unwrap();
        let new = now_there.iter().filter(|there| before.iter().all(|before| before.id != there.id));
        for part in new {
            assert_eq!(north.one_for("north", part.id).cores, 2);
        }
        assert_eq!(now_there.len(), 2);
    });
    until(|| {
        let left = south.reservations();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    grid.check_journals();
}

#[test]
fn a_change_reaches_both_slurms_or_neither() {
    let clusters = [Cluster::of(2, 2), Cluster::of(2, 2)];
    let [_, south] = &clusters;
    let mut grid = Grid::new();
    runtime().block_on(async {
        for (name, cluster) in SITES.iter().zip(&clusters) {
            grid.start("site", name, &cluster.site(name, "", ""), None).await;
        }
        let text = grid.broker_of("grid", "", &SITES[..2]);
        grid.start("broker", "grid", &text, None).await;
        let ada = grid.asker("grid");
        knows(&ada, &["north/cluster", "south/cluster"]).await;
        let begin = now() + Seconds(3_600);
        let (id, end) = (new_id(), begin + Seconds(600));
        ada.get(book(id, together(vec![part(ALL, begin, 600); 2]))).await;
        let ends = || -> Vec<i64> {
            let all = clusters.iter().flat_map(Cluster::reservations);
            all.filter(|reserved| reserved.name != "repair").map(|reserved| reserved.end).collect()
        };
        let both_end = async |at: Time| {
            until_async(async || if ends() == [at.0; 2] { Ok(()) } else { Err(format!("{:?}", ends())) })
                .await;
        };
        both_end(end).await;
        // South has another reservation after it, which limits the extension.
        let taken = end + Seconds(1_200);
        south.reserve_nodes("repair", "n1", taken, taken + Seconds(600));
        let longer = ada.get(Call::Extend { id, version: None, end: end + Seconds(900) }).await;
        assert!(longer.slots.iter().all(|slot| slot.interval.end == end + Seconds(900)), "{longer:?}");
        both_end(end + Seconds(900)).await;
        let why = ada.refused(Call::Extend { id, version: None, end: end + Seconds(1_500) }).await;
        eprintln!("refused: {why}");
        let shown = ada.get(Call::Show { id }).await;
        assert!(shown.slots.iter().all(|slot| slot.interval.end == end + Seconds(900)), "{shown:?}");
        both_end(end + Seconds(900)).await;
    });
    grid.check_journals();
}
