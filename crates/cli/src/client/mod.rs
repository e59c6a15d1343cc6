//! The commands that ask a site or a broker: `probe`, `reserve`, `commit` and the others. They choose what to ask and show
//! what is answered; nothing is decided here.
//!
//! - [`place`]: where is asked, and as whom; [`session`]: one talk with one server
//! - [`when`], [`dates`]: times as people write and read them
//! - [`request`]: what is wanted, by options or from a file
//! - [`reserve`], [`holding`], [`looking`], [`list`], [`schedule`], [`watch`], [`submit`]: the commands
//! - [`view`]: what is shown; [`refusal`]: how a command ends otherwise

mod dates;
mod holding;
mod ids;
mod list;
mod looking;
mod place;
mod refusal;
pub(crate) mod request;
mod reserve;
mod schedule;
mod session;
mod submit;
mod view;
mod watch;
mod when;

pub(crate) use refusal::exit_code;

use anyhow::Result;
use clap::Subcommand;
use refusal::EXIT_CODES;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Ask a site or broker what could be had, and what it would do to waiting jobs; nothing is booked
    #[command(after_help = EXIT_CODES)]
    Probe(Box<reserve::ProbeArguments>),
    /// Hold something until you commit it, or book it at once
    #[command(after_help = EXIT_CODES)]
    Reserve(Box<reserve::Arguments>),
    /// Make a hold final
    #[command(after_help = EXIT_CODES)]
    Commit(Box<holding::CommitArguments>),
    /// Make a hold longer
    #[command(after_help = EXIT_CODES)]
    Hold(Box<holding::HoldArguments>),
    /// Make a reservation longer, also while it is active
    #[command(after_help = EXIT_CODES)]
    Extend(Box<holding::ExtendArguments>),
    /// Change the terms of a committed reservation; the old ones stand if the new ones cannot be had
    #[command(after_help = EXIT_CODES)]
    Change(Box<holding::ChangeArguments>),
    /// Give back part of a reservation, or the rest of it, early
    #[command(after_help = EXIT_CODES)]
    Release(Box<holding::ReleaseArguments>),
    /// Give up reservations or jobs
    #[command(after_help = EXIT_CODES)]
    Cancel(Box<looking::Arguments>),
    /// Show reservations or jobs in every detail
    #[command(after_help = EXIT_CODES)]
    Show(Box<looking::ShowArguments>),
    /// List reservations
    #[command(after_help = EXIT_CODES)]
    List(Box<list::Arguments>),
    /// Watch what happens, as it happens
    #[command(after_help = EXIT_CODES)]
    Watch(Box<watch::Arguments>),
    /// Have a script or a program run, in a reservation or in the queue
    #[command(after_help = EXIT_CODES)]
    Submit(Box<submit::Arguments>),
    /// List jobs
    #[command(after_help = EXIT_CODES)]
    Jobs(Box<list::JobsArguments>),
    /// List sites and brokers, and what they offer
    #[command(after_help = EXIT_CODES)]
    Sites(Box<looking::SitesArguments>),
    /// Draw what is taken and what is free, as bars in the terminal
    #[command(after_help = EXIT_CODES)]
    Schedule(Box<schedule::Arguments>),
    /// Print your reservations as a calendar (iCalendar)
    #[command(after_help = EXIT_CODES)]
    Calendar(Box<looking::CalendarArguments>),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Probe(arguments) => reserve::run_probe(arguments),
        Command::Reserve(arguments) => reserve::run(arguments),
        Command::Commit(arguments) => holding::commit(arguments),
        Command::Hold(arguments) => holding::hold(arguments),
        Command::Extend(arguments) => holding::extend(arguments),
        Command::Change(arguments) => holding::change(arguments),
        Command::Release(arguments) => holding::release(arguments),
        Command::Cancel(arguments) => looking::cancel(arguments),
        Command::Show(arguments) => looking::show(arguments),
        Command::List(arguments) => list::run(arguments),
        Command::Watch(arguments) => watch::run(arguments),
        Command::Submit(arguments) => submit::run(arguments),
        Command::Jobs(arguments) => list::jobs(arguments),
        Command::Sites(arguments) => looking::sites(arguments),
        Command::Schedule(arguments) => schedule::run(arguments),
        Command::Calendar(arguments) => looking::calendar(arguments),
    }
}
