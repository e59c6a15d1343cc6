//! `bookahead site`: a site that runs, or the examination of one.

use super::party::Role;
use super::{doctor, serve};
use anyhow::Result;
use bookahead_service::daemon::OnLostJournal;
use clap::{Args, Subcommand};

#[derive(Args)]
// Of what it flattens there is a group of the same name.
#[group(skip)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    serve: serve::Arguments,

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
    let on_lost_journal = match (arguments.adopt, arguments.remove_found) {
        (true, _) => OnLostJournal::Adopt,
        (_, true) => OnLostJournal::Remove,
        _ => OnLostJournal::Ask,
    };
    match &arguments.command {
        Some(Command::Doctor(doctor)) => doctor::run(doctor),
        None => serve::run(Role::Site, &arguments.serve, on_lost_journal),
    }
}
