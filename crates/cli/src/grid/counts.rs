//! Counts of what was injected and what was reached in spite of it, for tables and for programs, of one run or summed
//! over many.

use crate::numbers::count;
use bookahead_sim::grid::network;
use bookahead_sim::grid::witness::Reached;
use bookahead_sim::grid::{CrashPoint, Troubles, Violation};
use serde::Serialize;

/// What the network did, and what went wrong.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Injected {
    pub(crate) messages: u64,
    lost: u64,
    doubled: u64,
    delayed: u64,
    cut_off: u64,
    partitions: u64,
    crashes_idle: u64,
    crashes_before_writing: u64,
    crashes_after_writing: u64,
    crashes_while_sending: u64,
    restarts: u64,
    capacity_failures: u64,
}

impl Injected {
    pub(crate) fn of(network: network::Counts, troubles: Troubles) -> Injected {
        let crashes = |point: CrashPoint| troubles.crashes[point as usize];
        Injected {
            messages: network.messages,
            lost: network.lost,
            doubled: network.twice,
            delayed: network.delayed,
            cut_off: network.cut_off,
            partitions: troubles.partitions,
            crashes_idle: crashes(CrashPoint::Idle),
            crashes_before_writing: crashes(CrashPoint::BeforeWriting),
            crashes_after_writing: crashes(CrashPoint::AfterWriting),
            crashes_while_sending: crashes(CrashPoint::WhileSending),
            restarts: troubles.restarts,
            capacity_failures: troubles.failures,
        }
    }

    pub(crate) fn add(&mut self, other: &Injected) {
        self.messages += other.messages;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.delayed += other.delayed;
        self.cut_off += other.cut_off;
        self.partitions += other.partitions;
        self.crashes_idle += other.crashes_idle;
        self.crashes_before_writing += other.crashes_before_writing;
        self.crashes_after_writing += other.crashes_after_writing;
        self.crashes_while_sending += other.crashes_while_sending;
        self.restarts += other.restarts;
        self.capacity_failures += other.capacity_failures;
    }

    /// With words for people.
    pub(crate) fn rows(&self) -> [(&'static str, u64); 12] {
        [
            ("messages", self.messages),
            ("lost", self.lost),
            ("doubled", self.doubled),
            ("delayed", self.delayed),
            ("kept back by partitions", self.cut_off),
            ("partitions", self.partitions),
            ("crashes between two inputs", self.crashes_idle),
            ("crashes before writing", self.crashes_before_writing),
            ("crashes after writing", self.crashes_after_writing),
            ("crashes while sending", self.crashes_while_sending),
            ("restarts", self.restarts),
            ("failures of capacity", self.capacity_failures),
        ]
    }
}

/// What was reached.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Reaching {
    commits: u64,
    rollbacks: u64,
    expiries: u64,
    compensations: u64,
    interrupted: u64,
    finished_after_restart: u64,
    refusals: u64,
    cancels: u64,
}

impl Reaching {
    pub(crate) fn of(reached: &Reached) -> Reaching {
        Reaching {
            commits: reached.commits,
            rollbacks: reached.rollbacks,
            expiries: reached.expiries,
            compensations: reached.compensations,
            interrupted: reached.interrupted,
            finished_after_restart: reached.finished,
            refusals: reached.refusals,
            cancels: reached.cancels,
        }
    }

    pub(crate) fn add(&mut self, other: &Reaching) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.expiries += other.expiries;
        self.compensations += other.compensations;
        self.interrupted += other.interrupted;
        self.finished_after_restart += other.finished_after_restart;
        self.refusals += other.refusals;
        self.cancels += other.cancels;
    }

    /// With words for people.
    pub(crate) fn rows(&self) -> [(&'static str, u64); 8] {
        [
            ("bookings committed", self.commits),
            ("candidates given back", self.rollbacks),
            ("holds expired", self.expiries),
            ("commits undone, a part was lost", self.compensations),
            ("bookings interrupted by a crash", self.interrupted),
            ("commits finished after a restart", self.finished_after_restart),
            ("bookings refused", self.refusals),
            ("bookings cancelled", self.cancels),
        ]
    }
}

/// Something that must not be.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Seen {
    rule: String,
    /// In seconds from the start.
    at: f64,
    what: String,
}

impl Seen {
    pub(crate) fn of(violation: &Violation) -> Seen {
        Seen {
            rule: violation.rule.to_string(),
            at: violation.at.0 as f64 / 1e3,
            what: violation.what.clone(),
        }
    }
}

/// What there was, in one line.
pub(crate) fn in_one_line(rows: &[(&str, u64)]) -> String {
    let some = rows.iter().filter(|(_, number)| *number > 0);
    let some: Vec<String> = some.map(|(what, number)| format!("{what} {}", count(*number))).collect();
    some.join(", ")
}

/// What the witness holds, for people.
pub(crate) const INVARIANTS: &str = "capacity, all or nothing, kept promises, once";
