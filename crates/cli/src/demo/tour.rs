//! The first tour: commands that a newcomer would type, with a word of explanation before each.

use super::guide::{Guide, id_in};
use crate::output::say;
use anyhow::Result;

struct Station {
    says: &'static str,
    /// The words of the command behind `bookahead`; the id of what was reserved last in place of `ID`.
    types: &'static [&'static str],
}

const REQUEST: &str = "examples/requests/tele-immersion.toml";

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
        types: &["reserve", "--file", REQUEST, "--hold", "30s"],
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

pub(crate) async fn run(url: &str, ends: bool) -> Result<()> {
    let mut guide = Guide::to(url)?;
    guide.put(REQUEST, include_str!("../../../../examples/requests/tele-immersion.toml"))?;
    let mut last = None;
    for station in &STATIONS {
        guide.goes_on(station.says);
        let words = station.types.iter().map(|word| match *word {
            "ID" => last.as_deref().unwrap_or("ID"),
            word => word,
        });
        let words: Vec<&str> = words.collect();
        last = id_in(&guide.types(&words).await?, "rsv_").or(last);
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
