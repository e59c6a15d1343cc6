//! A complete negotiation: a request of four parts that start together at different sites is probed at every site,
//! searched, held and committed, with instant messages. Measures the computing time of the broker and of all ledgers,
//! compared with a broker that asks only as many sites as there are parts, and with a plain loop over the lists of all
//! sites, without any messages.

use bookahead_benches::{Chance, CpuTime, Guard, Outcome, PlainProfile, Report, guard, median, people};
use bookahead_plan::placement::{Admission, Method, Request as Wanted, Rules as Placement, SlotRules};
use bookahead_plan::{Capacity, Need, Policy, Seconds, Span, Time};
use bookahead_protocol::broker::{Broker, Effects, Rules};
use bookahead_protocol::ledger::{Ledger, Offered, Rules as SiteRules, Views};
use bookahead_protocol::{
    Answer, Call, Caller, Constraint, Envelope, Key, Millis, Moment, Name, Part, Request, ReservationId,
    Resource, State,
};
use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PARTS: usize = 4;
const ROUNDS: u128 = 30;
const DAY: i64 = 86_400;
/// Reservations at each site before the measurement.
const BOOKED: u128 = 300;

pub(crate) fn main() -> Report {
    guard("negotiation", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    println!("four parts at four sites, {BOOKED} reservations at each site, messages take no time");
    println!(
        "{:>8} {:>12} {:>12} {:>12} {:>10} {:>10} {:>12}",
        "sites", "broker", "ledgers", "in all", "messages", "committed", "plain"
    );
    let mut few = Duration::ZERO;
    for sites in [PARTS, 10, 100, 1_000] {
        let mut town = Town::new(sites);
        let (mut rounds, mut in_all, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let began = CpuTime::now();
            rounds.push(town.negotiate(round));
            in_all.push(began.elapsed().as_nanos() as f64);
            plain.push(town.negotiate_plainly(round));
        }
        let plain = median(plain);
        guard.times(format!("{sites} sites"), median(in_all), plain);
        let mean = |of: fn(&Took) -> Duration| rounds.iter().map(of).sum::<Duration>() / rounds.len() as u32;
        let (broker, ledgers) = (mean(|took| took.broker), mean(|took| took.ledgers));
        let messages: usize = rounds.iter().map(|took| took.messages).sum();
        few = if sites == PARTS { broker + ledgers } else { few };
        let show = |duration: Duration| people(duration.as_nanos() as f64);
        let committed = rounds.iter().filter(|took| took.committed).count();
        println!(
            "{sites:>8} {:>12} {:>12} {:>12} {:>10} {:>10} {:>12}   {:.1} times {PARTS} sites",
            show(broker),
            show(ledgers),
            show(broker + ledgers),
            messages / rounds.len(),
            format!("{committed}/{ROUNDS}"),
            people(plain),
            (broker + ledgers).as_secs_f64() / few.as_secs_f64(),
        );
    }
    Ok(())
}

#[derive(Default)]
struct Took {
    broker: Duration,
    ledgers: Duration,
    messages: usize,
    committed: bool,
}

struct Town {
    ledgers: BTreeMap<Name, Ledger>,
    broker: Broker,
    /// The sites of the baseline, with the same reservations at first.
    plain: Vec<PlainProfile>,
}

fn caller() -> Caller {
    Caller { user: "ada".into(), roles: Vec::new() }
}

fn part(capacity: u32, earliest: i64, window: i64, duration: i64) -> Part {
    let wanted = Wanted {
        earliest_start: Time(earliest),
        latest_end: Time(earliest + duration + window),
        duration: Seconds(duration),
        capacity: Capacity(capacity),
    };
    Part::new(wanted, "processors")
}

impl Town {
    fn new(sites: usize) -> Town {
        let mut chance = Chance::new(sites as u64);
        let mut broker = Broker::new(Rules { maker: 1, probes_at_once: 10_000, ..Rules::default() });
        let (mut ledgers, mut plain) = (BTreeMap::new(), Vec::new());
        for site in 0..sites {
            let name = format!("site{site:04}");
            let resource = Resource::new(&name, "cluster", "processors", 64);
            broker.register(name.as_str().into(), vec![resource.clone()], None);
            let method = Method::EarliestStart { local_jobs_preferred: true };
            let slots = SlotRules::default();
            let placement =
                Placement { policy: Policy::EASY, method, slots, admission: Admission::default() };
            let rules = SiteRules::new(name.as_str(), vec![Offered { resource, placement }]);
            let Ok(mut ledger) = Ledger::new(rules) else { continue };
            let mut list = PlainProfile::new(64);
            for booked in 0..BOOKED {
                let wanted = part(chance.between(1, 48) as u32, chance.between(0, 30 * DAY), DAY, 7_200);
                let call = Call::Reserve {
                    id: ReservationId((1 << 100) | booked),
                    request: Request::single(wanted),
                    hold_for: Millis::seconds(60),
                    book: true,
                };
                let envelope = Envelope { key: Key((1 << 100) | booked), caller: caller(), call };
                let handled = ledger.handle(Moment(0), &envelope, &Views::default());
                if let Answer::Reservation(reservation) = handled.answer {
                    let slots = reservation.slots.iter();
                    slots
                        .for_each(|slot| list.add(Span { interval: slot.interval, capacity: slot.capacity }));
                }
            }
            plain.push(list);
            ledgers.insert(Name::from(name), ledger);
        }
        broker.resume(Moment(0));
        Town { ledgers, broker, plain }
    }

    /// Books one request per round, and measures broker and ledgers separately.
    fn negotiate(&mut self, round: u128) -> Took {
        let now = Moment(round as i64 * 1_000);
        let parts = vec![part(8, DAY + round as i64 * 3_600, 6 * 3_600, 3_600); PARTS];
        let pairs = (0..PARTS).flat_map(|second| (0..second).map(move |first| (first, second)));
        let constraints = pairs
            .flat_map(|(first, second)| {
                let together = Constraint::Offset { first, second, by: Seconds(0) };
                [together, Constraint::DifferentSites(first, second)]
            })
            .collect();
        let request = Request::new(parts, constraints);
        let id = ReservationId(round);
        let call = Call::Reserve { id, request, hold_for: Millis::seconds(60), book: true };
        let envelope = Envelope { key: Key(round), caller: caller(), call };
        let mut took = Took::default();
        let begin = Instant::now();
        let mut effects = self.broker.handle(now, &"ada".into(), &envelope);
        took.broker += begin.elapsed();
        let mut calls: VecDeque<_> = std::mem::take(&mut effects.send).into();
        loop {
            let Some(call) = calls.pop_front() else {
                if self.broker.searches_under_way().len() == 0 {
                    break;
                }
                let begin = Instant::now();
                effects = self.broker.tick(now);
                took.broker += begin.elapsed();
                calls.extend(std::mem::take(&mut effects.send));
                continue;
            };
            took.messages += 2;
            let Some(ledger) = self.ledgers.get_mut(&call.to) else { continue };
            let begin = Instant::now();
            let handled = ledger.handle(now, &call.envelope, &Views::default());
            took.ledgers += begin.elapsed();
            let begin = Instant::now();
            effects = self.broker.on_answer(now, &call.to, call.envelope.key, &handled.answer);
            took.broker += begin.elapsed();
            calls.extend(std::mem::take(&mut effects.send));
        }
        took.committed = is_committed(&effects);
        took
    }

    /// Nanoseconds to find room for the same request. It is so fast that it is repeated.
    fn negotiate_plainly(&mut self, round: u128) -> f64 {
        let need = Need { capacity: Capacity(8), length: Seconds(3_600) };
        let from = Time(DAY + round as i64 * 3_600);
        let times = (10_000 / self.plain.len()).max(1);
        let began = CpuTime::now();
        (1..times).for_each(|_| drop(black_box(self.plain_fits(from, need))));
        let (begin, sites) = self.plain_fits(from, need);
        let took = began.elapsed().as_nanos() as f64 / times as f64;
        let span = Span::starting(begin, need.length, need.capacity);
        sites.into_iter().for_each(|site| self.plain[site].add(span));
        took
    }

    /// The earliest begin at which enough sites have room, and those.
    fn plain_fits(&self, mut from: Time, need: Need) -> (Time, Vec<usize>) {
        loop {
            let sites = self.plain.iter().enumerate();
            let mut fits: Vec<(Time, usize)> =
                sites.filter_map(|(at, site)| Some((site.earliest_fit(from, need)?, at))).collect();
            fits.sort_unstable();
            fits.truncate(PARTS);
            let begin = fits.last().map_or(from, |&(begin, _)| begin);
            if fits.iter().all(|&(start, _)| start == begin) {
                return (begin, fits.into_iter().map(|(_, site)| site).collect());
            }
            from = begin;
        }
    }
}

fn is_committed(effects: &Effects) -> bool {
    matches!(effects.replies.first().map(|reply| &reply.answer),
        Some(Answer::Reservation(reservation)) if reservation.state == State::Committed)
}
