//! Python programs and packages that `./test` installs beside the build. A quick run does without them.

use crate::cases::quick;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Environment variable with the folder of the programs; if it is set, they must be there.
const FOLDER: &str = "BOOKAHEAD_PYTHON_PROGRAMS";

/// A program: from the folder in the variable, from the path, or where `./test` installs it. Only a quick run may lack it.
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = match env::var_os(FOLDER) {
        Some(folder) => vec![folder.into()],
        None => {
            let tests = env::current_exe().expect("the path of this test");
            let built = tests.ancestors().nth(3).expect("target/debug/deps");
            let path = env::var_os("PATH").unwrap_or_default();
            [built.join("venv/bin")].into_iter().chain(env::split_paths(&path)).collect()
        }
    };
    let found = folders.iter().map(|folder| folder.join(name)).find(|program| program.exists());
    assert!(found.is_some() || quick(), "{name} is missing in {folders:?}; ./test installs it");
    found
}

/// The interpreter, if it has this package. Only a quick run may lack it.
#[track_caller]
pub fn with_package(name: &str) -> Option<PathBuf> {
    let has = |python: &PathBuf| {
        let import =
            Command::new(python).args(["-c", &format!("import {name}")]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    let found = program("python").filter(has);
    assert!(found.is_some() || quick(), "the Python package {name} is missing; ./test installs it");
    found
}
