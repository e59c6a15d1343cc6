//! A site that one user fills with holds that it cancels: neither its memory nor the time of a start grows with their
//! number. `./test --long` makes a million.

use crate::kept_journals::bounded_site;
use crate::{folder, unsynced};
use bookahead_party::batch::{BatchOrder, BatchReport};
use bookahead_party::site::{Site, SiteEvent};
use bookahead_party::{CallId, Input, Origin, Party};
use bookahead_plan::{Capacity, Seconds, Time, placement};
use bookahead_protocol::ledger::Bounds;
use bookahead_protocol::per_user::Most;
use bookahead_protocol::{
    Call, Caller, Envelope, Key, Millis, Moment, Part, Request, Requirement, ReservationId, Test, Value,
};
use bookahead_service::clock::Clock;
use bookahead_service::journal::{Journal, Kind, check};
use bookahead_service::thread::PartyOptions;
use bookahead_tests::cases::long;
use std::fs;
use std::time::Instant;

/// Events between two snapshots: as in a service in a long run.
const EVENTS: u64 = 50_000;

fn call(number: u128, call: Call) -> Input {
    let caller = Caller { user: "eve".into(), roles: Vec::new() };
    let envelope = Envelope { key: Key(number), caller, call };
    Input::Call { call: CallId(1), envelope, origin: Origin::default() }
}

/// A hold with about this much text, in a requirement that the site meets.
fn reserve(id: ReservationId, text: usize) -> Call {
    let wanted = placement::Request {
        earliest_start: Time(1_000_000_000),
        latest_end: Time(1_000_000_100),
        duration: Seconds(100),
        capacity: Capacity(1),
    };
    let mut part = Part::new(wanted, "processors");
    if text > 0 {
        let other = Value::Text("x".repeat(250).as_str().into());
        let sites = [Value::Text("north".into())].into_iter().chain(vec![other; text / 250]);
        part.requirements =
            vec![Requirement { attribute: "site".into(), test: Test::OneOf(sites.collect()) }];
    }
    Call::Reserve { id, request: Request::single(part), hold_for: Millis(60_000), book: false }
}

/// A hold and its cancellation. Returns the events.
fn hold_and_cancel(site: &mut Site, number: u128, text: usize) -> Vec<SiteEvent> {
    let (id, now) = (ReservationId(number), Moment(i64::try_from(number).unwrap()));
    let mut events = Vec::new();
    for input in [call(2 * number, reserve(id, text)), call(2 * number + 1, Call::Cancel { id })] {
        let out = site.step(now, input);
        events.extend(out.events);
        // The scheduler carries out all orders. Otherwise the site would remember them.
        for order in out.batch {
            if let BatchOrder::Keep { order, backing } = order {
                let report = BatchReport::Kept { order, id: backing.id, outcome: Ok(()) };
                events.extend(site.step(now, Input::Batch(report)).events);
            }
        }
    }
    events
}

fn kind() -> Kind {
    Kind::new(Site::KIND, "north", Site::SCHEMA)
}

/// A figure of this process in kilobytes.
fn memory(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap_or("0");
    line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
}

/// State of a site after a number of holds.
struct After {
    /// Size of its state as JSON.
    state: usize,
    reservations: usize,
    /// Events to replay at a start.
    to_replay: u64,
}

fn after(site: &Site, path: &std::path::Path) -> After {
    let report = check(path).unwrap();
    After {
        state: serde_json::to_string(&site.state()).unwrap().len(),
        reservations: site.ledger().entries().count(),
        to_replay: report.last - report.base,
    }
}

#[test]
fn holds_without_end_of_one_user_take_no_more_memory_and_no_longer_starts() {
    let few = Most { each: 1 << 20, all: 4 << 20 };
    let (holds, every, bounds) = match long() {
        true => (1_000_000, EVENTS, Bounds::default()),
        false => (4_000, EVENTS / 25, Bounds { ended: few, answers: few, ..Bounds::default() }),
    };
    let (_folder, path) = folder();
    let mut site = bounded_site(None, bounds);
    let (journal, _) = Journal::<SiteEvent>::open_with(&path, &kind(), &unsynced()).unwrap();
    let (mut last, mut last_snapshot) = (0, 0);
    let mut seen = Vec::new();
    for number in 1..=holds {
        // Every hundredth is large.
        let events = hold_and_cancel(&mut site, number, if number % 100 == 0 { 20_000 } else { 0 });
        last += events.len() as u64;
        drop(journal.append(&events).unwrap());
        if last - last_snapshot >= every {
            journal.snapshot(last, &site.state()).unwrap();
            journal.compact().unwrap();
            last_snapshot = last;
        }
        if number % (holds / 4) == 0 {
            journal.append(&[]).unwrap().wait().unwrap();
            seen.push(after(&site, &path));
            println!(
                "{number} holds: {} reservations, {} MB",
                seen.last().unwrap().reservations,
                memory("VmRSS:") / 1_024
            );
        }
    }
    journal.close().unwrap();
    let [_, .., before, end] = &seen[..] else { unreachable!() };
    assert!(seen.iter().all(|after| after.to_replay <= 2 * every));
    assert!(end.state < before.state + before.state / 10, "{} bytes after {}", end.state, before.state);
    assert_eq!(end.reservations, before.reservations);
    let began = Instant::now();
    let options = PartyOptions::new("north".into(), path.clone(), Clock::WALL);
    let (up_to, _) = options.compact(bounded_site(None, bounds)).unwrap();
    println!("opened and compacted in {:?}; at most {} MB", began.elapsed(), memory("VmHWM:") / 1_024);
    assert_eq!(up_to, last);
}

#[test]
fn a_journal_full_of_long_texts_is_opened_with_little_memory_and_can_be_compacted() {
    let (holds, few) = (300, Most { each: 1 << 20, all: 4 << 20 });
    let bounds = Bounds { texts: few, ..Bounds::default() };
    let (_folder, path) = folder();
    let mut site = bounded_site(None, bounds);
    let (journal, _) = Journal::<SiteEvent>::open_with(&path, &kind(), &unsynced()).unwrap();
    for number in 1..=holds {
        let events = hold_and_cancel(&mut site, number, 100_000);
        assert_eq!(events.len(), 4);
        journal.append(&events).unwrap().wait().unwrap();
    }
    journal.close().unwrap();
    drop(site);
    let written = fs::metadata(&path).unwrap().len() >> 20;
    // The peak begins anew.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS:");
    let options = PartyOptions::new("north".into(), path.clone(), Clock::WALL);
    let (_, dropped) = options.compact(bounded_site(None, bounds)).unwrap();
    assert!(dropped >= 1_200, "{dropped}");
    let more = memory("VmHWM:").saturating_sub(before) >> 10;
    println!("{written} MB of events were opened with {more} MB more");
    assert!(written >= 28 && more < written / 2, "{written} MB of events took {more} MB");
    let left = fs::metadata(&path).unwrap().len() >> 20;
    assert!(left < 8, "{left} MB are left");
}
