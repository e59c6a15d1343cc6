//! Makes the tables from which jobs are drawn where the log of SDSC Blue Horizon is missing:
//!
//! ```console
//! $ cargo run --example calibrate -- FOLDER > crates/workload/src/models/blue_horizon.json
//! ```
//!
//! FOLDER has the log, `SDSC-BLUE-2000-4.2-cln.swf.gz` of the Parallel Workloads Archive, and may have the first jobs of
//! an older conversion of it.

use bookahead_experiments::what_if::Workload;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = std::env::args().nth(1).unwrap_or_default();
    match Workload::find(Path::new(&folder)) {
        Ok(log) if log.real => print!("{}", log.tables().map_or(String::new(), |tables| tables.to_json())),
        Ok(_) => {
            eprintln!("the folder '{folder}' does not have the log; give the folder that has it");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
