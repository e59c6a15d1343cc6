//! What became of a demo: visits, and how much memory and disk it took, hour by hour of its own time, so that it can be seen
//! whether anything grows.

use super::grid::Grid;
use super::visitors::{Visitors, Visits};
use crate::output::say;
use anyhow::Result;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How it was at a moment.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Look {
    /// When, in the time of the demo.
    now: String,
    reservations: u64,
    /// Of the whole process.
    memory_bytes: u64,
    /// Of all journals together.
    journal_bytes: u64,
}

/// What is noted while it runs.
pub(crate) struct Account {
    folder: PathBuf,
    looks: Mutex<Vec<Look>>,
}

/// What is told in the end.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    visits: Visits,
    looks: Vec<Look>,
    /// How many events each party has written in all.
    events: Vec<(String, u64)>,
}

impl Account {
    pub(crate) fn begin(folder: &Path) -> Account {
        Account { folder: folder.to_owned(), looks: Mutex::default() }
    }

    /// Notes how it is, and says so where somebody waits for the end.
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

/// What this process has of the machine's memory.
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
