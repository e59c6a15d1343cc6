//! `bookahead journal`: looking through what a site or broker wrote down, and shortening it.

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
    /// Read a journal from one end to the other, and say all that is wrong with it
    Check(FileArguments),
    /// Write what is in a journal as lines of JSON, also while its owner runs
    Export(ExportArguments),
    /// Put a snapshot in the place of what is in a journal, whose owner must not run
    Compact(CompactArguments),
}

#[derive(Args)]
pub(crate) struct FileArguments {
    /// The journal, or the folder that it is in
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    journal: FileArguments,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CompactArguments {
    /// The configuration of its owner, who alone knows what the records mean
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,

    /// The folder of its state, if that is not where the configuration says
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
        let flushed = reader.flush();
        // Whoever reads our output has seen enough.
        return if reader.left {
            Ok(())
        } else {
            Ok(exported.and(flushed.map_err(|error| io_error(path, &error)))?)
        };
    };
    let mut lines = Vec::new();
    let exported = journal::export(path, &mut lines);
    let text = String::from_utf8(lines).context("the journal is no text")?;
    // What is sound is worth keeping, also where the rest is damaged.
    save_and_tell(file, &text)?;
    exported?;
    Ok(())
}

fn io_error(path: &Path, error: &io::Error) -> journal::JournalError {
    let (path, why) = (path.to_owned(), error.to_string());
    journal::JournalError::Storage { path, doing: "exporting it", why, full: false }
}

/// Standard output, and whether its reader has left.
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
    say!("{journal}: a snapshot stands for all records up to {up_to}; records dropped: {dropped}");
    Ok(())
}
