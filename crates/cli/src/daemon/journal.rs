//! `bookahead journal`: checks, exports, copies and compacts the journal of a site or broker.

use super::serve::{Party, told};
use crate::output::{save_and_tell, say};
use anyhow::{Context, Result, bail};
use bookahead_service::daemon::JOURNAL;
use bookahead_service::journal::{self, Copied, Store};
use clap::{Args, Subcommand};
use std::io::{self, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Read a whole journal and report all damage
    Check(FileArguments),
    /// Write the records of a journal as lines of JSON; the service may be running
    Export(ExportArguments),
    /// Copy a journal between a file and PostgreSQL, and verify every record; the service must be stopped
    Copy(CopyArguments),
    /// Replace the records of a journal by a snapshot; the service must be stopped
    Compact(CompactArguments),
}

#[derive(Args)]
pub(crate) struct FileArguments {
    /// Journal file, its folder, or the URL of a PostgreSQL database; with ?party=NAME if it has several journals
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
#[command(
    after_help = "The source stays as it is. There must be no journal at the destination. Keys and notices in the state \
    folder are not copied; keep the folder, and the first start with PostgreSQL shares its keys."
)]
pub(crate) struct CopyArguments {
    /// Journal file, its folder, or postgres://USER@HOST/DATABASE?party=NAME
    #[arg(value_name = "FROM")]
    from: PathBuf,

    /// Journal file, its folder, or postgres://USER@HOST/DATABASE
    #[arg(value_name = "TO")]
    to: PathBuf,
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
        Command::Check(arguments) => check(&store(&arguments.file)?),
        Command::Export(arguments) => export(&store(&arguments.journal.file)?, arguments.out.as_deref()),
        Command::Copy(arguments) => copy(arguments),
        Command::Compact(arguments) => compact(arguments),
    }
}

/// A path or URL on the command line.
fn store(said: &Path) -> Result<Store> {
    let path = if said.is_dir() { said.join(JOURNAL) } else { said.to_owned() };
    Ok(Store::parse(&path, Path::new(""))?)
}

fn check(journal: &Store) -> Result<()> {
    let report = journal::check(journal)?;
    write!(stdout(), "{report}")?;
    if !report.is_sound() {
        bail!("{journal} is damaged");
    }
    Ok(())
}

fn copy(arguments: &CopyArguments) -> Result<()> {
    let (from, to) = (store(&arguments.from)?, store(&arguments.to)?);
    let Copied { of: (_, owner), last, records, snapshots } = journal::copy(&from, &to)?;
    say!(
        "{to}: the journal of {owner} up to record {last}, with {records} records and {snapshots} snapshots; all \
         checksums are those of {from}"
    );
    Ok(())
}

fn export(path: &Store, out: Option<&Path>) -> Result<()> {
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

fn io_error(journal: &Store, error: &io::Error) -> journal::JournalError {
    let (path, why) = (journal.to_string().into(), error.to_string());
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
    let (journal, up_to, dropped) = (compacted.journal, compacted.up_to, compacted.dropped);
    say!("{journal}: a snapshot replaces all records up to {up_to}; records dropped: {dropped}");
    Ok(())
}
