//! Runs a broker against the machines: delivers its calls and their answers in the same instant, and counts messages.
//! The broker without probing is the same broker; its probes are answered, without a message, from its own records,
//! which are ledgers that contain only its own bookings. All decisions are made by [`Broker`] and [`Ledger`].

use super::setup::{Choices, KIND, MACHINES};
use bookahead_plan::placement::{Admission, Method, Rules as Placement, SlotRules};
use bookahead_plan::{Policy, Seconds};
use bookahead_protocol::broker::{Broker, Effects, Event, Outgoing, Rules};
use bookahead_protocol::ledger::{HoldRules, Ledger, Offered, Reveal, Rules as SiteRules, Views};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, Key, Millis, Moment, Name, Request, Reservation, ReservationId, Resource,
    State, Why,
};
use std::collections::{BTreeMap, VecDeque};

/// Requested hold time, longer than any that a site grants, so that the sites decide.
const ASKED_HOLD: Millis = Millis::seconds(1_000_000);
/// As short as possible: finished reservations are not used, and cost memory.
const RETENTION: Seconds = Seconds(1);
/// Remembered answers. Calls are never repeated here, so few are enough.
const MOST_ANSWERS: usize = 1_000;

pub(super) type Sites = BTreeMap<Name, Ledger>;

/// Where a broker gets its knowledge of free capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Knowledge {
    /// It probes the machines.
    Probes,
    /// It knows only its own bookings.
    OwnBookings,
}

/// A broker and its records.
pub(super) struct Desk {
    name: Name,
    broker: Broker,
    /// Its own bookings; None if it probes.
    notes: Option<Sites>,
    asked: u128,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Negotiation {
    /// The reservation that is held or booked, if any.
    pub(super) booked: Option<Reservation>,
    /// Candidates that the broker tried to hold.
    pub(super) attempts: u64,
    pub(super) probes: u64,
    /// Calls and answers of every kind.
    pub(super) messages: u64,
    /// Whether the search ended before all candidates were examined.
    pub(super) stopped: bool,
}

/// The eight machines: planning-based, without local jobs.
pub(super) fn sites(tell_free: bool, holds: HoldRules) -> Sites {
    let site = |(number, processors): (usize, &u32)| {
        let name = format!("machine {}", number + 1);
        let resource = Resource::new(&name, "processors", KIND, *processors);
        // There are no local jobs, and this method does not spend time on planning their empty queue.
        let method = Method::EarliestStart { local_jobs_preferred: false };
        let (slots, admission) = (SlotRules::default(), Admission::default());
        let placement = Placement { policy: Policy::EASY, method, slots, admission };
        let rules = SiteRules {
            reveal: Reveal { free: tell_free, ..Reveal::default() },
            holds,
            retention: RETENTION,
            most_answers: MOST_ANSWERS,
            ..SiteRules::new(name.as_str(), vec![Offered { resource, placement }])
        };
        // Cannot fail: the rules are built from valid constants.
        Some((Name::from(name), Ledger::new(rules).ok()?))
    };
    MACHINES.iter().enumerate().filter_map(site).collect()
}

impl Desk {
    /// A broker that knows the machines and has no bookings. `number` must be unique among brokers.
    pub(super) fn new(number: u64, choices: &Choices, knowledge: Knowledge, sites: &Sites) -> Desk {
        let mut broker = Broker::new(Rules {
            maker: number.into(),
            after_refusal: choices.left_out,
            holding: choices.holding,
            longest_hold: ASKED_HOLD,
            retention: RETENTION,
            // No machine loses a booking here.
            watch_every: None,
            ..Rules::default()
        });
        for (name, ledger) in sites {
            let offered = ledger.rules().resources.iter();
            let resources = offered.map(|offered| offered.resource.clone()).collect();
            broker.register(name.clone(), resources, None);
        }
        broker.resume(Moment(0));
        // Its own records reveal everything, whatever the machines reveal.
        let notes = || self::sites(true, holds_of(sites));
        Desk {
            name: format!("broker {number}").into(),
            broker,
            notes: (knowledge == Knowledge::OwnBookings).then(notes),
            asked: 0,
        }
    }

    /// Requests a reservation, which is committed (`book`) or only held.
    pub(super) fn reserve(
        &mut self,
        now: Moment,
        request: &Request,
        book: bool,
        sites: &mut Sites,
    ) -> Negotiation {
        self.pass_time(now, sites);
        self.asked += 1;
        let id = ReservationId(self.asked);
        let call = Call::Reserve { id, request: request.clone(), hold_for: ASKED_HOLD, book };
        let caller = Caller { user: self.name.clone(), roles: Vec::new() };
        let envelope = Envelope { key: Key(self.asked), caller, call };
        let effects = self.broker.handle(now, &"client".into(), &envelope);
        self.carry(now, effects, sites)
    }

    /// Runs the timers of the broker that are due, mostly expired holds.
    pub(super) fn pass_time(&mut self, until: Moment, sites: &mut Sites) {
        while let Some(at) = self.broker.next_timer().filter(|at| *at <= until) {
            let effects = self.broker.tick(at);
            self.carry(at, effects, sites);
        }
    }

    /// Delivers calls and answers until the broker sends no more.
    fn carry(&mut self, now: Moment, effects: Effects, sites: &mut Sites) -> Negotiation {
        let mut negotiation = Negotiation::default();
        let mut mail = VecDeque::from([effects]);
        while let Some(effects) = mail.pop_front() {
            negotiation.note(&effects);
            for out in effects.send {
                let Some(answer) = self.deliver(now, &out, sites, &mut negotiation) else { continue };
                mail.push_back(self.broker.on_answer(now, &out.to, out.envelope.key, &answer));
            }
            // A search may need several steps of the broker, which a tick triggers.
            if mail.is_empty() && self.broker.searches_under_way().len() > 0 {
                mail.push_back(self.broker.tick(now));
            }
        }
        negotiation
    }

    fn deliver(
        &mut self,
        now: Moment,
        out: &Outgoing,
        sites: &mut Sites,
        negotiation: &mut Negotiation,
    ) -> Option<Answer> {
        let is_probe = matches!(out.envelope.call, Call::Probe { .. });
        let answer = |ledger: &mut Ledger| ledger.handle(now, &out.envelope, &Views::default()).answer;
        let note = self.notes.as_mut().and_then(|notes| notes.get_mut(&out.to));
        if is_probe && let Some(note) = note {
            return Some(answer(note));
        }
        // The call and its answer.
        negotiation.messages += 2;
        negotiation.probes += u64::from(is_probe);
        let said = answer(sites.get_mut(&out.to)?);
        if let Some(note) = self.notes.as_mut().and_then(|notes| notes.get_mut(&out.to)) {
            // Refused holds must not enter the records; later calls on a recorded reservation must.
            let known = out.envelope.call.id().is_some_and(|id| note.entry(id).is_some());
            if known || matches!(said, Answer::Reservation(Reservation { state: State::Held, .. })) {
                answer(note);
            }
        }
        Some(said)
    }
}

impl Negotiation {
    fn note(&mut self, effects: &Effects) {
        let tried = effects.events.iter().filter(|event| matches!(event, Event::Trying { .. })).count();
        self.attempts += tried as u64;
        for reply in &effects.replies {
            match &reply.answer {
                Answer::Reservation(reservation) => self.booked = Some(reservation.clone()),
                Answer::Problem(problem) => {
                    self.stopped |= matches!(problem.why, Why::NoCandidate { all: false, .. });
                }
                Answer::Offers(_) => {}
            }
        }
    }
}

fn holds_of(sites: &Sites) -> HoldRules {
    sites.values().next().map(|ledger| ledger.rules().holds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::setup::{Asked, CHOICES, draw};
    use super::*;
    use bookahead_plan::{Span, Time};
    use bookahead_protocol::deadline::Scheme;

    fn few(inter_arrival: f64) -> Vec<Asked> {
        draw(&CHOICES, "test", 300, inter_arrival, 1)
    }

    /// The bookings of each machine, sorted.
    fn booked(sites: &Sites) -> Vec<Vec<Span>> {
        let spans = |ledger: &Ledger| {
            let mut spans: Vec<Span> = ledger.reserved(&"processors".into()).map(|(_, span)| span).collect();
            spans.sort_by_key(|span| (span.interval.begin, span.interval.end, span.capacity));
            spans
        };
        sites.values().map(spans).collect()
    }

    #[test]
    fn where_all_goes_through_a_broker_its_notes_are_what_the_machines_have() {
        let mut sites = sites(false, HoldRules::default());
        let mut desk = Desk::new(1, &CHOICES, Knowledge::OwnBookings, &sites);
        for asked in few(5.0) {
            let negotiation = desk.reserve(Moment::of(asked.submit), &asked.request, true, &mut sites);
            assert_eq!(negotiation.attempts, u64::from(negotiation.booked.is_some()), "no attempt fails");
            assert_eq!(negotiation.probes, 0);
            let end = Moment::of(asked.submit);
            let notes = desk.notes.as_mut().unwrap();
            notes.values_mut().chain(sites.values_mut()).for_each(|ledger| drop(ledger.tick(end)));
            assert_eq!(booked(&sites), booked(notes));
        }
    }

    #[test]
    fn what_others_book_is_not_in_the_notes_but_in_the_way() {
        let mut sites = sites(true, HoldRules::default());
        let mut ours = Desk::new(1, &CHOICES, Knowledge::OwnBookings, &sites);
        let mut others = Desk::new(2, &CHOICES, Knowledge::Probes, &sites);
        let mut in_vain = 0;
        for (number, asked) in few(2.0).iter().enumerate() {
            let desk = if number % 2 == 0 { &mut ours } else { &mut others };
            let negotiation = desk.reserve(Moment::of(asked.submit), &asked.request, true, &mut sites);
            let wasted = negotiation.attempts - u64::from(negotiation.booked.is_some());
            assert!(number % 2 == 0 || wasted == 0, "a broker with full knowledge has no failed attempts");
            in_vain += wasted;
        }
        assert!(in_vain > 0);
    }

    #[test]
    fn holding_in_sequence_takes_the_same_attempts_and_fewer_messages() {
        let run = |holding| {
            let choices = Choices { holding, ..CHOICES };
            let mut sites = sites(false, HoldRules::default());
            let mut ours = Desk::new(1, &choices, Knowledge::OwnBookings, &sites);
            let mut others = Desk::new(2, &choices, Knowledge::Probes, &sites);
            let (mut attempts, mut messages) = (0, 0);
            for (number, asked) in few(2.0).iter().enumerate() {
                let desk = if number % 2 == 0 { &mut ours } else { &mut others };
                let negotiation = desk.reserve(Moment::of(asked.submit), &asked.request, true, &mut sites);
                attempts += negotiation.attempts;
                messages += negotiation.messages;
            }
            (attempts, messages, booked(&sites))
        };
        let (sequential, parallel) = (run(Scheme::Sequential), run(Scheme::Parallel));
        assert_eq!((sequential.0, &sequential.2), (parallel.0, &parallel.2));
        assert!(sequential.1 < parallel.1, "{} and {}", sequential.1, parallel.1);
    }

    #[test]
    fn every_machine_is_probed_once_for_every_sub_job_and_every_message_is_counted() {
        let mut sites = sites(false, HoldRules::default());
        let mut desk = Desk::new(1, &CHOICES, Knowledge::Probes, &sites);
        let asked = &few(20.0)[0];
        let parts = asked.request.parts.len() as u64;
        let negotiation = desk.reserve(Moment::of(asked.submit), &asked.request, true, &mut sites);
        assert_eq!((negotiation.attempts, negotiation.probes), (1, 8 * parts));
        assert_eq!(
            negotiation.messages,
            2 * (8 + 1 + 1) * parts,
            "probe, reserve, commit, and their answers"
        );
    }

    #[test]
    fn a_hold_that_nobody_commits_evaporates_at_its_time_out() {
        let holds = HoldRules { longest: Millis::seconds(300), ..HoldRules::default() };
        let mut sites = sites(false, holds);
        let mut desk = Desk::new(1, &CHOICES, Knowledge::Probes, &sites);
        let mut asked = few(20.0).swap_remove(0);
        for part in &mut asked.request.parts {
            part.wanted.earliest_start = Time(10_000);
            part.wanted.latest_end = Time(20_000);
        }
        let held = desk.reserve(Moment::of(Time(50)), &asked.request, false, &mut sites).booked.unwrap();
        assert_eq!((held.state, held.held_for), (State::Held, Some(Millis::seconds(300))));
        for (now, empty) in [(349, false), (350, true)] {
            desk.pass_time(Moment::of(Time(now)), &mut sites);
            sites.values_mut().for_each(|ledger| drop(ledger.tick(Moment::of(Time(now)))));
            assert_eq!(booked(&sites).iter().all(Vec::is_empty), empty, "{now}");
        }
    }
}
