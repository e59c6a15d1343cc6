//! Claims of the co-reservation paper beside our results. The paper prints its results as curves, so all rules but two
//! are about directions.

use super::desk::Knowledge;
use super::results::{BOTH, Part, Reached, Results, held, ours};
use super::runs::{Effort, HoldCase, Negotiated, Timeout};
use super::setup::{ALL, CHOICES, HALF, INTER_ARRIVAL, LONGEST, ONE_EACH, PUBLISHED_TIMEOUT, TARGET};
use crate::check::{Check, Comparison, SAME, printed};
use crate::claim::Row;
use crate::{Estimate, Measured};

const FIGURE_6: &str = "section 4.4, Figure 6";
const FIGURE_7: &str = "section 4.4, Figure 7";
const FIGURE_9: &str = "section 4.5, Figure 9";

/// Why a claim that holds on average is not reproduced.
const ON_AVERAGE: &str = "it holds on average, but the runs are too few or too short for the whole interval";

/// Requests that were booked, and requests that were not.
pub(super) const KINDS: [(&str, Part); 2] =
    [("successful", |ran| ran.successful), ("unsuccessful", |ran| ran.unsuccessful)];

pub(super) const CLAIMS: [Row<Results>; 9] = [
    Row {
        claim: ["co-reservation/probing-fewer-attempts", FIGURE_6, "fewer (curves without numbers)"],
        statement: "probing significantly reduces the number of reservation attempts for both successful and \
                    unsuccessful requests",
        rule: "at every share below 100% the number of attempts is lower with probing than without, seed by seed, for \
               successful and for unsuccessful requests",
        measure: |results| of_kinds(results, Effort::attempts_each),
        ours: |results, _| {
            let told = KINDS.map(|(kind, part)| {
                let pairs: Vec<_> = attempts_below(results, part).filter_map(|(_, pair)| pair).collect();
                format!("{kind}: {}", range_text(&pairs))
            });
            format!("attempts for each request at shares below 100%: {}", told.join("; "))
        },
        checks: |results, _| {
            let below = results.extent.shares.iter().filter(|&&share| share < ALL);
            let each = |&share: &u32| {
                KINDS.map(|(kind, part)| {
                    let fewer = attempts_saved(results, share, part).unwrap_or(Estimate::of(&[]));
                    Check::positive(format!("{kind}, {share}%, fewer with probing"), fewer)
                })
            };
            below.flat_map(each).collect()
        },
        why: |results, _| {
            let not_fewer = not_fewer(results);
            if not_fewer.is_empty() {
                return ON_AVERAGE.into();
            }
            format!(
                "not lower for {}: probes do not report the free capacity beside a slot, so that sub-jobs are \
                 tried together on a machine that has room for each of them alone; the table of other choices \
                 shows that no attempt fails if sites report it",
                not_fewer.join(", ")
            )
        },
    },
    Row {
        claim: ["co-reservation/all-seen-fewer-without", FIGURE_6, "fewer without probing at 100%"],
        statement: "only if all requests are submitted via the evaluated broker, the broker that relies on its \
                    knowledge of previous reservations needs fewer attempts than the probing one",
        rule: "at a share of 100% the mean number of attempts without probing is lower for successful requests and \
               not higher for unsuccessful ones",
        measure: |results| {
            let mut measured = of_kinds(results, Effort::attempts_each);
            measured.retain(|(name, _)| name.contains("100%"));
            measured
        },
        ours: |results, _| {
            let [successful, unsuccessful] = all_seen(results).map(|pair| {
                let both =
                    pair.map(|(with, without)| format!("{with:.2} with probing, {without:.2} without"));
                both.unwrap_or_else(|| "none".into())
            });
            format!("at 100%, successful: {successful}; unsuccessful: {unsuccessful}")
        },
        checks: |results, _| {
            let [successful, unsuccessful] = KINDS.map(|(_, part)| attempts_saved(results, ALL, part));
            let more = |saved: Estimate| saved.negated();
            let successful = successful.map_or(Estimate::of(&[]), more);
            let mut checks = vec![Check::positive("successful, fewer without probing", successful)];
            // A run may have no unsuccessful requests at this share; nothing contradicts the claim then.
            checks.extend(
                unsuccessful
                    .map(more)
                    .map(|more| Check::at_least("unsuccessful, not more without probing", more, 0.0)),
            );
            checks
        },
        why: |results, _| match all_seen(results) {
            [Some((with, without)), _] if without < with => ON_AVERAGE.into(),
            _ => "the answers to probes are enough to avoid all failed attempts".into(),
        },
    },
    Row {
        claim: ["co-reservation/load-larger-reduction", FIGURE_7, "more (curves without numbers)"],
        statement: "the higher the load, the more does probing reduce the number of reservation attempts",
        rule: "for successful requests the reduction falls as the inter-arrival time grows",
        measure: saved_measured,
        ours: |results, _| {
            let text = |(every, estimate): &(u32, Estimate)| format!("{} at {every}", estimate.show(2));
            let saved: Vec<_> = saved(results).iter().map(text).collect();
            format!("attempts saved for each successful request, by inter-arrival time: {}", saved.join(", "))
        },
        checks: |_, saved| vec![Check::falling("attempts saved, by inter-arrival time", saved)],
        why: |results, _| higher_load_why(results),
    },
    Row {
        claim: ["co-reservation/low-load-no-gain", FIGURE_7, "no improvement"],
        statement: "for larger inter-arrival times, probing does not yield an improvement",
        rule: "at the longest inter-arrival time successful requests take the same number of attempts",
        measure: saved_measured,
        ours: |results, _| {
            saved(results).last().map_or_else(String::new, |(every, estimate)| {
                let (saved, load) = (estimate.show(3), 100.0 * CHOICES.load(*every));
                format!("{saved} attempts saved at {every} ({load:.0}% of the machines requested)")
            })
        },
        checks: |results, saved| {
            let last = results.extent.inter_arrivals.last().copied().unwrap_or(INTER_ARRIVAL);
            let case = ours(Knowledge::OwnBookings, HALF, last);
            let without = results.of(&case, |ran| ran.successful.attempts_each());
            let difference = saved.last().copied().unwrap_or(Estimate::of(&[]));
            let tolerance = SAME * without.map_or(0.0, |without| without.mean);
            vec![Check::new("attempts saved", Comparison::Same { difference, tolerance })]
        },
        why: |_, saved| {
            if saved.last().is_some_and(|saved| saved.mean.abs() < SAME) {
                return ON_AVERAGE.into();
            }
            "if several machines could begin at the same time, both brokers choose the first, so that it is full \
             even at this load, and attempts of a broker that does not probe fail there"
                .into()
        },
    },
    Row {
        claim: ["co-reservation/more-messages", "section 4.4, Figure 8", "higher (curves without numbers)"],
        statement: "for most ratios, the total normalised number of messages is higher with probing, both for \
                    successful and unsuccessful requests",
        rule: "at more than half of the shares the messages for each sub-job are more with probing than without, \
               for successful and for unsuccessful requests",
        measure: |results| of_kinds(results, Effort::messages_each),
        ours: |results, _| {
            let told = KINDS.map(|(kind, part)| {
                let (pairs, higher) = messages(results, part);
                format!("{kind}: {}, higher with probing at {higher} shares", range_text(&pairs))
            });
            format!("messages for each sub-job, {}", told.join("; "))
        },
        checks: |results, _| {
            let more = |part: Part, share: u32| {
                let saved = results.saved(share, INTER_ARRIVAL, |ran| part(ran).messages_each());
                Check::positive("", saved.map_or(Estimate::of(&[]), Estimate::negated))
            };
            let most = |(kind, part): (&str, Part)| {
                let shares = results.extent.shares.iter();
                Check::most(format!("{kind}, more with probing"), shares.map(|&share| more(part, share)))
            };
            KINDS.map(most).into()
        },
        why: |results, _| {
            let most = |part: Part| 2 * messages(results, part).1 > results.extent.shares.len();
            if KINDS.iter().all(|(_, part)| most(*part)) {
                return ON_AVERAGE.into();
            }
            "a request that fails without probing has tried up to eight candidates, each with a call and an \
             answer to hold every sub-job up to the first refusal and to release those that were held: more than \
             the eight probes cost"
                .into()
        },
    },
    Row {
        claim: ["co-reservation/eight-probes", "section 4.4", "8"],
        statement: "eight probe messages are sent out for each sub-job of a co-reservation request",
        rule: "the number of probes for each sub-job, at every share",
        measure: |results| {
            let each = |all: Effort| (all.parts > 0).then(|| all.probes as f64 / all.parts as f64);
            let at = |&share: &u32| {
                let case = ours(Knowledge::Probes, share, INTER_ARRIVAL);
                Some((format!("{share}%"), results.of(&case, |ran| each(ran.all()))?))
            };
            results.extent.shares.iter().filter_map(at).collect()
        },
        ours: |results, _| {
            format!("at most {:.2} at any share", probes(results).into_iter().fold(f64::MIN, f64::max))
        },
        checks: |results, probes| {
            let shares = results.extent.shares.iter().zip(probes);
            let eight = |(share, probes): (&u32, &Estimate)| {
                Check::number(format!("probes at {share}%"), *probes, printed(8.0, 1.0))
            };
            shares.map(eight).collect()
        },
        why: |_, _| {
            "if the offered start times do not match, our broker probes again for those that others offered"
                .into()
        },
    },
    Row {
        claim: ["co-reservation/acceptance-falls", FIGURE_9, "falls (curves without numbers)"],
        statement: "the longer the time-out, the lower is the acceptance rate",
        rule: "with every number of rejecters the rate falls as the time-out grows",
        measure: |results| curves_measured(&curves(results)),
        ours: |results, _| {
            let text = |(rejecters, curve): &Curve| {
                let (first, last) = ends(curve);
                format!("{first:.3} to {last:.3} with {rejecters}")
            };
            let curves: Vec<_> = curves(results).iter().map(text).collect();
            format!("from 1 to {LONGEST} slots, by rejecters per 1,000 accepters: {}", curves.join(", "))
        },
        checks: |results, _| {
            let check = |(rejecters, curve): Curve| {
                let rates: Vec<Estimate> = curve.into_iter().map(|(_, rate)| rate).collect();
                Check::falling(format!("rate with {rejecters} rejecters, by time-out"), &rates)
            };
            curves(results).into_iter().map(check).collect()
        },
        why: |_, _| "with few rejecters the change of the rate is smaller than its random variation".into(),
    },
    Row {
        claim: [
            "co-reservation/fewer-rejecters-smaller-impact",
            FIGURE_9,
            "smaller (curves without numbers)",
        ],
        statement: "the smaller the number of rejecters, the smaller is the impact of the time-out on the acceptance \
                    rate",
        rule: "the fall from the shortest to the longest time-out grows with every larger number of rejecters",
        measure: |results| curves_measured(&curves(results)),
        ours: |results, _| {
            let text = |(rejecters, drop): &(u32, Estimate)| format!("{:.3} with {rejecters}", drop.mean);
            format!("the rate falls by {}", drops(results).iter().map(text).collect::<Vec<_>>().join(", "))
        },
        checks: |results, _| {
            let drops: Vec<Estimate> = drops(results).into_iter().map(|(_, drop)| drop).collect();
            vec![Check::rising("fall of the rate, by rejecters", &drops)]
        },
        why: |_, _| {
            "with this many rejecters the holds leave no room for other rejecters, and the rate is already low at \
             the shortest time-out"
                .into()
        },
    },
    Row {
        claim: ["co-reservation/timeout-300", FIGURE_9, "about 300"],
        statement: "with one rejecter per accepter and a target acceptance rate of about 0.8, the time-out needs to be \
                    set at about 300 slots",
        rule: "the time-out at which the rate falls to 0.8, in straight lines between the time-outs that were run",
        measure: |results| {
            let mut curves = curves(results);
            curves.retain(|(rejecters, _)| *rejecters == ONE_EACH);
            curves_measured(&curves)
        },
        ours: |results, _| {
            let (reached, at_longest) = (reached(results).show(), results.acceptance(&SLOWEST).show(3));
            format!("{reached} (the rate is {at_longest} at {LONGEST} slots)")
        },
        checks: |results, _| {
            // Found on the mean curve, so that it has no interval.
            let timeout = match reached(results) {
                Reached::At(timeout) => Estimate::of(&[timeout]),
                Reached::Never | Reached::Always => Estimate::of(&[]),
            };
            vec![Check::number("time-out", timeout, printed(PUBLISHED_TIMEOUT, 100.0))]
        },
        why: |results, _| {
            let hold = |timeout: u32| {
                let case = HoldCase { timeout: Timeout::Fixed(timeout), ..SLOWEST };
                results.hold(&case, |held| held.hold).mean
            };
            let (at_longest, at_published) = (hold(LONGEST), hold(PUBLISHED_TIMEOUT as u32));
            let shortest = results.extent.timeouts.first().copied().unwrap_or(LONGEST);
            let rate = results.acceptance(&HoldCase { timeout: Timeout::Fixed(shortest), ..SLOWEST });
            format!(
                "at the printed inter-arrival time the accepters alone request {:.0}% of the machines, so that the rate \
                 is {} even if holds last for {shortest} slot. No hold of our sites outlasts the begin of its slot, so that a \
                 time-out of {LONGEST} holds for {at_longest:.0} slots on average, which flattens the curve at its long end; at \
                 {PUBLISHED_TIMEOUT} slots it is {at_published:.0}, so that this alone does not explain the difference. The \
                 table of other loads shows where the rate falls to 0.8; the paper prints neither the number of sub-jobs \
                 nor the advance booking period, and the time-out depends on both",
                100.0 * CHOICES.load(SLOWEST.inter_arrival),
                rate.show(3),
            )
        },
    },
];

/// The acceptance rate by timeout, for a number of rejecters.
type Curve = (u32, Vec<(u32, Estimate)>);

/// One rejecter for each accepter, and the longest timeout.
const SLOWEST: HoldCase = held(ONE_EACH, Timeout::Fixed(LONGEST));

pub(super) fn with_or_without(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Probes => "with probing",
        Knowledge::OwnBookings => "without probing",
    }
}

/// The estimate with two digits, or a dash.
pub(super) fn shown(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(|| "–".into(), |estimate| estimate.show(2))
}

/// A measure of each kind of requests at each share, with probing and without.
fn of_kinds(results: &Results, number: fn(&Effort) -> Option<f64>) -> Measured {
    let mut measured = Vec::new();
    for (kind, part) in KINDS {
        for (&share, knowledge) in
            results.extent.shares.iter().flat_map(|share| BOTH.map(|both| (share, both)))
        {
            let case = ours(knowledge, share, INTER_ARRIVAL);
            let estimate = results.of(&case, |ran| number(&part(ran)));
            let name = format!("{kind}, {share}%, {}", with_or_without(knowledge));
            measured.extend(estimate.map(|estimate| (name, estimate)));
        }
    }
    measured
}

/// A measure with probing and without, at one share.
fn pair(results: &Results, share: u32, number: impl Fn(&Negotiated) -> Option<f64>) -> Option<(f64, f64)> {
    let mean = |knowledge| {
        let estimate = results.of(&ours(knowledge, share, INTER_ARRIVAL), &number)?;
        Some(estimate.mean)
    };
    Some((mean(Knowledge::Probes)?, mean(Knowledge::OwnBookings)?))
}

fn range_text(pairs: &[(f64, f64)]) -> String {
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) = pairs.iter().map(of).fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
        if pairs.is_empty() { "none".to_owned() } else { format!("{low:.2} to {high:.2}") }
    };
    format!("{} with probing, {} without", range(|pair| pair.0), range(|pair| pair.1))
}

/// Attempts with probing and without, at each share below 100%.
fn attempts_below(results: &Results, part: Part) -> impl Iterator<Item = (u32, Option<(f64, f64)>)> {
    let below = results.extent.shares.iter().filter(|&&share| share < ALL);
    below.map(move |&share| (share, pair(results, share, |ran| part(ran).attempts_each())))
}

/// The claim is about every share, so a share without a value counts against it.
fn not_fewer(results: &Results) -> Vec<String> {
    let of_kind = |(kind, part): (&'static str, Part)| {
        let worse = attempts_below(results, part)
            .filter(|(_, pair)| pair.is_none_or(|(with, without)| with >= without));
        worse.map(move |(share, _)| format!("{kind} at {share}%"))
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// Attempts that probing saves at a share, seed by seed.
fn attempts_saved(results: &Results, share: u32, part: Part) -> Option<Estimate> {
    results.saved(share, INTER_ARRIVAL, |ran| part(ran).attempts_each())
}

/// Attempts of each kind of requests at a share of 100%.
fn all_seen(results: &Results) -> [Option<(f64, f64)>; 2] {
    KINDS.map(|(_, part)| pair(results, ALL, |ran| part(ran).attempts_each()))
}

/// Attempts that probing saves for each successful request, by inter-arrival time, the shortest first.
fn saved(results: &Results) -> Vec<(u32, Estimate)> {
    let number = |ran: &Negotiated| ran.successful.attempts_each();
    let every = results.extent.inter_arrivals.iter();
    every.filter_map(|&every| Some((every, results.saved(HALF, every, number)?))).collect()
}

fn saved_measured(results: &Results) -> Measured {
    let named = |(every, estimate)| (format!("attempts saved at {every}"), estimate);
    saved(results).into_iter().map(named).collect()
}

fn higher_load_why(results: &Results) -> String {
    let largest = saved(results).into_iter().max_by(|one, other| one.1.mean.total_cmp(&other.1.mean));
    let at = largest.map_or(0, |(every, _)| every);
    let first = results.extent.inter_arrivals.first().copied().unwrap_or(INTER_ARRIVAL);
    if at == first {
        return ON_AVERAGE.into();
    }
    let failing = results.saved(HALF, first, |ran| ran.unsuccessful.attempts_each());
    format!(
        "the reduction is largest at {at}, where {:.0}% of the machines are requested; at higher loads only \
         requests that are easy to place succeed, with and without probing, and the gain is in the \
         unsuccessful ones: {} attempts saved at {first}",
        100.0 * CHOICES.load(at.max(1)),
        shown(failing)
    )
}

/// Messages for each sub-job with probing and without, and at how many shares they are more with it.
fn messages(results: &Results, part: Part) -> (Vec<(f64, f64)>, usize) {
    let shares = results.extent.shares.iter();
    let pairs: Vec<(f64, f64)> =
        shares.filter_map(|&share| pair(results, share, |ran| part(ran).messages_each())).collect();
    let higher = pairs.iter().filter(|(with, without)| with > without).count();
    (pairs, higher)
}

/// Probes for each sub-job, by share.
fn probes(results: &Results) -> Vec<f64> {
    let each = |share: &u32| {
        let total = results.total(&ours(Knowledge::Probes, *share, INTER_ARRIVAL));
        total.probes as f64 / total.parts.max(1) as f64
    };
    results.extent.shares.iter().map(each).collect()
}

/// The acceptance rate by timeout, for each number of rejecters above 0.
fn curves(results: &Results) -> Vec<Curve> {
    let some = results.extent.rejecters.iter().filter(|&&rejecters| rejecters > 0);
    let curve = |rejecters: u32| {
        let at = |&timeout: &u32| (timeout, results.acceptance(&held(rejecters, Timeout::Fixed(timeout))));
        (rejecters, results.extent.timeouts.iter().map(at).collect())
    };
    some.map(|&rejecters| curve(rejecters)).collect()
}

fn ends(curve: &[(u32, Estimate)]) -> (f64, f64) {
    let mean = |point: Option<&(u32, Estimate)>| point.map_or(0.0, |(_, estimate)| estimate.mean);
    (mean(curve.first()), mean(curve.last()))
}

fn curves_measured(curves: &[Curve]) -> Measured {
    let points =
        curves.iter().flat_map(|(rejecters, curve)| curve.iter().map(move |point| (rejecters, point)));
    points
        .map(|(rejecters, (timeout, rate))| (format!("{rejecters} rejecters, {timeout} slots"), *rate))
        .collect()
}

/// The fall of the rate from the shortest to the longest timeout, by rejecters.
fn drops(results: &Results) -> Vec<(u32, Estimate)> {
    let drop = |(rejecters, curve): Curve| {
        let ends = curve.first().zip(curve.last());
        (rejecters, ends.map_or(Estimate::of(&[]), |(first, last)| first.1.minus(last.1)))
    };
    curves(results).into_iter().map(drop).collect()
}

fn reached(results: &Results) -> Reached {
    results.timeout_for(&SLOWEST, f64::from(TARGET) / 1e6)
}
