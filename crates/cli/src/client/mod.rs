//! The client commands of sites and brokers: `probe`, `reserve`, `commit` and the others. They build requests and print
//! the answers; all decisions are made by the server.
//!
//! - [`place`]: server and credentials; [`session`]: the connection to one server
//! - [`when`], [`dates`]: parsing and formatting of times
//! - [`request`]: requests from options or from a file
//! - [`reserve`], [`holding`], [`looking`], [`list`], [`schedule`], [`watch`], [`wait`], [`submit`], [`logs`],
//!   [`usage`], [`export`]: the commands
//! - [`view`]: tables; [`refusal`]: errors and exit codes

mod about;
mod dates;
pub(crate) mod export;
mod holding;
mod ids;
mod invitation;
mod list;
mod logs;
mod looking;
mod place;
mod refusal;
pub(crate) mod request;
mod reserve;
mod schedule;
mod session;
mod submit;
mod usage;
mod view;
mod wait;
mod watch;

pub(crate) use refusal::exit_code;

use anyhow::Result;
use clap::Subcommand;
use refusal::EXIT_CODES;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show possible slots for a request and their effect on waiting jobs, without booking
    #[command(after_help = EXIT_CODES)]
    Probe(Box<reserve::ProbeArguments>),
    /// Hold resources until you commit them, or book them at once
    #[command(after_help = EXIT_CODES)]
    Reserve(Box<reserve::Arguments>),
    /// Make a hold final
    #[command(after_help = EXIT_CODES)]
    Commit(Box<holding::CommitArguments>),
    /// Prolong a hold
    #[command(after_help = EXIT_CODES)]
    Hold(Box<holding::HoldArguments>),
    /// Prolong a reservation, even while it is active
    #[command(after_help = EXIT_CODES)]
    Extend(Box<holding::ExtendArguments>),
    /// Change a committed reservation; it stays as it is if the change is refused
    #[command(after_help = EXIT_CODES)]
    Change(Box<holding::ChangeArguments>),
    /// Return part of a reservation, or the rest of it, early
    #[command(after_help = EXIT_CODES)]
    Release(Box<holding::ReleaseArguments>),
    /// Cancel reservations or jobs
    #[command(after_help = EXIT_CODES)]
    Cancel(Box<looking::Arguments>),
    /// Accept an invitation: a reservation that another user shares with you
    #[command(after_help = EXIT_CODES)]
    Accept(Box<invitation::AcceptArguments>),
    /// Decline an invitation; the reservation is no longer shown to you
    #[command(after_help = EXIT_CODES)]
    Decline(Box<invitation::DeclineArguments>),
    /// Hide the invitations of a user
    #[command(after_help = EXIT_CODES)]
    Block(Box<invitation::BlockArguments>),
    /// Show the invitations of a user again
    #[command(after_help = EXIT_CODES)]
    Unblock(Box<invitation::UnblockArguments>),
    /// Show reservations or jobs in detail
    #[command(after_help = EXIT_CODES)]
    Show(Box<looking::ShowArguments>),
    /// List reservations
    #[command(after_help = EXIT_CODES)]
    List(Box<list::Arguments>),
    /// Print events as they happen
    #[command(after_help = EXIT_CODES)]
    Watch(Box<watch::Arguments>),
    /// Submit a script or program, to a reservation or to the queue
    #[command(after_help = EXIT_CODES)]
    Submit(Box<submit::Arguments>),
    /// List jobs
    #[command(after_help = EXIT_CODES)]
    Jobs(Box<list::JobsArguments>),
    /// Print what a job has printed
    #[command(after_help = EXIT_CODES)]
    Logs(Box<logs::Arguments>),
    /// List sites and brokers with their resources
    #[command(after_help = EXIT_CODES)]
    Sites(Box<looking::SitesArguments>),
    /// Wait until a reservation or job has started or ended
    #[command(after_help = EXIT_CODES)]
    Wait(Box<wait::Arguments>),
    /// Draw reserved and free capacity as bars in the terminal
    #[command(after_help = EXIT_CODES)]
    Schedule(Box<schedule::Arguments>),
    /// Export your reservations as a calendar (iCalendar)
    #[command(after_help = EXIT_CODES)]
    Calendar(Box<looking::CalendarArguments>),
    /// End all your sessions and tokens at a service
    #[command(after_help = EXIT_CODES)]
    SignOut(Box<looking::SignOutArguments>),
    /// Show how much was booked and used, by user, project or month
    #[command(after_help = EXIT_CODES)]
    Usage(Box<usage::Arguments>),
    /// Write the jobs and reservations of a site's history as a log for simulate
    #[command(after_help = EXIT_CODES)]
    Export(Box<export::Arguments>),
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
        Command::Accept(arguments) => invitation::accept(arguments),
        Command::Decline(arguments) => invitation::decline(arguments),
        Command::Block(arguments) => invitation::block(arguments),
        Command::Unblock(arguments) => invitation::unblock(arguments),
        Command::Show(arguments) => looking::show(arguments),
        Command::List(arguments) => list::run(arguments),
        Command::Watch(arguments) => watch::run(arguments),
        Command::Submit(arguments) => submit::run(arguments),
        Command::Jobs(arguments) => list::jobs(arguments),
        Command::Logs(arguments) => logs::run(arguments),
        Command::Sites(arguments) => looking::sites(arguments),
        Command::Wait(arguments) => wait::run(arguments),
        Command::Schedule(arguments) => schedule::run(arguments),
        Command::Calendar(arguments) => looking::calendar(arguments),
        Command::SignOut(arguments) => looking::sign_out(arguments),
        Command::Usage(arguments) => usage::run(arguments),
        Command::Export(arguments) => export::run(arguments),
    }
}
