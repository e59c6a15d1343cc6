//! The rules by which one record becomes a job, is corrected, skipped or dropped. Each record is judged on its
//! own; order and counting are done by the loader.

use super::job::{Job, Overrun};
use crate::reason::{Mends, Reason};
use crate::swf::Record;
use crate::{LARGEST, LONGEST};
use bookahead_plan::{Capacity, Interval, Seconds, Time};

#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Size of the machine, in units.
    pub(super) machine: Capacity,
    /// Processors per unit; at least one.
    pub(super) unit: u32,
    pub(super) overruns: Overrun,
    pub(super) range: Option<Interval>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep(Job, Mends),
    Drop(Reason),
    OutsideRange,
}

impl Rules {
    /// Judges one record; `mends` are the corrections of its parser. A job outside the range is skipped even if it
    /// has other faults.
    #[inline]
    pub(super) fn judge(&self, record: &Record, mends: Mends) -> Verdict {
        match submit_time(record) {
            Ok(submit) if self.range.is_some_and(|range| !range.contains(submit)) => Verdict::OutsideRange,
            Ok(submit) => match self.job(record, submit, mends) {
                Ok((job, mends)) => Verdict::Keep(job, mends),
                Err(reason) => Verdict::Drop(reason),
            },
            Err(reason) => Verdict::Drop(reason),
        }
    }

    #[inline]
    fn job(&self, record: &Record, submit: Time, mut mends: Mends) -> Result<(Job, Mends), Reason> {
        if record.run <= 0 {
            return Err(Reason::NoRunTime);
        }
        // Checked in a fixed order: a line with several faults is always counted under the same one.
        let processors = self.units(processors(record, &mut mends)?)?;
        let request = requested_time(record, &mut mends);
        // Before overruns are cut: a damaged run time must not pass as an overrun.
        if record.run > LONGEST || request > LONGEST {
            return Err(Reason::NumberOutOfRange);
        }
        let run = self.run_time(record.run, request, &mut mends)?;
        let job = Job {
            number: record.job,
            submit,
            run: Seconds(run),
            request: Seconds(request),
            processors,
            user: u32::try_from(record.user).unwrap_or(0),
        };
        Ok((job, mends))
    }

    /// Processors in units, rounded up.
    #[inline]
    fn units(&self, processors: u32) -> Result<Capacity, Reason> {
        // Rounded up, because a job that uses a part of a node occupies the node.
        let units = if self.unit == 1 { processors } else { processors.div_ceil(self.unit) };
        if units > self.machine.0 { Err(Reason::AboveMachine) } else { Ok(Capacity(units)) }
    }

    #[inline]
    fn run_time(&self, run: i64, request: i64, mends: &mut Mends) -> Result<i64, Reason> {
        if run <= request {
            return Ok(run);
        }
        match self.overruns {
            Overrun::Kill => {
                mends.add(Reason::RunCutAtRequest);
                Ok(request)
            }
            Overrun::Extend => {
                mends.add(Reason::OverrunKept);
                Ok(run)
            }
            Overrun::Drop => Err(Reason::RunAboveRequest),
        }
    }
}

#[inline]
fn submit_time(record: &Record) -> Result<Time, Reason> {
    match record.submit {
        ..0 => Err(Reason::NoSubmitTime),
        0..=LONGEST => Ok(Time(record.submit)),
        _ => Err(Reason::NumberOutOfRange),
    }
}

#[inline]
fn processors(record: &Record, mends: &mut Mends) -> Result<u32, Reason> {
    // The scheduler saw the request. The allocation may be larger, for example rounded up to whole nodes, and
    // is used only if the log has no request.
    let mut processors = record.requested_processors;
    if processors <= 0 {
        processors = record.allocated_processors;
        mends.add(Reason::ProcessorsFromAllocated);
    }
    match processors {
        ..=0 => Err(Reason::NoProcessors),
        1..=LARGEST => u32::try_from(processors).map_err(|_| Reason::NumberOutOfRange),
        _ => Err(Reason::NumberOutOfRange),
    }
}

#[inline]
fn requested_time(record: &Record, mends: &mut Mends) -> i64 {
    if record.requested_time > 0 {
        return record.requested_time;
    }
    // A scheduler needs a limit for every job; the run time is the only length that the log has.
    mends.add(Reason::RequestFromRun);
    record.run
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { machine: Capacity(100), unit: 1, overruns: Overrun::Kill, range: None };

    const SOUND: Record = Record {
        job: 7,
        submit: 50,
        run: 60,
        allocated_processors: 8,
        requested_processors: 10,
        requested_time: 90,
        ..Record::BLANK
    };

    fn job(run: i64, request: i64, processors: u32) -> Job {
        Job {
            number: 7,
            submit: Time(50),
            run: Seconds(run),
            request: Seconds(request),
            processors: Capacity(processors),
            user: 0,
        }
    }

    #[track_caller]
    fn check_kept(rules: Rules, record: Record, expected: Job, reasons: &[Reason]) {
        let mut mends = Mends::NONE;
        reasons.iter().for_each(|reason| mends.add(*reason));
        assert_eq!(rules.judge(&record, Mends::NONE), Verdict::Keep(expected, mends));
    }

    #[track_caller]
    fn check_dropped(record: Record, reason: Reason) {
        assert_eq!(RULES.judge(&record, Mends::NONE), Verdict::Drop(reason));
    }

    #[test]
    fn a_sound_record_is_taken_as_it_is() {
        check_kept(RULES, SOUND, job(60, 90, 10), &[]);
    }

    #[test]
    fn unknown_requests_are_taken_from_what_happened() {
        let record = Record { requested_processors: -1, ..SOUND };
        check_kept(RULES, record, job(60, 90, 8), &[Reason::ProcessorsFromAllocated]);
        let record = Record { requested_time: 0, ..SOUND };
        check_kept(RULES, record, job(60, 60, 10), &[Reason::RequestFromRun]);
    }

    #[test]
    fn jobs_without_time_or_processors_are_dropped() {
        check_dropped(Record { submit: -1, ..SOUND }, Reason::NoSubmitTime);
        check_dropped(Record { run: 0, ..SOUND }, Reason::NoRunTime);
        check_dropped(Record { run: -1, ..SOUND }, Reason::NoRunTime);
        let record = Record { requested_processors: 0, allocated_processors: 0, ..SOUND };
        check_dropped(record, Reason::NoProcessors);
    }

    #[test]
    fn a_job_may_fill_the_machine_but_not_exceed_it() {
        check_kept(RULES, Record { requested_processors: 100, ..SOUND }, job(60, 90, 100), &[]);
        check_dropped(Record { requested_processors: 101, ..SOUND }, Reason::AboveMachine);
    }

    #[test]
    fn impossible_numbers_are_dropped() {
        check_dropped(Record { submit: LONGEST + 1, ..SOUND }, Reason::NumberOutOfRange);
        check_dropped(Record { run: i64::MAX, ..SOUND }, Reason::NumberOutOfRange);
        check_dropped(Record { requested_time: LONGEST + 1, ..SOUND }, Reason::NumberOutOfRange);
        check_dropped(Record { requested_processors: LARGEST + 1, ..SOUND }, Reason::NumberOutOfRange);
        check_kept(RULES, Record { requested_time: LONGEST, ..SOUND }, job(60, LONGEST, 10), &[]);
    }

    #[test]
    fn overruns_are_cut_kept_or_dropped() {
        let record = Record { run: 100, ..SOUND };
        check_kept(RULES, record, job(90, 90, 10), &[Reason::RunCutAtRequest]);
        let keep = Rules { overruns: Overrun::Extend, ..RULES };
        check_kept(keep, record, job(100, 90, 10), &[Reason::OverrunKept]);
        let drop = Rules { overruns: Overrun::Drop, ..RULES };
        assert_eq!(drop.judge(&record, Mends::NONE), Verdict::Drop(Reason::RunAboveRequest));
        check_kept(drop, SOUND, job(60, 90, 10), &[]);
    }

    #[test]
    fn jobs_are_counted_in_whole_nodes() {
        let nodes = Rules { machine: Capacity(12), unit: 8, ..RULES };
        check_kept(nodes, SOUND, job(60, 90, 2), &[]);
        check_kept(nodes, Record { requested_processors: 96, ..SOUND }, job(60, 90, 12), &[]);
        let record = Record { requested_processors: 97, ..SOUND };
        assert_eq!(nodes.judge(&record, Mends::NONE), Verdict::Drop(Reason::AboveMachine));
    }

    #[test]
    fn a_job_outside_the_range_is_passed_over_whatever_else_is_wrong() {
        let ranged = Rules { range: Some(Interval::new(Time(0), Time(50))), ..RULES };
        assert_eq!(ranged.judge(&SOUND, Mends::NONE), Verdict::OutsideRange);
        assert_eq!(ranged.judge(&Record { run: -1, ..SOUND }, Mends::NONE), Verdict::OutsideRange);
        let record = Record { submit: 49, ..SOUND };
        assert!(matches!(ranged.judge(&record, Mends::NONE), Verdict::Keep(..)));
    }
}
