//! The state of a job that `qstat` no longer shows, from the accounting file, or by inference if that has no record.
//! Records appear some seconds late. Jobs that never ran, and those that ended with their reservation, have none.

use super::Settings;
use crate::batch::{FactState, JobFact, Reserved};
use crate::dialect::Tools;
use crate::dialect::calendar;
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long observations are kept after the end of the reservation, in seconds.
const REMEMBERED: Seconds = Seconds(3600);
/// Largest difference between the recorded end of a job and the end of its reservation, in seconds, if the job ended
/// with it.
const NEAR: i64 = 10;
/// How long to remember since when a job is gone; queries for a job stop long before.
const ASKED_FOR: Duration = Duration::from_secs(3600);

/// Observations of jobs in reservations, and since when jobs are gone. Lost at a restart; then less can be inferred.
#[derive(Debug, Default)]
pub(super) struct Memory {
    clock: Option<Time>,
    bound: BTreeMap<String, (JobFact, Time)>,
    gone_since: BTreeMap<String, Instant>,
}

impl Memory {
    pub(super) fn note(&mut self, clock: Option<Time>, jobs: &[JobFact], reservations: &[Reserved]) {
        self.clock = clock;
        let ends: BTreeMap<_, _> =
            reservations.iter().map(|reserved| (&reserved.handle, reserved.interval.end)).collect();
        for job in jobs {
            if let Some(end) = job.reservations.first().and_then(|handle| ends.get(handle)) {
                self.bound.insert(job.native.clone(), (job.clone(), *end));
            }
        }
        if let Some(now) = clock {
            self.bound.retain(|_, (_, end)| now < *end + REMEMBERED);
        }
        self.gone_since.retain(|_, since| since.elapsed() < ASKED_FOR);
    }
}

pub(super) fn locked(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn outcome(
    tools: &Tools,
    settings: &Settings,
    memory: &Mutex<Memory>,
    native: &str,
) -> Result<Option<JobFact>, LrmsError> {
    let record = match settings.accounting {
        Some(_) => record(tools, native)?,
        None => None,
    };
    if let Some(record) = record {
        let mut memory = locked(memory);
        memory.gone_since.remove(native);
        return Ok(record.fact(native, memory.bound.get(native).map(|(_, end)| *end)));
    }
    let seen = locked(memory).bound.get(native).cloned();
    let Some(fact) = (match &seen {
        Some((fact, _)) => Some(fact.clone()),
        None => finished(tools, native)?,
    }) else {
        return Ok(None);
    };
    // Locked only now: the query above is a command, and looks must not wait for it.
    let mut memory = locked(memory);
    let gone_for = memory.gone_since.entry(native.to_owned()).or_insert_with(Instant::now).elapsed();
    if settings.accounting.is_some_and(|late| gone_for < late) {
        // A record may still come: until then the job counts as ending.
        return Ok(Some(JobFact { state: FactState::Running, ..fact }));
    }
    memory.gone_since.remove(native);
    let ended_with_reservation = seen.filter(|(_, end)| memory.clock.is_some_and(|now| *end <= now));
    Ok(match ended_with_reservation {
        Some((_, end)) => Some(JobFact { state: FactState::OutOfTime, ended: Some(end), ..fact }),
        // Each job that ran has a record by now, so this one was deleted while it waited.
        None if settings.accounting.is_some() => Some(JobFact { state: FactState::Cancelled, ..fact }),
        None => None,
    })
}

/// A job in Grid Engine's short list of finished jobs, which has neither time nor result.
fn finished(tools: &Tools, native: &str) -> Result<Option<JobFact>, LrmsError> {
    let document = tools.ask_xml(&tools.command("qstat").args(["-u", "*", "-s", "z", "-xml"]))?;
    let mut rows = document.all("job_info").flat_map(|info| info.all("job_list"));
    let (number, _) = split(native);
    let Some(row) = rows.find(|row| row.text_of("JB_job_number") == Some(number)) else { return Ok(None) };
    let text = |name| row.text_of(name).unwrap_or("").to_owned();
    let submitted = row.text_of("JB_submission_time").and_then(calendar::iso).unwrap_or(Time(0));
    let cores = row.text_of("slots").and_then(|slots| slots.parse().ok()).unwrap_or(1);
    let (name, account) = (text("JB_name"), text("JB_owner"));
    Ok(Some(JobFact { name, account, submitted, cores, ..JobFact::new(native) }))
}

/// A record of `qacct -j`.
struct Record(BTreeMap<String, String>);

/// The last record of a job: numbers are reused after ten million jobs, and a job may have run twice.
fn record(tools: &Tools, native: &str) -> Result<Option<Record>, LrmsError> {
    let (number, task) = split(native);
    let mut command = tools.command("qacct").args(["-j", number]);
    if let Some(task) = task {
        command = command.args(["-t", task]);
    }
    let nothing = ["not found", "No such file", "no accounting"];
    let Some(printed) = tools.ask_for(&command, &nothing)? else { return Ok(None) };
    let last = printed.rsplit("====").next().unwrap_or("");
    let pairs = last.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().to_owned()))
    });
    let record = Record(pairs.collect());
    Ok(record.0.contains_key("exit_status").then_some(record))
}

/// `5.3` is task 3 of job 5.
fn split(native: &str) -> (&str, Option<&str>) {
    native.split_once('.').map_or((native, None), |(number, task)| (number, Some(task)))
}

impl Record {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn time(&self, name: &str) -> Option<Time> {
        calendar::ctime(self.text(name)).filter(|time| time.0 > 0)
    }

    /// The limit from a category such as `-l h_rt=600 -pe smp 4`.
    fn limit(&self) -> Option<Seconds> {
        let mut requests = self.text("category").split([' ', ',']);
        requests.find_map(|word| calendar::length_of_time(word.strip_prefix("h_rt=")?)).map(Seconds)
    }

    fn fact(&self, native: &str, reservation_end: Option<Time>) -> Option<JobFact> {
        let exit: i32 = self.text("exit_status").split_whitespace().next()?.parse().ok()?;
        let mut fact = JobFact {
            name: self.text("jobname").into(),
            account: self.text("owner").into(),
            cores: self.text("slots").parse().unwrap_or(1),
            submitted: self.time("qsub_time").unwrap_or(Time(0)),
            started: self.time("start_time"),
            ended: self.time("end_time"),
            limit: self.limit(),
            ..JobFact::new(native)
        };
        fact.state = self.state(exit, &fact, reservation_end);
        Some(fact)
    }

    /// `failed` is 37 if the master killed the job at its limit, 100 if a signal ended it, and 0 if it ended by
    /// itself; other values mean that it could not be run.
    fn state(&self, exit: i32, fact: &JobFact, reservation_end: Option<Time>) -> FactState {
        let failed = self.text("failed");
        let code = failed.split([' ', ':']).next().unwrap_or("");
        let ran = fact.started.zip(fact.ended).map(|(started, ended)| ended - started);
        let limit_reached = ran.zip(fact.limit).is_some_and(|(ran, limit)| ran >= limit);
        let near_end = |end: Time| fact.ended.is_some_and(|ended| (ended - end).0.abs() <= NEAR);
        match code {
            "0" => FactState::Done { exit },
            // 37 was also observed for a job that was deleted long before its limit.
            "37" | "100" if limit_reached => FactState::OutOfTime,
            "37" | "100" if exit == 137 && reservation_end.is_some_and(near_end) => FactState::OutOfTime,
            "37" | "100" if exit == 137 => FactState::Cancelled,
            "37" | "100" => FactState::Done { exit },
            _ => FactState::Failed { why: failed.to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(failed: &str, exit: &str, ran: i64, reservation_end: Option<Time>) -> FactState {
        let end = format!("Sun Nov 15 11:34:{:02} 2026", 10 + ran);
        let pairs = [
            ("failed", failed),
            ("exit_status", exit),
            ("start_time", "Sun Nov 15 11:34:10 2026"),
            ("end_time", &end),
            ("category", "-l h_rt=30 -pe smp 1"),
        ];
        let record = Record(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        record.fact("7", reservation_end).unwrap().state
    }

    #[test]
    fn records_tell_how_a_job_ended() {
        assert_eq!(state("0", "0", 5, None), FactState::Done { exit: 0 });
        assert_eq!(state("0", "7", 5, None), FactState::Done { exit: 7 });
        assert_eq!(
            state("37  : qmaster enforced h_rt limit", "137  (Killed)", 30, None),
            FactState::OutOfTime
        );
        assert_eq!(state("100 : assumedly after job", "137", 5, None), FactState::Cancelled);
        assert_eq!(state("37  : qmaster enforced h_rt limit", "137", 5, None), FactState::Cancelled);
        assert_eq!(
            state("100 : assumedly after job", "139 (Segmentation fault)", 5, None),
            FactState::Done { exit: 139 }
        );
        let end = calendar::ctime("Sun Nov 15 11:34:14 2026");
        assert_eq!(state("100 : assumedly after job", "137", 5, end), FactState::OutOfTime);
        let why = "26  : opening input/output file".to_owned();
        assert_eq!(state(&why.clone(), "0", 0, None), FactState::Failed { why });
    }
}
