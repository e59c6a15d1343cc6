//! A site whose Slurm is on another machine, reached through a real sshd.

use super::cluster::Cluster;
use super::jobs::Traces;
use super::terminal::Terminal;
use crate::services::asking::{hold, new_id, now, part, together};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_plan::Seconds;
use bookahead_protocol::{Call, State};
use bookahead_tests::polling::until;
use bookahead_tests::sshd::Sshd;

#[test]
fn over_ssh_a_reservation_is_held_and_committed_and_a_job_starts_in_it_on_the_second() {
    let (sshd, cluster) = (Sshd::start(), Cluster::of(2, 2));
    let mut grid = Grid::new();
    let site = cluster.site("north", &sshd.section("batch.ssh"), "");
    let (begin, id) = runtime().block_on(async {
        grid.start("site", "north", &site, None).await;
        let ada = grid.asker("north");
        let begin = now() + Seconds(15);
        let held = ada.get(hold(new_id(), together(vec![part(3, begin, 30)]))).await;
        let kept = cluster.one_for("north", held.id);
        assert_eq!((kept.begin, kept.end, kept.cores), (begin.0, begin.0 + 30, 3));
        let committed = ada.get(Call::Commit { id: held.id, jobs: Vec::new() }).await;
        assert_eq!(committed.state, State::Committed);
        (begin, held.id)
    });
    let traces = Traces::new(cluster.folder(), "job");
    let ada = Terminal::at(&grid.of("north").url());
    ada.folder.write("script.sh", traces.short());
    let words = ["submit", "--reservation", &id.to_string(), "script.sh", "$(touch gone)", "'; false"];
    let job = ada.document(&words)["id"].as_str().unwrap().to_owned();
    assert!(now() < begin, "all that was to be said before it begins");
    let began = traces.began();
    eprintln!("promised {}, began {began}, {} logins", begin.0, sshd.logins());
    assert!((begin.0..begin.0 + 30).contains(&began), "{began} for {}", begin.0);
    until(|| {
        let shown = ada.document(&["show", &job]);
        if shown["state"] == "done" && shown["exit"] == 0 { Ok(()) } else { Err(shown.to_string()) }
    });
    assert!((1..=3).contains(&sshd.logins()), "one connection carries all: {}", sshd.logins());
    ada.document(&["cancel", &id.to_string()]);
    until(|| if cluster.reservations().is_empty() { Ok(()) } else { Err("it is kept") });
    grid.check_journals();
}
