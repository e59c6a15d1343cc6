//! The reservation equals the last order, never shrinks in between, and no command runs if nothing changes.

use super::pretend::{Fault, Pretend, World};
use super::{Drive, batch, batch_of_nodes, seen};
use crate::{at, backing, cpu, inside, job, span};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::Unreadable;
use bookahead_lrms::error::Kept;
use bookahead_party::{Backing, Ended, JobState, Look};
use bookahead_plan::{Capacity, Span, Time};
use bookahead_protocol::{Name, ReservationId};

/// Intervals and cores.
fn kept(world: &World) -> Vec<(i64, i64, u32)> {
    world.terms()
}

/// Number of commands and of looks.
fn effort(pretend: &Pretend) -> (usize, usize) {
    let world = pretend.world();
    (world.log.len(), world.looks)
}

fn verbs(world: &World) -> Vec<String> {
    world.log.iter().map(|command| command.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn each_span_becomes_a_reservation_with_a_name_that_tells_whose_it_is() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(0x1f, &[span(10, 20, 12), span(20, 30, 4), span(10, 20, 2)])).unwrap();
    let world = pretend.world();
    assert_eq!(kept(&world), [(10, 20, 14), (20, 30, 4)]);
    let names: Vec<&str> = world.ours().iter().map(|reserved| reserved.name.as_str()).collect();
    assert_eq!(names, ["ba.uni--a.1f.0.ann", "ba.uni--a.1f.1.ann"]);
    assert_eq!(world.looks, 1, "what we made ourselves is known");
}

#[test]
fn saying_the_same_again_is_no_command_and_no_look() {
    let pretend = Pretend::new(2, 8);
    let said = backing(1, &[span(10, 20, 12), span(20, 30, 4)]);
    let one = batch(&pretend);
    one.keep(at(0), &said).unwrap();
    let (commands, looks) = effort(&pretend);
    one.keep(at(3), &said).unwrap();
    assert_eq!(effort(&pretend), (commands, looks));
    let restarted = batch(&pretend);
    restarted.keep(at(5), &said).unwrap();
    assert_eq!(effort(&pretend), (commands, looks + 1));
    pretend.world().pass(15);
    restarted.keep(at(15), &said).unwrap();
    assert_eq!(pretend.world().log.len(), commands, "also after it has begun");
    pretend.world().pass(10);
    restarted.keep(at(25), &said).unwrap();
    restarted.keep(at(35), &said).unwrap();
    assert_eq!(pretend.world().log.len(), commands, "also after a part of it is over");
}

#[test]
fn one_that_changes_keeps_its_jobs() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 2, 5, 5), 1)).unwrap();
    batch.keep(at(0), &backing(1, &[span(15, 40, 6)])).unwrap();
    assert_eq!(kept(&pretend.world()), [(15, 40, 6)]);
    assert_eq!(verbs(&pretend.world()), ["create", "submit", "change"]);
    assert_eq!(pretend.world().live().len(), 1);
}

#[test]
fn where_nothing_can_be_changed_the_new_one_is_made_before_the_old_one_goes() {
    let pretend = Pretend::new(2, 8);
    pretend.world().changes = false;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4)])).unwrap();
    batch.keep(at(0), &backing(1, &[span(12, 20, 5)])).unwrap();
    assert_eq!(kept(&pretend.world()), [(12, 20, 5)]);
    assert_eq!(verbs(&pretend.world()), ["create", "create", "delete"]);
}

/// The least that was reserved for us at an instant, before and after any command since the log had `since` entries.
fn least_kept(world: &World, instant: i64, since: usize) -> u32 {
    let kept = |ours: &Vec<(i64, i64, u32)>| -> u32 {
        let then = ours.iter().filter(|(begin, end, _)| *begin <= instant && instant < *end);
        then.map(|(_, _, cores)| cores).sum()
    };
    world.history[since..].iter().chain([&world.terms()]).map(kept).min().unwrap()
}

#[test]
fn a_release_in_part_never_gives_up_what_is_kept_where_both_fit_beside_each_other() {
    for changes in [true, false] {
        let pretend = Pretend::new(2, 8);
        pretend.world().changes = changes;
        let batch = batch(&pretend);
        batch.keep(at(0), &backing(1, &[span(10, 60, 6)])).unwrap();
        let since = pretend.world().log.len();
        batch.keep(at(0), &backing(1, &[span(10, 30, 6), span(30, 60, 4)])).unwrap();
        let world = pretend.world();
        assert_eq!(kept(&world), [(10, 30, 6), (30, 60, 4)]);
        assert!(
            least_kept(&world, 20, since) >= 6 && least_kept(&world, 45, since) >= 4,
            "{:?}",
            world.history
        );
    }
}

#[test]
fn a_release_in_part_of_a_full_cluster_with_jobs_in_it_is_carried_out_in_place() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 60, 16)])).unwrap();
    batch.submit(at(0), &inside(job(1, 2, 5, 5), 1)).unwrap();
    batch.keep(at(0), &backing(1, &[span(10, 30, 16), span(30, 60, 4)])).unwrap();
    assert_eq!(kept(&pretend.world()), [(10, 30, 16), (30, 60, 4)]);
    assert_eq!(
        verbs(&pretend.world()),
        ["create", "submit", "change", "create"],
        "nothing was tried in vain"
    );
    assert_eq!(pretend.world().live().len(), 1);
    let since = pretend.world().log.len();
    batch.keep(at(0), &backing(1, &[span(10, 30, 8), span(30, 60, 4)])).unwrap();
    assert!(least_kept(&pretend.world(), 20, since) >= 8);
}

#[test]
fn a_release_in_part_lets_jobs_run_on_that_cannot_move() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(0, 60, 8)])).unwrap();
    batch.submit(at(0), &inside(job(1, 4, 50, 55), 1)).unwrap();
    pretend.world().pass(5);
    // As the ledger orders it: a release takes effect with the next second.
    batch.keep(at(5), &backing(1, &[span(0, 6, 8), span(6, 60, 4)])).unwrap();
    pretend.world().pass(5);
    assert_eq!(kept(&pretend.world()), [(5, 60, 4)]);
    assert_eq!(verbs(&pretend.world()), ["create", "submit", "change"]);
    assert_eq!(pretend.world().live().len(), 1);
}

#[test]
fn where_the_old_one_is_in_the_way_it_goes_first() {
    let pretend = Pretend::new(2, 8);
    pretend.world().changes = false;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 12)])).unwrap();
    batch.keep(at(0), &backing(1, &[span(12, 22, 14)])).unwrap();
    assert_eq!(kept(&pretend.world()), [(12, 22, 14)]);
    assert_eq!(verbs(&pretend.world()), ["create", "create", "delete", "create"]);
}

#[test]
fn two_become_one_although_they_are_in_its_way() {
    for changes in [true, false] {
        let pretend = Pretend::new(2, 8);
        pretend.world().changes = changes;
        let batch = batch(&pretend);
        batch.keep(at(0), &backing(1, &[span(10, 20, 12), span(20, 30, 16)])).unwrap();
        batch.keep(at(0), &backing(1, &[span(10, 30, 16)])).unwrap();
        assert_eq!(kept(&pretend.world()), [(10, 30, 16)]);
        batch.keep(at(0), &backing(1, &[span(10, 15, 16), span(15, 30, 3)])).unwrap();
        assert_eq!(kept(&pretend.world()), [(10, 15, 16), (15, 30, 3)]);
    }
}

#[test]
fn what_has_jobs_in_it_is_never_deleted_for_another() {
    let pretend = Pretend::new(2, 8);
    pretend.world().changes = false;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 2, 5, 5), 1)).unwrap();
    let refused = batch.keep(at(0), &backing(1, &[span(10, 30, 4)])).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("jobs wait or run in it"), "{refused}");
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
    batch.keep(at(0), &backing(1, &[])).unwrap();
    assert!(pretend.world().live().is_empty(), "unless all is given back");
    assert!(pretend.world().ours().is_empty());
    let told = batch.pass(at(1)).unwrap();
    assert_eq!(told[0].state, JobState::Killed(Ended::ReservationOver));
}

#[test]
fn the_old_one_is_not_given_up_for_a_new_one_that_has_no_room() {
    let pretend = Pretend::new(2, 8);
    pretend.world().changes = false;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 8)])).unwrap();
    pretend.world().reserve_foreign("maintenance", &[1], 15, 25);
    let refused = batch.keep(at(2), &backing(1, &[span(12, 20, 12)])).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert!(refused.to_string().contains("the previous reservation is unchanged"), "{refused}");
    assert_eq!(verbs(&pretend.world()), ["create", "create"], "nothing was deleted");
    assert_eq!(kept(&pretend.world()), [(10, 20, 8)]);
}

#[test]
fn what_was_made_before_a_refusal_is_undone() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4)])).unwrap();
    pretend.world().faults.extend([Fault::None, Fault::None, Fault::Refuse]);
    let wanted = [span(10, 25, 5), span(30, 40, 5), span(50, 60, 5)];
    let refused = batch.keep(at(0), &backing(1, &wanted)).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert_eq!(verbs(&pretend.world()), ["create", "change", "create", "create", "delete", "change"]);
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
    batch.keep(at(0), &backing(1, &wanted)).unwrap();
    assert_eq!(kept(&pretend.world()), [(10, 25, 5), (30, 40, 5), (50, 60, 5)]);
}

#[test]
fn an_old_one_that_will_not_go_leaves_everything_as_it_was() {
    let pretend = Pretend::new(2, 8);
    pretend.world().changes = false;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4)])).unwrap();
    pretend.world().faults.extend([Fault::None, Fault::Refuse, Fault::None, Fault::Refuse]);
    let refused = batch.keep(at(0), &backing(1, &[span(10, 25, 5)])).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
}

#[test]
fn where_the_old_one_cannot_be_put_back_that_is_said() {
    let pretend = Pretend::new(2, 8);
    pretend.world().changes = false;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 16)])).unwrap();
    // The new one does not fit beside the old one; the old one is deleted; the new one is refused; so is the old one.
    pretend.world().faults.extend([Fault::None, Fault::None, Fault::Refuse, Fault::Refuse]);
    let failed = batch.keep(at(0), &backing(1, &[span(10, 25, 16)])).unwrap_err();
    assert!(
        matches!(failed, LrmsError::NotBacked { kept: Kept::Less, .. }) && !failed.is_refusal(),
        "{failed}"
    );
    assert_eq!(kept(&pretend.world()), []);
    assert!(seen(&batch, 0).backings.is_empty());
    batch.keep(at(0), &backing(1, &[span(10, 25, 16)])).unwrap();
    assert_eq!(kept(&pretend.world()), [(10, 25, 16)]);
}

#[test]
fn after_silence_it_looks_before_anything_else_is_done() {
    for fault in [Fault::SilentBefore, Fault::SilentAfter] {
        let pretend = Pretend::new(2, 8);
        let batch = batch(&pretend);
        let said = backing(1, &[span(10, 20, 4)]);
        pretend.world().faults.push_back(fault);
        let failed = batch.keep(at(0), &said).unwrap_err();
        assert!(matches!(failed, LrmsError::NotBacked { kept: Kept::Unknown, .. }), "{failed}");
        assert!(!failed.is_refusal() && failed.to_string().contains("did not answer"), "{failed}");
        let looks = pretend.world().looks;
        batch.keep(at(0), &said).unwrap();
        assert!(pretend.world().looks > looks);
        let expected = if fault == Fault::SilentBefore { 2 } else { 1 };
        assert_eq!(pretend.world().log.len(), expected, "what was done is not done again");
        assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
    }
}

#[test]
fn what_was_made_in_silence_is_deleted_when_it_is_given_back() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(2, &[span(10, 20, 4)])).unwrap();
    pretend.world().faults.push_back(Fault::SilentAfter);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4)])).unwrap_err();
    batch.keep(at(0), &backing(1, &[])).unwrap();
    assert_eq!(pretend.world().ours().len(), 1);
}

#[test]
fn what_comes_late_after_silence_is_found_and_ended() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    pretend.world().faults.push_back(Fault::SilentLate);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4)])).unwrap_err();
    batch.keep(at(0), &backing(1, &[])).unwrap();
    pretend.world().settle();
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)], "it came after the look");
    assert!(seen(&batch, 2).backings.contains_key(&ReservationId(1)), "the site sees it");
    batch.keep(at(2), &backing(1, &[])).unwrap();
    assert_eq!(kept(&pretend.world()), []);
}

#[test]
fn what_came_late_is_seen_before_something_is_changed() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 1)])).unwrap();
    pretend.world().add_foreign("ba.uni--a.1.5.ann", [("n1".into(), 3)].into(), 10, 20);
    batch.keep(at(0), &backing(1, &[span(10, 20, 2)])).unwrap();
    let world = pretend.world();
    let cores: Vec<u32> = world.reservations.iter().map(|reserved| reserved.cores.values().sum()).collect();
    assert_eq!(cores, [2]);
}

#[test]
fn what_cannot_be_deleted_is_tried_again_and_the_rest_goes() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(10, 20, 4), span(20, 30, 2)])).unwrap();
    pretend.world().faults.push_back(Fault::Refuse);
    let failed = batch.keep(at(0), &backing(1, &[])).unwrap_err();
    assert!(
        matches!(failed, LrmsError::NotBacked { kept: Kept::More, .. }) && !failed.is_refusal(),
        "{failed}"
    );
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
    batch.keep(at(0), &backing(1, &[])).unwrap();
    assert_eq!(kept(&pretend.world()), []);
}

#[test]
fn what_somebody_deleted_or_a_short_grant_is_seen_and_put_right() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    let said = backing(1, &[span(10, 20, 4)]);
    pretend.world().faults.push_back(Fault::Short);
    batch.keep(at(0), &said).unwrap();
    assert_eq!(seen(&batch, 2).backings[&ReservationId(1)], [span(10, 20, 3)]);
    batch.keep(at(2), &said).unwrap();
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
    pretend.world().reservations.clear();
    assert!(seen(&batch, 4).backings.is_empty());
    batch.keep(at(4), &said).unwrap();
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
}

#[test]
fn what_others_took_is_made_anew_elsewhere_and_what_is_on_nodes_that_are_away_only_where_it_is_said() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    let said = backing(1, &[span(10, 20, 4)]);
    let nodes = || pretend.world().ours()[0].cores.keys().cloned().collect::<Vec<_>>();
    batch.keep(at(0), &said).unwrap();
    assert_eq!(nodes(), ["n0"]);
    pretend.world().reserve_foreign("maintenance", &[0], 15, 30);
    assert_ne!(seen(&batch, 2).backings[&ReservationId(1)], said.spans, "it is noticed by a look");
    batch.keep(at(2), &said).unwrap();
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)]);
    assert_eq!(nodes(), ["n1"]);
    pretend.world().nodes[1].usable = false;
    let moved = Backing { replaces: true, ..said.clone() };
    let there = seen(&batch, 4);
    assert_eq!((&there.backings[&ReservationId(1)], there.away[&ReservationId(1)].0), (&said.spans, 4));
    let before = pretend.world().log.len();
    batch.keep(at(4), &said).unwrap();
    assert_eq!(pretend.world().log.len(), before, "it is kept");
    let refused = batch.keep(at(4), &moved).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert_eq!(kept(&pretend.world()), [(10, 20, 4)], "there is no room, and nothing is given up");
    pretend.world().reservations.retain(|reserved| reserved.name != "maintenance");
    seen(&batch, 6);
    batch.submit(at(6), &inside(job(1, 2, 5, 5), 1)).unwrap();
    let refused = batch.keep(at(8), &moved).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("jobs that wait or run in it"), "{refused}");
    assert_eq!(nodes(), ["n1"], "a job waits in it");
    pretend.world().nodes[1].usable = true;
    seen(&batch, 10);
    batch.keep(at(10), &said).unwrap();
    assert_eq!(nodes(), ["n1"]);
}

#[test]
fn what_begins_at_once_begins_a_little_later_and_is_as_good() {
    let pretend = Pretend::new(2, 8);
    pretend.world().pass(103);
    let batch = batch(&pretend);
    let said = backing(1, &[span(90, 200, 4)]);
    batch.keep(at(101), &said).unwrap();
    assert_eq!(kept(&pretend.world()), [(103, 200, 4)], "its clock is ahead");
    assert_eq!(seen(&batch, 103).backings[&ReservationId(1)], [span(90, 200, 4)]);
    batch.keep(at(101), &said).unwrap();
    batch.keep(at(150), &said).unwrap();
    assert_eq!(pretend.world().log.len(), 1);
}

#[test]
fn what_is_over_is_neither_made_nor_deleted() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    pretend.world().pass(50);
    batch.keep(at(50), &backing(1, &[span(10, 50, 4)])).unwrap();
    assert_eq!(pretend.world().log.len(), 0);
    batch.keep(at(50), &backing(1, &[span(10, 60, 4)])).unwrap();
    batch.keep(at(60), &backing(1, &[])).unwrap();
    assert_eq!(verbs(&pretend.world()), ["create"]);
}

#[test]
fn minutes_are_asked_for_where_only_minutes_can_be_had() {
    let pretend = Pretend::new(2, 8);
    pretend.world().step = 60;
    let one = batch(&pretend);
    let said = backing(1, &[span(70, 150, 16), span(150, 250, 2)]);
    one.keep(at(0), &said).unwrap();
    assert_eq!(kept(&pretend.world()), [(60, 180, 16), (180, 300, 2)]);
    one.keep(at(0), &said).unwrap();
    batch(&pretend).keep(at(30), &said).unwrap();
    assert_eq!(pretend.world().log.len(), 2);
}

#[test]
fn whole_nodes_are_counted_as_such() {
    let pretend = Pretend::new(3, 8);
    let one = batch_of_nodes(&pretend);
    let said = backing(1, &[span(10, 20, 2)]);
    one.keep(at(0), &said).unwrap();
    assert_eq!(kept(&pretend.world()), [(10, 20, 16)]);
    let restarted = batch_of_nodes(&pretend);
    restarted.keep(at(0), &said).unwrap();
    assert_eq!(seen(&restarted, 0).backings[&ReservationId(1)], [span(10, 20, 2)]);
    assert!(restarted.keep(at(0), &backing(2, &[span(10, 20, 2)])).unwrap_err().is_refusal());
    assert_eq!(pretend.world().ours().len(), 1);
}

#[test]
fn what_another_site_or_nobody_we_know_made_is_left_alone() {
    let pretend = Pretend::new(2, 8);
    for name in ["ba.uni-b.1.0.ann", "ba.uni--a.1f", "maintenance"] {
        pretend.world().reserve_foreign(name, &[0], 100, 200);
    }
    let batch = batch(&pretend);
    assert_eq!(batch.look(at(0)).unwrap().tagged, []);
    batch.keep(at(0), &backing(1, &[])).unwrap();
    assert_eq!(pretend.world().log.len(), 0);
}

#[test]
fn a_lost_ledger_can_be_made_anew() {
    let pretend = Pretend::new(2, 8);
    let one = batch(&pretend);
    one.keep(at(0), &backing(1, &[span(20, 30, 2), span(10, 20, 4)])).unwrap();
    one.keep(at(0), &Backing { owner: Name::from("bob@x"), ..backing(2, &[span(10, 20, 1)]) }).unwrap();
    let tagged = batch(&pretend).look(at(0)).unwrap().tagged;
    let found: Vec<(u128, Option<&str>, &Name, &[Span])> = tagged
        .iter()
        .map(|tagged| {
            (tagged.id.0, tagged.owner.as_ref().map(Name::as_str), &tagged.resource, &tagged.spans[..])
        })
        .collect();
    let first = [span(10, 20, 4), span(20, 30, 2)];
    assert_eq!(found, [(1, Some("ann"), &cpu(), &first[..]), (2, Some("bob@x"), &cpu(), &[span(10, 20, 1)])]);
}

#[test]
fn a_resource_that_is_not_there_is_refused() {
    let pretend = Pretend::new(2, 8);
    let said = Backing { resource: Name::from("gpu"), ..backing(1, &[span(10, 20, 1)]) };
    let refused = batch(&pretend).keep(at(0), &said).unwrap_err();
    assert!(matches!(refused, LrmsError::UnknownResource { .. }), "{refused}");
}

#[test]
fn what_cannot_be_read_for_a_while_is_neither_made_again_nor_missing() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    let said = backing(1, &[span(100, 200, 12)]);
    batch.keep(at(0), &said).unwrap();
    let hidden = pretend.world().reservations.remove(0);
    let (handle, name) = (hidden.handle.clone(), hidden.name.clone());
    pretend.world().unreadable = vec![Unreadable::Reservation { handle, name }];
    for second in [1, 40] {
        let look = batch.look(at(second)).unwrap();
        assert_eq!(look.resources[&cpu()].backings[&ReservationId(1)], [span(100, 200, 12)]);
        assert_eq!(look.unreadable.len(), 1);
        batch.keep(at(second), &said).unwrap();
    }
    assert_eq!(verbs(&pretend.world()), ["create"]);
    pretend.world().unreadable.clear();
    assert!(batch.look(at(41)).unwrap().tagged.is_empty(), "it was deleted");
}

#[test]
fn what_is_deleted_with_a_job_in_it_takes_its_cores_until_they_are_free() {
    let pretend = Pretend::new(2, 8);
    pretend.world().freed_within = 32;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(1, &[span(0, 1000, 12)])).unwrap();
    batch.submit(at(0), &inside(job(1, 2, 500, 500), 1)).unwrap();
    pretend.world().pass(20);
    batch.look(at(20)).unwrap();
    batch.keep(at(20), &backing(1, &[])).unwrap();
    let foreign = |seen: &Look| seen.resources[&cpu()].view.foreign.clone();
    let left = foreign(&batch.seen());
    assert_eq!((left.len(), left[0].interval.end, left[0].capacity), (1, Time(52), Capacity(12)));
    assert!(batch.seen().tagged.is_empty());
    // Nodes of a granted reservation are free.
    batch.keep(at(30), &backing(2, &[span(30, 1000, 16)])).unwrap();
    assert!(foreign(&batch.seen()).is_empty());
    assert_eq!(batch.seen().resources[&cpu()].backings[&ReservationId(2)].len(), 1);
}

#[test]
fn less_than_the_jobs_inside_need_is_refused_by_their_names() {
    for moves_jobs in [true, false] {
        let pretend = Pretend::new(2, 8);
        pretend.world().moves_jobs = moves_jobs;
        let batch = batch(&pretend);
        batch.keep(at(0), &backing(1, &[span(0, 60, 8)])).unwrap();
        batch.submit(at(0), &inside(job(1, 6, 50, 55), 1)).unwrap();
        pretend.world().pass(5);
        let native = pretend.world().live()[0].native.clone();
        let refused = batch.keep(at(5), &backing(1, &[span(0, 6, 8), span(6, 60, 4)])).unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains(&native), "{refused}");
        assert_eq!(kept(&pretend.world()), [(0, 60, 8)]);
        batch.keep(at(5), &backing(1, &[span(0, 6, 8), span(6, 60, 6)])).unwrap();
        assert_eq!(pretend.world().live().len(), 1);
    }
}
