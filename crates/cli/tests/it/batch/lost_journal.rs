//! A site whose journal is lost while Slurm still has its reservations: it does not start by default, and adopts or
//! deletes them as its options say.

use super::cluster::Cluster;
use crate::services::asking::{Asker, book, new_id, now, part, together};
use crate::services::grid::Grid;
use crate::services::process::Began;
use crate::services::runtime;
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::Call;
use bookahead_tests::polling::until;
use std::process::Command;

#[test]
fn a_site_without_its_journal_asks_what_becomes_of_what_slurm_keeps_and_adopts_or_removes_it() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let mut grid = Grid::new();
        grid.start("site", "north", &cluster.site("north", "", ""), None).await;
        let begin = now() + Seconds(3_600);
        let grace = Asker::new(&grid.of("north").url(), "grace");
        let before = grace.get(book(new_id(), together(vec![part(3, begin, 600)]))).await;
        let north = grid.of_mut("north");
        north.kill9();
        north.lose_state();

        let mut command = Command::new(env!("CARGO_BIN_EXE_bookahead"));
        command.args(["site", "--config"]).arg(north.config());
        let refused = command.output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(
            ["1 reservation", "--adopt", "--remove-found"].iter().all(|word| said.contains(word)),
            "{said}"
        );
        let kept = cluster.one_for("north", before.id);

        assert_eq!(north.start_with(&["--adopt"], None).await, Began::Ready);
        let all = grace.all().await.unwrap();
        let [adopted] = &all[..] else { panic!("{all:?}") };
        let slot = &adopted.slots[0];
        assert_eq!(
            (adopted.id, adopted.owner.as_str(), adopted.state),
            (before.id, "grace", api::State::Committed)
        );
        assert_eq!((slot.begin.time(), slot.end.time(), slot.capacity), (begin, begin + Seconds(600), 3));
        assert_eq!(cluster.reservations(), std::slice::from_ref(&kept), "nothing is changed there");
        // An adopted reservation is like any other.
        north.restart().await;
        assert_eq!(cluster.reservations(), [kept]);
        let rest = grace.get(book(new_id(), together(vec![part(1, begin, 600)]))).await;
        grace.get(Call::Cancel { id: before.id }).await;
        until(|| match &cluster.reservations()[..] {
            [_] => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        assert_eq!(cluster.one_for("north", rest.id).cores, 1);

        north.kill9();
        north.lose_state();
        assert_eq!(north.start_with(&["--remove-found"], None).await, Began::Ready);
        until(|| match &cluster.reservations()[..] {
            [] => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        assert!(grace.all().await.unwrap().is_empty());
        grid.check_journals();
    });
}
