//! `bookahead faults`: simulates many random grids with random faults, each fully determined by its seed, and checks
//! the invariants of the protocol. `--replay` shows one of them as a sequence diagram.

use crate::grid::results::{Counts, Seen};
use crate::grid::tables::{INVARIANTS, in_one_line};
use crate::grid::{self, diagram};
use crate::output::{Progress, count, plural, print_json, save_and_tell, threads};
use crate::table::Table;
use crate::trace::file_not_stdout;
use anyhow::{Result, bail};
use bookahead_protocol::Moment;
use bookahead_sim::grid::faults::{self, Outcome};
use bookahead_sim::run_all;
use clap::Args;
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Schedules per batch. Outcomes are added up after each batch, so that memory does not grow with the number of
/// schedules.
const AT_ONCE: u64 = 10_000;
/// Violations printed at most; they usually have one cause, and the first seeds are enough to replay it.
const SHOWN: usize = 20;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of fault schedules to run
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "replay")]
    schedules: u64,

    /// Seed of the first schedule; each further schedule uses the next seed
    #[arg(long, value_name = "SEED", default_value_t = 1, conflicts_with = "replay")]
    seed: u64,

    /// Number of threads; does not change the results [default: one per core]
    #[arg(long, value_name = "N", conflicts_with = "replay")]
    threads: Option<usize>,

    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Run only the schedule of this seed and print its messages as a sequence diagram in text
    #[arg(long, value_name = "SEED", help_heading = "Output")]
    replay: Option<u64>,

    /// Write the sequence diagram of the replay as SVG
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), requires = "replay", help_heading = "Output")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match arguments.replay {
        Some(seed) => replay(arguments, seed),
        None => run_schedules(arguments),
    }
}

#[derive(Default, Serialize)]
struct Results {
    schedules: u64,
    first_seed: u64,
    injected: Counts,
    reached: Counts,
    /// Schedules with at least one violation.
    violated: u64,
    violations: u64,
    shown: Vec<InSchedule>,
}

#[derive(Serialize)]
struct InSchedule {
    seed: u64,
    #[serde(flatten)]
    seen: Seen,
    #[serde(skip)]
    text: String,
}

impl Results {
    fn add(&mut self, outcome: &Outcome) {
        self.schedules += 1;
        self.injected.0.add_all(&outcome.injected);
        self.reached.0.add_all(&outcome.reached);
        self.violated += u64::from(!outcome.violations.is_empty());
        self.violations += outcome.violations.len() as u64;
        let room = SHOWN.saturating_sub(self.shown.len());
        self.shown.extend(outcome.violations.iter().take(room).map(|violation| InSchedule {
            seed: outcome.seed,
            seen: Seen::of(violation),
            text: violation.to_string(),
        }));
    }

    fn print(&self) -> Result<()> {
        let mut out = stdout().lock();
        // Cannot underflow: at least one schedule was run.
        let last = self.first_seed.wrapping_add(self.schedules - 1);
        writeln!(out, "{}, seeds {} to {last}\n", plural(self.schedules, "schedule"), self.first_seed)?;
        writeln!(out, "{}", table("injected", &self.injected))?;
        writeln!(out, "{}", table("reached", &self.reached))?;
        if self.violations == 0 {
            writeln!(out, "the invariants hold in all of them: {INVARIANTS}, and every schedule ended")?;
        }
        for shown in &self.shown {
            writeln!(out, "seed {}: {}", shown.seed, shown.text)?;
        }
        Ok(())
    }
}

impl Results {
    /// Fails if there was a violation, and names the command that replays it.
    fn verdict(&self) -> Result<()> {
        let Some(first) = self.shown.first() else { return Ok(()) };
        let (violations, schedules) =
            (plural(self.violations, "violation"), plural(self.violated, "schedule"));
        bail!("{violations} in {schedules}; replay one with 'bookahead faults --replay {}'", first.seed)
    }
}

fn table(head: &str, counts: &Counts) -> Table {
    let mut table = Table::figures(vec![head.to_owned(), String::new()]);
    counts.rows().iter().for_each(|(what, number)| table.named_row(what, [count(*number)]));
    table
}

fn run_schedules(arguments: &Arguments) -> Result<()> {
    let threads = threads(arguments.threads);
    let progress = Progress::new(arguments.schedules, "schedules", false);
    let mut results = Results { first_seed: arguments.seed, ..Results::default() };
    while results.schedules < arguments.schedules {
        let some = (arguments.schedules - results.schedules).min(AT_ONCE);
        // Any 64-bit number is a valid seed, also after the largest.
        let first = arguments.seed.wrapping_add(results.schedules);
        let seeds: Vec<u64> = (0..some).map(|at| first.wrapping_add(at)).collect();
        let outcomes = run_all(&seeds, threads, |&seed| faults::run(seed, None), || progress.add(1));
        // In the order of the seeds, whichever thread was faster, so that the same violations are shown.
        outcomes.iter().for_each(|outcome| results.add(outcome));
    }
    // The bar must be cleared before anything is printed.
    drop(progress);
    if arguments.json {
        print_json(&results)?;
    } else {
        results.print()?;
    }
    // After the results are printed: a violation is an error, but the counts are still wanted.
    results.verdict()
}

fn replay(arguments: &Arguments, seed: u64) -> Result<()> {
    let (outcome, grid) = faults::replay(seed, None);
    let sequence = diagram::sequence(&format!("fault schedule {seed}"), &grid, &(Moment(0)..=Moment::MAX));
    if let Some(path) = &arguments.svg {
        save_and_tell(path, &sequence.to_svg())?;
    }
    if arguments.json {
        let mut results = Results { first_seed: seed, ..Results::default() };
        results.add(&outcome);
        print_json(&results)?;
    } else {
        grid::print_text(&sequence.to_text())?;
        let mut out = stdout().lock();
        writeln!(out, "{}", in_one_line(&Counts(outcome.injected.clone())))?;
        writeln!(out, "{}", in_one_line(&Counts(outcome.reached.clone())))?;
        if outcome.violations.is_empty() {
            writeln!(out, "the invariants hold: {INVARIANTS}, and everything ended")?;
        }
    }
    grid::check(&outcome.violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_sim::grid::Violation;
    use bookahead_sim::grid::witness::Rule;

    #[test]
    fn violations_fail_the_command_and_only_the_first_are_shown() {
        let mut results = Results::default();
        let mut outcome = faults::run(1, None);
        results.add(&outcome);
        assert!(results.verdict().is_ok());
        let violation = Violation { rule: Rule::Once, at: Moment(1_500), what: "twice".to_owned() };
        outcome.violations = vec![violation; 7];
        for seed in 5..10 {
            outcome.seed = seed;
            results.add(&outcome);
        }
        assert_eq!((results.violated, results.violations, results.shown.len()), (5, 35, SHOWN));
        assert_eq!(results.shown[0].text, "once at 1.500: twice");
        let error = results.verdict().expect_err("it is wrong").to_string();
        assert_eq!(error, "35 violations in 5 schedules; replay one with 'bookahead faults --replay 5'");
    }
}
