//! `bookahead logs`: prints what a job has printed so far, or follows it until the job is over. On a terminal, control
//! characters are escaped; a file or a pipe gets the bytes as they are.

use super::ids::IdText;
use super::place::Place;
use super::session::Session;
use crate::output::{escape_except_returns, say};
use anyhow::Result;
use bookahead_api::OutputStream;
use bookahead_client::JobOutput;
use bookahead_protocol::JobId;
use clap::Args;
use std::io::{self, IsTerminal, Write, stdout};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often to ask for more while following.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long a server may be unreachable while following: long enough to restart one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most bytes that are searched for the last lines (16 MiB): lines may be of any length.
const MOST_SEARCHED: u64 = 16 << 20;

#[derive(Args)]
pub(crate) struct Arguments {
    /// ID of the job
    #[arg(value_name = "job_ID")]
    id: IdText<JobId>,

    /// Print more as it comes, until the job is over
    #[arg(short, long)]
    follow: bool,

    /// Print standard error instead of standard output
    #[arg(long)]
    stderr: bool,

    /// Begin with the last N lines [default: the first line]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    tail: Option<u32>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let id = session.job_id(&arguments.id)?;
    let stream = if arguments.stderr { OutputStream::Stderr } else { OutputStream::Stdout };
    // Without `--follow` the first failure is reported: the user is there to repeat the command.
    let patience = if arguments.follow { PATIENCE } else { Duration::ZERO };
    let log = Log { session: &session, id, stream, patience };
    let mut out = Printer::new(stdout().is_terminal());
    let mut from = 0;
    if let Some(lines) = arguments.tail {
        let (last, end) = log.last_lines(lines)?;
        out.print(&last)?;
        from = end;
    }
    loop {
        let piece = log.piece(from)?;
        out.print(&piece.bytes)?;
        from = piece.next;
        let at_end = piece.next >= piece.size;
        if at_end && (piece.ended || !arguments.follow) {
            out.finish()?;
            if !piece.ended {
                say!("note: the job is not over; to see more as it comes: bookahead logs {id} --follow");
            }
            return Ok(());
        }
        if at_end {
            log.pause(ASK_EVERY)?;
        }
    }
}

struct Log<'a> {
    session: &'a Session,
    id: JobId,
    stream: OutputStream,
    /// How long to repeat a call that fails.
    patience: Duration,
}

impl Log<'_> {
    fn piece(&self, from: u64) -> Result<JobOutput> {
        let until = Instant::now() + self.patience;
        self.session.run(async {
            loop {
                match self.session.client.job_output(self.id, self.stream, from).await {
                    Err(error) if error.may_pass() && Instant::now() < until => sleep(ASK_EVERY).await,
                    outcome => return outcome,
                }
            }
        })
    }

    fn pause(&self, time: Duration) -> Result<()> {
        self.session.run(async {
            sleep(time).await;
            Ok(())
        })
    }

    /// The last lines, and the position after them. Reads backwards from the end.
    fn last_lines(&self, lines: u32) -> Result<(Vec<u8>, u64)> {
        // After any end: the answer has the size only.
        let end = self.piece(i64::MAX.unsigned_abs())?.size;
        let (mut found, mut begin): (Vec<u8>, u64) = (Vec::new(), end);
        while begin > 0 && end - begin < MOST_SEARCHED && !has_lines(&found, lines) {
            let start = begin.saturating_sub(STEP);
            let mut part = Vec::new();
            while let Some(left) = (begin - start).checked_sub(part.len() as u64).filter(|left| *left > 0) {
                let piece = self.piece(begin - left)?;
                // The file became shorter: what is there must do.
                if piece.bytes.is_empty() {
                    break;
                }
                part.extend(piece.bytes.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)));
            }
            part.append(&mut found);
            (found, begin) = (part, start);
        }
        let skipped = found.len() - tail(&found, lines).len();
        Ok((found.split_off(skipped), end))
    }
}

/// Bytes read at a time, backwards. A server may send less.
const STEP: u64 = 64 << 10;

fn has_lines(text: &[u8], lines: u32) -> bool {
    tail(text, lines).len() < text.len()
}

/// The last lines of a text. The last line may lack its line feed.
fn tail(text: &[u8], lines: u32) -> &[u8] {
    if lines == 0 {
        return &[];
    }
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut feeds = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match feeds.nth(lines as usize - 1) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

/// Prints bytes, escaped on a terminal.
struct Printer {
    escapes: bool,
    /// The begin of a character whose other bytes have not come yet.
    begun: Vec<u8>,
}

impl Printer {
    fn new(escapes: bool) -> Printer {
        Printer { escapes, begun: Vec::new() }
    }

    fn print(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = stdout().lock();
        match self.escapes {
            true => out.write_all(self.escaped(bytes).as_bytes())?,
            false => out.write_all(bytes)?,
        }
        out.flush()
    }

    fn escaped(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        // At most three bytes at the end can be the begin of a character.
        let whole = (all.len().saturating_sub(3)..all.len()).find(|at| is_cut_off(&all[*at..]));
        self.begun = all.split_off(whole.unwrap_or(all.len()));
        escape_except_returns(&String::from_utf8_lossy(&all))
    }

    /// Prints the rest.
    fn finish(&mut self) -> io::Result<()> {
        // Needs no escapes: incomplete bytes become replacement characters, never control characters.
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
        stdout().write_all(rest.as_bytes())
    }
}

/// Whether these bytes are the begin of one character.
fn is_cut_off(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|why| why.valid_up_to() == 0 && why.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_text_are_whole() {
        let text = b"one\ntwo\n\nfour\n";
        assert_eq!(tail(text, 0), b"");
        assert_eq!(tail(text, 1), b"four\n");
        assert_eq!(tail(text, 2), b"\nfour\n");
        assert_eq!(tail(text, 4), text);
        assert_eq!(tail(text, 9), text);
        assert_eq!(tail(b"one\ntwo", 1), b"two");
        assert_eq!(tail(b"", 3), b"");
        assert!(has_lines(text, 3) && !has_lines(text, 4));
    }

    #[test]
    fn a_terminal_gets_no_control_characters_and_whole_letters() {
        let text = "r\u{e9}sum\u{e9} \u{1b}[31m\u{9b}2J\t10%\r20%\r\nok \u{1f600}\n";
        let expected = "résumé \\u001b[31m\\u009b2J\t10%\r20%\r\nok 😀\n";
        for size in 1..text.len() {
            let mut printer = Printer::new(true);
            let printed: String = text.as_bytes().chunks(size).map(|piece| printer.escaped(piece)).collect();
            assert_eq!(printed, expected, "in pieces of {size}");
        }
        let mut printer = Printer::new(true);
        assert_eq!(printer.escaped(b"a\xff\xfeb\xe2\x82"), "a\u{fffd}\u{fffd}b");
        assert_eq!(printer.begun, b"\xe2\x82");
    }
}
