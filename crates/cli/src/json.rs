//! JSON on standard output, for programs.

use serde::Serialize;
use std::io::{self, Write, stdout};

/// Prints `value` and a line end. An error is the one of standard output itself, so that a reader who has seen
/// enough can be told from a full disk.
pub(crate) fn print(value: &impl Serialize) -> io::Result<()> {
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)
}
