//! What ended is remembered within bounds, for each user and over all; nothing that is live is touched.

use super::*;
use bookahead_protocol::ledger::{Bounds, Entry};
use bookahead_protocol::per_user::Most;
use bookahead_tests::cases::cases;
use proptest::prelude::*;

/// A few records and texts.
fn small() -> Bounds {
    Bounds {
        ended: Most { each: 10_000, all: 25_000 },
        texts: Most { each: 5_000, all: 12_000 },
        denied: Most { each: 5_000, all: 20_000 },
        answers: Most { each: 20_000, all: 50_000 },
    }
}

fn bounded() -> Rules {
    Rules { bounds: small(), ..rules() }
}

/// With a note of 1,000 characters.
fn noted(begin: i64, note: &str) -> Request {
    let description =
        Description { name: Some("course".into()), note: Some(note.repeat(1_000)), ..Description::default() };
    Request { description, ..fixed(begin, begin + 100, 1) }
}

fn entry(site: &Site, id: u128) -> Option<&Entry> {
    site.ledger.entry(ReservationId(id))
}

#[test]
fn holds_made_and_cancelled_without_end_are_remembered_within_bounds_and_those_of_others_stay() {
    let mut site = Site::new(bounded());
    site.hold(0, "ada", 1, noted(1_000_000, "a"));
    site.cancel(1, "ada", 1);
    let live = site.book(2, "ada", 2, noted(1_000_000, "a"));
    for id in 10..1_000 {
        site.hold(2, "eve", id, noted(1_000_000, "e"));
        assert_eq!(site.cancel(2, "eve", id).word(), "cancelled");
    }
    assert_eq!(entry(&site, 1).unwrap().request.description.note, Some("a".repeat(1_000)));
    assert_eq!(site.look(3, "ada", 2).word(), live.word());
    let of_eve: Vec<u128> = site.ledger.entries().map(|(id, _)| id.0).filter(|id| *id >= 10).collect();
    assert_eq!(of_eve, (994..1_000).collect::<Vec<_>>(), "the newest ones");
    let whole = of_eve.iter().filter(|id| entry(&site, **id).unwrap().shortened.is_none());
    assert_eq!(whole.collect::<Vec<_>>(), [&996, &997, &998, &999], "texts are dropped before records");
    assert_eq!(site.ledger, site.replayed());
}

#[test]
fn a_hold_whose_texts_were_dropped_recognises_its_request_and_can_be_committed_late() {
    let mut site = Site::new(bounded());
    for id in 1..=6 {
        site.hold(0, "ann", id, noted(100_000 + 1_000 * i64::try_from(id).unwrap(), "n"));
    }
    site.tick(60_000);
    assert!(entry(&site, 1).unwrap().shortened.is_some());
    assert_eq!(entry(&site, 1).unwrap().request.description.note, None);
    assert_eq!(site.hold(60_000, "ann", 1, noted(101_000, "n")).word(), "expired", "the same request");
    assert_eq!(problem(&site.hold(60_000, "ann", 1, noted(101_000, "m"))).why.code(), "id-taken");
    assert_eq!(site.commit(60_001, "ann", 1).word(), "committed");
    assert_eq!(interval(&site.look(60_001, "ann", 1)), (101_000, 101_100));
}

#[test]
fn the_texts_of_what_was_used_are_kept_longer() {
    let mut site = Site::new(bounded());
    site.book(0, "ann", 1, noted(100, "n"));
    for id in 2..8 {
        site.hold(0, "ann", id, noted(1_000_000, "e"));
        site.cancel(0, "ann", id);
    }
    site.tick(300_000);
    assert_eq!(entry(&site, 1).unwrap().state, State::Completed);
    assert_eq!(entry(&site, 1).unwrap().request.description.note, Some("n".repeat(1_000)));
}

#[test]
fn large_requests_that_were_cancelled_take_little_with_the_usual_bounds() {
    let mut site = Site::new(rules());
    let requirement = Requirement { attribute: "name".into(), test: Test::Present };
    for id in 1..1_000 {
        let mut request = noted(1_000_000, "ü");
        request.parts[0].requirements = vec![requirement.clone(); 300];
        site.hold(0, "eve", id, request);
        site.cancel(0, "eve", id);
        site.events.clear();
    }
    let taken = serde_json::to_string(&site.ledger.snapshot()).unwrap().len();
    assert!(taken < 16 << 20, "{taken} bytes");
    assert_eq!(site.ledger.entries().count(), 999, "of each, a short record is left");
    std::mem::forget(site);
}

#[test]
fn refusals_of_many_names_are_remembered_within_bounds() {
    let mut site = Site::new(bounded());
    for id in 1..1_000 {
        let refused = site.hold(0, &format!("user-{id}"), id, fixed(100, 200, 1_000));
        assert_eq!(refused.word(), "no-such-resource");
    }
    assert!(site.ledger.denied().count() <= 20, "{}", site.ledger.denied().count());
    assert!(site.ledger.answers_remembered() <= 50, "{}", site.ledger.answers_remembered());
    let last = site.hold(1, "user-999", 999, fixed(100, 200, 999));
    assert_eq!(problem(&last).why.code(), "id-taken", "the newest is remembered");
}

/// What a step does with the reservation that was made this many steps ago.
#[derive(Debug, Clone)]
enum Do {
    Hold { text: usize, hold_for: i64 },
    Book { text: usize },
    Cancel(usize),
    Commit(usize),
    Change(usize, usize),
    Wait(i64),
}

fn doings() -> impl Strategy<Value = Do> {
    prop_oneof![
        4 => (0..3_000usize, 0..20_000i64).prop_map(|(text, hold_for)| Do::Hold { text, hold_for }),
        2 => (0..3_000usize).prop_map(|text| Do::Book { text }),
        4 => (0..12usize).prop_map(Do::Cancel),
        2 => (0..12usize).prop_map(Do::Commit),
        1 => (0..12usize, 0..1_000usize).prop_map(|(back, text)| Do::Change(back, text)),
        1 => (0..30_000i64).prop_map(Do::Wait),
    ]
}

/// A request of 10 seconds, at a time of its own, so that what was dropped makes no difference to room.
fn of_text(id: u128, text: usize) -> Request {
    let description = Description { note: Some("x".repeat(text.min(1_000))), ..Description::default() };
    let requirement = Requirement { attribute: "name".into(), test: Test::Present };
    let mut request = Request {
        description,
        ..fixed(i64::try_from(id).unwrap() * 15 + 20, i64::try_from(id).unwrap() * 15 + 30, 1)
    };
    request.parts[0].requirements = vec![requirement; text / 100];
    request
}

/// A reservation and the number of its owner.
type Made = (ReservationId, u8);

/// Makes a call about a reservation.
type MakeCall = Box<dyn Fn(ReservationId) -> Call>;

fn calls(steps: Vec<(u8, Do)>) -> Vec<(i64, Envelope)> {
    let (mut now, mut made) = (0, Vec::new());
    let mut calls = Vec::new();
    for (key, (user, what)) in steps.into_iter().enumerate() {
        now += 500;
        let key = key as u128 + 1;
        let id = |back: usize| made.iter().rev().nth(back).copied().unwrap_or((ReservationId(77_777), user));
        let ((id, user), call): (Made, MakeCall) = match what {
            Do::Hold { text, hold_for } => (
                (ReservationId(key), user),
                Box::new(move |id| Call::Reserve {
                    id,
                    request: of_text(id.0, text),
                    hold_for: Millis(hold_for),
                    book: false,
                }),
            ),
            Do::Book { text } => (
                (ReservationId(key), user),
                Box::new(move |id| Call::Reserve {
                    id,
                    request: of_text(id.0, text),
                    hold_for: Millis::ZERO,
                    book: true,
                }),
            ),
            Do::Cancel(back) => (id(back), Box::new(|id| Call::Cancel { id })),
            Do::Commit(back) => (id(back), Box::new(|id| Call::Commit { id, jobs: vec![] })),
            Do::Change(back, text) => (
                id(back),
                Box::new(move |id| Call::Change { id, version: None, request: of_text(id.0, text) }),
            ),
            Do::Wait(time) => {
                now += time;
                continue;
            }
        };
        if matches!(call(id), Call::Reserve { .. }) {
            made.push((id, user));
        }
        calls
            .push((now, Envelope { key: Key(key), caller: caller(&format!("user-{user}")), call: call(id) }));
    }
    calls
}

fn live(ledger: &Ledger) -> Vec<ReservationId> {
    ledger.entries().filter(|(_, entry)| entry.is_live()).map(|(id, _)| id).collect()
}

proptest! {
    #![proptest_config(cases(64))]

    /// Against a ledger without bounds: what is live is the same to the last field, what is remembered is the same or
    /// shortened, and replays, snapshots and old journals agree.
    #[test]
    fn bounds_change_nothing_that_is_live(
        steps in prop::collection::vec((0..4u8, doings()), 1..150), cut in 0..150usize,
    ) {
        let most = Most { each: usize::MAX, all: usize::MAX };
        let unbounded = Bounds { ended: most, texts: most, denied: most, answers: most };
        let mut plain = Ledger::new(Rules { bounds: unbounded, ..rules() }).unwrap();
        let mut ledger = Ledger::new(bounded()).unwrap();
        let (mut old, mut snapshot) = (Vec::new(), None);
        let mut events = Vec::new();
        for (at, (now, envelope)) in calls(steps).iter().enumerate() {
            let handled = ledger.handle(Moment(*now), envelope, &Views::default());
            // A late commit of a hold that is no longer remembered is refused, and not made in the twin either.
            let gone = envelope.call.id().is_some_and(|id| ledger.entry(id).is_none());
            if !gone || matches!(envelope.call, Call::Reserve { .. }) {
                let plainly = plain.handle(Moment(*now), envelope, &Views::default());
                old.extend(plainly.events);
            } else {
                old.extend(plain.tick(Moment(*now)).events);
            }
            events.extend(handled.events);
            prop_assert_eq!(live(&ledger), live(&plain));
            for (id, entry) in ledger.entries() {
                let twin = plain.entry(id).unwrap();
                prop_assert_eq!((entry.state, &entry.spans, &entry.owner), (twin.state, &twin.spans, &twin.owner));
                if entry.shortened.is_none() {
                    prop_assert_eq!((&entry.request, &entry.changed_to), (&twin.request, &twin.changed_to));
                }
            }
            let ended = ledger.entries().filter(|(_, entry)| entry.state.is_over()).count();
            prop_assert!(ended <= 25_000 / 1_024, "{} ended", ended);
            if at == cut {
                snapshot = Some((ledger.snapshot(), events.len()));
            }
        }
        let mut replayed = Ledger::new(bounded()).unwrap();
        events.iter().for_each(|event| drop(replayed.apply(event)));
        prop_assert_eq!(&replayed, &ledger);
        if let Some((snapshot, seen)) = snapshot {
            let json = serde_json::to_string(&snapshot).unwrap();
            let mut restored = Ledger::restore(bounded(), serde_json::from_str(&json).unwrap()).unwrap();
            events[seen..].iter().for_each(|event| drop(restored.apply(event)));
            prop_assert_eq!(&restored, &ledger);
        }
        // A journal and a snapshot of a version without bounds.
        let mut opened = Ledger::new(bounded()).unwrap();
        old.iter().for_each(|event| drop(opened.apply(event)));
        let restored = Ledger::restore(bounded(), plain.snapshot()).unwrap();
        for opened in [opened, restored] {
            prop_assert_eq!(live(&opened), live(&plain));
            let again = Ledger::restore(bounded(), opened.snapshot()).unwrap();
            prop_assert_eq!(again, opened);
        }
    }
}
