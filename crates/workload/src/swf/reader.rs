//! Reads a log as a stream: the header first, then the outcome of each job line. It keeps one buffer and one
//! record for a file of any size. It never panics on any input, and never treats a damaged file as one that has
//! ended.

use super::header::Header;
use super::number;
use super::record::Record;
use crate::files::{self, FileError, Line, Lines};
use crate::reason::{Mends, Reason};
use std::io::Read;
use std::path::Path;

/// Largest header that is kept, in bytes: far above the largest in the archive, about 30 KB. Further lines are
/// skipped.
const LARGEST_HEADER: usize = 4 * 1024 * 1024;

/// A line that is neither blank nor a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLine {
    /// Number of the line in the file; the first is 1.
    pub line: u64,
    /// Whether the line gives a record.
    pub outcome: Outcome,
}

/// Result of parsing a job line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The line was parsed, with these corrections; see [`Reader::record`].
    Sound(Mends),
    /// The line has no usable record.
    Dropped(Reason),
}

/// Reads a log from a plain or gzip stream.
pub struct Reader<R: Read> {
    name: String,
    lines: Lines<R>,
    header: Header,
    header_room: usize,
    record: Record,
    first_malformed: Option<Malformed>,
}

/// A line that is no job line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Number of the line in the file; the first is 1.
    pub line: u64,
    /// Its first bytes, at most [`Malformed::MOST`]; empty if the line is too long to be kept.
    pub beginning: Vec<u8>,
}

impl Malformed {
    /// Most bytes kept: enough to recognise the format of a file, and for an error message.
    pub const MOST: usize = 40;

    /// The format of the file, by its first line.
    pub(crate) fn looks_like(&self) -> &'static str {
        let begins = |with: &[u8]| self.beginning.trim_ascii_start().starts_with(with);
        if begins(b"\x89PNG") || begins(b"GIF8") || begins(b"\xff\xd8\xff") {
            "an image"
        } else if begins(b"PK\x03\x04") || begins(b"BZh") || begins(b"\xfd7zXZ") || begins(b"(\xb5/\xfd") {
            "an archive; unpack it first, or use gzip"
        } else if std::str::from_utf8(&self.beginning).is_err_and(|error| error.error_len().is_some())
            || self.beginning.contains(&0)
        {
            // A character that is cut off at the end of the kept bytes has no `error_len`: it may be text.
            "a binary file"
        } else if begins(b"{") || begins(b"[") {
            "JSON"
        } else if begins(b"<") {
            "HTML or XML"
        } else if self.beginning.contains(&b',') || self.beginning.contains(&b';') {
            "a table with separators (CSV)"
        } else {
            "text"
        }
    }
}

impl Reader<Box<dyn Read>> {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Reader<Box<dyn Read>>, FileError> {
        let (name, source) = files::open(path)?;
        Reader::new(name, source)
    }
}

impl<R: Read> Reader<R> {
    /// Reads from `source`; errors call it `name`.
    pub fn new(name: impl Into<String>, source: R) -> Result<Reader<R>, FileError> {
        let name = name.into();
        match Lines::new(source) {
            Ok(lines) => Ok(Reader {
                name,
                lines,
                header: Header::default(),
                header_room: LARGEST_HEADER,
                record: Record::BLANK,
                first_malformed: None,
            }),
            Err(cause) => Err(FileError::Read { name, line: 1, cause }),
        }
    }

    /// Name of the source in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The header as far as it was read: complete after the first job line. Comments between job lines do not
    /// belong to it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Fields of the last sound job line.
    #[inline]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The first line that is no job line, as far as the source was read.
    pub(crate) fn first_malformed(&self) -> Option<&Malformed> {
        self.first_malformed.as_ref()
    }

    /// Drops the rest of the source and returns the header.
    pub fn into_header(self) -> Header {
        self.header
    }

    /// The next job line, or `None` at the end.
    #[inline]
    pub fn next_job(&mut self) -> Result<Option<JobLine>, FileError> {
        loop {
            let parsed = match self.lines.next_line() {
                Ok(Some(Line::Text(bytes))) => match bytes.get(number::skip_blanks(bytes, 0)) {
                    None => continue,
                    Some(b';') => {
                        keep(&mut self.header, &mut self.header_room, bytes);
                        continue;
                    }
                    Some(_) => {
                        let parsed = Record::parse(bytes);
                        if matches!(parsed, Err(Reason::MalformedLine)) && self.first_malformed.is_none() {
                            let beginning = bytes[..bytes.len().min(Malformed::MOST)].to_vec();
                            // The number is filled in below, for this and for lines that are too long.
                            self.first_malformed = Some(Malformed { line: 0, beginning });
                        }
                        parsed
                    }
                },
                Ok(Some(Line::TooLong)) => {
                    let too_long = || Malformed { line: 0, beginning: Vec::new() };
                    self.first_malformed.get_or_insert_with(too_long);
                    Err(Reason::LineTooLong)
                }
                Ok(None) => return Ok(None),
                Err(cause) => return Err(self.failure(cause)),
            };
            // The header ends with the first job line.
            self.header_room = 0;
            let line = self.lines.number();
            if let Some(malformed) = self.first_malformed.as_mut().filter(|malformed| malformed.line == 0) {
                malformed.line = line;
            }
            let outcome = match parsed {
                Ok((record, mends)) => {
                    self.record = record;
                    Outcome::Sound(mends)
                }
                Err(reason) => Outcome::Dropped(reason),
            };
            return Ok(Some(JobLine { line, outcome }));
        }
    }

    #[cold]
    fn failure(&self, cause: std::io::Error) -> FileError {
        FileError::Read { name: self.name.clone(), line: self.lines.number(), cause }
    }
}

/// Adds a comment line to the header while there is room.
#[cold]
fn keep(header: &mut Header, room: &mut usize, line: &[u8]) {
    if line.len() < *room {
        *room -= line.len() + 1;
        header.push_line(line.trim_ascii_start().to_vec());
    } else {
        // No later line is kept either, so that the header has no gap.
        *room = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line numbers of the job lines, with the job's number or why there is none.
    fn outcomes(text: &[u8]) -> Vec<(u64, Result<i64, Reason>)> {
        let mut reader = Reader::new("test", text).unwrap();
        let mut all = Vec::new();
        while let Some(job) = reader.next_job().unwrap() {
            all.push((
                job.line,
                match job.outcome {
                    Outcome::Sound(_) => Ok(reader.record().job),
                    Outcome::Dropped(reason) => Err(reason),
                },
            ));
        }
        all
    }

    #[test]
    fn comments_and_blank_lines_are_no_job_lines_wherever_they_stand() {
        let text = b"; MaxProcs: 8\n\n1 0\n \t\r\n; in between\n  ; indented\n2 0\nx\n3 0";
        assert_eq!(outcomes(text), [(3, Ok(1)), (7, Ok(2)), (8, Err(Reason::MalformedLine)), (9, Ok(3))]);
    }

    #[test]
    fn the_header_is_what_stands_before_the_first_job_line() {
        let mut reader = Reader::new("test", &b" ; MaxProcs: 8\r\n1 0\n; MaxNodes: 4\n2 0\n"[..]).unwrap();
        while reader.next_job().unwrap().is_some() {}
        assert_eq!(reader.header().lines().collect::<Vec<_>>(), [b"; MaxProcs: 8"]);
    }

    #[test]
    fn windows_line_ends_and_a_byte_order_mark_are_read_over() {
        assert_eq!(outcomes(b"\xef\xbb\xbf;x\r\n1 0\r\n2 0\r\n"), [(2, Ok(1)), (3, Ok(2))]);
    }

    #[test]
    fn a_line_beyond_the_bound_is_dropped() {
        let text = format!("1 0\n{}\n2 0\n", "7 ".repeat(40_000));
        assert_eq!(outcomes(text.as_bytes()), [(1, Ok(1)), (2, Err(Reason::LineTooLong)), (3, Ok(2))]);
    }

    #[test]
    fn a_header_without_end_is_not_kept_without_end() {
        let text = format!("; {}\n", "x".repeat(60_000)).repeat(100) + "1 0\n";
        let mut reader = Reader::new("test", text.as_bytes()).unwrap();
        assert!(reader.next_job().unwrap().is_some());
        assert!(reader.header().lines().map(<[u8]>::len).sum::<usize>() <= LARGEST_HEADER);
    }

    #[test]
    fn a_directory_is_an_error_that_says_so() {
        let error = Reader::open(Path::new(env!("CARGO_MANIFEST_DIR"))).err().unwrap();
        assert!(error.to_string().ends_with("give a file, not a directory"), "{error}");
    }
}
