//! The ledger of a site with 1,000, 10,000 and 100,000 live reservations: a probe of up to 20 slots in a day, a hold, a
//! commit and an expiry, with and without a queue of 100 jobs, compared with a list of spans that is scanned
//! completely. Growth is the factor from a tenth of the reservations.

use bookahead_benches::{Chance, CpuTime, Guard, Outcome, Report, guard, median, people};
use bookahead_plan::placement::{self, Admission, Method, SlotRules, Weights};
use bookahead_plan::{Capacity, Interval, Owner, Policy, Running, Seconds, Span, Time, Waiting};
use bookahead_protocol::ledger::{Ledger, Offered, Rules, View, Views};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, Key, Millis, Moment, Part, Request, ReservationId, Resource,
};
use std::hint::black_box;

const MACHINE: u32 = 1_024;
/// Seconds between the begins of two reservations; three fifths of the machine are then reserved.
const APART: i64 = 200;
const LENGTH: Seconds = Seconds(600);
/// Capacity of a probe: the average free capacity, so that it fits at some times only.
const WIDE: u32 = 420;
const DAY: i64 = 86_400;
/// Number of operations that are timed together.
const BATCH: usize = 100;
/// Number of repetitions, each on a fresh copy. Ledger and list take turns; the median counts.
const ROUNDS: usize = 9;
const NAMES: [&str; 4] = ["probe", "hold", "commit", "expire"];

pub(crate) fn main() -> Report {
    guard("ledger", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    println!("1,024 processors; slots found by a probe: {:.1} on average\n", slots_found());
    println!(
        "{:>8} {:>12} {:>10} {:>7} {:>10} {:>8} {:>16} {:>7}",
        "reserved", "", "ledger", "growth", "scanned", "ratio", "with 100 jobs", "growth"
    );
    let mut before: Option<([f64; 4], [f64; 4])> = None;
    for reserved in [1_000, 10_000, 100_000] {
        let spans = spans(reserved);
        let (site, mut list, queue) = (Site::new(&spans), Plain::new(&spans), queue());
        let mut rounds: [[Vec<f64>; 4]; 3] = Default::default();
        for round in 0..ROUNDS {
            let times = [site.times(round, &Views::default()), site.times(round, &queue), list.times(round)];
            for (rounds, times) in rounds.iter_mut().flatten().zip(times.iter().flatten()) {
                rounds.push(*times);
            }
        }
        let [free, queue, plain] = rounds.map(|rounds| rounds.map(median));
        for at in 0..NAMES.len() {
            let growth = |now: [f64; 4], before: Option<[f64; 4]>| {
                before.map_or(String::new(), |before| format!("{:.1}", now[at] / before[at]))
            };
            println!(
                "{:>8} {:>12} {:>10} {:>7} {:>10} {:>8} {:>16} {:>7}",
                if at == 0 { reserved.to_string() } else { String::new() },
                NAMES[at],
                people(free[at]),
                growth(free, before.map(|(free, _)| free)),
                people(plain[at]),
                format!("{:.1}", plain[at] / free[at]),
                people(queue[at]),
                growth(queue, before.map(|(_, queue)| queue)),
            );
            guard.times(format!("{}, {reserved}", NAMES[at]), free[at], plain[at]);
            guard.times(format!("{}, {reserved}, with 100 jobs", NAMES[at]), queue[at], plain[at]);
        }
        before = Some((free, queue));
    }
    Ok(())
}

/// Slots that a probe finds if no job waits.
fn slots_found() -> f64 {
    let mut site = Site::new(&spans(1_000));
    let chance = &mut Chance::new(1);
    let found = (0..BATCH).map(|_| {
        let begin = DAY + chance.below((site.horizon - DAY) as u64) as i64;
        let call = Call::Probe { request: request(begin, DAY, WIDE), most: 20, starts: vec![] };
        match site.call(1, call, &Views::default()) {
            Answer::Offers(offers) => offers.len(),
            _ => 0,
        }
    });
    found.sum::<usize>() as f64 / BATCH as f64
}

/// Reservations spread evenly, with room between them.
fn spans(count: i64) -> Vec<Span> {
    let chance = &mut Chance::new(7);
    let mut span = |at: i64| {
        let begin = Time(DAY + at * APART + chance.between(0, APART));
        let capacity = Capacity(1 + chance.below(63) as u32);
        Span::starting(begin, Seconds(chance.between(600, 7_200)), capacity)
    };
    (0..count).map(&mut span).collect()
}

/// A full machine, and waiting jobs for some hours.
fn queue() -> Views {
    let chance = &mut Chance::new(11);
    let running = (0..60)
        .map(|_| Running { expected_end: Time(chance.between(60, 7_200)), capacity: Capacity(16), owner: 0 })
        .collect();
    let waiting = (0..100)
        .map(|at| Waiting {
            submit: Time(at - 100),
            estimate: Seconds(chance.between(5, 120) * 60),
            capacity: Capacity(8 << chance.below(6)),
            priority: 0,
            owner: Owner::NONE,
        })
        .collect();
    Views::of("cluster".into(), View { running, waiting, ..View::default() })
}

fn request(begin: i64, window: i64, capacity: u32) -> Request {
    let wanted = placement::Request {
        earliest_start: Time(begin),
        latest_end: Time(begin + window) + LENGTH,
        duration: LENGTH,
        capacity: Capacity(capacity),
    };
    Request::single(Part::new(wanted, "processors"))
}

struct Site {
    ledger: Ledger,
    horizon: i64,
    keys: u128,
}

impl Site {
    fn new(spans: &[Span]) -> Site {
        let placement = placement::Rules {
            policy: Policy::EASY,
            method: Method::WhatIf(Weights::EVEN),
            slots: SlotRules { most: 20, gap: Seconds(900), natural: false },
            admission: Admission::default(),
        };
        let resource = Resource::new("north", "cluster", "processors", MACHINE);
        let ledger = Ledger::new(Rules::new("north", vec![Offered { resource, placement }]));
        let horizon = spans.last().map_or(DAY, |span| span.interval.begin.0 - DAY);
        let mut site = Site { ledger: ledger.expect("sound rules"), horizon, keys: 0 };
        for (id, span) in spans.iter().enumerate() {
            let mut request = request(span.interval.begin.0, 0, span.capacity.0);
            request.parts[0].wanted.duration = span.interval.length();
            request.parts[0].wanted.latest_end = span.interval.end;
            let id = ReservationId(id as u128);
            site.call(
                0,
                Call::Reserve { id, request, hold_for: Millis::ZERO, book: true },
                &Views::default(),
            );
        }
        site
    }

    fn call(&mut self, now: i64, call: Call, views: &Views) -> Answer {
        self.keys += 1;
        let caller = Caller { user: format!("user{}", self.keys % 50).into(), roles: vec![] };
        let envelope = Envelope { key: Key(self.keys), caller, call };
        self.ledger.handle(Moment(now), &envelope, views).answer
    }

    /// Nanoseconds of a probe, a hold, a commit, an expiry, on a copy.
    fn times(&self, round: usize, views: &Views) -> [f64; 4] {
        let mut site = Site { ledger: self.ledger.clone(), horizon: self.horizon, keys: self.keys };
        let chance = &mut Chance::new(round as u64);
        let mut begin = || DAY + chance.below(self.horizon as u64) as i64;
        let probe = |begin| Call::Probe { request: request(begin, DAY, WIDE), most: 20, starts: vec![] };
        let hold = |id: usize, begin| Call::Reserve {
            id: ReservationId((1 << 100) + id as u128),
            request: request(begin, 0, 1),
            hold_for: Millis(10_000),
            book: false,
        };
        let commit = |id: usize| Call::Commit { id: ReservationId((1 << 100) + id as u128), jobs: vec![] };
        let probes: Vec<Call> = (0..BATCH).map(|_| probe(begin().min(self.horizon))).collect();
        let holds: Vec<Call> = (0..2 * BATCH).map(|id| hold(id, begin())).collect();
        let (committed, left) = holds.split_at(BATCH);
        let probing = site.timed(probes, views);
        let holding = site.timed(committed.to_vec(), views);
        let first_user = self.keys + BATCH as u128;
        let committing = site.timed_as(first_user, (0..BATCH).map(commit).collect(), views);
        site.timed(left.to_vec(), views);
        let start = CpuTime::now();
        let expired = black_box(site.ledger.tick(Moment(60_000))).events.len();
        let expiring = start.elapsed().as_nanos() as f64 / expired.max(1) as f64;
        [probing, holding, committing, expiring]
    }

    fn timed(&mut self, calls: Vec<Call>, views: &Views) -> f64 {
        let start = CpuTime::now();
        let count = calls.len() as f64;
        for call in calls {
            black_box(self.call(1, call, views));
        }
        start.elapsed().as_nanos() as f64 / count
    }

    /// As the users that made the calls from `first` on.
    fn timed_as(&mut self, first: u128, calls: Vec<Call>, views: &Views) -> f64 {
        let keys = std::mem::replace(&mut self.keys, first);
        let offset = keys - first;
        let start = CpuTime::now();
        let count = calls.len() as f64;
        for call in calls {
            self.keys += 1;
            let caller = Caller { user: format!("user{}", self.keys % 50).into(), roles: vec![] };
            let envelope = Envelope { key: Key(self.keys + offset), caller, call };
            black_box(self.ledger.handle(Moment(1), &envelope, views));
        }
        let time = start.elapsed().as_nanos() as f64 / count;
        self.keys += offset;
        time
    }
}

/// The same with a list of id, deadline and span: every span is visited to find whether a begin fits.
struct Plain(Vec<(u128, i64, Span)>);

impl Plain {
    fn new(spans: &[Span]) -> Plain {
        Plain(spans.iter().enumerate().map(|(id, &span)| (id as u128, i64::MAX, span)).collect())
    }

    fn times(&mut self, round: usize) -> [f64; 4] {
        let list = &mut self.0;
        let count = list.len();
        let horizon = list.last().map_or(DAY, |(_, _, span)| span.interval.begin.0 - DAY) as u64;
        let chance = &mut Chance::new(round as u64);
        let batch = 2_000_000 / count;
        let mut time = |work: &mut dyn FnMut(i64)| {
            let start = CpuTime::now();
            (0..batch).for_each(|_| work(DAY + chance.below(horizon) as i64));
            start.elapsed().as_nanos() as f64 / batch as f64
        };
        let probe = time(&mut |begin| {
            let begins = (0..20).map(|at| begin + DAY * at / 19);
            black_box(begins.filter(|&begin| plain_fits(list, begin, WIDE)).count());
        });
        let hold = time(&mut |begin| {
            if plain_fits(list, begin, 1) {
                list.push((1 << 100, 10_000, Span::starting(Time(begin), LENGTH, Capacity(1))));
                list.pop();
            }
        });
        let commit = time(&mut |begin| {
            let wanted = (begin as u128) % count as u128;
            if let Some(found) = list.iter_mut().find(|(id, _, _)| *id == wanted) {
                found.1 = i64::MAX;
            }
        });
        let expire = time(&mut |_| list.retain(|(_, deadline, _)| *deadline > 60_000));
        [probe, hold, commit, expire]
    }
}

fn plain_fits(list: &[(u128, i64, Span)], begin: i64, capacity: u32) -> bool {
    let slot = Interval::starting(Time(begin), LENGTH);
    let overlapping: Vec<Span> = list
        .iter()
        .map(|(_, _, span)| *span)
        .filter(|span| span.interval.begin < slot.end && slot.begin < span.interval.end)
        .collect();
    let taken_at = |time: Time| {
        let here = overlapping.iter().filter(|span| span.interval.contains(time));
        here.map(|span| span.capacity.0).sum::<u32>()
    };
    let changes = overlapping.iter().map(|span| span.interval.begin.max(slot.begin));
    changes.map(taken_at).max().unwrap_or(0) + capacity <= MACHINE
}
