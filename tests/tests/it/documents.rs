//! Every command of ours that the documents show is run, in the order shown and in a folder that has the examples,
//! and must succeed: what a reader types is what works. Other commands (building, `git clone`, `cd`) are left out.
//!
//! The binary is the one beside this test's own, which a build of the workspace puts there; where there is none it
//! is built.

use crate::markdown::Page;
use crate::repository::{cargo, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The ways in which documents call the binary.
const CALLS: [&str; 3] = ["cargo run --release -- ", "./target/release/bookahead ", "bookahead "];

/// Where real traces lie, which not everybody has.
const SHARED: &str = "../shared";

#[test]
fn the_commands_in_the_documents_work() {
    let readme = root().join("README.md");
    assert!(readme.exists(), "README.md is missing");
    let mut pages = vec![readme];
    pages.extend(markdown_in(&root().join("docs")));
    for page in pages {
        run_all(&page.display().to_string(), &fs::read_to_string(&page).unwrap());
    }
}

#[test]
fn a_page_is_run_in_the_order_shown() {
    let page = "\
```console
$ git clone https://example.org/bookahead
$ cd bookahead
$ cargo run --release -- workload generate --jobs 20 --processors 8 \\
      --output trace.swf
wrote trace.swf
$ ./target/release/bookahead simulate trace.swf --jobs-out jobs.csv > table.txt
$ bookahead workload generate --jobs 20 | bookahead simulate -
$ bookahead simulate ../shared/none/such.swf || bookahead simulate trace.swf
```
";
    let folder = run_all("page", page);
    assert!(folder.path().join("jobs.csv").exists() && folder.path().join("table.txt").exists());
}

#[test]
#[should_panic(expected = "page: $ bookahead simulate missing.swf")]
fn a_command_that_fails_is_named() {
    run_all("page", "```console\n$ bookahead simulate missing.swf\n```\n");
}

/// Runs what `text` shows, in a folder that is given back.
fn run_all(name: &str, text: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    copy_folder(&root().join("examples"), &folder.path().join("examples"));
    let shared = root().join(SHARED);
    for command in Page::of(text).commands.iter().filter_map(|command| ours(command)) {
        if command.contains(SHARED) && !shared.exists() {
            continue;
        }
        let command = command.replace(SHARED, &shared.display().to_string());
        run(name, &command, folder.path());
    }
    folder
}

/// The command as `bookahead …`, where it is one of ours.
fn ours(command: &str) -> Option<String> {
    let is_ours = CALLS.iter().any(|call| command.starts_with(call));
    is_ours
        .then(|| CALLS.iter().fold(command.to_owned(), |command, call| command.replace(call, "bookahead ")))
}

fn run(page: &str, command: &str, folder: &Path) {
    let binary = binary();
    let mut path = vec![binary.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(path).unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{page}: $ {command}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The binary in the folder of the profile: two above this test, `<target>/<profile>/deps/it-…`.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let binary = folder.join(format!("bookahead{}", std::env::consts::EXE_SUFFIX));
    if !binary.exists() {
        let profile = if folder.ends_with("release") { "release" } else { "dev" };
        let mut build = cargo();
        build.args(["build", "--locked", "--package", "bookahead", "--profile", profile, "--target-dir"]);
        build.arg(folder.parent().unwrap()).current_dir(root());
        assert!(build.status().unwrap().success(), "the binary cannot be built");
    }
    binary
}

fn markdown_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.sort();
    pages
}

/// Copies a folder with all that is in it; a folder that is not there has nothing in it.
fn copy_folder(from: &Path, to: &Path) {
    let Ok(entries) = fs::read_dir(from) else { return };
    fs::create_dir_all(to).unwrap();
    for entry in entries {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
