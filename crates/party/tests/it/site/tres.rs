//! Amounts beside the capacity reach the batch system, also if nothing else changes.

use super::desk::{Desk, Out, book, look, span, words};
use bookahead_party::{BatchOrder, OrderId};
use bookahead_protocol::{Call, Millis, ReservationId, Tres};

const LIMIT: Option<Millis> = Some(Millis::seconds(60));

fn gpus(count: u32) -> Tres {
    [("gres/gpu", count)].into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Four processors from 100 to 110, and GPUs.
fn with_gpus(count: u32) -> Call {
    let Call::Reserve { id, mut request, hold_for, .. } = book(7, 100, true) else { unreachable!() };
    request.parts[0].tres = gpus(count);
    Call::Reserve { id, request, hold_for, book: true }
}

fn change(count: u32) -> Call {
    let Call::Reserve { id, request, .. } = with_gpus(count) else { unreachable!() };
    Call::Change { id, version: None, request }
}

/// The keep orders, with their amounts.
fn ordered(out: &Out) -> Vec<(OrderId, Tres)> {
    let keep = |order: &BatchOrder| match order {
        BatchOrder::Keep { order, backing } => Some((*order, backing.tres.clone())),
        _ => None,
    };
    out.batch.iter().filter_map(keep).collect()
}

/// A site with a committed reservation with two GPUs.
fn booked() -> Desk {
    let mut desk = Desk::with_gpus(LIMIT);
    let first = look(&desk.start(0));
    desk.looked(0, first, &[]);
    let out = desk.call(0, 1, with_gpus(2));
    let [(order, tres)] = &ordered(&out)[..] else { panic!("{out:?}") };
    assert_eq!(*tres, gpus(2));
    assert_eq!(words(&desk.kept(10, *order, 7)), ["committed"]);
    desk
}

fn has(desk: &Desk) -> Tres {
    desk.site.ledger().entry(ReservationId(7)).unwrap().tres().clone()
}

#[test]
fn a_change_of_amounts_alone_is_ordered_and_takes_effect_when_it_is_kept() {
    let mut desk = booked();
    let out = desk.call(20, 2, change(4));
    assert_eq!(words(&out), Vec::<&str>::new());
    let [(order, tres)] = &ordered(&out)[..] else { panic!("{out:?}") };
    assert_eq!((tres, has(&desk)), (&gpus(4), gpus(2)));
    // A look that shows the same spans says nothing about the GPUs.
    let looked = desk.saw(30, Some(*order), &[(7, vec![span(100, 110, 4)])], 0, Vec::new());
    assert_eq!(words(&looked), Vec::<&str>::new());
    let out = desk.kept(40, *order, 7);
    assert_eq!((words(&out), has(&desk)), (vec!["committed"], gpus(4)));
    assert_eq!(ordered(&out), []);
    // Fewer: the old ones are kept until a look has shown that nothing is missing; then the rest is given back.
    let out = desk.call(50, 3, change(1));
    assert_eq!((ordered(&out), words(&out)), (vec![], vec![]));
    let newest = Some(OrderId(order.0 + 100));
    let out = desk.saw(60, newest, &[(7, vec![span(100, 110, 4)])], 0, Vec::new());
    assert_eq!((words(&out), has(&desk)), (vec!["committed"], gpus(1)));
    let [(_, tres)] = &ordered(&out)[..] else { panic!("{out:?}") };
    assert_eq!(*tres, gpus(1));
}

#[test]
fn refused_amounts_leave_the_old_ones() {
    let mut desk = booked();
    let out = desk.call(20, 2, change(4));
    let [(order, _)] = ordered(&out)[..] else { panic!("{out:?}") };
    let out = desk.refused(30, order, 7);
    assert_eq!((words(&out), has(&desk)), (vec!["not-granted"], gpus(2)));
    assert_eq!(ordered(&out), [], "the batch system has them as they were");
}

#[test]
fn after_a_restart_the_amounts_are_ordered_once_more() {
    let mut desk = booked();
    let first = look(&desk.restart(50));
    let kept = [(7, vec![span(100, 110, 4)])];
    let out = desk.looked(50, first, &kept);
    let [(order, tres)] = &ordered(&out)[..] else { panic!("{out:?}") };
    assert_eq!(*tres, gpus(2));
    let out = desk.kept(60, *order, 7);
    assert_eq!(ordered(&out), []);
}
