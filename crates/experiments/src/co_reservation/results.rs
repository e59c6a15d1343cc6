//! All runs of the experiment, and their results with confidence intervals. Runs are independent, so that the number of
//! threads does not change the results. All figures and claims read from here.

use super::desk::Knowledge;
use super::runs::{Effort, Held, HoldCase, Negotiated, NegotiationCase, Timeout, hold, negotiate};
use super::setup::{
    ADAPTIVE_INTER_ARRIVAL, ADAPTIVE_REJECTERS, ALL, ALTERNATIVES, AT_ONCE, Extent, FREE_TOLD, HALF,
    INTER_ARRIVAL, LIGHTER, LONGER_AHEAD, LONGEST, ONE_EACH, OURS, WINDOWED, sets,
};
use crate::{Estimate, Progress, Scale, run_each};
use std::collections::{BTreeMap, BTreeSet};

/// Both kinds of brokers, the probing one first.
pub(super) const BOTH: [Knowledge; 2] = [Knowledge::Probes, Knowledge::OwnBookings];
/// The shares at which other choices are compared.
const COMPARED: [u32; 2] = [HALF, ALL];
/// Other choices and inter-arrival times for the paper's example.
pub(super) const OTHER_LOADS: [(usize, u32); 6] = [
    (OURS, LIGHTER[0]),
    (OURS, LIGHTER[1]),
    (OURS, LIGHTER[2]),
    (LONGER_AHEAD, INTER_ARRIVAL),
    (WINDOWED, INTER_ARRIVAL),
    (WINDOWED, LIGHTER[1]),
];

/// Selects some requests of a run.
pub(super) type Part = fn(&Negotiated) -> Effort;
/// A measure of a run; None if it has no such requests.
pub(super) type Figure = fn(&Effort) -> Option<f64>;

/// All runs, with one value per seed.
pub(super) struct Results {
    pub(super) extent: Extent,
    negotiated: BTreeMap<NegotiationCase, Vec<Negotiated>>,
    held: BTreeMap<HoldCase, Vec<Held>>,
}

#[derive(Clone, Copy)]
enum Case {
    Negotiation(NegotiationCase),
    Hold(HoldCase),
}

enum Ran {
    Negotiated(NegotiationCase, Negotiated),
    Held(HoldCase, Held),
}

/// A case with the choices of the page.
pub(super) fn ours(knowledge: Knowledge, share: u32, inter_arrival: u32) -> NegotiationCase {
    NegotiationCase { set: OURS, knowledge, share, inter_arrival }
}

/// A case of Figure 9 with the choices of the page.
pub(super) const fn held(rejecters: u32, timeout: Timeout) -> HoldCase {
    HoldCase { set: OURS, inter_arrival: INTER_ARRIVAL, rejecters, timeout }
}

/// A case of our own experiment with adaptive holds, and of the fixed timeouts beside it.
pub(super) fn adaptive(set: usize, rejecters: u32, timeout: Timeout) -> HoldCase {
    HoldCase { set, inter_arrival: ADAPTIVE_INTER_ARRIVAL, rejecters, timeout }
}

fn negotiation_cases(extent: &Extent) -> BTreeSet<NegotiationCase> {
    // A set, because the figures share cases, which are run only once.
    let mut cases = BTreeSet::new();
    for knowledge in BOTH {
        let case = |set, share, inter_arrival| NegotiationCase { set, knowledge, share, inter_arrival };
        cases.extend(extent.shares.iter().map(|&share| case(OURS, share, INTER_ARRIVAL)));
        cases.extend(extent.inter_arrivals.iter().map(|&every| case(OURS, HALF, every)));
        if extent.others {
            for set in [WINDOWED, AT_ONCE] {
                cases.extend(extent.shares.iter().map(|&share| case(set, share, INTER_ARRIVAL)));
            }
            let others = 1..=ALTERNATIVES.len();
            cases.extend(others.flat_map(|set| COMPARED.map(|share| case(set, share, INTER_ARRIVAL))));
        }
    }
    cases
}

fn hold_cases(extent: &Extent) -> BTreeSet<HoldCase> {
    let mut cases = BTreeSet::new();
    for &rejecters in extent.rejecters {
        cases.extend(extent.timeouts.iter().map(|&timeout| held(rejecters, fixed(rejecters, timeout))));
    }
    for (set, rejecters) in adapting(extent) {
        let case = |timeout| adaptive(set, rejecters, timeout);
        cases.extend(extent.targets.iter().map(|&target| case(Timeout::Adaptive(target))));
        cases.extend(extent.timeouts.iter().map(|&timeout| case(Timeout::Fixed(timeout))));
    }
    if extent.others {
        for (set, inter_arrival) in OTHER_LOADS {
            let case = |timeout| HoldCase {
                set,
                inter_arrival,
                rejecters: ONE_EACH,
                timeout: Timeout::Fixed(timeout),
            };
            cases.extend(extent.timeouts.iter().map(|&timeout| case(timeout)));
        }
    }
    cases
}

/// Without rejecters the timeout has no effect, so that one run stands for all timeouts.
fn fixed(rejecters: u32, timeout: u32) -> Timeout {
    Timeout::Fixed(if rejecters == 0 { LONGEST } else { timeout })
}

/// The sets of choices and numbers of rejecters that are run with adaptive holds.
pub(super) fn adapting(extent: &Extent) -> Vec<(usize, u32)> {
    let some = ADAPTIVE_REJECTERS.into_iter().map(|rejecters| (OURS, rejecters));
    some.chain(extent.others.then_some((FREE_TOLD, ONE_EACH))).collect()
}

/// Runs every case for every seed.
pub(super) fn run(extent: Extent, scale: &Scale, progress: Progress<'_>) -> Results {
    let choices: Vec<_> = sets().map(|(_, choices)| choices).collect();
    let cases = negotiation_cases(&extent).into_iter().map(Case::Negotiation);
    let cases = cases.chain(hold_cases(&extent).into_iter().map(Case::Hold));
    let seeds = scale.each_seed();
    let inputs: Vec<(Case, u64)> =
        cases.flat_map(|case| seeds.clone().map(move |seed| (case, seed))).collect();
    let outputs = run_each(&inputs, scale, progress, |&(case, seed)| match case {
        Case::Negotiation(case) => {
            Ran::Negotiated(case, negotiate(&case, &choices[case.set], extent.requests, seed))
        }
        Case::Hold(case) => Ran::Held(case, hold(&case, &choices[case.set], extent.accepters, seed)),
    });
    let mut results = Results { extent, negotiated: BTreeMap::new(), held: BTreeMap::new() };
    // Outputs are in the order of the inputs, so each case has its values in the order of the seeds, and
    // `saved` can compare two cases seed by seed.
    for output in outputs {
        match output {
            Ran::Negotiated(case, ran) => results.negotiated.entry(case).or_default().push(ran),
            Ran::Held(case, ran) => results.held.entry(case).or_default().push(ran),
        }
    }
    results
}

impl Results {
    /// A measure of a case over the seeds that have it; None if no seed has.
    pub(super) fn of(
        &self,
        case: &NegotiationCase,
        number: impl Fn(&Negotiated) -> Option<f64>,
    ) -> Option<Estimate> {
        let values: Vec<f64> = self.negotiated.get(case)?.iter().filter_map(number).collect();
        (!values.is_empty()).then(|| Estimate::of(&values))
    }

    /// How much higher a measure is without probing than with it, seed by seed.
    pub(super) fn saved(
        &self,
        share: u32,
        inter_arrival: u32,
        number: impl Fn(&Negotiated) -> Option<f64>,
    ) -> Option<Estimate> {
        let runs = |knowledge| self.negotiated.get(&ours(knowledge, share, inter_arrival));
        let (with, without) = (runs(Knowledge::Probes)?, runs(Knowledge::OwnBookings)?);
        let pairs = with.iter().zip(without);
        let values: Vec<f64> =
            pairs.filter_map(|(with, without)| Some(number(without)? - number(with)?)).collect();
        (!values.is_empty()).then(|| Estimate::of(&values))
    }

    /// The sum over all runs of a case.
    pub(super) fn total(&self, case: &NegotiationCase) -> Effort {
        let runs = self.negotiated.get(case).into_iter().flatten();
        runs.fold(Effort::default(), |all, ran| all.and(ran.all()))
    }

    /// Number of requests of the evaluated brokers whose search ended before all candidates were examined.
    pub(super) fn stopped(&self) -> u64 {
        self.negotiated.values().flatten().map(|ran| ran.all().stopped).sum()
    }

    /// A measure of a case of Figure 9; zero if it was not run.
    pub(super) fn hold(&self, case: &HoldCase, number: impl Fn(&Held) -> f64) -> Estimate {
        // The same mapping as in `hold_cases`; otherwise a case without rejecters would not be found.
        let timeout = match case.timeout {
            Timeout::Fixed(timeout) => fixed(case.rejecters, timeout),
            adaptive => adaptive,
        };
        let runs = self.held.get(&HoldCase { timeout, ..*case });
        Estimate::of(&runs.into_iter().flatten().map(number).collect::<Vec<f64>>())
    }

    pub(super) fn acceptance(&self, case: &HoldCase) -> Estimate {
        self.hold(case, |held| held.acceptance)
    }

    /// The fixed timeouts that were run for a case, the shortest first.
    pub(super) fn timeouts(&self, case: &HoldCase) -> Vec<u32> {
        let like = |timeout: &&u32| {
            self.held.contains_key(&HoldCase { timeout: Timeout::Fixed(**timeout), ..*case })
        };
        self.extent.timeouts.iter().filter(like).copied().collect()
    }

    /// The timeout at which the acceptance rate falls to a target, by linear interpolation.
    pub(super) fn timeout_for(&self, case: &HoldCase, target: f64) -> Reached {
        let timeouts = self.timeouts(case);
        let rate =
            |timeout: u32| self.acceptance(&HoldCase { timeout: Timeout::Fixed(timeout), ..*case }).mean;
        if timeouts.first().is_none_or(|&shortest| rate(shortest) < target) {
            return Reached::Never;
        }
        for pair in timeouts.windows(2) {
            let (above, below) = (rate(pair[0]), rate(pair[1]));
            if below < target {
                // `above` is at least the target and `below` is less, so the divisor is positive.
                let part = (above - target) / (above - below);
                return Reached::At(f64::from(pair[0]) + part * f64::from(pair[1] - pair[0]));
            }
        }
        Reached::Always
    }
}

/// The timeout at which a rate falls to a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reached {
    /// The rate is below the target at the shortest timeout.
    Never,
    /// At this timeout, in slots.
    At(f64),
    /// The rate is not below the target at the longest timeout.
    Always,
}

impl Reached {
    pub(super) fn show(self) -> String {
        match self {
            Reached::Never => "below the target at every time-out".into(),
            Reached::At(timeout) => format!("{timeout:.0}"),
            Reached::Always => format!("above {LONGEST}"),
        }
    }
}

#[cfg(test)]
impl Results {
    /// Results made by hand: all runs of a quick set-up with two seeds, from 0 on.
    pub(super) fn made(
        negotiated: impl Fn(&NegotiationCase, u64) -> Negotiated,
        acceptance: impl Fn(&HoldCase, u64) -> f64,
    ) -> Results {
        let extent = super::setup::QUICK;
        let negotiation = |case| (case, [0, 1].map(|seed| negotiated(&case, seed)).into());
        let held = |case, seed| Held { acceptance: acceptance(&case, seed), ..Held::default() };
        Results {
            extent,
            negotiated: negotiation_cases(&extent).into_iter().map(negotiation).collect(),
            held: hold_cases(&extent)
                .into_iter()
                .map(|case| (case, [0, 1].map(|seed| held(case, seed)).into()))
                .collect(),
        }
    }
}
