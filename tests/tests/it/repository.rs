//! The repository as the tests of the whole see it: where it lies, which files belong to it, what it is built of.
//! It relies on git and cargo and never writes anything.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file that belongs to the repository, or is about to.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with forward slashes.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl File {
    /// Whether it lies in the folder `src` of a crate.
    pub(crate) fn is_in_crate_source(&self) -> bool {
        let mut folders = self.name.split('/');
        folders.next() == Some("crates") && folders.nth(1) == Some("src")
    }
}

/// All files whose names end in `ending`; those that git ignores are not among them.
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
    assert!(!files.is_empty(), "there is no file *{ending}: has the listing failed?");
    files
}

/// None where the file is listed still but deleted already.
fn file(name: &str) -> Option<File> {
    let text = std::fs::read_to_string(root().join(name)).ok()?;
    Some(File { name: name.to_owned(), text })
}

/// What cargo says of the packages of the workspace.
pub(crate) fn packages() -> Vec<Value> {
    let told = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]));
    let metadata: Value = serde_json::from_str(&told).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What a command that must succeed prints, run at the root.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
