//! A repeated call has one effect and one answer.

use super::*;

fn envelope(key: u128, user: &str, call: Call) -> Envelope {
    Envelope { key: Key(key), caller: caller(user), call }
}

fn reserve(id: u128, request: Request) -> Call {
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis(60_000), book: false }
}

#[test]
fn the_same_call_again_gets_the_same_answer_and_makes_no_event() {
    let mut site = Site::new(rules());
    let call = envelope(1_000, "ann", reserve(1, fixed(100, 200, 8)));
    let first = site.send(0, &call);
    let events = site.events.len();
    let again = site.send(5_000, &call);
    assert_eq!(again, first.again(Millis(5_000)), "only what is left of the hold is less");
    assert_eq!(reservation(&again).held_for, Some(Millis(55_000)));
    assert_eq!(site.send(70_000, &call), first.again(Millis(60_000)));
    assert_eq!(site.words(), ["held", "expired"]);
    assert_eq!(site.events.len(), events + 1);
    let refused = envelope(1_001, "bob", Call::Commit { id: ReservationId(9), jobs: vec![] });
    let problem = site.send(70_000, &refused);
    assert_eq!((site.send(70_001, &refused), problem.word()), (problem.clone(), "unknown"));
}

#[test]
fn a_key_stands_for_one_call() {
    let mut site = Site::new(rules());
    site.send(0, &envelope(1_000, "ann", reserve(1, fixed(100, 200, 8))));
    for other in [
        envelope(1_000, "ann", reserve(2, fixed(100, 200, 8))),
        envelope(1_000, "bob", reserve(1, fixed(100, 200, 8))),
        envelope(1_000, "ann", Call::Cancel { id: ReservationId(1) }),
    ] {
        assert_eq!(problem(&site.send(0, &other)).why, Why::KeyTaken(Key(1_000)));
    }
    let show = envelope(1_000, "ann", Call::Show { id: ReservationId(1) });
    assert_eq!(site.send(0, &show).word(), "held", "a query needs no new key");
}

#[test]
fn an_id_stands_for_one_request() {
    let mut site = Site::new(rules());
    let id = ReservationId(1);
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    let again = site.hold(10_000, "ann", 1, fixed(100, 200, 8));
    assert_eq!(reservation(&again).held_for, Some(Millis(50_000)), "as it is now");
    assert_eq!(problem(&site.hold(0, "ann", 1, fixed(100, 200, 7))).why, Why::IdTaken(id));
    assert_eq!(problem(&site.hold(0, "bob", 1, fixed(100, 200, 8))).why, Why::IdTaken(id));
    site.commit(10_000, "ann", 1);
    site.change(10_000, "ann", 1, None, fixed(100, 150, 8));
    let changed = site.hold(10_000, "ann", 1, fixed(100, 200, 8));
    assert_eq!((changed.word(), interval(&changed)), ("committed", (100, 150)));
    let refused = site.hold(20_000, "ann", 2, fixed(120, 130, 8));
    site.cancel(20_000, "ann", 1);
    assert_eq!(site.hold(20_000, "ann", 2, fixed(120, 130, 8)), refused, "the refusal that it got");
    assert_eq!(problem(&site.hold(20_000, "ann", 2, fixed(120, 130, 7))).why.code(), "id-taken");
    assert_eq!(site.look(20_000, "ann", 2), refused);
}

#[test]
fn commits_are_repeated_without_harm() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    let first = site.commit(0, "ann", 1);
    assert_eq!(site.commit(0, "ann", 1), first);
    assert_eq!(site.commit(100_000, "ann", 1).word(), "active");
    assert_eq!(site.words(), ["held", "committed", "begun"]);
}

#[test]
fn answers_are_forgotten_the_oldest_first_when_there_are_too_many() {
    let mut site = Site::new(Rules { most_answers: 3, ..rules() });
    for key in 1..=5 {
        let id = ReservationId(key);
        site.send(i64::try_from(key).unwrap(), &envelope(key, "ann", Call::Cancel { id }));
    }
    assert_eq!(site.ledger.answers_remembered(), 3);
    let other = Call::Cancel { id: ReservationId(77) };
    assert_eq!(problem(&site.send(9, &envelope(3, "ann", other.clone()))).why.code(), "key-taken");
    assert_eq!(problem(&site.send(9, &envelope(2, "ann", other))).why.code(), "cancelled-before");
}

#[test]
fn time_never_goes_back() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    site.look(59_000, "ann", 1);
    let earlier = site.look(10_000, "ann", 1);
    assert_eq!(reservation(&earlier).held_for, Some(Millis(1_000)));
    site.tick(60_000);
    assert_eq!(site.look(0, "ann", 1).word(), "expired");
}

#[test]
fn an_id_that_somebody_cancelled_or_was_refused_is_free_for_others() {
    let mut site = Site::new(rules());
    for id in 1..=60 {
        assert_eq!(site.cancel(0, "eve", id).word(), "cancelled-before");
        assert_eq!(
            site.hold(0, "eve", id, fixed(100, 200, 1)).word(),
            "cancelled-before",
            "for eve it is taken"
        );
    }
    assert_eq!(site.hold(0, "eve", 61, fixed(100, 200, 1_000)).word(), "no-such-resource");
    for id in 1..=2 {
        assert_eq!(site.hold(0, "ada", id, fixed(100, 200, 1)).word(), "held");
        assert_eq!(problem(&site.cancel(0, "eve", id)).why.code(), "not-owner");
    }
    assert_eq!(site.hold(0, "ada", 61, fixed(100, 200, 1)).word(), "held");
    assert_eq!(site.commit(0, "ada", 61).word(), "committed");
    assert_eq!(problem(&site.hold(0, "eve", 61, fixed(100, 200, 1_000))).why.code(), "id-taken");
    let replayed = site.replayed();
    assert_eq!(replayed, site.ledger);
}

/// 64 parts, each with many requirements. Refused, because a site books one part.
fn huge() -> Request {
    let requirement = Requirement { attribute: "x".repeat(255).as_str().into(), test: Test::Present };
    let mut request = fixed(100, 200, 1);
    request.parts[0].requirements = vec![requirement; 3_000];
    request.parts = vec![request.parts[0].clone(); 2];
    request
}

#[test]
fn of_what_was_refused_little_is_kept_however_large_it_was() {
    let mut site = Site::new(rules());
    let call = envelope(1, "eve", reserve(1, huge()));
    let refused = site.send(0, &call);
    assert_eq!(refused.word(), "one-part-only");
    let written: usize = site.events.iter().map(|event| serde_json::to_string(event).unwrap().len()).sum();
    assert!(written < 2_000, "{written} bytes were written");
    assert!(serde_json::to_string(&site.ledger.snapshot()).unwrap().len() < 4_000);
    assert_eq!(site.send(1_000, &call), refused, "it is the same call");
    assert_eq!(problem(&site.hold(1_000, "eve", 1, fixed(100, 200, 1))).why.code(), "id-taken");
    // Events of the first release can be read.
    let whole = serde_json::to_string(&call).unwrap();
    let answered = format!(
        r#"{{"at":0,"what":{{"Answered":{{"envelope":{whole},"answer":{}}}}}}}"#,
        serde_json::to_string(&refused).unwrap()
    );
    let answered: Event = serde_json::from_str(&answered).unwrap();
    assert!(site.events.contains(&answered), "{answered:?}");
}

#[test]
fn who_asks_without_end_is_forgotten_alone() {
    let mut site = Site::new(rules());
    let first = envelope(1, "ada", reserve(1, fixed(100, 200, 1)));
    let held = site.send(0, &first);
    for id in 10..20_000 {
        site.send(1, &envelope(id, "eve", Call::Cancel { id: ReservationId(id) }));
    }
    assert!(site.ledger.denied().count() <= 4_096, "{}", site.ledger.denied().count());
    let remembered = site.ledger.answers_remembered();
    assert!((1_000..17_000).contains(&remembered), "{remembered}");
    assert_eq!(site.send(2, &first), held.again(Millis(2)));
    assert_eq!(site.replayed(), site.ledger);
}
