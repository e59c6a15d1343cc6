//! The services: `bookahead site` and `bookahead broker` run one until they are stopped, `bookahead journal` checks,
//! exports and compacts their journals, and `bookahead token` issues tokens without an identity provider.
//!
//! - [`site`]: a site, and `site doctor`
//! - [`serve`]: start, signals and end of a service
//! - [`journal`], [`token`]: the other two commands

mod journal;
mod serve;
mod site;
mod token;

use anyhow::Result;
use bookahead_service::daemon::OnLostJournal;
use clap::Subcommand;
use serve::Role;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a site, which manages reservations and jobs on its own resources
    Site(Box<site::Arguments>),
    /// Run a broker, which reserves at several sites and brokers, all or nothing
    Broker(Box<serve::Arguments>),
    /// Check, export, copy or compact the journal of a site or broker
    #[command(subcommand)]
    Journal(journal::Command),
    /// Issue an access token, or create a secret to sign tokens with
    Token(Box<token::Arguments>),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Site(arguments) => site::run(arguments),
        // A broker has no batch system in which it could find reservations of a lost journal.
        Command::Broker(arguments) => serve::run(Role::Broker, arguments, OnLostJournal::Ask),
        Command::Journal(command) => journal::run(command),
        Command::Token(arguments) => token::run(arguments),
    }
}
