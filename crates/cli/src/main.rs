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

/// Advance reservations for batch clusters.
///
/// Books at sites and brokers, runs them, and replays the same deciding code on workload traces. `bookahead demo` shows it.
#[derive(Parser)]
#[command(name = "bookahead", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the jobs of a trace through a scheduler and show how they fared
    Simulate(Box<simulate::Arguments>),
    /// Ask what a reservation would do to the jobs of a trace at a moment, before anything is booked
    Whatif(Box<whatif::Arguments>),
    /// Run a described grid of sites, brokers and clients on a faulty network, and show what became of it
    SimulateGrid(Box<grid::Arguments>),
    /// Run random grids in which random things go wrong, and check what must always be true
    Faults(Box<faults::Arguments>),
    /// Kill real sites and brokers under load again and again, and check every answer that they gave
    Torture(Box<torture::Arguments>),
    /// Run an experiment of the source papers and show the paper's figures beside ours
    Experiment(Box<experiment::Arguments>),
    /// Look at, make, convert workload traces, and turn jobs into reservation requests
    #[command(subcommand)]
    Workload(workload::Command),
    /// Run a broker and four sites with a living workload, and take a first tour
    Demo(Box<demo::Arguments>),
    #[command(flatten)]
    Daemon(daemon::Command),
    #[command(flatten)]
    Client(client::Command),
    /// Print a script that lets a shell complete commands and options
    Completions(manual::CompletionsArguments),
    /// Print the manual page, or write one for each command
    Man(manual::ManArguments),
}

fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&help::command().get_matches()).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Whatif(arguments) => whatif::run(&arguments),
        Command::SimulateGrid(arguments) => grid::run(&arguments),
        Command::Faults(arguments) => faults::run(&arguments),
        Command::Torture(arguments) => torture::run(&arguments),
        Command::Experiment(arguments) => experiment::run(&arguments),
        Command::Workload(command) => workload::run(&command),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Daemon(command) => daemon::run(&command),
        Command::Client(command) => client::run(&command),
        Command::Completions(arguments) => manual::completions(&arguments, help::command()),
        Command::Man(arguments) => manual::man(&arguments, help::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::say!("error: {error:#}");
            client::exit_code(&error)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| match cause.downcast_ref::<FileError>() {
        Some(FileError::Write { cause, .. }) => broken(cause),
        _ => cause.downcast_ref::<io::Error>().is_some_and(broken),
    })
}
