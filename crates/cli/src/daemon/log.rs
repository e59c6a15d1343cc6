//! What a service tells of itself while it runs: lines on standard error, for people or for programs.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// Where the filter comes from if no option gives it.
const VARIABLE: &str = "BOOKAHEAD_LOG";
const USUAL: &str = "info";

#[derive(Args)]
pub(super) struct LogArguments {
    /// What is logged: error, warn, info, debug or trace, also for parts alone, as in warn,audit=info [env:
    /// BOOKAHEAD_LOG] [default: info]
    #[arg(long, value_name = "FILTER", help_heading = "Output")]
    log: Option<String>,

    /// How it is logged
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    log_format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// One JSON document a line
    Json,
}

impl LogArguments {
    /// Logs from now on.
    pub(super) fn begin(&self) -> Result<()> {
        let said = self.log.clone().or_else(|| std::env::var(VARIABLE).ok().filter(|said| !said.is_empty()));
        let said = said.unwrap_or_else(|| USUAL.to_owned());
        let filter = EnvFilter::builder().parse(&said);
        let filter = filter.with_context(|| {
            format!("\"{said}\" is no filter of the log; give error, warn, info, debug or trace")
        })?;
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
        // A second one in this process would be a defect of ours, and is no reason not to serve.
        let _ = match self.log_format {
            Format::Text => lines.with_ansi(stderr().is_terminal()).try_init(),
            Format::Json => lines.json().try_init(),
        };
        Ok(())
    }
}
