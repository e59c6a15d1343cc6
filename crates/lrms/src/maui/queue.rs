//! The order in which Maui would run jobs: `showq` lists active, idle and blocked ones, the idle ones by priority. Everything else
//! that is told of jobs comes from Torque, which does not know that order.

use super::commands::Commands;
use crate::dialect::unreadable;
use crate::error::LrmsError;
use std::collections::BTreeMap;

/// Jobs that wait, by the number that Maui calls them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    /// Those that would be started, the first first.
    pub(super) idle: Vec<String>,
    /// Those that would not, with their state.
    pub(super) blocked: BTreeMap<String, String>,
}

/// The queue as it is now.
pub(super) fn read(commands: &Commands) -> Result<Queue, LrmsError> {
    let command = commands.maui.command("showq");
    parse(&commands.maui.ask(&command)?).map_err(|why| unreadable(&command, why))
}

/// A job's number without the name of its server and without marks behind it.
pub(super) fn number(name: &str) -> &str {
    let end = name.find(|letter: char| !letter.is_ascii_digit() && letter != '[' && letter != ']');
    &name[..end.unwrap_or(name.len())]
}

fn parse(text: &str) -> Result<Queue, String> {
    let mut queue = Queue::default();
    let mut section = "";
    let mut seen = 0;
    for line in text.lines() {
        if let Some(heading) = heading(line) {
            (section, seen) = (heading, seen + 1);
        } else if let Some((name, state)) = row(line) {
            match section {
                "idle" => queue.idle.push(name),
                "blocked" => drop(queue.blocked.insert(name, state)),
                _ => {}
            }
        }
    }
    if seen < 3 { Err("it does not list active, idle and blocked jobs".into()) } else { Ok(queue) }
}

/// Maui writes `IDLE JOBS---`, the guide has `eligible jobs---`.
fn heading(line: &str) -> Option<&'static str> {
    let line = line.trim_start().to_ascii_lowercase();
    let headings = [
        ("active jobs-", "active"),
        ("idle jobs-", "idle"),
        ("eligible jobs-", "idle"),
        ("blocked jobs-", "blocked"),
    ];
    headings.into_iter().find(|(begin, _)| line.starts_with(begin)).map(|(_, section)| section)
}

/// `JOBNAME USERNAME STATE PROC WCLIMIT QUEUETIME`; sums at the end of a section have no length of time there.
fn row(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, _, state, procs, limit, ..] = words[..] else { return None };
    let is_job = procs.parse::<u64>().is_ok() && (limit.contains(':') || limit.contains("INFINITY"));
    (is_job && !number(name).is_empty()).then(|| (number(name).to_owned(), state.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_maui_is_read() {
        let text = "\
ACTIVE JOBS--------------------
JOBNAME            USERNAME      STATE  PROC   REMAINING            STARTTIME

401                     ann    Running    25     2:44:11  Sat Nov 14 21:00:02

     1 Active Job      25 of   48 Processors Active (52.08%)

IDLE JOBS----------------------
JOBNAME            USERNAME      STATE  PROC     WCLIMIT            QUEUETIME

402              bob       Idle    32     6:40:00  Sat Nov 14 21:00:02
403                 eve       Idle    16    INFINITY  Sat Nov 14 21:00:02

2 Idle Jobs

BLOCKED JOBS----------------
JOBNAME            USERNAME      STATE  PROC     WCLIMIT            QUEUETIME

404[3]              eve  BatchHold     1     3:00:00  Sat Nov 14 21:00:02

Total Jobs: 4   Active Jobs: 1   Idle Jobs: 2   Blocked Jobs: 1
";
        let queue = parse(text).unwrap();
        assert_eq!(queue.idle, ["402", "403"]);
        assert_eq!(queue.blocked, BTreeMap::from([("404[3]".into(), "BatchHold".into())]));
    }

    #[test]
    fn the_queue_of_the_guide_is_read() {
        let text = "active jobs------------------------\n\n0 active jobs\n\neligible jobs----------------------\n\
            JOBID              USERNAME      STATE  PROC     WCLIMIT            QUEUETIME\n\n\
            402*             bob       Idle    32     6:40:00  Sat Nov 14 21:00:02\n\n1 eligible jobs\n\n\
            blocked jobs-----------------------\n\n0 blocked jobs\n\nTotal jobs:  1\n";
        assert_eq!(parse(text).unwrap().idle, ["402"]);
    }

    #[test]
    fn what_is_no_queue_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("IDLE JOBS---\nsomething else\n").is_err());
    }
}
