//! One process per journal: the file `….lock` is locked while the journal is open, and contains the id of the
//! process. The system releases the lock when the process ends for any reason; the file stays and means nothing by
//! itself. SQLite's own lock is not held permanently, so that a running journal can be checked and exported.

use super::error::JournalError;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The lock is held as long as this value lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Unlocks explicitly, because closing the file is not enough: a child process that is being started inherits
    /// it for a moment.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes the lock, or fails at once and names its holder.
    pub(crate) fn take(journal: &Path) -> Result<Lock, JournalError> {
        let path = beside(journal, ".lock");
        let failed = |error: &std::io::Error| JournalError::io(journal, "locking it", error);
        let mut options = OpenOptions::new();
        // Not truncated: another holder's process id may be in it.
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => sign(&mut file).map_err(|error| failed(&error))?,
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Held { path: journal.to_owned(), by: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        Ok(Lock { file })
    }
}

/// The process that has the journal open, if any. Creates no file and keeps no lock.
pub(crate) fn holder_of(journal: &Path) -> Option<String> {
    let mut file = File::open(beside(journal, ".lock")).ok()?;
    // Shared, so that two checks at the same time do not take each other for a running service.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(holder(&mut file)),
        _ => {
            let _ = file.unlock();
            None
        }
    }
}

/// Path of a file next to the journal: `site.journal` and `.lock` make `site.journal.lock`.
pub(crate) fn beside(journal: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(journal.as_os_str());
    name.push(ending);
    PathBuf::from(name)
}

fn sign(file: &mut File) -> std::io::Result<()> {
    // The text of an earlier holder may be longer.
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {}", std::process::id())
}

/// Reads the name of the holder. It may not have written it yet.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    let text = text.trim();
    if read.is_err() || text.is_empty() { "another process".to_owned() } else { text.to_owned() }
}
