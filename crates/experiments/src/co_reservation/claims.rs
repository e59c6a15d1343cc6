//! Claims of the co-reservation paper beside our results. The paper prints its results as curves, so all rules but one
//! are about directions. They were written before the runs for the figures, but after a speed test that showed a few
//! single runs; none was changed afterwards.

use super::desk::Knowledge;
use super::results::{BOTH, Part, Reached, Results, held, ours};
use super::runs::{Effort, Negotiated, Timeout};
use super::setup::{ALL, CHOICES, HALF, INTER_ARRIVAL, LONGEST, ONE_EACH, PUBLISHED_TIMEOUT, TARGET};
use crate::{Claim, Estimate, Measured};

/// Fewer saved attempts per request than this count as no gain.
const NO_GAIN: f64 = 0.05;
/// A falling curve may rise by this much between two points, by chance.
const CHANCE: f64 = 0.02;
/// Our timeout counts as the published one from a third of it to three times it.
const FACTOR: f64 = 3.0;

/// Requests that were booked, and requests that were not.
pub(super) const KINDS: [(&str, Part); 2] =
    [("successful", |ran| ran.successful), ("unsuccessful", |ran| ran.unsuccessful)];

pub(super) fn claims(results: &Results) -> Vec<Claim> {
    vec![
        fewer_attempts(results),
        all_seen(results),
        higher_load(results),
        low_load(results),
        more_messages(results),
        eight_probes(results),
        falls_with_timeout(results),
        fewer_rejecters(results),
        published_timeout(results),
    ]
}

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

/// A measure of one kind of requests at each share, with probing and without.
fn at_shares(results: &Results, part: Part, name: &str, number: fn(&Effort) -> Option<f64>) -> Measured {
    let mut measured = Vec::new();
    for &share in results.extent.shares {
        for knowledge in BOTH {
            let case = ours(knowledge, share, INTER_ARRIVAL);
            let estimate = results.of(&case, |ran| number(&part(ran)));
            let name = format!("{name}, {share}%, {}", with_or_without(knowledge));
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

fn fewer_attempts(results: &Results) -> Claim {
    let (mut measured, mut told, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, part) in KINDS {
        measured.extend(at_shares(results, part, kind, Effort::attempts_each));
        let below = results.extent.shares.iter().filter(|&&share| share < ALL);
        let pairs: Vec<(u32, Option<(f64, f64)>)> =
            below.map(|&share| (share, pair(results, share, |ran| part(ran).attempts_each()))).collect();
        // The claim is about every share, so a share without a value counts against it.
        let worse = pairs.iter().filter(|(_, pair)| pair.is_none_or(|(with, without)| with >= without));
        failed.extend(worse.map(|(share, _)| format!("{kind} at {share}%")));
        let known: Vec<(f64, f64)> = pairs.iter().filter_map(|(_, pair)| *pair).collect();
        told.push(format!("{kind}: {}", range_text(&known)));
    }
    Claim::new(
        "co-reservation/probing-fewer-attempts",
        "section 4.4, Figure 6",
        "fewer (curves without numbers)",
    )
    .says(
        "probing significantly reduces the number of reservation attempts for both successful and \
         unsuccessful requests",
    )
    .ours(format!("attempts for each request at shares below 100%: {}", told.join("; ")), measured)
    .judged(
        "at every share below 100% the mean number of attempts is lower with probing than without, for \
         successful and for unsuccessful requests",
        failed.is_empty(),
        || {
            format!(
                "not lower for {}: probes do not report the free capacity beside a slot, so that sub-jobs \
                 are tried together on a machine that has room for each of them alone; the table of other \
                 choices shows that no attempt fails if sites report it",
                failed.join(", ")
            )
        },
    )
}

fn all_seen(results: &Results) -> Claim {
    let of = |part: Part| pair(results, ALL, |ran| part(ran).attempts_each());
    let [(_, successful), (_, unsuccessful)] = KINDS;
    // A run may have no unsuccessful requests at this share; nothing contradicts the claim then.
    let reproduced = of(successful).is_some_and(|(with, without)| without < with)
        && of(unsuccessful).is_none_or(|(with, without)| without <= with);
    let text = |part: Part| {
        let both = of(part).map(|(with, without)| format!("{with:.2} with probing, {without:.2} without"));
        both.unwrap_or_else(|| "none".into())
    };
    let measured = KINDS.into_iter().flat_map(|(kind, part)| {
        let all = at_shares(results, part, kind, Effort::attempts_each);
        all.into_iter().filter(|(name, _)| name.contains("100%"))
    });
    Claim::new(
        "co-reservation/all-seen-fewer-without",
        "section 4.4, Figure 6",
        "fewer without probing at 100%",
    )
    .says(
        "only if all requests are submitted via the evaluated broker, the broker that relies on its \
         knowledge of previous reservations needs fewer attempts than the probing one",
    )
    .ours(
        format!("at 100%, successful: {}; unsuccessful: {}", text(successful), text(unsuccessful)),
        measured.collect(),
    )
    .judged(
        "at a share of 100% the mean number of attempts without probing is lower for successful requests \
         and not higher for unsuccessful ones",
        reproduced,
        || "the answers to probes are enough to avoid all failed attempts",
    )
}

/// Attempts that probing saves for each successful request, by inter-arrival time, the shortest first.
fn saved(results: &Results) -> Vec<(u32, Estimate)> {
    let number = |ran: &Negotiated| ran.successful.attempts_each();
    let every = results.extent.inter_arrivals.iter();
    every.filter_map(|&every| Some((every, results.saved(HALF, every, number)?))).collect()
}

fn saved_text(saved: &[(u32, Estimate)]) -> String {
    let text = |(every, estimate): &(u32, Estimate)| format!("{} at {every}", estimate.show(2));
    saved.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn saved_measured(saved: &[(u32, Estimate)]) -> Measured {
    saved.iter().map(|(every, estimate)| (format!("attempts saved at {every}"), *estimate)).collect()
}

fn higher_load(results: &Results) -> Claim {
    let saved = saved(results);
    // A tolerance, because two points with equal true values differ by chance.
    let falls = saved.windows(2).all(|pair| pair[1].1.mean <= pair[0].1.mean + NO_GAIN);
    let more = saved.first().zip(saved.last()).is_some_and(|(most, least)| most.1.mean > least.1.mean);
    let reproduced = falls && more;
    Claim::new(
        "co-reservation/load-larger-reduction",
        "section 4.4, Figure 7",
        "more (curves without numbers)",
    )
    .says("the higher the load, the more does probing reduce the number of reservation attempts")
    .ours(
        format!("attempts saved for each successful request, by inter-arrival time: {}", saved_text(&saved)),
        saved_measured(&saved),
    )
    .judged(
        "for successful requests the reduction is larger at the shortest inter-arrival time than at the \
         longest, and from one to the next longer it never grows by more than 0.05 attempts",
        reproduced,
        || higher_load_why(results, &saved),
    )
}

fn higher_load_why(results: &Results, saved: &[(u32, Estimate)]) -> String {
    let largest = saved.iter().max_by(|one, other| one.1.mean.total_cmp(&other.1.mean));
    let at = largest.map_or(0, |(every, _)| *every);
    let first = results.extent.inter_arrivals.first().copied().unwrap_or(INTER_ARRIVAL);
    let failing = results.saved(HALF, first, |ran| ran.unsuccessful.attempts_each());
    format!(
        "the reduction is largest at {at}, where {:.0}% of the machines are requested; at higher loads only \
         requests that are easy to place succeed, with and without probing, and the gain is in the \
         unsuccessful ones: {} attempts saved at {first}",
        100.0 * CHOICES.load(at.max(1)),
        shown(failing)
    )
}

fn low_load(results: &Results) -> Claim {
    let saved = saved(results);
    let last = saved.last();
    let reproduced = last.is_some_and(|(_, estimate)| estimate.mean < NO_GAIN);
    Claim::new("co-reservation/low-load-no-gain", "section 4.4, Figure 7", "no improvement")
        .says("for larger inter-arrival times, probing does not yield an improvement")
        .ours(
            last.map_or_else(String::new, |(every, estimate)| {
                let load = 100.0 * CHOICES.load(*every);
                format!(
                    "{} attempts saved at {every} ({load:.0}% of the machines requested)",
                    estimate.show(3)
                )
            }),
            saved_measured(&saved),
        )
        .judged(
            "at the longest inter-arrival time probing saves less than 0.05 attempts for each successful \
             request",
            reproduced,
            || {
                "if several machines could begin at the same time, both brokers choose the first, so that \
                 it is full even at this load, and attempts of a broker that does not probe fail there"
            },
        )
}

fn more_messages(results: &Results) -> Claim {
    let (mut measured, mut told, mut reproduced) = (Vec::new(), Vec::new(), true);
    for (kind, part) in KINDS {
        measured.extend(at_shares(results, part, kind, Effort::messages_each));
        let shares = results.extent.shares.iter();
        let pairs: Vec<(f64, f64)> =
            shares.filter_map(|&share| pair(results, share, |ran| part(ran).messages_each())).collect();
        let higher = pairs.iter().filter(|(with, without)| with > without).count();
        // Compared with all shares, so that a share without a value counts as not higher.
        reproduced &= 2 * higher > results.extent.shares.len();
        told.push(format!("{kind}: {}, higher with probing at {higher} shares", range_text(&pairs)));
    }
    Claim::new("co-reservation/more-messages", "section 4.4, Figure 8", "higher (curves without numbers)")
        .says(
            "for most ratios, the total normalised number of messages is higher with probing, both for \
             successful and unsuccessful requests",
        )
        .ours(format!("messages for each sub-job, {}", told.join("; ")), measured)
        .judged(
            "at more than half of the shares the messages for each sub-job are more with probing than \
             without, for successful and for unsuccessful requests",
            reproduced,
            || {
                "a request that fails without probing has tried up to eight candidates, each with a call \
                 and an answer to hold and to release every sub-job: more than the eight probes cost"
            },
        )
}

fn eight_probes(results: &Results) -> Claim {
    let each = |share: &u32| {
        let total = results.total(&ours(Knowledge::Probes, *share, INTER_ARRIVAL));
        total.probes as f64 / total.parts.max(1) as f64
    };
    let probes: Vec<f64> = results.extent.shares.iter().map(each).collect();
    let reproduced = probes.iter().all(|probes| (probes - 8.0).abs() < 0.05);
    let most = probes.iter().copied().fold(f64::MIN, f64::max);
    let measured = results.extent.shares.iter().filter_map(|&share| {
        let case = ours(Knowledge::Probes, share, INTER_ARRIVAL);
        let number = |ran: &Negotiated| {
            let all = ran.all();
            (all.parts > 0).then(|| all.probes as f64 / all.parts as f64)
        };
        Some((format!("{share}%"), results.of(&case, number)?))
    });
    Claim::new("co-reservation/eight-probes", "section 4.4", "8")
        .says("eight probe messages are sent out for each sub-job of a co-reservation request")
        .ours(format!("at most {most:.2} at any share"), measured.collect())
        .judged(
            "at every share the mean number of probes for each sub-job is 8.0 to one decimal",
            reproduced,
            || "if the offered start times do not match, our broker probes again for those that others offered",
        )
}

/// The acceptance rate by timeout, for each number of rejecters above 0.
fn curves(results: &Results) -> Vec<(u32, Vec<(u32, Estimate)>)> {
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

fn curves_measured(curves: &[(u32, Vec<(u32, Estimate)>)]) -> Measured {
    let points =
        curves.iter().flat_map(|(rejecters, curve)| curve.iter().map(move |point| (rejecters, point)));
    points
        .map(|(rejecters, (timeout, rate))| (format!("{rejecters} rejecters, {timeout} slots"), *rate))
        .collect()
}

fn falls_with_timeout(results: &Results) -> Claim {
    let curves = curves(results);
    let falls = |curve: &[(u32, Estimate)]| {
        let (first, last) = ends(curve);
        last < first && curve.windows(2).all(|pair| pair[1].1.mean <= pair[0].1.mean + CHANCE)
    };
    let reproduced = curves.iter().all(|(_, curve)| falls(curve));
    let text = |(rejecters, curve): &(u32, Vec<(u32, Estimate)>)| {
        let (first, last) = ends(curve);
        format!("{first:.3} to {last:.3} with {rejecters}")
    };
    Claim::new("co-reservation/acceptance-falls", "section 4.5, Figure 9", "falls (curves without numbers)")
        .says("the longer the time-out, the lower is the acceptance rate")
        .ours(
            format!(
                "from 1 to {LONGEST} slots, by rejecters per 1,000 accepters: {}",
                curves.iter().map(text).collect::<Vec<_>>().join(", ")
            ),
            curves_measured(&curves),
        )
        .judged(
            "with every number of rejecters the rate is lower at the longest time-out than at the shortest, \
             and from one time-out to the next it never rises by more than 0.02",
            reproduced,
            || "with few rejecters the change of the rate is smaller than its random variation",
        )
}

fn fewer_rejecters(results: &Results) -> Claim {
    let curves = curves(results);
    let drop = |curve: &[(u32, Estimate)]| {
        let (first, last) = ends(curve);
        first - last
    };
    let drops: Vec<(u32, f64)> = curves.iter().map(|(rejecters, curve)| (*rejecters, drop(curve))).collect();
    let reproduced = drops.windows(2).all(|pair| pair[0].1 < pair[1].1);
    let text = |(rejecters, drop): &(u32, f64)| format!("{drop:.3} with {rejecters}");
    Claim::new(
        "co-reservation/fewer-rejecters-smaller-impact",
        "section 4.5, Figure 9",
        "smaller (curves without numbers)",
    )
    .says(
        "the smaller the number of rejecters, the smaller is the impact of the time-out on the acceptance \
         rate",
    )
    .ours(
        format!("the rate falls by {}", drops.iter().map(text).collect::<Vec<_>>().join(", ")),
        curves_measured(&curves),
    )
    .judged(
        "the fall from the shortest to the longest time-out grows with every larger number of rejecters",
        reproduced,
        || {
            "with this many rejecters the holds leave no room for other rejecters, and the rate is already \
             low at the shortest time-out"
        },
    )
}

fn published_timeout(results: &Results) -> Claim {
    let case = held(ONE_EACH, Timeout::Fixed(LONGEST));
    let target = f64::from(TARGET) / 1e6;
    let reached = results.timeout_for(&case, target);
    let near = PUBLISHED_TIMEOUT / FACTOR..=PUBLISHED_TIMEOUT * FACTOR;
    let reproduced = matches!(reached, Reached::At(timeout) if near.contains(&timeout));
    let measured =
        curves(results).into_iter().filter(|(rejecters, _)| *rejecters == ONE_EACH).collect::<Vec<_>>();
    let at_longest = results.acceptance(&case);
    let wanted = 100.0 * CHOICES.load(case.inter_arrival);
    Claim::new("co-reservation/timeout-300", "section 4.5, Figure 9", "about 300")
        .says(
            "with one rejecter per accepter and a target acceptance rate of about 0.8, the time-out needs \
             to be set at about 300 slots",
        )
        .ours(
            format!("{} (the rate is {} at {LONGEST} slots)", reached.show(), at_longest.show(3)),
            curves_measured(&measured),
        )
        .judged(
            "the time-out at which the rate falls to 0.8, in straight lines between the time-outs that were \
             run, is between 100 and 900 slots",
            reproduced,
            || {
                format!(
                    "the paper prints neither the load of the accepters nor the advance booking period, and \
                     the time-out depends on both: here the accepters request {wanted:.0}% of the machines \
                     and book {:.0} slots ahead on average, so that most expired holds are booked again; \
                     the table of other loads shows by how much",
                    CHOICES.book_ahead
                )
            },
        )
}
