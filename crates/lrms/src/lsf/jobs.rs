//! Jobs from `bjobs -o … -json`. It is assumed to print waiting jobs in scheduling order. It shows finished jobs for
//! about an hour (`CLEAN_PERIOD`).

use super::nodes::Members;
use super::times::{Lies, stamp};
use super::{Record, records};
use crate::batch::{FactState, Handle, JobFact, Place, Reserved, Unreadable, add_cores, count, total};
use crate::dialect::{Tools, resources_in, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Fields of the query (bjobs -o, table of fields).
const FIELDS: &str = "jobid jobindex stat user queue job_name rsvid nreq_slot min_req_proc nalloc_slot alloc_slot \
    exec_host nexec_host submit_time start_time finish_time estimated_start_time specified_start_time runtimelimit dependency \
    pend_reason exit_code exit_reason job_description";

/// The description of a job that waits for a go-ahead.
pub(super) const CLAIMS: &str = "bookahead claims";

/// Messages of `bjobs` if there are no jobs.
const NOTHING: [&str; 4] =
    ["No job found", "No unfinished job found", "No matching job found", "is not found"];

pub(super) struct Job {
    queue: String,
    pub(super) fact: JobFact,
}

/// All jobs, and the unreadable ones.
pub(super) fn all(tools: &Tools, clock: Time) -> Result<(Vec<Job>, Vec<Unreadable>), LrmsError> {
    read(tools, &["-u", "all", "-a"], None, clock)
}

/// One job, if it is still shown.
pub(super) fn one(tools: &Tools, native: &str, clock: Time) -> Result<Option<JobFact>, LrmsError> {
    let (mut jobs, odd) = read(tools, &[], Some(native), clock)?;
    match (jobs.pop(), odd.first()) {
        (None, Some(odd)) => {
            Err(unreadable(&tools.command("bjobs").arg(native), format!("{odd} cannot be parsed")))
        }
        (job, _) => Ok(job.map(|job| job.fact)),
    }
}

fn read(
    tools: &Tools,
    which: &[&str],
    native: Option<&str>,
    clock: Time,
) -> Result<(Vec<Job>, Vec<Unreadable>), LrmsError> {
    let command = tools.command("bjobs").args(which.iter().copied()).args(["-X", "-o", FIELDS, "-json"]);
    let command = command.args(native);
    let (records, odd) = records(tools, &command, &NOTHING)?;
    let (mut jobs, mut odd) = (Vec::new(), Unreadable::jobs(odd).collect::<Vec<_>>());
    for record in records.iter().filter(|record| record.get("ERROR").is_empty()) {
        match job(record, clock) {
            Some(job) => jobs.push(job),
            None => odd.push(Unreadable::Job(record.get("JOBID").into())),
        }
    }
    Ok((jobs, odd))
}

/// None if it has no number, state or submission time.
fn job(record: &Record, clock: Time) -> Option<Job> {
    let id = record.get("JOBID");
    if id.is_empty() || record.get("STAT").is_empty() {
        return None;
    }
    let placed = placed(record);
    let on_hosts = total(&placed);
    let wanted = record.number("NREQ_SLOT").or_else(|| record.number("MIN_REQ_PROC")).unwrap_or(1);
    let past = |name: &str| stamp(record.get(name), clock, Lies::Behind);
    let (started, state) = (past("START_TIME"), state(record, clock));
    let hosts = count(placed.len());
    let reservation = Some(record.get("RSVID")).filter(|id| !id.is_empty());
    let fact = JobFact {
        name: record.get("JOB_NAME").into(),
        account: record.get("USER").into(),
        cores: if on_hosts > 0 { on_hosts } else { record.number("NALLOC_SLOT").unwrap_or(wanted) },
        nodes: record.number("NEXEC_HOST").unwrap_or(1).max(hosts).max(1),
        placed,
        submitted: past("SUBMIT_TIME")?,
        started,
        // For a running job it is the time of its limit.
        ended: past("FINISH_TIME").filter(|_| state.is_over()),
        limit: limit(record.get("RUNTIMELIMIT")),
        reservations: reservation.map(|id| Handle(id.into())).into_iter().collect(),
        expected_start: stamp(record.get("ESTIMATED_START_TIME"), clock, Lies::Ahead)
            .filter(|_| matches!(state, FactState::Waiting)),
        awaits_go: record.get("JOB_DESCRIPTION") == CLAIMS,
        state,
        ..JobFact::new(native(id, record))
    };
    Some(Job { queue: record.get("QUEUE").into(), fact })
}

/// An element of an array is `id[index]` for every command.
fn native(id: &str, record: &Record) -> String {
    match record.number::<u64>("JOBINDEX") {
        Some(index) if index > 0 && !id.contains('[') => format!("{id}[{index}]"),
        _ => id.into(),
    }
}

/// Slots on each host: `hostA:hostA:hostB`, or `2*hostA:hostB` with `LSB_SHORT_HOSTLIST`.
fn placed(record: &Record) -> BTreeMap<String, u32> {
    let hosts = Some(record.get("ALLOC_SLOT")).filter(|hosts| !hosts.is_empty());
    let hosts = hosts.unwrap_or_else(|| record.get("EXEC_HOST"));
    let mut placed = BTreeMap::new();
    for part in hosts.split(':').filter(|part| !part.is_empty()) {
        let counted = part.split_once('*').and_then(|(count, host)| Some((count.parse().ok()?, host)));
        let (count, host): (u32, &str) = counted.unwrap_or((1, part));
        add_cores(&mut placed, host, count);
    }
    placed
}

/// Minutes with a fraction, perhaps followed by `/host`; or `hh:mm:ss`, depending on the cluster.
fn limit(text: &str) -> Option<Seconds> {
    let text = text.split('/').next().unwrap_or_default();
    if text.contains(':') {
        return crate::dialect::calendar::length_of_time(text).map(Seconds);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let minutes: i64 = whole.parse().ok().filter(|minutes| *minutes >= 0)?;
    let tenths =
        fraction.bytes().next().filter(u8::is_ascii_digit).map_or(0, |digit| i64::from(digit - b'0'));
    Some(Seconds(minutes.saturating_mul(60).saturating_add(tenths * 6)))
}

fn state(record: &Record, clock: Time) -> FactState {
    let later =
        stamp(record.get("SPECIFIED_START_TIME"), clock, Lies::Ahead).is_some_and(|start| start > clock);
    let (reason, held) =
        (record.get("PEND_REASON"), |why: &str| FactState::Held { why: why.into(), orphaned: false });
    match record.get("STAT") {
        "PEND" | "WAIT" if !record.get("DEPENDENCY").is_empty() && reason.contains("depend") => held(reason),
        "PEND" | "WAIT" if later => held("its time has not come"),
        "PEND" | "WAIT" => FactState::Waiting,
        "PSUSP" => held("it was suspended before it began"),
        // A job suspended after its start keeps its slots; UNKWN means that its host does not answer.
        "RUN" | "SSUSP" | "USUSP" | "UNKWN" | "PROV" => FactState::Running,
        "DONE" => FactState::Done { exit: 0 },
        "EXIT" => {
            ended(record.get("EXIT_REASON"), record.number("EXIT_CODE"), !record.get("START_TIME").is_empty())
        }
        "ZOMBI" => FactState::Failed { why: "its host was lost while it ran".into() },
        other => held(&format!("its state in LSF is {other}")),
    }
}

/// The result of an unsuccessful job (termination reasons of bjobs and bacct).
pub(super) fn ended(reason: &str, code: Option<i32>, began: bool) -> FactState {
    let word = reason.split([':', ' ', ';']).next().unwrap_or_default();
    match word {
        "TERM_RUNLIMIT" | "TERM_DEADLINE" | "TERM_WINDOW" => FactState::OutOfTime,
        "TERM_OWNER" | "TERM_FORCE_OWNER" | "TERM_ADMIN" | "TERM_FORCE_ADMIN" => FactState::Cancelled,
        _ if word.starts_with("TERM_") && word != "TERM_UNKNOWN" => FactState::Failed { why: reason.into() },
        // It ended without a start and without a reason, so it was killed while it waited.
        _ if !began => FactState::Cancelled,
        _ => FactState::Done { exit: code.unwrap_or(1) },
    }
}

/// Adds the resources of each job, and drops jobs on none of ours.
pub(super) fn facts(
    jobs: Vec<Job>,
    places: &[Place],
    members: &Members,
    reservations: &[Reserved],
) -> Vec<JobFact> {
    let there: BTreeSet<&Handle> = reservations.iter().map(|reserved| &reserved.handle).collect();
    let fact = |Job { queue, mut fact }: Job| {
        fact.resources = if fact.placed.is_empty() {
            resources_in(&queue, places)
        } else {
            let on: BTreeSet<&Name> = fact.placed.keys().flat_map(|host| members.resources(host)).collect();
            on.into_iter().cloned().collect()
        };
        let waits = matches!(fact.state, FactState::Waiting | FactState::Held { .. });
        if waits && !fact.reservations.iter().all(|handle| there.contains(handle)) {
            let why = "its reservation is over or was deleted".into();
            fact.state = FactState::Held { why, orphaned: true };
        }
        fact
    };
    jobs.into_iter().map(fact).filter(|fact| !fact.resources.is_empty()).collect()
}

/// The state of a job; None if it is unknown.
pub(super) fn outcome(tools: &Tools, native: &str) -> Result<Option<JobFact>, LrmsError> {
    let clock = tools.clock()?;
    if let Some(job) = one(tools, native, clock)? {
        return Ok(Some(job));
    }
    let command = tools.command("bhist").args(["-n", "0", "-UF", native]);
    let outcome = tools.run(&command)?;
    Ok(if outcome.is_success() { history(&outcome.out, native, clock) } else { None })
}

/// Parses the events of a job, the last ones first.
fn history(text: &str, native: &str, clock: Time) -> Option<JobFact> {
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
        name: within("Job Name").unwrap_or_default(),
        account: within("User").unwrap_or_default(),
        state: state_in_history(&events, said, started.is_some()),
        submitted: submitted.or(started).unwrap_or(end),
        started,
        ended: Some(end),
        ..JobFact::new(native)
    })
}

/// `Tue Jun  6 21:47:58 [2026]: what happened`
fn event(line: &str, clock: Time) -> Option<(Time, &str)> {
    let (time, said) = line.split_once(": ")?;
    Some((stamp(time.trim(), clock, Lies::Behind)?, said))
}

fn state_in_history(events: &[(Time, &str)], said: &str, began: bool) -> FactState {
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

    #[test]
    fn limits_are_minutes_or_hours() {
        assert_eq!(limit("1440.0"), Some(Seconds(86_400)));
        assert_eq!(limit("2.5/hostA"), Some(Seconds(150)));
        assert_eq!(limit("00:10:00"), Some(Seconds(600)));
        assert_eq!(limit("99999999999999999"), Some(Seconds(5_999_999_999_999_999_940)));
        for none in ["", "x", "-1", "1:2:3:4:5"] {
            assert_eq!(limit(none), None, "{none}");
        }
    }

    #[test]
    fn ends_are_told_apart_by_their_reasons() {
        assert_eq!(
            ended("TERM_RUNLIMIT: job killed after reaching LSF run time limit", Some(140), true),
            FactState::OutOfTime
        );
        assert_eq!(ended("TERM_OWNER: job killed by owner", None, true), FactState::Cancelled);
        assert!(matches!(ended("TERM_MEMLIMIT: x", None, true), FactState::Failed { .. }));
        assert_eq!(ended("", Some(3), true), FactState::Done { exit: 3 });
        assert_eq!(ended("", None, false), FactState::Cancelled);
    }

    const NOW: Time = Time(1_794_700_000);
    const HEAD: &str = "\
Job <1>, Job Name <job_7>, User <ann>, Project <default>, Command <x>
Sat Nov 14 10:00:00 2026: Submitted from host <hostA>, to Queue <normal>, CWD </home/ann>;
Sat Nov 14 10:00:05 2026: Dispatched 1 Task(s) on Host(s) <hostA>;
Sat Nov 14 10:00:05 2026: Starting (Pid 12);
";

    fn read_with(last: &str) -> Option<JobFact> {
        history(&format!("{HEAD}{last}\n\nSummary of time in seconds spent in various states\n"), "1", NOW)
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
        assert_eq!(history(HEAD, "1", NOW), None);
        assert_eq!(history("No matching job found", "1", NOW), None);
        assert_eq!(history("", "1", NOW), None);
    }
}
