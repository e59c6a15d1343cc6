//! Reading files that security depends on: bounded in size, and refused where everybody could read a secret or put in
//! something else. Permissions are those of the open file, not of whatever has its name a moment later.

use super::error::SecurityError;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// More than any key file, certificate chain or list of authorities has.
const MOST_BYTES: usize = 1 << 20;

/// A file that was read.
pub(crate) struct Content {
    what: &'static str,
    path: PathBuf,
    mode: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    /// Reads a file that nobody else may change.
    pub(crate) fn read(what: &'static str, path: &Path) -> Result<Content, SecurityError> {
        let unreadable = |source| SecurityError::Unreadable { what, path: path.into(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mode = permissions(&file).map_err(unreadable)?;
        if mode & 0o002 != 0 {
            return Err(SecurityError::Writable { what, path: path.into(), mode });
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() > MOST_BYTES {
            return Err(SecurityError::TooLarge { what, path: path.into(), most: MOST_BYTES });
        }
        Ok(Content { what, path: path.into(), mode, bytes })
    }

    /// Says no where everybody may read it.
    pub(crate) fn must_be_private(&self) -> Result<(), SecurityError> {
        if self.mode & 0o004 == 0 {
            return Ok(());
        }
        Err(SecurityError::Exposed { what: self.what, path: self.path.clone(), mode: self.mode })
    }
}

#[cfg(unix)]
fn permissions(file: &File) -> std::io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode() & 0o7777)
}

/// Elsewhere permissions are no three digits; they are the operator's care.
#[cfg(not(unix))]
fn permissions(_: &File) -> std::io::Result<u32> {
    Ok(0o600)
}
