//! The page of the experiment: choices, results and claims. All values come from [`super::measures`].

use super::claims::{self, TOLERATED, factor, needed_text, shares_above_none};
use super::measures::{CLASSES, FACTOR_ONE, FACTORS, Figure, Measures, QUANTILE, RULES, Results};
use super::site::SHARES;
use crate::claim::judge;
use crate::report::{point, row};
use crate::{Estimate, Page, Scale, Section};
use bookahead_figure::{BarSeries, BarValue, Bars, LineSeries, Lines, Multiples};

pub(super) fn page(scale: &Scale, results: &Results) -> Page {
    let mut sections = set_up(scale, results);
    sections.extend([
        Section::heading("Wait in the queue"),
        wait_figure(results),
        wait_table(results),
        distribution_figure(results),
        slowdown_figure(results),
        slowdown_table(results),
        Section::heading("Granted reservations"),
        granted_figure(results),
        answers_table(results),
        Section::heading("Start time advantage of reservations"),
        Section::text(ADVANTAGE),
        advantage_table(results),
        check_table(results),
        Section::heading("Notice needed to limit the wait in the queue"),
        Section::text(NEEDED),
        needed_table(results),
        Section::heading("Claims"),
        Section::Claims(judge(&claims::CLAIMS, results)),
    ]);
    Page { id: "cosy", title: "COSY: the shortest notice for reservations".into(), sections }
}

const QUESTION: &str = "A reservation must be requested at least a shortest notice time before its start: a factor times the \
    wait that is predicted for the same request as a job in the queue. COSY predicts it by the mean wait of \
    queued jobs. How long must the notice be, so that a reservation does not start earlier than a job, and \
    so that the jobs in the queue do not wait longer?";

const CHOICES: &str = "Our choices, where the first page of the paper states nothing: 128 processors under EASY backfilling; \
    jobs in the style of Cirne and Berman, with the default parameters of the model, at an offered load of \
    0.7. Each job requests a reservation with the probability of the share, by the seed; a job that does so \
    at a small share does so at every larger one. A reservation has an exact start, uniform from 0 to 24 \
    hours after the request, and lasts for the requested time of the job; if the job ends early, the rest \
    is released. It is granted if its notice is long enough and it conflicts with no running job by its \
    estimate, with no reservation, and not with the promised start of the first waiting job. A refused \
    reservation joins the queue at the same instant, so that the offered work is the same in all runs. The \
    history has the last 1000 jobs that started from the queue. The first tenth of the jobs is not measured.";

const EXTENSION: &str = "Beyond the paper: instead of the mean, a wait that 95% of similar jobs do not exceed, with 95% \
    confidence, of the finest class of size and requested time (powers of two) that has enough history, at \
    factor 1.";

const ADVANTAGE: &str = "Two questions. First: what does a user gain with the shortest allowed notice? Requests are a random \
    sample of the jobs, so queued jobs show how long they would wait: the advantage is the mean wait of \
    queued jobs minus the mean required notice, if the reservation finds room. With the mean wait as the \
    prediction it must be near zero at factor 1, unless the wait grows faster than its history; that is the \
    purpose of COSY's rule. Second: what do granted reservations gain? Not all requests are granted, so at \
    each request the queue is planned with the request as its last job: once with real run times, which \
    only a simulation knows, and once with estimates, which a site knows. The advantage is that wait minus \
    the time to the start of the reservation. Positive means that reserving is faster than queueing. The \
    requested starts are spread over a day, so granted reservations start late on average under every \
    rule. Refused requests did join the queue, so the second table compares both plans with the real waits: \
    plans with real run times are too short, because later jobs and reservations get in between; plans with \
    estimates are much too long, because jobs use about a third of their requested time.";

const NEEDED: &str = "The smallest factor of the mean wait at which the queue wait increases by no more than the given \
    percentage, seed by seed, by linear interpolation between the factors of the runs; if not even the \
    largest is enough, the largest is used. A longer notice has two effects that are not separated here: \
    fewer reservations are granted, and those granted leave more time to plan around them.";

fn set_up(scale: &Scale, results: &Results) -> Vec<Section> {
    let none = results.estimate(0, 0, |run| run.wait);
    let quick = if scale.quick { ", as a smoke test: too few jobs to judge the claims" } else { "" };
    let seeds = format!(
        "Runs: {} for each rule and share, with seeds from 1 on{quick}. Without reservations the mean wait is \
         {} h. Waits are those of the jobs that never request a reservation, the same jobs in all runs. \
         Margins are 95% confidence intervals over the seeds.",
        none.runs,
        none.show(1)
    );
    [QUESTION, CHOICES, EXTENSION, &seeds].map(Section::text).into()
}

fn rule_name(rule: usize) -> String {
    if rule == QUANTILE { "bound of the 95% quantile".into() } else { format!("mean × {}", factor(rule)) }
}

fn wait_figure(results: &Results) -> Section {
    let svg = by_rule(results, "Mean wait in the queue", "hours", 0, |run| run.wait);
    let caption = "Mean wait of the jobs that queue in every run, one panel for each notice, beside that without a notice";
    Section::figure("cosy-wait.svg", caption, svg)
}

fn granted_figure(results: &Results) -> Section {
    let svg = by_rule(results, "Granted reservations", "% of those requested", 1, |run| 100.0 * run.granted);
    let caption = "Share of the requested reservations that are granted, one panel for each notice, beside that without a \
                   notice";
    Section::figure("cosy-granted.svg", caption, svg)
}

/// One panel per rule over the shares from index `first` on, each beside the first rule, which needs no notice.
fn by_rule(results: &Results, title: &str, y_label: &str, first: usize, of: Figure) -> String {
    let series = |name: &str, rule: usize| {
        let at = |share: usize| point(f64::from(SHARES[share]), results.estimate(rule, share, of));
        LineSeries::new(name, (first..SHARES.len()).map(at).collect())
    };
    let x_label = "% of jobs that request a reservation";
    let common = Lines::new(title, x_label, y_label, vec![series("no notice", 0)]);
    let panel = |rule: usize| (rule_name(rule), vec![series("with the notice of the panel", rule)]);
    Multiples::new(common, 3, (1..RULES.len()).map(panel).collect()).to_svg()
}

/// The cases whose distributions are compared: without reservations, and some rules at the largest share.
fn compared() -> [(String, usize, usize); 4] {
    let most = SHARES.len() - 1;
    let with = |rule: usize| (format!("{}, {}", percent_of(most), rule_name(rule)), rule, most);
    [("no reservations".into(), 0, 0), with(0), with(FACTOR_ONE), with(FACTORS.len() - 1)]
}

fn distribution_figure(results: &Results) -> Section {
    let curve = |(name, rule, share): (String, usize, usize)| {
        // Zero has no place on a logarithmic axis.
        let waits: Vec<f64> = results.waits(rule, share).iter().map(|wait| wait.max(1.0)).collect();
        LineSeries::distribution(name, &waits)
    };
    let lines = Lines::new("Waits in the queue", "minutes", "% of jobs", compared().map(curve).into());
    let svg = Lines { x_log: true, y_maximum: Some(100.0), ..lines }.to_svg();
    let caption = "Share of the jobs that queue in every run that wait no longer (seed 1); waits below a minute count as one \
                   minute";
    Section::figure("cosy-wait-distribution.svg", caption, svg)
}

fn slowdowns(results: &Results, rule: usize, share: usize) -> [Estimate; CLASSES.len()] {
    std::array::from_fn(|class| results.estimate(rule, share, |run| run.slowdown[class]))
}

fn slowdown_figure(results: &Results) -> Section {
    let series = |(name, rule, share): (String, usize, usize)| {
        let bar = |estimate: Estimate| Some(BarValue { value: estimate.mean, margin: estimate.margin });
        BarSeries::new(name, slowdowns(results, rule, share).map(bar).into())
    };
    let groups = CLASSES.map(|(name, _)| name.to_owned()).into();
    let bars = Bars::new("Slowdown by size", "mean bounded slowdown", groups, compared().map(series).into());
    let caption = "Mean bounded slowdown of the jobs that queue in every run, by processors: wait and run time over run \
                   time, which counts as 10 s at least";
    Section::figure("cosy-slowdown.svg", caption, bars.to_svg())
}

fn slowdown_table(results: &Results) -> Section {
    let line = |(name, rule, share): (String, usize, usize)| {
        row(name, slowdowns(results, rule, share).map(|slowdown| slowdown.show(0)))
    };
    let head = row("reservations, notice", CLASSES.map(|(name, _)| name.to_owned()));
    Section::table("cosy-slowdown.csv", "Mean bounded slowdown by processors", head, compared().map(line))
}

fn wait_table(results: &Results) -> Section {
    let cell = |rule: usize, share: usize| {
        let wait = results.estimate(rule, share, |run| run.wait).show(2);
        if share == 0 {
            wait
        } else {
            format!("{wait} ({:+.0}%)", 100.0 * results.increase(rule, share).mean)
        }
    };
    let line = |rule| row(rule_name(rule), (0..SHARES.len()).map(|share| cell(rule, share)));
    let caption = "Mean wait in the queue in hours, and how much longer that is than without reservations";
    Section::table("cosy-wait.csv", caption, share_head("notice", 0), (0..RULES.len()).map(line))
}

fn answers_table(results: &Results) -> Section {
    by_rule_and_share(
        results,
        "cosy-answers.csv",
        "Requests in %, and the mean notice that was needed",
        [
            ("granted", |run| 100.0 * run.granted),
            ("too short notice", |run| 100.0 * run.too_short),
            ("no room", |run| 100.0 * run.no_room),
            ("needed notice, h", |run| run.needed),
        ],
    )
}

fn advantage_table(results: &Results) -> Section {
    by_rule_and_share(
        results,
        "cosy-advantage.csv",
        "Hours by which reservations start earlier than the same requests as jobs (negative: later)",
        [
            ("shortest notice allowed", Measures::shortest_advantage),
            ("granted", |run| run.advantage),
            ("granted that gain, %", |run| 100.0 * run.gaining),
            ("granted, by estimates", |run| run.planned_advantage),
        ],
    )
}

fn check_table(results: &Results) -> Section {
    let waits: [Figure; 3] = [|run| run.refused.real, |run| run.refused.informed, |run| run.refused.planned];
    let cells = |share| waits.map(|of| results.estimate(FACTOR_ONE, share, of).show(1));
    let caption = "Real and planned waits of refused requests in the queue, in hours (mean × 1)";
    let head = ["share", "real", "planned with real run times", "planned with estimates"];
    let rows = shares_above_none().map(|share| row(percent_of(share), cells(share)));
    Section::table("cosy-plans.csv", caption, head, rows)
}

fn needed_table(results: &Results) -> Section {
    let line = |tolerated: f64| {
        let cells = shares_above_none().map(|share| needed_text(results, share, tolerated));
        row(format!("{:.0}% longer", 100.0 * tolerated), cells)
    };
    let caption = format!("The needed factor of the mean wait, from 0 to {}", factor(FACTORS.len() - 1));
    Section::table("cosy-needed.csv", caption, share_head("tolerated", 1), TOLERATED.map(line))
}

fn by_rule_and_share(results: &Results, file: &str, caption: &str, columns: [(&str, Figure); 4]) -> Section {
    let pairs = (0..RULES.len()).flat_map(|rule| shares_above_none().map(move |share| (rule, share)));
    let head = ["notice", "share"].into_iter().chain(columns.map(|(name, _)| name));
    let rows = pairs.map(|(rule, share)| {
        let cells = columns.map(|(_, of)| results.estimate(rule, share, of).show(1));
        row(rule_name(rule), [percent_of(share)].into_iter().chain(cells))
    });
    Section::table(file, caption, head, rows)
}

fn share_head(first: &str, from: usize) -> Vec<String> {
    row(first, (from..SHARES.len()).map(percent_of))
}

fn percent_of(share: usize) -> String {
    format!("{}%", SHARES[share])
}
