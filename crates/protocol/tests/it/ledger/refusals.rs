//! Refusals contain the reason, the blockers and alternatives, and all of it is true.

use super::*;
use bookahead_plan::Interval;
use bookahead_plan::placement::{Reason, Relaxation};
use bookahead_protocol::ledger::{Limits, Maintenance, Reveal, UserLimits};
use bookahead_protocol::problem::{Blocker, BlockerKind};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

#[test]
fn a_refusal_says_what_is_in_the_way_and_what_would_do() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 6));
    site.show(View { running: vec![running(150, 1)], foreign: vec![span(190, 195, 1)], ..View::default() });
    let answer = site.hold(0, "bob", 2, request(wanted(120, 210, 60, 4)));
    let Problem { why, blockers, busy_for, relaxations, .. } = problem(&answer).clone();
    assert_eq!(why, Why::NoSlot(Reason::NoRoom));
    let blocker =
        |kind, begin, end| Blocker { kind, interval: Interval::new(Time(begin), Time(end)), name: None };
    let running = blocker(BlockerKind::RunningJob, 0, 150);
    assert_eq!(*blockers, [running, blocker(BlockerKind::Reservation, 100, 200)]);
    assert_eq!(busy_for, Some(Seconds(300)));
    let expected = [
        Relaxation::Later(Seconds(50)),
        Relaxation::Shorter(Seconds(50)),
        Relaxation::Fewer(Capacity(3)),
        Relaxation::Earlier(Time(1)),
    ];
    assert_eq!(relaxations, expected);
}

fn maintenance(name: &str, begin: i64, end: i64) -> Maintenance {
    Maintenance { name: name.into(), span: span(begin, end, 8) }
}

/// Maintenance of the whole resource from 100 to 200 and from 300 to 400.
fn with_maintenance() -> View {
    View {
        foreign: vec![span(100, 200, 8), span(300, 400, 8)],
        maintenance: vec![maintenance("weekly", 100, 200), maintenance("monthly", 300, 400)],
        ..View::default()
    }
}

#[test]
fn maintenance_is_planned_around_and_named_where_it_is_the_reason_even_if_blockers_are_secret() {
    for blockers in [true, false] {
        let mut site = Site::new(Rules { reveal: Reveal { blockers, ..Reveal::default() }, ..rules() });
        site.show(with_maintenance());
        assert_eq!(interval(&site.book(0, "ann", 1, request(wanted(90, 300, 50, 2)))), (200, 250));
        let refused =
            |site: &mut Site, id, wanted| problem(&site.hold(0, "bob", id, request(wanted))).clone();
        let told = refused(&mut site, 2, wanted(140, 240, 60, 8));
        let because = |name: &str, until, start: i64| Why::Maintenance {
            name: name.into(),
            until: Time(until),
            not_before: Some(Time(start)),
        };
        // Ann's reservation is in the way from 200 to 250, and the rest until 300 is too short.
        assert_eq!(told.why, because("weekly", 200, 400));
        let named = |one: &Blocker| one.kind == BlockerKind::Maintenance && one.name == Some("weekly".into());
        assert!(named(&told.blockers[0]), "{told:?}");
        assert_eq!(told.blockers.len(), 1, "{told:?}");
        let told = refused(&mut site, 3, wanted(290, 360, 60, 1));
        assert_eq!(told.why, because("monthly", 400, 400));
        // What is full without maintenance is told as before.
        site.book(0, "ann", 4, fixed(400, 500, 8));
        assert_eq!(refused(&mut site, 5, wanted(400, 500, 100, 1)).why, Why::NoSlot(Reason::NoRoom));
    }
}

#[test]
fn other_reservations_beside_maintenance_are_told_as_such() {
    let mut site = Site::new(rules());
    let view = View { foreign: vec![span(50, 120, 3), span(120, 200, 8)], ..with_maintenance() };
    assert_eq!(view.foreign_beside_maintenance(Interval::new(Time(0), Time(250))), [span(50, 100, 3)]);
    site.show(view);
    let told = problem(&site.hold(0, "bob", 2, request(wanted(60, 160, 100, 8)))).clone();
    let kinds: Vec<BlockerKind> = told.blockers.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [BlockerKind::Maintenance, BlockerKind::Reservation]);
    assert_eq!(told.why, Why::NoSlot(Reason::NoRoom), "there would be no room without the maintenance");
}

#[test]
fn a_window_that_is_over_is_told_as_such() {
    let mut site = Site::new(rules());
    let answer = site.hold(500_000, "bob", 2, fixed(120, 210, 4));
    assert_eq!(problem(&answer).why, Why::NoSlot(Reason::NoWindow));
    assert_eq!(problem(&answer).busy_for, Some(Seconds(300)));
}

#[derive(Debug, Clone)]
struct Case {
    method: Method,
    delayed_jobs: Option<u32>,
    share: Option<u32>,
    booked: Vec<(i64, i64, u32)>,
    view: View,
    wanted: placement::Request,
}

fn views() -> impl Strategy<Value = View> {
    let running = prop::collection::vec((1..100i64, 1..4u32), 0..3);
    let waiting = prop::collection::vec((-50..0i64, 1..60i64, 1..=8u32), 0..6);
    let foreign = prop::collection::vec((0..200i64, 1..50i64, 1..5u32), 0..3);
    (running, waiting, foreign).prop_map(|(running, waiting, foreign)| View {
        running: running.into_iter().map(|(until, capacity)| super::running(until, capacity)).collect(),
        waiting: waiting
            .into_iter()
            .map(|(submit, estimate, wide)| super::waiting(submit, estimate, wide))
            .collect(),
        foreign: foreign.into_iter().map(|(begin, length, wide)| span(begin, begin + length, wide)).collect(),
        ..View::default()
    })
}

fn refusable() -> impl Strategy<Value = Case> {
    let method = prop::sample::select(vec![VACANCIES, LOCAL_JOBS, WHAT_IF, Method::Load]);
    let booked = prop::collection::vec((0..200i64, 1..80i64, 1..=8u32), 0..12);
    let wanted = (1..150i64, 0..60i64, 1..60i64, 1..=8u32);
    let view = prop_oneof![Just(View::default()), views()];
    let limits = (prop::option::of(0..3u32), prop::option::of(40..100u32));
    (method, limits, booked, view, wanted).prop_map(
        |(method, (delayed_jobs, share), booked, view, wanted)| {
            let (earliest, window, duration, capacity) = wanted;
            let wanted = super::wanted(earliest, earliest + window + duration, duration, capacity);
            Case { method, delayed_jobs, share, booked, view, wanted }
        },
    )
}

impl Case {
    fn site(&self) -> Site {
        let mut offered = offered("cluster", 8, self.method);
        offered.placement.admission = Admission { delayed_jobs: self.delayed_jobs, ..Admission::default() };
        let limits =
            UserLimits { share: self.share, horizon: Some(Seconds(86_400)), ..UserLimits::default() };
        let limits = Limits { users: [("bob".into(), limits)].into(), ..Limits::default() };
        let mut site = Site::new(Rules { limits, ..Rules::new("north", vec![offered]) });
        for (id, &(begin, length, capacity)) in (1_000..).zip(&self.booked) {
            let owner = if id % 4 == 0 { "bob" } else { "ann" };
            site.book(0, owner, id, fixed(begin, begin + length, capacity));
        }
        site.show(self.view.clone());
        site
    }
}

fn relaxed(wanted: &placement::Request, relaxation: Relaxation) -> placement::Request {
    let mut changed = *wanted;
    match relaxation {
        Relaxation::Later(by) => changed.latest_end = changed.latest_end + by,
        Relaxation::Shorter(by) => changed.duration.0 -= by.0,
        Relaxation::Fewer(by) => changed.capacity.0 -= by.0,
        Relaxation::Earlier(start) => {
            (changed.earliest_start, changed.latest_end) = (start, start + changed.duration);
        }
    }
    changed
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn whatever_is_told_instead_is_granted(case in refusable()) {
        let mut site = case.site();
        let answer = site.hold(0, "bob", 1, request(case.wanted));
        let Answer::Problem(problem) = answer else { return Ok(()) };
        let mut tries: Vec<placement::Request> =
            problem.relaxations.iter().map(|&relaxation| relaxed(&case.wanted, relaxation)).collect();
        tries.extend(problem.busy_for.map(|step| {
            let earliest_start = case.wanted.earliest_start.max(Time(1)) + step;
            let latest_end = earliest_start + case.wanted.duration;
            placement::Request { earliest_start, latest_end, ..case.wanted }
        }));
        for (id, wanted) in (2..).zip(tries) {
            let answer = site.hold(0, "bob", id, request(wanted));
            prop_assert_eq!(answer.word(), "held", "{:?} {:?}", wanted, problem);
            site.cancel(0, "bob", id);
        }
    }
}
