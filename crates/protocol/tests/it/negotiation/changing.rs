//! New terms for bookings with several parts: all parts or none, even if a site refuses, is silent, or
//! crashes.

use super::town::{Town, name, part, reservation, together, why};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::{
    Answer, Call, ChangeId, Condition, Consent, Constraint, Description, Lost, Millis, NewTerms, Request,
    Reservation, ReservationId, State, Why,
};

const ID: ReservationId = ReservationId(1);
const SITES: [&str; 2] = ["north", "south"];

/// Two clusters of eight, and a booking of six processors on both from 300 to 400.
fn booked() -> Town {
    let mut town = Town::new();
    SITES.iter().for_each(|site| town.cluster(site, 8));
    town.broker("broker", &SITES);
    assert_eq!(reservation(town.reserve("broker", 1, pair(300, 400), true)).state, State::Committed);
    town
}

/// Six processors for 100 s, twice at the same time.
fn pair(earliest: i64, latest: i64) -> Request {
    together(vec![part("processors", 6, earliest, latest, 100); 2])
}

fn change(request: Request) -> Call {
    Call::Change { id: ID, version: None, request }
}

fn extend(end: i64) -> Call {
    Call::Extend { id: ID, version: None, end: Time(end) }
}

fn prepare(change: u128, end: i64) -> Call {
    let (change, hold_for) = (ChangeId(change), Millis::seconds(30));
    Call::PrepareChange { id: ID, change, version: None, terms: NewTerms::Until(Time(end)), hold_for }
}

fn finish(change: u128, accept: bool) -> Call {
    Call::FinishChange { id: ID, change: ChangeId(change), accept }
}

fn interval(begin: i64, end: i64) -> Interval {
    Interval::new(Time(begin), Time(end))
}

/// The reservations of the sites, by name of the site.
fn at_sites(town: &Town, sites: &[&str]) -> Vec<(State, Interval)> {
    let entries = sites.iter().flat_map(|site| town.sites[&name(site)].entries());
    let live = entries.filter(|(_, entry)| entry.is_live());
    live.map(|(_, entry)| (entry.state, entry.interval())).collect()
}

fn shown(town: &mut Town, broker: &str) -> Reservation {
    reservation(town.call(broker, Call::Show { id: ID }))
}

fn intervals(shown: &Reservation) -> Vec<Interval> {
    shown.slots.iter().map(|slot| slot.interval).collect()
}

#[test]
fn all_parts_get_the_new_terms_where_only_the_union_fits() {
    let mut town = booked();
    // Old and new terms overlap, and take six of eight processors each.
    let changed = reservation(town.call("broker", change(pair(350, 450))));
    assert_eq!((changed.state, changed.condition), (State::Committed, Condition::Whole));
    assert_eq!(intervals(&changed), [interval(350, 450); 2]);
    assert_eq!(at_sites(&town, &SITES), [(State::Committed, interval(350, 450)); 2]);
    assert!(town.head("broker").is_settled());
    for site in SITES {
        let calls = ["probe", "prepare-change", "finish-change"].map(|word| town.heard(site, word));
        assert_eq!(calls, [1, 1, 1], "a begin that is said needs no probe");
    }
}

#[test]
fn a_flexible_change_finds_what_all_sites_have_when_the_old_terms_count_as_free() {
    let mut town = booked();
    let other = Request::single(part("processors", 6, 400, 500, 100));
    reservation(town.reserve("south", 9, other, true));
    let request = together(vec![part("processors", 6, 310, 900, 150); 2]);
    let changed = reservation(town.call("broker", change(request)));
    assert_eq!(intervals(&changed), [interval(500, 650); 2]);
    let earlier = together(vec![part("processors", 8, 250, 650, 100); 2]);
    let changed = reservation(town.call("broker", change(earlier)));
    assert_eq!(intervals(&changed), [interval(250, 350); 2]);
    assert_eq!(town.heard("north", "probe"), 3);
}

#[test]
fn where_one_site_has_no_room_all_keep_their_old_terms() {
    let mut town = booked();
    let other = Request::single(part("processors", 6, 420, 500, 80));
    reservation(town.reserve("south", 9, other, true));
    let refused = why(town.call("broker", change(pair(350, 450))));
    assert_eq!(refused.code(), "no-room");
    assert_eq!(intervals(&shown(&mut town, "broker")), [interval(300, 400); 2]);
    assert_eq!(at_sites(&town, &["north"]), [(State::Committed, interval(300, 400))]);
    assert!(town.head("broker").is_settled());
    // The prepared capacity at the other site is free again.
    let rest = Request::single(part("processors", 8, 400, 450, 50));
    assert_eq!(reservation(town.reserve("north", 10, rest, true)).state, State::Committed);
}

#[test]
fn where_one_site_is_silent_all_keep_their_old_terms_and_the_next_change_is_taken() {
    let mut town = booked();
    town.away.insert(name("south"));
    let envelope = town.envelope(change(pair(350, 450)));
    assert_eq!(town.send("broker", &envelope), None);
    assert_eq!(why(town.call("broker", extend(500))), Why::ChangeUnderWay);
    assert_eq!(shown(&mut town, "broker").state, State::ChangeRequested);
    town.wait(15_000);
    assert_eq!(why(town.answer(&envelope)), Why::Silence);
    assert_eq!(at_sites(&town, &SITES), [(State::Committed, interval(300, 400)); 2]);
    town.away.clear();
    town.wait(60_000);
    assert!(town.head("broker").is_settled());
    let changed = reservation(town.send("broker", &envelope));
    assert_eq!(intervals(&changed), [interval(350, 450); 2]);
}

#[test]
fn an_extension_prolongs_the_parts_that_end_last_also_once_it_is_active() {
    let mut town = Town::new();
    SITES.iter().for_each(|site| town.cluster(site, 8));
    town.broker("broker", &SITES);
    let mut request =
        together(vec![part("processors", 6, 100, 200, 100), part("processors", 6, 100, 160, 60)]);
    request.constraints.push(Constraint::EndsBefore { first: 1, second: 0 });
    reservation(town.reserve("broker", 1, request, true));
    let ends = |shown: &Reservation| shown.slots.iter().map(|slot| slot.interval.end.0).collect::<Vec<_>>();
    assert_eq!(ends(&reservation(town.call("broker", extend(250)))), [250, 160]);
    town.wait(120_000);
    let active = reservation(town.call("broker", extend(300)));
    assert_eq!((active.state, ends(&active)), (State::Active, vec![300, 160]));
    assert_eq!(reservation(town.call("broker", extend(280))).version, active.version, "it lasts as long");
    let fewer = together(vec![part("processors", 2, 100, 400, 130), part("processors", 6, 100, 400, 60)]);
    let fewer = reservation(town.call("broker", change(fewer)));
    assert_eq!((ends(&fewer), fewer.slots[0].capacity), (vec![230, 160], Capacity(2)));
    let later = together(vec![part("processors", 2, 150, 400, 100); 2]);
    assert_eq!(why(town.call("broker", change(later))).code(), "unsupported", "it has begun");
    town.wait(150_000);
    assert_eq!(shown(&mut town, "broker").state, State::Completed);
}

#[test]
fn terms_against_the_constraints_and_another_number_of_parts_are_refused() {
    let mut town = Town::new();
    SITES.iter().for_each(|site| town.cluster(site, 8));
    town.broker("broker", &SITES);
    let mut request = together(vec![part("processors", 6, 100, 200, 100); 2]);
    request.constraints =
        vec![Constraint::DifferentSites(0, 1), Constraint::EndsBefore { first: 0, second: 1 }];
    request.parts[1].wanted.duration = Seconds(80);
    request.parts[1].wanted.earliest_start = Time(120);
    reservation(town.reserve("broker", 1, request.clone(), true));
    request.parts[1].wanted.latest_end = Time(180);
    request.parts[1].wanted.duration = Seconds(60);
    let against = why(town.call("broker", change(request.clone())));
    assert!(matches!(against, Why::NoCandidate { .. }), "{against:?}");
    // No constraints in the request means that the current ones stay.
    request.constraints.clear();
    assert_eq!(why(town.call("broker", change(request.clone()))), against);
    request.parts.pop();
    assert!(why(town.call("broker", change(request))).to_string().contains("number of parts"));
    assert_eq!(town.heard("north", "prepare-change") + town.heard("south", "prepare-change"), 0);
}

#[test]
fn a_cancel_wins_over_a_change_that_is_under_way() {
    let mut town = booked();
    town.away.insert(name("south"));
    let envelope = town.envelope(change(pair(350, 450)));
    town.send("broker", &envelope);
    assert_eq!(at_sites(&town, &["north"]), [(State::ChangeRequested, interval(300, 400))]);
    assert_eq!(reservation(town.call("broker", Call::Cancel { id: ID })).state, State::Cancelled);
    assert_eq!(reservation(town.answer(&envelope)).state, State::Cancelled);
    town.away.clear();
    town.wait(60_000);
    assert_eq!(at_sites(&town, &SITES), []);
    assert!(town.head("broker").is_settled());
}

/// A change is decided, but one site hears of it only after its preparation expired.
fn decided_too_late(meanwhile: impl FnOnce(&mut Town)) -> Town {
    let mut town = booked();
    town.wait(1_000);
    let envelope = town.envelope(change(pair(350, 450)));
    // The call, two preparations, two answers, and the first of two decisions.
    town.letters_left = Some(6);
    town.send("broker", &envelope);
    town.letters_left = None;
    assert_eq!(
        at_sites(&town, &SITES),
        [(State::Committed, interval(350, 450)), (State::ChangeRequested, interval(300, 400))]
    );
    town.away.insert(name("broker"));
    town.sites.get_mut(&name("south")).unwrap().tick(town.now + Millis::seconds(130));
    town.now = town.now + Millis::seconds(130);
    assert_eq!(at_sites(&town, &["south"]), [(State::Committed, interval(300, 400))], "its time is up");
    meanwhile(&mut town);
    town.away.clear();
    town.restart("broker", &SITES, 100);
    town.wait(10_000);
    town
}

#[test]
fn what_was_decided_is_asked_for_again_where_the_preparation_is_over() {
    let mut town = decided_too_late(|_| {});
    let shown = shown(&mut town, "broker");
    assert_eq!((shown.state, shown.condition), (State::Committed, Condition::Whole));
    assert_eq!(intervals(&shown), [interval(350, 450); 2]);
    assert_eq!(at_sites(&town, &SITES), [(State::Committed, interval(350, 450)); 2]);
}

#[test]
fn terms_that_were_decided_and_cannot_be_had_any_more_are_shown_as_lost() {
    let mut town = decided_too_late(|town| {
        let other = Request::single(part("processors", 6, 400, 500, 100));
        reservation(town.reserve("south", 9, other, true));
    });
    let shown = shown(&mut town, "broker");
    assert_eq!((shown.condition, intervals(&shown)), (Condition::Broken, vec![interval(350, 450); 2]));
    assert_eq!(
        shown.losses.iter().map(|loss| (loss.part, loss.why)).collect::<Vec<_>>(),
        [(1, Lost::NotChanged)]
    );
    assert!(town.head("broker").is_settled());
}

/// The called broker, and the crashing ones: alone, above another, and below another.
fn towns() -> [(Town, &'static str, &'static [&'static str], u64); 3] {
    let nested = || {
        let mut town = Town::new();
        SITES.iter().for_each(|site| town.cluster(site, 8));
        town.broker("inner", &["north"]);
        town.broker("outer", &["inner", "south"]);
        assert_eq!(reservation(town.reserve("outer", 1, pair(300, 400), true)).state, State::Committed);
        town
    };
    [
        (booked(), "broker", &SITES, 100),
        (nested(), "outer", &["inner", "south"], 101),
        (nested(), "inner", &["north"], 100),
    ]
}

#[test]
fn whenever_a_broker_crashes_all_parts_have_the_old_terms_or_all_the_new_and_it_shows_which() {
    for (town, crashes, peers, maker) in towns() {
        let asked = if crashes == "broker" { "broker" } else { "outer" };
        let (mut taken, mut given_up, mut done) = (0, 0, false);
        for letters in 0.. {
            let mut town = town.clone();
            let envelope = town.envelope(change(pair(340, 480)));
            town.letters_left = Some(letters);
            done = done || town.send(asked, &envelope).is_some();
            town.letters_left = None;
            town.restart(crashes, peers, maker);
            town.wait(100_000);
            let shown = shown(&mut town, asked);
            assert_eq!((shown.state, shown.condition), (State::Committed, Condition::Whole), "{letters}");
            let new = intervals(&shown)[0];
            assert!([interval(300, 400), interval(340, 440)].contains(&new), "{letters}: {new:?}");
            assert_eq!(intervals(&shown), [new; 2], "{letters}");
            assert_eq!(at_sites(&town, &SITES), [(State::Committed, new); 2], "{letters}");
            assert!(town.head(asked).is_settled() && town.head(crashes).is_settled(), "{letters}");
            if new.begin == Time(300) {
                given_up += 1;
            } else {
                taken += 1;
            }
            // A repeated call gets the new terms, and applies them once.
            let changed = reservation(town.send(asked, &envelope));
            assert_eq!(intervals(&changed), [interval(340, 440); 2], "{letters}");
            let again = town.send(asked, &envelope);
            assert_eq!(again.map(|answer| answer.word()), Some("committed"), "{letters}");
            if done {
                break;
            }
        }
        assert!(taken > 2 && given_up > 4, "{crashes}: {taken} taken, {given_up} given up");
    }
}

#[test]
fn a_broker_prepares_a_change_for_another_and_remembers_it_after_a_crash() {
    let mut town = booked();
    let prepared = reservation(town.call("broker", prepare(7, 450)));
    assert_eq!((prepared.state, intervals(&prepared)), (State::ChangeRequested, vec![interval(300, 400); 2]));
    assert_eq!(
        prepared.prepared.iter().map(|slot| slot.interval).collect::<Vec<_>>(),
        [interval(300, 450); 2]
    );
    assert!(prepared.held_for.is_some_and(|left| left > Millis::seconds(20)), "{prepared:?}");
    town.restart("broker", &SITES, 100);
    assert_eq!(reservation(town.call("broker", prepare(7, 450))).state, State::ChangeRequested);
    assert_eq!(why(town.call("broker", prepare(8, 480))), Why::ChangeUnderWay);
    let taken = reservation(town.call("broker", finish(7, true)));
    assert_eq!((taken.state, intervals(&taken)), (State::Committed, vec![interval(300, 450); 2]));
    assert_eq!(reservation(town.call("broker", finish(7, true))).version, taken.version);
    assert_eq!(why(town.call("broker", finish(7, false))), Why::NotPrepared);
    // Without a decision the old terms stay.
    reservation(town.call("broker", prepare(9, 500)));
    town.wait(40_000);
    assert_eq!(why(town.call("broker", finish(9, true))), Why::NotPrepared);
    assert_eq!(at_sites(&town, &SITES), [(State::Committed, interval(300, 450)); 2]);
    // A change that is given up before its prepare call arrives is refused.
    assert_eq!(reservation(town.call("broker", finish(11, false))).state, State::Committed);
    assert_eq!(why(town.call("broker", prepare(11, 500))), Why::NotPrepared);
    assert!(matches!(town.call("broker", finish(12, true)), Some(Answer::Problem(_))));
}

#[test]
fn a_change_that_cannot_be_decided_before_the_begin_is_taken_a_moment_later() {
    let mut town = booked();
    town.wait(299_500);
    // The decision reaches one of the two in time, but the other one only after its start.
    town.away.insert(name("south"));
    let envelope = town.envelope(extend(500));
    assert_eq!(town.send("broker", &envelope), None);
    town.wait(600);
    town.away.clear();
    town.wait(5_000);
    assert_eq!(why(town.answer(&envelope)), Why::ChangeUnderWay, "all peers answered");
    assert_eq!(at_sites(&town, &SITES), [(State::Active, interval(300, 400)); 2]);
    let longer = reservation(town.send("broker", &envelope));
    assert_eq!((longer.state, intervals(&longer)), (State::Active, vec![interval(300, 500); 2]));
    assert!(town.head("broker").is_settled());
}

/// The names that the sites have for the live parts.
fn names_at_sites(town: &Town) -> Vec<Option<String>> {
    let entries = SITES.iter().flat_map(|site| town.sites[&name(site)].entries());
    let live = entries.filter(|(_, entry)| entry.is_live());
    live.map(|(_, entry)| entry.current_request().description.name.clone()).collect()
}

fn named(name: &str, request: Request) -> Request {
    let description = Description { name: Some(name.into()), ..Description::default() };
    Request { description, shared_with: ["bob".into()].into(), ..request }
}

#[test]
fn a_name_is_passed_on_to_all_sites_and_a_new_one_moves_nothing() {
    let mut town = Town::new();
    SITES.iter().for_each(|site| town.cluster(site, 8));
    town.broker("broker", &SITES);
    let request = named("first", pair(300, 900));
    let booked = reservation(town.reserve("broker", 1, request, true));
    assert_eq!((intervals(&booked), booked.created), (vec![interval(300, 400); 2], Some(Time(0))));
    assert_eq!(names_at_sites(&town), [Some("first".to_owned()), Some("first".to_owned())]);
    let renamed = reservation(town.call("broker", change(named("second", pair(300, 900)))));
    assert_eq!(intervals(&renamed), [interval(300, 400); 2]);
    assert!(renamed.version > booked.version);
    assert_eq!(names_at_sites(&town), [Some("second".to_owned()), Some("second".to_owned())]);
    assert_eq!(town.heard("north", "probe"), 1, "nothing is searched");
    let shown = shown(&mut town, "broker");
    assert_eq!(shown.request.as_deref(), Some(&named("second", pair(300, 900))));
    assert!(town.head("broker").is_settled());
    // With new terms, everything changes together.
    let moved = reservation(town.call("broker", change(named("third", pair(500, 600)))));
    assert_eq!(intervals(&moved), [interval(500, 600); 2]);
    assert_eq!(names_at_sites(&town), [Some("third".to_owned()), Some("third".to_owned())]);
}

/// Bob's answers at the sites.
fn consents_at_sites(town: &Town) -> Vec<Option<Consent>> {
    let entries = SITES.iter().flat_map(|site| town.sites[&name(site)].entries());
    entries.map(|(_, entry)| entry.guests().consents.get(&name("bob")).copied()).collect()
}

#[test]
fn the_answer_to_an_invitation_stays_and_reaches_sites_where_the_booking_attracts_jobs() {
    for attract in [false, true] {
        let mut town = Town::new();
        SITES.iter().for_each(|site| town.cluster(site, 8));
        town.broker("broker", &SITES);
        let request = || Request { attract, ..named("course", pair(300, 900)) };
        let booked = reservation(town.reserve("broker", 1, request(), true));
        assert!(booked.guests().is_invited(&name("bob")) && booked.guests().contains(&name("bob")));
        let answered = |consent| Request { consents: [(name("bob"), consent)].into(), ..request() };
        let accepted = reservation(town.call("broker", change(answered(Consent::Accepted))));
        assert_eq!(intervals(&accepted), intervals(&booked));
        assert!(accepted.version > booked.version && !accepted.guests().is_invited(&name("bob")));
        let told = attract.then_some(Consent::Accepted);
        assert_eq!(consents_at_sites(&town), [told, told]);
        // A change by the owner, whose program may know nothing of answers.
        let moved = Request { attract, ..named("moved", pair(500, 600)) };
        let moved = reservation(town.call("broker", change(moved)));
        assert_eq!((intervals(&moved)[0], &moved.consents), (interval(500, 600), &accepted.consents));
        assert_eq!(consents_at_sites(&town), [told, told]);
        let again =
            Request { consents: [(name("bob"), Consent::Declined)].into(), ..named("moved", pair(500, 600)) };
        let declined = reservation(town.call("broker", change(Request { attract, ..again })));
        assert!(!declined.guests().contains(&name("bob")) && declined.shared_with.contains(&name("bob")));
        let alone = Request { shared_with: Default::default(), attract, ..named("moved", pair(500, 600)) };
        let alone = reservation(town.call("broker", change(alone)));
        assert!(alone.consents.is_empty(), "an answer without an invitation");
        assert!(town.head("broker").is_settled());
    }
}

#[test]
fn the_only_part_of_a_booking_gets_a_new_name_and_stays_where_it_is() {
    let mut town = Town::new();
    town.cluster("north", 8);
    town.broker("broker", &["north"]);
    let flexible = || Request::single(part("processors", 6, 300, 900, 100));
    let blocking = Request::single(part("processors", 6, 300, 400, 100));
    reservation(town.reserve("north", 9, blocking, true));
    let booked = reservation(town.reserve("broker", 1, named("first", flexible()), true));
    assert_eq!(intervals(&booked), [interval(400, 500)]);
    reservation(town.call("north", Call::Cancel { id: ReservationId(9) }));
    let renamed = reservation(town.call("broker", change(named("second", flexible()))));
    assert_eq!(intervals(&renamed), [interval(400, 500)]);
    assert!(renamed.version > booked.version);
    assert_eq!(renamed.description.name.as_deref(), Some("second"));
    let entries: Vec<_> = town.sites[&name("north")].entries().filter(|(_, entry)| entry.is_live()).collect();
    assert_eq!(entries[0].1.current_request().description.name.as_deref(), Some("second"));
    assert!(entries[0].1.guests().contains(&name("bob")));
    let maker = 7;
    town.restart("broker", &["north"], maker);
    assert_eq!(shown(&mut town, "broker").description.name.as_deref(), Some("second"));
}
