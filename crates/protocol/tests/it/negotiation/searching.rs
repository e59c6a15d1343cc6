//! Long searches: they block no other call, and find the same as without interruption.

use super::town::{name, part};
use bookahead_plan::{Interval, Seconds};
use bookahead_protocol::broker::{Broker, Effects, Event, Rules, SLICE, name_here};
use bookahead_protocol::candidates::{Budget, Candidate, Excluded, Found, Search, UNIT};
use bookahead_protocol::{
    Answer, Call, Caller, Constraint, Envelope, Key, Millis, Moment, Name, Objective, Offer, Problem,
    Request, ReservationId, Resource, Slot, Tres, Why,
};

const ID: ReservationId = ReservationId(1);
/// Enough work for everything that can be found here.
const PLENTY: Budget = Budget { work: 1_000_000_000 };

/// A broker whose peers offer the same slots to all callers, at once, and refuse every hold.
struct Desk {
    now: Moment,
    broker: Broker,
    /// The broker's journal.
    events: Vec<Event>,
    peers: usize,
}

fn site(number: usize) -> Name {
    name(&format!("site-{number}"))
}

/// Slots at each quarter of an hour, the later the cheaper. Costs differ far more between sites, so the
/// cheapest combination takes long to find.
fn offered(site: &Name, request: &Request, part: usize) -> Vec<Slot> {
    let wanted = request.parts[part].wanted;
    let dearer = site.as_str().bytes().map(i64::from).sum::<i64>() * 2;
    let slot = |at: i64| Slot {
        resource: name("cluster"),
        site: site.clone(),
        joins: None,
        interval: Interval::starting(wanted.earliest_start + Seconds(at * 900), wanted.duration),
        capacity: wanted.capacity,
        slack: Seconds(600),
        free: None,
        rating: None,
        impact: None,
        tres: Tres::default(),
        free_tres: Tres::default(),
        cost: (dearer - at).unsigned_abs(),
    };
    (0..20).map(slot).collect()
}

/// This many parts, all at different sites.
fn apart(parts: usize) -> Request {
    let pairs = (0..parts).flat_map(|one| (one + 1..parts).map(move |other| (one, other)));
    let constraints = pairs.map(|(one, other)| Constraint::DifferentSites(one, other)).collect();
    let parts = vec![part("processors", 4, 0, 86_400, 3_600); parts];
    Request::new(parts, constraints)
}

/// The cheapest combination at four sites.
fn cheapest() -> Request {
    Request { objective: Objective::LowestCost, ..apart(4) }
}

/// Eight parts at different sites out of seven, with the constraint repeated 9,000 times.
fn impossible() -> Request {
    let mut request = apart(8);
    request.constraints = request.constraints.iter().cloned().cycle().take(9_000).collect();
    request
}

/// A broker with a bound on the work of a search.
fn rules(work: u64) -> Rules {
    Rules { search: Budget { work }, ..Rules::default() }
}

impl Desk {
    fn new(peers: usize, rules: Rules) -> Desk {
        let mut broker = Broker::new(rules);
        for peer in (0..peers).map(site) {
            broker.register(
                peer.clone(),
                vec![Resource::new(peer.as_str(), "cluster", "processors", 8)],
                None,
            );
        }
        broker.resume(Moment(0));
        Desk { now: Moment(0), broker, events: Vec::new(), peers }
    }

    /// The slots that the survey for a request finds.
    fn found(&self, request: &Request) -> Vec<Vec<Found>> {
        let at = |part: usize| {
            let offered = |peer: Name| {
                offered(&peer, request, part).into_iter().map(move |slot| Found { peer: peer.clone(), slot })
            };
            (0..self.peers).map(site).flat_map(offered).collect()
        };
        (0..request.parts.len()).map(at).collect()
    }

    fn call(&mut self, user: &str, key: u128, call: Call) -> Option<Answer> {
        let caller = Caller { user: name(user), roles: Vec::new() };
        let effects = self.broker.handle(self.now, &name(user), &Envelope { key: Key(key), caller, call });
        self.carry(effects)
    }

    fn probe(&mut self, user: &str, request: &Request, most: u32) -> Option<Answer> {
        self.call(user, 7, Call::Probe { request: request.clone(), most, starts: Vec::new() })
    }

    fn reserve(&mut self, request: &Request) -> Option<Answer> {
        let (request, hold_for) = (request.clone(), Millis::seconds(30));
        self.call("ada", 8, Call::Reserve { id: ID, request, hold_for, book: false })
    }

    /// Delivers calls to peers and their answers; returns the last reply to a client.
    fn carry(&mut self, effects: Effects) -> Option<Answer> {
        self.events.extend(effects.events);
        let mut told = effects.replies.into_iter().next_back().map(|reply| reply.answer);
        for out in effects.send {
            let answer = match &out.envelope.call {
                Call::Probe { request, .. } => {
                    let slots = offered(&out.to, request, 0).into_iter();
                    Answer::Offers(slots.map(|slot| Offer { slots: vec![slot] }).collect())
                }
                _ => Problem::new(Why::Expired).into(),
            };
            let effects = self.broker.on_answer(self.now, &out.to, out.envelope.key, &answer);
            told = self.carry(effects).or(told);
        }
        told
    }

    /// Advances time by this much, or not at all.
    fn tick(&mut self, millis: i64) -> Option<Answer> {
        assert!(self.broker.next_timer().is_some_and(|due| due <= self.now), "it is due at once");
        assert!(!self.broker.is_settled());
        self.now = self.now + Millis(millis);
        let effects = self.broker.tick(self.now);
        self.carry(effects)
    }

    /// Ticks until there is a reply; returns the number of ticks.
    fn wait(&mut self) -> (Answer, usize) {
        let mut ticks = 0;
        loop {
            ticks += 1;
            if let Some(answer) = self.tick(0) {
                return (answer, ticks);
            }
        }
    }

    /// The work of each search in progress.
    fn work(&self) -> Vec<u64> {
        self.broker.searches_under_way().map(Search::work).collect()
    }
}

#[track_caller]
fn why(answer: Answer) -> Why {
    match answer {
        Answer::Problem(problem) => problem.why,
        other => panic!("{other:?}"),
    }
}

/// The first `most` candidates of a search, as offers.
fn offers(mut search: Search, most: usize) -> Vec<Offer> {
    let offer = |candidate: &Candidate, slack: &[Seconds]| {
        let slot = |(part, peer, slot): (usize, &Name, &Slot)| Slot {
            resource: name_here(peer, &slot.resource),
            slack: slack[part],
            ..slot.clone()
        };
        Offer { slots: candidate.slots().map(slot).collect() }
    };
    let next = || {
        let candidate = search.next()?;
        Some(offer(&candidate, &search.slack(&candidate)))
    };
    std::iter::from_fn(next).take(most).collect()
}

#[test]
fn an_impossible_request_takes_a_slice_at_a_time_and_a_bounded_work_in_all() {
    let budget = 10_000_000;
    let mut desk = Desk::new(7, rules(budget));
    assert_eq!(desk.probe("ada", &impossible(), 10), None);
    let mut before = desk.work()[0];
    assert!((SLICE..SLICE + UNIT).contains(&before), "the first slice comes with the last answer: {before}");
    let mut ticks = 0;
    let answer = loop {
        if let Some(answer) = desk.tick(0) {
            break answer;
        }
        let [work] = desk.work()[..] else { panic!("{:?}", desk.work()) };
        assert!((before + SLICE..before + SLICE + UNIT).contains(&work), "{before} {work}");
        (before, ticks) = (work, ticks + 1);
    };
    assert_eq!(why(answer), Why::NoCandidate { tried: 0, all: false });
    assert!(before < budget && ticks <= budget / SLICE, "{before} {ticks}");
    assert!(desk.broker.is_settled() && desk.broker.next_timer().is_none());
    let mut once = Search::new(&apart(8), desk.found(&apart(8)), rules(budget).search);
    assert_eq!((once.next(), once.work() < budget + UNIT), (None, true));
}

#[test]
fn others_are_answered_between_two_slices() {
    let mut desk = Desk::new(7, Rules::default());
    assert_eq!(desk.probe("ada", &impossible(), 1), None);
    for _ in 0..3 {
        let before = desk.work();
        let Some(Answer::Offers(offers)) = desk.probe("bob", &apart(2), 3) else { panic!("bob has to wait") };
        assert_eq!(offers.len(), 3);
        assert_eq!(desk.work(), before, "steps of other calls do not advance it");
        assert_eq!(desk.tick(0), None);
        assert!(desk.work() > before);
    }
}

#[test]
fn searches_take_turns() {
    let mut desk = Desk::new(7, Rules::default());
    for (user, parts) in [("ada", 8), ("bob", 9), ("eve", 10)] {
        assert_eq!(desk.probe(user, &apart(parts), 1), None);
    }
    for _ in 0..6 {
        assert_eq!(desk.tick(0), None);
    }
    let work = desk.work();
    assert_eq!(work.len(), 3);
    assert!(work.iter().all(|work| (3 * SLICE..3 * (SLICE + UNIT)).contains(work)), "{work:?}");
}

#[test]
fn offers_are_those_of_a_search_that_is_not_sliced() {
    let mut desk = Desk::new(4, rules(PLENTY.work));
    let request = cheapest();
    assert_eq!(desk.probe("ada", &request, 20), None);
    let (answer, ticks) = desk.wait();
    let at_once = Search::new(&request, desk.found(&request), PLENTY);
    assert_eq!(answer, Answer::Offers(offers(at_once, 20)));
    assert!(ticks > 1, "{ticks}");
}

#[test]
fn candidates_tried_are_those_of_a_search_that_is_not_sliced() {
    let rules = Rules { attempts: 4, ..rules(PLENTY.work) };
    let mut desk = Desk::new(4, rules);
    let request = cheapest();
    assert_eq!(desk.reserve(&request), None);
    let (answer, ticks) = desk.wait();
    assert_eq!(why(answer), Why::NoCandidate { tried: 4, all: false });

    let mut search = Search::new(&request, desk.found(&request), PLENTY);
    let mut first = search.clone();
    first.next();
    assert!(ticks as u64 > first.work() / SLICE + 1, "not only the first takes several: {ticks}");
    let expected: Vec<Vec<Slot>> = std::iter::from_fn(|| {
        let candidate = search.next()?;
        let (_, peer, slot) = candidate.slots().next()?;
        let (peer, resource) = (peer.clone(), slot.resource.clone());
        search.without(&Excluded::Slot { peer, resource, start: slot.interval.begin });
        Some(candidate.slots().map(|(_, _, slot)| slot.clone()).collect())
    })
    .take(4)
    .collect();
    let tried = desk.events.iter().filter_map(|event| match event {
        Event::Trying { picks, .. } => Some(picks.iter().map(|pick| pick.slot.clone()).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(tried.collect::<Vec<_>>(), expected);
}

#[test]
fn a_booking_that_is_cancelled_is_not_searched_for_any_more() {
    let mut desk = Desk::new(7, Rules::default());
    assert_eq!(desk.reserve(&impossible()), None);
    assert_eq!(desk.tick(0), None);
    assert_eq!(desk.work().len(), 1);
    let cancelled = desk.call("ada", 9, Call::Cancel { id: ID });
    assert!(matches!(cancelled, Some(Answer::Reservation(_))), "{cancelled:?}");
    assert!(desk.work().is_empty() && desk.broker.is_settled());
}

#[test]
fn a_search_is_stopped_when_its_time_is_over() {
    let mut desk = Desk::new(7, Rules::default());
    assert_eq!(desk.reserve(&impossible()), None);
    assert_eq!(desk.tick(4_999), None);
    assert_eq!(desk.tick(1).map(why), Some(Why::NoCandidate { tried: 0, all: false }));
    assert!(desk.broker.is_settled());
    assert!(desk.events.iter().any(|event| matches!(event, Event::Closed { id: ID, .. })));
}

#[test]
fn offers_found_in_time_are_told_although_there_may_be_more() {
    let mut desk = Desk::new(4, rules(PLENTY.work));
    let request = cheapest();
    let all = offers(Search::new(&request, desk.found(&request), PLENTY), 100);
    assert_eq!(desk.probe("ada", &request, 100), None);
    let mut first = Search::new(&request, desk.found(&request), PLENTY);
    first.next();
    while desk.work()[0] + SLICE < first.work() {
        assert_eq!(desk.tick(0), None);
    }
    let Some(Answer::Offers(offers)) = desk.tick(5_000) else { panic!("no offers") };
    assert!((1..100).contains(&offers.len()) && all.starts_with(&offers), "{}", offers.len());
}

#[test]
fn where_the_best_is_not_found_in_time_the_earliest_is_better_than_none() {
    let mut desk = Desk::new(4, rules(400_000));
    let request = cheapest();
    let mut best = Search::new(&request, desk.found(&request), Budget { work: 400_000 });
    assert_eq!(best.next(), None, "the best takes more");
    assert_eq!(desk.probe("ada", &request, 1), None);
    let earliest = Search::new(&apart(4), desk.found(&request), PLENTY);
    assert_eq!(desk.wait().0, Answer::Offers(offers(earliest, 1)));
}
