//! Metrics that are read at a scrape: how much of each resource is taken and what waits for it, holds by outcome,
//! events of reservations, peers, and the process. Resources come from the configuration; of peers, which may register
//! themselves, a bounded number is named.

use crate::thread::{PartyHandle, ReadKind};
use bookahead_party::{ClockState, Figures, ResourceFigures};
use bookahead_protocol::deadline::HoldCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::fs;
use std::time::Duration;

/// Most peers with a metric of their own, because each is a time series in the monitoring system. `peers` counts all.
const MOST_NAMED_PEERS: usize = 200;

/// Figures of a site or broker.
pub(super) struct PartyFigures(pub(super) PartyHandle);

impl fmt::Debug for PartyFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartyFigures")
    }
}

type Figure = (&'static str, &'static str, fn(&ResourceFigures) -> u64);

const OF_RESOURCES: [Figure; 9] = [
    ("resource_capacity", "Configured capacity, in units of the resource", |of| of.capacity),
    ("resource_lost_capacity", "Capacity that has failed", |of| of.lost),
    ("resource_booked_capacity", "Capacity that reservations and holds take now", |of| of.booked),
    ("resource_used_capacity", "Capacity of running jobs outside reservations", |of| of.used),
    ("resource_foreign_capacity", "Capacity of reservations that others made in the batch system", |of| {
        of.foreign
    }),
    ("resource_free_capacity", "Capacity that nothing takes now", |of| of.free),
    ("resource_running_jobs", "Running jobs outside reservations", |of| of.running_jobs as u64),
    ("resource_waiting_jobs", "Waiting jobs", |of| of.waiting_jobs as u64),
    ("resource_waiting_capacity", "Capacity that the waiting jobs request", |of| of.waiting_capacity),
];

type Outcome = (&'static str, fn(&HoldCounts) -> u64);

const OF_HOLDS: [Outcome; 5] = [
    ("granted", |holds| holds.granted),
    ("refused", |holds| holds.refused),
    ("committed", |holds| holds.committed),
    ("expired", |holds| holds.expired),
    ("cancelled", |holds| holds.cancelled),
];

/// States of the clock, the best first.
const CLOCK_WORDS: [&str; 4] = ["followed", "unconfirmed", "not-followed", "in-doubt"];

fn clock_word(state: ClockState) -> &'static str {
    match state {
        ClockState::Followed => CLOCK_WORDS[0],
        ClockState::Unconfirmed => CLOCK_WORDS[1],
        ClockState::Jumped(_) => CLOCK_WORDS[2],
        ClockState::Ahead(_) | ClockState::Behind(_) => CLOCK_WORDS[3],
    }
}

impl Collector for PartyFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let figures = self.0.read(ReadKind::Short, |queries, now| queries.figures(now));
        let Figures { resources, holds, peers } = figures;
        for (name, help, value) in OF_RESOURCES.iter().filter(|_| !resources.is_empty()) {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for of in &resources {
                let labels = [("resource", of.resource.as_str())];
                gauge(value(of)).encode(family.encode_family(&labels)?)?;
            }
        }
        if let Some(holds) = holds {
            let help = "Holds since the start, by outcome; refused is for lack of room";
            let mut family = encoder.encode_descriptor("holds", help, None, MetricType::Counter)?;
            for (outcome, value) in OF_HOLDS {
                ConstCounter::new(value(&holds)).encode(family.encode_family(&[("outcome", outcome)])?)?;
            }
        }
        let help =
            "State of the system clock: 1 for the current one; in-doubt means that nothing new is promised";
        let mut family = encoder.encode_descriptor("clock", help, None, MetricType::Gauge)?;
        let current = clock_word(self.0.clock().state());
        for word in CLOCK_WORDS {
            gauge(u64::from(word == current)).encode(family.encode_family(&[("state", word)])?)?;
        }
        let help = "Events of reservations and jobs since the start, by kind";
        let mut family = encoder.encode_descriptor("events", help, None, MetricType::Counter)?;
        for (kind, count) in self.0.watch().counts() {
            ConstCounter::new(count).encode(family.encode_family(&[("event", kind)])?)?;
        }
        if holds.is_none() { encode_peers(&peers, encoder) } else { Ok(()) }
    }
}

fn encode_peers(
    peers: &[(bookahead_protocol::Name, bool)],
    mut encoder: DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let up = peers.iter().filter(|(_, up)| *up).count();
    let mut family = encoder.encode_descriptor("peers", "Known peers, by state", None, MetricType::Gauge)?;
    for (state, count) in [("up", up), ("down", peers.len() - up)] {
        gauge(count as u64).encode(family.encode_family(&[("state", state)])?)?;
    }
    let help = "Whether a peer answers; at most 200 peers";
    let mut family = encoder.encode_descriptor("peer_up", help, None, MetricType::Gauge)?;
    for (peer, up) in peers.iter().take(MOST_NAMED_PEERS) {
        gauge(u64::from(*up)).encode(family.encode_family(&[("peer", peer.as_str())])?)?;
    }
    Ok(())
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

/// The process, with the names that all Prometheus clients use.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        let help = "User and system time of the process";
        let counter =
            encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
        ConstCounter::new(cpu).encode(counter)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let figures = [
            ("process_resident_memory", "Resident memory", Some(Unit::Bytes), kilobytes(&status, "VmRSS:")),
            ("process_virtual_memory", "Virtual memory", Some(Unit::Bytes), kilobytes(&status, "VmSize:")),
            ("process_open_fds", "Open file descriptors", None, open_files()),
            ("process_max_fds", "Limit of open file descriptors", None, getrlimit(Resource::Nofile).current),
            ("process_threads", "Threads", None, field(&status, "Threads:")),
        ];
        for (name, help, unit, value) in figures {
            // Systems without /proc report what they can.
            let Some(value) = value else { continue };
            let descriptor = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            gauge(value).encode(descriptor)?;
        }
        let Some(start) = start_time() else { return Ok(()) };
        let help = "Start of the process, since 1970";
        let unit = Some(&Unit::Seconds);
        let descriptor = encoder.encode_descriptor("process_start_time", help, unit, MetricType::Gauge)?;
        ConstGauge::new(start.as_secs_f64()).encode(descriptor)
    }
}

/// A number in /proc/self/status.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    field(status, name).map(|kilobytes| kilobytes * 1_024)
}

fn open_files() -> Option<u64> {
    // One of them is the folder that is being read.
    fs::read_dir("/proc/self/fd").ok().map(|files| (files.count() as u64).saturating_sub(1))
}

/// Ticks per second in /proc, the same on all systems that are supported (`USER_HZ`).
const TICKS: f64 = 100.0;

fn start_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in brackets, and may contain spaces. After it, the start is field 22 of all.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot = field(&boot, "btime ")?;
    Some(Duration::from_secs(boot) + Duration::from_secs_f64(ticks as f64 / TICKS))
}

/// Metrics in the text format of Prometheus, for programs that do not read OpenMetrics. Counters are declared with
/// their suffix there, information is a gauge, and units and the end are not written.
pub(super) fn plain_text(open_metrics: &str) -> String {
    let mut kinds = std::collections::HashMap::new();
    for line in open_metrics.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            kinds.insert(name, kind);
        }
    }
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let declared = line.strip_prefix("# ").and_then(|line| {
            let (word, rest) = line.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            Some((word, name, rest))
        });
        match declared {
            Some(("UNIT", ..)) => {}
            Some((word, name, rest)) => {
                let (suffix, kind) = match kinds.get(name) {
                    Some(&"counter") => ("_total", "counter"),
                    Some(&"info") => ("_info", "gauge"),
                    Some(kind) => ("", *kind),
                    None => ("", "untyped"),
                };
                let rest = if word == "TYPE" { kind } else { rest };
                text.push_str(&format!("# {word} {name}{suffix} {rest}\n"));
            }
            None if line == "# EOF" => {}
            None => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_information_are_declared_as_they_are_named() {
        let open = "# HELP a Some help.\n# TYPE a counter\na_total 1\n# HELP b More.\n# TYPE b info\n\
                    b_info{x=\"y\"} 1\n# HELP c_seconds Time.\n# TYPE c_seconds gauge\n# UNIT c_seconds seconds\n\
                    c_seconds 2.0\n# EOF\n";
        let plain = "# HELP a_total Some help.\n# TYPE a_total counter\na_total 1\n# HELP b_info More.\n\
                     # TYPE b_info gauge\nb_info{x=\"y\"} 1\n# HELP c_seconds Time.\n# TYPE c_seconds gauge\n\
                     c_seconds 2.0\n";
        assert_eq!(plain_text(open), plain);
    }

    #[test]
    fn the_process_began_before_now_and_has_files_and_memory() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let start = start_time().unwrap();
        assert!(
            start <= now + Duration::from_secs(1) && now - start < Duration::from_secs(86_400),
            "{start:?}"
        );
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(kilobytes(&status, "VmRSS:").unwrap() > 100_000 && open_files().unwrap() >= 3);
    }
}
