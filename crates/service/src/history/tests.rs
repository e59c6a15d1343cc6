//! Rows that follow reservations, sums against a plain count, catching up, and deletion by age.

use super::records::{self, RecordsQuestion};
use super::row::{Edit, PartRow, PartState, Sighting, gone, seen_again};
use super::store::{Reader, SeenReservation, Sightings, Store};
use super::sums::{By, Group, Question, Sums, Tally, TooMuch};
use super::*;
use bookahead_party::BookedPart;
use bookahead_plan::{Capacity, Interval, Span};
use bookahead_protocol::State;
use jiff::tz::TimeZone;

fn spans(all: &[(i64, i64, u32)]) -> Vec<Span> {
    let span = |(begin, end, capacity): &(i64, i64, u32)| Span {
        interval: Interval::new(Time(*begin), Time(*end)),
        capacity: Capacity(*capacity),
    };
    all.iter().map(span).collect()
}

fn part(state: State, terms: &[(i64, i64, u32)]) -> BookedPart {
    BookedPart {
        part: 0,
        owner: "ada".into(),
        resource: "cluster".into(),
        state,
        spans: spans(terms),
        with_past: true,
        missing: Capacity::ZERO,
        accepted: Some(Moment::of(Time(5))),
        window: None,
        ended: None,
        lost: false,
    }
}

fn ended(part: BookedPart, at: i64) -> BookedPart {
    BookedPart { ended: Some(Moment::of(Time(at))), ..part }
}

/// The row after these sightings.
fn followed(seen: &[(i64, BookedPart)]) -> Option<PartRow> {
    let mut row = None;
    for (now, part) in seen {
        let kind = Name::from("processors");
        let project = Name::from("physics");
        let (id, now) = (ReservationId(1), Time(*now));
        let sighting = Sighting { id, kind: &kind, project: &project, committed: false, now };
        match seen_again(row.as_ref(), sighting, part) {
            Edit::Nothing => {}
            Edit::Delete => row = None,
            Edit::Write(new) => {
                // Another look at the same changes nothing.
                assert_eq!(seen_again(Some(&new), sighting, part), Edit::Write(new.clone()));
                row = Some(new);
            }
        }
    }
    row
}

fn has(row: Option<PartRow>, state: PartState, booked: &[(i64, i64, u32)], kept: &[(i64, i64, u32)]) {
    let row = row.unwrap();
    assert_eq!((row.state, row.booked, row.kept), (state, spans(booked), spans(kept)));
}

#[test]
fn what_is_given_back_lowers_what_was_kept_and_not_what_was_booked() {
    use State::{Active, Cancelled, Committed, Completed, Terminated};
    let whole = [(100, 200, 4)];
    let booked = || (10, part(Committed, &whole));
    has(followed(&[booked()]), PartState::Booked, &whole, &whole);
    has(
        followed(&[booked(), (200, ended(part(Completed, &whole), 200))]),
        PartState::Completed,
        &whole,
        &whole,
    );
    has(followed(&[booked(), (50, ended(part(Cancelled, &whole), 50))]), PartState::Cancelled, &whole, &[]);
    let left = [(100, 150, 4), (150, 200, 1)];
    let released = (150, part(Active, &left));
    has(followed(&[booked(), released.clone()]), PartState::Booked, &whole, &left);
    let given_up = (161, ended(part(Terminated, &[(100, 150, 4), (150, 160, 1)]), 160));
    let kept = [(100, 150, 4), (150, 160, 1)];
    has(followed(&[booked(), released, given_up]), PartState::Cancelled, &whole, &kept);
    let longer = [(100, 300, 4)];
    has(followed(&[booked(), (150, part(Active, &longer))]), PartState::Booked, &longer, &longer);
    let moved = [(400, 500, 4)];
    has(followed(&[booked(), (20, part(Committed, &moved))]), PartState::Booked, &moved, &moved);
}

#[test]
fn holds_count_only_if_they_expired() {
    let terms = [(100, 200, 4)];
    let held = || (10, part(State::Held, &terms));
    has(followed(&[held()]), PartState::Held, &terms, &[]);
    has(followed(&[held(), (20, ended(part(State::Expired, &terms), 20))]), PartState::Expired, &terms, &[]);
    assert_eq!(followed(&[held(), (20, ended(part(State::Cancelled, &terms), 20))]), None);
    assert_eq!(followed(&[(10, part(State::Requested, &terms))]), None);
    // An event may tell of a commit that was never seen as a state.
    let kind = Name::from("processors");
    let (id, now) = (ReservationId(1), Time(20));
    let sighting = Sighting { id, kind: &kind, project: &kind, committed: true, now };
    let cancelled = ended(part(State::Cancelled, &terms), 15);
    assert!(
        matches!(seen_again(None, sighting, &cancelled), Edit::Write(row) if row.committed && row.kept.is_empty())
    );
}

#[test]
fn missing_capacity_is_taken_off_while_it_is_missing() {
    let whole = [(100, 200, 4)];
    let degraded = BookedPart { missing: Capacity(3), ..part(State::Active, &whole) };
    let seen = [
        (10, part(State::Committed, &whole)),
        (120, degraded),
        (130, part(State::Active, &whole)),
        (200, ended(part(State::Completed, &whole), 200)),
    ];
    let kept = [(100, 120, 4), (120, 130, 1), (130, 200, 4)];
    has(followed(&seen), PartState::Completed, &whole, &kept);
}

#[test]
fn a_broker_knows_the_past_only_from_what_it_saw() {
    let at_broker = |state, terms: &[(i64, i64, u32)]| BookedPart { with_past: false, ..part(state, terms) };
    let seen = [
        (10, at_broker(State::Committed, &[(100, 200, 4)])),
        (150, at_broker(State::Active, &[(100, 200, 1)])),
    ];
    let kept = [(100, 150, 4), (150, 200, 1)];
    let row = followed(&seen).unwrap();
    has(Some(row.clone()), PartState::Booked, &[(100, 200, 4)], &kept);
    let written = |edit| if let Edit::Write(row) = edit { Some(row) } else { None };
    let booked = [(100, 200, 4)];
    has(written(gone(&row, true, Time(120))), PartState::Replaced, &booked, &[(100, 120, 4)]);
    has(written(gone(&row, false, Time(160))), PartState::Lost, &booked, &[(100, 150, 4), (150, 160, 1)]);
    has(written(gone(&row, false, Time(200))), PartState::Completed, &booked, &kept);
}

/// Random numbers from a fixed seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Spans on whole hours after `begin`, without gaps.
    fn spans(&mut self, begin: i64) -> Vec<Span> {
        let mut at = begin + 3_600 * self.below(100) as i64;
        let pieces = 1 + self.below(3);
        let mut all = Vec::new();
        for _ in 0..pieces {
            let end = at + 3_600 * (1 + self.below(20) as i64);
            all.push((at, end, 1 + self.below(4) as u32));
            at = end;
        }
        spans(&all)
    }
}

const USERS: [&str; 3] = ["ada", "bob", "eve"];
const RESOURCES: [(&str, &str); 3] =
    [("north/cluster", "processors"), ("south/cluster", "processors"), ("south/line", "bandwidth")];

fn project_of(user: &str) -> &'static str {
    if user == "eve" { "" } else { "physics" }
}

/// 2026-10-30T12:00:00Z: the end of a month and of summer time are near.
const BEGIN: i64 = 1_793_361_600;

fn rows(draw: &mut Draw) -> (Vec<PartRow>, Vec<JobRow>) {
    let mut parts = Vec::new();
    for id in 0..12 {
        let owner = draw.of(&USERS);
        let state = draw.of(&PartState::ALL);
        for part in 0..=draw.below(2) {
            let (resource, kind) = RESOURCES[((part + id) % 3) as usize];
            let committed = state != PartState::Expired && state != PartState::Held;
            let booked = draw.spans(BEGIN);
            let kept = match state {
                PartState::Cancelled | PartState::Expired | PartState::Held => Vec::new(),
                _ => booked.iter().take(1 + draw.below(3) as usize).copied().collect(),
            };
            parts.push(PartRow {
                id: ReservationId(id.into()),
                part: part as u32,
                resource: resource.into(),
                kind: kind.into(),
                owner: owner.into(),
                project: project_of(owner).into(),
                state,
                committed,
                pieced: false,
                over: false,
                booked,
                kept,
                accepted: None,
                ended: None,
                window: None,
            });
        }
    }
    let job = |draw: &mut Draw, id: u128| {
        let (resource, kind) = draw.of(&RESOURCES);
        let ran = draw.spans(BEGIN)[0];
        let owner = draw.of(&USERS);
        JobRow {
            id: JobId(id),
            resource: resource.into(),
            kind: kind.into(),
            owner: owner.into(),
            project: project_of(owner).into(),
            reservation: None,
            state: "running".to_owned(),
            over: false,
            capacity: ran.capacity,
            submitted: ran.interval.begin,
            started: (draw.below(4) > 0).then_some(ran.interval.begin),
            ended: (draw.below(3) > 0).then_some(ran.interval.end),
            latest: None,
        }
    };
    let jobs = (0..8).map(|id| job(draw, id)).collect();
    (parts, jobs)
}

/// The month of an hour in Berlin, written down: November begins at 23:00Z.
fn month_of(hour: i64) -> &'static str {
    if hour < 1_793_487_600 { "2026-10" } else { "2026-11" }
}

type Plain = BTreeMap<Group, (BTreeSet<u128>, BTreeSet<(PartState0, u128)>, BTreeSet<u128>, [i128; 3])>;
type PartState0 = &'static str;

/// Looks at every hour by itself.
fn counted(question: &Question, parts: &[PartRow], jobs: &[JobRow]) -> Plain {
    let mut plain = Plain::new();
    let group = |owner: &Name, resource: &Name, kind: &Name, hour: i64| {
        let value = |by: &By| match by {
            By::User => owner.to_string(),
            By::Project => project_of(owner.as_str()).to_owned(),
            By::Site => resource.as_str().split('/').next().unwrap().to_owned(),
            By::Resource => resource.to_string(),
            By::Month => month_of(hour).to_owned(),
        };
        Group { values: question.by.iter().map(value).collect(), kind: kind.to_string() }
    };
    let mut hour = question.window.begin.0;
    while hour < question.window.end.0 {
        let at = |spans: &[Span]| {
            let then = spans.iter().find(|span| span.interval.contains(Time(hour)));
            then.map_or(0, |span| i128::from(span.capacity.0) * 3_600)
        };
        for row in parts.iter().filter(|row| row.committed || row.state == PartState::Expired) {
            let replaced = row.state == PartState::Replaced;
            if at(&row.booked) + at(&row.kept) == 0 || replaced && at(&row.kept) == 0 {
                continue;
            }
            let sums = plain.entry(group(&row.owner, &row.resource, &row.kind, hour)).or_default();
            if row.committed {
                sums.3[0] += if replaced { 0 } else { at(&row.booked) };
                sums.3[1] += at(&row.kept);
            }
            if !replaced {
                sums.0.extend(row.committed.then_some(row.id.0));
                sums.1.insert((row.state.word(), row.id.0));
            }
        }
        for row in jobs {
            let Some(started) = row.started else { continue };
            let end = row.ended.unwrap_or(question.now);
            if started.0 <= hour && hour < end.0 {
                let sums = plain.entry(group(&row.owner, &row.resource, &row.kind, hour)).or_default();
                sums.2.insert(row.id.0);
                sums.3[2] += i128::from(row.capacity.0) * 3_600;
            }
        }
        hour += 3_600;
    }
    plain
}

#[test]
fn sums_equal_those_of_looking_at_every_hour() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let mut draw = Draw(7);
    for _ in 0..300 {
        let (parts, jobs) = rows(&mut draw);
        let columns = [By::User, By::Project, By::Site, By::Resource, By::Month];
        let by: Vec<By> = columns.into_iter().filter(|_| draw.below(2) == 0).collect();
        let begin = BEGIN + 3_600 * draw.below(60) as i64;
        let window = Interval::new(Time(begin), Time(begin + 3_600 * (1 + draw.below(80) as i64)));
        let now = Time(BEGIN + 3_600 * 200);
        let question = Question { window, owner: None, by, zone: zone.clone(), now, service: "grid".into() };
        let mut tally = Tally::new(question.clone()).unwrap();
        parts.iter().for_each(|row| tally.add_part(row));
        jobs.iter().for_each(|row| tally.add_job(row));
        let same = |all: Plain, sums: Vec<(Group, Sums)>| {
            assert_eq!(
                all.keys().collect::<Vec<_>>(),
                sums.iter().map(|(group, _)| group).collect::<Vec<_>>()
            );
            for ((_, (reservations, states, jobs, areas)), (_, sums)) in all.into_iter().zip(sums) {
                let of = |word: &str| states.iter().filter(|(state, _)| *state == word).count() as u64;
                let counts = [reservations.len() as u64, of("cancelled"), of("expired"), of("lost")];
                assert_eq!([sums.reservations, sums.cancelled, sums.expired, sums.lost], counts);
                assert_eq!((sums.jobs, [sums.booked, sums.kept, sums.ran]), (jobs.len() as u64, areas));
            }
        };
        same(counted(&question, &parts, &jobs), tally.groups.into_iter().collect());
        let total = Question { by: Vec::new(), ..question };
        let totals = tally.totals.into_iter().map(|(kind, sums)| (Group { values: Vec::new(), kind }, sums));
        same(counted(&total, &parts, &jobs), totals.collect());
    }
}

#[test]
fn windows_beyond_the_calendar_or_of_too_many_months_are_refused() {
    let tally = |begin, end| {
        let window = Interval::new(Time(begin), Time(end));
        let by = vec![By::Month];
        let service = "north".into();
        Tally::new(Question { window, owner: None, by, zone: TimeZone::UTC, now: Time(0), service }).err()
    };
    assert_eq!(tally(0, 86_400 * 365), None);
    assert_eq!(tally(0, i64::from(u32::MAX) * 2), Some(TooMuch::Months));
    assert_eq!(tally(i64::MIN, 0), Some(TooMuch::Calendar));
}

fn sighting(id: u128, now: i64, part: BookedPart) -> Sightings {
    let parts = vec![("processors".into(), part)];
    let (id, project) = (ReservationId(id), "physics".into());
    let seen = SeenReservation { id, committed: false, project, parts };
    Sightings { now: Time(now), reservations: vec![seen], jobs: Vec::new() }
}

fn stored(path: &Path) -> Vec<u128> {
    let mut ids = Vec::new();
    let always = Interval::new(Time(0), Time(i64::MAX));
    let reader = Reader::open(path).unwrap();
    reader.parts(always, None, |row| (ids.push(row.id.0), true).1).unwrap();
    ids
}

#[test]
fn old_rows_are_deleted_and_live_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let mut store = Store::open(&path).unwrap();
    for id in 0..700 {
        let over = ended(part(State::Completed, &[(100, 200, 4)]), 200);
        store.write(&sighting(id, 300, over), &[], None).unwrap();
    }
    let later = ended(part(State::Completed, &[(100, 300, 4)]), 300);
    store.write(&sighting(1_000, 300, later), &[], None).unwrap();
    store.write(&sighting(1_001, 110, part(State::Active, &[(100, 200, 4)])), &[], None).unwrap();
    assert!(!store.delete_before(Time(200), Time(200)).unwrap());
    assert_eq!(stored(&path).len(), 702);
    assert!(store.delete_before(Time(201), Time(201)).unwrap(), "in several steps");
    assert!(!store.delete_before(Time(201), Time(201)).unwrap());
    assert_eq!(stored(&path), [1_000, 1_001]);
    assert_eq!(store.live().unwrap().0, [ReservationId(1_001)]);
}

#[test]
fn a_history_knows_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let history = || {
        let (keep, retention) = (Seconds(1_000_000), Seconds(100));
        History::new("north".into(), folder.path(), keep, retention, Projects::default())
    };
    let covered = || Store::open(&folder.path().join(FILE)).unwrap().covered().unwrap().unwrap();
    // A new service has a complete history.
    assert_eq!(history().open(0, 0, Time(1_000)), 0);
    assert_eq!(covered().since, None);
    let mut store = Store::open(&folder.path().join(FILE)).unwrap();
    let live = sighting(5, 1_010, part(State::Committed, &[(2_000, 3_000, 4)]));
    store.write(&live, &[], Some(40)).unwrap();
    drop(store);
    // Behind, but the journal has the events.
    let behind = history();
    assert_eq!(behind.open(30, 60, Time(1_100)), 40);
    assert!(!behind.waiting().everything);
    assert_eq!(behind.waiting().reservations.keys().copied().collect::<Vec<_>>(), [ReservationId(5)]);
    // A snapshot has replaced them, but the party remembers them.
    let further = history();
    assert_eq!(further.open(50, 60, Time(1_100)), 40);
    assert!(further.waiting().everything);
    assert_eq!(covered().since, None);
    // It stood still, but nothing happened meanwhile.
    assert_eq!(history().open(40, 40, Time(9_000)), 40);
    assert_eq!(covered().since, None);
    // Too long ago: the party has forgotten some.
    assert_eq!(history().open(50, 60, Time(9_000)), 40);
    assert_eq!(covered().since, Some(Time(9_000)));
    // Another journal.
    assert_eq!(history().open(0, 10, Time(9_000)), 10);
    // A file of something else does not stop the service.
    std::fs::write(folder.path().join(FILE), "something else, and longer than a header of SQLite").unwrap();
    let useless = history();
    assert_eq!(useless.open(0, 10, Time(9_000)), u64::MAX);
    assert!(!useless.waiting().usable);
}

fn happening(id: u128, at: i64, kind: &str, version: u32) -> api::Event {
    let event = api::Event::new(1, Moment::of(Time(at)), kind).unwrap();
    api::Event { reservation: Some(ReservationId(id)), version: Some(version), ..event }
}

#[test]
fn what_happened_is_kept_until_the_party_forgets_the_reservation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let mut store = Store::open(&path).unwrap();
    let nothing = Sightings::default();
    store
        .write(&nothing, &[happening(1, 100, "held", 1), happening(2, 100, "change-settled", 5)], None)
        .unwrap();
    store.write(&nothing, &[happening(1, 200, "committed", 2)], None).unwrap();
    let reader = Reader::open(&path).unwrap();
    let kinds = |id: u128| {
        let (events, complete) = reader.happened(ReservationId(id)).unwrap();
        (events.into_iter().map(|event| event.kind).collect::<Vec<_>>().join(" "), complete)
    };
    assert_eq!(kinds(1), ("held committed".into(), true));
    assert_eq!(kinds(2), ("change-settled".into(), false), "it began before");
    assert_eq!(kinds(3), (String::new(), false));
    let booked = SeenReservation {
        id: ReservationId(2),
        committed: true,
        project: "".into(),
        parts: vec![("processors".into(), part(State::Committed, &[(900, 1_000, 4)]))],
    };
    store
        .write(&Sightings { now: Time(100), reservations: vec![booked], jobs: Vec::new() }, &[], None)
        .unwrap();
    assert!(!store.delete_before(Time(0), Time(200)).unwrap());
    assert_eq!((kinds(1).0.as_str(), kinds(2).0.as_str()), ("held committed", "change-settled"));
    assert!(!store.delete_before(Time(0), Time(201)).unwrap());
    assert_eq!(
        (kinds(1).0.as_str(), kinds(2).0.as_str()),
        ("", "change-settled"),
        "the second is still to come"
    );
    store.note_gap().unwrap();
    store.write(&nothing, &[happening(4, 300, "held", 1)], None).unwrap();
    assert_eq!(kinds(4), ("held".into(), true));
}

#[test]
fn a_reservation_to_which_very_much_happens_keeps_what_happened_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let mut store = Store::open(&path).unwrap();
    let all: Vec<api::Event> = (1..=2_000).map(|at| happening(1, at, "missing", at as u32)).collect();
    store.write(&Sightings::default(), &all, None).unwrap();
    let (events, complete) = Reader::open(&path).unwrap().happened(ReservationId(1)).unwrap();
    assert!(!complete && (100..2_000).contains(&events.len()), "{}", events.len());
    assert_eq!(events.last().unwrap().version, Some(2_000));
}

#[test]
fn files_of_earlier_formats_get_the_new_table_and_columns() {
    for before in ["DROP TABLE happened; PRAGMA user_version = 1", "PRAGMA user_version = 2"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut store = Store::open(&path).unwrap();
        let old = ended(part(State::Completed, &[(100, 200, 4)]), 200);
        store.write(&sighting(1, 300, old), &[], None).unwrap();
        let connection = rusqlite::Connection::open(&path).unwrap();
        for column in ["accepted", "ended", "earliest", "latest"] {
            connection.execute(&format!("ALTER TABLE parts DROP COLUMN {column}"), ()).unwrap();
        }
        connection.execute_batch(before).unwrap();
        drop((store, connection));
        let mut store = Store::open(&path).unwrap();
        store.write(&Sightings::default(), &[happening(1, 100, "held", 1)], None).unwrap();
        store.write(&sighting(2, 300, part(State::Committed, &[(400, 500, 4)])), &[], None).unwrap();
        assert_eq!(Reader::open(&path).unwrap().happened(ReservationId(1)).unwrap().0.len(), 1);
        assert_eq!(stored(&path), [1, 2]);
    }
}

#[test]
fn records_come_page_by_page_with_all_that_a_replay_needs() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join(FILE)).unwrap();
    let job = |id: u128, submitted: i64, resource: &str| JobRow {
        id: JobId(id),
        resource: resource.into(),
        kind: "processors".into(),
        owner: "ada".into(),
        project: "physics".into(),
        reservation: None,
        state: "done".to_owned(),
        over: true,
        capacity: Capacity(4),
        submitted: Time(submitted),
        started: Some(Time(submitted + 10)),
        ended: Some(Time(submitted + 70)),
        latest: Some(Time(submitted + 130)),
    };
    let jobs =
        (0..7_u128).map(|id| job(id, 1_000 + 100 * id as i64, "cluster")).chain([job(99, 1_000, "other")]);
    let seen = Sightings { jobs: jobs.map(|job| (job.id, Some(job))).collect(), ..Sightings::default() };
    store.write(&seen, &[], None).unwrap();
    for id in 0..3 {
        let booked = BookedPart {
            window: Some(Interval::new(Time(2_000), Time(9_000))),
            ..ended(part(State::Cancelled, &[(3_000, 4_000, 2)]), 2_500)
        };
        store
            .write(
                &sighting(id, 2_500, BookedPart { state: State::Committed, ended: None, ..booked.clone() }),
                &[],
                None,
            )
            .unwrap();
        store.write(&sighting(id, 2_500, booked), &[], None).unwrap();
    }
    let always = Interval::new(Time(0), Time(i64::MAX));
    let mut asked = RecordsQuestion {
        window: always,
        owner: None,
        resource: Some("cluster".into()),
        after: None,
        limit: 3,
    };
    let (mut jobs, mut reservations, mut pages) = (Vec::new(), Vec::new(), 0);
    loop {
        let page = records::page(&folder.path().join(FILE), &asked).unwrap();
        assert!(page.jobs.len() + page.reservations.len() <= 3);
        jobs.extend(page.jobs);
        reservations.extend(page.reservations);
        pages += 1;
        let Some(next) = page.next else { break };
        asked.after = Some(next.parse().unwrap());
    }
    assert_eq!((jobs.len(), reservations.len(), pages), (7, 3, 5));
    assert_eq!((jobs[0].limit_seconds, jobs[0].project.as_deref()), (Some(120), Some("physics")));
    let first = &reservations[0];
    assert_eq!((first.spans[0].capacity, first.spans.len(), first.state.as_str()), (2, 1, "cancelled"));
    let times = [first.accepted, first.ended, first.earliest_start, first.latest_end];
    assert_eq!(times.map(|time| time.unwrap().time().0), [5, 2_500, 2_000, 9_000]);
    asked =
        RecordsQuestion { window: Interval::new(Time(1_100), Time(1_300)), after: None, limit: 100, ..asked };
    let page = records::page(&folder.path().join(FILE), &asked).unwrap();
    assert_eq!((page.jobs.len(), page.reservations.len()), (2, 0));
}
