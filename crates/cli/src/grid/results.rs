//! The results of a grid simulation, per request and per resource. All times are in seconds since the start of the
//! simulation.

use bookahead_plan::metrics::utilisation_over_time;
use bookahead_plan::{Interval, Span, Time};
use bookahead_protocol::broker::Outcome;
use bookahead_protocol::ledger::{Entry, Offered};
use bookahead_protocol::{Answer, Moment, Reservation, Slot, State};
use bookahead_sim::grid::{Client, Cluster, Grid, Record, Role, Site, Tally, Violation};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

#[derive(Serialize)]
pub(crate) struct Results {
    pub(crate) description: String,
    pub(crate) seed: u64,
    pub(crate) duration: f64,
    /// When all outstanding work was finished; None if it never was.
    pub(crate) settled_at: Option<f64>,
    pub(crate) requests: Vec<Asked>,
    pub(crate) resources: Vec<Used>,
    pub(crate) injected: Counts,
    pub(crate) reached: Counts,
    pub(crate) violations: Vec<Seen>,
}

#[derive(Serialize)]
pub(crate) struct Asked {
    pub(crate) client: String,
    pub(crate) at: f64,
    pub(crate) outcome: &'static str,
    /// Why it was refused or lost.
    pub(crate) reason: Option<String>,
    /// From the first call to the first answer.
    pub(crate) took: Option<f64>,
    /// Candidates that the broker tried to hold; None for a request to a site.
    pub(crate) attempts: Option<u32>,
    pub(crate) parts: Vec<Part>,
}

#[derive(Serialize)]
pub(crate) struct Part {
    pub(crate) kind: String,
    pub(crate) capacity: u32,
    pub(crate) duration: i64,
    pub(crate) placed: Option<Placed>,
}

#[derive(Serialize)]
pub(crate) struct Placed {
    pub(crate) site: String,
    pub(crate) resource: String,
    pub(crate) begin: i64,
    pub(crate) end: i64,
}

#[derive(Serialize)]
pub(crate) struct Used {
    pub(crate) site: String,
    pub(crate) resource: String,
    pub(crate) kind: String,
    pub(crate) capacity: u32,
    /// Number of reservations by state.
    pub(crate) reservations: BTreeMap<&'static str, usize>,
    /// Shares of the capacity over the whole simulation.
    pub(crate) used_by_jobs: f64,
    pub(crate) used_by_reservations: f64,
    pub(crate) jobs: Option<Jobs>,
}

#[derive(Serialize)]
pub(crate) struct Jobs {
    pub(crate) started: usize,
    pub(crate) waiting: usize,
    /// Over the jobs that started.
    pub(crate) mean_wait: Option<f64>,
}

/// Counts by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(pub(crate) Tally);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.rows())
    }
}

impl Counts {
    /// With spaces instead of underscores in the names.
    pub(crate) fn rows(&self) -> Vec<(String, u64)> {
        self.0.rows().map(|(name, number)| (name.replace('_', " "), number)).collect()
    }
}

/// A violation in the JSON results.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Seen {
    rule: String,
    /// Seconds since the start.
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

pub(crate) struct Run<'a> {
    pub(crate) description: String,
    pub(crate) seed: u64,
    pub(crate) end: Moment,
    pub(crate) settled_at: Option<Moment>,
    pub(crate) grid: &'a Grid,
    pub(crate) violations: &'a [Violation],
}

impl Run<'_> {
    pub(crate) fn results(self) -> Results {
        let grid = self.grid;
        let mut requests = Vec::new();
        let mut resources = Vec::new();
        for party in grid.parties() {
            match &party.role {
                Role::Client(client) => {
                    let name = party.name.as_str();
                    requests.extend(client.records().iter().map(|record| asked(grid, client, name, record)));
                }
                Role::Site(site) => {
                    let offered = &site.rules().resources;
                    resources.extend(offered.iter().map(|offered| used(site, offered, self.end)));
                }
                Role::Broker(_) => {}
            }
        }
        // The sort is stable: requests at the same moment stay in the order of the clients, in every run.
        requests.sort_by(|one: &Asked, other| one.at.total_cmp(&other.at));
        Results {
            description: self.description,
            seed: self.seed,
            duration: seconds(self.end),
            settled_at: self.settled_at.map(seconds),
            requests,
            resources,
            injected: Counts(grid.injected()),
            reached: Counts(grid.witness.reached.clone()),
            violations: self.violations.iter().map(Seen::of).collect(),
        }
    }
}

fn seconds(moment: Moment) -> f64 {
    moment.0 as f64 / 1e3
}

fn asked(grid: &Grid, client: &Client, name: &str, record: &Record) -> Asked {
    let asked_party = grid.place(client.asks()).map(|place| &grid.parties()[place].role);
    let (outcome, attempts) = match asked_party {
        Some(Role::Broker(broker)) => {
            let booking = broker.head().booking(record.id);
            let outcome = booking.map(|booking| word(booking.outcome.as_ref(), booking.state));
            (outcome, Some(booking.map_or(0, |booking| booking.attempts)))
        }
        Some(Role::Site(site)) => {
            let entry = site.ledger().entry(record.id);
            (
                entry.map(|entry| {
                    word((entry.state == State::Expired).then_some(&Outcome::Expired), entry.state)
                }),
                None,
            )
        }
        _ => (None, None),
    };
    // The last problem: earlier ones may have been temporary.
    let problem = record.answers.iter().rev().find_map(|(_, _, answer)| match answer {
        Answer::Problem(problem) => Some(problem.why.to_string()),
        _ => None,
    });
    let unknown = if problem.is_some() { "refused" } else { "unanswered" };
    let answered = record.answers.iter().find(|(_, call, _)| matches!(*call, "reserve" | "book"));
    Asked {
        client: name.to_owned(),
        at: seconds(record.asked),
        outcome: outcome.unwrap_or(unknown),
        reason: problem,
        took: answered.map(|(at, _, _)| (*at - record.asked).0 as f64 / 1e3),
        attempts,
        parts: parts(record),
    }
}

fn word(outcome: Option<&Outcome>, state: State) -> &'static str {
    match outcome {
        None => state.word(),
        Some(Outcome::Refused(_)) => "refused",
        Some(Outcome::Expired) => "expired",
        Some(Outcome::Cancelled | Outcome::Revoked) => "cancelled",
        Some(Outcome::PartLost) => "part lost",
        Some(Outcome::Lost) => "lost",
    }
}

/// The parts, with the slots of the last answer to the client.
fn parts(record: &Record) -> Vec<Part> {
    let told = record.answers.iter().rev().find_map(|(_, _, answer)| match answer {
        Answer::Reservation(Reservation { slots, .. }) => Some(slots.as_slice()),
        _ => None,
    });
    let slots = told.unwrap_or_default();
    let part = |(at, part): (usize, &bookahead_protocol::Part)| Part {
        kind: part.kind.to_string(),
        capacity: part.wanted.capacity.0,
        duration: part.wanted.duration.0,
        placed: slots.get(at).map(placed),
    };
    record.wish.request.parts.iter().enumerate().map(part).collect()
}

fn placed(slot: &Slot) -> Placed {
    // A broker prefixes the names of its peers: `inner/north/cluster`.
    let resource = slot.resource.as_str();
    Placed {
        site: slot.site.to_string(),
        resource: resource.rsplit('/').next().unwrap_or(resource).to_owned(),
        begin: slot.interval.begin.0,
        end: slot.interval.end.0,
    }
}

fn used(site: &Site, offered: &Offered, end: Moment) -> Used {
    let resource = &offered.resource;
    let during = Interval::new(Time(0), end.second());
    let entries =
        || site.ledger().entries().map(|(_, entry)| entry).filter(|entry| entry.resource == resource.name);
    let mut reservations = BTreeMap::new();
    entries().for_each(|entry| *reservations.entry(entry.state.word()).or_default() += 1);
    let share = |spans: &mut dyn Iterator<Item = Span>| {
        let shares = utilisation_over_time(spans, resource.capacity, during, during.length());
        shares.first().copied().unwrap_or(0.0)
    };
    let cluster = site.clusters().get(&resource.name);
    let ran = cluster.into_iter().flat_map(Cluster::ran);
    let mut jobs = ran.map(|(ran, capacity)| Span { interval: Interval::new(ran.start, ran.end), capacity });
    Used {
        site: site.rules().site.to_string(),
        resource: resource.name.to_string(),
        kind: resource.kind.to_string(),
        capacity: resource.capacity.0,
        reservations,
        used_by_jobs: share(&mut jobs),
        used_by_reservations: share(&mut entries().flat_map(stood)),
        jobs: cluster.map(|cluster| {
            let waits: Vec<f64> = cluster.waits().map(|wait| wait.0 as f64).collect();
            let mean_wait = (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64);
            Jobs { started: cluster.started(), waiting: cluster.waiting().len(), mean_wait }
        }),
    }
}

/// The spans that a reservation really used. One that was terminated used them until then; a hold used nothing.
fn stood(entry: &Entry) -> Vec<Span> {
    match entry.state {
        State::Committed | State::ChangeRequested | State::Active | State::Completed => entry.spans.clone(),
        State::Terminated => {
            let ended = entry.ended.second();
            let until =
                |span: &Span| Interval::new(span.interval.begin.min(ended), span.interval.end.min(ended));
            entry.spans.iter().map(|span| Span { interval: until(span), ..*span }).collect()
        }
        State::Requested | State::Rejected | State::Held | State::Expired | State::Cancelled => Vec::new(),
    }
}
