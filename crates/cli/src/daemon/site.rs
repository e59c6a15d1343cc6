//! `bookahead site`: a site that runs, or the examination of one.

use super::party::Role;
use super::{doctor, serve};
use anyhow::Result;
use bookahead_service::site::Found;
use clap::{Args, CommandFactory, Subcommand};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    serve: Option<serve::Arguments>,

    /// With a new journal: take into the book what the batch system keeps for this site, as committed
    #[arg(long, help_heading = "After the journal was lost")]
    adopt: bool,

    /// With a new journal: give back what the batch system keeps for this site
    #[arg(long, conflicts_with = "adopt", help_heading = "After the journal was lost")]
    remove_found: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Check a site from its configuration to its batch system, and say what to mend
    Doctor(doctor::Arguments),
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let found = match (arguments.adopt, arguments.remove_found) {
        (true, _) => Found::Adopt,
        (_, true) => Found::Remove,
        _ => Found::Ask,
    };
    match (&arguments.command, &arguments.serve) {
        (Some(Command::Doctor(doctor)), _) => doctor::run(doctor),
        (None, Some(serve)) => serve::run(Role::Site, serve, found),
        (None, None) => {
            let mut cli = crate::Cli::command();
            let missing = clap::error::ErrorKind::MissingRequiredArgument;
            cli.error(missing, "a site needs its configuration: bookahead site --config FILE").exit()
        }
    }
}
