//! A co-reservation over two Slurms and a site with a scheduler of its own: jobs start on the promised second at all three,
//! and are gone when it ends. They are submitted at the broker.

use super::cluster::Cluster;
use super::jobs::Traces;
use super::terminal::Terminal;
use super::{CLOSE, until, wait_for};
use crate::services::asking::{hold, new_id, now, part, together};
use crate::services::grid::{Grid, knows};
use crate::services::runtime;
use bookahead_plan::Seconds;
use bookahead_protocol::{Call, State};

/// What each of them has; a part that takes all of it needs a site for itself.
const ALL: u32 = 4;

const SITES: [&str; 3] = ["north", "south", "west"];

/// What is said of a site that runs programs by itself.
const PLAIN: &str = "name = \"west\"\njobs = { processes = true }\n[[resource]]\nname = \"cluster\"\n\
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
        grid.start("site", "west", PLAIN, None).await;
        let text = grid.broker_of("grid", "", &SITES);
        grid.start("broker", "grid", &text, None).await;
    });
    let (begin, end, booked) = runtime.block_on(async {
        let ada = grid.asker("grid");
        knows(&ada, &["north/cluster", "south/cluster", "west/cluster"]).await;
        let begin = now() + Seconds(10);
        let held = ada.get(hold(new_id(), together(vec![part(ALL, begin, 6); 3]))).await;
        let committed = ada.get(Call::Commit { id: held.id, jobs: Vec::new() }).await;
        assert_eq!(committed.state, State::Committed);
        (begin, begin + Seconds(6), committed)
    });
    assert!(booked.slots.iter().all(|slot| slot.interval.begin == begin), "{booked:?}");

    let folder = clusters[0].folder();
    let traces = SITES.map(|name| Traces::new(folder, name));
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
    assert!(began.iter().all(|second| (second - begin.0).abs() <= CLOSE), "{began:?} for {}", begin.0);

    wait_for(end);
    let ended: Vec<i64> = traces.iter().map(Traces::ended).collect();
    eprintln!("ends at {}, last lived {ended:?}", end.0);
    assert!(ended.iter().all(|second| *second <= end.0 + CLOSE), "{ended:?} for {}", end.0);
    for cluster in &clusters {
        until(|| {
            let left = cluster.reservations();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }
    for job in &jobs {
        until(|| {
            let shown = ada.document(&["show", job]);
            // The limit of a job is what is left of its reservation: both end at the same time.
            let ended = ["reservation-over", "out-of-time"].map(Into::into).contains(&shown["state"]);
            if ended { Ok(()) } else { Err(shown.to_string()) }
        });
    }
    grid.check_journals();
}
