//! The command line as a user runs it: the real binary in a temporary folder, one test binary for all tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod asking;
mod bad_input;
mod bad_options;
#[cfg(unix)]
mod batch;
#[cfg(unix)]
mod browser;
mod client_commands;
mod clock;
mod command_reference;
mod daemons;
#[cfg(unix)]
mod demo_slurm;
mod experiments;
mod faults;
mod folder;
mod grid;
mod job_output;
mod maintenance;
mod metrics;
#[cfg(unix)]
mod moved_journals;
mod output_files;
#[cfg(unix)]
mod packages;
mod priorities;
mod reload;
mod schedules;
mod service;
#[cfg(unix)]
mod services;
mod sharing;
mod site_rules;
mod sockets;
mod state_folder;
mod streams;
#[cfg(unix)]
mod sweep;
mod times;
mod trace_options;
mod twin;
mod whatif;
mod workload_commands;
