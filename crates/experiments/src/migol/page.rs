//! The page of the experiment: choices, results and claims. All values come from the other modules.

use super::claims::{self, PAPER};
use super::costs::{Costs, Point, Way};
use super::samples::{AS_IN_PAPER, At, Chooser, Decision, Estimator, Results};
use super::setup::{CLUSTERS, JOBS, LOAD, PAIRS, TEST_JOBS, WALL_TIMES, WORKLOADS};
use crate::report::{point, row};
use crate::{Estimate, Page, Section};
use bookahead_figure::{LinePoint, LineSeries, Lines};

pub(super) fn page(quick: bool, results: &Results, points: &[Point], costs: Option<&Costs>) -> Page {
    let mut sections = set_up(quick, results);
    sections.push(Section::heading("Claims of the paper and our results"));
    sections.push(Section::Claims(claims::claims(results, points, costs)));
    sections.push(Section::heading("Figure 7: accuracy of the estimated start"));
    sections.extend((0..TEST_JOBS.len()).map(|job| accuracy_figure(results, job)));
    sections.extend([
        accuracy_table(results),
        waits_table(results),
        Section::heading("Ranking two clusters"),
        Section::text(RANKING),
        ranking_figure(results),
        ranking_table(results),
        equals_table(results),
        Section::heading("Figure 6: response time against active reservations"),
        Section::text(SCALING),
        scaling_figure(points),
    ]);
    sections.extend(far_figures(points));
    sections.extend([
        scaling_table(points),
        Section::heading("Figure 5: the cost of a submission"),
        Section::text(SUBMISSION),
    ]);
    sections.extend(costs.map(costs_table));
    Page { id: "migol", title: "Migol: earliest start times and the job broker".into(), sections }
}

const QUESTION: &str = "Migol's reservation service estimates when a cluster could start a job: from running jobs and their \
    remaining wall times, queued jobs at their first fit in the order of the queue, and reservations, with no queued job \
    postponed. Its job broker ranks clusters by these estimates, requests reservations at the best three and keeps the one \
    that ends first. How accurate are the estimates if wall times are too long, and what is the cost?";

const CHOICES: &str = "Our choices, where the paper states nothing: it names its workloads W1, W2 and W3 and its small and \
    large test jobs without describing them. Ours were fixed before the first run. Jobs arrive as a Poisson process; run \
    times and sizes are uniform in their ranges. The clusters use EASY backfilling. The estimate is made at the submission, \
    when the test job is the last in the queue; the real start is that in the simulated cluster, with all jobs submitted \
    later. Accuracy is formula (8) on the time from submission to start; a job that is estimated to start at once, and does, \
    is left out, because the formula divides by the wait. One that starts at once against a later estimate counts as zero.";

const RANKING: &str = "The test job is submitted to Siemens with the first workload of a pair and to Highland with the second; the \
    estimate is right if it prefers the cluster that really starts the job first. If both start it at the same time, no choice \
    is wrong, and the case is left out. The first cluster of the paper is called Einstein, which it does not describe. So the \
    last table, added after the first run, shows the same decisions between two clusters of equal size, and the result of \
    always choosing the second.";

const SCALING: &str = "A calendar of 20 cores, 70% full with reservations of 10 to 60 minutes on 1 to 4 cores, and a request for 8 \
    cores for an hour from a random moment on. Three values are measured: the estimate from lists, which are rebuilt for each \
    request as in the paper; a hold with its commit in a ledger, which keeps its calendar between requests; and the best of \
    three at three such sites. Times are computing times without network, measured on this machine, as the median of many \
    requests, with an interval over five groups of them; they are the only values on this page that differ from run to \
    run. In the paper the times are dominated by web service calls.";

const SUBMISSION: &str = "The paper measures seconds of a whole stack; here the calls of a submission are made to the code of the \
    broker and of the sites in one process and timed, and calls and round trips are counted. The cost over HTTP, with \
    authentication and a real batch system, is not included. A hold and its commit are two calls; in the best of three the three holds are sent together, \
    then the commit and the two cancels. A flooded job is counted from its submission to three sites until it has run at one \
    and no copy is left, if one site is ready within a second; while copies wait, each is polled once a second.";

fn set_up(quick: bool, results: &Results) -> Vec<Section> {
    let (left_out, all) = results.left_out(PAPER);
    let runs = format!(
        "Runs: {} drawings of every workload of {JOBS} jobs for each cluster{}. Margins are 95% confidence intervals over the \
         drawings. Of {all} test jobs, {left_out} started at once as estimated.",
        results.drawings(),
        if quick { ", as a smoke test: too few to judge the claims" } else { "" },
    );
    [QUESTION, CHOICES, &runs].map(Section::text).into_iter().chain([set_up_table()]).collect()
}

fn set_up_table() -> Section {
    let clusters = CLUSTERS.map(|cluster| {
        vec![cluster.name.to_owned(), format!("10 nodes, {} cores in all", cluster.capacity())]
    });
    let workloads = WORKLOADS
        .map(|workload| vec![workload.name.to_owned(), format!("{}; offered load {LOAD}", workload.about)]);
    let jobs = TEST_JOBS.map(|job| {
        vec![
            format!("{} test job", job.name),
            format!("cores: {}, minutes: {}", job.cores, job.wall_time.0 / 60),
        ]
    });
    let rows = clusters.into_iter().chain(workloads).chain(jobs);
    let caption = "Clusters as in the paper; workloads and test jobs are ours";
    Section::table("migol-setup.csv", caption, ["what", "as"], rows)
}

fn accuracy_figure(results: &Results, job: usize) -> Section {
    let series = |load: usize| {
        let at = |wall: usize| {
            let found =
                results.accuracy(PAPER, |at| (at.test_job, at.workload, at.wall_time) == (job, load, wall));
            point(WALL_TIMES[wall] as f64, found)
        };
        LineSeries::new(WORKLOADS[load].name, (0..WALL_TIMES.len()).map(at).collect())
    };
    let name = TEST_JOBS[job].name;
    let title = format!("Accuracy for the {name} test job");
    let lines = Lines::new(title, WALL_LABEL, "accuracy in %", (0..WORKLOADS.len()).map(series).collect());
    let caption = format!("Mean accuracy of the estimated start of the {name} test job, both clusters");
    let svg = Lines { y_maximum: Some(100.0), ..lines }.to_svg();
    Section::figure(format!("migol-fig7-{name}.svg"), caption, svg)
}

const WALL_LABEL: &str = "wall time in % of the run time";

/// A table with one column per wall time.
fn by_wall_time(file: &str, caption: &str, first: &[&str], rows: Vec<Vec<String>>) -> Section {
    let first = first.iter().map(|&name| name.to_owned());
    Section::table(file, caption, first.chain(WALL_TIMES.map(|wall| format!("{wall}%"))), rows)
}

/// A row with one cell per wall time; `cell` gets its index.
fn wall_row<const N: usize>(names: [&str; N], cell: impl Fn(usize) -> String) -> Vec<String> {
    names.map(str::to_owned).into_iter().chain((0..WALL_TIMES.len()).map(cell)).collect()
}

fn accuracy_table(results: &Results) -> Section {
    let mut rows = Vec::new();
    for (estimator, by) in Estimator::ALL.iter().enumerate() {
        for (job, test) in TEST_JOBS.iter().enumerate() {
            for (load, workload) in WORKLOADS.iter().enumerate() {
                rows.push(wall_row([by.name(), test.name, workload.name], |wall| {
                    let wanted = |at: &At| (at.test_job, at.workload, at.wall_time) == (job, load, wall);
                    results.accuracy(estimator, wanted).show(1)
                }));
            }
        }
    }
    by_wall_time(
        "migol-accuracy.csv",
        "Mean accuracy in %, by the vacancy list as in the paper, and with the queue planned like the scheduler of the \
         cluster",
        &["estimate", "test job", "workload"],
        rows,
    )
}

fn waits_table(results: &Results) -> Section {
    let mut rows = Vec::new();
    for (job, test) in TEST_JOBS.iter().enumerate() {
        for (load, workload) in WORKLOADS.iter().enumerate() {
            rows.push(wall_row([test.name, workload.name], |wall| {
                let wanted = |at: &At| (at.test_job, at.workload, at.wall_time) == (job, load, wall);
                let (estimated, real) = (results.wait(Some(PAPER), wanted), results.wait(None, wanted));
                format!("{:.0} / {:.0}", estimated.mean, real.mean)
            }));
        }
    }
    let caption = "Mean minutes from submission to start: estimated by the vacancy list / real";
    by_wall_time("migol-waits.csv", caption, &["test job", "workload"], rows)
}

fn pair_name(pair: usize) -> String {
    let (first, second) = PAIRS[pair];
    format!("{}/{}", WORKLOADS[first].name, WORKLOADS[second].name)
}

fn ranking_figure(results: &Results) -> Section {
    let series = |pair: usize| {
        let at = |wall: usize| {
            let wanted = |it: &Decision| (it.pair, it.wall_time()) == (pair, wall);
            let right = results.ranked_right(Chooser::Estimate(PAPER), AS_IN_PAPER, wanted);
            point(WALL_TIMES[wall] as f64, right)
        };
        LineSeries::new(pair_name(pair), (0..WALL_TIMES.len()).map(at).collect())
    };
    let mut series: Vec<LineSeries> = (0..PAIRS.len()).map(series).collect();
    series.push(LineSeries::published(
        "lower bound (paper)",
        [(WALL_TIMES[WALL_TIMES.len() - 1] as f64, 60.0)],
    ));
    let lines = Lines::new("Right decisions between two clusters", WALL_LABEL, "% of decisions", series);
    let caption = "How often the cluster that is estimated to start first does so; a random choice gives 50%. Paper: \
                   75% over all wall times, and more than 60% at 150%";
    Section::figure("migol-ranking.svg", caption, Lines { y_maximum: Some(100.0), ..lines }.to_svg())
}

fn ranking_table(results: &Results) -> Section {
    let mut rows = Vec::new();
    for (estimator, by) in Estimator::ALL.iter().enumerate() {
        for (job, test) in TEST_JOBS.iter().enumerate() {
            for pair in 0..PAIRS.len() {
                rows.push(wall_row([by.name(), test.name, &pair_name(pair)], |wall| {
                    let wanted =
                        |it: &Decision| (it.test_job(), it.pair, it.wall_time()) == (job, pair, wall);
                    results.ranked_right(Chooser::Estimate(estimator), AS_IN_PAPER, wanted).show(1)
                }));
            }
        }
    }
    by_wall_time("migol-ranking.csv", "Right decisions in %", &["estimate", "test job", "workloads"], rows)
}

fn equals_table(results: &Results) -> Section {
    let choosers = Estimator::ALL.iter().enumerate().map(|(at, by)| (by.name(), Chooser::Estimate(at)));
    let choosers: Vec<(&str, Chooser)> =
        choosers.chain([("always the second", Chooser::AlwaysSecond)]).collect();
    let line = |clusters: (usize, usize)| {
        let cells =
            choosers.iter().map(|(_, chooser)| results.ranked_right(*chooser, clusters, |_| true).show(1));
        row(format!("{} and {}", CLUSTERS[clusters.0].name, CLUSTERS[clusters.1].name), cells)
    };
    Section::table(
        "migol-ranking-equals.csv",
        "Right decisions in %, over all workloads, test jobs and wall times",
        std::iter::once("clusters like").chain(choosers.iter().map(|(name, _)| *name)),
        [AS_IN_PAPER, (0, 0), (1, 1)].map(line),
    )
}

/// Name and value of a measured time.
type Measured = (&'static str, fn(&Point) -> Estimate);

const MEASURED: [Measured; 3] = [
    ("estimate from lists", |point| point.estimate),
    ("hold and commit", |point| point.reserve),
    ("best of three", |point| point.best_of_three),
];
/// The range of the paper's figure.
const FEWEST: usize = 175;
const MOST: usize = 700;

/// Figure 6: times relative to those with the fewest reservations, because the paper's text gives only their ratio.
fn scaling_figure(points: &[Point]) -> Section {
    let within = || points.iter().filter(|it| (FEWEST..=MOST).contains(&it.reservations));
    let line = |(name, of): &Measured| {
        let first = within().next().map_or(0.0, |point| of(point).mean);
        let at = |it: &Point| {
            // A coarse clock may measure a time of zero.
            let relative = |time: f64| if first > 0.0 { time / first } else { 0.0 };
            let time = of(it);
            let (x, y) = (it.reservations as f64, relative(time.mean));
            LinePoint { x, y, margin: time.margin.map(relative) }
        };
        LineSeries::new(*name, within().map(at).collect())
    };
    let mut series: Vec<LineSeries> = MEASURED.iter().map(line).collect();
    series.push(LineSeries::published("job broker (paper)", [(FEWEST as f64, 1.0), (MOST as f64, 2.0)]));
    let lines = Lines::new("Time relative to 175 reservations", RESERVATIONS, "times", series);
    let covers = Lines { y_covers: Some((0.0, 2.0)), ..lines };
    let caption = "Figure 6: time against the number of active reservations in the range of the paper, relative to the time with \
                   175; measured on this machine";
    Section::figure("migol-fig6.svg", caption, covers.to_svg())
}

const RESERVATIONS: &str = "active reservations at each site";

/// Two figures, because an estimate from lists takes thousands of times as long as the others.
fn far_figures(points: &[Point]) -> [Section; 2] {
    let figure = |file: &str, title: &str, (unit, of_unit): (&str, f64), measured: &[Measured]| {
        let line = |(name, of): &Measured| {
            let at = |it: &Point| {
                let time = of(it);
                let (x, y) = (it.reservations as f64, time.mean / of_unit);
                LinePoint { x, y, margin: time.margin.map(|margin| margin / of_unit) }
            };
            LineSeries::new(*name, points.iter().map(at).collect())
        };
        let lines = Lines::new(title, RESERVATIONS, unit, measured.iter().map(line).collect());
        let caption = format!("{title} with far more reservations than in the paper");
        Section::figure(file, caption, Lines { x_log: true, ..lines }.to_svg())
    };
    let (lists, ledgers) = MEASURED.split_at(1);
    [
        figure("migol-fig6-far-lists.svg", "Computing time from lists", ("ms", 1_000.0), lists),
        figure("migol-fig6-far.svg", "Computing time with ledgers", ("µs", 1.0), ledgers),
    ]
}

fn scaling_table(points: &[Point]) -> Section {
    let first = points.first().map_or(0.0, |point| point.best_of_three.mean);
    let line = |point: &Point| {
        // A coarse clock may measure a time of zero.
        let times = if first > 0.0 { point.best_of_three.mean / first } else { 0.0 };
        vec![
            point.reservations.to_string(),
            point.breakpoints.to_string(),
            point.estimate.show(1),
            point.reserve.show(1),
            point.best_of_three.show(1),
            format!("{times:.2}"),
        ]
    };
    let head = [
        "reservations",
        "changes of the free capacity",
        "estimate from lists, µs",
        "hold and commit, µs",
        "best of three, µs",
        "best of three, relative to the first row",
    ];
    let caption =
        "Computing times, measured on this machine; the paper: four times the reservations, twice the time";
    Section::table("migol-fig6-scaling.csv", caption, head, points.iter().map(line))
}

fn costs_table(costs: &Costs) -> Section {
    let line = |name: &str, seconds: &str, way: Option<&Way>| {
        let counted = way.map(|Way { cost, computing }| {
            [cost.calls.to_string(), cost.rounds.to_string(), computing.show(1)]
        });
        row(name, [seconds.to_owned()].into_iter().chain(counted.unwrap_or_default()))
    };
    let mut flooding = line("best effort at three sites", "", None);
    // Only calls are counted: how long the copies take depends on the queues, not on the broker.
    flooding[2] = costs.flooding.to_string();
    Section::table(
        "migol-fig5-submission.csv",
        "Cost of a submission: seconds of a whole stack in the paper; our calls and computing time",
        ["way", "paper, s", "calls, each with an answer", "sequential round trips", "measured, µs"],
        [
            line("GSISSH", "1", None),
            line("GRAM4", "7.5", None),
            line("reservation (ARS)", "13.7", Some(&costs.reservation)),
            line("best of three (JBS)", "more", Some(&costs.best_of_three)),
            line("best of three, of a hundred sites", "", Some(&costs.of_a_hundred)),
            flooding,
        ],
    )
}
