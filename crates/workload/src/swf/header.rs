//! The `;` lines at the head of a log: kept as they are and in order, so that the log can be written again,
//! and asked for directives such as `; MaxProcs: 128`. A value that cannot be read as a number is unknown;
//! nothing here guesses.

use std::borrow::Cow;

/// The header of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    lines: Vec<Vec<u8>>,
}

impl Header {
    /// A header without a line.
    pub fn new() -> Header {
        Header::default()
    }

    /// Adds `; key: value`.
    pub fn push(&mut self, key: &str, value: impl std::fmt::Display) {
        self.push_comment(&format!("{key}: {value}"));
    }

    /// Makes `value` the only value of `key`, where its first line stands or else at the end.
    pub fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        let is_key =
            |line: &[u8]| directive(line).is_some_and(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()));
        let place = self.lines().position(is_key).unwrap_or(self.lines.len());
        self.lines.retain(|line| !is_key(line));
        self.lines.insert(place, format!("; {key}: {value}").into_bytes());
    }

    /// Adds `; text`; a line break within becomes a blank.
    pub fn push_comment(&mut self, text: &str) {
        self.push_line(format!("; {}", text.replace(['\n', '\r'], " ")).into_bytes());
    }

    /// Adds a line as it was read, from its semicolon on, without line end.
    pub(super) fn push_line(&mut self, line: Vec<u8>) {
        self.lines.push(line);
    }

    /// All lines as they stand in the file, without line ends.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(Vec::as_slice)
    }

    /// All directives, in order.
    pub fn directives(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.lines()
            .filter_map(directive)
            .map(|(key, value)| (String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
    }

    /// The value of the first directive `key`, whatever its case.
    pub fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        let value =
            self.lines().filter_map(directive).find(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()));
        value.map(|(_, value)| String::from_utf8_lossy(value))
    }

    /// The number with which the value of `key` begins; text may follow it.
    pub fn number(&self, key: &str) -> Option<i64> {
        leading_number(&self.get(key)?)
    }

    /// `MaxProcs`: the processors of the machine.
    pub fn max_procs(&self) -> Option<i64> {
        self.number("MaxProcs")
    }

    /// `MaxNodes`: the nodes of the machine.
    pub fn max_nodes(&self) -> Option<i64> {
        self.number("MaxNodes")
    }

    /// `MaxJobs`: the jobs of the log before it was cleaned.
    pub fn max_jobs(&self) -> Option<i64> {
        self.number("MaxJobs")
    }

    /// `UnixStartTime`: the instant from which the log counts, in seconds since the Unix epoch.
    pub fn unix_start_time(&self) -> Option<i64> {
        self.number("UnixStartTime")
    }

    /// `TimeZoneString`: where the machine stood, as in `Europe/Stockholm`.
    pub fn time_zone(&self) -> Option<Cow<'_, str>> {
        self.get("TimeZoneString")
    }

    /// The size of the machine: `MaxProcs`, or `MaxNodes` where that is absent or unknown (-1).
    pub fn processors(&self) -> Option<i64> {
        match self.get("MaxProcs") {
            // A size that cannot be read must not be replaced by a count of nodes behind the user's back.
            Some(value) => match leading_number(&value) {
                Some(count) if count < 0 => self.max_nodes(),
                count => count,
            },
            None => self.max_nodes(),
        }
    }
}

/// Key and value of a line, where it has both. A key is one word.
fn directive(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let key = line[..colon].trim_ascii_start().strip_prefix(b";")?.trim_ascii();
    let word = !key.is_empty() && key.iter().all(u8::is_ascii_alphanumeric);
    word.then(|| (key, line[colon + 1..].trim_ascii()))
}

/// The whole number at the head of `value`. What follows it must not make it another number: `1,152` and
/// `2.5` are not read as 1 and 2.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_is_replaced_where_it_stands() {
        let mut header = Header::new();
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
        assert_eq!(header.max_procs(), Some(2004));
        assert_eq!(header.max_nodes(), Some(151));
        assert_eq!(header.time_zone().as_deref(), Some("Europe/Luxembourg"));
        assert_eq!(header.max_jobs(), None);
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
        let mut header = Header::new();
        header.push("MaxProcs", 64);
        header.push_comment("two\nlines");
        assert_eq!(header.processors(), Some(64));
        assert_eq!(header.lines().collect::<Vec<_>>(), [b"; MaxProcs: 64".as_slice(), b"; two lines"]);
    }
}
