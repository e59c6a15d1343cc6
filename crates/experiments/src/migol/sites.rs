//! Sites with many reservations in their ledgers, and a job broker that reserves at them, in one process and without a
//! network, to count calls and measure computing time.

use super::setup::CLUSTERS;
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Interval, Need, Policy, Profile, Seconds, Span, Time};
use bookahead_protocol::ids::Identities;
use bookahead_protocol::jobs::choice::{Effects, Outcome};
use bookahead_protocol::jobs::{Choice, Order, Patience, Site, Task, rank};
use bookahead_protocol::ledger::{Ledger, Offered, Rules, Views};
use bookahead_protocol::level::{Committing, Permission, Received};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Name, Part, Request, ReservationId, Resource,
};
use bookahead_workload::streams::Stream;

/// Share of the capacity that is reserved, over the whole calendar of a site.
const FULL: f64 = 0.7;
/// Shortest and longest reservation, in seconds.
const LASTS: (i64, i64) = (600, 3_600);
/// Fewest and most cores of a reservation.
const TAKES: (i64, i64) = (1, 4);
/// Size of the job that is booked.
const CORES: Capacity = Capacity(8);
const RUN: Seconds = Seconds(3_600);
const KIND: &str = "processors";
const MACHINE: &str = "cluster";
/// Maker of the ids in the calendar, different from [`HERE`] so that ids are unique.
const ELSEWHERE: u128 = 1;
const HERE: u128 = 2;

/// Several sites with equal calendars.
pub(super) struct Grid {
    ledgers: Vec<(Name, Ledger)>,
    identities: Identities,
    /// End of the last reservation.
    horizon: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cost {
    /// Number of calls, each with an answer.
    pub(super) calls: usize,
    /// Sequential round trips until the owner of the job has an answer.
    pub(super) rounds: usize,
}

/// `count` random reservations that fill a machine to [`FULL`].
pub(super) fn calendar(count: usize, capacity: Capacity) -> Vec<Span> {
    let mut stream = Stream::new(1, "migol/calendar");
    let middle = |(low, high): (i64, i64)| (low + high) as f64 / 2.0;
    let horizon = count as f64 * middle(LASTS) * middle(TAKES) / (f64::from(capacity.0) * FULL);
    let mut profile = Profile::new(capacity, Time(0));
    (0..count)
        .filter_map(|_| {
            let from = Time(stream.whole(0, horizon as i64));
            let (lasts, takes) = (stream.whole(LASTS.0, LASTS.1), stream.whole(TAKES.0, TAKES.1));
            let need = Need { capacity: Capacity(takes as u32), length: Seconds(lasts) };
            // Moved to the first fit: at 70% load a random moment is often full, and leaving such a
            // reservation out would give fewer than `count`.
            let start = profile.earliest_fit(from, need, None)?;
            let span = Span::starting(start, need.length, need.capacity);
            profile.add(span);
            Some(span)
        })
        .collect()
}

impl Grid {
    /// Builds sites with these reservations. None only if the rules of the sites were invalid.
    pub(super) fn new(sites: usize, calendar: &[Span]) -> Option<Grid> {
        let ledger = booked(calendar)?;
        let ledgers = (0..sites).map(|at| (format!("site {at:03}").into(), ledger.clone())).collect();
        let horizon = calendar.iter().map(|span| span.interval.end).max().unwrap_or(Time(0));
        Some(Grid { ledgers, identities: Identities::new(HERE, 0), horizon })
    }

    /// End of the last reservation.
    pub(super) fn horizon(&self) -> Time {
        self.horizon
    }

    /// Holds and commits at the first site, like the paper's reservation service. Returns the id of the reservation.
    pub(super) fn reserve(&mut self, from: Time) -> (Cost, Option<ReservationId>) {
        let permission = permission();
        let id = ReservationId(self.identities.make());
        let part = task().part(from, Time(from.0 + FAR), RUN);
        let calls = [permission.reserve(id, Request::single(part), HOLD), permission.commit(id, vec![JOB])];
        let mut cost = Cost::default();
        let mut booked = None;
        for call in calls {
            let answer = self.call(0, call);
            cost = Cost { calls: cost.calls + 1, rounds: cost.rounds + 1 };
            booked = matches!(answer, Some(Answer::Reservation(_))).then_some(id);
        }
        (cost, booked)
    }

    /// Books the best of three, like the paper's job broker service. Returns the site and the id.
    pub(super) fn best_of_three(&mut self, from: Time) -> (Cost, Option<(Name, ReservationId)>) {
        let mut choice = Choice::new(permission());
        let mut effects = choice.start(Moment::of(from), self.order(from), &mut self.identities);
        let mut cost = Cost::default();
        let mut told = false;
        while !effects.send.is_empty() {
            cost.calls += effects.send.len();
            // Once the outcome is known, further calls (cancels) do not delay the owner.
            cost.rounds += usize::from(!told);
            let mut next = Effects::default();
            for out in effects.send {
                let Some((_, ledger)) = self.ledgers.iter_mut().find(|(name, _)| *name == out.to) else {
                    continue;
                };
                // The clock of the sites stands still. Otherwise reservations of the calendar would begin and
                // end, and their number would change during the measurement.
                let answer = ledger.handle(Moment(0), &out.envelope, &Views::default()).answer;
                let heard = choice.on_answer(Moment::of(from), &out.to, out.envelope.key, &answer);
                told |= heard.outcome.is_some();
                next.send.extend(heard.send);
            }
            effects = next;
        }
        match choice.outcome() {
            Some(Outcome::Booked { site, id, .. }) => (cost, Some((site.clone(), *id))),
            _ => (cost, None),
        }
    }

    /// Cancels a reservation at the named site, or at the first.
    pub(super) fn give_back(&mut self, site: Option<&Name>, id: ReservationId) {
        let at = self.ledgers.iter().position(|(name, _)| Some(name) == site).unwrap_or(0);
        self.call(at, bookahead_protocol::level::cancel(id));
    }

    fn call(&mut self, at: usize, call: Call) -> Option<Answer> {
        let envelope = Envelope { key: Key(self.identities.make()), caller: caller("broker"), call };
        let (_, ledger) = self.ledgers.get_mut(at)?;
        Some(ledger.handle(Moment(0), &envelope, &Views::default()).answer)
    }

    fn order(&self, from: Time) -> Order {
        let site = |name: &Name| Site {
            resource: machine(name),
            rates: vec![RATE],
            requested: 0,
            longest_wall_time: Millis::ZERO,
            bandwidth: None,
            hold_time: HOLD,
            notice: Millis::ZERO,
        };
        let sites: Vec<Site> = self.ledgers.iter().map(|(name, _)| site(name)).collect();
        Order {
            caller: caller("broker"),
            job: JOB,
            ranked: rank(&task(), &sites),
            task: task(),
            latest_end: Time(from.0 + FAR),
            at_a_time: Order::THREE,
            hold_for: HOLD,
            patience: Patience::default(),
        }
    }
}

const JOB: JobId = JobId(1);
const RATE: u32 = 1_800;
const HOLD: Millis = Millis::seconds(60);
/// Search window in seconds, longer than any calendar.
const FAR: i64 = 1_000_000_000;

fn task() -> Task {
    Task {
        cores: CORES,
        run: Millis::seconds(RUN.0),
        rate: RATE,
        files: Vec::new(),
        kind: KIND.into(),
        requirements: Vec::new(),
        description: Default::default(),
    }
}

fn machine(site: &Name) -> Resource {
    Resource::new(site.as_str(), MACHINE, KIND, CLUSTERS[1].capacity().0)
}

fn caller(user: &str) -> Caller {
    Caller { user: user.into(), roles: Vec::new() }
}

/// The permission to commit that comes with a submission.
fn permission() -> Permission<Committing> {
    let submission = Call::Commit { id: ReservationId(0), jobs: vec![JOB] };
    Received::of(&submission).committing().expect("a commit permits commits")
}

/// A ledger with all reservations of `calendar`, booked by ordinary calls.
fn booked(calendar: &[Span]) -> Option<Ledger> {
    let name: Name = "site".into();
    let placement = placement::Rules {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: true },
        slots: SlotRules::default(),
        admission: Admission::default(),
    };
    let offered = Offered { resource: machine(&name), placement };
    let mut ledger = Ledger::new(Rules::new(name, vec![offered])).ok()?;
    let mut identities = Identities::new(ELSEWHERE, 0);
    for span in calendar {
        let Interval { begin, end } = span.interval;
        let wanted = placement::Request {
            earliest_start: begin,
            latest_end: end,
            duration: span.interval.length(),
            capacity: span.capacity,
        };
        let part = Part::new(wanted, KIND);
        let id = ReservationId(identities.make());
        let call = Call::Reserve { id, request: Request::single(part), hold_for: HOLD, book: true };
        let envelope = Envelope { key: Key(identities.make()), caller: caller("others"), call };
        ledger.handle(Moment(0), &envelope, &Views::default());
    }
    Some(ledger)
}
