//! Projects, from the configuration of a site to Slurm. Without slurmdbd Slurm accepts any; the tests of the dialect
//! cover slurmdbd.

use super::cluster::Cluster;
use super::terminal::Terminal;
use crate::services::asking::now;
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_plan::Seconds;
use bookahead_service::security::own_account;

#[test]
fn what_a_site_keeps_and_runs_is_for_the_project_of_the_owner() {
    // On a socket the user is the account that connects.
    let own = format!("projects = {{ {} = \"chem\" }}", own_account().unwrap());
    for (projects, project) in [(own.as_str(), "chem"), ("", "physics")] {
        let cluster = Cluster::of(1, 4);
        let mut grid = Grid::new();
        let site = cluster.site("north", &format!("project = \"physics\"\n{projects}"), "");
        runtime().block_on(grid.start("site", "north", &site, None));
        let ada = Terminal::at(&grid.of("north").url());
        let from = jiff::Timestamp::from_second((now() + Seconds(60)).0).unwrap().to_string();
        let wanted = ["--capacity", "2", "--duration", "5m", "--from", &from];
        let held = ada.document(&[&["reserve", "--hold", "60s"], &wanted[..]].concat());
        let id = held["id"].as_str().unwrap();
        ada.document(&["commit", id]);
        ada.document(&["change", id, "--duration", "10m", "--from", &from]);
        let shown = cluster.tell(&["scontrol", "-o", "show", "res"]);
        assert!(shown.contains(&format!(" Accounts={project} ")), "{shown}");
        ada.folder.write("script.sh", "#!/bin/sh\nsleep 300\n");
        for words in
            [&["submit", "--reservation", id, "script.sh"][..], &["submit", "--limit", "1m", "script.sh"]]
        {
            ada.document(words);
        }
        let accounts = cluster.tell(&["squeue", "-h", "-t", "all", "-o", "%a"]);
        assert_eq!(accounts.lines().collect::<Vec<_>>(), [project; 2]);
        grid.check_journals();
    }
}
