//! The state of a job that is no longer in the queue. The controller remembers it for some minutes (`MinJobAge`), the
//! accounting permanently.

use super::commands::{reader, scontrol};
use super::delete::named;
use super::formats::{expand, field, time};
use super::json::{Exit, Words};
use super::{Settings, jobs};
use crate::batch::{Files, JobFact};
use crate::dialect::{Tools, resources_in};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};

/// Columns of the `sacct` query.
const COLUMNS: &str = "JobID,State,ExitCode,Submit,Start,End,NCPUS,NNodes,User,Partition,Reservation,JobName";

pub(super) fn outcome(
    tools: &Tools,
    native: &str,
    settings: &Settings,
) -> Result<Option<JobFact>, LrmsError> {
    let Some(native) = named(native) else { return Ok(None) };
    // Without `-o`, so that text of users is on lines of its own.
    let shown = tools.ask_for(&scontrol(tools, ["show", "job", native]), &["Invalid job id"])?;
    if let Some(shown) = shown {
        return Ok(remembered(&shown, native, settings));
    }
    if !settings.accounting {
        return Ok(None);
    }
    let words = ["-j", native, "-X", "-n", "-P", "-D", "-S", "1970-01-02", "-o", COLUMNS];
    let printed = tools.ask(&reader(tools, "sacct").args(words))?;
    // `-D` also lists earlier jobs with the same id; the last line is the latest.
    Ok(printed.lines().rev().find_map(|line| accounted(line, native, settings)))
}

/// The files of a job that the controller remembers.
pub(super) fn files(tools: &Tools, native: &str) -> Result<Option<Files>, LrmsError> {
    let Some(native) = named(native) else { return Ok(None) };
    let shown = tools.ask_for(&scontrol(tools, ["show", "job", native]), &["Invalid job id"])?;
    Ok(shown.and_then(|shown| printed_to(&shown)))
}

/// The paths are on lines of their own. The last one counts: lines that a user wrote come before it.
fn printed_to(shown: &str) -> Option<Files> {
    let path = |key: &str| {
        let mut lines = shown.lines().rev().map(str::trim_start);
        lines.find_map(|line| line.strip_prefix(key)).filter(|path| path.starts_with('/')).map(str::to_owned)
    };
    let output = path("StdOut=")?;
    let error = path("StdErr=").unwrap_or_else(|| output.clone());
    Some(Files { output, error })
}

/// The results of both parsers.
#[cfg(test)]
pub(super) fn read(printed: &str, settings: &Settings) -> [Option<JobFact>; 2] {
    [remembered(printed, "1", settings), accounted(printed, "1", settings)]
}

/// Parses `scontrol show job`.
fn remembered(printed: &str, native: &str, settings: &Settings) -> Option<JobFact> {
    let name = printed.lines().next()?.split_once("JobName=")?.1.trim_end();
    // Between the first line, which ends with the name, and the lines that users wrote.
    let lines: Vec<&str> = printed
        .lines()
        .skip(1)
        .map(str::trim_start)
        .take_while(|line| !line.starts_with("Command="))
        .collect();
    let get = |key: &str| lines.iter().find_map(|line| field(line, key));
    let number = |key: &str| get(key).and_then(|value| value.split('-').next()?.parse().ok()).unwrap_or(0);
    let fact = JobFact {
        name: name.to_owned(),
        account: get("UserId").and_then(|user| user.split('(').next()).unwrap_or_default().to_owned(),
        submitted: get("SubmitTime").and_then(time).unwrap_or(Time(0)),
        started: get("StartTime").and_then(time),
        ended: get("EndTime").and_then(time),
        limit: get("TimeLimit").and_then(limit),
        cores: number("NumCPUs"),
        nodes: number("NumNodes"),
        reservations: jobs::reservations(get("Reservation").unwrap_or_default()),
        restarts: jobs::restarts(get("Restarts").and_then(|count| count.parse().ok())),
        ..JobFact::new(native)
    };
    let ran = get("NodeList").and_then(expand).is_some_and(|nodes| !nodes.is_empty());
    let said = [get("JobState")?, get("Reason").unwrap_or_default(), get("ExitCode").unwrap_or_default()];
    Some(complete(fact, ran, said, get("Partition").unwrap_or_default(), settings))
}

/// Parses a line of `sacct`. The name is the last column, since it may contain any character.
fn accounted(line: &str, native: &str, settings: &Settings) -> Option<JobFact> {
    let columns: Vec<&str> = line.splitn(12, '|').collect();
    let [_, state, exit, submitted, started, ended, cpus, nodes, account, partition, reservations, name] =
        columns[..]
    else {
        return None;
    };
    let fact = JobFact {
        name: name.to_owned(),
        account: account.to_owned(),
        submitted: time(submitted).unwrap_or(Time(0)),
        started: time(started),
        ended: time(ended),
        cores: cpus.parse().unwrap_or(0),
        nodes: nodes.parse().unwrap_or(0),
        reservations: jobs::reservations(reservations),
        ..JobFact::new(native)
    };
    // `CANCELLED by 0`
    let state = state.split(' ').next()?;
    let ran = fact.started.is_some();
    Some(complete(fact, ran, [state, "", exit], partition, settings))
}

/// Adds state and resources. The start time counts only if the job ran.
fn complete(
    fact: JobFact,
    ran: bool,
    [state, reason, exit]: [&str; 3],
    partition: &str,
    settings: &Settings,
) -> JobFact {
    // `3:0` is code 3, `0:9` is signal 9.
    let (code, signal) = exit.split_once(':').unwrap_or(("0", "0"));
    let exit = Exit::of_code_and_signal(code.parse().unwrap_or(0), signal.parse().unwrap_or(0));
    let state = jobs::state(&Words(vec![state.to_owned()]), reason, "", false, exit);
    let (started, ended) = (fact.started.filter(|_| ran), fact.ended.filter(|_| state.is_over()));
    JobFact { resources: resources_in(partition, &settings.places), started, ended, state, ..fact }
}

/// Parses `1-02:03:04`; None for UNLIMITED.
fn limit(text: &str) -> Option<Seconds> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds: i64 = days.parse().ok()?;
    let mut parts = clock.split(':');
    for (part, many) in [(parts.next(), 24), (parts.next(), 60), (parts.next(), 60)] {
        seconds = seconds.checked_mul(many)?.checked_add(part?.parse().ok()?)?;
    }
    Some(Seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::FactState;

    const SHOWN: &str = "\
JobId=27 JobName=x JobState=COMPLETED
   UserId=ann(1001) GroupId=ann(1001) MCS_label=N/A
   Priority=1 Nice=0 Account=(null) QOS=(null)
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=2:0
   RunTime=00:00:00 TimeLimit=1-00:10:00 TimeMin=N/A
   SubmitTime=1794742823 EligibleTime=1794742823
   StartTime=1794742824 EndTime=1794742830 Deadline=N/A
   Partition=main AllocNode:Sid=localhost:8633
   NodeList=n1
   NumNodes=1-1 NumCPUs=4 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Command=/dev/stdin JobState=RUNNING
   WorkDir=/x JobState=RUNNING
";

    #[test]
    fn the_files_of_a_job_are_those_that_slurm_names() {
        let files = |rest: &str| printed_to(&format!("{SHOWN}   Comment=x\nStdOut=/etc/shadow\n{rest}"));
        let shown =
            "   StdErr=/x/my errors\n   StdIn=/dev/null\n   StdOut=/x/job_7.out\n   TresPerTask=cpu=1\n";
        let expected = Files { output: "/x/job_7.out".into(), error: "/x/my errors".into() };
        assert_eq!(files(shown), Some(expected));
        assert_eq!(files("   StdOut=/x/y\n"), Some(Files::one("/x/y".into())));
        assert_eq!(printed_to(SHOWN), None);
        assert_eq!(files("   StdOut=relative\n"), None);
    }

    #[test]
    fn what_people_wrote_is_not_taken_for_what_slurm_says() {
        let fact = remembered(SHOWN, "27", &Settings::new(vec![])).unwrap();
        assert_eq!(fact.state, FactState::Done { exit: 2 });
        assert_eq!((fact.name.as_str(), fact.account.as_str()), ("x JobState=COMPLETED", "ann"));
        assert_eq!((fact.cores, fact.nodes), (4, 1));
        assert_eq!((fact.started, fact.ended), (Some(Time(1794742824)), Some(Time(1794742830))));
        assert_eq!(fact.limit, Some(Seconds(87_000)));
    }

    #[test]
    fn accounting_remembers_how_a_job_ended() {
        // As the manual page of sacct describes `--parsable2`.
        let line = "27|CANCELLED by 0|0:15|1794742823|1794742824|1794742830|4|1|ann|main||a|b";
        let fact = accounted(line, "27", &Settings::new(vec![])).unwrap();
        assert_eq!(fact.state, FactState::Cancelled);
        assert_eq!(fact.name, "a|b");
        assert_eq!(fact.ended, Some(Time(1794742830)));
        let never = "28|CANCELLED by 0|0:0|1794742823|None|1794742830|4|1|ann|main||x";
        assert_eq!(accounted(never, "28", &Settings::new(vec![])).unwrap().started, None);
        assert_eq!(accounted("nonsense", "28", &Settings::new(vec![])), None);
    }

    #[test]
    fn limits_are_read_with_and_without_days() {
        assert_eq!(limit("00:01:00"), Some(Seconds(60)));
        assert_eq!(limit("2-00:00:01"), Some(Seconds(172_801)));
        for odd in ["UNLIMITED", "", "Partition_Limit", "1:2", "99999999999999999-00:00:00"] {
            assert_eq!(limit(odd), None, "{odd}");
        }
    }
}
