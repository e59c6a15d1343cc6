//! The journal of a site: events per second that become durable with 64 waiting clients, with one sync for all waiting
//! clients, one sync per command, and none; and the time to read, verify and decode 100,000 events, compared with
//! parsing their text alone. The disk is that of the target folder.

use bookahead_benches::people;
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::ledger::{Event, Ledger, Offered, Rules, Views};
use bookahead_protocol::{
    Call, Caller, Envelope, Key, Millis, Moment, Part, Request, ReservationId, Resource,
};
use bookahead_service::journal::{Durability, Journal, JournalError, Kind, Options};
use std::error::Error;
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

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("journal-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let commands = commands(2_000);
    let outcome = writing(&folder, &commands).and_then(|()| replaying(&folder, &commands));
    std::fs::remove_dir_all(&folder)?;
    outcome
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

fn writing(folder: &Path, commands: &[Vec<Event>]) -> Result<(), Box<dyn Error>> {
    println!("{WRITERS} writers, each waiting until its command is durable; {ROUNDS} rounds, the median");
    let mut rates: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        for (at, (_, durability)) in MODES.into_iter().enumerate() {
            rates[at].push(rate(&folder.join(format!("{round}-{at}.journal")), commands, durability)?);
        }
    }
    let rates = rates.map(median);
    for ((name, _), rate) in MODES.into_iter().zip(rates) {
        println!("{name:>32} {rate:>10.0} events/s {:>8.1} times", rate / rates[0]);
    }
    Ok(())
}

/// Durable events per second.
fn rate(path: &Path, commands: &[Vec<Event>], durability: Durability) -> Result<f64, JournalError> {
    let options = Options { durability, ..Options::default() };
    let (journal, _) = Journal::<Event>::open_with(path, &kind(), &options)?;
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
    std::thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("writers do not panic"))
    })?;
    let rate = written.into_inner() as f64 / begin.elapsed().as_secs_f64();
    journal.close()?;
    Ok(rate)
}

fn replaying(folder: &Path, commands: &[Vec<Event>]) -> Result<(), Box<dyn Error>> {
    let path: PathBuf = folder.join("replayed.journal");
    let options = Options { durability: Durability::None, ..Options::default() };
    let (journal, _) = Journal::<Event>::open_with(&path, &kind(), &options)?;
    let events: Vec<Event> = commands.iter().flatten().cycle().take(REPLAYED).cloned().collect();
    for some in events.chunks(1_000) {
        drop(journal.append(some)?);
    }
    journal.close()?;
    let texts: Vec<String> = events.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let (mut opening, mut parsing) = (vec![], vec![]);
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
    }
    let (opening, parsing) = (median(opening), median(parsing));
    println!(
        "\n{REPLAYED} events, {} bytes each on average",
        texts.iter().map(String::len).sum::<usize>() / REPLAYED
    );
    let per_second = REPLAYED as f64 / (opening / 1e9);
    println!("{:>32} {:>10} {per_second:>10.0} events/s", "opened, verified and replayed", people(opening));
    println!("{:>32} {:>10} {:>8.1} times as long", "parsed only", people(parsing), parsing / opening);
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
