//! Output of all commands: messages on standard error, JSON, tables and formatted numbers on standard output, files,
//! and progress. A failed write to standard error never fails a command. A bar appears only on a terminal, and only once
//! the work has taken longer than [`QUIET_FOR`]; elsewhere there is a line every [`LINE_EVERY`] seconds.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fmt::Arguments;
use std::io::{self, IsTerminal, StdoutLock, Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Prints one line to standard error. Unlike `eprintln!` it does not panic if standard error is closed.
macro_rules! say {
    ($($part:tt)*) => { $crate::output::line(format_args!($($part)*)) };
}

pub(crate) use say;

pub(crate) fn line(text: Arguments<'_>) {
    let _ = writeln!(Escaped(stderr()), "{text}");
}

/// Standard output with control characters escaped.
pub(crate) fn stdout() -> Escaped<StdoutLock<'static>> {
    Escaped(io::stdout().lock())
}

/// Escapes control and bidirectional characters as `\u` and four digits. Names and messages come from servers and the
/// sites behind them: they must not move the cursor, set colours or hide text. JSON keeps its meaning with these
/// escapes.
pub(crate) struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Formatting always writes whole characters, so invalid UTF-8 is binary data for a file or a pipe.
        let Ok(text) = str::from_utf8(bytes) else { return self.0.write(bytes) };
        let mut done = 0;
        for (at, character) in text.char_indices().filter(|(_, character)| is_unsafe(*character)) {
            // iCalendar requires CRLF line ends.
            if character == '\r' && text[at + 1..].starts_with('\n') {
                continue;
            }
            self.0.write_all(&bytes[done..at])?;
            write!(self.0, "\\u{:04x}", u32::from(character))?;
            done = at + character.len_utf8();
        }
        self.0.write_all(&bytes[done..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A text with the same escapes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = Escaped(Vec::new());
    // Writing to memory does not fail.
    let _ = out.write_all(text.as_bytes());
    String::from_utf8_lossy(&out.0).into_owned()
}

/// A text with the same escapes, except that a carriage return stays: programs use it to show their progress.
pub(crate) fn escape_except_returns(text: &str) -> String {
    text.split('\r').map(escaped).collect::<Vec<_>>().join("\r")
}

fn is_unsafe(character: char) -> bool {
    let directs = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks_line = matches!(character, '\u{2028}' | '\u{2029}');
    directs || breaks_line || character.is_control() && !matches!(character, '\n' | '\t')
}

/// Prints `value` and a line end. Returns the error of standard output itself: the caller must tell a closed pipe from
/// a full disk.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = stdout();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)
}

pub(crate) fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| {
        format!("{} cannot be written; check the folder and its permissions", path.display())
    })
}

pub(crate) fn save_and_tell(path: &Path, text: &str) -> Result<()> {
    save(path, text)?;
    say!("wrote {}", path.display());
    Ok(())
}

/// `jobs.csv` as `jobs.easy.csv`.
pub(crate) fn named_for(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // At the first dot, so that an ending such as `.swf.gz` stays whole.
    let (stem, ending) = name.split_once('.').unwrap_or((&name, ""));
    let dot = if ending.is_empty() { "" } else { "." };
    path.with_file_name(format!("{stem}.{what}{dot}{ending}"))
}

/// `243306` as `243,306`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds as their two largest units: `45s`, `3m 20s`, `1h 54m`, `4d 2h`.
pub(crate) fn length(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60, whole % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m {rest:02}s"),
        (0, _, _) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// `1 job`, `2 jobs`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Shorter work shows no bar, which would only flicker.
const QUIET_FOR: Duration = Duration::from_millis(400);

/// Seconds between two lines of progress if standard error is a file or a pipe, which shows no bar.
const LINE_EVERY: u64 = 10;

/// Progress towards `total`; [`Progress::add`] may be called from several threads.
pub(crate) struct Progress {
    begun: Instant,
    total: u64,
    what: &'static str,
    done: AtomicU64,
    /// Seconds since the begin at which the next line is due.
    next_line: AtomicU64,
    quiet: bool,
    on_terminal: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// `what` is the unit in the plural, such as `jobs`.
    pub(crate) fn new(total: u64, what: &'static str, quiet: bool) -> Progress {
        let (begun, done, bar) = (Instant::now(), AtomicU64::new(0), OnceLock::new());
        let next_line = AtomicU64::new(LINE_EVERY);
        Progress { begun, total, what, done, next_line, quiet, on_terminal: stderr().is_terminal(), bar }
    }

    pub(crate) fn add(&self, more: u64) {
        // Relaxed, because the number is only displayed and no other data depends on it.
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        if self.quiet {
            return;
        }
        let elapsed = self.begun.elapsed();
        if self.on_terminal && elapsed > QUIET_FOR {
            self.bar.get_or_init(|| bar(self.total, self.what)).set_position(done);
        } else if !self.on_terminal && self.is_line_due(elapsed.as_secs()) {
            let left = elapsed.as_secs_f64() * self.total.saturating_sub(done) as f64 / done.max(1) as f64;
            let (done, total, left) = (count(done), count(self.total), length(left));
            say!("{done} of {total} {}, about {left} left", self.what);
        }
    }

    /// Whether a line is due after this time. Of several threads only one gets it.
    fn is_line_due(&self, seconds: u64) -> bool {
        let due = self.next_line.load(Ordering::Relaxed);
        let next = seconds.saturating_add(LINE_EVERY);
        let taken = |now| self.next_line.compare_exchange(now, next, Ordering::Relaxed, Ordering::Relaxed);
        seconds >= due && taken(due).is_ok()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = format!("{{bar:40}} {{human_pos}} of {{human_len}} {what}, {{eta}} left");
    bar.set_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

pub(crate) fn threads(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_server_cannot_control_the_terminal() {
        let hostile = "a\u{1b}[31mred\u{9b}2J\u{202e}txt.exe\u{2066}\r\u{7f}\u{8}é\tok\r\n";
        let mut out = Escaped(Vec::new());
        write!(out, "{hostile}").unwrap();
        let shown = String::from_utf8(out.0).unwrap();
        assert_eq!(shown, "a\\u001b[31mred\\u009b2J\\u202etxt.exe\\u2066\\u000d\\u007f\\u0008é\tok\r\n");
        let mut out = Escaped(Vec::new());
        serde_json::to_writer(&mut out, hostile).unwrap();
        assert_eq!(serde_json::from_slice::<String>(&out.0).unwrap(), hostile, "JSON means the same");
    }

    #[test]
    fn a_line_of_progress_is_due_at_most_every_ten_seconds() {
        let progress = Progress::new(100, "jobs", false);
        let due: Vec<u64> = (0..35).filter(|second| progress.is_line_due(*second)).collect();
        assert_eq!(due, [10, 20, 30]);
        assert!(progress.is_line_due(95) && !progress.is_line_due(104) && progress.is_line_due(105));
    }

    #[test]
    fn what_a_file_is_for_goes_before_its_ending() {
        assert_eq!(named_for(Path::new("a.b/jobs.swf.gz"), "easy"), Path::new("a.b/jobs.easy.swf.gz"));
        assert_eq!(named_for(Path::new("jobs"), "easy"), Path::new("jobs.easy"));
    }
}

#[cfg(test)]
mod numbers_tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([count(0), count(999), count(1_000), count(243_306)], ["0", "999", "1,000", "243,306"]);
        assert_eq!(
            [length(0.4), length(59.6), length(6_837.485), length(353_949.9)],
            ["0s", "1m 00s", "1h 53m", "4d 02h"]
        );
        assert_eq!([plural(1, "job"), plural(2_000, "job")], ["1 job", "2,000 jobs"]);
    }
}
