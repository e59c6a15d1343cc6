//! Probes with queues: plans with the reservations before a cut equal plans with all reservations.

use super::*;
use bookahead_plan::Cluster;
use bookahead_plan::placement::Prober;
use bookahead_protocol::ledger::{Class, Priorities, Reveal};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
struct Case {
    method: Method,
    policy: Policy,
    admission: Admission,
    booked: Vec<(i64, i64, u32)>,
    view: View,
    wanted: placement::Request,
}

fn queues() -> impl Strategy<Value = Case> {
    let method = prop::sample::select(vec![VACANCIES, LOCAL_JOBS, WHAT_IF, Method::Load]);
    let policy = prop::sample::select(vec![Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE]);
    let admission = prop::option::of(0..3u32);
    let rules = (method, policy, admission);
    // Long jobs on the whole machine push the queue far beyond the first cut.
    let booked = prop::collection::vec((0..3_000i64, 1..200i64, 1..=8u32), 0..40);
    let running = prop::collection::vec((1..100i64, 1..4u32), 0..3);
    let waiting = prop::collection::vec((-50..0i64, 0..60i64, 1..=9u32), 1..8);
    let foreign = prop::collection::vec((0..2_000i64, 1..50i64, 1..3u32), 0..3);
    let wanted = (1..2_000i64, 0..500i64, 1..60i64, 1..=8u32);
    (rules, booked, running, waiting, foreign, wanted).prop_map(
        |((method, policy, delayed), booked, running, waiting, foreign, wanted)| {
            let (earliest, window, duration, capacity) = wanted;
            let foreign = foreign.into_iter().map(|(begin, length, wide)| span(begin, begin + length, wide));
            let running = running.into_iter().map(|(until, wide)| super::running(until, wide));
            let waiting =
                waiting.into_iter().map(|(submit, length, wide)| super::waiting(submit, length, wide));
            Case {
                method,
                policy,
                admission: Admission { delayed_jobs: delayed, ..Admission::default() },
                booked,
                view: View {
                    running: running.collect(),
                    waiting: waiting.collect(),
                    foreign: foreign.collect(),
                    ..View::default()
                },
                wanted: super::wanted(earliest, earliest + window + duration, duration, capacity),
            }
        },
    )
}

impl Case {
    fn rules(&self) -> Rules {
        let mut offered = offered("cluster", 8, self.method);
        offered.placement.policy = self.policy;
        offered.placement.admission = self.admission;
        Rules { reveal: Reveal { slots: 1_000, ..Reveal::default() }, ..Rules::new("north", vec![offered]) }
    }

    /// Start, slack, rating and impact, computed with all reservations.
    fn plain(&self, site: &Site) -> Vec<(Time, Seconds, Rating, Impact)> {
        let mut reservations: Vec<Span> =
            site.ledger.reserved(&"cluster".into()).map(|(_, span)| span).collect();
        reservations.extend(&self.view.foreign);
        let cluster = Cluster {
            capacity: Capacity(8),
            now: Time(0),
            running: &self.view.running,
            waiting: &self.view.waiting,
            reservations: &reservations,
        };
        let rules = site.ledger.rules().resources[0].placement;
        let prober = &mut Prober::default();
        let single = !(matches!(self.method, Method::EarliestStart { .. }) && self.admission.is_unlimited());
        let mut slots = prober.probe(&rules, &cluster, &self.wanted);
        slots.retain(|slot| slot.availability > 0.0);
        let mut slack = vec![Seconds(0); slots.len()];
        if !single {
            let room = prober.room(self.policy, &cluster, self.method == LOCAL_JOBS);
            let runs: Vec<_> = room.all_fits(self.wanted.window(), self.wanted.need()).collect();
            slack = runs.iter().map(|run| run.last - run.first).collect();
            let slot = |start| placement::Slot { start, availability: 1.0, impact: None };
            slots = runs.iter().map(|run| slot(run.first)).collect();
        }
        prober.add_impacts(self.policy, &cluster, &self.wanted, &mut slots);
        let told = |impact: &placement::Impact| Impact {
            delayed: u32::try_from(impact.delayed.len()).unwrap(),
            total_delay: impact.total_delay,
            longest_delay: impact.longest_delay,
        };
        slots
            .iter()
            .zip(slack)
            .map(|(slot, slack)| {
                (slot.start, slack, Rating::of(slot.availability), told(slot.impact.as_ref().unwrap()))
            })
            .collect()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn plans_before_a_cut_equal_plans_of_everything(case in queues()) {
        // A limit together with preferred local jobs would be the same rule twice.
        prop_assume!(case.method != LOCAL_JOBS || case.admission.is_unlimited());
        let mut site = Site::new(case.rules());
        for (id, &(begin, length, capacity)) in (1_000..).zip(&case.booked) {
            site.book(0, "ann", id, fixed(begin, begin + length, capacity));
        }
        site.tick(999);
        site.show(case.view.clone());
        let told = site.probe(999, "bob", request(case.wanted));
        let told: Vec<_> = told
            .iter()
            .map(|slot| (slot.interval.begin, slot.slack, slot.rating.unwrap(), slot.impact.unwrap()))
            .collect();
        prop_assert_eq!(told, case.plain(&site));
    }

    #[test]
    fn a_reservation_is_placed_as_if_jobs_of_lower_classes_were_not_waiting(
        case in queues(),
        priorities in prop::collection::vec(0..3i32, 8),
    ) {
        let mut view = View { by_class: true, ..case.view.clone() };
        view.waiting.iter_mut().zip(priorities).for_each(|(job, priority)| job.priority = priority);
        let mut without = view.clone();
        without.waiting.retain(|job| job.priority >= 1);
        let class = |number| Class { number, ..Class::default() };
        let classes = BTreeMap::from([("normal".into(), class(1)), ("low".into(), class(0))]);
        let priorities = Priorities { classes, default: None };
        let probed = |view: View| {
            let mut site = Site::new(Rules { priorities: priorities.clone(), ..case.rules() });
            for (id, &(begin, length, capacity)) in (1_000..).zip(&case.booked) {
                site.book(0, "ann", id, fixed(begin, begin + length, capacity));
            }
            site.tick(999);
            site.show(view);
            let mut wanted = request(case.wanted);
            wanted.description.priority = Some("normal".into());
            site.probe(999, "bob", wanted)
        };
        let (all, others) = (probed(view), probed(without));
        let place = |slot: &Slot| (slot.interval, slot.slack, slot.rating);
        prop_assert_eq!(all.iter().map(place).collect::<Vec<_>>(), others.iter().map(place).collect::<Vec<_>>());
    }
}
