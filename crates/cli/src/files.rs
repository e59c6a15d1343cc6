//! Files that commands write beside their answer.

use crate::talk::say;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Writes `text`, or says what is in the way.
pub(crate) fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| {
        format!("{} cannot be written; check the folder and its permissions", path.display())
    })
}

/// Writes `text` and tells the user where.
pub(crate) fn save_and_tell(path: &Path, text: &str) -> Result<()> {
    save(path, text)?;
    say!("wrote {}", path.display());
    Ok(())
}

/// `jobs.csv` as `jobs.easy.csv`.
pub(crate) fn named_for(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (stem, ending) = name.split_once('.').unwrap_or((&name, ""));
    let dot = if ending.is_empty() { "" } else { "." };
    path.with_file_name(format!("{stem}.{what}{dot}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_for_goes_before_its_ending() {
        assert_eq!(named_for(Path::new("a.b/jobs.swf.gz"), "easy"), Path::new("a.b/jobs.easy.swf.gz"));
        assert_eq!(named_for(Path::new("jobs"), "easy"), Path::new("jobs.easy"));
    }
}
