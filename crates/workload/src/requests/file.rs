//! The file of requests: comma-separated whole numbers under a fixed header line, plain or gzip. Reading is
//! strict: whatever is not exactly such a line is an error with its place and what is wrong.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::Path;

use bookahead_plan::{Capacity, Seconds, Time};
use thiserror::Error;

use super::Request;
use crate::files::{self, FileError, Packing};
use crate::lines::{Line, Lines};
use crate::{LARGEST, LONGEST};

/// The header line.
pub const COLUMNS: &str = "job,submit,earliest_start,latest_end,duration,processors";

/// How many values a line has.
const COLUMN_COUNT: usize = 6;

/// Why a file of requests cannot be read.
#[derive(Debug, Error)]
pub enum RequestsError {
    /// The file cannot be read at all.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is not a request.
    #[error("{name}:{line}: {problem}")]
    BadLine {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The first line is not the header.
    #[error("the first line must be '{COLUMNS}'")]
    NoHeader,
    /// Bytes that are no text, or more than a line can have.
    #[error("this is not a line of text")]
    NotText,
    /// Too few or too many values.
    #[error("{0} values where {COLUMN_COUNT} belong: {COLUMNS}")]
    WrongCount(usize),
    /// A value that is no whole number.
    #[error("the value of {0} is not a whole number")]
    NotANumber(&'static str),
    /// A value that cannot be meant.
    #[error("the value of {0} is out of range")]
    OutOfRange(&'static str),
    /// The reservation would begin before it is asked for.
    #[error("the earliest_start is before the submit time")]
    StartsBeforeSubmit,
    /// The reservation cannot end in time.
    #[error("the latest_end is before earliest_start + duration")]
    DoesNotFit,
}

/// Reads a file of requests, plain or gzip; `-` is standard input.
pub fn load(path: &Path) -> Result<Vec<Request>, RequestsError> {
    let (name, source) = files::open(path)?;
    read(name, source)
}

/// Reads requests from `source`, plain or gzip, which errors call `name`.
pub fn read<R: Read>(name: impl Into<String>, source: R) -> Result<Vec<Request>, RequestsError> {
    let name = name.into();
    let mut lines = match Lines::new(source) {
        Ok(lines) => lines,
        Err(cause) => return Err(FileError::Read { name, line: 1, cause }.into()),
    };
    let requests = read_all(&mut lines);
    let line = lines.number();
    requests.map_err(|failure| match failure {
        Failure::Reading(cause) => FileError::Read { name, line, cause }.into(),
        Failure::Line(problem) => RequestsError::BadLine { name, line, problem },
    })
}

/// Why reading stopped at the line at hand.
enum Failure {
    Reading(io::Error),
    Line(Problem),
}

fn read_all<R: Read>(lines: &mut Lines<R>) -> Result<Vec<Request>, Failure> {
    if lines.next_line().map_err(Failure::Reading)? != Some(Line::Text(COLUMNS.as_bytes())) {
        return Err(Failure::Line(Problem::NoHeader));
    }
    let mut requests = Vec::new();
    while let Some(line) = lines.next_line().map_err(Failure::Reading)? {
        requests.push(request(&line).map_err(Failure::Line)?);
    }
    Ok(requests)
}

fn request(line: &Line<'_>) -> Result<Request, Problem> {
    match line {
        Line::Text(bytes) => parse(std::str::from_utf8(bytes).map_err(|_| Problem::NotText)?),
        Line::TooLong => Err(Problem::NotText),
    }
}

fn parse(text: &str) -> Result<Request, Problem> {
    let count = text.split(',').count();
    if count != COLUMN_COUNT {
        return Err(Problem::WrongCount(count));
    }
    let mut values = text.split(',').zip(COLUMNS.split(','));
    let mut value = |low: i64, high: i64| {
        let (text, column) = values.next().unwrap_or_default();
        let value = text.parse().map_err(|_| Problem::NotANumber(column))?;
        if (low..=high).contains(&value) { Ok(value) } else { Err(Problem::OutOfRange(column)) }
    };
    let number = value(i64::MIN, i64::MAX)?;
    let submit = Time(value(0, LONGEST)?);
    let earliest_start = Time(value(0, 4 * LONGEST)?);
    let latest_end = Time(value(0, 4 * LONGEST)?);
    let duration = Seconds(value(1, LONGEST)?);
    let processors = value(1, LARGEST)?;
    if earliest_start < submit {
        return Err(Problem::StartsBeforeSubmit);
    }
    if latest_end < earliest_start + duration {
        return Err(Problem::DoesNotFit);
    }
    let processors = u32::try_from(processors).map_err(|_| Problem::OutOfRange("processors"))?;
    Ok(Request { number, submit, earliest_start, latest_end, duration, processors: Capacity(processors) })
}

/// Writes requests to `out` as plain text.
pub fn write(out: &mut dyn Write, requests: &[Request]) -> io::Result<()> {
    let mut text = format!("{COLUMNS}\n");
    for request in requests {
        let Request { number, submit, earliest_start, latest_end, duration, processors } = request;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{number},{submit},{earliest_start},{latest_end},{duration},{processors}");
    }
    out.write_all(text.as_bytes())
}

/// Writes a file of requests, compressed where the name ends in `.gz`.
pub fn write_file(path: &Path, requests: &[Request]) -> Result<(), FileError> {
    files::write(path, Packing::of_name(path), |out| write(out, requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: Request = Request {
        number: 7,
        submit: Time(10),
        earliest_start: Time(100),
        latest_end: Time(200),
        duration: Seconds(60),
        processors: Capacity(4),
    };

    fn error(text: &str) -> String {
        read("requests.csv", text.as_bytes()).unwrap_err().to_string()
    }

    #[track_caller]
    fn check_line(line: &str, problem: &str) {
        let text = format!("{COLUMNS}\n7,10,100,200,60,4\n{line}\n");
        assert_eq!(error(&text), format!("requests.csv:3: {problem}"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut text = Vec::new();
        write(&mut text, &[EXAMPLE, EXAMPLE]).unwrap();
        assert_eq!(String::from_utf8_lossy(&text).lines().nth(1), Some("7,10,100,200,60,4"));
        assert_eq!(read("x", text.as_slice()).unwrap(), [EXAMPLE, EXAMPLE]);
        assert_eq!(read("x", format!("{COLUMNS}\r\n").as_bytes()).unwrap(), []);
    }

    #[test]
    fn the_header_line_is_required() {
        let expected = format!("requests.csv:1: the first line must be '{COLUMNS}'");
        for text in ["", "\n", "7,10,100,200,60,4\n", &format!("{COLUMNS},note\n")] {
            assert_eq!(error(text), expected);
        }
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong() {
        check_line("", &format!("1 values where 6 belong: {COLUMNS}"));
        check_line("7,10,100,200,60,4,5", &format!("7 values where 6 belong: {COLUMNS}"));
        check_line("7,10,100,200, 60,4", "the value of duration is not a whole number");
        check_line("7,10,1e2,200,60,4", "the value of earliest_start is not a whole number");
        check_line("7,10,100,9223372036854775808,60,4", "the value of latest_end is not a whole number");
        check_line("7,-1,100,200,60,4", "the value of submit is out of range");
        check_line("7,10,100,200,0,4", "the value of duration is out of range");
        check_line("7,10,100,200,60,2147483648", "the value of processors is out of range");
        check_line("7,101,100,200,60,4", "the earliest_start is before the submit time");
        check_line("7,10,100,159,60,4", "the latest_end is before earliest_start + duration");
    }
}
