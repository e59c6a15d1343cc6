//! `bookahead site`: a site that runs; and `bookahead site doctor`: everything that a site needs, looked at one after the
//! other, with what to mend.

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
    after_help = "It may run beside the site. Of a batch system it makes a small reservation far ahead and deletes it again, to \
    see whether it may. The exit code is 1 where something is wrong, and 0 where all is well or only doubtful."
)]
pub(crate) struct DoctorArguments {
    /// The configuration of the site
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,

    /// The folder of its state, if that is not where the configuration says
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,

    /// Say it as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn doctor(arguments: &DoctorArguments) -> Result<()> {
    let mut party = Party::read(Role::Site, &arguments.config)?;
    if let Some(folder) = &arguments.state {
        party.keep_in(folder)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("the system gives no threads")?;
    let findings = runtime.block_on(party.examine());
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
        bail!("{wrong} of {} things are wrong with {}", findings.len(), party.name());
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

/// One line for each, and below those that are not well what to do.
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
