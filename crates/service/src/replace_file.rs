//! Atomic replacement of a small file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Writes a temporary file, syncs it, and renames it.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // In the same folder, because a rename is atomic only within one file system.
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    // Not `create_new`: a crash may have left an unfinished file.
    options.write(true).create(true).truncate(true);
    // Private from the start: the content may be a key, and a later chmod would expose it for a moment.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    file.write_all(bytes)?;
    // Before the rename: after a power failure the final name must not lead to an empty file.
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    // Without a sync of the folder, the rename may be lost in a power failure.
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
