//! Sites whose ledgers hold many reservations, and how a job broker books at them: everything in one place and without a
//! network, so that calls can be counted and computing time measured.

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

/// How full the calendar of a site is, over all its reservations.
const FULL: f64 = 0.7;
/// Reservations last that long, and take so many cores.
const LASTS: (i64, i64) = (600, 3_600);
const TAKES: (i64, i64) = (1, 4);
/// The job that is booked.
const CORES: Capacity = Capacity(8);
const RUN: Seconds = Seconds(3_600);
const KIND: &str = "processors";
const MACHINE: &str = "cluster";
/// What was made before is numbered by another maker.
const ELSEWHERE: u128 = 1;
const HERE: u128 = 2;

/// Several sites with equal calendars.
pub(super) struct Grid {
    ledgers: Vec<(Name, Ledger)>,
    identities: Identities,
    /// The last second that is booked.
    horizon: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cost {
    /// Calls, each with an answer.
    pub(super) calls: usize,
    /// Round trips one after another until the owner of the job knows.
    pub(super) rounds: usize,
}

/// So many reservations on a machine, as many at a time as fill it to [`FULL`].
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
            let start = profile.earliest_fit(from, need, None)?;
            let span = Span::starting(start, need.length, need.capacity);
            profile.add(span);
            Some(span)
        })
        .collect()
}

impl Grid {
    /// So many sites, each with these reservations. None where the rules of the sites are refused, which they are not.
    pub(super) fn new(sites: usize, calendar: &[Span]) -> Option<Grid> {
        let ledger = booked(calendar)?;
        let ledgers = (0..sites).map(|at| (format!("site {at:03}").into(), ledger.clone())).collect();
        let horizon = calendar.iter().map(|span| span.interval.end).max().unwrap_or(Time(0));
        Some(Grid { ledgers, identities: Identities::new(HERE, 0), horizon })
    }

    /// The last second that is booked.
    pub(super) fn horizon(&self) -> Time {
        self.horizon
    }

    /// Holds at the first site and commits: the paper's reservation service. Answers the id of what is booked.
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

    /// Takes the best of three: the paper's job broker service. Answers where what is booked.
    pub(super) fn best_of_three(&mut self, from: Time) -> (Cost, Option<(Name, ReservationId)>) {
        let mut choice = Choice::new(permission());
        let mut effects = choice.start(Moment::of(from), self.order(from), &mut self.identities);
        let mut cost = Cost::default();
        let mut told = false;
        while !effects.send.is_empty() {
            cost.calls += effects.send.len();
            cost.rounds += usize::from(!told);
            let mut next = Effects::default();
            for out in effects.send {
                let Some((_, ledger)) = self.ledgers.iter_mut().find(|(name, _)| *name == out.to) else {
                    continue;
                };
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

    /// Gives back what was booked at the first site, or at the one that is named.
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
/// Further ahead than any calendar is booked.
const FAR: i64 = 1_000_000_000;

fn task() -> Task {
    Task {
        cores: CORES,
        run: Millis::seconds(RUN.0),
        rate: RATE,
        files: Vec::new(),
        kind: KIND.into(),
        requirements: Vec::new(),
    }
}

fn machine(site: &Name) -> Resource {
    Resource::new(site.as_str(), MACHINE, KIND, CLUSTERS[1].capacity().0)
}

fn caller(user: &str) -> Caller {
    Caller { user: user.into(), roles: Vec::new() }
}

/// Whoever submits a job asks for a commit.
fn permission() -> Permission<Committing> {
    let submission = Call::Commit { id: ReservationId(0), jobs: vec![JOB] };
    Received::of(&submission).committing().expect("a commit permits commits")
}

/// A ledger in which all of `calendar` is booked, by calls as anybody would make them.
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
