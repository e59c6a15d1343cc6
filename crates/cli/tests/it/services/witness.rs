//! What must be true of a grid of three while a booking is negotiated, whatever goes wrong, held against what the parties
//! show and against what the client was told. The witness stands outside: it looks, and changes nothing.
//!
//! - *Capacity*: nowhere is more taken than there is, at any time.
//! - *All or nothing*: when all is settled, every part stands or none does.
//! - *Kept promises*: what the client was told to be held or committed is, at the broker and at every site.
//! - *Nothing orphaned*: whatever takes room at a site is a part of something that stands at the broker.

use super::asking::Asker;
use super::grid::{Grid, SITES, Shape};
use super::negotiation::Phase;
use super::until;
use bookahead_api as api;
use bookahead_plan::Time;
use bookahead_protocol::ReservationId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Looks at brokers and three sites.
pub(crate) struct Witness {
    /// The one that the client asks is the last.
    brokers: Vec<Asker>,
    sites: Vec<Asker>,
    /// The folders of the brokers' journals.
    journals: Vec<PathBuf>,
}

/// What was seen. Who could not be asked shows nothing.
#[derive(Debug)]
struct Seen {
    /// What is live at each broker.
    brokers: Vec<Option<Vec<api::Reservation>>>,
    /// What is live at each site.
    sites: Vec<Option<Vec<api::Reservation>>>,
}

impl Witness {
    /// Of a grid of three that has been ready.
    pub(crate) fn new(grid: &Grid, shape: Shape) -> Witness {
        let asker = |name: &str| Asker::hasty(&grid.of(name).url());
        Witness {
            brokers: shape.broker_names().map(asker).collect(),
            sites: SITES.map(asker).to_vec(),
            journals: shape.broker_names().map(|name| grid.of(name).state()).collect(),
        }
    }

    /// Looks again and again, for as long as it is asked to, and fails as soon as something is not as it must be. `phase` says how
    /// far the booking has come by what its client was told.
    pub(crate) async fn watch(&self, id: ReservationId, phase: impl Fn() -> Phase) {
        loop {
            let before = phase();
            let seen = self.look().await;
            // What changes while one looks is seen half before and half after.
            if phase() == before {
                seen.check_promises(id, before).unwrap_or_else(|why| panic!("{before:?}: {why}: {seen:#?}"));
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Waits until nothing is under way any more; then all parts of the booking stand if it does, and nothing else does
    /// anywhere.
    pub(crate) async fn settled(&self, id: ReservationId, stands: bool) {
        until(async || {
            let seen = self.look().await;
            let settled = seen.check_settled(stands.then_some(id)).and_then(|()| self.check_parents(&seen));
            settled.map_err(|why| format!("{why}: {seen:#?}"))
        })
        .await;
    }

    /// Waits until all that is live begins then, everywhere: all parts have the same terms, and brokers show them.
    pub(crate) async fn begins(&self, begin: Time) {
        until(async || {
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

    /// Nowhere is more taken than there is.
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

    /// Whatever is live at a site, or at a broker that another asks, is a part of a booking that is live at the broker above, by
    /// what that has written down.
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
            Some(orphan) => Err(format!("nobody knows of {}", orphan.id)),
        }
    }
}

/// How much of a resource is taken at a time, by what is promised and what runs.
fn taken(resource: &api::ResourceSchedule, at: api::Timestamp) -> u64 {
    let then = resource.blocks.iter().filter(|block| block.begin <= at && at < block.end);
    let taking = then.filter(|block| block.kind != api::BlockKind::WaitingJob);
    taking.map(|block| u64::from(block.capacity)).sum()
}

/// Which booking the reservations at sites belong to that a broker ever named, by its journal.
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

/// What a journal says, by the command that exports it.
pub(crate) fn exported(journal: &Path) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bookahead"));
    let exported = command.args(["journal", "export"]).arg(journal).output().unwrap();
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let lines = String::from_utf8(exported.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether a journal is as it should be, by the command that checks it.
pub(crate) fn check_journal(journal: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bookahead"));
    let checked = command.args(["journal", "check"]).arg(journal).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.contains("checksums are correct"), "{checked:?}");
}

impl Seen {
    /// What is live at the broker that the client asks.
    fn asked(&self) -> Option<&Vec<api::Reservation>> {
        self.brokers.last().and_then(Option::as_ref)
    }

    /// What the client was told is so, wherever somebody could be asked.
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
        // What is given up may still be there while sites are told.
        let Some(promised) = promised else { return Ok(()) };
        for there in self.sites.iter().flatten() {
            if !there.iter().any(|part| part.state == promised) {
                return Err(format!("its part should be {promised:?} at every site"));
            }
        }
        Ok(())
    }

    /// Nothing but the parts of one booking stand, or nothing at all.
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
