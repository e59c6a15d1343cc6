//! What was run, how often and how long, by the name of the program, so that the time spent in commands of the batch
//! system can be told. Nothing is ever forgotten, so the number of names is bounded.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// So many programs are told apart; no batch system has more commands.
pub const MOST_PROGRAMS: usize = 64;

/// What the programs beyond [`MOST_PROGRAMS`] are counted as, together.
pub const OTHER_PROGRAMS: &str = "other";

/// What was run until now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// By the name of the program, without its folder.
    pub programs: BTreeMap<String, ProgramUsage>,
}

/// What was run of one program. Commands that were not even tried, since the batch system is silent, are not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramUsage {
    /// How often it was run, or could not be.
    pub runs: u64,
    /// How many of these did not end with exit code 0, whatever the reason.
    pub failures: u64,
    /// How many of these took too long and were ended.
    pub time_outs: u64,
    /// How long all of them took together. Waiting for others to end is not in it.
    pub spent: Duration,
    /// How long the longest took.
    pub longest: Duration,
}

/// How a run ended, as far as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    Well,
    Wrong,
    TimedOut,
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Usage>);

impl Usage {
    /// All programs together.
    pub fn total(&self) -> ProgramUsage {
        self.programs.values().fold(ProgramUsage::default(), |sum, one| ProgramUsage {
            runs: sum.runs.saturating_add(one.runs),
            failures: sum.failures.saturating_add(one.failures),
            time_outs: sum.time_outs.saturating_add(one.time_outs),
            spent: sum.spent.saturating_add(one.spent),
            longest: sum.longest.max(one.longest),
        })
    }

    fn count(&mut self, program: &str, took: Duration, went: Went) {
        let name = program.rsplit('/').next().unwrap_or(program);
        let is_new = !self.programs.contains_key(name);
        let name = if is_new && self.programs.len() >= MOST_PROGRAMS { OTHER_PROGRAMS } else { name };
        let usage = self.programs.entry(name.to_owned()).or_default();
        usage.runs = usage.runs.saturating_add(1);
        usage.failures = usage.failures.saturating_add(u64::from(went != Went::Well));
        usage.time_outs = usage.time_outs.saturating_add(u64::from(went == Went::TimedOut));
        usage.spent = usage.spent.saturating_add(took);
        usage.longest = usage.longest.max(took);
    }
}

impl Counters {
    pub(super) fn count(&self, program: &str, took: Duration, went: Went) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(program, took, went);
    }

    pub(super) fn usage(&self) -> Usage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_PROGRAMS, OTHER_PROGRAMS, ProgramUsage, Usage, Went};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn runs_are_counted_by_the_name_of_the_program_without_its_folder() {
        let mut usage = Usage::default();
        usage.count("/opt/slurm/bin/squeue", SECOND, Went::Well);
        usage.count("squeue", 3 * SECOND, Went::TimedOut);
        usage.count("sbatch", 2 * SECOND, Went::Wrong);
        let squeue =
            ProgramUsage { runs: 2, failures: 1, time_outs: 1, spent: 4 * SECOND, longest: 3 * SECOND };
        let sbatch =
            ProgramUsage { runs: 1, failures: 1, time_outs: 0, spent: 2 * SECOND, longest: 2 * SECOND };
        assert_eq!(usage.programs, [("squeue".into(), squeue), ("sbatch".into(), sbatch)].into());
        let total =
            ProgramUsage { runs: 3, failures: 2, time_outs: 1, spent: 6 * SECOND, longest: 3 * SECOND };
        assert_eq!(usage.total(), total);
    }

    #[test]
    fn the_number_of_names_is_bounded_and_no_run_is_lost() {
        let mut usage = Usage::default();
        for number in 0..1_000 {
            usage.count(&format!("/bin/program-{number}"), Duration::MAX, Went::Well);
        }
        usage.count("/bin/program-0", SECOND, Went::Well);
        assert_eq!(usage.programs.len(), MOST_PROGRAMS + 1);
        assert_eq!(usage.programs["program-0"].runs, 2);
        assert_eq!(usage.programs[OTHER_PROGRAMS].runs, 1_000 - MOST_PROGRAMS as u64);
        assert_eq!(usage.total().runs, 1_001);
    }
}
