//! The invariants of a grid of three during a booking, checked against the lists of the processes and the answers to
//! the client. The witness only reads.
//!
//! - *Capacity*: no site has more reserved than its capacity, at any time.
//! - *All or nothing*: when all is settled, every part exists or none does.
//! - *Kept promises*: a hold or commit that the client was promised exists at the broker and at every site.
//! - *Nothing orphaned*: a reservation that takes capacity at a site is a part of a live booking at the broker.

use super::asking::Asker;
use super::grid::{Grid, SITES, Shape};
use super::negotiation::Phase;
use bookahead_api as api;
use bookahead_plan::Time;
use bookahead_protocol::ReservationId;
use bookahead_service::daemon::JOURNAL;
use bookahead_service::journal::{self, Store};
use bookahead_tests::polling::until_async;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Observes brokers and three sites.
pub(crate) struct Witness {
    /// Clients use the last one.
    brokers: Vec<Asker>,
    sites: Vec<Asker>,
    /// Folders of the brokers' journals.
    journals: Vec<PathBuf>,
}

/// An observation. A process that did not answer is missing.
#[derive(Debug)]
struct Seen {
    /// Live reservations by broker.
    brokers: Vec<Option<Vec<api::Reservation>>>,
    /// Live reservations by site.
    sites: Vec<Option<Vec<api::Reservation>>>,
}

impl Witness {
    /// The witness of a grid of three that is ready.
    pub(crate) fn new(grid: &Grid, shape: Shape) -> Witness {
        let asker = |name: &str| Asker::hasty(&grid.of(name).url());
        Witness {
            brokers: shape.broker_names().map(asker).collect(),
            sites: SITES.map(asker).to_vec(),
            journals: shape.broker_names().map(|name| grid.of(name).journal()).collect(),
        }
    }

    /// Observes continuously until it is stopped, and fails as soon as an invariant is violated. `phase` is the
    /// progress of the booking, as the client knows it, and counts its changes.
    pub(crate) async fn watch(&self, id: ReservationId, phase: impl Fn() -> (u32, Phase)) {
        loop {
            let before = phase();
            let seen = self.look().await;
            // An observation that overlaps with a change of phase is inconsistent, and is ignored; also with a change
            // and back, which a slow observation may miss.
            if phase() == before {
                let kept = seen.check_promises(id, before.1);
                kept.unwrap_or_else(|why| panic!("{before:?}: {why}: {seen:#?}"));
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Waits until nothing is in progress; then all parts of the booking exist if it does, and nothing else exists
    /// anywhere.
    pub(crate) async fn settled(&self, id: ReservationId, stands: bool) {
        until_async(async || {
            let seen = self.look().await;
            let settled = seen.check_settled(stands.then_some(id)).and_then(|()| self.check_parents(&seen));
            settled.map_err(|why| format!("{why}: {seen:#?}"))
        })
        .await;
    }

    /// Waits until all live reservations start at this time: all parts have the same terms, and brokers show them.
    pub(crate) async fn begins(&self, begin: Time) {
        until_async(async || {
            let seen = self.look().await;
            let all = || seen.brokers.iter().chain(&seen.sites);
            let mut slots = all().flatten().flatten().flat_map(|one| &one.slots);
            let right = all().all(Option::is_some) && slots.all(|slot| slot.begin.time() == begin);
            if right { Ok(()) } else { Err(format!("all should begin at {begin}: {seen:#?}")) }
        })
        .await;
    }

    async fn look(&self) -> Seen {
        let mut seen = Seen { brokers: Vec::new(), sites: Vec::new() };
        for broker in &self.brokers {
            seen.brokers.push(broker.live().await.ok());
        }
        for site in &self.sites {
            self.check_capacity(site).await;
            seen.sites.push(site.live().await.ok());
        }
        seen
    }

    /// Checks that no site has more reserved than its capacity.
    async fn check_capacity(&self, site: &Asker) {
        let Ok(schedule) = site.client().schedule(&api::ScheduleQuery::default()).await else { return };
        for resource in schedule.resources {
            let begins = resource.blocks.iter().map(|block| block.begin);
            let most = begins.map(|at| taken(&resource, at)).max().unwrap_or(0);
            assert!(
                most <= u64::from(resource.capacity),
                "{most} is taken at {}: {resource:#?}",
                site.client().url()
            );
        }
    }

    /// Checks that every live reservation at a site, or at an inner broker, is a part of a live booking at the broker
    /// above, by the journal of that broker.
    fn check_parents(&self, seen: &Seen) -> Result<(), String> {
        let parents: BTreeMap<_, _> = self.journals.iter().flat_map(|journal| children(journal)).collect();
        let bookings: BTreeSet<_> =
            seen.brokers.iter().flatten().flatten().map(|booking| booking.id).collect();
        let inner = seen.brokers.split_last().map_or(&[][..], |(_, inner)| inner);
        let mut parts = inner.iter().chain(&seen.sites).flatten().flatten();
        let is_known =
            |part: &&api::Reservation| parents.get(&part.id).is_some_and(|parent| bookings.contains(parent));
        match parts.find(|part| !is_known(part)) {
            None => Ok(()),
            Some(orphan) => Err(format!("no booking has {}", orphan.id)),
        }
    }
}

/// The capacity of a resource in use at a time, by promises and by running jobs.
fn taken(resource: &api::ResourceSchedule, at: api::Timestamp) -> u64 {
    let then = resource.blocks.iter().filter(|block| block.begin <= at && at < block.end);
    let taking = then.filter(|block| block.kind != api::BlockKind::WaitingJob);
    taking.map(|block| u64::from(block.capacity)).sum()
}

/// The booking of each part that a broker ever requested, from its journal.
fn children(journal: &Path) -> BTreeMap<ReservationId, ReservationId> {
    let mut children = BTreeMap::new();
    for event in exported(journal) {
        let trying = &event["event"]["Booking"]["Trying"];
        let Some(id) = trying["id"].as_str() else { continue };
        for pick in trying["picks"].as_array().unwrap() {
            children.insert(pick["child"].as_str().unwrap().parse().unwrap(), id.parse().unwrap());
        }
    }
    children
}

/// The records of a journal, as `journal export` writes them. Read here, because a new process for each look takes more
/// time of the processors than everything else that the tests of crash points do.
pub(crate) fn exported(journal: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    let exported = read(journal, |journal| journal::export(journal, &mut lines));
    exported.unwrap_or_else(|why| panic!("{}: {why}", journal.display()));
    let lines = String::from_utf8(lines).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks a journal as `journal check` does.
pub(crate) fn check_journal(journal: &Path) {
    let report = read(journal, journal::check);
    let report = report.unwrap_or_else(|why| panic!("{}: {why}", journal.display()));
    assert!(report.is_sound() && report.to_string().contains("checksums are correct"), "{report}");
}

/// Reads a journal in a thread of its own, because the one in PostgreSQL brings its own async runtime.
fn read<T: Send>(journal: &Path, how: impl FnOnce(Store) -> T + Send) -> T {
    let path = if journal.is_dir() { journal.join(JOURNAL) } else { journal.to_owned() };
    let store = Store::parse(&path, Path::new("")).unwrap();
    std::thread::scope(|scope| scope.spawn(|| how(store)).join().unwrap())
}

impl Seen {
    /// The live reservations at the broker that the client uses.
    fn asked(&self) -> Option<&Vec<api::Reservation>> {
        self.brokers.last().and_then(Option::as_ref)
    }

    /// Checks the promises to the client at all processes that answered.
    fn check_promises(&self, id: ReservationId, phase: Phase) -> Result<(), String> {
        let promised = match phase {
            Phase::Held => Some(api::State::Held),
            Phase::Committed => Some(api::State::Committed),
            Phase::Over => None,
            Phase::Between => return Ok(()),
        };
        let state = |all: &Vec<api::Reservation>| all.iter().find(|one| one.id == id).map(|one| one.state);
        if self.asked().map(state).is_some_and(|state| state != promised) {
            return Err(format!("the broker should have it {promised:?}"));
        }
        // A cancelled part may still exist until its site is called.
        let Some(promised) = promised else { return Ok(()) };
        for there in self.sites.iter().flatten() {
            if !there.iter().any(|part| part.state == promised) {
                return Err(format!("its part should be {promised:?} at every site"));
            }
        }
        Ok(())
    }

    /// Checks that only the parts of one booking exist, or nothing.
    fn check_settled(&self, standing: Option<ReservationId>) -> Result<(), String> {
        let asked = self.asked().ok_or("the broker cannot be asked")?;
        let live: BTreeSet<_> = asked.iter().map(|booking| booking.id).collect();
        if live != BTreeSet::from_iter(standing) {
            return Err(format!("{standing:?} should stand at the broker"));
        }
        if self.brokers.iter().any(Option::is_none) {
            return Err("a broker cannot be asked".into());
        }
        for there in &self.sites {
            let there = there.as_ref().ok_or("a site cannot be asked")?;
            let right = match standing {
                None => there.is_empty(),
                Some(_) => matches!(there.as_slice(), [part] if part.state == api::State::Committed),
            };
            if !right {
                return Err(format!("one part of {standing:?} should stand at every site"));
            }
        }
        Ok(())
    }
}
