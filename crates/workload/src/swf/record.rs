//! One job line: its 18 named fields, and their parser. Unknown is -1. A line with a field that is not a number
//! is refused; whether the numbers make sense is decided in [`crate::trace`].

use super::number;
use crate::reason::{Mends, Reason};

/// The value of an unknown field.
pub const UNKNOWN: i64 = -1;

/// The 18 fields of a job, in the order of the format. Times are in seconds, memory in kilobytes per
/// processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// 1: number of the job.
    pub job: i64,
    /// 2: submission, from the start of the log.
    pub submit: i64,
    /// 3: wait.
    pub wait: i64,
    /// 4: run time.
    pub run: i64,
    /// 5: allocated processors.
    pub allocated_processors: i64,
    /// 6: average CPU time used, per processor.
    pub average_cpu_time: f64,
    /// 7: used memory.
    pub used_memory: i64,
    /// 8: requested processors.
    pub requested_processors: i64,
    /// 9: requested time.
    pub requested_time: i64,
    /// 10: requested memory.
    pub requested_memory: i64,
    /// 11: status: 0 failed, 1 completed, 5 cancelled.
    pub status: i64,
    /// 12: number of the user.
    pub user: i64,
    /// 13: number of the group.
    pub group: i64,
    /// 14: number of the application.
    pub executable: i64,
    /// 15: number of the queue.
    pub queue: i64,
    /// 16: number of the partition.
    pub partition: i64,
    /// 17: job that had to end before this one.
    pub preceding_job: i64,
    /// 18: time from the end of that job to the submission of this one.
    pub think_time: i64,
}

impl Record {
    /// A record with all fields unknown.
    pub const BLANK: Record = Record {
        job: UNKNOWN,
        submit: UNKNOWN,
        wait: UNKNOWN,
        run: UNKNOWN,
        allocated_processors: UNKNOWN,
        average_cpu_time: -1.0,
        used_memory: UNKNOWN,
        requested_processors: UNKNOWN,
        requested_time: UNKNOWN,
        requested_memory: UNKNOWN,
        status: UNKNOWN,
        user: UNKNOWN,
        group: UNKNOWN,
        executable: UNKNOWN,
        queue: UNKNOWN,
        partition: UNKNOWN,
        preceding_job: UNKNOWN,
        think_time: UNKNOWN,
    };

    /// Parses a line that is neither blank nor a comment.
    #[inline]
    pub(super) fn parse(line: &[u8]) -> Result<(Record, Mends), Reason> {
        let mut fields = Fields { line, at: 0, mends: Mends::NONE };
        // The fields are evaluated as written here, so their order must be that of the format.
        let record = Record {
            job: fields.whole()?,
            submit: fields.whole()?,
            wait: fields.whole()?,
            run: fields.whole()?,
            allocated_processors: fields.whole()?,
            average_cpu_time: fields.real()?,
            used_memory: fields.whole()?,
            requested_processors: fields.whole()?,
            requested_time: fields.whole()?,
            requested_memory: fields.whole()?,
            status: fields.whole()?,
            user: fields.whole()?,
            group: fields.whole()?,
            executable: fields.whole()?,
            queue: fields.whole()?,
            partition: fields.whole()?,
            preceding_job: fields.whole()?,
            think_time: fields.whole()?,
        };
        Ok((record, fields.finish()))
    }
}

/// The rest of a line. Its functions are inlined at every field: fields of a log are regular (one is always -1, one
/// always has six digits), and branch prediction learns each place on its own.
struct Fields<'a> {
    line: &'a [u8],
    /// Can be one beyond the end: the fast path also consumes the blank behind a field.
    at: usize,
    mends: Mends,
}

impl Fields<'_> {
    /// Parses the next field as a whole number.
    #[inline(always)]
    fn whole(&mut self) -> Result<i64, Reason> {
        if !self.find() {
            self.mends.add(Reason::MissingFieldsFilled);
            return Ok(UNKNOWN);
        }
        if number::is_minus_one(self.line, self.at) {
            // Two characters and the blank behind them.
            self.at += 3;
            return Ok(UNKNOWN);
        }
        if let Some((value, end)) = number::short_whole(self.line, self.at) {
            self.at = end + 1;
            return Ok(value);
        }
        let (value, rounded) = number::whole(self.token())?;
        if rounded {
            self.mends.add(Reason::FractionRounded);
        }
        Ok(value)
    }

    /// Parses the next field as a number with an optional fraction.
    #[inline(always)]
    fn real(&mut self) -> Result<f64, Reason> {
        if !self.find() {
            self.mends.add(Reason::MissingFieldsFilled);
            return Ok(-1.0);
        }
        if let Some((value, end)) = number::short_real(self.line, self.at) {
            self.at = end + 1;
            return Ok(value);
        }
        number::real(self.token())
    }

    /// Moves to the next field; returns whether there is one.
    #[inline(always)]
    fn find(&mut self) -> bool {
        self.at = number::skip_blanks(self.line, self.at);
        self.at < self.line.len()
    }

    /// Consumes the present field up to the next blank.
    #[cold]
    fn token(&mut self) -> &[u8] {
        let rest = &self.line[self.at..];
        let length = rest.iter().position(|byte| number::is_blank(*byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// All corrections of the line.
    #[inline(always)]
    fn finish(mut self) -> Mends {
        if self.find() {
            self.mends.add(Reason::ExtraFieldsIgnored);
        }
        self.mends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "1 2 3 4 5 6.5 7 8 9 10 11 12 13 14 15 16 17 18";

    #[test]
    fn fields_have_the_order_of_the_format() {
        let (record, mends) = Record::parse(LINE.as_bytes()).unwrap();
        let expected = Record {
            job: 1,
            submit: 2,
            wait: 3,
            run: 4,
            allocated_processors: 5,
            average_cpu_time: 6.5,
            used_memory: 7,
            requested_processors: 8,
            requested_time: 9,
            requested_memory: 10,
            status: 11,
            user: 12,
            group: 13,
            executable: 14,
            queue: 15,
            partition: 16,
            preceding_job: 17,
            think_time: 18,
        };
        assert_eq!((record, mends), (expected, Mends::NONE));
    }

    #[test]
    fn tabs_and_runs_of_blanks_separate_fields() {
        let spread = format!("\t {} \t", LINE.replace(' ', " \t "));
        assert_eq!(Record::parse(spread.as_bytes()), Record::parse(LINE.as_bytes()));
    }

    #[test]
    fn missing_fields_are_unknown_and_mended() {
        let (record, mends) = Record::parse(b"7 100").unwrap();
        assert_eq!(record, Record { job: 7, submit: 100, ..Record::BLANK });
        assert!(mends.contains(Reason::MissingFieldsFilled));
    }

    #[test]
    fn fields_beyond_the_last_are_ignored_whatever_they_say_and_mended() {
        let (record, mends) = Record::parse(format!("{LINE} nonsense 20").as_bytes()).unwrap();
        assert_eq!(record.think_time, 18);
        assert_eq!(mends.iter().collect::<Vec<_>>(), [Reason::ExtraFieldsIgnored]);
    }

    #[test]
    fn a_fraction_in_a_whole_field_is_rounded_and_mended() {
        let (record, mends) = Record::parse(b"1 2.5 3.4 1e5 4.0").unwrap();
        assert_eq!((record.submit, record.wait, record.run), (3, 3, 100_000));
        assert!(mends.contains(Reason::FractionRounded));
        let (_, exact) = Record::parse(LINE.replace("18", "18.0").as_bytes()).unwrap();
        assert!(exact.is_empty());
    }

    #[test]
    fn a_bad_field_spoils_the_line_wherever_it_stands() {
        for field in 0..18 {
            let mut fields: Vec<_> = LINE.split(' ').collect();
            fields[field] = "x";
            assert_eq!(Record::parse(fields.join(" ").as_bytes()), Err(Reason::MalformedLine));
            fields[field] = "1e400";
            assert_eq!(Record::parse(fields.join(" ").as_bytes()), Err(Reason::NumberOutOfRange));
        }
    }
}
