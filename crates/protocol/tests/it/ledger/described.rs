//! Name, note and labels of reservations, the request that is kept, and users that a reservation is shared with.

use super::*;
use bookahead_protocol::description::BadDescription;
use bookahead_protocol::request::Malformed;

fn named(name: &str, request: Request) -> Request {
    let description = Description { name: Some(name.into()), ..Description::default() };
    Request { description, ..request }
}

fn shared(users: &[&str], request: Request) -> Request {
    Request { shared_with: users.iter().map(|user| (*user).into()).collect(), ..request }
}

fn attach(job: u128) -> Call {
    Call::Attach { id: ReservationId(1), part: 0, job: JobId(job) }
}

#[test]
fn the_request_and_the_time_of_the_grant_are_shown() {
    let mut site = Site::new(rules());
    let asked = named("course", request(wanted(100, 500, 50, 4)));
    let booked = site.book(7_000, "ada", 1, asked.clone());
    assert_eq!(reservation(&booked).description.name.as_deref(), Some("course"));
    assert_eq!((reservation(&booked).created, &reservation(&booked).request), (Some(Time(7)), &None));
    let shown = site.look(9_000, "ada", 1);
    assert_eq!(reservation(&shown).request.as_deref(), Some(&asked));
    // With the batch system, the time of its grant counts.
    let mut site = Site::new(Rules { consent: Some(Millis::seconds(60)), ..rules() });
    site.hold(7_000, "ada", 1, asked);
    site.grant(9_000, 1);
    assert_eq!(reservation(&site.look(10_000, "ada", 1)).created, Some(Time(9)));
}

#[test]
fn a_new_name_does_not_move_a_flexible_reservation_and_needs_no_grant() {
    for consent in [None, Some(Millis::seconds(60))] {
        let mut site = Site::new(Rules { consent, ..rules() });
        site.book(0, "bob", 2, fixed(100, 200, 8));
        site.grant(0, 2);
        let asked = request(wanted(100, 500, 50, 4));
        site.book(0, "ada", 1, asked.clone());
        site.grant(0, 1);
        site.cancel(1_000, "bob", 2);
        let before = site.words().len();
        let renamed = site.change(2_000, "ada", 1, Some(1), named("course", asked.clone()));
        assert_eq!((interval(&renamed), reservation(&renamed).version), ((200, 250), 2));
        assert_eq!(site.words()[before..], ["request-changed"]);
        assert_eq!(problem(&site.change(2_000, "ada", 1, Some(1), asked)).why.code(), "changed");
        let shown = site.look(3_000, "ada", 1);
        let request = reservation(&shown).request.as_ref().unwrap();
        assert_eq!(request.description.name.as_deref(), Some("course"));
        // The original request is still recognised.
        assert_eq!(interval(&site.book(4_000, "ada", 1, request_of(100, 500))), (200, 250));
    }
}

fn request_of(earliest: i64, latest: i64) -> Request {
    request(wanted(earliest, latest, 50, 4))
}

#[test]
fn new_terms_and_a_new_name_are_taken_together_or_not_at_all() {
    let mut site = Site::new(Rules { consent: Some(Millis::seconds(60)), ..rules() });
    site.book(0, "ada", 1, named("old", fixed(100, 150, 4)));
    site.grant(0, 1);
    site.change(1_000, "ada", 1, None, named("new", fixed(200, 250, 4)));
    assert_eq!(reservation(&site.look(1_000, "ada", 1)).description.name.as_deref(), Some("old"));
    site.refuse(2_000, 1);
    let shown = site.look(2_000, "ada", 1);
    assert_eq!(
        (reservation(&shown).description.name.as_deref(), interval(&shown)),
        (Some("old"), (100, 150))
    );
    site.change(3_000, "ada", 1, None, named("new", fixed(200, 250, 4)));
    site.grant(4_000, 1);
    let shown = site.look(4_000, "ada", 1);
    assert_eq!(
        (reservation(&shown).description.name.as_deref(), interval(&shown)),
        (Some("new"), (200, 250))
    );
}

#[test]
fn an_active_reservation_can_be_renamed_and_shortened_at_once() {
    let mut site = Site::new(rules());
    site.book(0, "ada", 1, fixed(100, 200, 4));
    let renamed = site.change(120_000, "ada", 1, None, named("tail", fixed(100, 180, 4)));
    assert_eq!((interval(&renamed), reservation(&renamed).state), ((100, 180), State::Active));
    assert_eq!(reservation(&renamed).description.name.as_deref(), Some("tail"));
}

#[test]
fn other_users_see_a_shared_reservation_and_attach_jobs_and_do_nothing_else() {
    let mut site = Site::new(rules());
    let asked = shared(&["bob", "eve"], fixed(100, 200, 4));
    site.book(0, "ada", 1, asked.clone());
    assert_eq!(reservation(&site.look(0, "bob", 1)).owner.as_str(), "ada");
    assert_eq!(problem(&site.look(0, "zoe", 1)).why, Why::NotOwner(ReservationId(1)));
    assert_eq!(reservation(&site.call(0, "bob", attach(7))).jobs, [(0, JobId(7))]);
    assert_eq!(problem(&site.call(0, "zoe", attach(8))).why, Why::NotOwner(ReservationId(1)));
    let (id, hold_for) = (ReservationId(1), Millis(1_000));
    let calls = [
        Call::Cancel { id },
        Call::Commit { id, jobs: vec![JobId(9)] },
        Call::Hold { id, hold_for },
        Call::Extend { id, version: None, end: Time(300) },
        Call::Change { id, version: None, request: asked },
        Call::Release { id, part: None, from: Time(150), keep: Capacity(1), end_jobs: false },
    ];
    for call in calls {
        assert_eq!(problem(&site.call(0, "bob", call)).why, Why::NotOwner(id));
    }
    // No longer shared with bob.
    let changed = site.change(1_000, "ada", 1, None, shared(&["eve"], fixed(100, 200, 4)));
    assert_eq!((reservation(&changed).version, interval(&changed)), (2, (100, 200)));
    assert_eq!(problem(&site.look(1_000, "bob", 1)).why, Why::NotOwner(id));
    assert_eq!(reservation(&site.look(1_000, "eve", 1)).version, 2);
}

#[test]
fn limits_count_a_shared_reservation_for_its_owner_only() {
    let mut rules = rules();
    rules.limits.default.count = Some(1);
    let mut site = Site::new(rules);
    site.book(0, "ada", 1, shared(&["bob"], fixed(100, 200, 2)));
    assert_eq!(reservation(&site.book(0, "bob", 2, fixed(100, 200, 2))).state, State::Committed);
    assert!(matches!(site.book(0, "ada", 3, fixed(100, 200, 2)), Answer::Problem(_)));
}

#[test]
fn texts_and_users_beyond_their_bounds_are_refused() {
    let mut site = Site::new(rules());
    let refused = site.book(0, "ada", 1, named("", fixed(100, 200, 4)));
    let why = Malformed::Description(BadDescription::NameLength(0));
    assert_eq!(problem(&refused).why, Why::Malformed(why));
    let users: Vec<String> = (0..65).map(|number| format!("user{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let refused = site.book(0, "ada", 2, shared(&users, fixed(100, 200, 4)));
    assert_eq!(problem(&refused).why, Why::Malformed(Malformed::SharedWithTooMany(65)));
}
