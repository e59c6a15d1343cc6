//! The `;` lines at the head of a log, kept unchanged and in order, with access to directives such as `; MaxProcs:
//! 128`: a value that is not a number is unknown, nothing is guessed. Also the writer of a log: the header unchanged,
//! then one line per job with its fields separated by single blanks. A written log is read back equal.

use super::record::Record;
use crate::files::{self, FileError, Packing};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

/// The header of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    lines: Vec<Vec<u8>>,
}

impl Header {
    /// Adds `; key: value`.
    pub fn push(&mut self, key: &str, value: impl std::fmt::Display) {
        self.push_comment(&format!("{key}: {value}"));
    }

    /// Makes `value` the only value of `key`, at the place of its first line or at the end.
    pub fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        let is_key =
            |line: &[u8]| directive(line).is_some_and(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()));
        let place = self.lines().position(is_key).unwrap_or(self.lines.len());
        // `place` stays valid: no line before it is removed.
        self.lines.retain(|line| !is_key(line));
        self.lines.insert(place, format!("; {key}: {value}").into_bytes());
    }

    /// Adds `; text`; line breaks in it become blanks.
    pub fn push_comment(&mut self, text: &str) {
        self.push_line(format!("; {}", text.replace(['\n', '\r'], " ")).into_bytes());
    }

    /// Adds a line unchanged, from its semicolon on, without its line end.
    pub(super) fn push_line(&mut self, line: Vec<u8>) {
        self.lines.push(line);
    }

    /// All lines unchanged, without line ends.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(Vec::as_slice)
    }

    /// All directives, in order.
    pub fn directives(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.lines()
            .filter_map(directive)
            .map(|(key, value)| (String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
    }

    /// The value of the first directive `key`, ignoring case.
    pub fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        let value =
            self.lines().filter_map(directive).find(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()));
        value.map(|(_, value)| String::from_utf8_lossy(value))
    }

    /// The number at the beginning of the value of `key`; text may follow it.
    pub fn number(&self, key: &str) -> Option<i64> {
        leading_number(&self.get(key)?)
    }

    /// `UnixStartTime`: the origin of times in the log, in seconds since the Unix epoch.
    pub fn unix_start_time(&self) -> Option<i64> {
        self.number("UnixStartTime")
    }

    /// Size of the machine: `MaxProcs`, or `MaxNodes` if that is absent or unknown (-1).
    pub fn processors(&self) -> Option<i64> {
        // An unreadable `MaxProcs` is an error to report, not a reason to use the number of nodes silently.
        match self.get("MaxProcs").map(|value| leading_number(&value)) {
            None | Some(Some(..0)) => self.number("MaxNodes"),
            Some(count) => count,
        }
    }
}

/// Key and value of a line that has both. A key is one word.
fn directive(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let key = line[..colon].trim_ascii_start().strip_prefix(b";")?.trim_ascii();
    // A sentence of a comment may have a colon too.
    let word = !key.is_empty() && key.iter().all(u8::is_ascii_alphanumeric);
    word.then(|| (key, line[colon + 1..].trim_ascii()))
}

/// The whole number at the beginning of `value`. The text after it must not continue the number: `1,152` and `2.5` are
/// not read as 1 and 2.
fn leading_number(value: &str) -> Option<i64> {
    let sign = usize::from(value.starts_with('-'));
    let digits = value[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = value[sign + digits..].bytes();
    let goes_on = match rest.next() {
        Some(b',' | b'.') => rest.next().is_some_and(|byte| byte.is_ascii_digit()),
        Some(byte) => byte.is_ascii_alphanumeric(),
        None => false,
    };
    if goes_on { None } else { value[..sign + digits].parse().ok() }
}

/// Size of the blocks that are written: large enough to make system calls rare.
const BLOCK: usize = 64 * 1024;

/// Most digits of a 64-bit number.
const LONGEST_NUMBER: usize = 20;

/// Writes header and jobs to `out` as plain text.
pub fn write<'a>(
    out: &mut dyn Write,
    header: &Header,
    records: impl IntoIterator<Item = &'a Record>,
) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK + 512);
    for line in header.lines() {
        block.extend_from_slice(line);
        block.push(b'\n');
    }
    for record in records {
        append_record(&mut block, record);
        if block.len() >= BLOCK {
            out.write_all(&block)?;
            block.clear();
        }
    }
    out.write_all(&block)
}

/// Writes a file, compressed if the name ends in `.gz`.
pub fn write_file<'a>(
    path: &Path,
    header: &Header,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<(), FileError> {
    write_file_as(path, Packing::of_name(path), header, records)
}

/// Writes a file with the given compression, whatever its name.
pub fn write_file_as<'a>(
    path: &Path,
    packing: Packing,
    header: &Header,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<(), FileError> {
    files::write(path, packing, |out| write(out, header, records))
}

fn append_record(block: &mut Vec<u8>, record: &Record) {
    let before = [record.job, record.submit, record.wait, record.run, record.allocated_processors];
    let after = [
        record.used_memory,
        record.requested_processors,
        record.requested_time,
        record.requested_memory,
        record.status,
        record.user,
        record.group,
        record.executable,
        record.queue,
        record.partition,
        record.preceding_job,
        record.think_time,
    ];
    for value in before {
        append_whole(block, value);
        block.push(b' ');
    }
    append_real(block, record.average_cpu_time);
    for value in after {
        block.push(b' ');
        append_whole(block, value);
    }
    block.push(b'\n');
}

fn append_whole(block: &mut Vec<u8>, value: i64) {
    let mut text = [0; LONGEST_NUMBER];
    let mut begin = text.len();
    // The smallest `i64` has no positive counterpart of the same type.
    let mut rest = value.unsigned_abs();
    loop {
        begin -= 1;
        // The remainder is below ten.
        text[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        block.push(b'-');
    }
    block.extend_from_slice(&text[begin..]);
}

/// Writes the fewest digits that give the same number again; NaN and infinity as unknown.
fn append_real(block: &mut Vec<u8>, value: f64) {
    // The cast never fails: it saturates, and NaN becomes 0.
    let whole = value as i64;
    if !value.is_finite() {
        append_whole(block, super::UNKNOWN);
    } else if whole as f64 == value && whole.unsigned_abs() < 1 << 53 {
        append_whole(block, whole);
    } else {
        block.extend_from_slice(value.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_is_replaced_where_it_stands() {
        let mut header = Header::default();
        for (key, value) in [("Version", 2), ("maxprocs", 10), ("MaxJobs", 7), ("MaxProcs", 12)] {
            header.push(key, value);
        }
        header.set("MaxProcs", 5);
        header.set("MaxNodes", 5);
        let lines: Vec<_> = header.lines().map(String::from_utf8_lossy).collect();
        assert_eq!(lines, ["; Version: 2", "; MaxProcs: 5", "; MaxJobs: 7", "; MaxNodes: 5"]);
    }

    fn header(lines: &[&str]) -> Header {
        Header { lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn directives_are_found_however_they_are_set() {
        let header =
            header(&[";       MaxProcs: 2004", ";maxnodes:151", "; TimeZoneString: Europe/Luxembourg"]);
        assert_eq!(header.number("MaxProcs"), Some(2004));
        assert_eq!(header.number("MaxNodes"), Some(151));
        assert_eq!(header.get("TimeZoneString").as_deref(), Some("Europe/Luxembourg"));
        assert_eq!(header.number("MaxJobs"), None);
    }

    #[test]
    fn text_may_follow_a_number_but_not_change_it() {
        assert_eq!(leading_number("338 (batch partition; 512 total)"), Some(338));
        assert_eq!(leading_number("-1"), Some(-1));
        for value in ["1,152", "2.5", "12k", "many", "", "-", "99999999999999999999"] {
            assert_eq!(leading_number(value), None, "{value}");
        }
    }

    #[test]
    fn the_machine_is_max_procs_else_max_nodes() {
        assert_eq!(header(&["; MaxNodes: 144", "; MaxProcs: 1152"]).processors(), Some(1152));
        assert_eq!(header(&["; MaxNodes: 144"]).processors(), Some(144));
        assert_eq!(header(&["; MaxNodes: 144", "; MaxProcs: -1"]).processors(), Some(144));
        assert_eq!(header(&["; MaxNodes: 144", "; MaxProcs: 1,152"]).processors(), None);
        assert_eq!(header(&["; Note: none"]).processors(), None);
    }

    #[test]
    fn prose_is_not_a_directive() {
        let header = header(&[";", ";   see: here", "; the filter was: user", ";:x", "; Note: a: b"]);
        let directives: Vec<_> = header.directives().collect();
        assert_eq!(directives, [("see".into(), "here".into()), ("Note".into(), "a: b".into())]);
    }

    #[test]
    fn what_is_pushed_is_found_and_stays_one_line() {
        let mut header = Header::default();
        header.push("MaxProcs", 64);
        header.push_comment("two\nlines");
        assert_eq!(header.processors(), Some(64));
        assert_eq!(header.lines().collect::<Vec<_>>(), [b"; MaxProcs: 64".as_slice(), b"; two lines"]);
    }
}

#[cfg(test)]
mod writer_tests {
    use super::*;

    fn written(record: &Record) -> String {
        let mut block = Vec::new();
        append_record(&mut block, record);
        String::from_utf8(block).unwrap()
    }

    #[test]
    fn an_unknown_job_is_eighteen_times_minus_one() {
        assert_eq!(written(&Record::BLANK), format!("{}\n", ["-1"; 18].join(" ")));
    }

    #[test]
    fn whole_numbers_are_written_to_the_last_digit() {
        for value in [0, 7, -7, 10, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut block = Vec::new();
            append_whole(&mut block, value);
            assert_eq!(block, value.to_string().as_bytes());
        }
    }

    #[test]
    fn reals_have_no_needless_digits() {
        for (value, text) in
            [(142.0, "142"), (552.21, "552.21"), (-1.0, "-1"), (0.1, "0.1"), (f64::NAN, "-1")]
        {
            let mut block = Vec::new();
            append_real(&mut block, value);
            assert_eq!(String::from_utf8(block).unwrap(), text);
        }
    }

    #[test]
    fn the_header_goes_first_and_as_it_is() {
        let mut header = Header::default();
        header.push("MaxProcs", 8);
        let mut out = Vec::new();
        write(&mut out, &header, [&Record { job: 1, ..Record::BLANK }]).unwrap();
        assert!(out.starts_with(b"; MaxProcs: 8\n1 -1 "));
    }
}
