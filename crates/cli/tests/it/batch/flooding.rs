//! A best-effort job through a broker over two Slurm clusters: copies wait at both, one runs, and the other is
//! withdrawn.

use super::cluster::Cluster;
use super::jobs::Traces;
use super::terminal::Terminal;
use crate::services::grid::{Grid, knows};
use crate::services::runtime;
use bookahead_tests::polling::until;

const SITES: [&str; 2] = ["north", "south"];

/// The copies of Bookahead jobs that wait or run in a cluster.
fn copies(cluster: &Cluster) -> Vec<String> {
    let live = |state: &str| ["PENDING", "RUNNING", "CONFIGURING"].contains(&state);
    let jobs = cluster.jobs().into_iter();
    jobs.filter(|job| job.name.starts_with("job_") && live(&job.state)).map(|job| job.state).collect()
}

#[test]
fn of_a_job_that_is_flooded_over_two_slurms_one_copy_runs_and_the_other_is_gone() {
    let clusters = [Cluster::of(1, 2), Cluster::of(1, 2)];
    let blockers = clusters.each_ref().map(|cluster| {
        let native = cluster.tell(&["sbatch", "--parsable", "--ntasks=2", "--time=10", "--wrap=sleep 600"]);
        native.trim().to_owned()
    });
    let mut grid = Grid::new();
    let runtime = runtime();
    runtime.block_on(async {
        for (name, cluster) in SITES.iter().zip(&clusters) {
            grid.start("site", name, &cluster.site(name, "", ""), None).await;
        }
        let text = grid.broker_of("grid", "job_look = \"200ms\"", &SITES);
        grid.start("broker", "grid", &text, None).await;
        knows(&grid.asker("grid"), &["north/cluster", "south/cluster"]).await;
    });
    let ada = Terminal::at(&grid.of("grid").url());
    let traces = Traces::new(clusters[0].folder(), "job");
    ada.folder.write("script.sh", traces.endless());
    let words = ["submit", "--mode", "flood", "--capacity", "2", "--limit", "5m", "script.sh"];
    let job = ada.document(&words)["id"].as_str().unwrap().to_owned();
    until(|| {
        let waiting = clusters.each_ref().map(copies);
        let both = waiting.iter().all(|copies| copies.len() == 1);
        if both { Ok(()) } else { Err(format!("{waiting:?}")) }
    });

    clusters[1].tell(&["scancel", &blockers[1]]);
    traces.began();
    until(|| match (copies(&clusters[0]).len(), copies(&clusters[1]).len()) {
        (0, 1) => Ok(()),
        copies => Err(format!("{copies:?}")),
    });
    let shown = until(|| {
        let shown = ada.document(&["show", &job]);
        if shown["state"] == "running" { Ok(shown) } else { Err(shown.to_string()) }
    });
    assert_eq!(shown["site"], "south");
    // Nothing starts where the other copy would have started.
    clusters[0].tell(&["scancel", &blockers[0]]);
    until(|| match clusters[0].jobs().iter().filter(|job| job.state == "RUNNING").count() {
        0 => Ok(()),
        _ => Err(format!("{:?}", clusters[0].jobs())),
    });
    assert_eq!(traces.begins().len(), 1, "it ran once");

    ada.document(&["cancel", &job]);
    traces.ended();
    until(|| if copies(&clusters[1]).is_empty() { Ok(()) } else { Err("it is there") });
    assert_eq!(traces.begins().len(), 1, "it ran once");
    grid.check_journals();
}
