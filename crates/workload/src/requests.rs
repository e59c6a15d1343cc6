//! Reservation requests: jobs of a workload that need a fixed share of the machine some time ahead instead of a place
//! in the queue. One job of each block of consecutive jobs becomes a request, chosen by the seed; an incomplete last
//! block gives none. Their file has comma-separated whole numbers under a fixed header line, plain or gzip; reading is
//! strict. Whether a request is granted is decided elsewhere.

use crate::files::{self, FileError, Line, Lines, Packing};
use crate::streams::Stream;
use crate::trace::Job;
use crate::{LARGEST, LONGEST};
use bookahead_plan::{Capacity, Seconds, Time};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::Path;
use thiserror::Error;

/// One reservation request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// Number of the original job in the log.
    pub number: i64,
    /// Time at which the request is made.
    pub submit: Time,
    /// Earliest begin of the reservation.
    pub earliest_start: Time,
    /// Latest end of the reservation.
    pub latest_end: Time,
    /// Length of the reservation.
    pub duration: Seconds,
    /// Required share of the machine, in the unit of the trace.
    pub processors: Capacity,
    /// When the reservation is given back, if that is before its end.
    pub released: Option<Time>,
}

/// How jobs are turned into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Size of a block; one job per block becomes a request.
    pub block: usize,
    /// Time from the submission to the earliest start.
    pub book_ahead: Seconds,
    /// How much later the reservation may begin.
    pub window: Seconds,
    /// Chooses the job of each block.
    pub seed: u64,
}

impl Default for Selection {
    /// One in ten, an hour ahead, without a window.
    fn default() -> Selection {
        Selection { block: 10, book_ahead: Seconds(3600), window: Seconds::ZERO, seed: 1 }
    }
}

/// Why no requests can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// The block size is zero.
    #[error("a block of 0 jobs gives no request; give a block of at least 1 job")]
    EmptyBlock,
    /// A duration is negative or too large.
    #[error("{what} of {length} s is out of range; give 0 to 2^40 s")]
    BadLength {
        /// Name of the duration.
        what: &'static str,
        /// The given value, in seconds.
        length: i64,
    },
}

/// Removes one job of each complete block from `jobs`, which must be in order of submission, and returns them as
/// requests in that order. The duration of a request is the actual run time of the job.
pub fn select(jobs: &mut Vec<Job>, selection: &Selection) -> Result<Vec<Request>, SelectionError> {
    check_length("a book-ahead time", selection.book_ahead)?;
    check_length("a window", selection.window)?;
    let last = match selection.block {
        0 => return Err(SelectionError::EmptyBlock),
        block => i64::try_from(block - 1).unwrap_or(i64::MAX),
    };
    let mut stream = Stream::new(selection.seed, "requests/choice");
    let mut requests = Vec::with_capacity(jobs.len() / selection.block);
    let mut rest = Vec::with_capacity(jobs.len() - requests.capacity().min(jobs.len()));
    let blocks = jobs.chunks_exact(selection.block);
    let short_block = blocks.remainder();
    for block in blocks {
        let chosen = usize::try_from(stream.whole(0, last)).unwrap_or(0);
        requests.push(request(&block[chosen], selection));
        rest.extend_from_slice(&block[..chosen]);
        rest.extend_from_slice(&block[chosen + 1..]);
    }
    // An incomplete block gives no request: its jobs would be chosen more often than others.
    rest.extend_from_slice(short_block);
    *jobs = rest;
    Ok(requests)
}

fn check_length(what: &'static str, length: Seconds) -> Result<(), SelectionError> {
    match length.0 {
        0..=LONGEST => Ok(()),
        length => Err(SelectionError::BadLength { what, length }),
    }
}

fn request(job: &Job, selection: &Selection) -> Request {
    let earliest_start = job.submit + selection.book_ahead;
    Request {
        number: job.number,
        submit: job.submit,
        earliest_start,
        latest_end: earliest_start + job.run + selection.window,
        duration: job.run,
        processors: job.processors,
        released: None,
    }
}

/// Header line of the file.
pub const COLUMNS: &str = "job,submit,earliest_start,latest_end,duration,processors";

/// A further column, which is optional.
const RELEASED: &str = "released";

/// Number of values in a line without it.
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
        /// Path, or "standard input".
        name: String,
        /// Number of the line.
        line: u64,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// Problem of a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The first line is not the header.
    #[error("the first line must be '{COLUMNS}', with or without ',{RELEASED}' at its end")]
    NoHeader,
    /// The line is not UTF-8, or too long.
    #[error("this is not a line of text")]
    NotText,
    /// Too few or too many values.
    #[error("{found} values instead of {expected}: {COLUMNS}{}", if *expected > COLUMN_COUNT { ",released" } else { "" })]
    WrongCount {
        /// Values of the line.
        found: usize,
        /// Columns of the file.
        expected: usize,
    },
    /// A value is not a whole number.
    #[error("the value of {0} is not a whole number")]
    NotANumber(&'static str),
    /// A value is outside its range.
    #[error("the value of {0} is out of range")]
    OutOfRange(&'static str),
    /// The reservation would begin before the request is made.
    #[error("the earliest_start is before the submit time")]
    StartsBeforeSubmit,
    /// The reservation would be given back before the request is made.
    #[error("it is released before the submit time")]
    ReleasedBeforeSubmit,
    /// The reservation does not fit into its window.
    #[error("the latest_end is before earliest_start + duration")]
    DoesNotFit,
}

/// Reads a file of requests, plain or gzip; `-` is standard input.
pub fn load(path: &Path) -> Result<Vec<Request>, RequestsError> {
    let (name, source) = files::open(path)?;
    read(name, source)
}

/// Reads requests from `source`, plain or gzip; errors call it `name`.
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

/// Why reading stopped at the present line.
enum Failure {
    Reading(io::Error),
    Line(Problem),
}

fn read_all<R: Read>(lines: &mut Lines<R>) -> Result<Vec<Request>, Failure> {
    let with_released = match lines.next_line().map_err(Failure::Reading)? {
        Some(Line::Text(line)) if line == COLUMNS.as_bytes() => false,
        Some(Line::Text(line)) if line == format!("{COLUMNS},{RELEASED}").as_bytes() => true,
        _ => return Err(Failure::Line(Problem::NoHeader)),
    };
    let mut requests = Vec::new();
    while let Some(line) = lines.next_line().map_err(Failure::Reading)? {
        requests.push(request_of(&line, with_released).map_err(Failure::Line)?);
    }
    Ok(requests)
}

fn request_of(line: &Line<'_>, with_released: bool) -> Result<Request, Problem> {
    match line {
        Line::Text(bytes) => parse(std::str::from_utf8(bytes).map_err(|_| Problem::NotText)?, with_released),
        Line::TooLong => Err(Problem::NotText),
    }
}

fn parse(text: &str, with_released: bool) -> Result<Request, Problem> {
    // Counted first, so that a missing value is not reported as a bad number of another column.
    let (found, expected) = (text.split(',').count(), COLUMN_COUNT + usize::from(with_released));
    if found != expected {
        return Err(Problem::WrongCount { found, expected });
    }
    let released = text.rsplit(',').next().filter(|text| with_released && !text.is_empty());
    let released =
        released.map(|text| text.parse().map_err(|_| Problem::NotANumber(RELEASED))).transpose()?;
    let mut values = text.split(',').zip(COLUMNS.split(','));
    let mut value = |low: i64, high: i64| {
        let (text, column) = values.next().unwrap_or_default();
        let value = text.parse().map_err(|_| Problem::NotANumber(column))?;
        if (low..=high).contains(&value) { Ok(value) } else { Err(Problem::OutOfRange(column)) }
    };
    let number = value(i64::MIN, i64::MAX)?;
    let submit = Time(value(0, LONGEST)?);
    // Sums of up to four values, each at most `LONGEST`: submit, book-ahead time, duration and window.
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
    if released.is_some_and(|released| released < submit.0) {
        return Err(Problem::ReleasedBeforeSubmit);
    }
    let processors = u32::try_from(processors).map_err(|_| Problem::OutOfRange("processors"))?;
    Ok(Request {
        number,
        submit,
        earliest_start,
        latest_end,
        duration,
        processors: Capacity(processors),
        released: released.map(Time),
    })
}

/// Writes requests to `out` as plain text.
pub fn write(out: &mut dyn Write, requests: &[Request]) -> io::Result<()> {
    // Only with a value in it, so that files of requests that are all kept stay as they were.
    let with_released = requests.iter().any(|request| request.released.is_some());
    let mut text = COLUMNS.to_owned();
    if with_released {
        text += ",";
        text += RELEASED;
    }
    text.push('\n');
    for request in requests {
        let Request { number, submit, earliest_start, latest_end, duration, processors, released } = request;
        // Writing to a string cannot fail.
        let _ = write!(text, "{number},{submit},{earliest_start},{latest_end},{duration},{processors}");
        if with_released {
            let _ = write!(text, ",{}", released.map_or_else(String::new, |time| time.to_string()));
        }
        text.push('\n');
    }
    out.write_all(text.as_bytes())
}

/// Writes a file of requests, compressed if the name ends in `.gz`.
pub fn write_file(path: &Path, requests: &[Request]) -> Result<(), FileError> {
    files::write(path, Packing::of_name(path), |out| write(out, requests))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Capacity, Time};

    fn jobs(count: i64) -> Vec<Job> {
        let job = |number: i64| Job {
            number,
            submit: Time(number * 10),
            run: Seconds(60 + number),
            request: Seconds(3600),
            processors: Capacity(4),
            user: 0,
        };
        (0..count).map(job).collect()
    }

    #[test]
    fn each_full_block_gives_one_request_and_all_else_stays() {
        let mut rest = jobs(25);
        let requests = select(&mut rest, &Selection::default()).unwrap();
        let numbers: Vec<_> = requests.iter().map(|request| request.number).collect();
        assert_eq!((numbers.len(), rest.len()), (2, 23));
        assert!((0..10).contains(&numbers[0]) && (10..20).contains(&numbers[1]), "{numbers:?}");
        let expected: Vec<_> = jobs(25).into_iter().filter(|job| !numbers.contains(&job.number)).collect();
        assert_eq!(rest, expected);
    }

    #[test]
    fn a_request_has_the_jobs_size_and_run_time() {
        let selection = Selection { block: 1, book_ahead: Seconds(100), window: Seconds(7), seed: 1 };
        let mut rest = jobs(1);
        let request = select(&mut rest, &selection).unwrap()[0];
        assert!(rest.is_empty());
        let expected = Request {
            number: 0,
            submit: Time(0),
            earliest_start: Time(100),
            latest_end: Time(167),
            duration: Seconds(60),
            processors: Capacity(4),
            released: None,
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn the_seed_alone_chooses() {
        let chosen = |seed| select(&mut jobs(1000), &Selection { seed, ..Selection::default() }).unwrap();
        assert_eq!(chosen(1), chosen(1));
        assert_ne!(chosen(1), chosen(2));
    }

    #[test]
    fn every_place_in_a_block_is_chosen_about_as_often() {
        let mut counts = [0; 10];
        for request in select(&mut jobs(20_000), &Selection::default()).unwrap() {
            counts[usize::try_from(request.number % 10).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (150..250).contains(count)), "{counts:?}");
    }

    #[test]
    fn impossible_selections_are_refused() {
        let refused = |selection| select(&mut jobs(10), &selection).is_err();
        assert!(refused(Selection { block: 0, ..Selection::default() }));
        assert!(refused(Selection { window: Seconds(-1), ..Selection::default() }));
        assert!(refused(Selection { book_ahead: Seconds(i64::MAX), ..Selection::default() }));
        let huge = Selection { block: usize::MAX, ..Selection::default() };
        assert_eq!(select(&mut jobs(10), &huge), Ok(vec![]));
    }
}

#[cfg(test)]
mod file_tests {
    use super::*;

    const EXAMPLE: Request = Request {
        number: 7,
        submit: Time(10),
        earliest_start: Time(100),
        latest_end: Time(200),
        duration: Seconds(60),
        processors: Capacity(4),
        released: None,
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
    fn an_early_release_is_a_further_column() {
        let requests = [Request { released: Some(Time(50)), ..EXAMPLE }, EXAMPLE];
        let mut text = Vec::new();
        write(&mut text, &requests).unwrap();
        let lines = format!("{COLUMNS},released\n7,10,100,200,60,4,50\n7,10,100,200,60,4,\n");
        assert_eq!(String::from_utf8_lossy(&text), lines);
        assert_eq!(read("x", text.as_slice()).unwrap(), requests);
        assert_eq!(
            error(&format!("{COLUMNS},released\n7,10,100,200,60,4,9\n")),
            "requests.csv:2: it is released before the submit time"
        );
    }

    #[test]
    fn the_header_line_is_required() {
        let expected = format!(
            "requests.csv:1: the first line must be '{COLUMNS}', with or without ',released' at its end"
        );
        for text in ["", "\n", "7,10,100,200,60,4\n", &format!("{COLUMNS},note\n")] {
            assert_eq!(error(text), expected);
        }
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong() {
        check_line("", &format!("1 values instead of 6: {COLUMNS}"));
        check_line("7,10,100,200,60,4,5", &format!("7 values instead of 6: {COLUMNS}"));
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
