//! `bookahead completions` and `bookahead man`: shell completions and manual pages, generated from the same clap
//! definition as the help.

use crate::output::save_and_tell;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// Shell to generate the script for
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(arguments: &CompletionsArguments, mut command: Command) -> Result<()> {
    // Via a buffer: clap_complete panics if writing to standard output fails, for example on a closed pipe.
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    Ok(stdout().lock().write_all(&script)?)
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Write one page per command into this folder [default: print the page of bookahead itself]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(crate) fn man(arguments: &ManArguments, mut command: Command) -> Result<()> {
    command.build();
    let Some(folder) = &arguments.out else {
        return Ok(stdout().lock().write_all(page(&command)?.as_bytes())?);
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}; check its parent folder", folder.display()))?;
    write_all(&command, "", folder)
}

/// Writes the page of a command and, recursively, of its subcommands: `bookahead-workload-info.1`.
fn write_all(command: &Command, above: &str, folder: &Path) -> Result<()> {
    let name = format!("{above}{}", command.get_name());
    let named = command.clone().display_name(name.clone());
    save_and_tell(&folder.join(format!("{name}.1")), &page(&named)?)?;
    // The `help` command contains all others again, and would double the pages.
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.into_iter().try_for_each(|below| write_all(below, &format!("{name}-"), folder))
}

fn page(command: &Command) -> Result<String> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
