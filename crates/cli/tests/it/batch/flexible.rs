//! Requests without fixed terms on a real Slurm: ranges of capacity and length, no length at all, and at once.

use super::cluster::Cluster;
use super::terminal::Terminal;
use crate::services::asking::now;
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_plan::Seconds;
use bookahead_tests::polling::until;

#[test]
fn slurm_keeps_as_much_as_there_is_at_once_and_until_it_is_released() {
    let cluster = Cluster::of(1, 4);
    cluster.tell(&["sbatch", "--ntasks=1", "--time=60", "--wrap=sleep 3600"]);
    until(|| match cluster.jobs().iter().filter(|job| job.state == "RUNNING").count() {
        1 => Ok(()),
        _ => Err(format!("{:?}", cluster.jobs())),
    });
    let mut grid = Grid::new();
    runtime().block_on(grid.start("site", "north", &cluster.site("north", "", ""), None));
    let ada = Terminal::at(&grid.of("north").url());
    let kept = || cluster.tell(&["scontrol", "-o", "show", "res"]);

    let from = jiff::Timestamp::from_second((now() + Seconds(300)).0).unwrap().to_string();
    let until_then = jiff::Timestamp::from_second((now() + Seconds(900)).0).unwrap().to_string();
    let ranges = ["--capacity", "2..4", "--duration", "5m..30m", "--from", &from, "--until", &until_then];
    let granted = ada.document(&[&["reserve", "--book"], &ranges[..]].concat());
    let slot = &granted["slots"][0];
    assert_eq!(slot["capacity"], 3, "the job has one core: {granted}");
    assert!(kept().contains(" CoreCnt=3 "), "{}", kept());
    assert!(kept().contains(" Duration=00:10:00 "), "as long as the window: {}", kept());
    ada.document(&["cancel", granted["id"].as_str().unwrap()]);
    until(|| if kept().contains("No reservations") { Ok(()) } else { Err(kept()) });

    let open = ["reserve", "--book", "--capacity", "2", "--duration", "open", "--from", "now"];
    let granted = ada.document(&open);
    let id = granted["id"].as_str().unwrap();
    until(|| if kept().contains(" State=ACTIVE") { Ok(()) } else { Err(kept()) });
    assert!(kept().contains(" CoreCnt=2 "), "{}", kept());
    ada.document(&["release", id]);
    until(|| if kept().contains("No reservations") { Ok(()) } else { Err(kept()) });
    grid.check_journals();
}
