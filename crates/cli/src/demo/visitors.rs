//! The simulated users of the demo. They reserve through the API at the broker and at the sites; most commit, some
//! cancel, some let the hold expire. The seed determines their requests, the clock their times.
//!
//! The statistics at the end contain the number of visits, and memory and disk usage for each hour of the demo, to show
//! that nothing grows without bound.

use super::grid::Grid;
use crate::chance::Chance;
use crate::output::say;
use anyhow::Result;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, make};
use bookahead_plan::{Seconds, Time};
use bookahead_service::clock::Clock;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Concurrent visits at most; further ones wait. Bounds the load at a high speed of the clock.
const AT_ONCE: usize = 48;

/// Servers of visits and the kind of resource requested there, each with the same probability.
const WHERE: [(&str, &str); 5] = [
    ("broker", "processors"),
    ("centre", "processors"),
    ("university", "processors"),
    ("laboratory", "processors"),
    ("museum", "seats"),
];

/// Server and kind of the visits beyond this many per hour. That resource has room for thousands of reservations.
const CROWD: ((&str, &str), u32) = (("museum", "bandwidth"), 600);

/// Processor-seconds requested per hour by all visits together. Does not depend on `--visitors`, so that more visits
/// make smaller requests and do not fill the sites.
const WANTED_IN_AN_HOUR: i64 = 60 * 3_600;

/// Counts of visits by outcome.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Visits {
    /// Holds that were granted.
    pub(crate) reservations: u64,
    /// Holds that were committed.
    pub(crate) committed: u64,
    /// Holds that were cancelled at once.
    pub(crate) cancelled: u64,
    /// Holds that were left to expire.
    pub(crate) left: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
}

pub(crate) struct Visitors {
    visits: Arc<Mutex<Visits>>,
    coming: JoinHandle<()>,
    places: Arc<Semaphore>,
}

struct Visit {
    client: Client,
    reserve: api::Reserve,
    then: Then,
}

enum Then {
    Commit,
    Cancel,
    Forget,
}

impl Visitors {
    /// Starts visits, `in_an_hour` per hour of the demo.
    pub(crate) fn begin(handle: &Handle, grid: &Grid, in_an_hour: u32, seed: u64) -> Result<Visitors> {
        let (visits, places) = (Arc::<Mutex<Visits>>::default(), Arc::new(Semaphore::new(AT_ONCE)));
        let clients = grid.clients()?;
        let all: Vec<(Client, &str)> = WHERE
            .iter()
            .chain([&CROWD.0])
            .flat_map(|(place, kind)| {
                clients.iter().filter(move |(name, _)| name == place).map(|(_, c)| (c.clone(), *kind))
            })
            .collect();
        let clock = grid.clock();
        let coming = handle.spawn(come(all, clock, in_an_hour, Chance(seed), visits.clone(), places.clone()));
        Ok(Visitors { visits, coming, places })
    }

    /// Stops new visits and waits for the current ones.
    pub(crate) async fn end(&self) {
        self.coming.abort();
        let all = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
        // All permits are free when no visit is running. Fails only if the semaphore is closed, which it never is.
        let _ = self.places.acquire_many(all).await;
    }

    /// The counts so far.
    pub(crate) fn visits(&self) -> Visits {
        *self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn come(
    all: Vec<(Client, &'static str)>,
    clock: Clock,
    in_an_hour: u32,
    mut chance: Chance,
    visits: Arc<Mutex<Visits>>,
    places: Arc<Semaphore>,
) {
    if in_an_hour == 0 {
        // Never returns, like the loop below, so that the task can be aborted in the same way.
        return std::future::pending().await;
    }
    let pause = Duration::from_secs(3_600) / in_an_hour / clock.speed();
    // `interval` panics if the period is zero, as it would be for many visits at a high speed.
    let mut times = tokio::time::interval(pause.max(Duration::from_micros(100)));
    loop {
        times.tick().await;
        // Waits for a permit before the request is drawn, so that its times are not stale when it is sent.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let mean_area = WANTED_IN_AN_HOUR / i64::from(in_an_hour);
        // On average CROWD.1 visits per hour go to the usual servers.
        let crowd = chance.below(in_an_hour) >= CROWD.1;
        let (usual, crowded) = all.split_at(WHERE.len().min(all.len()));
        let open = if crowd && !crowded.is_empty() { crowded } else { usual };
        let visit = Visit::draw(open, clock.now().second(), mean_area, &mut chance);
        let visits = visits.clone();
        tokio::spawn(async move {
            visit.make(&visits).await;
            drop(place);
        });
    }
}

impl Visit {
    fn draw(open: &[(Client, &'static str)], now: Time, mean_area: i64, chance: &mut Chance) -> Visit {
        let (client, kind) = open[chance.below(open.len() as u32) as usize].clone();
        let area = mean_area * i64::from(50 + chance.below(100)) / 100;
        let capacity = 1 << chance.below(if kind == "seats" { 4 } else { 6 });
        let duration = Seconds((area / i64::from(capacity)).clamp(60, 7_200));
        let begin = now + Seconds(600 + 60 * i64::from(chance.below(480)));
        let part = api::Part {
            kind: kind.into(),
            capacity,
            duration_seconds: duration.0,
            earliest_start: api::Timestamp::nearest(begin),
            latest_end: api::Timestamp::nearest(begin + duration + Seconds(7_200)),
            requirements: Vec::new(),
            resource: None,
            replaces: None,
            changes: None,
            up_to: None,
            measured_on: None,
            tres: Default::default(),
        };
        let request = api::Request::new(vec![part], Vec::new());
        let then = match chance.below(10) {
            0..8 => Then::Commit,
            8 => Then::Cancel,
            _ => Then::Forget,
        };
        let caller = bookahead_protocol::Caller {
            user: format!("visitor-{}", chance.below(200)).into(),
            roles: vec!["user".into()],
        };
        // Five minutes by the clock of the demo, which is five seconds of real time at the usual speed.
        let reserve =
            api::Reserve { id: None, request, hold_for_seconds: api::FineSeconds(300_000), book: false };
        Visit { client: client.on_behalf_of(&caller), reserve, then }
    }

    async fn make(self, visits: &Mutex<Visits>) {
        match self.book(visits).await {
            Ok(()) => {}
            Err(ClientError::Refused(_)) => count(visits, |visits| &mut visits.refused),
            Err(_) => count(visits, |visits| &mut visits.failed),
        }
    }

    async fn book(&self, visits: &Mutex<Visits>) -> Result<(), ClientError> {
        let held = self.client.reserve(&self.reserve, &make::key()?.to_string()).await?;
        count(visits, |visits| &mut visits.reservations);
        match self.then {
            Then::Commit => {
                self.client.commit(held.id, &api::Commit::default()).await?;
                count(visits, |visits| &mut visits.committed);
            }
            Then::Cancel => {
                self.client.cancel(held.id).await?;
                count(visits, |visits| &mut visits.cancelled);
            }
            Then::Forget => count(visits, |visits| &mut visits.left),
        }
        Ok(())
    }
}

fn count(visits: &Mutex<Visits>, which: fn(&mut Visits) -> &mut u64) {
    *which(&mut visits.lock().unwrap_or_else(PoisonError::into_inner)) += 1;
}

/// Statistics at one moment.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Look {
    /// By the clock of the demo.
    now: String,
    reservations: u64,
    /// Resident memory of the whole process.
    memory_bytes: u64,
    /// Size of all journals together.
    journal_bytes: u64,
}

/// Collects statistics while the demo runs.
pub(crate) struct Account {
    folder: PathBuf,
    looks: Mutex<Vec<Look>>,
}

/// The statistics at the end.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    visits: Visits,
    looks: Vec<Look>,
    /// Number of journal events by service.
    events: Vec<(String, u64)>,
}

impl Account {
    pub(crate) fn begin(folder: &Path) -> Account {
        Account { folder: folder.to_owned(), looks: Mutex::default() }
    }

    /// Records statistics, and prints them if `aloud`.
    pub(crate) async fn look(&self, grid: &Grid, visitors: &Visitors, aloud: bool) {
        let look = Look {
            now: bookahead_api::Timestamp::nearest(grid.clock().now().second()).to_string(),
            reservations: visitors.visits().reservations,
            memory_bytes: memory(),
            journal_bytes: size_of(&self.folder),
        };
        if aloud {
            say!("{look}");
        }
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).push(look);
    }

    pub(crate) async fn told(&self, grid: &Grid, visitors: &Visitors) -> Result<Told> {
        self.look(grid, visitors, false).await;
        let mut events = Vec::new();
        for (name, client) in grid.clients()? {
            events.push((name.to_owned(), client.health().await?.journal_sequence));
        }
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Told { visits: visitors.visits(), looks, events })
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Look { now, reservations, memory_bytes, journal_bytes } = self;
        let (memory, journals) = (memory_bytes >> 20, journal_bytes >> 20);
        write!(f, "{now}: {reservations} reservations, memory {memory} MiB, journals {journals} MiB")
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Visits { reservations, committed, cancelled, left, refused, failed } = self.visits;
        write!(
            f,
            "Visitors made {reservations} reservations: {committed} committed, {cancelled} cancelled, {left} left to \
             expire; {refused} requests were refused, {failed} calls failed."
        )?;
        self.looks.last().map_or(Ok(()), |look| write!(f, "\n{look}"))
    }
}

/// Resident memory of this process in bytes; 0 if the system does not report it.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => size_of(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
