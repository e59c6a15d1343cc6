//! Small programs that tests write and run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program that can be run. Another process writes the file: if this one did, a child that another test starts at
/// that moment would have it open for writing, and it could not be run ("text file busy").
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", "rm -f \"$0\" && cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success(), "{} cannot be written", path.display());
}
