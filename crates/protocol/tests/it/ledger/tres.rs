//! Things beside the capacity: GPUs, memory, licences. Each has its own room; a slot fits all of them.

use super::*;
use bookahead_protocol::ledger::HoldRules;
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeMap;

const GPU: &str = "gres/gpu:a100";
const QPU: &str = "license/qpu";

fn tres(amounts: &[(&str, u32)]) -> Tres {
    amounts.iter().copied().filter(|(_, amount)| *amount > 0).collect()
}

/// Eight processors, four GPUs, two licences.
fn rules_with_tres(method: Method) -> Rules {
    let mut cluster = offered("cluster", 8, method);
    cluster.resource.tres = tres(&[(GPU, 4), (QPU, 2)]);
    Rules::new("north", vec![cluster])
}

fn with(mut request: Request, amounts: &[(&str, u32)]) -> Request {
    request.parts[0].tres = tres(amounts);
    request
}

#[test]
fn a_slot_fits_the_capacity_and_each_thing_beside_it() {
    let mut site = Site::new(rules_with_tres(VACANCIES));
    let first = site.book(0, "ann", 1, with(fixed(10, 20, 1), &[(GPU, 3)]));
    assert_eq!(reservation(&first).slots[0].tres, tres(&[(GPU, 3)]));
    site.book(0, "ann", 2, with(fixed(20, 30, 1), &[(QPU, 2)]));
    // Seven processors are free, but only one GPU, and then no licence.
    let later = site.book(0, "bob", 3, with(request(wanted(5, 100, 10, 1)), &[(GPU, 2), (QPU, 1)]));
    assert_eq!(interval(&later), (30, 40));
    let beside = site.book(0, "bob", 4, with(fixed(10, 20, 7), &[(GPU, 1)]));
    assert_eq!(interval(&beside), (10, 20));
}

#[test]
fn a_refusal_names_the_thing_that_is_short_and_the_next_time_that_would_do() {
    let mut site = Site::new(rules_with_tres(VACANCIES));
    site.book(0, "ann", 1, with(fixed(10, 20, 1), &[(GPU, 3)]));
    let answer = site.book(0, "bob", 2, with(fixed(10, 20, 1), &[(GPU, 2), (QPU, 1)]));
    let refusal = problem(&answer);
    assert_eq!(refusal.why.code(), "no-room");
    assert_eq!(
        refusal.why.to_string(),
        "not enough gres/gpu:a100 in the window: 2 requested, at most 1 free for the whole duration"
    );
    assert_eq!(refusal.relaxations.first(), Some(&placement::Relaxation::Later(Seconds(10))));
    site.book(0, "ann", 3, with(fixed(20, 30, 1), &[(QPU, 2)]));
    let apart = site.book(0, "bob", 4, with(request(wanted(10, 30, 10, 1)), &[(GPU, 2), (QPU, 1)]));
    assert_eq!(
        problem(&apart).why.to_string(),
        "gres/gpu:a100=2,license/qpu=1 and the capacity are free in the window, but not at the same time"
    );
    // If the capacity is short, too, that is the reason.
    let wide = site.book(0, "bob", 5, with(fixed(10, 20, 8), &[(GPU, 2)]));
    assert_eq!(problem(&wide).why, Why::NoSlot(placement::Reason::NoRoom));
    let unknown = site.book(0, "bob", 6, with(fixed(10, 20, 1), &[("license/cad", 1)]));
    assert_eq!(
        problem(&unknown).why.to_string(),
        "no resource of kind processors that meets the request has license/cad"
    );
    let bad = site.book(0, "bob", 7, with(fixed(10, 20, 1), &[("a b", 1)]));
    assert_eq!(problem(&bad).why.code(), "malformed");
}

#[test]
fn a_probe_tells_what_is_free_of_the_requested_things() {
    let mut site = Site::new(rules_with_tres(VACANCIES));
    site.book(0, "ann", 1, with(fixed(10, 20, 1), &[(GPU, 1)]));
    let slots = site.probe(0, "bob", with(fixed(10, 20, 1), &[(GPU, 2)]));
    assert_eq!((slots[0].free, &slots[0].free_tres), (Some(Capacity(7)), &tres(&[(GPU, 3)])));
    assert_eq!(slots[0].tres, tres(&[(GPU, 2)]));
    let plain = site.probe(0, "bob", fixed(10, 20, 1));
    assert!(plain[0].tres.is_empty() && plain[0].free_tres.is_empty());
}

#[test]
fn what_jobs_and_others_use_is_not_free() {
    for method in [VACANCIES, WHAT_IF, LOCAL_JOBS] {
        let mut site = Site::new(rules_with_tres(method));
        let used = BTreeMap::from([(GPU.into(), vec![span(0, 50, 3)]), (QPU.into(), vec![span(40, 60, 2)])]);
        site.show(View { tres: used, running: vec![running(50, 1)], ..View::default() });
        let booked = site.book(0, "ann", 1, with(request(wanted(5, 200, 10, 1)), &[(GPU, 2), (QPU, 1)]));
        assert_eq!(interval(&booked), (60, 70), "{method:?}");
        let without = site.book(0, "ann", 2, request(wanted(5, 200, 10, 7)));
        assert_eq!(interval(&without), (5, 15), "{method:?}");
    }
}

#[test]
fn a_change_of_amounts_alone_is_checked_and_asked_of_the_batch_system() {
    let mut rules = rules_with_tres(VACANCIES);
    rules.consent = Some(Millis(60_000));
    let mut site = Site::new(rules);
    site.book(0, "ann", 1, with(fixed(10, 20, 1), &[(GPU, 2)]));
    site.grant(0, 1);
    site.change(0, "ann", 1, None, with(fixed(10, 20, 1), &[(GPU, 3)]));
    assert!(site.ledger.is_waiting(ReservationId(1)));
    // Old and new terms are both taken meanwhile.
    let other = site.book(0, "bob", 2, with(fixed(10, 20, 1), &[(GPU, 2)]));
    assert_eq!(problem(&other).why.code(), "no-room");
    site.grant(0, 1);
    assert_eq!(reservation(&site.look(0, "ann", 1)).slots[0].tres, tres(&[(GPU, 3)]));
    let more = site.change(0, "ann", 1, None, with(fixed(10, 20, 1), &[(GPU, 5)]));
    assert_eq!(problem(&more).why.code(), "no-such-resource");
    // While it is active it can only shrink.
    site.tick(12_000);
    let more = site.change(12_000, "ann", 1, None, with(fixed(10, 20, 1), &[(GPU, 4)]));
    assert_eq!(problem(&more).why, Why::Unsupported(problem::Impossible::MoreOfActive));
    site.change(12_000, "ann", 1, None, with(fixed(10, 20, 1), &[(GPU, 1)]));
    site.book(12_000, "bob", 3, with(fixed(12, 20, 1), &[(GPU, 3)]));
    assert!(site.ledger.is_waiting(ReservationId(3)));
}

#[test]
fn a_late_commit_needs_the_amounts_too() {
    let mut site = Site::new(rules_with_tres(VACANCIES));
    site.hold(0, "ann", 1, with(fixed(100, 200, 1), &[(GPU, 3)]));
    site.tick(70_000);
    site.book(70_000, "bob", 2, with(fixed(100, 200, 1), &[(GPU, 2)]));
    assert_eq!(problem(&site.commit(71_000, "ann", 1)).why, Why::Expired);
    site.cancel(72_000, "bob", 2);
    assert_eq!(site.commit(73_000, "ann", 1).word(), "committed");
}

#[test]
fn records_without_tres_are_written_and_read_as_before() {
    let part = fixed(10, 20, 1).parts.remove(0);
    let written = serde_json::to_string(&part).unwrap();
    assert!(!written.contains("tres"), "{written}");
    assert_eq!(serde_json::from_str::<Part>(&written).unwrap(), part);
    let resource = Resource::new("north", "cluster", "processors", 8);
    assert!(!serde_json::to_string(&resource).unwrap().contains("tres"));
}

/// One command. Times are in seconds after the present one.
#[derive(Debug, Clone)]
enum Do {
    Book { begin: i64, window: i64, lasts: i64, capacity: u32, amounts: [u32; 2] },
    Change { begin: i64, lasts: i64, capacity: u32, amounts: [u32; 2] },
    Prepare { begin: i64, lasts: i64, capacity: u32, amounts: [u32; 2] },
    Finish(bool),
    Extend(i64),
    Release { from: i64, keep: u32 },
    Cancel,
    Restart,
}

/// The furthest second that a reservation can reach.
const SECONDS: usize = 800;

fn commands() -> impl Strategy<Value = Vec<(i64, u128, Do)>> {
    let amounts = || prop_oneof![1 => Just([0, 0]), 3 => [0..=4u32, 0..=2u32]];
    let (begin, lasts, capacity) = (0..20i64, 1..20i64, 1..=6u32);
    let terms = (begin, lasts, capacity, amounts());
    let booked = (terms.clone(), 0..40i64).prop_map(|((begin, lasts, capacity, amounts), window)| Do::Book {
        begin,
        window,
        lasts,
        capacity,
        amounts,
    });
    let one = prop_oneof![
        6 => booked,
        2 => terms.clone().prop_map(|(begin, lasts, capacity, amounts)| Do::Change { begin, lasts, capacity, amounts }),
        2 => terms.prop_map(|(begin, lasts, capacity, amounts)| Do::Prepare { begin, lasts, capacity, amounts }),
        2 => any::<bool>().prop_map(Do::Finish),
        2 => (0..20i64).prop_map(Do::Extend),
        1 => (0..20i64, 0..4u32).prop_map(|(from, keep)| Do::Release { from, keep }),
        1 => Just(Do::Cancel),
        1 => Just(Do::Restart),
    ];
    prop::collection::vec((0..8i64, 0..8u128, one), 1..60)
}

/// What each thing has left in each second, counted without profiles. `without` counts as free.
fn left(ledger: &Ledger, without: Option<ReservationId>) -> [Vec<i64>; 3] {
    let mut left = [vec![8; SECONDS], vec![4; SECONDS], vec![2; SECONDS]];
    let live = ledger.entries().filter(|(id, entry)| entry.is_live() && Some(*id) != without);
    for (_, entry) in live {
        for span in entry.takes() {
            for second in span.interval.begin.0..span.interval.end.0 {
                left[0][second as usize] -= i64::from(span.capacity.0);
            }
        }
        let mut terms = vec![(entry.interval(), entry.tres().clone())];
        if let Some(ledger::Waiting { then: ledger::Then::Change { spans, request, .. }, .. }) =
            &entry.waiting
        {
            let new = request.as_ref().map_or(entry.tres(), |request| &request.parts[0].tres);
            let end = spans.last().unwrap().interval.end;
            terms.push((bookahead_plan::Interval::new(spans[0].interval.begin, end), new.clone()));
        }
        for (at, name) in [GPU, QPU].into_iter().enumerate() {
            for second in 0..SECONDS as i64 {
                let here = terms.iter().filter(|(interval, _)| interval.contains(Time(second)));
                let most = here.map(|(_, tres)| tres.of(&name.into()).0).max().unwrap_or(0);
                left[at + 1][second as usize] -= i64::from(most);
            }
        }
    }
    left
}

fn fits(left: &[Vec<i64>; 3], begin: i64, lasts: i64, needs: [u32; 3]) -> bool {
    let seconds = begin as usize..(begin + lasts) as usize;
    left.iter().zip(needs).all(|(left, need)| left[seconds.clone()].iter().all(|left| *left >= need.into()))
}

proptest! {
    #![proptest_config(cases(400))]

    /// Against a count by seconds: a request is granted at the first second where all of it fits, a change if the new
    /// terms fit in place of the old ones, and nothing is ever promised twice.
    #[test]
    fn nothing_beside_the_capacity_is_promised_twice_or_refused_without_reason(commands in commands()) {
        let mut site = Site::new(Rules { holds: HoldRules::default(), ..rules_with_tres(VACANCIES) });
        let mut now = 0;
        for (later, id, what) in commands {
            now += later;
            let (ms, rid) = (now * 1_000, ReservationId(id));
            site.tick(ms);
            let of = |begin: i64, window: i64, lasts: i64, capacity, amounts: [u32; 2]| {
                let asked = request(wanted(now + begin, now + begin + window + lasts, lasts, capacity));
                with(asked, &[(GPU, amounts[0]), (QPU, amounts[1])])
            };
            let entry = site.ledger.entry(rid).cloned();
            match what {
                Do::Book { begin, window, lasts, capacity, amounts: [gpus, qpus] } => {
                    let room = left(&site.ledger, None);
                    let mut starts = now + begin..=now + begin + window;
                    let first = starts.find(|at| fits(&room, *at, lasts, [capacity, gpus, qpus]));
                    let answer = site.book(ms, "ann", id, of(begin, window, lasts, capacity, [gpus, qpus]));
                    if entry.is_none() && !matches!(&answer, Answer::Problem(why) if why.why.code() == "id-taken") {
                        let granted = match &answer {
                            Answer::Reservation(_) => Some(interval(&answer).0),
                            _ => None,
                        };
                        // A refused id stays refused, with the first answer.
                        if site.ledger.denied().all(|(denied, _)| denied != rid) || granted.is_some() {
                            prop_assert_eq!(granted, first);
                        } else {
                            prop_assert!(granted.is_none());
                        }
                    }
                }
                Do::Change { begin, lasts, capacity, amounts: [gpus, qpus] } => {
                    let room = left(&site.ledger, Some(rid));
                    let answer = site.change(ms, "ann", id, None, of(begin, 0, lasts, capacity, [gpus, qpus]));
                    if entry.is_some_and(|entry| entry.state == State::Committed) {
                        let granted = matches!(answer, Answer::Reservation(_));
                        prop_assert_eq!(granted, fits(&room, now + begin, lasts, [capacity, gpus, qpus]));
                    }
                }
                Do::Prepare { begin, lasts, capacity, amounts } => {
                    let terms = NewTerms::Request(of(begin, 0, lasts, capacity, amounts));
                    let (change, hold_for) = (ChangeId(now as u128), Millis(20_000));
                    let call = Call::PrepareChange { id: rid, change, version: None, terms, hold_for };
                    site.call(ms, "ann", call);
                }
                Do::Finish(accept) => {
                    if let Some(change) = entry.and_then(|entry| entry.preparing()).map(|one| one.change) {
                        site.call(ms, "ann", Call::FinishChange { id: rid, change, accept });
                    }
                }
                Do::Extend(by) => {
                    if let Some(entry) = entry.filter(|entry| entry.end().0 < SECONDS as i64 - 100) {
                        site.extend(ms, "ann", id, None, entry.end().0 + by);
                    }
                }
                Do::Release { from, keep } => drop(site.release(ms, "ann", id, now + from, keep)),
                Do::Cancel => drop(site.cancel(ms, "ann", id)),
                Do::Restart => {
                    let snapshot = serde_json::to_string(&site.ledger.snapshot()).unwrap();
                    let snapshot = serde_json::from_str(&snapshot).unwrap();
                    site.ledger = Ledger::restore(site.ledger.rules().clone(), snapshot).unwrap();
                }
            }
            for (of, left) in ["capacity", GPU, QPU].into_iter().zip(left(&site.ledger, None)) {
                let least = left[now as usize..].iter().min().copied();
                prop_assert!(least >= Some(0), "{} of {} promised twice", least.unwrap_or(0), of);
            }
        }
    }
}
