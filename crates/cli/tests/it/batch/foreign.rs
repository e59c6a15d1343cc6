//! Operators change Slurm directly: reservations before ours and over ours, deleted reservations of ours, and
//! reservations that look like ours but are not.

use super::cluster::Cluster;
use crate::services::asking::{book, new_id, now, part, together};
use crate::services::runtime;
use bookahead_lrms::batch::Tag;
use bookahead_plan::Seconds;
use bookahead_protocol::{Answer, Call, State};
use bookahead_tests::polling::until;

#[test]
fn what_an_operator_reserves_is_respected_and_where_it_is_laid_over_ours_that_moves_or_is_told_missing() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let (grid, ada, mut watcher) = cluster.watched_site().await;
        let (begin, length) = (now() + Seconds(3_600), 600);
        let end = begin + Seconds(length);

        // Before ours: only the rest of the capacity is granted.
        cluster.reserve_nodes("maintenance", "n1", begin, end);
        let all = ada.ask(book(new_id(), together(vec![part(4, begin, length)]))).await;
        assert!(matches!(all, Answer::Problem(_)), "{all:?}");
        let ours = ada.get(book(new_id(), together(vec![part(2, begin, length)]))).await;
        assert_eq!(ours.state, State::Committed);
        assert_eq!(cluster.one_for("north", ours.id).nodes, "n2");
        cluster.tell(&["scontrol", "delete", "reservation", "maintenance"]);

        // Over ours, which Slurm allows for whole nodes: ours has room beside it.
        cluster.reserve_nodes("upgrade", "n2", begin, end);
        until(|| match &cluster.kept_for("north", ours.id)[..] {
            [moved] if moved.nodes == "n1" && moved.cores == 2 => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        assert_eq!(ada.client().show(ours.id).await.unwrap().missing, [0]);
        // There is no room if the other node is reserved too.
        cluster.reserve_nodes("more", "n1", begin, end);
        watcher.hears_missing(ours.id, 2).await;
        assert_eq!(ada.client().show(ours.id).await.unwrap().missing, [2]);
        cluster.tell(&["scontrol", "delete", "reservation", "upgrade"]);
        watcher.hears_missing(ours.id, 0).await;
        until(|| match &cluster.kept_for("north", ours.id)[..] {
            [back] if back.nodes == "n2" && back.cores == 2 => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        assert_eq!(ada.client().show(ours.id).await.unwrap().missing, [0]);
        grid.check_journals();
    });
}

#[test]
fn what_is_deleted_behind_our_back_is_made_again_and_what_is_nobodys_is_removed_and_told() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let (grid, ada, mut watcher) = cluster.watched_site().await;
        let begin = now() + Seconds(3_600);
        let ours = ada.get(book(new_id(), together(vec![part(3, begin, 600)]))).await;
        let before = cluster.one_for("north", ours.id);
        cluster.tell(&["scontrol", "delete", "reservation", &before.name]);
        until(|| match &cluster.kept_for("north", ours.id)[..] {
            [again] if (again.begin, again.end, again.cores) == (before.begin, before.end, 3) => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        assert_eq!(ada.client().show(ours.id).await.unwrap().missing, [0]);

        let nobodys = new_id();
        let tag = Tag { id: nobodys, piece: 0, owner: Some("eve".into()) };
        let name = tag.name(&"north".into(), 200).unwrap();
        cluster.reserve_nodes(&name, "n1", begin + Seconds(7_200), begin + Seconds(7_300));
        watcher.hears("orphan-removed", nobodys).await;
        until(|| match &cluster.kept_for("north", nobodys)[..] {
            [] => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        assert_eq!(cluster.kept_for("north", ours.id).len(), 1);
        ada.get(Call::Cancel { id: ours.id }).await;
        until(|| if cluster.reservations().is_empty() { Ok(()) } else { Err("something is kept") });
        grid.check_journals();
    });
}
