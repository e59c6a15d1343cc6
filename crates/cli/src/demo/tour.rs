//! The guided tour: typical commands, each with a short explanation. The commands are really run, in a folder with the
//! files that they name.

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
    /// The arguments of `bookahead`. `ID` stands for the id of the last reservation.
    types: &'static str,
}

const REQUEST: &str = "examples/requests/tele-immersion.toml";

const STATIONS: [Station; 8] = [
    Station {
        says: "Four sites and their broker. Some sites have local users, whose jobs wait in queues.",
        types: "sites",
    },
    Station {
        says: "When are 300 processors free for an hour, within the next six? A probe books nothing. The last columns \
               show how each start would affect the waiting jobs.",
        types: "probe --capacity 300 --duration 1h --from now --until +6h --most 6",
    },
    Station {
        says: "Now reserve a cluster, a room to view its output, and a network link between the two: all three at the \
               same time, or none.",
        types: "reserve --file examples/requests/tele-immersion.toml --hold 5m",
    },
    Station { says: "It is only held, and expires unless you commit it. Commit it.", types: "commit ID" },
    Station { says: "It is booked now, and survives any crash.", types: "show ID" },
    Station {
        says: "A request that does not fit is refused with the reason and with alternatives.",
        types: "reserve --capacity 500 --duration 2h --from +10m --until +2h20m --kind processors",
    },
    Station { says: "All reservations that you made through the broker.", types: "list --mine" },
    Station {
        says: "The schedule of the largest cluster for the next twelve hours, as far as the broker knows it.",
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
    say!("   $ bookahead --help                      all commands");
    say!("   $ bookahead watch --server {url}        print events as they happen");
    say!("   $ curl {url}/openapi.json               the API, for programs");
    if !ends {
        say!("\nThe demo runs until you press Ctrl-C.");
    }
    Ok(())
}

/// The exit code of a refusal.
const REFUSED: i32 = 3;

/// Timeout of a Slurm command, which normally takes milliseconds.
const FOREIGN_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct Guide {
    program: PathBuf,
    /// The server of commands without `--server`.
    server: String,
    folder: TempDir,
    stations: usize,
    /// Whether the user presses Enter before each step but the first.
    pauses: bool,
}

impl Guide {
    pub(crate) fn to(server: &str) -> Result<Guide> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        Ok(Guide { program, server: server.to_owned(), folder, stations: 0, pauses: false })
    }

    /// Waits for Enter between the steps where a person watches.
    pub(crate) fn with_pauses(self) -> Guide {
        Guide { pauses: io::stdin().is_terminal() && io::stderr().is_terminal(), ..self }
    }

    /// Writes a file into the working folder of the commands.
    pub(crate) fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.path().join(name);
        let made = std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")));
        made.and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {name} of the tour"))
    }

    /// Prints the number and explanation of the next step.
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

    /// Runs a `bookahead` command and returns its output. A refusal is part of the tour; any other failure ends it.
    pub(crate) async fn types(&self, words: &[&str]) -> Result<String> {
        say!("   $ bookahead {}", shown(words));
        let mut command = Command::new(&self.program);
        // Before all other options: words after a script are arguments of the script.
        command.args(words.first()).args(["--user", "you"]).current_dir(self.folder.path());
        if !words.contains(&"--server") {
            command.args(["--server", &self.server]);
        }
        command.args(words.get(1..).unwrap_or_default());
        // What the command prints goes through a pipe, and then to this terminal.
        command.envs(terminal_width().map(|width| ("COLUMNS", width.to_string())));
        // On a blocking thread, so that Ctrl-C takes effect while the command runs.
        let output = tokio::task::spawn_blocking(move || command.output()).await?;
        let output = output.context("cannot run this program again")?;
        std::io::stdout().write_all(&output.stdout)?;
        std::io::stderr().write_all(&output.stderr)?;
        match output.status.code() {
            Some(0 | REFUSED) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            code => bail!("the command failed with exit code {code:?}; please report this as a bug"),
        }
    }

    /// Shows and runs a Slurm command, and returns its output.
    pub(crate) async fn types_foreign(&self, command: Foreign) -> Result<String> {
        let variables = command.environment.iter().map(|(name, value)| format!("{name}={value} "));
        let words: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        say!("   $ {}{} {}", variables.collect::<String>(), command.program, shown(&words));
        let printed = foreign(command).await?;
        std::io::stdout().write_all(printed.as_bytes())?;
        Ok(printed)
    }
}

/// Runs a Slurm command without showing it.
pub(crate) async fn foreign(command: Foreign) -> Result<String> {
    let program = command.program.clone();
    let run = move || Runner::local(FOREIGN_WITHIN).run(&command);
    let outcome = tokio::task::spawn_blocking(run).await??;
    if !outcome.is_success() {
        bail!("{program} failed with exit code {:?}: {}", outcome.code, outcome.said());
    }
    Ok(outcome.out)
}

/// The first id in a text with this prefix, such as `rsv_`.
pub(crate) fn id_in(text: &str, begins: &str) -> Option<String> {
    let begin = text.find(begins)?;
    let digits = &text[begin + begins.len()..];
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    Some(text[begin..begin + begins.len() + end].to_owned())
}

/// The words of a command line, quoted if they contain a space.
fn shown(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| match word.contains(' ') {
        true => format!("'{word}'"),
        false => (*word).to_owned(),
    });
    quoted.collect::<Vec<_>>().join(" ")
}
