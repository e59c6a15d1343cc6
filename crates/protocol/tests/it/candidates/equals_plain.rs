//! The search finds the same candidates as an exhaustive search, in the same order, also after exclusions.

use super::plain::{self, Plain, could_begin};
use super::{PLENTY, chosen};
use bookahead_plan::placement::Request as Wanted;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::candidates::{Budget, Excluded, Found, Progress, Search, UNIT};
use bookahead_protocol::{Constraint, Impact, Name, Objective, Part, Rating, Request, Slot, Tres};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NAMES: [&str; 2] = ["a", "b"];

fn name() -> impl Strategy<Value = Name> {
    prop::sample::select(&NAMES[..]).prop_map(Name::from)
}

fn a_part() -> impl Strategy<Value = Part> {
    (0..4i64, 9..20i64, 1..=5i64, 1..=3u32).prop_map(|(earliest, latest, duration, capacity)| {
        let wanted = Wanted {
            earliest_start: Time(earliest),
            latest_end: Time(latest),
            duration: Seconds(duration),
            capacity: Capacity(capacity),
        };
        Part::new(wanted, "processors")
    })
}

fn a_slot() -> impl Strategy<Value = Found> {
    let place = (name(), name(), name(), prop::option::weighted(0.8, (name(), name())));
    let ratings = (prop::option::of(0..3u32), prop::option::of((0..3u32, 0..3i64)), 0..3u64);
    (place, 0..8i64, 0..=6i64, prop::option::of(2..7u32), ratings).prop_map(
        |((peer, resource, site, joins), begin, slack, free, (rating, impact, cost))| {
            let impact = impact.map(|(delayed, delay)| Impact {
                delayed,
                total_delay: Seconds(delay),
                longest_delay: Seconds(delay),
            });
            let slot = Slot {
                resource,
                site,
                joins: joins.map(|(one, other)| [one, other]),
                interval: Interval::starting(Time(begin), Seconds(1)),
                capacity: Capacity(3),
                slack: Seconds(slack),
                free: free.map(Capacity),
                rating: rating.map(Rating),
                impact,
                cost,
                tres: Tres::default(),
                free_tres: Tres::default(),
            };
            Found { peer, slot }
        },
    )
}

/// Between different parts of a request with this many.
fn a_constraint(parts: usize) -> impl Strategy<Value = Option<Constraint>> {
    let numbers = (0..6u8, 0..parts, 0..parts, 0..parts, -3..=3i64, prop::option::of(0..4i64));
    numbers.prop_map(|(kind, first, second, third, by, longer)| {
        let constraint = match kind {
            0 => Constraint::Offset { first, second, by: Seconds(by) },
            1 => {
                let most = longer.map(|longer| Seconds(by + longer));
                Constraint::After { first, second, least: Seconds(by), most }
            }
            2 => Constraint::EndsBefore { first, second },
            3 => Constraint::SameSite(first, second),
            4 => Constraint::DifferentSites(first, second),
            _ => Constraint::Joins { link: first, ends: [second, third] },
        };
        let named = constraint.parts();
        let apart = named.iter().enumerate().all(|(at, part)| !named[..at].contains(part));
        apart.then_some(constraint)
    })
}

fn an_objective() -> impl Strategy<Value = Objective> {
    prop::sample::select(vec![
        Objective::EarliestEnd,
        Objective::BestAvailability,
        Objective::LeastImpact,
        Objective::LowestCost,
    ])
}

fn a_case() -> impl Strategy<Value = (Request, Vec<Vec<Found>>)> {
    (1..=4usize).prop_flat_map(|parts| {
        let constraints = prop::collection::vec(a_constraint(parts), 0..=3);
        let request = (prop::collection::vec(a_part(), parts), constraints, an_objective());
        let found = prop::collection::vec(prop::collection::vec(a_slot(), 1..=4), parts);
        (request, found).prop_map(|((parts, constraints, objective), found)| {
            let constraints = constraints.into_iter().flatten().collect();
            (Request { objective, ..Request::new(parts, constraints) }, found)
        })
    })
}

fn an_exclusion() -> impl Strategy<Value = Excluded> {
    (0..3u8, name(), name(), 0..10i64).prop_map(|(kind, peer, resource, start)| match kind {
        0 => Excluded::Peer(peer),
        1 => Excluded::Resource { peer, resource },
        _ => Excluded::Slot { peer, resource, start: Time(start) },
    })
}

fn covers(what: &Excluded, found: &Found) -> bool {
    match what {
        Excluded::Peer(peer) => found.peer == *peer,
        Excluded::Resource { peer, resource } => found.peer == *peer && found.slot.resource == *resource,
        Excluded::Slot { peer, resource, start } => {
            found.peer == *peer && found.slot.resource == *resource && could_begin(&found.slot, *start)
        }
    }
}

fn survives(one: &Plain, found: &[Vec<Found>], what: &Excluded) -> bool {
    one.found.iter().zip(found).all(|(&at, found)| !covers(what, &found[at]))
}

/// The same constraint in its other form.
fn turned(constraint: &Constraint) -> Constraint {
    match *constraint {
        Constraint::Offset { first, second, by } => {
            Constraint::Offset { first: second, second: first, by: Seconds(-by.0) }
        }
        Constraint::SameSite(one, other) => Constraint::SameSite(other, one),
        Constraint::DifferentSites(one, other) => Constraint::DifferentSites(other, one),
        Constraint::Joins { link, ends: [one, other] } => Constraint::Joins { link, ends: [other, one] },
        Constraint::After { .. } | Constraint::EndsBefore { .. } => constraint.clone(),
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn candidates_are_those_of_a_search_of_everything(
        (request, found) in a_case(), first in 0..6usize, what in an_exclusion(),
    ) {
        let all = plain::all(&request, &found);
        let (before, after) = all.split_at(first.min(all.len()));
        let rest = after.iter().filter(|one| survives(one, &found, &what));
        let expected: Vec<_> = before.iter().chain(rest).map(|one| (one.found.clone(), one.begins.clone())).collect();

        let mut search = Search::new(&request, found.clone(), PLENTY);
        let mut ours: Vec<_> = search.by_ref().take(first).map(|one| chosen(&one)).collect();
        search.without(&what);
        ours.extend(search.by_ref().map(|one| chosen(&one)));
        prop_assert_eq!(ours, expected);
        prop_assert_eq!(search.advance(0), Progress::Exhausted);
    }

    #[test]
    fn slack_is_what_a_search_of_everything_finds_unless_parts_take_turns((request, found) in a_case()) {
        let mut search = Search::new(&request, found.clone(), PLENTY);
        while let Some(candidate) = search.next() {
            let slack = search.slack(&candidate);
            let slots: Vec<&Found> = candidate.picks.iter().map(|pick| &found[pick.part][pick.found]).collect();
            let place = |slot: &Found| (slot.peer.clone(), slot.slot.resource.clone());
            let shared = (1..slots.len()).any(|at| slots[..at].iter().any(|one| place(one) == place(slots[at])));
            let possible = plain::begins(&request, &slots);
            for (part, pick) in candidate.picks.iter().enumerate() {
                let told: BTreeSet<i64> = (pick.start.0..=pick.start.0 + slack[part].0).collect();
                let all: BTreeSet<i64> = possible.iter().map(|begins| begins[part]).collect();
                if shared {
                    prop_assert!(told.is_subset(&all), "part {part}: {told:?} of {all:?}");
                } else {
                    prop_assert_eq!(told, all, "part {}", part);
                }
            }
        }
    }

    #[test]
    fn a_budget_cuts_the_search_short_and_changes_nothing_else(
        (request, found) in a_case(), work in 0..5_000u64,
    ) {
        let mut whole = Search::new(&request, found.clone(), PLENTY);
        let all: Vec<_> = whole.by_ref().collect();
        let mut cut = Search::new(&request, found, Budget { work });
        let some: Vec<_> = cut.by_ref().collect();
        prop_assert!(all.starts_with(&some));
        prop_assert!(cut.work() < work + UNIT);
        if whole.work() <= work {
            prop_assert_eq!((some, cut.advance(0)), (all, Progress::Exhausted));
        } else if cut.advance(0) == Progress::Exhausted {
            prop_assert_eq!((some, cut.work()), (all, whole.work()), "the last unit went beyond the budget");
        } else {
            prop_assert_eq!(cut.advance(0), Progress::OutOfBudget);
        }
    }

    #[test]
    fn slices_change_neither_the_candidates_nor_the_work(
        (request, found) in a_case(), slices in prop::collection::vec(1..60u64, 1..5),
        first in 0..6usize, what in an_exclusion(),
    ) {
        let mut whole = Search::new(&request, found.clone(), PLENTY);
        let mut expected: Vec<_> = whole.by_ref().take(first).collect();
        whole.without(&what);
        expected.extend(whole.by_ref());

        let mut search = Search::new(&request, found, PLENTY);
        let (mut ours, mut slices) = (Vec::new(), slices.iter().cycle());
        loop {
            if ours.len() == first {
                search.without(&what);
            }
            let (slice, before) = (*slices.next().unwrap(), search.work());
            let progress = search.advance(slice);
            prop_assert!(search.work() < before + slice + UNIT);
            match progress {
                Progress::Found(candidate) => ours.push(candidate),
                Progress::More => prop_assert!(search.work() > before, "every slice gets on"),
                Progress::Exhausted => break,
                Progress::OutOfBudget => prop_assert!(false, "it has plenty"),
            }
        }
        prop_assert_eq!(ours, expected);
        prop_assert_eq!(search.work(), whole.work());
    }

    #[test]
    fn constraints_that_are_repeated_take_no_more_work((request, found) in a_case()) {
        let mut repeated = request.clone();
        for _ in 0..10 {
            repeated.constraints.extend(request.constraints.iter().map(turned));
            repeated.constraints.extend(request.constraints.clone());
        }
        let (mut once, mut often) =
            (Search::new(&request, found.clone(), PLENTY), Search::new(&repeated, found, PLENTY));
        prop_assert!(once.by_ref().eq(often.by_ref()));
        prop_assert_eq!(once.work(), often.work());
    }
}
