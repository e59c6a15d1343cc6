//! The first tour: commands that a newcomer would type, with a word of explanation before each, and what they print. Commands
//! are really run, in a folder that has the files they name.

use crate::output::say;
use crate::table::{terminal_width, wrapped};
use anyhow::{Context, Result, bail};
use bookahead_lrms::command::{Command as Foreign, Runner};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

struct Station {
    says: &'static str,
    /// The words of the command behind `bookahead`; the id of what was reserved last in place of `ID`.
    types: &'static str,
}

const REQUEST: &str = "examples/requests/tele-immersion.toml";

const STATIONS: [Station; 8] = [
    Station {
        says: "Four sites and their broker. Some have users of their own, whose jobs wait in queues.",
        types: "sites",
    },
    Station {
        says: "When could you have 300 processors for an hour, within the next six? Nothing is booked by asking. The \
               last columns say what each begin would do to the jobs that wait there.",
        types: "probe --capacity 300 --duration 1h --from now --until +6h --most 6",
    },
    Station {
        says: "Now a cluster, a room to look at its pictures, and a network link between the two: all three at the \
               same time, or none of them.",
        types: "reserve --file examples/requests/tele-immersion.toml --hold 5m",
    },
    Station {
        says: "It is held, not booked: if nobody commits it, it is given back. Commit it.",
        types: "commit ID",
    },
    Station { says: "This is promised now, and survives any crash.", types: "show ID" },
    Station {
        says: "What cannot be had is refused with a reason, and with what would do instead.",
        types: "reserve --capacity 500 --duration 2h --from +10m --until +2h20m --kind processors",
    },
    Station { says: "All that you have booked through the broker.", types: "list --mine" },
    Station {
        says: "And what is taken on the largest cluster today, seen from the broker.",
        types: "schedule centre/cluster --until +12h",
    },
];

pub(crate) async fn run(url: &str, ends: bool) -> Result<()> {
    let guide = Guide::to(url)?;
    let mut guide = if ends { guide } else { guide.with_pauses() };
    guide.put(REQUEST, include_str!("../../../../examples/requests/tele-immersion.toml"))?;
    let mut last = None;
    for station in &STATIONS {
        guide.goes_on(station.says).await?;
        let words = station.types.split(' ').map(|word| match word {
            "ID" => last.as_deref().unwrap_or("ID"),
            word => word,
        });
        let words: Vec<&str> = words.collect();
        last = id_in(&guide.types(&words).await?, "rsv_").or(last);
    }
    say!("\nWhere to look next:");
    say!("   $ bookahead --help                      what else there is");
    say!("   $ bookahead watch --server {url}        what happens, as it happens");
    say!("   $ curl {url}/openapi.json               the API, for programs");
    if !ends {
        say!("\nThe grid goes on until you press Ctrl-C.");
    }
    Ok(())
}

/// The exit code of a refusal.
const REFUSED: i32 = 3;

/// A command of somebody else that takes longer is ended.
const FOREIGN_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct Guide {
    program: PathBuf,
    /// Whom commands ask that do not say whom.
    server: String,
    folder: TempDir,
    stations: usize,
    /// Whether the user presses Enter before each step but the first.
    pauses: bool,
}

impl Guide {
    /// Of a tour whose commands ask this server.
    pub(crate) fn to(server: &str) -> Result<Guide> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        Ok(Guide { program, server: server.to_owned(), folder, stations: 0, pauses: false })
    }

    /// Waits for Enter between the steps where a person watches.
    pub(crate) fn with_pauses(self) -> Guide {
        Guide { pauses: io::stdin().is_terminal() && io::stderr().is_terminal(), ..self }
    }

    /// Puts a file into the folder in which commands run.
    pub(crate) fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.path().join(name);
        let made = std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")));
        made.and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {name} of the tour"))
    }

    /// Goes on to the next station.
    pub(crate) async fn goes_on(&mut self, says: &str) -> Result<()> {
        if self.pauses && self.stations > 0 {
            say!("\n[Press Enter to go on]");
            let read = tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new())).await?;
            // At the end of the input nothing more is pressed.
            self.pauses = read.context("cannot read from the terminal")? > 0;
        }
        self.stations += 1;
        let width = terminal_width().unwrap_or(100);
        say!("\n{}\n", wrapped(&format!("{}. {says}", self.stations), width).join("\n"));
        Ok(())
    }

    /// Types a command of ours, and gives what it printed. A refusal is part of a tour; anything else that fails ends it.
    pub(crate) async fn types(&self, words: &[&str]) -> Result<String> {
        say!("   $ bookahead {}", shown(words));
        let mut command = Command::new(&self.program);
        // Before all others: behind a script stand its own arguments.
        command.args(words.first()).args(["--user", "you"]).current_dir(self.folder.path());
        if !words.contains(&"--server") {
            command.args(["--server", &self.server]);
        }
        command.args(words.get(1..).unwrap_or_default());
        // What the command prints goes through a pipe, and then to this terminal.
        command.envs(terminal_width().map(|width| ("COLUMNS", width.to_string())));
        // Waited for elsewhere, so that somebody who does not want to go on need not wait.
        let output = tokio::task::spawn_blocking(move || command.output()).await?;
        let output = output.context("cannot run this program again")?;
        std::io::stdout().write_all(&output.stdout)?;
        std::io::stderr().write_all(&output.stderr)?;
        match output.status.code() {
            Some(0 | REFUSED) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            code => bail!("that should have worked, and ended with {code:?}; this is a defect"),
        }
    }

    /// Types a command of somebody else, and gives what it printed.
    pub(crate) async fn types_foreign(&self, command: Foreign) -> Result<String> {
        let variables = command.environment.iter().map(|(name, value)| format!("{name}={value} "));
        let words: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        say!("   $ {}{} {}", variables.collect::<String>(), command.program, shown(&words));
        let printed = foreign(command).await?;
        std::io::stdout().write_all(printed.as_bytes())?;
        Ok(printed)
    }
}

/// Runs a command of somebody else without a word.
pub(crate) async fn foreign(command: Foreign) -> Result<String> {
    let program = command.program.clone();
    let run = move || Runner::local(FOREIGN_WITHIN).run(&command);
    let outcome = tokio::task::spawn_blocking(run).await??;
    if !outcome.is_success() {
        bail!("{program} ended with {:?}: {}", outcome.code, outcome.said());
    }
    Ok(outcome.out)
}

/// The first id in a text that begins so, such as `rsv_`.
pub(crate) fn id_in(text: &str, begins: &str) -> Option<String> {
    let begin = text.find(begins)?;
    let digits = &text[begin + begins.len()..];
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    Some(text[begin..begin + begins.len() + end].to_owned())
}

/// Words as they would be typed.
fn shown(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| match word.contains(' ') {
        true => format!("'{word}'"),
        false => (*word).to_owned(),
    });
    quoted.collect::<Vec<_>>().join(" ")
}
