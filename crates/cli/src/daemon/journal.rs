//! `bookahead journal`: checks, exports and compacts the journal of a site or broker.

use super::serve::{Party, told};
use crate::output::{save_and_tell, say};
use anyhow::{Context, Result, bail};
use bookahead_service::daemon::JOURNAL;
use bookahead_service::journal;
use clap::{Args, Subcommand};
use std::io::{self, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Read a whole journal and report all damage
    Check(FileArguments),
    /// Write the records of a journal as lines of JSON; the service may be running
    Export(ExportArguments),
    /// Replace the records of a journal by a snapshot; the service must be stopped
    Compact(CompactArguments),
}

#[derive(Args)]
pub(crate) struct FileArguments {
    /// Journal file, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    journal: FileArguments,

    /// Output file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CompactArguments {
    /// Configuration of the site or broker that owns the journal
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,

    /// State folder [default: from the configuration]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
}

pub(super) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check(arguments) => check(&arguments.path()),
        Command::Export(arguments) => export(&arguments.journal.path(), arguments.out.as_deref()),
        Command::Compact(arguments) => compact(arguments),
    }
}

impl FileArguments {
    fn path(&self) -> PathBuf {
        if self.file.is_dir() { self.file.join(JOURNAL) } else { self.file.clone() }
    }
}

fn check(path: &Path) -> Result<()> {
    let report = journal::check(path)?;
    write!(stdout(), "{report}")?;
    if !report.is_sound() {
        bail!("{} is damaged", path.display());
    }
    Ok(())
}

fn export(path: &Path, out: Option<&Path>) -> Result<()> {
    let Some(file) = out else {
        let mut reader = Reader { out: io::BufWriter::new(stdout().lock()), left: false };
        let exported = journal::export(path, &mut reader).map(drop);
        // A `BufWriter` that is dropped ignores errors, and a full disk would truncate the export unnoticed.
        let flushed = reader.flush();
        // The reader closed the pipe, as `head` does: that is no failure of ours.
        return if reader.left {
            Ok(())
        } else {
            Ok(exported.and(flushed.map_err(|error| io_error(path, &error)))?)
        };
    };
    let mut lines = Vec::new();
    let exported = journal::export(path, &mut lines);
    let text = String::from_utf8(lines).context("the journal is not UTF-8 text")?;
    // Written before the error is returned: the sound records are worth keeping even if the rest is damaged.
    save_and_tell(file, &text)?;
    exported?;
    Ok(())
}

fn io_error(path: &Path, error: &io::Error) -> journal::JournalError {
    let (path, why) = (path.to_owned(), error.to_string());
    journal::JournalError::Storage { path, doing: "exporting it", why, full: false }
}

/// Standard output that remembers a closed pipe, because `journal::export` does not pass the kind of an I/O error on.
struct Reader<W> {
    out: W,
    left: bool,
}

impl<W: Write> Reader<W> {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.left |= done.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        done
    }
}

impl<W: Write> Write for Reader<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.note(done)
    }
}

fn compact(arguments: &CompactArguments) -> Result<()> {
    let mut party = Party::read_either(&arguments.config)?;
    if let Some(folder) = &arguments.state {
        party.keep_in(folder)?;
    }
    let compacted = party.compact().map_err(|why| told(&why))?;
    let (journal, up_to, dropped) = (compacted.journal.display(), compacted.up_to, compacted.dropped);
    say!("{journal}: a snapshot replaces all records up to {up_to}; records dropped: {dropped}");
    Ok(())
}
