//! Files that may be plain or gzip: detected by their first bytes when reading, chosen by the name when writing; `-` is
//! standard input. An error names the file, the line and a remedy. Lines come one after the other from one buffer,
//! without a copy and without an allocation per line. A line longer than [`LONGEST_LINE`] is skipped and reported, so
//! that no input can make the buffer grow. Line ends (`\n`, `\r\n`) and a byte order mark are removed; bytes need not
//! be UTF-8.

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use memchr::memchr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Chain, Cursor, ErrorKind, Read, Write};
use std::path::Path;
use thiserror::Error;

/// First two bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Size of one read of compressed data: large enough to make system calls rare.
const COMPRESSED_BUFFER: usize = 128 * 1024;

/// An I/O error with the name of the file.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be opened.
    #[error("{name}: cannot be opened: {cause}; {}", advice(cause))]
    Open {
        /// Path, or "standard input".
        name: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Reading failed in mid-file.
    #[error("{name}:{line}: cannot be read: {cause}; {}", advice(cause))]
    Read {
        /// Path, or "standard input".
        name: String,
        /// Number of the line that was being read.
        line: u64,
        /// Error of the operating system or the decompressor.
        cause: io::Error,
    },
    /// The file cannot be written.
    #[error("{name}: cannot be written: {cause}; {}", advice(cause))]
    Write {
        /// Path of the file.
        name: String,
        /// Error of the operating system.
        cause: io::Error,
    },
}

/// Remedy for an I/O error.
fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::NotFound => "check the path",
        ErrorKind::PermissionDenied => "check the permissions of the file and of its directory",
        ErrorKind::IsADirectory => "give a file, not a directory",
        ErrorKind::UnexpectedEof => "the compressed file is cut short, fetch it again",
        ErrorKind::InvalidData | ErrorKind::InvalidInput => "the compressed file is damaged, fetch it again",
        ErrorKind::StorageFull => "free some space on the disk",
        _ => "remove the cause and try again",
    }
}

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Uncompressed.
    Plain,
    /// Compressed with gzip.
    Gzip,
}

impl Packing {
    /// Gzip if the name ends in `.gz`, in any case.
    pub fn of_name(path: &Path) -> Packing {
        let gzip = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        if gzip { Packing::Gzip } else { Packing::Plain }
    }
}

/// Opens `path` for reading; `-` is standard input. Also returns the name for errors.
pub(crate) fn open(path: &Path) -> Result<(String, Box<dyn Read>), FileError> {
    if path == Path::new("-") {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((name, Box::new(file))),
        Err(cause) => Err(FileError::Open { name, cause }),
    }
}

/// A source with its first bytes put back in front of it.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The decompressed bytes of a file.
pub(crate) enum Unpacked<R: Read> {
    Plain(Whole<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Whole<R>>>>),
}

impl<R: Read> Unpacked<R> {
    /// Reads the first two bytes of `source` to detect compression.
    pub(crate) fn new(mut source: R) -> io::Result<Unpacked<R>> {
        let mut beginning = Vec::with_capacity(GZIP_MAGIC.len());
        source.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut beginning)?;
        let gzip = beginning == GZIP_MAGIC;
        let whole = Cursor::new(beginning).chain(source);
        if !gzip {
            return Ok(Unpacked::Plain(whole));
        }
        let buffered = BufReader::with_capacity(COMPRESSED_BUFFER, whole);
        // Several gzip members in one file are one text, as for gzip itself.
        Ok(Unpacked::Gzip(Box::new(MultiGzDecoder::new(buffered))))
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Plain(source) => source.read(into),
            Unpacked::Gzip(source) => source.read(into),
        }
    }
}

/// Creates `path` and lets `fill` write into it. Returns only after everything is written. `-` is standard output.
pub fn write(
    path: &Path,
    packing: Packing,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), FileError> {
    let written = if path == Path::new("-") {
        pack(&mut io::stdout().lock(), packing, fill)
    } else {
        File::create(path).and_then(|file| pack(&mut BufWriter::new(file), packing, fill))
    };
    written.map_err(|cause| FileError::Write { name: path.display().to_string(), cause })
}

/// Lets `fill` write into `out`. The same bytes in give the same bytes out: the gzip header has no time stamp.
pub(crate) fn pack(
    out: &mut dyn Write,
    packing: Packing,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match packing {
        Packing::Plain => {
            fill(out)?;
            out.flush()
        }
        Packing::Gzip => {
            let mut encoder = GzEncoder::new(out, Compression::default());
            fill(&mut encoder)?;
            // A dropped encoder writes the same end of the file, but hides an error such as a full disk.
            encoder.finish()?.flush()
        }
    }
}

/// Longest accepted line, in bytes. A job line has 18 numbers, well below 1 KiB; this also bounds the buffer.
pub(crate) const LONGEST_LINE: usize = 64 * 1024;

/// Large enough to make reads rare, small enough to stay in the cache between decompression and parsing.
const BUFFER: usize = 4 * LONGEST_LINE;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its bytes, without the line end.
    Text(&'a [u8]),
    /// A line longer than [`LONGEST_LINE`]; its bytes were skipped.
    TooLong,
}

/// Position of a line in the buffer.
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

    /// Number of the line that [`Lines::next_line`] returned last, or failed to read; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or `None` at the end of the text.
    #[inline]
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        // Counted first, so that an error names the line that could not be read.
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

    /// Removes a line of `length` bytes and its newline from the front.
    #[inline]
    fn take(&mut self, length: usize) -> Found {
        let begin = self.begin;
        self.begin += length + 1;
        // The buffer holds four times the limit, so a line beyond it may be complete here.
        if length > LONGEST_LINE { Found::TooLong } else { Found::At { begin, end: begin + length } }
    }

    /// The next line if the buffer has no complete one.
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
            // Only the new bytes need to be searched.
            if let Some(length) = memchr(b'\n', &self.buffer[self.begin + looked_at..self.end]) {
                return Ok(Some(self.take(looked_at + length)));
            }
        }
    }

    /// The last line if it has no newline.
    fn take_rest(&mut self) -> Option<Found> {
        let (begin, end) = (self.begin, self.end);
        self.begin = end;
        // Not too long: the caller checked its length before it found the end of the file.
        (begin < end).then_some(Found::At { begin, end })
    }

    /// Drops bytes up to and including the next newline.
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

    /// Reads more bytes behind the present ones; returns whether there were any. The buffer always has room, because it
    /// is larger than [`LONGEST_LINE`].
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
                // A signal came before any byte was read; nothing is lost by reading again.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn skip_byte_order_mark(&mut self) -> io::Result<()> {
        // A pipe may deliver fewer bytes at once than the mark has.
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

    #[test]
    fn a_name_ending_in_gz_asks_for_gzip() {
        assert_eq!(Packing::of_name(Path::new("log.swf.gz")), Packing::Gzip);
        assert_eq!(Packing::of_name(Path::new("log.swf.GZ")), Packing::Gzip);
        assert_eq!(Packing::of_name(Path::new("log.swf")), Packing::Plain);
        assert_eq!(Packing::of_name(Path::new("gz")), Packing::Plain);
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes_and_may_have_several_members() {
        let mut packed = Vec::new();
        for part in ["one\n", "two\n"] {
            pack(&mut packed, Packing::Gzip, |out| out.write_all(part.as_bytes())).unwrap();
        }
        let mut text = String::new();
        Unpacked::new(packed.as_slice()).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn a_missing_file_is_named_with_what_to_do() {
        let error = open(Path::new("no/such/file.swf")).err().unwrap();
        assert!(error.to_string().starts_with("no/such/file.swf: cannot be opened: "), "{error}");
        assert!(error.to_string().ends_with("; check the path"), "{error}");
    }
}

#[cfg(test)]
mod lines_tests {
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
