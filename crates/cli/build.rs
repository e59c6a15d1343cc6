//! Digest of the source code that decides results: `BOOKAHEAD_SOURCE`, part of the keys of a sweep's runs. Of the
//! sources and not of the program, because two builds of one source, on other machines or by another compiler, must
//! have the same keys.

use siphasher::sip::SipHasher13;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};

/// The command, all crates of this workspace that simulations and experiments use, and the versions of all other crates.
const DECIDING: [&str; 9] = [
    "src",
    "../api/src",
    "../experiments/src",
    "../party/src",
    "../plan/src",
    "../protocol/src",
    "../sim/src",
    "../workload/src",
    "../../Cargo.lock",
];

fn main() -> io::Result<()> {
    let mut hasher = SipHasher13::new();
    for path in DECIDING {
        println!("cargo:rerun-if-changed={path}");
        let mut files = Vec::new();
        collect(Path::new(path), &mut files)?;
        // The order in which a file system lists its files differs.
        files.sort_unstable();
        for file in files {
            hasher.write(file.to_string_lossy().as_bytes());
            hasher.write_u8(0xff);
            hasher.write(&fs::read(&file)?);
            hasher.write_u8(0xff);
        }
    }
    println!("cargo:rustc-env=BOOKAHEAD_SOURCE={:016x}", hasher.finish());
    Ok(())
}

/// All files of a path, without those of unit tests.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?.path();
        let is_test = entry.file_stem().is_some_and(|stem| stem == "tests");
        if !is_test {
            collect(&entry, files)?;
        }
    }
    Ok(())
}
