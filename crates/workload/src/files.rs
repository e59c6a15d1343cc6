//! Files that may be plain or gzip: opened for reading by what they begin with, for writing by what their
//! name ends with. `-` is standard input. An error names the file, the line and what to do about it;
//! nothing here knows what the bytes mean.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Chain, Cursor, ErrorKind, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use thiserror::Error;

/// The two bytes with which every gzip file begins.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How much compressed data is asked of the operating system at once.
const COMPRESSED_BUFFER: usize = 128 * 1024;

/// What went wrong with a file, and what to do.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be opened.
    #[error("{name}: cannot be opened: {cause}; {}", advice(cause))]
    Open {
        /// The file.
        name: String,
        /// What the operating system said.
        cause: io::Error,
    },
    /// Reading stopped in mid-file.
    #[error("{name}:{line}: cannot be read: {cause}; {}", advice(cause))]
    Read {
        /// The file.
        name: String,
        /// The line that was being read.
        line: u64,
        /// What the operating system or the decompressor said.
        cause: io::Error,
    },
    /// The file cannot be written.
    #[error("{name}: cannot be written: {cause}; {}", advice(cause))]
    Write {
        /// The file.
        name: String,
        /// What the operating system said.
        cause: io::Error,
    },
}

/// What a person can do about an I/O error.
fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::NotFound => "check the path",
        ErrorKind::PermissionDenied => "check the permissions of the file and of its directory",
        ErrorKind::IsADirectory => "give a file, not a directory",
        ErrorKind::UnexpectedEof => "the compressed file is cut short, fetch it again",
        ErrorKind::InvalidData | ErrorKind::InvalidInput => "the compressed file is damaged, fetch it again",
        ErrorKind::StorageFull => "make room on the disk",
        _ => "try again once the cause is removed",
    }
}

/// Whether a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Text as it is.
    Plain,
    /// Gzip.
    Gzip,
}

impl Packing {
    /// What the name asks for: gzip where it ends in `.gz`.
    pub fn of_name(path: &Path) -> Packing {
        let gzip = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        if gzip { Packing::Gzip } else { Packing::Plain }
    }
}

/// Opens `path` for reading; `-` is standard input. Gives it with the name that errors show.
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

/// A source with its first bytes put back in front.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// Bytes of a file after decompression.
pub(crate) enum Unpacked<R: Read> {
    Plain(Whole<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Whole<R>>>>),
}

impl<R: Read> Unpacked<R> {
    /// Looks at the first two bytes of `source` to learn whether it is compressed.
    pub(crate) fn new(mut source: R) -> io::Result<Unpacked<R>> {
        let mut beginning = Vec::with_capacity(GZIP_MAGIC.len());
        source.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut beginning)?;
        let gzip = beginning == GZIP_MAGIC;
        let whole = Cursor::new(beginning).chain(source);
        if !gzip {
            return Ok(Unpacked::Plain(whole));
        }
        let buffered = BufReader::with_capacity(COMPRESSED_BUFFER, whole);
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

/// Creates `path`, lets `fill` write into it, compressed where asked, and sees to it that all is written. `-` is
/// standard output.
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

/// Lets `fill` write into `out`, compressed where asked. The same bytes in give the same bytes out.
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
            encoder.finish()?.flush()
        }
    }
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
