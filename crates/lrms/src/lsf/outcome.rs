//! What became of a job that is shown no more: `bjobs` with its number while LSF has it in memory, then `bhist`, which reads all
//! event logs (`-n 0`) and prints each event on a line (`-UF`).

use super::jobs::{self, ended};
use super::times::{Lies, stamp};
use crate::batch::{FactState, JobFact};
use crate::dialect::Tools;
use crate::error::LrmsError;
use bookahead_plan::Time;
use std::collections::BTreeMap;

/// How a job stands; None where nothing is known of it.
pub(super) fn outcome(tools: &Tools, native: &str) -> Result<Option<JobFact>, LrmsError> {
    let clock = tools.clock()?;
    if let Some(job) = jobs::one(tools, native, clock)? {
        return Ok(Some(job));
    }
    let command = tools.command("bhist").args(["-n", "0", "-UF", native]);
    let outcome = tools.run(&command)?;
    Ok(if outcome.is_success() { read(&outcome.out, native, clock) } else { None })
}

/// What its events say, the last of them first.
fn read(text: &str, native: &str, clock: Time) -> Option<JobFact> {
    let within = |name: &str| {
        let (_, behind) = text.split_once(&format!("{name} <"))?;
        behind.split_once('>').map(|(value, _)| value.to_owned())
    };
    let events: Vec<(Time, &str)> = text.lines().filter_map(|line| event(line, clock)).collect();
    let of = |words: &[&str]| {
        let found = events.iter().rev().find(|(_, said)| words.iter().any(|word| said.contains(word)));
        found.copied()
    };
    let started = of(&["Starting (Pid", "Started ", "Dispatched "]).map(|(time, _)| time);
    let (end, said) = of(&["Done successfully", "Exited", "TERM_"])?;
    let submitted = of(&["Submitted from"]).map(|(time, _)| time);
    Some(JobFact {
        native: native.into(),
        name: within("Job Name").unwrap_or_default(),
        account: within("User").unwrap_or_default(),
        resources: Vec::new(),
        state: state(&events, said, started.is_some()),
        cores: 1,
        nodes: 1,
        placed: BTreeMap::new(),
        submitted: submitted.or(started).unwrap_or(end),
        started,
        ended: Some(end),
        limit: None,
        reservations: Vec::new(),
        expected_start: None,
        awaits_go: false,
    })
}

/// `Tue Jun  6 21:47:58 [2026]: what happened`
fn event(line: &str, clock: Time) -> Option<(Time, &str)> {
    let (time, said) = line.split_once(": ")?;
    Some((stamp(time.trim(), clock, Lies::Behind)?, said))
}

fn state(events: &[(Time, &str)], said: &str, began: bool) -> FactState {
    if said.contains("Done successfully") {
        return FactState::Done { exit: 0 };
    }
    let asked_to_end = events.iter().any(|(_, said)| said.contains("requested by user or administrator"));
    let reason = events.iter().rev().find_map(|(_, said)| said.find("TERM_").map(|at| &said[at..]));
    let code = number_behind(said, "exit code ");
    match (reason, number_behind(said, "by signal ")) {
        (Some(reason), _) => ended(reason, code, began),
        (None, Some(_)) if asked_to_end => FactState::Cancelled,
        (None, signal) => ended("", code.or(signal.map(|signal: i32| signal.saturating_add(128))), began),
    }
}

fn number_behind(text: &str, words: &str) -> Option<i32> {
    let (_, behind) = text.split_once(words)?;
    behind.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_794_700_000);
    const HEAD: &str = "\
Job <1>, Job Name <job_7>, User <ann>, Project <default>, Command <x>
Sat Nov 14 10:00:00 2026: Submitted from host <hostA>, to Queue <normal>, CWD </home/ann>;
Sat Nov 14 10:00:05 2026: Dispatched 1 Task(s) on Host(s) <hostA>;
Sat Nov 14 10:00:05 2026: Starting (Pid 12);
";

    fn read_with(last: &str) -> Option<JobFact> {
        read(&format!("{HEAD}{last}\n\nSummary of time in seconds spent in various states\n"), "1", NOW)
    }

    #[test]
    fn the_end_of_a_job_is_read_from_its_events() {
        let done =
            read_with("Sat Nov 14 10:01:00 2026: Done successfully. The CPU time used is 0.1 seconds;")
                .unwrap();
        assert_eq!(
            (done.name.as_str(), done.account.as_str(), &done.state),
            ("job_7", "ann", &FactState::Done { exit: 0 })
        );
        assert_eq!((done.ended.unwrap() - done.started.unwrap()).0, 55);
        let failed =
            read_with("Sat Nov 14 10:01:00 2026: Exited with exit code 3. The CPU time used is 1 seconds;");
        assert_eq!(failed.unwrap().state, FactState::Done { exit: 3 });
        let killed = read_with(
            "Sat Nov 14 10:01:00 2026: Exited; TERM_RUNLIMIT: job killed after reaching LSF run time limit;",
        );
        assert_eq!(killed.unwrap().state, FactState::OutOfTime);
    }

    #[test]
    fn a_signal_that_somebody_asked_for_is_a_cancellation() {
        let signal = "Sat Nov 14 10:01:00 2026: Exited by signal 2. The CPU time used is 0.1 seconds;";
        assert_eq!(read_with(signal).unwrap().state, FactState::Done { exit: 130 });
        let asked = "Sat Nov 14 10:00:59 2026: Signal <KILL> requested by user or administrator <ann>;";
        assert_eq!(read_with(&format!("{asked}\n{signal}")).unwrap().state, FactState::Cancelled);
    }

    #[test]
    fn a_job_that_is_not_over_or_not_told_of_has_no_outcome() {
        assert_eq!(read(HEAD, "1", NOW), None);
        assert_eq!(read("No matching job found", "1", NOW), None);
        assert_eq!(read("", "1", NOW), None);
    }
}
