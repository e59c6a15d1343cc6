//! Nodes that fail under what jobs wait or run in: the jobs move along where the batch system lets them, and else nothing
//! is given up; none of them ends because less is kept.

use super::pretend::{Fault, Pretend};
use super::{batch, seen};
use crate::{at, backing, inside, job, span};
use bookahead_lrms::batch::FactState;
use bookahead_lrms::error::Kept;
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::Backing;
use bookahead_plan::Span;
use bookahead_protocol::ReservationId;

/// So many nodes, a reservation over the first two in which a job runs on the second, and the first has failed.
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
    assert_eq!(kept(&batch, 2), [span(0, 100, 4)]);
    (pretend, batch, said)
}

fn kept(batch: &Batch, second: i64) -> Vec<Span> {
    seen(batch, second).backings[&ReservationId(1)].clone()
}

/// What it was told, but for the first commands.
fn verbs(pretend: &Pretend, but: usize) -> Vec<String> {
    let world = pretend.world();
    world.log.iter().skip(but).map(|command| command.split(' ').next().unwrap().to_owned()).collect()
}

fn told(pretend: &Pretend) -> usize {
    pretend.world().log.len()
}

/// What is wanted where the rest is missing.
fn less(cores: u32) -> Backing {
    let spans = if cores > 0 { vec![span(0, 100, cores)] } else { Vec::new() };
    Backing { spares_jobs: true, ..backing(1, &spans) }
}

#[test]
fn where_there_is_room_it_is_made_anew_and_its_jobs_belong_to_the_new_one() {
    let (pretend, batch, said) = busy(4);
    assert!(seen(&batch, 2).in_use.contains(&ReservationId(1)));
    let before = told(&pretend);
    batch.keep(at(2), &said).unwrap();
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
    assert_eq!(after.view.running.len(), 1, "it takes what no reservation has");
    batch.keep(at(4), &said).unwrap();
    assert_eq!(told(&pretend), before + 3, "and that is all");
}

#[test]
fn where_there_is_no_room_that_is_refused_and_what_is_left_of_it_stays_with_its_jobs() {
    let (pretend, batch, said) = busy(3);
    let refused = batch.keep(at(2), &said).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    let before = told(&pretend);
    for cores in [4, 1, 0] {
        batch.keep(at(4), &less(cores)).unwrap();
    }
    assert_eq!(told(&pretend), before, "less is wanted, and it has that");
    assert_eq!(kept(&batch, 6), [span(0, 100, 4)]);
    assert!(batch.keep(at(6), &less(5)).unwrap_err().is_refusal(), "it has not so much");
    assert_eq!(pretend.world().live().len(), 1);
    pretend.world().nodes[0].usable = true;
    let before = told(&pretend);
    assert_eq!(kept(&batch, 8), said.spans, "the node is back");
    batch.keep(at(8), &said).unwrap();
    assert_eq!(told(&pretend), before);
}

#[test]
fn of_what_is_spared_times_change_all_the_same() {
    let (pretend, batch, _) = busy(3);
    batch.keep(at(2), &Backing { spans: vec![span(0, 60, 2)], ..less(0) }).unwrap();
    {
        let world = pretend.world();
        let ours = world.ours();
        assert_eq!((ours.len(), ours[0].interval.end.0, world.live().len()), (1, 60, 1));
        assert_eq!(ours[0].cores.values().sum::<u32>(), 8, "it is not made smaller");
    }
    // Whoever gives it up gives up its jobs.
    batch.keep(at(4), &backing(1, &[])).unwrap();
    let world = pretend.world();
    assert_eq!((world.ours().len(), world.live().len()), (0, 0));
}

#[test]
fn jobs_that_may_not_move_stay_where_they_were() {
    let (pretend, batch, said) = busy(4);
    let before = told(&pretend);
    pretend.world().faults.extend([Fault::None, Fault::Refuse]);
    let refused = batch.keep(at(2), &said).unwrap_err();
    assert!(matches!(refused, LrmsError::NotBacked { kept: Kept::AsBefore, .. }), "{refused}");
    assert_eq!(verbs(&pretend, before), ["create", "move", "move", "delete"]);
    assert_eq!(kept(&batch, 4), [span(0, 100, 4)]);
    assert_eq!(pretend.world().live().len(), 1);
}

#[test]
fn jobs_of_which_it_is_not_known_whether_they_moved_are_not_deleted_with_the_old() {
    for fault in [Fault::SilentBefore, Fault::SilentAfter] {
        let (pretend, batch, said) = busy(4);
        pretend.world().faults.extend([Fault::None, fault]);
        assert!(!batch.keep(at(2), &said).unwrap_err().is_refusal());
        assert_eq!(pretend.world().ours().len(), 2);
        batch.keep(at(4), &said).unwrap();
        assert_eq!(pretend.world().live().len(), 1, "{fault:?}");
        assert_eq!(kept(&batch, 6), said.spans);
    }
}
