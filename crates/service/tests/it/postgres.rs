//! Journals in PostgreSQL, with a real server: they behave as those in files, survive everything that a database and
//! its network do, and a process without its lease can write nothing.

use crate::chance::Chance;
use crate::children::{LEASE, acknowledged, assert_kept, child};
use crate::{Note, folded, folder, kind, note, notes};
use bookahead_service::journal::{
    Claim, Database, Journal, JournalError, Kind, Lease, LeaseTerms, Options, Store, check, copy, export,
};
use bookahead_tests::cases::cases;
use bookahead_tests::polling::until;
use bookahead_tests::postgres::{Proxy, Server, url};
use bookahead_tests::signals::signal;
use proptest::prelude::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

fn store(url: &str) -> Store {
    Store::parse(Path::new(url), Path::new("")).unwrap()
}

fn lease(length: Duration) -> Lease {
    Lease::new(LeaseTerms { length, ..LeaseTerms::default() }, "http://here")
}

fn with_lease(length: Duration) -> Options {
    Options { lease: lease(length), ..Options::default() }
}

type Opened = (Journal<Note>, bookahead_service::journal::Replay<Note>);

fn open(url: &str, length: Duration) -> Result<Opened, JournalError> {
    Journal::open_with(store(url), &kind(), &with_lease(length))
}

/// Opens it as soon as the lease of another process has ended.
fn take_over(url: &str, length: Duration) -> Opened {
    until(|| match open(url, length) {
        Err(other) if !matches!(other, JournalError::Held { .. }) => panic!("{other}"),
        opened => opened,
    })
}

const SECOND: Duration = Duration::from_secs(1);

/// One thing that is done to a journal.
#[derive(Debug, Clone)]
enum Step {
    Append(u32),
    Snapshot(u32),
    Compact,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u32).prop_map(Step::Append),
        2 => (0..30_u32).prop_map(Step::Snapshot),
        1 => Just(Step::Compact),
        2 => Just(Step::Reopen),
    ]
}

/// Everything that can be seen of a journal, without times.
fn seen(store: &Store) -> (String, Vec<Note>, usize) {
    seen_of(store, &kind())
}

fn seen_of(store: &Store, kind: &Kind) -> (String, Vec<Note>, usize) {
    let report = check(store).unwrap();
    let shown = format!("{} {} {} {}", report.base, report.last, report.records, report.is_sound());
    let (journal, replay) = Journal::<Note>::open(store, kind).unwrap();
    journal.close().unwrap();
    let mut lines = Vec::new();
    let exported = export(store, &mut lines).unwrap();
    (format!("{shown} {exported}"), folded(&replay), report.snapshots)
}

/// The outcome of each step, and what can be seen at the end.
fn run(store: &Store, kind: &Kind, steps: &[Step]) -> (Vec<String>, (String, Vec<Note>, usize)) {
    let open = || Journal::<Note>::open(store, kind).unwrap();
    let (mut journal, replay) = open();
    assert!(replay.fresh);
    let (mut all, mut outcomes) = (Vec::<Note>::new(), Vec::new());
    for step in steps {
        outcomes.push(match step {
            Step::Append(count) => {
                let first = all.len() as u32;
                let some = notes(first..first + count);
                all.extend(some.iter().cloned());
                format!("{:?}", journal.append(&some).unwrap().wait())
            }
            Step::Snapshot(up_to) => {
                let state = all.iter().take(*up_to as usize).collect::<Vec<_>>();
                format!("{:?}", journal.snapshot(u64::from(*up_to), &state))
            }
            Step::Compact => format!("{:?}", journal.compact()),
            Step::Reopen => {
                journal.close().unwrap();
                let (again, replay) = open();
                assert!(!replay.fresh);
                assert_eq!(folded(&replay), all);
                journal = again;
                String::new()
            }
        });
    }
    journal.close().unwrap();
    (outcomes, seen_of(store, kind))
}

#[test]
fn journals_in_files_and_in_postgresql_behave_alike() {
    let server = Server::start(&[]);
    let (first, second) = (server.database("alike"), server.database("copied"));
    let number = std::cell::Cell::new(0);
    let config = cases(24);
    proptest!(config, |(steps in prop::collection::vec(step(), 1..20))| {
        number.set(number.get() + 1);
        // A party for each case: a database of its own would take a second to create.
        let party = format!("party{}", number.get());
        let kind = Kind::new("notes", party.as_str(), 1);
        let (_folder, path) = folder();
        let (file, database) = (Store::from(&*path), store(&format!("{first}?party={party}")));
        prop_assert_eq!(run(&file, &kind, &steps), run(&database, &kind, &steps));
        // There and back: every record is the same.
        let (_other, back) = folder();
        let forth = store(&format!("{second}?party={party}"));
        let copied = copy(&file, &forth).unwrap();
        prop_assert_eq!(&copied, &copy(&forth, &*back).unwrap());
        prop_assert_eq!(seen_of(&file, &kind), seen_of(&Store::from(&*back), &kind));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        export(&file, &mut one).unwrap();
        export(&forth, &mut other).unwrap();
        prop_assert_eq!(one, other, "times and schemas, too");
    });
}

#[test]
fn a_copy_is_refused_where_there_is_a_journal_or_the_source_is_in_use_or_damaged() {
    let server = Server::start(&[]);
    let (_folder, path) = folder();
    crate::filled(&path);
    let url = server.database("taken");
    copy(&*path, store(&url)).unwrap();
    let why = copy(&*path, store(&url)).unwrap_err().to_string();
    assert!(why.contains("already") && !why.contains("only-for-tests"), "{why}");
    let (journal, _) = open(&url, SECOND).unwrap();
    let (_other, elsewhere) = folder();
    assert!(matches!(copy(store(&url), &*elsewhere), Err(JournalError::Held { .. })));
    journal.close().unwrap();
    server.sql("taken", "UPDATE bookahead.record SET event = 'x' WHERE sequence = 22");
    assert!(matches!(copy(store(&url), &*elsewhere), Err(JournalError::Damaged { .. })));
    assert!(!elsewhere.exists());
    let report = check(store(&url)).unwrap();
    assert_eq!(report.damages.len(), 1, "{report}");
    assert!(matches!(open(&url, SECOND), Err(JournalError::Damaged { .. })));
}

#[test]
fn one_database_keeps_many_parties_apart() {
    let server = Server::start(&[]);
    let url = server.database("many");
    let (north, _) = open(&url, SECOND).unwrap();
    let other = Kind::new("notes", "south", 1);
    let (south, _) = Journal::<Note>::open(store(&url), &other).unwrap();
    north.append(&notes(0..3)).unwrap().wait().unwrap();
    south.append(&notes(5..6)).unwrap().wait().unwrap();
    north.close().unwrap();
    south.close().unwrap();
    let why = check(store(&url)).unwrap_err().to_string();
    assert!(why.contains("north, south") && why.contains("party=NAME"), "{why}");
    let of = |party: &str| check(store(&format!("{url}?party={party}"))).unwrap().records;
    assert_eq!((of("north"), of("south")), (3, 1));
}

#[test]
fn a_server_that_may_lose_acknowledged_writes_or_is_not_the_right_one_is_refused() {
    let server = Server::start(&[]);
    let url = server.database("unsafe");
    server.sql("postgres", "ALTER DATABASE unsafe SET synchronous_commit = off");
    let why = open(&url, SECOND).map(drop).unwrap_err().to_string();
    assert!(why.contains("synchronous_commit is off"), "{why}");
    server.sql("postgres", "ALTER DATABASE unsafe RESET synchronous_commit");
    open(&url, SECOND).unwrap().0.close().unwrap();
    server.sql("unsafe", "UPDATE bookahead.format SET version = 99");
    assert!(matches!(open(&url, SECOND), Err(JournalError::Newer { found: 99, .. })));
    let wrong = url.replace("only-for-tests", "secret-guess");
    let why = open(&wrong, SECOND).map(drop).unwrap_err().to_string();
    assert!(why.contains("password authentication failed") && !why.contains("secret-guess"), "{why}");
}

#[test]
fn a_journal_has_one_holder_and_the_next_one_has_a_higher_epoch() {
    let server = Server::start(&[]);
    let url = server.database("one");
    let (journal, _) = open(&url, 3 * SECOND).unwrap();
    let first = journal.lease().epoch();
    let Err(JournalError::Held { by, .. }) = open(&url, SECOND) else { panic!("two holders") };
    assert!(by.contains(&format!("process {}", std::process::id())), "{by}");
    let database = Database::parse(&url, Path::new("")).unwrap();
    let active = Claim::take(&database, &kind(), &lease(SECOND), None).unwrap().unwrap_err();
    assert_eq!(active.address.as_deref(), Some("http://here"));
    // It is renewed while nothing is written, and still held when the first lease would have ended.
    let end = server.sql("one", "SELECT lease_until FROM bookahead.party");
    while server.sql("one", &format!("SELECT now() > '{end}'")) != "t" {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(journal.lease().is_held());
    assert!(matches!(open(&url, SECOND), Err(JournalError::Held { .. })));
    journal.close().unwrap();
    let (journal, _) = open(&url, SECOND).unwrap();
    assert!(journal.lease().epoch() > first, "at once, because the lease was given back");
    assert!(!journal.lease().allows(2 * SECOND));
}

#[test]
fn a_holder_that_was_taken_over_writes_nothing_and_loses_its_lease() {
    let server = Server::start(&[]);
    let url = server.database("over");
    let (old, _) = open(&url, SECOND).unwrap();
    old.append(&notes(0..2)).unwrap().wait().unwrap();
    // As if the process had been stopped for so long that the lease is over.
    server.sql("over", "UPDATE bookahead.party SET lease_until = now() - interval '1 hour'");
    let (new, replay) = open(&url, 60 * SECOND).unwrap();
    assert!(new.lease().epoch() > old.lease().epoch());
    assert_eq!(replay.events.len(), 2);
    let why = old.append(&notes(2..3)).and_then(bookahead_service::journal::Ticket::wait).unwrap_err();
    assert!(matches!(why, JournalError::LeaseLost { .. }), "{why}");
    assert!(!old.lease().is_held());
    new.append(&notes(2..4)).unwrap().wait().unwrap();
    new.close().unwrap();
    drop(old);
    assert_eq!(seen(&store(&url)).1, notes(0..4));
}

#[test]
fn a_commit_without_an_answer_is_found_and_not_repeated() {
    let server = Server::start(&[]);
    let url_behind = server.database("unknown");
    let proxy = Proxy::to(server.port());
    let (journal, _) = open(&url(proxy.port(), "unknown"), 5 * SECOND).unwrap();
    for number in 0..40 {
        proxy.cut_after_commit();
        journal.append(&[note(0, number)]).unwrap().wait().unwrap();
    }
    assert_eq!(proxy.cuts(), 40);
    journal.close().unwrap();
    assert_eq!(seen(&store(&url_behind)).1, notes(0..40));
}

#[test]
fn a_database_that_restarts_only_delays_appends() {
    let mut server = Server::start(&[]);
    let url = server.database("restarted");
    let (journal, _) = open(&url, 20 * SECOND).unwrap();
    for round in 0..3 {
        journal.append(&[note(0, 2 * round)]).unwrap().wait().unwrap();
        server.kill();
        let waiting = journal.append(&[note(0, 2 * round + 1)]).unwrap();
        server.start_again();
        waiting.wait().unwrap();
    }
    journal.close().unwrap();
    assert_eq!(seen(&store(&url)).1, notes(0..6));
}

#[test]
fn a_holder_that_cannot_reach_the_database_stops_before_another_takes_over() {
    let server = Server::start(&[]);
    let direct = server.database("cut");
    let proxy = Proxy::to(server.port());
    let (journal, _) = open(&url(proxy.port(), "cut"), SECOND).unwrap();
    journal.append(&notes(0..1)).unwrap().wait().unwrap();
    proxy.block(true);
    let waiting = journal.append(&notes(1..2)).unwrap();
    let lease = journal.lease().clone();
    let until = Instant::now() + 20 * SECOND;
    let new = loop {
        // A process that takes over finds the lease of the other one ended.
        let held_before = lease.is_held();
        match open(&direct, SECOND) {
            Ok((new, _)) => break new,
            Err(JournalError::Held { .. }) if Instant::now() < until => {}
            Err(other) => panic!("{other}"),
        }
        assert!(held_before || !lease.is_held(), "a lease does not come back");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(!lease.is_held(), "the old holder had stopped before");
    assert!(matches!(waiting.wait(), Err(JournalError::LeaseLost { .. })));
    proxy.block(false);
    assert!(journal.append(&notes(1..2)).is_err());
    new.append(&notes(1..3)).unwrap().wait().unwrap();
    new.close().unwrap();
    assert_eq!(seen(&store(&direct)).1, notes(0..3));
}

#[test]
fn what_a_killed_or_stopped_process_had_acknowledged_is_there() {
    let server = Server::start(&[]);
    let url = server.database("killed");
    let chance = &mut Chance(2002);
    let mut all = Vec::new();
    for round in 0..8 {
        let mut child = child("append for ever", Path::new(&url)).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = out.lines().map_while(Result::ok).filter_map(|line| acknowledged(&line));
        all.extend(lines.by_ref().take(1 + chance.below(60) as usize));
        let signal = |name: &str| signal(child.id(), name);
        if round % 2 == 0 {
            signal("KILL");
        } else {
            signal("STOP");
            // Another process is active meanwhile, and the first one wakes up without its lease.
            let (journal, replay) = take_over(&url, LEASE);
            let before = replay.events.len();
            signal("CONT");
            all.extend(lines.by_ref());
            journal.close().unwrap();
            let report = check(store(&url)).unwrap();
            assert_eq!(report.records as usize, before, "it wrote nothing after it woke up");
        }
        all.extend(lines);
        child.wait().unwrap();
        let (journal, _) = take_over(&url, LEASE);
        journal.close().unwrap();
        assert!(assert_kept(store(&url), &all) >= all.len());
    }
}

#[test]
fn a_database_without_the_last_acknowledged_record_is_refused_and_left_as_it_is() {
    let server = Server::start(&[]);
    let (folder, _) = folder();
    let mark = folder.path().join("journal.mark");
    let open = |url: &str, mark: &Path| {
        let options = Options { mark: Some(mark.to_owned()), ..with_lease(SECOND) };
        Journal::<Note>::open_with(store(url), &kind(), &options).map(|(journal, _)| journal)
    };
    let write = |journal: Journal<Note>, numbers| {
        journal.append(&notes(numbers)).unwrap().wait().unwrap();
        journal.close().unwrap();
    };
    let refused = |url: &str, mark: &Path| {
        let why = open(url, mark).map(drop).unwrap_err();
        assert!(matches!(why, JournalError::Damaged { .. }), "{why}");
        let why = why.to_string();
        assert!(why.contains(&format!("delete {}", mark.display())), "{why}");
        why
    };
    let [newest, older, other] = ["newest", "older", "other"].map(|name| server.database(name));
    write(open(&newest, &mark).unwrap(), 0..3);
    copy(store(&newest), store(&older)).unwrap();
    copy(store(&newest), store(&other)).unwrap();
    let journal = open(&newest, &mark).unwrap();
    journal.append(&notes(3..5)).unwrap().wait().unwrap();
    // A stand-by learns the last record from the row of the party.
    let standing_by = folder.path().join("standing-by.mark");
    let database = Database::parse(&newest, Path::new("")).unwrap();
    Claim::take(&database, &kind(), &lease(SECOND), Some(&standing_by)).unwrap().unwrap_err();
    journal.close().unwrap();
    for mark in [&mark, &standing_by] {
        assert!(refused(&older, mark).contains("ends with record 3, but records up to 5"));
    }
    let unmarked = folder.path().join("unmarked.mark");
    write(open(&other, &unmarked).unwrap(), 5..8);
    assert!(refused(&other, &mark).contains("its record 5 is not the one"));
    let empty = server.database("empty");
    assert!(refused(&empty, &mark).contains("it is gone"));
    assert_eq!(
        server.sql("empty", "SELECT to_regclass('bookahead.party') IS NULL"),
        "t",
        "nothing is created"
    );
    server.sql(
        "newest",
        "DELETE FROM bookahead.record; DELETE FROM bookahead.snapshot; DELETE FROM bookahead.party",
    );
    assert!(refused(&newest, &standing_by).contains("it is gone"));
    // Deleting the mark accepts the loss.
    std::fs::remove_file(&mark).unwrap();
    open(&older, &mark).unwrap().close().unwrap();
    assert!(open(&older, &mark).is_ok());
}
