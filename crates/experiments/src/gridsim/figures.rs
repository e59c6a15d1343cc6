//! Figures 7 to 11 of the paper from our runs, each as a table and a chart. Values have confidence intervals; the
//! paper's numbers are added if its text has any.

use super::case::Case;
use super::model::Counted;
use super::results::{
    Measures, NON_RESTARTABLE, RESTARTABLE, Results, SHARES, all, granted, mean_of_sites, offset, paused,
    percent_above, rejections, reserved_success, site, success, utilisation, wait, whole_utilisation,
};
use super::setup::{ADMISSIONS, ALTERNATIVES, CHOICES, SITES, load_sets, published};
use crate::check::{Agreement, Check, Printed};
use crate::report::{point, row};
use crate::{Estimate, Section};
use bookahead_figure::{BarSeries, BarValue, Bars, LineSeries, Lines, Multiples};

/// Name and case of a column.
type Column = (&'static str, Case);

const BY_SHARE: [Column; 3] = [
    ("0%", Case::advance(0, RESTARTABLE)),
    ("10%", Case::advance(10, RESTARTABLE)),
    ("20%", Case::advance(20, RESTARTABLE)),
];
const BY_KIND: [Column; 5] = [
    ("0%", Case::advance(0, RESTARTABLE)),
    ("10% restartable", Case::advance(10, RESTARTABLE)),
    ("20% restartable", Case::advance(20, RESTARTABLE)),
    ("10% non-restartable", Case::advance(10, NON_RESTARTABLE)),
    ("20% non-restartable", Case::advance(20, NON_RESTARTABLE)),
];
const BY_TIMING: [Column; 4] = [
    ("0% (10% immediate)", Case::immediate(10)),
    ("0% (20% immediate)", Case::immediate(20)),
    ("10% in advance", Case::advance(10, RESTARTABLE)),
    ("20% in advance", Case::advance(20, RESTARTABLE)),
];

/// A value computed from the measures of one resource, or of all together.
type Number = fn(&Measures) -> f64;
/// A value computed from the measures of all resources.
type Summary = Box<dyn Fn(&[Measures]) -> f64>;

struct Figure<'a> {
    file: &'a str,
    title: &'a str,
    unit: &'a str,
    digits: usize,
    columns: &'a [Column],
    number: fn(&Measures) -> f64,
    /// The row for all resources.
    last: (&'a str, Summary),
    /// The paper's values for that row, one per column.
    paper: &'a [&'a str],
}

impl Figure<'_> {
    /// The table, then the chart.
    fn sections(&self, results: &Results) -> [Section; 2] {
        let cells = |name: &str, number: &dyn Fn(&[Measures]) -> f64| {
            row(name, self.columns.iter().map(|(_, case)| results.of(*case, number).show(self.digits)))
        };
        let sites = SITES.iter().enumerate();
        let mut rows: Vec<Vec<String>> =
            sites.map(|(at, resource)| cells(resource.name, &site(at, self.number))).collect();
        rows.push(cells(self.last.0, &self.last.1));
        if !self.paper.is_empty() {
            rows.push(row("paper, all", self.paper.iter().map(|&text| text.to_owned())));
        }
        let caption = format!("{}, {}", self.title, self.unit);
        let head = std::iter::once("resource").chain(self.columns.iter().map(|(name, _)| *name));
        let table = Section::table(format!("gridsim-{}.csv", self.file), caption, head, rows);
        [table, self.picture(results)]
    }

    fn picture(&self, results: &Results) -> Section {
        let series = self.columns.iter().map(|(name, case)| {
            let values = (0..SITES.len()).map(|at| bar(results.of(*case, site(at, self.number))));
            BarSeries::new(*name, values.collect())
        });
        let groups = SITES.iter().map(|resource| resource.name.to_owned()).collect();
        picture(self.file, self.title, self.unit, groups, series.collect())
    }
}

fn bar(estimate: Estimate) -> Option<BarValue> {
    Some(BarValue { value: estimate.mean, margin: estimate.margin })
}

fn picture(file: &str, title: &str, unit: &str, groups: Vec<String>, series: Vec<BarSeries>) -> Section {
    let bars = Bars { title: title.to_owned(), y_label: unit.to_owned(), groups, series };
    let caption = format!("{title}, {unit}; whiskers are 95% confidence intervals");
    Section::figure(format!("gridsim-{file}.svg"), caption, bars.to_svg())
}

/// Figure 7.
pub(super) fn waiting(results: &Results) -> Vec<Section> {
    let figure = Figure {
        file: "fig7-waiting",
        title: "Mean waiting time of queued jobs",
        unit: "minutes",
        digits: 0,
        columns: &BY_KIND,
        number: wait,
        last: ("all", Box::new(all(wait))),
        paper: &[],
    };
    let growth = |case: Case| results.against(case, BY_SHARE[0].1, all(wait), percent_above);
    let paper = [published::WAITING_10, published::WAITING_20].map(|value| value.to_string());
    let paper = paper.into_iter().chain([String::new(), String::new()]);
    let rows = BY_KIND[1..].iter().zip(paper);
    let growth = Section::table(
        "gridsim-fig7-growth.csv",
        "Growth of the mean waiting time over all queued jobs, in percent of that without reservations",
        ["reservations", "ours", "paper"],
        rows.map(|(&(name, case), paper)| vec![name.to_owned(), growth(case).show(1), paper]),
    );
    figure.sections(results).into_iter().chain([growth]).collect()
}

/// Figure 8.
pub(super) fn offsets(results: &Results) -> Vec<Section> {
    let paper = ["", "", &format!("{}", published::OFFSET_10), &format!("{}", published::OFFSET_20)];
    let figure = Figure {
        file: "fig8-offset",
        title: "Mean offset of reservations from the requested start",
        unit: "minutes",
        digits: 1,
        columns: &BY_TIMING,
        number: offset,
        last: ("all", Box::new(all(offset))),
        paper: &paper,
    };
    figure.sections(results).into()
}

/// Figure 9.
pub(super) fn utilisations(results: &Results) -> Vec<Section> {
    let range = format!("{} to {}", published::UTILISATION.0, published::UTILISATION.1);
    let paper = ["", &range, &range, "lower", "lower"];
    let figure = Figure {
        file: "fig9-utilisation",
        title: "Utilisation while jobs arrive",
        unit: "% of CPU time",
        digits: 1,
        columns: &BY_KIND,
        number: utilisation,
        last: ("mean of the five", Box::new(mean_of_sites(utilisation))),
        paper: &paper,
    };
    let [table, picture] = figure.sections(results);
    let whole = Figure {
        file: "fig9-whole",
        title: "Utilisation to the end of each resource's last job",
        number: whole_utilisation,
        last: ("mean of the five", Box::new(mean_of_sites(whole_utilisation))),
        paper: &[],
        ..figure
    };
    let [whole, _] = whole.sections(results);
    vec![table, picture, whole]
}

/// Figure 10.
pub(super) fn rejected(results: &Results) -> Vec<Section> {
    let figure = Figure {
        file: "fig10-rejections",
        title: "Rejected requests",
        unit: "requests, retries included",
        digits: 0,
        columns: &BY_KIND[1..],
        number: rejections,
        last: ("all", Box::new(all(rejections))),
        paper: &[],
    };
    figure.sections(results).into()
}

/// Figure 11.
pub(super) fn parallel(results: &Results) -> Vec<Section> {
    let share = |share: u32, number: fn(&Measures) -> f64| results.of(Case::parallel(share), all(number));
    // Without reservations, the success rate is that of all jobs.
    let wanted = SHARES.map(|at| share(at, if at == 0 { success } else { reserved_success }));
    let everyone = SHARES.map(|at| share(at, success));
    let row = |at: usize| vec![format!("{}%", SHARES[at]), wanted[at].show(1), everyone[at].show(1)];
    let table = Section::table(
        "gridsim-fig11-parallel.csv",
        "Parallel jobs of 4 CPUs whose parts all ran at the same time, in percent",
        ["reservations", "of the jobs that request a reservation (0%: of all)", "of all jobs"],
        (0..SHARES.len()).map(row),
    );
    let series = |name: &str, values: [Estimate; 3]| BarSeries::new(name, values.map(bar).to_vec());
    let bars =
        vec![series("jobs that request a reservation (0%: all)", wanted), series("all jobs", everyone)];
    let groups = SHARES.map(|share| format!("{share}%")).to_vec();
    let title = "Parallel jobs whose parts ran together";
    vec![table, picture("fig11-parallel", title, "% of jobs", groups, bars)]
}

/// Printed numbers in the table of loads.
pub(super) const PRINTED: usize = 6;

/// Growth of the wait in percent, offset in minutes and utilisation in percent, each with 10% and 20% reservations.
fn printed_numbers(results: &Results) -> [Estimate; PRINTED] {
    let [none, ten, twenty] = BY_SHARE.map(|(_, case)| case);
    let growth = |case| results.against(case, none, all(wait), percent_above);
    let offset = |case| results.of(case, all(offset));
    let used = |case| results.of(case, mean_of_sites(utilisation));
    [growth(ten), growth(twenty), offset(ten), offset(twenty), used(ten), used(twenty)]
}

/// Which of the printed numbers our results fit, by the rule for all claims.
fn fitting(ours: [Estimate; PRINTED]) -> [bool; PRINTED] {
    let (low, high) = published::UTILISATION;
    let numbers = [published::WAITING_10, published::WAITING_20, published::OFFSET_10, published::OFFSET_20];
    std::array::from_fn(|at| {
        let check = match numbers.get(at) {
            Some(&number) => Check::number("", ours[at], number),
            None => Check::range("", ours[at], low, high),
        };
        check.agreement == Agreement::Full
    })
}

/// How far the results of several loads fit the printed numbers.
pub(super) struct Fits {
    /// Most numbers that one of them fits.
    pub(super) most: usize,
    /// Longest offset among those that fit a utilisation, in minutes.
    pub(super) latest: Option<f64>,
    /// Lowest utilisation among those that fit an offset, in percent.
    pub(super) idlest: Option<f64>,
}

impl Fits {
    pub(super) fn of(results: &[Results]) -> Fits {
        let all: Vec<_> = results.iter().map(printed_numbers).map(|ours| (ours, fitting(ours))).collect();
        let most = all.iter().map(|(_, fits)| fits.iter().filter(|fits| **fits).count()).max().unwrap_or(0);
        // The indexes are those of `NUMBERS`.
        let used = all.iter().filter(|(_, fits)| fits[4] || fits[5]);
        let late = all.iter().filter(|(_, fits)| fits[2] || fits[3]);
        let latest = used.map(|(ours, _)| ours[2].mean.max(ours[3].mean)).reduce(f64::max);
        let idlest = late.map(|(ours, _)| ours[4].mean.min(ours[5].mean)).reduce(f64::min);
        Fits { most, latest, idlest }
    }
}

const NUMBERS: [&str; PRINTED] = [
    "waiting +%, 10%",
    "waiting +%, 20%",
    "offset, min, 10%",
    "offset, min, 20%",
    "utilisation %, 10%",
    "utilisation %, 20%",
];

fn published_numbers() -> [String; PRINTED] {
    let (low, high) = published::UTILISATION;
    let range = format!("{low} to {high}");
    let [wait, long_wait] = [published::WAITING_10, published::WAITING_20].map(|number| number.to_string());
    let [offset, long_offset] = [published::OFFSET_10, published::OFFSET_20].map(|number| number.to_string());
    [wait, long_wait, offset, long_offset, range.clone(), range]
}

/// Both rules of admission beside the paper.
pub(super) fn as_printed(ours: &Results, printed: &Results) -> Vec<Section> {
    let numbers = [ours, printed].map(printed_numbers);
    let mut rows: Vec<Vec<String>> = (0..PRINTED)
        .map(|at| {
            let both = numbers.iter().map(|numbers| numbers[at].show(1));
            row(NUMBERS[at], both.chain([published_numbers()[at].clone()]))
        })
        .collect();
    let more: [(&str, Number); 3] = [
        ("requests granted of those that ask, %", granted),
        ("rejections", rejections),
        ("jobs from the queue that were paused, %", paused),
    ];
    for (name, number) in more {
        for (share, case) in &BY_SHARE[1..] {
            let both = [ours, printed].map(|results| results.of(*case, all(number)).show(1));
            rows.push(row(format!("{name}, {share}"), both.into_iter().chain([String::new()])));
        }
    }
    let head = ["measure", "running jobs count too (ours)", "reservations only (as printed)", "paper"];
    let caption = "Both rules of admission, restartable jobs";
    let bars = |at: usize, title: &str, unit: &str, file: &str| {
        let both = |numbers: &[Estimate; PRINTED]| vec![bar(numbers[at]), bar(numbers[at + 1])];
        let paper =
            [[published::WAITING_10, published::WAITING_20], [published::OFFSET_10, published::OFFSET_20]];
        let paper = paper[at / 2].map(|number| Some(BarValue { value: number.value, margin: None }));
        let series = vec![
            BarSeries::new("running jobs count too (ours)", both(&numbers[0])),
            BarSeries::new("reservations only (as printed)", both(&numbers[1])),
            BarSeries { published: true, ..BarSeries::new("paper", paper.into()) },
        ];
        picture(file, title, unit, vec!["10%".into(), "20%".into()], series)
    };
    vec![
        Section::table("gridsim-algorithm1.csv", caption, head, rows),
        bars(0, "Growth of the mean wait", "% of that without reservations", "algorithm1-waiting"),
        bars(2, "Mean offset of reservations", "minutes", "algorithm1-offset"),
    ]
}

/// The printed numbers at other loads, with both rules of admission. `results` are those of
/// [`load_sets`](super::setup::load_sets).
pub(super) fn loads(results: &[Results]) -> Vec<Section> {
    let rows = load_sets().zip(results).map(|(choices, results)| {
        let numbers = printed_numbers(results);
        let fitting = fitting(numbers);
        let cell = |at: usize| format!("{}{}", numbers[at].show(0), if fitting[at] { " ✓" } else { "" });
        let mut cells = vec![admission(choices.counted).to_owned(), choices.per_hour.to_string()];
        cells.push(format!("{:.2}", choices.overload()));
        cells.extend((0..PRINTED).map(cell));
        cells.push(fitting.iter().filter(|fits| **fits).count().to_string());
        cells
    });
    let mut paper = vec!["paper".to_owned(), String::new(), String::new()];
    paper.extend(published_numbers());
    paper.push(PRINTED.to_string());
    let head = ["counted for admission", "jobs per hour", "work / capacity"].into_iter();
    let head = head.chain(NUMBERS).chain(["numbers that fit"]);
    let caption = "The printed numbers at the loads that were tried; ✓ marks those that fit";
    vec![
        Section::table("gridsim-loads.csv", caption, head, rows.chain([paper])),
        load_curves(results, 0, "Growth of the mean wait", "growth, %"),
        load_curves(results, 2, "Mean offset of reservations", "minutes"),
        load_curves(results, 4, "Utilisation while jobs arrive", "% of CPU time"),
    ]
}

fn admission(counted: Counted) -> &'static str {
    match counted {
        Counted::ReservationsAndJobs => "running jobs too (ours)",
        Counted::Reservations => "reservations only (as printed)",
    }
}

/// A measure with 10% and 20% reservations over the load, one panel for each rule of admission. `first` is its index
/// in [`NUMBERS`].
fn load_curves(results: &[Results], first: usize, title: &str, unit: &str) -> Section {
    let curve = |counted: Counted, at: usize, name: &str| {
        let of = load_sets().zip(results).filter(|(choices, _)| choices.counted == counted);
        let points = of.map(|(choices, results)| {
            point(f64::from(choices.per_hour), printed_numbers(results)[first + at])
        });
        LineSeries::new(name, points.collect())
    };
    let (low, high) = published::UTILISATION;
    // The ends of the range of the utilisation are not for one share each.
    let paper = [
        [("10%", published::WAITING_10), ("20%", published::WAITING_20)],
        [("10%", published::OFFSET_10), ("20%", published::OFFSET_20)],
        [("paper", low), ("paper", high)],
    ][first / 2];
    let panel = |counted| {
        let ours = [curve(counted, 0, "10%"), curve(counted, 1, "20%")];
        // At the printed load.
        let paper = paper.map(|(name, number): (&str, Printed)| {
            LineSeries::published(name, [(f64::from(CHOICES.per_hour), number.value)])
        });
        (admission(counted).to_owned(), [ours, paper].concat())
    };
    let common = Lines { x_log: true, ..Lines::new(title, "jobs per hour", unit, Vec::new()) };
    let multiples = Multiples::new(common, ADMISSIONS.len(), ADMISSIONS.map(panel).to_vec());
    let file = ["loads-waiting", "loads-offset", "loads-utilisation"][first / 2];
    let caption = format!(
        "{title}, {unit}, over the load; the points are the paper's numbers at the printed rate of arrivals"
    );
    Section::figure(format!("gridsim-{file}.svg"), caption, multiples.to_svg())
}

/// Results with other choices: ours first, then [`ALTERNATIVES`].
pub(super) fn choices(results: &[Results]) -> Section {
    let names = std::iter::once("ours").chain(ALTERNATIVES.iter().map(|(name, _)| *name));
    let row = |(name, results): (&str, &Results)| {
        let [none, ten, twenty] = BY_SHARE.map(|(_, case)| case);
        let long = Case::advance(20, NON_RESTARTABLE);
        let growth = |case| results.against(case, none, all(wait), percent_above).mean;
        let offset = |case| results.of(case, all(offset)).mean;
        let used = |case| results.of(case, mean_of_sites(utilisation)).mean;
        let refused = |case| results.of(case, all(rejections)).mean;
        let parallel =
            |share, number: fn(&Measures) -> f64| results.of(Case::parallel(share), all(number)).mean;
        let (free, of_ten) = (parallel(0, success), parallel(10, reserved_success));
        vec![
            name.to_owned(),
            format!("{:+.0} / {:+.0}", growth(ten), growth(twenty)),
            format!("{:.0} / {:.0} / {:.0}", offset(Case::immediate(10)), offset(ten), offset(twenty)),
            format!("{:.0} / {:.0} / {:.0}", used(none), used(twenty), used(long)),
            format!("{:.0} / {:.0} / {:.0}", refused(ten), refused(twenty), refused(long)),
            format!("{free:.1} / {of_ten:.1} / {:.1}", parallel(20, reserved_success)),
        ]
    };
    let head = [
        "choice",
        "waiting +% at 10 / 20%",
        "offset, min: 10% immediate / 10 / 20%",
        "utilisation %: 0 / 20 / 20% non-restartable",
        "rejections: 10 / 20 / 20% non-restartable",
        "parallel success %: 0 / 10 / 20%",
    ];
    let rows = names.zip(results).map(row);
    Section::table("gridsim-choices.csv", "Results with other choices", head, rows)
}
