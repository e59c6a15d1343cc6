//! `sweep`: runs for all combinations of parameters, on this machine, on Slurm and on HyperQueue, with the results as
//! Parquet.
//!
//! - [`local`]: descriptions, results, and what a killed sweep does again
//! - [`clusters`]: the what-if workloads on Slurm and HyperQueue
//! - [`queries`]: the queries of the how-to page, by DuckDB

mod clusters;
mod local;
mod queries;

use crate::folder::Folder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A folder with 300 drawn jobs.
fn with_trace() -> Folder {
    let folder = Folder::new();
    folder.succeed("workload generate --jobs 300 --seed 3 --output trace.swf");
    folder
}

/// The 72 runs of the what-if experiment for each seed: 36 workloads of 2,000 jobs, with each of the two methods of the
/// paper, in 8 chunks.
fn what_if(out: &str, seeds: usize, more: &str) -> String {
    let chunk = 9 * seeds;
    format!(
        "command = \"experiment\"\ninput = \"what-if\"\nout = \"{out}\"\nchunk = {chunk}\n[parameters]\n\
         method = [\"load\", \"what-if\"]\nbook-ahead = [0, 2, 4, 6, 12, 24]\nwindow = [0, 1, 2, 5, 10, 30]\n\
         seed = \"1..{seeds}\"\n{more}"
    )
}

/// The contents of all Parquet files below a folder, by path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                assert!(name.extension().is_some_and(|ending| ending == "parquet"), "{name:?} is left over");
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// All rows below a folder as texts, sorted.
fn rows(folder: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for name in files(folder).keys() {
        let reader = SerializedFileReader::new(File::open(folder.join(name)).unwrap()).unwrap();
        rows.extend(reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()));
    }
    rows.sort_unstable();
    rows
}

/// The runs that ended, by the logs of a sweep that is under way or was killed.
fn logged(out: &Path) -> usize {
    let Ok(plans) = fs::read_dir(out.join("work")) else { return 0 };
    let logs = plans.flat_map(|plan| fs::read_dir(plan.unwrap().path()).into_iter().flatten());
    let logs =
        logs.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.map(|log| fs::read_to_string(log).unwrap_or_default().matches('\n').count()).sum()
}
