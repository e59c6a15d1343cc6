//! Contention: many clients request the same resource at the same moment. All that fits is granted, and the rest is
//! refused in time.

use bookahead_plan::placement::{Admission, Method, Request as Wanted, Rules as Placement, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::broker::Rules;
use bookahead_protocol::ledger::{self, Offered};
use bookahead_protocol::{Constraint, Millis, Moment, Part, Request, Resource};
use bookahead_sim::grid::client::{Client, Wish};
use bookahead_sim::grid::site::{Broker, Site};
use bookahead_sim::grid::{Grid, Party, Role, network};
use std::collections::{BTreeMap, VecDeque};

/// Processors of each part, held for an hour.
const WANTED: u32 = 12;
const PROCESSORS: u32 = 16;
const HOUR: i64 = 3_600;

/// Lets `askers` clients request `parts` parts each at the same moment, over `sites` sites with `hours` hours of room.
/// Returns the number of granted requests, and the times to the last answers in ascending order.
fn granted(askers: usize, parts: usize, sites: usize, hours: i64, seed: u64) -> (usize, Vec<Millis>) {
    let names: Vec<String> = (0..sites).map(|at| format!("site{at}")).collect();
    let resource = |name: &str| Resource::new(name, "cluster", "processors", PROCESSORS);
    let mut parties: Vec<Party> = (0..askers).map(|at| asker(at, parts, hours)).collect();
    let peers = names.iter().map(|name| (name.as_str().into(), vec![resource(name)])).collect();
    let rules = Rules { maker: 1_000, ..Rules::default() };
    let broker = Broker::new(&"grid".into(), rules, peers);
    parties.push(Party::new("grid".into(), Role::Broker(Box::new(broker))));
    for name in &names {
        let placement = Placement {
            policy: Policy::EASY,
            method: Method::EarliestStart { local_jobs_preferred: false },
            slots: SlotRules::default(),
            admission: Admission::default(),
        };
        let rules = ledger::Rules::new(name.as_str(), vec![Offered { resource: resource(name), placement }]);
        let site = Site::new(rules, BTreeMap::new()).unwrap();
        parties.push(Party::new(name.as_str().into(), Role::Site(Box::new(site))));
    }
    let network = network::Rules { fastest: Millis(1), slowest: Millis(5), lost: 0, twice: 0, delayed: 0 };
    let mut grid = Grid::new(parties, network, seed);
    grid.run(Moment::of(Time(120)));
    let records: Vec<_> = grid
        .parties()
        .iter()
        .filter_map(
            |party| if let Role::Client(client) = &party.role { client.records().first() } else { None },
        )
        .collect();
    let mut took: Vec<Millis> = records
        .iter()
        .map(|record| record.answers.last().expect("every client is answered").0 - record.asked)
        .collect();
    took.sort_unstable();
    (records.iter().filter(|record| record.was_told_committed()).count(), took)
}

fn asker(at: usize, parts: usize, hours: i64) -> Party {
    let wanted = Wanted {
        earliest_start: Time(HOUR),
        latest_end: Time(HOUR + hours * HOUR),
        duration: Seconds(HOUR),
        capacity: Capacity(WANTED),
    };
    let part = Part::new(wanted, "processors");
    let mut request = Request { parts: vec![part.clone(); parts], ..Request::single(part) };
    for second in 1..parts {
        request.constraints.push(Constraint::Offset { first: 0, second, by: Seconds::ZERO });
        request.constraints.push(Constraint::DifferentSites(0, second));
    }
    let (at_once, hold_for, steps) = (Moment(0), Millis::seconds(30), VecDeque::new());
    let wish = Wish { at: at_once, request, hold_for, book: true, steps };
    let maker = 2_000 + at as u128;
    let client = Client::new("grid".into(), &format!("user{at}"), maker, vec![wish]);
    Party::new(format!("user{at}").into(), Role::Client(Box::new(client)))
}

#[test]
fn of_many_who_ask_at_once_as_many_are_granted_it_as_fit() {
    for (askers, parts, sites, hours) in [
        (4, 1, 1, 8),
        (24, 1, 1, 16),
        (64, 1, 4, 16),
        (64, 1, 4, 10),
        (24, 2, 4, 8),
        (64, 2, 4, 32),
        (64, 2, 4, 16),
    ] {
        let fit = askers.min(sites / parts * hours as usize);
        for seed in 1..=5 {
            let (granted, took) = granted(askers, parts, sites, hours, seed);
            let case = format!("{askers} askers, {parts} parts, {sites} sites, {hours} h, seed {seed}");
            let p99 = took[took.len() * 99 / 100 - usize::from(took.len() % 100 == 0)];
            eprintln!("{case}: {granted} of {fit}, p99 {p99}");
            assert!(granted <= fit, "{case}: {granted} of {fit}");
            assert!(granted * 100 >= fit * 95, "{case}: {granted} of {fit}");
            assert!(took.iter().all(|took| *took < Millis::seconds(15)), "{case}: {took:?}");
        }
    }
}
