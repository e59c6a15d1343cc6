//! Unavailable nodes under a reservation with jobs: it stays as it is, or moves as a whole with its jobs if ordered
//! to and supported by the batch system.

use super::pretend::{Fault, Pretend};
use super::{batch, seen};
use crate::{at, backing, inside, job, span};
use bookahead_lrms::batch::FactState;
use bookahead_lrms::error::Kept;
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::Backing;
use bookahead_plan::{Capacity, Span};
use bookahead_protocol::ReservationId;

/// This many nodes; a reservation over the first two, with a job on the second; the first has failed.
fn busy(nodes: usize) -> (Pretend, Batch, Backing) {
    let pretend = Pretend::new(nodes, 4);
    pretend.world().moves_jobs = true;
    let batch = batch(&pretend);
    let said = backing(1, &[span(0, 100, 8)]);
    batch.keep(at(0), &said).unwrap();
    for (id, cores) in [(1, 4), (2, 4)] {
        batch.submit(at(0), &inside(job(id, cores, 90, 90), 1)).unwrap();
    }
    pretend.world().pass(1);
    {
        let mut world = pretend.world();
        assert_eq!(world.jobs[1].placed.keys().collect::<Vec<_>>(), ["n1"]);
        world.nodes[0].usable = false;
        world.jobs[0].state = FactState::Failed { why: "its node failed".into() };
    }
    assert_eq!(kept(&batch, 2), said.spans, "what is on nodes that are away is kept");
    assert_eq!(away(&batch, 2), Some(Capacity(4)));
    (pretend, batch, said)
}

fn away(batch: &Batch, second: i64) -> Option<Capacity> {
    seen(batch, second).away.get(&ReservationId(1)).copied()
}

/// The same on other nodes.
fn moved(said: &Backing) -> Backing {
    Backing { replaces: true, ..said.clone() }
}

fn kept(batch: &Batch, second: i64) -> Vec<Span> {
    seen(batch, second).backings[&ReservationId(1)].clone()
}

/// The commands after the first `but`.
fn verbs(pretend: &Pretend, but: usize) -> Vec<String> {
    let world = pretend.world();
    world.log.iter().skip(but).map(|command| command.split(' ').next().unwrap().to_owned()).collect()
}

fn told(pretend: &Pretend) -> usize {
    pretend.world().log.len()
}

#[test]
fn where_there_is_room_it_is_made_anew_and_its_jobs_belong_to_the_new_one() {
    let (pretend, batch, said) = busy(4);
    let before = told(&pretend);
    batch.keep(at(2), &said).unwrap();
    assert_eq!(told(&pretend), before, "no order to move it");
    batch.keep(at(2), &moved(&said)).unwrap();
    assert_eq!(verbs(&pretend, before), ["create", "move", "delete"]);
    {
        let world = pretend.world();
        let ours = world.ours();
        assert_eq!(ours.len(), 1);
        assert_eq!(ours[0].cores.keys().collect::<Vec<_>>(), ["n2", "n3"]);
        let runs = world.live()[0];
        assert_eq!(
            (&runs.state, &runs.reservations[..]),
            (&FactState::Running, &[ours[0].handle.clone()][..])
        );
        assert_eq!(runs.placed.keys().collect::<Vec<_>>(), ["n1"], "it runs on where it is");
    }
    let after = seen(&batch, 4);
    assert_eq!(after.backings[&ReservationId(1)], said.spans);
    assert!(after.away.is_empty());
    assert_eq!(after.view.running.len(), 1, "it takes what no reservation has");
    batch.keep(at(4), &said).unwrap();
    assert_eq!(told(&pretend), before + 3, "and that is all");
}

#[test]
fn where_there_is_no_room_it_stays_as_it_is_with_its_jobs() {
    let (pretend, batch, said) = busy(3);
    let ours = || pretend.world().ours().into_iter().cloned().collect::<Vec<_>>();
    let before = ours();
    let refused = batch.keep(at(2), &moved(&said)).unwrap_err();
    assert!(matches!(refused, LrmsError::NotBacked { kept: Kept::AsBefore, .. }), "{refused}");
    assert_eq!((ours(), pretend.world().live().len()), (before, 1));
    pretend.world().nodes[0].usable = true;
    let told_before = told(&pretend);
    assert_eq!((kept(&batch, 8), away(&batch, 8)), (said.spans.clone(), None), "the node is back");
    batch.keep(at(8), &said).unwrap();
    assert_eq!(told(&pretend), told_before);
}

#[test]
fn whoever_gives_it_up_gives_up_its_jobs_also_while_nodes_are_away() {
    let (pretend, batch, _) = busy(3);
    batch.keep(at(4), &backing(1, &[])).unwrap();
    let world = pretend.world();
    assert_eq!((world.ours().len(), world.live().len()), (0, 0));
}

#[test]
fn jobs_that_may_not_move_stay_where_they_were() {
    let (pretend, batch, said) = busy(4);
    let before = told(&pretend);
    pretend.world().faults.extend([Fault::None, Fault::Refuse]);
    let refused = batch.keep(at(2), &moved(&said)).unwrap_err();
    assert!(matches!(refused, LrmsError::NotBacked { kept: Kept::AsBefore, .. }), "{refused}");
    assert_eq!(verbs(&pretend, before), ["create", "move", "move", "delete"]);
    assert_eq!(away(&batch, 4), Some(Capacity(4)));
    assert_eq!(pretend.world().live().len(), 1);
}

#[test]
fn jobs_of_which_it_is_not_known_whether_they_moved_are_not_deleted_with_the_old() {
    for fault in [Fault::SilentBefore, Fault::SilentAfter] {
        let (pretend, batch, said) = busy(4);
        pretend.world().faults.extend([Fault::None, fault]);
        assert!(!batch.keep(at(2), &moved(&said)).unwrap_err().is_refusal());
        assert_eq!(pretend.world().ours().len(), 2);
        batch.keep(at(4), &moved(&said)).unwrap();
        assert_eq!(pretend.world().live().len(), 1, "{fault:?}");
        assert_eq!(kept(&batch, 6), said.spans);
    }
}
