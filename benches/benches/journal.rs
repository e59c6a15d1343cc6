//! The journal of a site: events per second that become durable with 64 waiting clients, with one sync for all waiting
//! clients, one sync per command, and none, next to a plain table of texts; the same in a PostgreSQL server on this
//! machine, next to `pgbench` with one simple insert per transaction on that server; and the time to read, verify and
//! decode 100,000 events, compared with parsing their text alone. The disk is that of the target folder, and for PostgreSQL that of the temporary folder.

use bookahead_benches::peer::PlainStore;
use bookahead_benches::{Guard, Outcome, Report, guard, median, people};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::ledger::{Event, Ledger, Offered, Rules, Views};
use bookahead_protocol::{
    Call, Caller, Envelope, Key, Millis, Moment, Part, Request, ReservationId, Resource,
};
use bookahead_service::journal::{Durability, Journal, JournalError, Kind, Options, Store};
use bookahead_tests::postgres::Server;
use serde_json::Value;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WRITERS: usize = 64;
const ROUND: Duration = Duration::from_millis(1_500);
/// The modes take turns, because the speed of a shared disk varies; the median counts.
const ROUNDS: usize = 5;
const REPLAYED: usize = 100_000;
const MODES: [(&str, Durability); 3] = [
    ("one sync per command", Durability::EachAppend),
    ("one shared sync", Durability::Grouped),
    ("no sync", Durability::None),
];

pub(crate) fn main() -> Report {
    guard("journal", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("journal-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let commands = commands(2_000);
    let outcome = all(guard, &folder, &commands);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn all(guard: &mut Guard, folder: &Path, commands: &[Vec<Event>]) -> Outcome<()> {
    if guard.wants("writers") {
        writing(guard, folder, commands)?;
    }
    if !Path::new("/usr/lib/postgresql").exists() {
        guard.not_run("PostgreSQL", "it is not installed");
    } else if guard.wants("PostgreSQL") {
        in_postgres(guard, folder, commands)?;
    }
    replaying(guard, folder, commands)
}

/// The events of `count` holds at a site, one list per command.
fn commands(count: u128) -> Vec<Vec<Event>> {
    let placement = placement::Rules {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules { most: 5, gap: Seconds(900), natural: true },
        admission: Admission::default(),
    };
    let resource = Resource::new("north", "cluster", "processors", 1_024);
    let rules = Rules::new("north", vec![Offered { resource, placement }]);
    let mut ledger = Ledger::new(rules).expect("sound rules");
    let hold = |number: u128| {
        let begin = 86_400 + 60 * number as i64;
        let wanted = placement::Request {
            earliest_start: Time(begin),
            latest_end: Time(begin + 3_600),
            duration: Seconds(3_600),
            capacity: Capacity(8),
        };
        let part = Part::new(wanted, "processors");
        let (id, request) = (ReservationId(number), Request::single(part));
        let call = Call::Reserve { id, request, hold_for: Millis(60_000), book: false };
        let caller = Caller { user: format!("user{}", number % 50).into(), roles: vec![] };
        Envelope { key: Key(number), caller, call }
    };
    (0..count).map(|number| ledger.handle(Moment(0), &hold(number), &Views::default()).events).collect()
}

fn kind() -> Kind {
    Kind::new("ledger", "north", 1)
}

fn writing(guard: &mut Guard, folder: &Path, commands: &[Vec<Event>]) -> Outcome<()> {
    println!("{WRITERS} writers, each waiting until its command is durable; {ROUNDS} rounds, the median");
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut plain: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        for (at, (_, durability)) in MODES.into_iter().enumerate() {
            let path = |of: &str| folder.join(format!("{of}-{round}-{at}.journal"));
            rates[at].push(rate(path("ours"), commands, durability)?);
            plain[at].push(plain_rate(&path("plain"), commands, durability)?);
        }
    }
    let (rates, plain) = (rates.map(median), plain.map(median));
    for (((name, _), rate), plain) in MODES.into_iter().zip(rates).zip(plain) {
        let times = rate / rates[0];
        println!("{name:>32} {rate:>10.0} events/s {times:>8.1} times   plain table: {plain:.0}");
        guard.rates(format!("writers, {name}"), rate, plain);
    }
    Ok(())
}

/// The same commands in a file and in PostgreSQL, next to inserts by `pgbench`. A pair is a hold and its commit: two
/// commands.
fn in_postgres(guard: &mut Guard, folder: &Path, commands: &[Vec<Event>]) -> Outcome<()> {
    let server = Server::start(&[]);
    let names = [
        "SQLite, one shared sync",
        "PostgreSQL, one statement each",
        "PostgreSQL, grouped",
        "pgbench, 1 connection",
        "pgbench, 64 connections",
    ];
    let mut rates: [Vec<f64>; 5] = Default::default();
    let store = |url: &str| Store::parse(Path::new(url), Path::new(""));
    for round in 0..ROUNDS {
        let path = folder.join(format!("beside-{round}.journal"));
        let (single, grouped) =
            (server.database(&format!("single{round}")), server.database(&format!("grouped{round}")));
        server.database(&format!("plain{round}"));
        rates[0].push(rate(path, commands, Durability::Grouped)?);
        rates[1].push(rate(store(&single)?, commands, Durability::EachAppend)?);
        rates[2].push(rate(store(&grouped)?, commands, Durability::Grouped)?);
        rates[3].push(inserts(&server, folder, &format!("plain{round}"), 1)?);
        rates[4].push(inserts(&server, folder, &format!("plain{round}"), WRITERS)?);
    }
    let each = commands.iter().map(Vec::len).sum::<usize>() as f64 / commands.len() as f64;
    let rates = rates.map(median);
    println!("\n{WRITERS} writers and PostgreSQL over the loopback address; {ROUNDS} rounds, the median");
    for (at, (name, rate)) in names.into_iter().zip(rates).enumerate() {
        // An insert of pgbench is one command.
        let commands = if at < 3 { rate / each } else { rate };
        let of_single = commands / (rates[1] / each);
        println!(
            "{name:>32} {commands:>10.0} commands/s {:>10.0} pairs/s {of_single:>8.2} times",
            commands / 2.0
        );
    }
    guard.rates("PostgreSQL, one statement each", rates[1] / each, rates[3]);
    guard.rates("PostgreSQL, grouped", rates[2] / each, rates[4]);
    Ok(())
}

/// Transactions per second with one insert of the size of an event each.
fn inserts(server: &Server, folder: &Path, database: &str, connections: usize) -> Outcome<f64> {
    server.sql(database, "CREATE TABLE IF NOT EXISTS plain (id bigserial PRIMARY KEY, event text)");
    let script = folder.join("insert.sql");
    std::fs::write(&script, format!("INSERT INTO plain (event) VALUES ('{}');\n", "x".repeat(400)))?;
    let seconds = ROUND.as_secs().max(2).to_string();
    let mut command = server.pgbench(database);
    command.args(["-n", "-c", &connections.to_string(), "-j", "2", "-T", &seconds, "-f"]).arg(&script);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.ok_or_else(|| format!("pgbench: {text}{}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Durable events per second.
fn rate(
    store: impl Into<Store>,
    commands: &[Vec<Event>],
    durability: Durability,
) -> Result<f64, JournalError> {
    let options = Options { durability, ..Options::default() };
    let (journal, _) = Journal::<Event>::open_with(store, &kind(), &options)?;
    let written = AtomicUsize::new(0);
    let begin = Instant::now();
    let write = |writer: usize| {
        for command in commands.iter().cycle().skip(writer * commands.len() / WRITERS) {
            if begin.elapsed() >= ROUND {
                break;
            }
            journal.append(command)?.wait()?;
            written.fetch_add(command.len(), Ordering::Relaxed);
        }
        Ok(())
    };
    in_threads(write)?;
    let rate = written.into_inner() as f64 / begin.elapsed().as_secs_f64();
    journal.close()?;
    Ok(rate)
}

/// Stored events per second, if their texts are all that is stored.
fn plain_rate(path: &Path, commands: &[Vec<Event>], durability: Durability) -> Outcome<f64> {
    let texts: Vec<String> =
        commands.iter().flatten().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let store = PlainStore::open(path, durability)?;
    let written = AtomicUsize::new(0);
    let begin = Instant::now();
    let write = |writer: usize| {
        for text in texts.iter().cycle().skip(writer * texts.len() / WRITERS) {
            if begin.elapsed() >= ROUND {
                break;
            }
            store.append(text.clone()).blocking_recv()?;
            written.fetch_add(1, Ordering::Relaxed);
        }
        Outcome::Ok(())
    };
    in_threads(write)?;
    Ok(written.into_inner() as f64 / begin.elapsed().as_secs_f64())
}

/// Runs the writers at the same time.
fn in_threads<E: Send>(write: impl Fn(usize) -> Result<(), E> + Sync) -> Result<(), E> {
    std::thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("writers do not panic"))
    })
}

fn replaying(guard: &mut Guard, folder: &Path, commands: &[Vec<Event>]) -> Outcome<()> {
    let path: PathBuf = folder.join("replayed.journal");
    let options = Options { durability: Durability::None, ..Options::default() };
    let (journal, _) = Journal::<Event>::open_with(&path, &kind(), &options)?;
    let events: Vec<Event> = commands.iter().flatten().cycle().take(REPLAYED).cloned().collect();
    for some in events.chunks(1_000) {
        drop(journal.append(some)?);
    }
    journal.close()?;
    let texts: Vec<String> = events.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let (mut opening, mut parsing, mut plainly) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let (journal, replay) = Journal::<Event>::open(&path, &kind())?;
        opening.push(begin.elapsed().as_nanos() as f64);
        assert_eq!(black_box(replay.events).len(), REPLAYED);
        journal.close()?;
        let begin = Instant::now();
        let parsed: Result<Vec<Event>, _> = texts.iter().map(|text| serde_json::from_str(text)).collect();
        parsing.push(begin.elapsed().as_nanos() as f64);
        black_box(parsed?);
        let begin = Instant::now();
        let parsed: Result<Vec<Value>, _> = texts.iter().map(|text| serde_json::from_str(text)).collect();
        plainly.push(begin.elapsed().as_nanos() as f64);
        black_box(parsed?);
    }
    let (opening, parsing) = (median(opening), median(parsing));
    // How events are parsed is ours, too.
    guard.times("replay", opening, median(plainly));
    println!(
        "\n{REPLAYED} events, {} bytes each on average",
        texts.iter().map(String::len).sum::<usize>() / REPLAYED
    );
    let per_second = REPLAYED as f64 / (opening / 1e9);
    println!("{:>32} {:>10} {per_second:>10.0} events/s", "opened, verified and replayed", people(opening));
    println!("{:>32} {:>10} {:>8.1} times as long", "parsed only", people(parsing), parsing / opening);
    Ok(())
}
