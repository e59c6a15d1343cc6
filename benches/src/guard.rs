//! Compares the ratios that a bench measures with the committed ones in `ratios.txt`. A ratio says how many times as fast
//! as a baseline ours is. Both are measured in the same run, so ratios of different machines are comparable, and times are
//! not. A ratio that is 15 % below the committed one or worse fails, after further attempts, because the machine may be shared.

use crate::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{ExitCode, Termination};
use std::time::Instant;

/// Largest accepted loss. Smaller ones cannot be told from noise in one run.
const MOST_LOST: f64 = 0.15;
/// How often a bench runs while a ratio is worse; the best ratio counts. Other load slows a run, and never makes it faster.
const ATTEMPTS: usize = 3;
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ratios.txt");
const HEADER: &str = "\
# How many times as fast as a baseline in the same run; written by
# BOOKAHEAD_UPDATE=1 cargo bench --bench guard
";
/// Value of `BOOKAHEAD_UPDATE` that keeps the lower of the committed and the measured ratio of each row: for a machine whose
/// caches or page faults favour the baselines.
const LOWER: &str = "lower";
const UPDATE: &str = "BOOKAHEAD_UPDATE=1 cargo bench --bench guard";

/// Ratios by row. A row is named `bench/what`.
type Ratios = BTreeMap<String, f64>;

/// What a bench has measured in one attempt.
#[derive(Default)]
pub struct Guard {
    measured: Ratios,
    /// Beginnings of rows that could not be measured here, and why.
    not_run: Vec<(String, String)>,
    /// Rows to measure again. `None` in the first attempt, which measures all.
    again: Option<Vec<String>>,
}

impl Guard {
    /// Records nanoseconds, or other figures of which less is better.
    pub fn times(&mut self, row: impl Into<String>, ours: f64, baseline: f64) {
        self.measured.insert(row.into(), baseline / ours);
    }

    /// Records operations per second, or other figures of which more is better.
    pub fn rates(&mut self, row: impl Into<String>, ours: f64, baseline: f64) {
        self.measured.insert(row.into(), ours / baseline);
    }

    /// Says that rows with this beginning cannot be measured here. They are then not compared.
    pub fn not_run(&mut self, rows: &str, why: &str) {
        self.not_run.push((rows.to_owned(), why.to_owned()));
    }

    /// Whether rows with this beginning are to be measured: all at first, then those that were worse.
    pub fn wants(&self, rows: &str) -> bool {
        self.again.as_ref().is_none_or(|again| again.iter().any(|row| row.starts_with(rows)))
    }
}

/// How a row compares.
#[derive(Debug, PartialEq)]
enum Finding {
    Fine {
        ratio: f64,
        committed: f64,
    },
    Worse {
        ratio: f64,
        committed: f64,
    },
    /// Measured, and no ratio is committed.
    Unknown(f64),
    /// A ratio is committed, and the bench has no such row.
    Missing(f64),
    /// Could not be measured here, for this reason.
    NotRun(f64, String),
}

/// Compares the rows of one bench.
fn compare(committed: &Ratios, measured: &Ratios, not_run: &[(String, String)]) -> BTreeMap<String, Finding> {
    let measured_rows = measured.iter().map(|(row, &ratio)| {
        let finding = match committed.get(row) {
            Some(&committed) if ratio > committed * (1.0 - MOST_LOST) => Finding::Fine { ratio, committed },
            Some(&committed) => Finding::Worse { ratio, committed },
            None => Finding::Unknown(ratio),
        };
        (row.clone(), finding)
    });
    let rest = committed.iter().filter(|(row, _)| !measured.contains_key(*row)).map(|(row, &committed)| {
        let why = not_run.iter().find(|(rows, _)| row.starts_with(rows));
        let missing = Finding::Missing(committed);
        (row.clone(), why.map_or(missing, |(_, why)| Finding::NotRun(committed, why.clone())))
    });
    measured_rows.chain(rest).collect()
}

impl Finding {
    /// What is wrong. `None` if nothing is.
    fn fault(&self) -> Option<String> {
        match self {
            Finding::Fine { .. } | Finding::NotRun(..) => None,
            Finding::Worse { ratio, committed } => Some(format!(
                "{} instead of {}, {:.0} % worse",
                short(*ratio),
                short(*committed),
                (1.0 - ratio / committed) * 100.0
            )),
            Finding::Unknown(ratio) => {
                Some(format!("{}, and no ratio is committed; run {UPDATE}", short(*ratio)))
            }
            Finding::Missing(_) => Some(format!("committed, but not measured any more; run {UPDATE}")),
        }
    }

    fn print(&self, row: &str) {
        let [ratio, committed, change] = match self {
            Finding::Fine { ratio, committed } | Finding::Worse { ratio, committed } => {
                let change = format!("{:+.0} %", (ratio / committed - 1.0) * 100.0);
                [short(*ratio), short(*committed), change]
            }
            Finding::Unknown(ratio) => [short(*ratio), "none".to_owned(), String::new()],
            Finding::Missing(committed) => ["none".to_owned(), short(*committed), String::new()],
            Finding::NotRun(committed, why) => ["not run".to_owned(), short(*committed), format!("({why})")],
        };
        println!("{ratio:>10} {committed:>10} {change:>7}  {row}");
    }
}

/// Three digits, as in the file.
fn short(ratio: f64) -> String {
    let digits = (2.0 - ratio.abs().max(f64::MIN_POSITIVE).log10().floor()).clamp(0.0, 6.0);
    format!("{ratio:.*}", digits as usize)
}

/// What failed in a run. It is named when `main` returns it.
#[derive(Default)]
pub struct Report(Vec<String>);

/// The main function of a bench.
type Bench = fn() -> Report;

impl Report {
    /// Runs several benches, or those that the command line names, and names at the end what failed in any of them.
    pub fn of_all(benches: &[(&str, Bench)]) -> Report {
        let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        let unknown = wanted.iter().filter(|word| benches.iter().all(|(name, _)| name != word));
        let mut failed: Vec<String> = unknown.map(|word| format!("unknown bench '{word}'")).collect();
        let began = Instant::now();
        for (name, bench) in benches {
            if wanted.is_empty() || wanted.iter().any(|word| word == name) {
                failed.extend(bench().0);
            }
        }
        println!("\nthe benches took {} s", began.elapsed().as_secs());
        Report(failed)
    }
}

impl Termination for Report {
    fn report(self) -> ExitCode {
        for failed in &self.0 {
            eprintln!("failed: {failed}");
        }
        if self.0.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs a bench, prints its ratios beside the committed ones, or commits them if `BOOKAHEAD_UPDATE` is set.
pub fn guard(name: &str, bench: impl Fn(&mut Guard) -> Outcome<()>) -> Report {
    println!("\n== {name}\n");
    let outcome = match std::env::var_os("BOOKAHEAD_UPDATE") {
        Some(how) => update(Path::new(COMMITTED), name, how == LOWER, bench),
        None => check(Path::new(COMMITTED), name, bench),
    };
    Report(outcome.unwrap_or_else(|why| vec![format!("{name}: {why}")]))
}

fn check(file: &Path, name: &str, bench: impl Fn(&mut Guard) -> Outcome<()>) -> Outcome<Vec<String>> {
    let mut committed = read(file)?;
    committed.retain(|row, _| is_of(row, name));
    let mut best = Ratios::new();
    let mut again = None;
    for attempt in 1.. {
        let began = Instant::now();
        let mut guard = Guard { again: again.take(), ..Guard::default() };
        bench(&mut guard)?;
        let (measured, not_run) = named(name, guard);
        for (row, ratio) in measured {
            let best = best.entry(row).or_insert(ratio);
            *best = best.max(ratio);
        }
        let findings = compare(&committed, &best, &not_run);
        println!("\n{:>10} {:>10}   ({} s)", "ratio", "committed", began.elapsed().as_secs());
        findings.iter().for_each(|(row, finding)| finding.print(row));
        let worse = findings.iter().filter(|(_, finding)| matches!(finding, Finding::Worse { .. }));
        let worse: Vec<String> = worse.map(|(row, _)| row[name.len() + 1..].to_owned()).collect();
        if worse.is_empty() || attempt == ATTEMPTS {
            let faults =
                findings.iter().filter_map(|(row, finding)| Some(format!("{row}: {}", finding.fault()?)));
            return Ok(faults.collect());
        }
        println!("\n{} rows are worse; {name} runs again\n", worse.len());
        again = Some(worse);
    }
    Ok(Vec::new())
}

/// Replaces the rows of a bench, or only those that are lower here. Those that could not be measured stay.
fn update(
    file: &Path,
    name: &str,
    lower: bool,
    bench: impl Fn(&mut Guard) -> Outcome<()>,
) -> Outcome<Vec<String>> {
    let mut guard = Guard::default();
    bench(&mut guard)?;
    let (mut measured, not_run) = named(name, guard);
    // Once more, because a baseline that other load slowed would be too good a ratio for all later runs.
    let mut guard = Guard::default();
    bench(&mut guard)?;
    for (row, again) in named(name, guard).0 {
        measured.entry(row).and_modify(|ratio| *ratio = ratio.min(again)).or_insert(again);
    }
    let mut committed = read(file)?;
    if lower {
        for (row, ratio) in &mut measured {
            *ratio = committed.get(row).map_or(*ratio, |&committed| ratio.min(committed));
        }
    }
    committed.retain(|row, _| !is_of(row, name) || not_run.iter().any(|(rows, _)| row.starts_with(rows)));
    println!();
    for (row, ratio) in &measured {
        println!("{:>10}  {row}", short(*ratio));
    }
    committed.extend(measured);
    let mut text = HEADER.to_owned();
    for (row, ratio) in committed {
        writeln!(text, "{row} = {}", short(ratio))?;
    }
    std::fs::write(file, text)?;
    Ok(Vec::new())
}

/// The rows of an attempt, with the name of the bench.
fn named(name: &str, guard: Guard) -> (Ratios, Vec<(String, String)>) {
    let named = |row: String| format!("{name}/{row}");
    let not_run = guard.not_run.into_iter().map(|(rows, why)| (named(rows), why)).collect();
    (guard.measured.into_iter().map(|(row, ratio)| (named(row), ratio)).collect(), not_run)
}

fn is_of(row: &str, bench: &str) -> bool {
    row.split_once('/').is_some_and(|(of, _)| of == bench)
}

fn read(file: &Path) -> Outcome<Ratios> {
    if !file.exists() {
        return Ok(Ratios::new());
    }
    parse(&std::fs::read_to_string(file)?)
}

fn parse(text: &str) -> Outcome<Ratios> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let (row, ratio) = line.split_once(" = ").ok_or_else(|| format!("no `row = ratio`: {line}"))?;
        let ratio: f64 = ratio.parse().map_err(|_| format!("no number: {line}"))?;
        Ok((row.to_owned(), ratio))
    };
    lines.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn ratios(rows: &[(&str, f64)]) -> Ratios {
        rows.iter().map(|&(row, ratio)| (row.to_owned(), ratio)).collect()
    }

    /// Compares one row with a committed ratio of 10.
    fn fault(ratio: f64) -> Option<String> {
        compare(&ratios(&[("b/row", 10.0)]), &ratios(&[("b/row", ratio)]), &[])["b/row"].fault()
    }

    #[test]
    fn fifteen_percent_worse_fails_and_better_passes() {
        assert_eq!([fault(100.0), fault(10.0), fault(8.6)], [None, None, None]);
        assert_eq!(fault(8.5).as_deref(), Some("8.50 instead of 10.0, 15 % worse"));
        assert_eq!(fault(5.0).as_deref(), Some("5.00 instead of 10.0, 50 % worse"));
        assert!(fault(f64::NAN).is_some(), "what is not a number is not fine");
    }

    #[test]
    fn missing_and_unknown_rows_are_named_and_rows_that_cannot_run_are_not() {
        let committed = ratios(&[("b/gone", 1.0), ("b/log, one", 2.0), ("b/log, two", 2.0)]);
        let not_run = [("b/log".to_owned(), "no log".to_owned())];
        let found = compare(&committed, &ratios(&[("b/new", 3.0)]), &not_run);
        assert_eq!(found["b/gone"], Finding::Missing(1.0));
        assert_eq!(found["b/new"], Finding::Unknown(3.0));
        assert_eq!(found["b/log, two"], Finding::NotRun(2.0, "no log".into()));
        let faults: Vec<&str> =
            found.iter().filter(|(_, found)| found.fault().is_some()).map(|(row, _)| &**row).collect();
        assert_eq!(faults, ["b/gone", "b/new"]);
    }

    #[test]
    fn a_worse_row_is_measured_again_and_the_best_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ratios.txt");
        std::fs::write(&file, "# x\n\nb/fast = 10.0\nb/slow = 10.0\nother/row = 1.0\n").unwrap();
        let attempts = Cell::new(0);
        let bench = |slow: [f64; 3]| {
            let attempts = &attempts;
            attempts.set(0);
            move |guard: &mut Guard| {
                let attempt = attempts.replace(attempts.get() + 1);
                if guard.wants("fast") {
                    assert_eq!(attempt, 0, "a row that is fine is not measured again");
                    guard.rates("fast", 10.0, 1.0);
                }
                guard.times("slow", 1.0, slow[attempt]);
                Ok(())
            }
        };
        assert_eq!(check(&file, "b", bench([2.0, 9.0, 0.0])).unwrap(), [""; 0]);
        assert_eq!(attempts.get(), 2);
        let failed = check(&file, "b", bench([2.0, 4.0, 3.0])).unwrap();
        assert_eq!(failed, ["b/slow: 4.00 instead of 10.0, 60 % worse"]);
        assert_eq!(attempts.get(), 3);
        let broken = |_: &mut Guard| Err("no disk".into());
        assert_eq!(check(&file, "b", broken).unwrap_err().to_string(), "no disk");
    }

    #[test]
    fn an_update_replaces_the_rows_of_its_bench_that_can_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ratios.txt");
        std::fs::write(&file, "b/gone = 1\nb/log, one = 2\nbb/row = 3\n").unwrap();
        let attempts = Cell::new(0);
        let bench = |guard: &mut Guard| {
            guard.not_run("log", "no log");
            // The worse of two counts.
            guard.rates("small", f64::from(attempts.replace(attempts.get() + 1) + 1), 81.0);
            guard.rates("large", 123_456.0, 1.0);
            Ok(())
        };
        assert_eq!(update(&file, "b", false, bench).unwrap(), [""; 0]);
        let text = std::fs::read_to_string(&file).unwrap();
        let rows = text.strip_prefix(HEADER).unwrap();
        assert_eq!(rows, "b/large = 123456\nb/log, one = 2.00\nb/small = 0.0123\nbb/row = 3.00\n");
        let elsewhere = |guard: &mut Guard| {
            guard.rates("small", 1.0, 1.0);
            guard.rates("large", 1_000.0, 1.0);
            Ok(())
        };
        assert_eq!(update(&file, "b", true, elsewhere).unwrap(), [""; 0]);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.strip_prefix(HEADER).unwrap(), "b/large = 1000\nb/small = 0.0123\nbb/row = 3.00\n");
        assert!(parse("b/row: 1").is_err() && parse("b/row = fast").is_err());
    }
}
