//! Claims of the paper about its figures beside our results. The rules were written before the first run: directions,
//! and a factor of [`FACTOR`] either way for numbers. Explanations of differences are built from measured numbers; they
//! have no influence on the verdict.

use super::case::Case;
use super::results::{
    Measures, NON_RESTARTABLE, RESTARTABLE, Results, all, booked, granted, mean_of_sites, offset,
    percent_above, rejections, rejections_each, reserved_success, success, utilisation, wait,
};
use super::setup::{ALTERNATIVES, CHOICES, HINT_LIMIT, published};
use crate::{Claim, Estimate, Measured};

/// A number counts as reproduced from half to double the published one.
const FACTOR: f64 = 2.0;
/// Utilisation counts as unchanged within this many percentage points.
const UNCHANGED: f64 = 5.0;

const NONE: Case = Case::advance(0, RESTARTABLE);
const TEN: Case = Case::advance(10, RESTARTABLE);
const TWENTY: Case = Case::advance(20, RESTARTABLE);
const LONG_TEN: Case = Case::advance(10, NON_RESTARTABLE);
const LONG_TWENTY: Case = Case::advance(20, NON_RESTARTABLE);

/// All claims, judged on the first of the results. The others, with other choices, only help to explain differences.
pub(super) fn claims(results: &[Results]) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(waiting(results));
    claims.extend(offsets(results));
    claims.extend(utilisations(results));
    claims.extend(rejected(results));
    claims.extend(parallel(results));
    claims
}

fn within_factor(ours: Estimate, paper: f64) -> bool {
    ours.mean >= paper / FACTOR && ours.mean <= paper * FACTOR
}

fn measured<const N: usize>(figures: [(&str, Estimate); N]) -> Measured {
    figures.map(|(name, estimate)| (name.to_owned(), estimate)).into()
}

fn waiting(results: &[Results]) -> [Claim; 3] {
    let growth = |case| results[0].against(case, NONE, all(wait), percent_above);
    let (ten, twenty) = (growth(TEN), growth(TWENTY));
    let new = |id, paper| Claim::new(id, "Section 5.2.1, Figure 7", paper);
    let why = || why_waiting(results);
    let grown = |growth| measured([("growth of the mean waiting time, %", growth)]);
    let rule = "the growth is positive and between half and double the paper's";
    [
        new("gridsim/waiting-10", "+20%")
            .says("Queued jobs wait longer if 10% of the jobs are reservations.")
            .ours(format!("{:+.0}%", ten.mean), grown(ten))
            .judged(rule, within_factor(ten, published::WAITING_10), why),
        new("gridsim/waiting-20", "+71%")
            .says("Queued jobs wait longer if 20% of the jobs are reservations.")
            .ours(format!("{:+.0}%", twenty.mean), grown(twenty))
            .judged(rule, within_factor(twenty, published::WAITING_20), why),
        new("gridsim/waiting-grows", "0 < +20% < +71%")
            .says("The more reservations, the longer queued jobs wait.")
            .ours(
                format!("0 < {:+.0}% < {:+.0}%", ten.mean, twenty.mean),
                measured([("growth with 10%, %", ten), ("growth with 20%, %", twenty)]),
            )
            .judged(
                "more waiting with 10% than with none, and more with 20% than with 10%",
                0.0 < ten.mean && ten.mean < twenty.mean,
                why,
            ),
    ]
}

fn offsets(results: &[Results]) -> [Claim; 4] {
    let [ten, twenty, now_ten, now_twenty] =
        [TEN, TWENTY, Case::immediate(10), Case::immediate(20)].map(|case| results[0].of(case, all(offset)));
    let new = |id, paper| Claim::new(id, "Section 5.2.2, Figure 8", paper);
    let why = || why_offset(results);
    let late = |offset| measured([("mean offset, minutes", offset)]);
    let rule = "between half and double the paper's";
    [
        new("gridsim/offset-10", "48 min")
            .says("Mean delay of reservations against the requested start, with 10% reservations.")
            .ours(format!("{:.0} min", ten.mean), late(ten))
            .judged(rule, within_factor(ten, published::OFFSET_10), why),
        new("gridsim/offset-20", "62 min")
            .says("Mean delay of reservations against the requested start, with 20% reservations.")
            .ours(format!("{:.0} min", twenty.mean), late(twenty))
            .judged(rule, within_factor(twenty, published::OFFSET_20), why),
        new("gridsim/offset-grows", "+29% from 10% to 20%")
            .says("The more reservations, the larger their offset.")
            .ours(
                format!("{:+.0}%", percent_above(twenty.mean, ten.mean)),
                measured([("offset with 10%, minutes", ten), ("offset with 20%, minutes", twenty)]),
            )
            .judged("a larger mean offset with 20% than with 10%", ten.mean < twenty.mean, why),
        new("gridsim/offset-advance", "lower for advance reservations")
            .says("A request ahead of time gives a smaller offset than an immediate one.")
            .ours(
                format!(
                    "{:.0} against {:.0} min with 10%, {:.0} against {:.0} with 20%",
                    ten.mean, now_ten.mean, twenty.mean, now_twenty.mean
                ),
                measured([
                    ("advance with 10%, minutes", ten),
                    ("immediate with 10%, minutes", now_ten),
                    ("advance with 20%, minutes", twenty),
                    ("immediate with 20%, minutes", now_twenty),
                ]),
            )
            .judged(
                "a smaller mean offset for advance than for immediate reservations, with 10% and with 20%",
                ten.mean < now_ten.mean && twenty.mean < now_twenty.mean,
                || {
                    format!(
                        "advance reservations that are granted are {:.0} and {:.0} minutes late, immediate ones {:.0} and \
                         {:.0}; with this small number of jobs the resources are not full of reservations yet",
                        ten.mean, twenty.mean, now_ten.mean, now_twenty.mean
                    )
                },
            ),
    ]
}

fn utilisations(results: &[Results]) -> [Claim; 3] {
    let [none, ten, twenty, long_ten, long_twenty] = [NONE, TEN, TWENTY, LONG_TEN, LONG_TWENTY]
        .map(|case| results[0].of(case, mean_of_sites(utilisation)));
    let (low, high) = published::UTILISATION;
    // The claim has two parts: a range, and a drop into it. A utilisation that was always in the range is no
    // drop.
    let drops = |with: Estimate| low <= with.mean && with.mean <= high && with.mean < none.mean;
    let new = |id, paper| Claim::new(id, "Section 5.2.3, Figure 9", paper);
    let why = || why_used(results);
    [
        new("gridsim/utilisation-range", "60 to 80%")
            .says("With reservations, utilisation drops to between 60 and 80%.")
            .ours(
                format!("{:.0}% without, {:.0}% with 10%, {:.0}% with 20%", none.mean, ten.mean, twenty.mean),
                measured([("0%", none), ("10%, restartable", ten), ("20%, restartable", twenty)]),
            )
            .judged(
                "with 10% and with 20% restartable reservations, the mean of the five resources is between 60 and 80% \
                 and lower than without",
                drops(ten) && drops(twenty),
                why,
            ),
        new("gridsim/utilisation-restartable", "unchanged")
            .says("Utilisation does not change for restartable jobs.")
            .ours(
                format!("{:.0}% with 10%, {:.0}% with 20%", ten.mean, twenty.mean),
                measured([("10%, restartable", ten), ("20%, restartable", twenty)]),
            )
            .judged(
                "the mean of the five resources differs by at most 5 percentage points between 10% and 20% restartable \
                 reservations",
                (ten.mean - twenty.mean).abs() <= UNCHANGED,
                why,
            ),
        new("gridsim/utilisation-non-restartable", "lower")
            .says("Utilisation is lower for jobs that cannot be restarted, because their slots are too long.")
            .ours(
                against([long_ten, ten, long_twenty, twenty], "%"),
                measured([
                    ("10%, non-restartable", long_ten),
                    ("10%, restartable", ten),
                    ("20%, non-restartable", long_twenty),
                    ("20%, restartable", twenty),
                ]),
            )
            .judged(
                "the mean of the five resources is lower than with restartable jobs, with 10% and with 20%",
                long_ten.mean < ten.mean && long_twenty.mean < twenty.mean,
                why,
            ),
    ]
}

/// Two values with 10% and two with 20%.
fn against(figures: [Estimate; 4], unit: &str) -> String {
    let [a, b, c, d] = figures.map(|figure| format!("{:.0}{unit}", figure.mean));
    format!("{a} against {b} with 10%, {c} against {d} with 20%")
}

fn rejected(results: &[Results]) -> [Claim; 2] {
    let [ten, twenty, long_ten, long_twenty] =
        [TEN, TWENTY, LONG_TEN, LONG_TWENTY].map(|case| results[0].of(case, all(rejections)));
    let new = |id, paper| Claim::new(id, "Section 5.2.4, Figure 10", paper);
    let measured = measured([
        ("10%, restartable", ten),
        ("20%, restartable", twenty),
        ("10%, non-restartable", long_ten),
        ("20%, non-restartable", long_twenty),
    ]);
    let why = || {
        format!(
            "{:.0} and {:.0} requests for restartable jobs are rejected, {:.0} and {:.0} for others: too few to compare",
            ten.mean, twenty.mean, long_ten.mean, long_twenty.mean
        )
    };
    [
        new("gridsim/rejections-share", "higher with 20% than with 10%")
            .says("The more reservations are requested, the more are rejected.")
            .ours(
                format!(
                    "{:.0} and {:.0} restartable, {:.0} and {:.0} not",
                    ten.mean, twenty.mean, long_ten.mean, long_twenty.mean
                ),
                measured.clone(),
            )
            .judged(
                "more rejections with 20% than with 10%, for both kinds of jobs",
                ten.mean < twenty.mean && long_ten.mean < long_twenty.mean,
                why,
            ),
        new("gridsim/rejections-non-restartable", "higher for non-restartable jobs")
            .says("Jobs that cannot be restarted are rejected more often, because they request longer slots.")
            .ours(against([long_ten, ten, long_twenty, twenty], ""), measured)
            .judged(
                "more rejections than for restartable jobs, with 10% and with 20%",
                ten.mean < long_ten.mean && twenty.mean < long_twenty.mean,
                why,
            ),
    ]
}

fn parallel(results: &[Results]) -> [Claim; 2] {
    let none = results[0].of(Case::parallel(0), all(success));
    let [ten, twenty] = [10, 20].map(|share| results[0].of(Case::parallel(share), all(reserved_success)));
    let new = |id, paper| Claim::new(id, "Section 5.2.5, Figure 11", paper);
    let measured = measured([
        ("jobs without reservations, %", none),
        ("reservations of 10%, %", ten),
        ("reservations of 20%, %", twenty),
    ]);
    let ours = format!("{:.1}% without, {:.1}% with 10%, {:.1}% with 20%", none.mean, ten.mean, twenty.mean);
    let why = || {
        format!(
            "{:.0}% and {:.0}% of the requested reservations for parallel jobs are granted, and {:.1}% of the jobs get four \
             CPUs at once without one",
            mean(&results[0], Case::parallel(10), granted),
            mean(&results[0], Case::parallel(20), granted),
            none.mean,
        )
    };
    [
        new("gridsim/parallel-reservations", "lowest without reservations")
            .says("The parts of parallel jobs run together more often with a reservation.")
            .ours(ours.clone(), measured.clone())
            .judged(
                "a larger share of the jobs that request a reservation succeeds, with 10% and with 20%, than of all jobs \
                 without reservations",
                none.mean < ten.mean && none.mean < twenty.mean,
                why,
            ),
        new("gridsim/parallel-competition", "10% better than 20%")
            .says("With 10% reservations they succeed more often than with 20%, because of less competition.")
            .ours(ours, measured)
            .judged(
                "of the jobs that request a reservation, a larger share succeeds with 10% than with 20%",
                twenty.mean < ten.mean,
                why,
            ),
    ]
}

fn mean(results: &Results, case: Case, number: fn(&Measures) -> f64) -> f64 {
    results.of(case, all(number)).mean
}

fn mean_used(results: &Results, case: Case) -> f64 {
    results.of(case, mean_of_sites(utilisation)).mean
}

fn overload() -> String {
    format!(
        "With the printed set-up, work arrives {:.0} times as fast as the resources can process it",
        CHOICES.overload()
    )
}

/// A sentence about the alternative with a lighter load; empty if it was not run.
fn lighter(results: &[Results], text: impl FnOnce(&Results) -> String) -> String {
    let at = ALTERNATIVES.iter().position(|(_, choices)| choices.per_hour < CHOICES.per_hour);
    // Results begin with our own choices. A quick run has no others, and then nothing is said about them.
    let text = at.and_then(|at| results.get(at + 1)).map(text);
    let text = text.map(|text| {
        format!(". With a load that the five resources can process (other choices, below) {text}")
    });
    text.unwrap_or_default()
}

fn why_waiting(results: &[Results]) -> String {
    let ours = &results[0];
    let lighter = lighter(results, |lighter| {
        let growth = |case| lighter.against(case, NONE, all(wait), percent_above).mean;
        format!("the growth is {:+.0}% and {:+.0}%", growth(TEN), growth(TWENTY))
    });
    format!(
        "{}: the wait, {:.0} minutes without reservations, is the time to drain a backlog. Jobs that run first then \
         lengthen the mean wait of the others by about their own share, and only {:.1}% and {:.1}% of the jobs get a \
         reservation if 10 and 20% request one; CPUs that stay idle for them cost little ({:.0}% of the CPU time is \
         used){lighter}",
        overload(),
        mean(ours, NONE, wait),
        mean(ours, TEN, booked),
        mean(ours, TWENTY, booked),
        mean_used(ours, TWENTY),
    )
}

fn why_offset(results: &[Results]) -> String {
    let ours = &results[0];
    let lighter = lighter(results, |lighter| {
        format!("it is {:.0} and {:.0} minutes", mean(lighter, TEN, offset), mean(lighter, TWENTY, offset))
    });
    format!(
        "{}, and reservations alone need more than R0, R3 and R4 have: {:.0}% and {:.0}% of the requested ones are granted, \
         after {:.1} and {:.1} rejections for each. The offset then depends on how long users retry (here up to {} \
         minutes) and how far ahead they book, neither of which the paper states{lighter}",
        overload(),
        mean(ours, TEN, granted),
        mean(ours, TWENTY, granted),
        mean(ours, TEN, rejections_each),
        mean(ours, TWENTY, rejections_each),
        HINT_LIMIT.0 / 60,
    )
}

fn why_used(results: &[Results]) -> String {
    let used = |results: &Results| [NONE, TWENTY, LONG_TWENTY].map(|case| mean_used(results, case));
    let lighter = lighter(results, |lighter| {
        let [none, twenty, long] = used(lighter);
        format!("it is {none:.0}%, {twenty:.0}% and {long:.0}%")
    });
    let [none, twenty, long] = used(&results[0]);
    format!(
        "{}, so that CPUs are rarely idle: {none:.0}% of their time is used without reservations. Idle time before \
         reservations, where the next job does not fit, leaves {twenty:.0}%, and slots that are too long leave \
         {long:.0}%{lighter}",
        overload(),
    )
}
