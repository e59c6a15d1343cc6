//! The first tour: commands that a newcomer would type, run as they are typed, with a word of explanation before each.

use crate::talk::say;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A station of the tour.
struct Station {
    says: &'static str,
    /// The words of the command behind `bookahead`; the id of what was reserved last in place of `ID`.
    types: &'static [&'static str],
}

const STATIONS: [Station; 7] = [
    Station {
        says: "Four sites and their broker. Some have users of their own, whose jobs wait in queues.",
        types: &["sites"],
    },
    Station {
        says: "When could you have 300 processors for an hour, within the next six? Nothing is booked by asking. The \
               last columns say what each begin would do to the jobs that wait there.",
        types: &[
            "probe",
            "--capacity",
            "300",
            "--duration",
            "1h",
            "--from",
            "now",
            "--until",
            "+6h",
            "--most",
            "6",
        ],
    },
    Station {
        says: "Now a cluster, a room to look at its pictures, and a network link between the two: all three at the \
               same time, or none of them.",
        types: &["reserve", "--file", "examples/requests/tele-immersion.toml", "--hold", "30s"],
    },
    Station {
        says: "It is held, not booked: if nobody commits it, it is given back. Commit it.",
        types: &["commit", "ID"],
    },
    Station { says: "This is promised now, and survives any crash.", types: &["show", "ID"] },
    Station {
        says: "What cannot be had is refused with a reason, and with what would do instead.",
        types: &[
            "reserve",
            "--capacity",
            "500",
            "--duration",
            "2h",
            "--from",
            "+10m",
            "--until",
            "+2h20m",
            "--kind",
            "processors",
        ],
    },
    Station { says: "All that you have booked through the broker.", types: &["list", "--mine"] },
];

/// Walks through the stations. A refusal is part of the tour; anything else that fails ends it.
pub(crate) fn run(url: &str, ends: bool) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let request = folder.path().join("tele-immersion.toml");
    std::fs::write(&request, include_str!("../../../../examples/requests/tele-immersion.toml"))
        .context("cannot write the request of the tour")?;
    let mut last = None;
    for (at, station) in STATIONS.iter().enumerate() {
        say!("\n{}. {}\n", at + 1, station.says);
        say!("   $ bookahead {}", shown(station.types, last.as_deref()));
        if let Some(id) = walk(&program, url, station, &request, last.as_deref())? {
            last = Some(id);
        }
    }
    say!("\nWhere to look next:");
    say!("   $ bookahead --help                      what else there is");
    say!("   $ bookahead watch --server {url}        what happens, as it happens");
    say!("   $ curl {url}/v1/schedule                what is taken when, for drawing");
    say!("   $ curl {url}/openapi.json               the API, for programs");
    if !ends {
        say!("\nThe grid goes on until you press Ctrl-C.");
    }
    Ok(())
}

/// Runs a command; the id of what it reserved, if it did.
fn walk(
    program: &Path,
    url: &str,
    station: &Station,
    request: &Path,
    last: Option<&str>,
) -> Result<Option<String>> {
    let words = station.types.iter().map(|word| match *word {
        "ID" => last.unwrap_or("ID").to_owned(),
        word if word.ends_with("tele-immersion.toml") => request.display().to_string(),
        word => word.to_owned(),
    });
    let mut command = Command::new(program);
    command.args(words).args(["--server", url, "--user", "you"]);
    let output = command.output().context("cannot run this program again")?;
    std::io::stdout().write_all(&output.stdout)?;
    std::io::stderr().write_all(&output.stderr)?;
    /// The exit code of a refusal.
    const REFUSED: i32 = 3;
    match output.status.code() {
        Some(0 | REFUSED) => Ok(id_in(&String::from_utf8_lossy(&output.stdout))),
        code => bail!("that should have worked, and ended with {code:?}; this is a defect"),
    }
}

fn id_in(text: &str) -> Option<String> {
    let begin = text.find("rsv_")?;
    let digits = text[begin + 4..].find(|c: char| !c.is_ascii_hexdigit());
    Some(text[begin..digits.map_or(text.len(), |end| begin + 4 + end)].to_owned())
}

/// A command as it would be typed.
fn shown(words: &[&str], last: Option<&str>) -> String {
    let words = words.iter().map(|word| match *word {
        "ID" => last.unwrap_or("ID"),
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}
