//! The services: `bookahead site` and `bookahead broker` run one until they are told to end, `bookahead journal` looks after
//! what they wrote down, and `bookahead token` makes tokens for those who have no issuer of their own.
//!
//! - [`site`]: a site, and what is wrong with one
//! - [`serve`]: from arguments to a service that runs, and its end
//! - [`journal`], [`token`]: the other two

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
    /// Run a site: reservations and jobs on resources of its own
    Site(Box<site::Arguments>),
    /// Run a broker: reservations at several sites and brokers, all together or not at all
    Broker(Box<serve::Arguments>),
    /// Look after the journal of a site or broker
    #[command(subcommand)]
    Journal(journal::Command),
    /// Make a token that says who calls, or a secret to sign tokens with
    Token(Box<token::Arguments>),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Site(arguments) => site::run(arguments),
        Command::Broker(arguments) => serve::run(Role::Broker, arguments, OnLostJournal::Ask),
        Command::Journal(command) => journal::run(command),
        Command::Token(arguments) => token::run(arguments),
    }
}
