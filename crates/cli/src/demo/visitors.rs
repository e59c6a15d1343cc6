//! Those who book in the demo all day long, through the API like everybody: at the broker and at the sites; most commit, some
//! change their mind, some forget. Who they are and what they want is a function of the seed; when they come, of the
//! clock.

use super::grid::Grid;
use anyhow::Result;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, make};
use bookahead_plan::{Seconds, Time};
use bookahead_service::clock::Clock;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// So many are served at once; others come later.
const AT_ONCE: usize = 48;

/// Where visitors go, each as often as the others, and what kind of thing they want there.
const WHERE: [(&str, &str); 5] = [
    ("broker", "processors"),
    ("centre", "processors"),
    ("university", "processors"),
    ("laboratory", "processors"),
    ("museum", "seats"),
];

/// Where those go who come when so many have come in an hour already: there is room for thousands.
const CROWD: ((&str, &str), u32) = (("museum", "bandwidth"), 600);

/// What visitors want in an hour, in all, however many they are: processors times seconds.
const WANTED_IN_AN_HOUR: i64 = 60 * 3_600;

#[derive(Debug, Default)]
struct Counts {
    held: AtomicU64,
    committed: AtomicU64,
    cancelled: AtomicU64,
    left: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

/// What became of visits, to be told.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Visits {
    /// Holds that were granted.
    pub(crate) reservations: u64,
    /// Of these: committed.
    pub(crate) committed: u64,
    /// Given back at once.
    pub(crate) cancelled: u64,
    /// Left to expire.
    pub(crate) left: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
}

pub(crate) struct Visitors {
    counts: Arc<Counts>,
    coming: JoinHandle<()>,
    places: Arc<Semaphore>,
}

/// A visit that is about to be made.
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
    /// They begin to come, so many in an hour of the demo.
    pub(crate) fn begin(handle: &Handle, grid: &Grid, in_an_hour: u32, seed: u64) -> Result<Visitors> {
        let (counts, places) = (Arc::<Counts>::default(), Arc::new(Semaphore::new(AT_ONCE)));
        let clients = grid.clients()?;
        let all: Vec<(Client, &str)> = WHERE
            .iter()
            .chain([&CROWD.0])
            .flat_map(|(place, kind)| {
                clients.iter().filter(move |(name, _)| name == place).map(|(_, c)| (c.clone(), *kind))
            })
            .collect();
        let clock = grid.clock();
        let coming = handle.spawn(come(all, clock, in_an_hour, Chance(seed), counts.clone(), places.clone()));
        Ok(Visitors { counts, coming, places })
    }

    /// Nobody comes any more, and all who are there have left.
    pub(crate) async fn end(&self) {
        self.coming.abort();
        let all = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
        // It is never closed.
        let _ = self.places.acquire_many(all).await;
    }

    /// What became of them so far.
    pub(crate) fn visits(&self) -> Visits {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { held, committed, cancelled, left, refused, failed } = &*self.counts;
        Visits {
            reservations: of(held),
            committed: of(committed),
            cancelled: of(cancelled),
            left: of(left),
            refused: of(refused),
            failed: of(failed),
        }
    }
}

async fn come(
    all: Vec<(Client, &'static str)>,
    clock: Clock,
    in_an_hour: u32,
    mut chance: Chance,
    counts: Arc<Counts>,
    places: Arc<Semaphore>,
) {
    if in_an_hour == 0 {
        return std::future::pending().await;
    }
    let pause = Duration::from_secs(3_600) / in_an_hour / clock.speed();
    let mut times = tokio::time::interval(pause.max(Duration::from_micros(100)));
    loop {
        times.tick().await;
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let mean_area = WANTED_IN_AN_HOUR / i64::from(in_an_hour);
        let crowd = chance.below(in_an_hour) >= CROWD.1;
        let (usual, crowded) = all.split_at(WHERE.len().min(all.len()));
        let open = if crowd && !crowded.is_empty() { crowded } else { usual };
        let visit = Visit::draw(open, clock.now().second(), mean_area, &mut chance);
        let counts = counts.clone();
        tokio::spawn(async move {
            visit.make(&counts).await;
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
        };
        let request = api::Request {
            parts: vec![part],
            constraints: Vec::new(),
            objective: api::Objective::EarliestEnd,
        };
        let then = match chance.below(10) {
            0..8 => Then::Commit,
            8 => Then::Cancel,
            _ => Then::Forget,
        };
        let caller = bookahead_protocol::Caller {
            user: format!("visitor-{}", chance.below(200)).into(),
            roles: vec!["user".into()],
        };
        let reserve = api::Reserve { id: None, request, hold_for_ms: 300_000, book: false };
        Visit { client: client.on_behalf_of(&caller), reserve, then }
    }

    async fn make(self, counts: &Counts) {
        let count = |which: &AtomicU64| {
            which.fetch_add(1, Ordering::Relaxed);
        };
        match self.book(counts).await {
            Ok(()) => {}
            Err(ClientError::Refused(_)) => count(&counts.refused),
            Err(_) => count(&counts.failed),
        }
    }

    async fn book(&self, counts: &Counts) -> Result<(), ClientError> {
        let count = |which: &AtomicU64| {
            which.fetch_add(1, Ordering::Relaxed);
        };
        let held = self.client.reserve(&self.reserve, &make::key()?.to_string()).await?;
        count(&counts.held);
        match self.then {
            Then::Commit => {
                self.client.commit(held.id, &api::Commit::default()).await?;
                count(&counts.committed);
            }
            Then::Cancel => {
                self.client.cancel(held.id).await?;
                count(&counts.cancelled);
            }
            Then::Forget => count(&counts.left),
        }
        Ok(())
    }
}

/// Numbers that follow from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = u128::from(mixed ^ (mixed >> 31)) * u128::from(bound);
        u32::try_from(high >> 64).unwrap_or(0)
    }
}
