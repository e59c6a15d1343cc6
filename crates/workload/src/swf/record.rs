//! One job line: its 18 fields, named, and how they are taken from the bytes of a line. Unknown is -1. A
//! field that cannot be a number spoils the line; nothing here asks whether the numbers make sense.

use super::number;
use crate::reason::{Mends, Reason};

/// What stands for an unknown value.
pub const UNKNOWN: i64 = -1;

/// The 18 fields of a job, in the order of the format. Times are in seconds, memory in kilobytes per
/// processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// 1: the number of the job.
    pub job: i64,
    /// 2: when it was submitted, from the start of the log.
    pub submit: i64,
    /// 3: how long it waited.
    pub wait: i64,
    /// 4: how long it ran.
    pub run: i64,
    /// 5: the processors it got.
    pub allocated_processors: i64,
    /// 6: the average processor time used, per processor.
    pub average_cpu_time: f64,
    /// 7: the memory it used.
    pub used_memory: i64,
    /// 8: the processors it asked for.
    pub requested_processors: i64,
    /// 9: the time it asked for.
    pub requested_time: i64,
    /// 10: the memory it asked for.
    pub requested_memory: i64,
    /// 11: how it ended: 0 failed, 1 completed, 5 cancelled.
    pub status: i64,
    /// 12: whose it was.
    pub user: i64,
    /// 13: the group of that user.
    pub group: i64,
    /// 14: the application.
    pub executable: i64,
    /// 15: the queue.
    pub queue: i64,
    /// 16: the partition.
    pub partition: i64,
    /// 17: the job that had to end before.
    pub preceding_job: i64,
    /// 18: the time between the end of that job and the submission of this one.
    pub think_time: i64,
}

impl Record {
    /// A job of which nothing is known.
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

    /// Takes the fields from a line that is neither blank nor a comment.
    #[inline]
    pub(super) fn parse(line: &[u8]) -> Result<(Record, Mends), Reason> {
        let mut fields = Fields { line, at: 0, mends: Mends::NONE };
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

/// What is left of a line. Its functions are inlined at every field: the fields of a log have habits of
/// their own (one is always -1, one always has six digits), which processors learn place by place.
struct Fields<'a> {
    line: &'a [u8],
    /// May be one beyond the end: behind a field taken the short way, its blank is taken too.
    at: usize,
    mends: Mends,
}

impl Fields<'_> {
    /// The next field where a whole number belongs.
    #[inline(always)]
    fn whole(&mut self) -> Result<i64, Reason> {
        if !self.find() {
            self.mends.add(Reason::MissingFieldsFilled);
            return Ok(UNKNOWN);
        }
        if number::is_minus_one(self.line, self.at) {
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

    /// The next field where a fraction may stand.
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

    /// Goes to the next field; says whether there is one.
    #[inline(always)]
    fn find(&mut self) -> bool {
        self.at = number::skip_blanks(self.line, self.at);
        self.at < self.line.len()
    }

    /// Takes the field at hand, up to the next blank.
    #[cold]
    fn token(&mut self) -> &[u8] {
        let rest = &self.line[self.at..];
        let length = rest.iter().position(|byte| number::is_blank(*byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// The mends of the whole line.
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
