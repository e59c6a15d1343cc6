//! Lines of a text that may be compressed, one after the other from one buffer, without a copy and without
//! an allocation per line. A line longer than [`LONGEST_LINE`] is skipped and reported, so that no input
//! can make the buffer grow. Line ends (`\n`, `\r\n`) and a byte order mark are taken off; bytes are never
//! checked to be UTF-8.

use std::io::{self, ErrorKind, Read};

use memchr::memchr;

use crate::files::Unpacked;

/// Longest line in bytes that is looked at.
pub(crate) const LONGEST_LINE: usize = 64 * 1024;

/// Large enough to make reads rare, small enough to stay in the cache between decompression and parsing.
const BUFFER: usize = 4 * LONGEST_LINE;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its bytes, without the line end.
    Text(&'a [u8]),
    /// A line beyond [`LONGEST_LINE`]; its bytes are gone.
    TooLong,
}

/// Where a line lies in the buffer.
enum Found {
    At { begin: usize, end: usize },
    TooLong,
}

pub(crate) struct Lines<R: Read> {
    source: Unpacked<R>,
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
    at_end: bool,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> io::Result<Lines<R>> {
        let source = Unpacked::new(source)?;
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let mut lines = Lines { source, buffer, begin: 0, end: 0, at_end: false, number: 0 };
        lines.skip_byte_order_mark()?;
        Ok(lines)
    }

    /// The number of the line that [`Lines::next_line`] gave last, or failed to give; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or `None` at the end of the text.
    #[inline]
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.number += 1;
        let found = match memchr(b'\n', &self.buffer[self.begin..self.end]) {
            Some(length) => Some(self.take(length)),
            None => self.find_after_refill()?,
        };
        Ok(found.map(|found| match found {
            Found::At { begin, end } => Line::Text(without_carriage_return(&self.buffer[begin..end])),
            Found::TooLong => Line::TooLong,
        }))
    }

    /// Takes a line of `length` bytes and its newline off the front.
    #[inline]
    fn take(&mut self, length: usize) -> Found {
        let begin = self.begin;
        self.begin += length + 1;
        if length > LONGEST_LINE { Found::TooLong } else { Found::At { begin, end: begin + length } }
    }

    /// The next line where the buffer holds no whole one.
    #[cold]
    fn find_after_refill(&mut self) -> io::Result<Option<Found>> {
        loop {
            let looked_at = self.end - self.begin;
            if looked_at > LONGEST_LINE {
                self.skip_to_newline()?;
                return Ok(Some(Found::TooLong));
            }
            if !self.refill()? {
                return Ok(self.take_rest());
            }
            if let Some(length) = memchr(b'\n', &self.buffer[self.begin + looked_at..self.end]) {
                return Ok(Some(self.take(looked_at + length)));
            }
        }
    }

    /// The last line where it has no newline.
    fn take_rest(&mut self) -> Option<Found> {
        let (begin, end) = (self.begin, self.end);
        self.begin = end;
        (begin < end).then_some(Found::At { begin, end })
    }

    /// Throws bytes away up to and including the next newline.
    fn skip_to_newline(&mut self) -> io::Result<()> {
        loop {
            self.begin = self.end;
            if !self.refill()? {
                return Ok(());
            }
            if let Some(length) = memchr(b'\n', &self.buffer[self.begin..self.end]) {
                self.begin += length + 1;
                return Ok(());
            }
        }
    }

    /// Reads more behind what is held; says whether there was more. What is held is never the whole buffer,
    /// because [`LONGEST_LINE`] is less than that.
    fn refill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        while !self.at_end {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn skip_byte_order_mark(&mut self) -> io::Result<()> {
        while self.end < BYTE_ORDER_MARK.len() && self.refill()? {}
        if self.buffer[..self.end].starts_with(BYTE_ORDER_MARK) {
            self.begin = BYTE_ORDER_MARK.len();
        }
        Ok(())
    }
}

#[inline]
fn without_carriage_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte per read, as a slow pipe may.
    struct Dripping<'a>(&'a [u8]);

    impl Read for Dripping<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(1).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines(text: impl Read) -> Vec<String> {
        let mut lines = Lines::new(text).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push(match line {
                Line::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Line::TooLong => "too long".to_owned(),
            });
        }
        all
    }

    #[test]
    fn line_ends_and_byte_order_mark_are_taken_off() {
        let text = b"\xef\xbb\xbfa\r\n\nb\nc";
        assert_eq!(lines(text.as_slice()), ["a", "", "b", "c"]);
        assert_eq!(lines(Dripping(text)), ["a", "", "b", "c"]);
        assert!(lines(&b""[..]).is_empty());
        assert!(lines(&b"\xef\xbb\xbf"[..]).is_empty());
    }

    #[test]
    fn a_line_beyond_the_bound_is_skipped_and_reported() {
        let longest = "x".repeat(LONGEST_LINE);
        let longer = "y".repeat(LONGEST_LINE + 1);
        let endless = "z".repeat(3 * BUFFER);
        let text = format!("{longest}\n{longer}\nafter\n{endless}\nlast\n{endless}");
        assert_eq!(lines(text.as_bytes()), [&longest, "too long", "after", "too long", "last", "too long"]);
    }

    #[test]
    fn lines_are_numbered_from_one() {
        let mut lines = Lines::new(&b"a\nb\n"[..]).unwrap();
        lines.next_line().unwrap();
        assert_eq!(lines.number(), 1);
        lines.next_line().unwrap();
        assert_eq!(lines.number(), 2);
    }
}
