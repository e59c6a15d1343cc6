//! Names of reservations in lists, and reservations that are shared with other users.

use super::desk::{Desk, Out, ada, book, keeps, look, span, words};
use bookahead_party::schedule::ScheduleWindow;
use bookahead_party::{Attracting, BatchOrder, Filter, Input, OrderId, Origin, Queries, Sharing, Viewer};
use bookahead_plan::{Interval, Time};
use bookahead_protocol::{
    Call, Caller, Consent, Consents, Description, Envelope, JobId, Key, Millis, Moment, Name, Request,
    Reservation, ReservationId,
};
use std::collections::BTreeSet;
use std::sync::Arc;

fn described(call: Call, name: &str, users: &[&str]) -> Call {
    let Call::Reserve { id, request, hold_for, book } = call else { unreachable!() };
    let labels = [("course".to_owned(), name.to_lowercase())].into();
    let description = Description { name: Some(name.into()), labels, ..Description::default() };
    let shared_with = users.iter().map(|user| (*user).into()).collect();
    Call::Reserve { id, request: Request { description, shared_with, ..request }, hold_for, book }
}

fn change_of(call: Call) -> Call {
    let Call::Reserve { id, request, .. } = call else { unreachable!() };
    Call::Change { id, version: None, request }
}

fn as_user(desk: &mut Desk, user: &str, call: Call) -> Out {
    let number = desk.next_call();
    let caller = Caller { user: user.into(), roles: Vec::new() };
    let envelope = Envelope { key: Key(1_000 + u128::from(number.0)), caller, call };
    desk.step(0, Input::Call { call: number, envelope, origin: Origin::default() })
}

fn ids(reservations: &[Reservation]) -> Vec<u128> {
    reservations.iter().map(|reservation| reservation.id.0).collect()
}

#[test]
fn lists_are_sorted_by_begin_and_found_by_name_label_and_user() {
    let mut desk = Desk::new(None);
    desk.start(0);
    for (id, begin, name, users) in [
        (3, 100, "MPI course", &["bob"][..]),
        (1, 300, "Night run", &[]),
        (2, 200, "OpenMP course", &[]),
        (4, 100, "other", &[]),
    ] {
        assert_eq!(words(&desk.call(0, id, described(book(id, begin, true), name, users))), ["committed"]);
    }
    let list = |filter: Filter| desk.site.list(Moment(0), &Filter { limit: 2, ..filter });
    let first = list(Filter::default());
    assert_eq!((ids(&first.reservations), first.total), (vec![3, 4], 4));
    let second = list(Filter { after: first.next, ..Filter::default() });
    assert_eq!((ids(&second.reservations), second.next, second.total), (vec![2, 1], None, 4));
    let courses = list(Filter { name: Some("COURSE".into()), ..Filter::default() });
    assert_eq!((ids(&courses.reservations), courses.total), (vec![3, 2], 2));
    let labels = [("course".to_owned(), "night run".to_owned())].into();
    assert_eq!(ids(&list(Filter { labels, ..Filter::default() }).reservations), [1]);
    let of_user = |user: &str| list(Filter { user: Some(user.into()), ..Filter::default() });
    assert_eq!((ids(&of_user("bob").reservations), of_user("ada").total), (vec![3], 4));
    assert_eq!(of_user("eve").total, 0);
}

#[test]
fn a_shared_reservation_is_seen_in_schedules_and_notices_and_used_by_others() {
    let mut desk = Desk::new(None);
    desk.start(0);
    let out = desk.call(0, 1, described(book(1, 100, true), "course", &["bob"]));
    assert!(out.notices.iter().all(|(_, notice)| notice.shared_with.contains(&Name::from("bob"))));
    let named = |user: &str| {
        let viewer = Viewer::new(user, false);
        let window = ScheduleWindow { interval: Interval::new(Time(0), Time(1_000)), pixels: None };
        desk.site.schedule(Moment(0), &viewer, &window, None)[0].blocks[0].reservation.is_some()
    };
    assert_eq!((named("ada"), named("bob"), named("eve")), (true, true, false));
    for (user, word) in [("bob", "job"), ("eve", "not-owner")] {
        let (call, id) = (desk.next_call(), JobId(u128::from(word.len() as u32)));
        let mut job = None;
        desk.submit_with(0, JobId(99), |asked| {
            asked.reservation = Some(ReservationId(1));
            job = Some(asked.clone());
        });
        let caller = Caller { user: user.into(), roles: Vec::new() };
        let (job, origin) = (Box::new(job.unwrap()), Origin::default());
        let out = desk.step(0, Input::Submit { call, caller, key: Key(id.0), id, job, origin });
        let submitted = out.batch.iter().any(|order| matches!(order, BatchOrder::Submit { .. }));
        assert_eq!(submitted, word == "job", "{user}");
        if !submitted {
            assert_eq!(words(&out), [word]);
        }
    }
    assert_eq!(words(&as_user(&mut desk, "bob", Call::Cancel { id: ReservationId(1) })), ["not-owner"]);
    assert_eq!(words(&as_user(&mut desk, "bob", Call::Show { id: ReservationId(1) })), ["committed"]);
}

fn shared(orders: &[BatchOrder]) -> Vec<(OrderId, Vec<String>)> {
    let keep = |order: &BatchOrder| match order {
        BatchOrder::Keep { order, backing } => {
            Some((*order, backing.terms.let_in().iter().map(ToString::to_string).collect()))
        }
        _ => None,
    };
    orders.iter().filter_map(keep).collect()
}

#[test]
fn the_batch_system_is_told_of_other_users_once_and_again_after_a_restart() {
    let mut desk = Desk::new(Some(Millis::seconds(60)));
    let order = look(&desk.start(0));
    desk.looked(0, order, &[]);
    let out = desk.call(0, 1, described(book(1, 100, true), "course", &["bob"]));
    let orders = shared(&out.batch);
    assert_eq!(orders[0].1, ["bob"]);
    assert_eq!(words(&desk.kept(1, orders[0].0, 1)), ["committed"]);
    // A new name alone does not concern the batch system.
    let out = desk.call(2, 2, change_of(described(book(1, 100, true), "other", &["bob"])));
    assert_eq!((words(&out), keeps(&out.batch).len()), (vec!["committed"], 0));
    let out = desk.call(3, 3, change_of(described(book(1, 100, true), "other", &["bob", "eve"])));
    let orders = shared(&out.batch);
    assert_eq!((words(&out), &orders[0].1[..]), (vec!["committed"], &["bob".to_owned(), "eve".into()][..]));
    assert!(shared(&desk.kept(4, orders[0].0, 1).batch).is_empty());
    let order = look(&desk.restart(5));
    let out = desk.looked(5, order, &[(1, vec![span(100, 110, 4)])]);
    assert_eq!(shared(&out.batch)[0].1, ["bob", "eve"]);
}

#[test]
fn a_batch_system_that_cannot_share_refuses_it() {
    let mut desk = Desk::new(None).sharing(Sharing::Never);
    desk.start(0);
    let refused = desk.call(0, 1, described(book(1, 100, true), "course", &["bob"]));
    assert_eq!(words(&refused), ["unsupported"]);
    assert_eq!(words(&desk.call(0, 2, described(book(1, 100, true), "course", &[]))), ["committed"]);
    let mut desk = Desk::new(None).sharing(Sharing::FromTheBeginning);
    desk.start(0);
    assert_eq!(words(&desk.call(0, 1, described(book(1, 100, true), "course", &["bob"]))), ["committed"]);
    let same = change_of(described(book(1, 200, true), "course", &["bob"]));
    assert_eq!(words(&desk.call(0, 2, same)), ["committed"]);
    let other = change_of(described(book(1, 200, true), "course", &[]));
    assert_eq!(words(&desk.call(0, 3, other)), ["unsupported"]);
    assert_eq!(ada().user.as_str(), "ada");
}

#[test]
fn a_reservation_that_attracts_lets_in_only_guests_who_accepted() {
    let mut desk = Desk::new(Some(Millis::seconds(60))).attracting(Attracting::Allowed);
    let order = look(&desk.start(0));
    desk.looked(0, order, &[]);
    let booked = || attracting(described(book(1, 100, true), "course", &["bob", "eve", "kim"]));
    let orders = shared(&desk.call(0, 1, booked()).batch);
    assert!(orders[0].1.is_empty(), "nobody was asked yet");
    assert_eq!(words(&desk.kept(1, orders[0].0, 1)), ["committed"]);
    let consents: Consents = [("bob".into(), Consent::Accepted), ("kim".into(), Consent::Declined)].into();
    let Call::Change { id, version, request } = change_of(booked()) else { unreachable!() };
    let answered = Call::Change { id, version, request: Request { consents, ..request } };
    let orders = shared(&desk.call(2, 2, answered).batch);
    assert_eq!(orders[0].1, ["bob"]);
    desk.kept(3, orders[0].0, 1);
    let attach = |job| Call::Attach { id: ReservationId(1), part: 0, job: JobId(job) };
    let mut submits = |user: &str, id| {
        let call = desk.next_call();
        let mut job = None;
        desk.submit_with(4, JobId(99), |asked| {
            asked.reservation = Some(ReservationId(1));
            job = Some(asked.clone());
        });
        let caller = Caller { user: user.into(), roles: Vec::new() };
        let (job, origin) = (Box::new(job.unwrap()), Origin::default());
        let out = desk.step(4, Input::Submit { call, caller, key: Key(id), id: JobId(id), job, origin });
        out.batch.iter().any(|order| matches!(order, BatchOrder::Submit { .. }))
    };
    assert_eq!((submits("bob", 11), submits("eve", 12), submits("kim", 13)), (true, false, false));
    assert_eq!(words(&as_user(&mut desk, "eve", attach(11))), ["unsupported"]);
    let order = look(&desk.restart(5));
    let out = desk.looked(5, order, &[(1, vec![span(100, 110, 4)])]);
    assert_eq!(shared(&out.batch)[0].1, ["bob"], "also after a restart");
}

#[test]
fn invitations_of_blocked_users_are_not_shown_and_accepted_ones_are() {
    let mut desk = Desk::new(None);
    desk.start(0);
    for (id, consents) in [
        (1, Consents::new()),
        (2, [("bob".into(), Consent::Accepted)].into()),
        (3, [("bob".into(), Consent::Declined)].into()),
    ] {
        let Call::Reserve { id, request, hold_for, book } =
            described(book(id, 100, true), "course", &["bob"])
        else {
            unreachable!()
        };
        desk.call(0, id.0, Call::Reserve { id, request: Request { consents, ..request }, hold_for, book });
    }
    let seen = |blocked: &[&str]| {
        let blocked: Arc<BTreeSet<Name>> = Arc::new(blocked.iter().map(|user| Name::from(*user)).collect());
        let viewer = Viewer { blocked: blocked.clone(), ..Viewer::new("bob", false) };
        let window = ScheduleWindow { interval: Interval::new(Time(0), Time(1_000)), pixels: None };
        let blocks = &desk.site.schedule(Moment(0), &viewer, &window, None)[0].blocks;
        let drawn =
            blocks.iter().filter_map(|block| Some((block.reservation.as_ref()?.0.0, block.name.is_some())));
        let filter = Filter { user: Some("bob".into()), blocked, limit: 9, ..Filter::default() };
        (drawn.collect::<BTreeSet<_>>(), ids(&desk.site.list(Moment(0), &filter).reservations))
    };
    assert_eq!(
        seen(&[]),
        ([(1, false), (2, true)].into(), vec![1, 2]),
        "an invitation has no name in the picture"
    );
    assert_eq!(seen(&["ada"]), ([(2, true)].into(), vec![2]));
    assert_eq!(seen(&["eve"]).1, [1, 2]);
}

fn attracting(call: Call) -> Call {
    let Call::Reserve { id, request, hold_for, book } = call else { unreachable!() };
    Call::Reserve { id, request: Request { attract: true, ..request }, hold_for, book }
}

#[test]
fn a_reservation_attracts_jobs_only_where_that_is_possible_and_allowed_and_from_its_beginning() {
    for (option, word) in [(Attracting::Impossible, "unsupported"), (Attracting::Forbidden, "unsupported")] {
        let mut desk = Desk::new(None).attracting(option);
        desk.start(0);
        assert_eq!(words(&desk.call(0, 1, attracting(book(1, 100, true)))), [word]);
        assert_eq!(words(&desk.call(0, 2, book(1, 100, true))), ["committed"]);
    }
    let mut desk = Desk::new(Some(Millis::seconds(60))).attracting(Attracting::Allowed);
    let order = look(&desk.start(0));
    desk.looked(0, order, &[]);
    let attracts = |out: &Out| match &out.batch[..] {
        [BatchOrder::Keep { order, backing }] => (*order, backing.terms.attracts()),
        other => panic!("{other:?}"),
    };
    let (order, attract) = attracts(&desk.call(0, 1, attracting(book(1, 100, true))));
    assert!(attract);
    assert_eq!(words(&desk.kept(1, order, 1)), ["committed"]);
    // New times keep it, even if the change does not repeat it.
    assert!(attracts(&desk.call(2, 2, change_of(book(1, 200, true)))).1);
    let (order, attract) = attracts(&desk.call(4, 4, book(2, 500, true)));
    assert!(!attract);
    desk.kept(5, order, 2);
    assert_eq!(words(&desk.call(6, 5, change_of(attracting(book(2, 600, true))))), ["unsupported"]);
}
