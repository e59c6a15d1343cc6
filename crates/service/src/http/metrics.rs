//! Metrics: requests, calls and outcomes, refusals because of load, and the current number of reservations in each
//! state. Labels come from closed sets, so that memory is bounded; none names a user. Figures of resources, peers and
//! the process are read at each scrape (`figures`).

use super::About;
use super::figures::{PartyFigures, Process};
use crate::notify::{Counts, Outbox};
use crate::security::{Provider, wall_seconds};
use crate::thread::PartyHandle;
use bookahead_lrms::command::{ProgramUsage, Runner};
use bookahead_plan::placement::Reason;
use bookahead_protocol::{Answer, State, Why};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets in seconds, from a memory access to the patience of a caller.
const LATENCIES: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0, 60.0];

/// Reasons of refusals because of load.
const TURNED_AWAY: [&str; 8] =
    ["address", "bodies", "concurrent", "inbox", "keys", "output", "rate", "watchers"];

pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    latency: Family<Route, Histogram, fn() -> Histogram>,
    calls: Family<Called, Counter>,
    no_room: Counter,
    turned_away: Family<TurnedAway, Counter>,
    reservations: Family<InState, Gauge>,
    durable: Gauge,
    busy: Counter<f64, AtomicU64>,
    reload_succeeded: Gauge,
    reloaded: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    call: &'static str,
    outcome: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnedAway {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: &'static str,
}

impl Metrics {
    pub(super) fn new(
        about: &About,
        party: PartyHandle,
        commands: Option<Runner>,
        outbox: Option<Arc<Outbox>>,
        provider: Option<Arc<Provider>>,
    ) -> Metrics {
        let mut whole = Registry::default();
        whole.register_collector(Box::new(Process));
        let registry = whole.sub_registry_with_prefix("bookahead");
        let latencies: fn() -> Histogram = || Histogram::new(LATENCIES);
        let metrics = Metrics {
            requests: Family::default(),
            latency: Family::new_with_constructor(latencies),
            calls: Family::default(),
            no_room: Counter::default(),
            turned_away: Family::default(),
            reservations: Family::default(),
            durable: Gauge::default(),
            busy: Counter::default(),
            reload_succeeded: Gauge::default(),
            reloaded: Gauge::default(),
            registry: Registry::default(),
        };
        let itself = Info::new([("name", about.name.to_string()), ("version", about.version.clone())]);
        registry.register("party", "Which site or broker this is", itself);
        registry.register("http_requests", "Requests by route, method and status", metrics.requests.clone());
        let (help, unit) = ("Time from the request to the start of its answer", Unit::Seconds);
        registry.register_with_unit("http_request_duration", help, unit, metrics.latency.clone());
        registry.register("calls", "Calls to the party, by type and outcome", metrics.calls.clone());
        registry.register("no_room", "Calls refused for lack of room", metrics.no_room.clone());
        let help = "Requests refused because of load";
        registry.register("turned_away", help, metrics.turned_away.clone());
        // A series that appears with its first refusal would hide that refusal from rates.
        TURNED_AWAY.iter().for_each(|reason| drop(metrics.turned_away.get_or_create(&TurnedAway { reason })));
        registry.register("reservations", "Known reservations, by state", metrics.reservations.clone());
        registry.register("journal_sequence", "Last durable event", metrics.durable.clone());
        let help = "Busy time of the party thread since the start";
        registry.register_with_unit("party_busy", help, Unit::Seconds, metrics.busy.clone());
        let help = "Whether the last reading of the configuration succeeded";
        registry.register("config_last_reload_successful", help, metrics.reload_succeeded.clone());
        metrics.reload_succeeded.set(1);
        let help = "Time of the last successful reading of the configuration, since 1970";
        let name = "config_last_reload_success_timestamp";
        registry.register_with_unit(name, help, Unit::Seconds, metrics.reloaded.clone());
        metrics.reloaded.set(wall_seconds());
        registry.register_collector(Box::new(PartyFigures(party)));
        if let Some(commands) = commands {
            registry.register_collector(Box::new(Commands(commands)));
        }
        if let Some(outbox) = outbox {
            registry.register_collector(Box::new(Notices(outbox)));
        }
        if let Some(provider) = provider {
            registry.register_collector(Box::new(IdentityProvider(provider)));
        }
        Metrics { registry: whole, ..metrics }
    }

    pub(super) fn answered(&self, route: &str, method: &'static str, status: u16, took: Duration) {
        let request = Request { route: route.to_owned(), method, status };
        self.requests.get_or_create(&request).inc();
        self.latency.get_or_create(&Route { route: route.to_owned(), method }).observe(took.as_secs_f64());
    }

    pub(super) fn answered_call(&self, word: &'static str, answer: &Answer) {
        self.count_call(word, answer.word());
        if let Answer::Problem(problem) = answer
            && matches!(
                problem.why,
                Why::NoSlot(Reason::NoRoom | Reason::NotAdmitted)
                    | Why::ShortOf { .. }
                    | Why::Maintenance { .. }
                    | Why::NoCandidate { .. }
            )
        {
            self.no_room.inc();
        }
    }

    /// Counts a call with its outcome.
    pub(super) fn count_call(&self, call: &'static str, outcome: &str) {
        self.calls.get_or_create(&Called { call, outcome: outcome.to_owned() }).inc();
    }

    pub(super) fn turned_away(&self, reason: &'static str) {
        self.turned_away.get_or_create(&TurnedAway { reason }).inc();
    }

    /// Records whether the configuration could be read again.
    pub(super) fn reloaded(&self, succeeded: bool) {
        self.reload_succeeded.set(i64::from(succeeded));
        if succeeded {
            self.reloaded.set(wall_seconds());
        }
    }

    /// All metrics in the OpenMetrics text format.
    pub(super) fn text(&self, counts: &BTreeMap<State, usize>, durable: u64, busy: Duration) -> String {
        // The party thread counts; a scrape only copies its sum.
        self.busy.inner().store(busy.as_secs_f64().to_bits(), Ordering::Relaxed);
        // All states, because a gauge keeps its value: one without reservations must be set to 0.
        for state in State::ALL {
            let count = counts.get(&state).copied().unwrap_or(0);
            let gauge = self.reservations.get_or_create(&InState { state: state.word() });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.durable.set(i64::try_from(durable).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[derive(Debug)]
struct Commands(Runner);

impl Collector for Commands {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let usage = self.0.usage();
        let mut family = |name, help, unit: Option<&Unit>, value: fn(&ProgramUsage) -> f64| {
            let mut encoder = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for (program, used) in &usage.programs {
                let labels = [("program", program.as_str())];
                ConstCounter::new(value(used)).encode(encoder.encode_family(&labels)?)?;
            }
            Ok(())
        };
        let seconds = Some(&Unit::Seconds);
        let help = "Duration of batch system commands";
        family("batch_commands_duration", help, seconds, |used| used.spent.as_secs_f64())?;
        family("batch_commands", "Batch system commands", None, |used| used.runs as f64)?;
        let help = "Failed batch system commands";
        family("batch_commands_failed", help, None, |used| used.failures as f64)?;
        let help = "Batch system commands that timed out";
        family("batch_commands_timed_out", help, None, |used| used.time_outs as f64)?;
        let silent = self.0.silent_since().map_or(0.0, |since| since.elapsed().as_secs_f64());
        let help = "Time since the batch system stopped answering; 0 if it answers";
        let gauge = encoder.encode_descriptor("batch_silent", help, seconds, MetricType::Gauge)?;
        ConstGauge::new(silent).encode(gauge)
    }
}

#[derive(Debug)]
struct IdentityProvider(Arc<Provider>);

impl Collector for IdentityProvider {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let failing = self.0.health().failing_for.map_or(0.0, |failing| failing.as_secs_f64());
        let help = "Time since the keys of the identity provider could last be fetched; 0 if they can";
        let unit = Some(&Unit::Seconds);
        let gauge = encoder.encode_descriptor("identity_provider_failing", help, unit, MetricType::Gauge)?;
        ConstGauge::new(failing).encode(gauge)
    }
}

struct Notices(Arc<Outbox>);

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

impl Collector for Notices {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.counts();
        let mut family = |name, help, kind, value: fn(&Counts) -> u64| {
            let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
            for (to, counts) in &counts {
                let labels = [("to", to.as_str())];
                let encoder = encoder.encode_family(&labels)?;
                let value = value(counts);
                if matches!(kind, MetricType::Gauge) {
                    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder)?;
                } else {
                    ConstCounter::new(value).encode(encoder)?;
                }
            }
            Ok(())
        };
        let help = "Delivered notices, by receiver: the command, or the prefix of a webhook";
        family("notices_delivered", help, MetricType::Counter, |counts| counts.delivered)?;
        let help = "Notices given up, or dropped because too many waited";
        family("notices_failed", help, MetricType::Counter, |counts| counts.failed)?;
        let help = "Notices waiting for delivery";
        family("notices_waiting", help, MetricType::Gauge, |counts| counts.waiting as u64)
    }
}
