//! Claims of the COSY paper beside our results. Our copy of the paper ends with its first page, so all claims are from
//! the abstract and the introduction, and have no numbers to compare with.

use super::measures::{FACTOR_ONE, FACTORS, Figure, Measures, QUANTILE, Results};
use super::site::SHARES;
use crate::check::{Check, SAME};
use crate::claim::Row;
use crate::{Estimate, Measured};

/// Increases of the queue wait that a site might tolerate, relative to the wait without reservations.
pub(super) const TOLERATED: [f64; 2] = [0.10, 0.25];

pub(super) const CLAIMS: [Row<Results>; 3] = [
    Row {
        claim: ["cosy/no-advantage", "abstract; section 1", "no advantage"],
        statement: "with a shortest notice of the predicted wait there is no start time advantage to making a \
                    reservation over submitting to the queue",
        rule: "at factors 1, 2 and 4 and every share, neither granted reservations nor one with the shortest notice \
               allowed start earlier on average than the same requests as jobs, by more than 5% of the mean wait",
        measure: advantages,
        ours: |results, _| advantage_text(results),
        checks: |results, _| {
            let factors =
                (FACTOR_ONE..FACTORS.len()).flat_map(|rule| shares_above_none().map(move |at| (rule, at)));
            factors.flat_map(|(rule, share)| no_advantage(results, rule, share)).collect()
        },
        why: |_, _| {
            "the queue wait grows faster than the history of starts shows, or the granted reservations are those \
             that would have waited longest as jobs"
                .into()
        },
    },
    Row {
        claim: ["cosy/queue-waits-longer", "section 1", "longer"],
        statement: "the existence of advance reservations still prolongs the queue wait time even though no start \
                    time advantages are taken",
        rule: "at factor 1 the mean wait of the jobs that queue in every run is longer than without reservations at \
               every share",
        measure: |results| {
            let named = |share| format!("increase at factor 1, {}%", SHARES[share]);
            shares_above_none().map(|share| (named(share), results.increase(FACTOR_ONE, share))).collect()
        },
        ours: |_, increases| {
            let shown = SHARES[1..].iter().zip(increases);
            let shown: Vec<_> = shown.map(|(share, by)| format!("{}% at {share}%", percent(by))).collect();
            format!("longer at factor 1 by {}", shown.join(", "))
        },
        checks: |_, increases| {
            let shown = SHARES[1..].iter().zip(increases);
            shown.map(|(share, by)| Check::positive(format!("increase at {share}%"), *by)).collect()
        },
        why: |_, _| {
            "at some share the mean over the seeds is not longer, or the seeds differ too much".into()
        },
    },
    Row {
        claim: ["cosy/longer-notice", "abstract", "longer"],
        statement: "as a larger percentage of reservation requests are involved, a longer mandatory shortest notice \
                    time must be applied in order not to sacrifice queue scheduling efficiency",
        rule: "for a tolerated increase of the queue's wait of 10% and of 25% the needed factor rises with the share",
        measure: needed_factors,
        ours: |results, _| {
            let shown = TOLERATED.map(|tolerated| {
                let cells = shares_above_none().map(|share| needed_text(results, share, tolerated));
                format!("for {:.0}%: {}", 100.0 * tolerated, cells.collect::<Vec<_>>().join(", "))
            });
            format!("factors at 5, 10, 20, 30, 40% that keep the queue's wait, {}", shown.join("; "))
        },
        checks: |_, factors| {
            let curves = TOLERATED.iter().zip(factors.chunks(shares_above_none().len()));
            let check = |(tolerated, curve): (&f64, &[Estimate])| {
                Check::rising(format!("factor for {:.0}%", 100.0 * tolerated), curve)
            };
            curves.map(check).collect()
        },
        why: |_, _| {
            "the increase does not fall monotonically with the factor in every seed; see the table of waits"
                .into()
        },
    },
];

/// Indices of the shares above 0.
pub(super) fn shares_above_none() -> std::ops::Range<usize> {
    1..SHARES.len()
}

/// An advantage within [`SAME`] of the mean wait counts as none.
fn no_advantage(results: &Results, rule: usize, share: usize) -> [Check; 2] {
    let none = SAME * results.estimate(rule, share, |run| run.wait).mean;
    let figures: [(&str, Figure); 2] =
        [("shortest notice", Measures::shortest_advantage), ("granted", |run| run.advantage)];
    figures.map(|(name, of)| {
        let what = format!("no hours gained, {name}, factor {}, {}%", factor(rule), SHARES[share]);
        Check::at_most(what, results.estimate(rule, share, of), none)
    })
}

fn advantages(results: &Results) -> Measured {
    let mut measured = Vec::new();
    let figures: [(&str, Figure); 2] =
        [("shortest notice allowed", Measures::shortest_advantage), ("granted", |run| run.advantage)];
    for (name, of) in figures {
        for rule in 0..FACTORS.len() {
            measured.extend(shares_above_none().map(|share| {
                let name =
                    format!("hours earlier, {name}, factor {}, share {}%", factor(rule), SHARES[share]);
                (name, results.estimate(rule, share, of))
            }));
        }
    }
    measured
}

fn advantage_text(results: &Results) -> String {
    let hours = |rule: usize, of: Figure| {
        let (least, most) = range(results, rule, of);
        format!("{least:.1} to {most:.1} h")
    };
    let shortest = |rule: usize| hours(rule, Measures::shortest_advantage);
    let gaining = |rule: usize| {
        let (least, most) = range(results, rule, |run| 100.0 * run.gaining);
        format!("{least:.1} to {most:.1}%")
    };
    format!(
        "over the shares, a reservation with the shortest notice allowed starts earlier than a job by {} at \
         factor 0, {} at 0.5, {} at 1, {} at 2; granted reservations by {} at factor 1. These are averages: {} of the \
         granted reservations start earlier at factor 1, {} with the bound of the 95% quantile",
        shortest(0),
        shortest(1),
        shortest(FACTOR_ONE),
        shortest(FACTOR_ONE + 1),
        hours(FACTOR_ONE, |run| run.advantage),
        gaining(FACTOR_ONE),
        gaining(QUANTILE),
    )
}

/// Minimum and maximum over the shares of the mean over the seeds.
fn range(results: &Results, rule: usize, of: Figure) -> (f64, f64) {
    let means = shares_above_none().map(|share| results.estimate(rule, share, of).mean);
    means.fold((f64::MAX, f64::MIN), |(least, most), mean| (least.min(mean), most.max(mean)))
}

fn needed_factors(results: &Results) -> Measured {
    let of = |tolerated: f64, share: usize| {
        let (limit, share_percent) = (100.0 * tolerated, SHARES[share]);
        let name = format!("factor that keeps the increase within {limit:.0}%, share {share_percent}%");
        (name, results.needed_factor(share, tolerated))
    };
    TOLERATED
        .iter()
        .flat_map(|&tolerated| shares_above_none().map(move |share| of(tolerated, share)))
        .collect()
}

/// The needed factor with its margin, and the number of seeds in which no factor was enough.
pub(super) fn needed_text(results: &Results, share: usize, tolerated: f64) -> String {
    let factor = results.needed_factor(share, tolerated);
    match results.out_of_reach(share, tolerated) {
        0 => factor.show(1),
        all if all == factor.runs => "above 4".into(),
        some => format!("{} (above 4 in {some} of {})", factor.show(1), factor.runs),
    }
}

fn percent(share: &Estimate) -> String {
    Estimate { mean: 100.0 * share.mean, margin: share.margin.map(|margin| 100.0 * margin), ..*share }.show(0)
}

/// A notice factor as a number, such as 0.5.
pub(super) fn factor(rule: usize) -> f64 {
    f64::from(FACTORS[rule]) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict::{DirectionOnly, NotReproduced, Reproduced};
    use crate::claim::borders;

    /// Waits of 10 hours without reservations, which differ by an hour between the seeds, longer by `increase` at each
    /// share; and how much earlier reservations start from factor 1 on.
    fn measures(seed: usize, rule: usize, share: usize, increase: f64, advantage: f64) -> Measures {
        let wait = (10.0 + seed as f64) * (1.0 + increase * share as f64);
        let advantage = if rule >= FACTOR_ONE { advantage } else { 5.0 };
        Measures { wait, needed: wait - advantage, advantage, ..Measures::default() }
    }

    #[track_caller]
    fn assert_verdict(id: &str, results: &Results, expected: crate::Verdict) {
        borders::assert_judged((&CLAIMS, id), results, expected);
    }

    #[test]
    fn an_advantage_of_a_twentieth_of_the_wait_counts_as_none() {
        // The mean wait is 10.5 hours, a twentieth of it 0.525.
        for (advantage, spread, expected) in [
            (0.52, 0.0, Reproduced),
            (0.53, 0.0, NotReproduced),
            (0.5, 0.1, DirectionOnly),
            (-1.0, 0.1, Reproduced),
        ] {
            let results = Results::made(2, |seed, rule, share| {
                let by_seed = if seed == 0 { spread } else { -spread };
                measures(seed, rule, share, 0.0, advantage + by_seed)
            });
            assert_verdict("cosy/no-advantage", &results, expected);
        }
    }

    #[test]
    fn the_queue_must_wait_longer_at_every_share() {
        for (first, second, expected) in [
            (0.1, 0.1, Reproduced),
            (0.1, 0.01, DirectionOnly),
            (0.1, -0.11, NotReproduced),
            (0.0, 0.0, NotReproduced),
        ] {
            let increase = |seed: usize| if seed == 0 { first } else { second };
            let results =
                Results::made(2, |seed, rule, share| measures(seed, rule, share, increase(seed), 0.0));
            assert_verdict("cosy/queue-waits-longer", &results, expected);
        }
    }

    #[test]
    fn the_needed_factor_must_rise_with_the_share() {
        // The increase falls with the factor, and grows with the share by `slope`.
        let results = |slope: f64| {
            Results::made(2, move |seed, rule, share| {
                let increase = (0.2 + slope * share as f64) / (1.0 + 2.0 * rule as f64);
                let wait = if share == 0 { 10.0 } else { 10.0 * (1.0 + increase) };
                Measures { wait: wait * (1.0 + seed as f64), ..Measures::default() }
            })
        };
        assert_verdict("cosy/longer-notice", &results(0.1), Reproduced);
        assert_verdict("cosy/longer-notice", &results(0.0), NotReproduced);
        assert_verdict("cosy/longer-notice", &results(-0.03), NotReproduced);
    }
}
