//! Access to the repository: its root, its files and its packages. It uses git and cargo and writes nothing.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file that is tracked by git, or new and not ignored.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root, with forward slashes.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl File {
    /// Whether it is in the folder `src` of a crate.
    pub(crate) fn is_in_crate_source(&self) -> bool {
        let mut folders = self.name.split('/');
        folders.next() == Some("crates") && folders.nth(1) == Some("src")
    }
}

/// All files of the repository whose names end in `ending`, except ignored ones.
pub(crate) fn files(ending: &str) -> Vec<File> {
    let listed = output(Command::new("git").args([
        "ls-files",
        "-z",
        "--deduplicate",
        "--cached",
        "--others",
        "--exclude-standard",
    ]));
    let names = listed.split_terminator('\0').filter(|name| name.ends_with(ending));
    let files: Vec<File> = names.filter_map(file).collect();
    assert!(!files.is_empty(), "found no file *{ending}; did `git ls-files` fail?");
    files
}

/// None if the file is still tracked but already deleted.
fn file(name: &str) -> Option<File> {
    let text = std::fs::read_to_string(root().join(name)).ok()?;
    Some(File { name: name.to_owned(), text })
}

/// The packages of the workspace, from `cargo metadata`.
pub(crate) fn packages() -> Vec<Value> {
    let told = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]));
    let metadata: Value = serde_json::from_str(&told).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Standard output of a command, run at the root; it must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
