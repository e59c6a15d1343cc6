//! `bookahead workload`: looking at traces, making them, converting them, and turning jobs into requests for
//! reservations.

mod convert;
mod generate;
mod info;
mod reservations;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what is in a trace: how many jobs, how large, how long, how well estimated
    Info(Box<info::Arguments>),
    /// Make a trace from a workload model; the same seed gives the same jobs on every machine
    Generate(Box<generate::Arguments>),
    /// Clean a trace, choose jobs, scale its load, and write it as SWF, plain or gzip
    Convert(Box<convert::Arguments>),
    /// Turn one job of each block of ten into a reservation request
    Reservations(Box<reservations::Arguments>),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Info(arguments) => info::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Reservations(arguments) => reservations::run(arguments),
    }
}
