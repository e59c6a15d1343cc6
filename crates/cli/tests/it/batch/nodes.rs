//! Nodes that fail under reservations: what can be moved within the cluster is moved, of the rest its owner is told what is
//! missing and when he could have all of it, and when the node is back it is whole again.

use super::cluster::Cluster;
use super::until;
use super::watcher::Watcher;
use crate::services::asking::{Asker, book, new_id, now, part, together, window};
use crate::services::grid::Grid;
use crate::services::{self, runtime};
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::{Part, Reservation, State};

#[test]
fn a_reservation_whose_node_fails_moves_or_says_what_is_missing_until_the_node_is_back() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let mut grid = Grid::new();
        grid.start("site", "north", &cluster.site("north", "", ""), None).await;
        let ada = grid.asker("north");
        let mut watcher = Watcher::of(&ada).await;
        let begin = now() + Seconds(3_600);

        let first = ada.get(book(new_id(), together(vec![part(2, begin, 60)]))).await;
        assert_eq!(first.state, State::Committed);
        let before = cluster.one_for("north", first.id);
        let other = if before.nodes == "n1" { "n2" } else { "n1" };
        assert!(["n1", "n2"].contains(&before.nodes.as_str()), "{before:?}");
        cluster.fail(&before.nodes);
        until(|| match &cluster.kept_for("north", first.id)[..] {
            [moved] if moved.nodes == other && moved.cores == 2 => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
        let shown = ada.client().show(first.id).await.unwrap();
        assert_eq!(shown.missing, [0], "there was room on the other node: {shown:?}");
        cluster.bring_back(&before.nodes);

        // The second has a window: it could also begin when the first is over.
        let flexible = window(2, begin, 60, begin + Seconds(600));
        let second = until_granted(&ada, flexible).await;
        assert_eq!(second.slots[0].interval.begin, begin, "both at once");
        let failed = cluster.one_for("north", second.id).nodes;
        cluster.fail(&failed);
        let told = watcher.hears_missing(second.id, 2).await;
        assert!(told.could_begin.iter().any(|at| at.time() >= begin + Seconds(60)), "{told:?}");
        assert_eq!(ada.client().show(second.id).await.unwrap().missing, [2]);
        let shown = ada.client().show(first.id).await.unwrap();
        assert_eq!(shown.missing, [0], "the older is not hit");
        until(|| match &cluster.kept_for("north", first.id)[..] {
            [kept] if kept.cores == 2 && kept.nodes != failed => Ok(()),
            kept => Err(format!("{kept:?}")),
        });

        cluster.bring_back(&failed);
        watcher.hears_missing(second.id, 0).await;
        until(|| {
            let kept = [first.id, second.id].map(|id| cluster.kept_for("north", id));
            let whole = kept.iter().all(|kept| matches!(&kept[..], [one] if one.cores == 2));
            if whole && kept[0][0].nodes != kept[1][0].nodes { Ok(()) } else { Err(format!("{kept:?}")) }
        });
        assert_eq!(ada.client().show(second.id).await.unwrap().missing, [0]);
        grid.check_journals();
    });
}

/// Books as soon as the site has seen that there is room.
async fn until_granted(ada: &Asker, part: Part) -> Reservation {
    let (begin, request) = (part.wanted.earliest_start, together(vec![part]));
    let probe = api::Probe { request: request.clone().try_into().unwrap(), most: None, starts: Vec::new() };
    services::until(async || {
        let offers = ada.client().probe(&probe).await.map_err(|why| why.to_string())?;
        let soon = offers.offers.first().is_some_and(|offer| offer.slots[0].begin.time() == begin);
        if soon { Ok(()) } else { Err(format!("{offers:?}")) }
    })
    .await;
    ada.get(book(new_id(), request)).await
}
