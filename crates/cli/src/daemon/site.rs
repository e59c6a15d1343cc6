//! `bookahead site`: runs a site. `bookahead site doctor`: checks everything that a site needs and tells how to fix it.

use super::serve;
use super::serve::{Party, Role};
use anyhow::{Context, Result, bail};
use bookahead_lrms::batch::{Finding, Grade};
use bookahead_service::daemon::OnLostJournal;
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;

#[derive(Args)]
// Clap derives an argument group from the name of the struct, and the flattened struct has the same name.
#[group(skip)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    serve: serve::Arguments,

    /// With a new journal: adopt the reservations that the batch system has for this site, as committed
    #[arg(long, help_heading = "After the journal was lost")]
    adopt: bool,

    /// With a new journal: delete the reservations that the batch system has for this site
    #[arg(long, conflicts_with = "adopt", help_heading = "After the journal was lost")]
    remove_found: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Check a site, from its configuration to its batch system, and report what to fix
    Doctor(DoctorArguments),
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let on_lost_journal = match (arguments.adopt, arguments.remove_found) {
        (true, _) => OnLostJournal::Adopt,
        (_, true) => OnLostJournal::Remove,
        _ => OnLostJournal::Ask,
    };
    match &arguments.command {
        Some(Command::Doctor(doctor)) => self::doctor(doctor),
        None => serve::run(Role::Site, &arguments.serve, on_lost_journal),
    }
}

#[derive(Args)]
#[command(
    after_help = "The site may be running. To test permissions, the doctor makes a small reservation in the batch system, far \
    ahead, and deletes it. The exit code is 1 if something is wrong, and 0 if all is well or only doubtful."
)]
pub(crate) struct DoctorArguments {
    /// Configuration file of the site
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,

    /// State folder [default: from the configuration]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,

    /// Print the findings as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn doctor(arguments: &DoctorArguments) -> Result<()> {
    let mut party = Party::read(Role::Site, &arguments.config)?;
    if let Some(folder) = &arguments.state {
        party.keep_in(folder)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start threads")?;
    let findings = runtime.block_on(party.examine());
    // Threads that still block must not delay the exit.
    runtime.shutdown_background();
    let mut out = stdout().lock();
    if arguments.json {
        let all: Vec<_> = findings.iter().map(as_json).collect();
        writeln!(out, "{}", json!({ "site": party.name(), "findings": all }))?;
    } else {
        write!(out, "{}", table(&findings))?;
    }
    let wrong = findings.iter().filter(|finding| finding.grade == Grade::Wrong).count();
    if wrong > 0 {
        bail!("{wrong} of {} checks failed for {}", findings.len(), party.name());
    }
    Ok(())
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Well => "well",
        Grade::Doubtful => "doubtful",
        Grade::Wrong => "wrong",
    }
}

fn as_json(finding: &Finding) -> serde_json::Value {
    let Finding { what, grade, seen, advice } = finding;
    json!({ "what": what, "grade": word(*grade), "seen": seen, "advice": advice })
}

/// One line per finding, with the advice below.
fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let Finding { what, grade, seen, advice } = finding;
        text.push_str(&format!("{:<8}  {what:<width$}  {seen}\n", word(*grade)));
        if let Some(advice) = advice {
            text.push_str(&format!("{:<8}  {:<width$}  → {advice}\n", "", ""));
        }
    }
    text
}
