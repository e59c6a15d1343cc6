//! `bookahead workload import`: turns accounting records of Slurm, PBS and Torque, or a Parquet table, into a log in
//! Standard Workload Format. Lines that cannot be read are told with their numbers.

use crate::output::{count, plural, say};
use anyhow::{Context, Result, ensure};
use bookahead_workload::import::{Format, Import, ImportOptions, Report, Unit};
use bookahead_workload::swf;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::path::PathBuf;

use super::parquet::read as read_parquet;

#[derive(Args)]
#[command(
    after_help = "For Slurm: sacct --allusers --duplicates --parsable2 --starttime 2026-11-01 --format \
    JobID,JobIDRaw,User,Account,Partition,QOS,Submit,Eligible,Start,End,Timelimit,ReqCPUS,AllocCPUS,AllocNodes,State \
    > jobs.txt"
)]
pub(crate) struct Arguments {
    /// Files with accounting records, plain or gzip; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Output file, in SWF; gzip if the name ends in .gz; - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Format of the files [default: recognised by the name or the first line]
    #[arg(long, value_enum)]
    format: Option<FormatName>,

    /// Time zone of times without an offset, such as Europe/Berlin [default: that of this machine]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Size of the machine, for the header: processors, or nodes with --nodes
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    processors: Option<u32>,

    /// Count sizes in nodes instead of processors
    #[arg(long)]
    nodes: bool,

    /// Use the time at which a job became eligible (dependencies met, not held) as its submit time
    #[arg(long)]
    eligible: bool,

    /// Write the names of users and projects into the header; otherwise they have numbers only
    #[arg(long)]
    names: bool,

    /// Columns that are not named as sacct names them, as NAME=COLUMN, separated by commas: Submit=submit_time
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = renamed)]
    columns: Vec<(String, String)>,

    /// Fail at the first line that cannot be read
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Output of sacct --parsable2
    Sacct,
    /// Accounting log of PBS or Torque
    Pbs,
    /// Parquet table with the columns of sacct
    Parquet,
}

fn renamed(text: &str) -> Result<(String, String), String> {
    let (name, column) = text.split_once('=').ok_or("use NAME=COLUMN, such as Submit=submit_time")?;
    Ok((name.trim().to_owned(), column.trim().to_owned()))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let zone = match &arguments.zone {
        Some(name) => TimeZone::get(name)
            .with_context(|| format!("unknown time zone '{name}'; use a name such as Europe/Berlin"))?,
        None => TimeZone::system(),
    };
    let options = ImportOptions {
        unit: if arguments.nodes { Unit::Nodes } else { Unit::Processors },
        eligible: arguments.eligible,
        names: arguments.names,
        machine: arguments.processors,
        strict: arguments.strict,
        columns: arguments.columns.clone(),
    };
    let time = |text: &str| seconds(text, &zone);
    let mut import = Import::new(&options, &time);
    for file in &arguments.files {
        // The output is written last; reading a file that is about to be replaced is a mistake.
        let same = file.as_os_str() != "-" && *file == arguments.output;
        ensure!(!same, "{} is input and output; choose another --output", file.display());
        let is_parquet = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
        match arguments.format {
            Some(FormatName::Sacct) => import.read_file(file, Some(Format::Sacct))?,
            Some(FormatName::Pbs) => import.read_file(file, Some(Format::Pbs))?,
            Some(FormatName::Parquet) => read_parquet(file, &mut import)?,
            None if is_parquet => read_parquet(file, &mut import)?,
            None => import.read_file(file, None)?,
        }
    }
    let imported = import.finish()?;
    swf::write_file(&arguments.output, &imported.header, &imported.records)?;
    tell(&imported.report);
    if arguments.processors.is_none() {
        say!("note: the log has no size of the machine; give --processors here or to simulate");
    }
    if arguments.output.as_os_str() != "-" {
        say!("wrote {}", arguments.output.display());
    }
    Ok(())
}

/// Seconds since 1970 of `2026-11-17T09:00:00`, in a time zone if it has no offset, or of a number of seconds.
fn seconds(text: &str, zone: &TimeZone) -> Option<i64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant.as_second());
    }
    let local: DateTime = text.parse().ok()?;
    // Of two instants with the same wall time, in the hour when clocks are put back, the first.
    Some(local.to_zoned(zone.clone()).ok()?.timestamp().as_second())
}

fn tell(report: &Report) {
    say!("{} of {}", plural(report.jobs, "job"), plural(report.lines, "line"));
    for (kind, number) in report.skipped() {
        say!("  {:>9}  {}", count(number), kind.sentence());
    }
    if report.bad > 0 {
        say!("  {:>9}  lines that cannot be used:", count(report.bad));
    }
    for bad in &report.first_bad {
        say!("    {bad}");
    }
    let more = report.bad - report.first_bad.len() as u64;
    if more > 0 {
        say!("    and {} more", count(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_an_offset_is_of_the_zone() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(seconds("2026-11-17T09:00:00", &berlin), seconds("2026-11-17T08:00:00Z", &TimeZone::UTC));
        assert_eq!(seconds("2026-07-17T09:00:00", &berlin), seconds("2026-07-17T07:00:00", &TimeZone::UTC));
        // Clocks are put back at 3:00, so that 2:30 comes twice.
        assert_eq!(seconds("2026-10-25T02:30:00", &berlin), seconds("2026-10-25T00:30:00Z", &TimeZone::UTC));
        assert_eq!(seconds("1794906000", &berlin), Some(1_794_906_000));
        assert_eq!(seconds("tomorrow", &berlin), None);
    }
}
