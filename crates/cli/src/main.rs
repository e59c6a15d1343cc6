//! The command line of Bookahead. Data goes to standard output, everything else to standard error; the exit code
//! is 0 for success, 1 for failure, 2 for wrong usage and 3 for a refusal by a server.

mod chance;
mod client;
mod daemon;
mod demo;
mod experiment;
mod faults;
mod grid;
mod help;
mod manual;
mod output;
mod placement;
mod simulate;
mod sweep;
mod table;
mod times;
mod torture;
mod trace;
mod whatif;
mod workload;

use bookahead_workload::FileError;
use clap::{FromArgMatches, Parser, Subcommand};
use std::io;
use std::process::ExitCode;

/// Calls allocate on one thread and free on another: answers, events and rows travel. The allocator of the C library is slow
/// at that; `bench --bench services` has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Advance reservations for batch clusters.
///
/// Reserve resources at sites and brokers, run those services, and simulate them on workload traces with the same
/// planning code. Start with `bookahead demo`.
#[derive(Parser)]
#[command(name = "bookahead", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a scheduler on a workload trace and print statistics
    Simulate(Box<simulate::Arguments>),
    /// Show how a reservation would affect the jobs of a trace, without booking it
    Whatif(Box<whatif::Arguments>),
    /// Simulate a grid of sites, brokers and clients on an unreliable network
    SimulateGrid(Box<grid::Arguments>),
    /// Simulate random grids with random faults and check the protocol invariants
    Faults(Box<faults::Arguments>),
    /// Kill and restart real sites and brokers under load, and check every answer
    Torture(Box<torture::Arguments>),
    /// Reproduce an experiment of the source papers and compare the results
    Experiment(Box<experiment::Arguments>),
    /// Run simulations or experiments for all combinations of parameters, here or on a cluster
    Sweep(Box<sweep::Arguments>),
    /// Inspect, generate and convert workload traces, and derive reservation requests
    #[command(subcommand)]
    Workload(workload::Command),
    /// Run a broker and four sites with simulated users, and take a guided tour
    Demo(Box<demo::Arguments>),
    #[command(flatten)]
    Daemon(daemon::Command),
    #[command(flatten)]
    Client(client::Command),
    /// Print a shell completion script
    Completions(manual::CompletionsArguments),
    /// Print the manual page, or write one page per command
    Man(manual::ManArguments),
}

fn main() -> ExitCode {
    // Not `Cli::parse`, which would not know the grouped help.
    let cli = Cli::from_arg_matches(&help::command().get_matches()).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Whatif(arguments) => whatif::run(&arguments),
        Command::SimulateGrid(arguments) => grid::run(&arguments),
        Command::Faults(arguments) => faults::run(&arguments),
        Command::Torture(arguments) => torture::run(&arguments),
        Command::Experiment(arguments) => experiment::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Workload(command) => workload::run(&command),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Daemon(command) => daemon::run(&command),
        Command::Client(command) => client::run(&command),
        Command::Completions(arguments) => manual::completions(&arguments, help::command()),
        Command::Man(arguments) => manual::man(&arguments, help::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe, as `head` does: that is no failure of ours.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::say!("error: {error:#}");
            client::exit_code(&error)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    // FileError does not report its I/O error as a source, so the chain alone would not find it.
    error.chain().any(|cause| match cause.downcast_ref::<FileError>() {
        Some(FileError::Write { cause, .. }) => broken(cause),
        _ => cause.downcast_ref::<io::Error>().is_some_and(broken),
    })
}
