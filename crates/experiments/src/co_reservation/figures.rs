//! The figures and tables of the page.

use super::claims::{KINDS, shown, with_or_without};
use super::desk::Knowledge;
use super::results::{
    BOTH, Figure, OTHER_LOADS, Part, Results, adapting, adaptive as adaptive_case, held, ours,
};
use super::runs::{Effort, HoldCase, Negotiated, NegotiationCase, Timeout};
use super::setup::{
    ALL, AT_ONCE, CHOICES, HALF, INTER_ARRIVAL, LONGEST, MACHINES, ONE_EACH, OURS, PUBLISHED_TIMEOUT, TARGET,
    WINDOWED, sets,
};
use crate::Section;
use crate::report::{point, row};
use bookahead_figure::{Join, LineSeries, Lines, Multiples};

/// Maps a value on the x axis to its case.
type At<'a> = &'a dyn Fn(Knowledge, u32) -> NegotiationCase;

pub(super) fn machines() -> Section {
    let rows = MACHINES.iter().enumerate();
    let rows = rows.map(|(at, processors)| vec![format!("machine {}", at + 1), processors.to_string()]);
    Section::table("co-reservation-machines.csv", "The machines", ["machine", "processors"], rows)
}

/// Figure 6: attempts by the share of requests that the broker sees.
pub(super) fn attempts_by_share(results: &Results) -> Vec<Section> {
    let at = |knowledge, share| ours(knowledge, share, INTER_ARRIVAL);
    let shares = results.extent.shares;
    let figure =
        panels("Reservation attempts", SHARE_LABEL, "attempts per request", results, shares, &at, ATTEMPTS);
    let caption =
        "Figure 6: reservation attempts per co-reservation request against the share that the broker sees";
    vec![drawn("fig6", caption, figure), table("fig6", caption, "seen, %", results, shares, &at, ATTEMPTS)]
}

/// Figure 7: attempts by inter-arrival time.
pub(super) fn attempts_by_load(results: &Results) -> Vec<Section> {
    let at = |knowledge, every| ours(knowledge, HALF, every);
    let every = results.extent.inter_arrivals;
    let label = "inter-arrival time, slots";
    let figure = panels("Reservation attempts", label, "attempts per request", results, every, &at, ATTEMPTS);
    let caption = "Figure 7: reservation attempts per co-reservation request against the load, half of the requests seen";
    vec![drawn("fig7", caption, figure), table("fig7", caption, label, results, every, &at, ATTEMPTS)]
}

/// Figure 8: messages by the share of requests that the broker sees.
pub(super) fn messages_by_share(results: &Results) -> Vec<Section> {
    let at = |knowledge, share| ours(knowledge, share, INTER_ARRIVAL);
    let shares = results.extent.shares;
    let figure = panels("Messages", SHARE_LABEL, "messages per sub-job", results, shares, &at, MESSAGES);
    let caption =
        "Figure 8: messages between broker and machines per sub-job against the share that the broker sees";
    vec![drawn("fig8", caption, figure), table("fig8", caption, "seen, %", results, shares, &at, MESSAGES)]
}

/// Figures 6 and 8 with the choices of the first runs.
pub(super) fn first_choices(results: &Results) -> Vec<Section> {
    let shares = results.extent.shares;
    let of =
        |set: usize| move |knowledge, share| NegotiationCase { set, ..ours(knowledge, share, INTER_ARRIVAL) };
    let windowed = "Figure 6 with a start window of 2,500 slots";
    let at_once = "Figure 8 with all parts held at once";
    vec![
        table("fig6-window", windowed, "seen, %", results, shares, &of(WINDOWED), ATTEMPTS),
        table("fig8-at-once", at_once, "seen, %", results, shares, &of(AT_ONCE), MESSAGES),
    ]
}

const SHARE_LABEL: &str = "requests that go through the evaluated broker, %";
const ATTEMPTS: Figure = Effort::attempts_each;
const MESSAGES: Figure = Effort::messages_each;

fn drawn(file: &str, caption: &str, svg: String) -> Section {
    Section::figure(format!("co-reservation-{file}.svg"), caption, svg)
}

/// A panel for successful and one for unsuccessful requests, each with and without probing.
fn panels(
    title: &str,
    x_label: &str,
    y_label: &str,
    results: &Results,
    places: &[u32],
    at: At<'_>,
    number: Figure,
) -> String {
    let series = |part: Part, knowledge: Knowledge| {
        let points = places.iter().filter_map(|&place| {
            let estimate = results.of(&at(knowledge, place), |ran| number(&part(ran)))?;
            Some(point(f64::from(place), estimate))
        });
        LineSeries::new(with_or_without(knowledge), points.collect())
    };
    let panel = |(kind, part): (&str, Part)| {
        (format!("{kind} requests"), BOTH.map(|knowledge| series(part, knowledge)).to_vec())
    };
    let common = Lines::new(title, x_label, y_label, Vec::new());
    Multiples::new(common, KINDS.len(), KINDS.map(panel).to_vec()).to_svg()
}

fn table(
    file: &str,
    caption: &str,
    first: &str,
    results: &Results,
    places: &[u32],
    at: At<'_>,
    number: Figure,
) -> Section {
    let line = |&place: &u32| {
        let cells = |of: &dyn Fn(&Negotiated) -> Option<f64>| {
            BOTH.map(|knowledge| shown(results.of(&at(knowledge, place), of)))
        };
        let numbers = KINDS.into_iter().flat_map(|(_, part)| cells(&|ran| number(&part(ran))));
        row(place.to_string(), numbers.chain(cells(&Negotiated::acceptance)))
    };
    let columns = [
        first,
        "successful, with probing",
        "successful, without",
        "unsuccessful, with probing",
        "unsuccessful, without",
        "booked, with probing",
        "booked, without",
    ];
    Section::table(format!("co-reservation-{file}.csv"), caption, columns, places.iter().map(line))
}

/// Results with other choices.
pub(super) fn choices(results: &Results) -> Section {
    let line = |(set, (name, _)): (usize, (&str, _))| {
        let mut cells = vec![name.to_owned()];
        for share in [HALF, ALL] {
            let cell = |number: &dyn Fn(&Negotiated) -> Option<f64>| {
                let of = |knowledge| {
                    let case = NegotiationCase { set, ..ours(knowledge, share, INTER_ARRIVAL) };
                    results
                        .of(&case, number)
                        .map_or_else(|| "–".into(), |estimate| format!("{:.2}", estimate.mean))
                };
                BOTH.map(of).join(" / ")
            };
            cells.extend(KINDS.map(|(_, part)| cell(&|ran| part(ran).attempts_each())));
            cells.push(cell(&|ran| ran.all().messages_each()));
            cells.push(cell(&Negotiated::acceptance));
        }
        cells
    };
    let columns = ["attempts, successful", "attempts, unsuccessful", "messages per sub-job", "booked"];
    let at = |share: u32| columns.map(|column| format!("{column}, {share}%"));
    Section::table(
        "co-reservation-choices.csv",
        "Results of other choices at an inter-arrival time of 20: with probing / without, if the broker sees half \
         of the requests and if it sees all",
        row("choice", at(HALF).into_iter().chain(at(ALL))),
        sets().enumerate().map(line),
    )
}

/// Figure 9: acceptance rate by timeout.
pub(super) fn acceptance(results: &Results) -> Vec<Section> {
    let rate = |rejecters, timeout| results.acceptance(&held(rejecters, Timeout::Fixed(timeout)));
    let extent = &results.extent;
    let series = |&rejecters: &u32| {
        let points =
            extent.timeouts.iter().map(|&timeout| point(f64::from(timeout), rate(rejecters, timeout)));
        LineSeries::new(rejecters.to_string(), points.collect())
    };
    let mut all: Vec<LineSeries> = extent.rejecters.iter().map(series).collect();
    all.push(paper_example());
    let title = "Acceptance rate by rejecters per 1,000 accepters";
    let lines = Lines::new(title, "time-out, slots", "accepters served, share", all);
    let lines = Lines { y_maximum: Some(1.0), ..lines };
    let line = |&rejecters: &u32| {
        row(rejecters.to_string(), extent.timeouts.iter().map(|&timeout| rate(rejecters, timeout).show(3)))
    };
    let caption =
        "Figure 9: the acceptance rate against the time-out of holds, by rejecters per 1,000 accepters";
    let columns = extent.timeouts.iter().map(|&timeout| slots(timeout));
    vec![
        drawn("fig9", &format!("{caption}; the point is the paper's example with 1,000"), lines.to_svg()),
        Section::table(
            "co-reservation-fig9.csv",
            caption,
            row("rejecters", columns),
            extent.rejecters.iter().map(line),
        ),
    ]
}

/// The time-out and the rate that the paper's text gives for one rejecter per accepter.
fn paper_example() -> LineSeries {
    let example = point(PUBLISHED_TIMEOUT, (f64::from(TARGET) / 1e6).into());
    LineSeries { join: Join::Points, dashed: true, ..LineSeries::new("paper", vec![example]) }
}

/// The paper's example under other loads, booking periods and start windows: a chart and a table.
pub(super) fn other_loads(results: &Results) -> Vec<Section> {
    let all: Vec<_> = sets().map(|(_, choices)| choices).collect();
    let places = || std::iter::once((OURS, INTER_ARRIVAL)).chain(OTHER_LOADS);
    let case = |(set, inter_arrival): (usize, u32), timeout| HoldCase {
        set,
        inter_arrival,
        rejecters: ONE_EACH,
        timeout: Timeout::Fixed(timeout),
    };
    let row = |place: (usize, u32)| {
        let choices = all.get(place.0).copied().unwrap_or(CHOICES);
        let cells = results.extent.timeouts.iter().map(|&timeout| {
            let case = case(place, timeout);
            let hold = results.hold(&case, |held| held.hold).mean;
            format!("{} ({hold:.0})", results.acceptance(&case).show(3))
        });
        let mut row = vec![
            format!("{:.0}", choices.book_ahead),
            choices.window.0.to_string(),
            place.1.to_string(),
            format!("{:.0}%", 100.0 * choices.load(place.1)),
        ];
        row.extend(cells);
        row.push(results.timeout_for(&case(place, LONGEST), f64::from(TARGET) / 1e6).show());
        row
    };
    let series = |place: (usize, u32)| {
        let rate = |&timeout: &u32| point(f64::from(timeout), results.acceptance(&case(place, timeout)));
        let points = results.extent.timeouts.iter().map(rate);
        LineSeries::new(place.1.to_string(), points.collect())
    };
    let ours = places().filter(|(set, _)| *set == OURS).map(series).chain([paper_example()]);
    let lines =
        Lines::new("One rejecter per accepter", "time-out, slots", "accepters served, share", ours.collect());
    let lines = Lines { y_maximum: Some(1.0), ..lines };
    let columns = results.extent.timeouts.iter().map(|&timeout| slots(timeout));
    let head = ["booked ahead", "start window", "inter-arrival", "wanted by accepters"].map(str::to_owned);
    let head = head.into_iter().chain(columns).chain(["time-out for 0.8".to_owned()]);
    let chart = "The acceptance rate with one rejecter per accepter, by inter-arrival time; the point is the paper's example";
    let caption = "The acceptance rate with one rejecter per accepter under other loads, advance booking periods and start \
                   windows; in brackets the mean hold of rejecters in slots";
    vec![
        drawn("timeout", chart, lines.to_svg()),
        Section::table("co-reservation-timeout.csv", caption, head, places().map(row)),
    ]
}

/// The smallest and the largest difference between the rates that adaptive sites reach and their targets.
pub(super) fn above_targets(results: &Results) -> (f64, f64) {
    let cases = adapting(&results.extent).into_iter().flat_map(|(set, rejecters)| {
        let targets = results.extent.targets.iter();
        targets.map(move |&target| (target, adaptive_case(set, rejecters, Timeout::Adaptive(target))))
    });
    let above = cases.map(|(target, case)| results.acceptance(&case).mean - f64::from(target) / 1e6);
    above.fold((f64::MAX, f64::MIN), |(least, most), above| (least.min(above), most.max(above)))
}

pub(super) fn adaptive(results: &Results) -> Section {
    let mut rows = Vec::new();
    for (set, rejecters) in adapting(&results.extent) {
        for &target in results.extent.targets {
            let case = adaptive_case(set, rejecters, Timeout::Adaptive(target));
            rows.push(adaptive_row(results, &case, f64::from(target) / 1e6));
        }
    }
    let columns = [
        "reported beside a slot",
        "rejecters",
        "target",
        "reached",
        "mean hold",
        "best fixed",
        "1 slot",
        "longest",
        "holds granted of those requested, %",
        "never confirmed per 1,000 committed",
    ];
    let caption = format!(
        "Sites that adapt their holds to a target, compared with fixed time-outs: the rate reached, the mean hold in slots, \
         the longest fixed time-out of the runs that meets the target and its rate, the rates at 1 and at {LONGEST} slots, \
         and the observations of the sites"
    );
    Section::table("co-reservation-adaptive.csv", caption, columns, rows)
}

fn adaptive_row(results: &Results, case: &HoldCase, target: f64) -> Vec<String> {
    let fixed = |timeout| results.acceptance(&HoldCase { timeout: Timeout::Fixed(timeout), ..*case });
    let keeping = |timeout: &u32| fixed(*timeout).mean >= target;
    // From the longest down: a site wants to hold as long as its target allows, to leave time to negotiate.
    let best = results.timeouts(case).into_iter().rev().find(keeping);
    let best = best.map_or_else(|| "none".into(), |timeout| format!("{timeout}: {}", fixed(timeout).show(3)));
    let told = if case.set == OURS { "nothing" } else { "free capacity" };
    vec![
        told.into(),
        case.rejecters.to_string(),
        target.to_string(),
        results.acceptance(case).show(3),
        results.hold(case, |held| held.hold).show(0),
        best,
        fixed(1).show(3),
        fixed(LONGEST).show(3),
        results.hold(case, |held| 100.0 * held.granted).show(0),
        results.hold(case, |held| 1_000.0 * held.evaporated).show(0),
    ]
}

fn slots(count: u32) -> String {
    if count == 1 { "1 slot".into() } else { format!("{count} slots") }
}
