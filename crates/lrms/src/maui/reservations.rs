//! Reservations. `showres -n -g -v` lists each on each of its nodes, with its tasks there and absolute times
//! formatted by the client (guide, showres); `diagnose -r` tells the size of a task and the allowed users (guide,
//! diagnose -r).
//!
//! Maui also reserves for jobs, running ones and the first waiting ones. These count as jobs here, not as
//! reservations, but show when a waiting job will start.

use super::{Commands, length, signed};
use crate::batch::{Handle, Node, Reserved, add_cores};
use crate::dialect::calendar::ctime;
use crate::dialect::unreadable;
use crate::error::LrmsError;
use bookahead_plan::{Interval, Time};
use std::collections::BTreeMap;

/// Result of `showres` and `diagnose -r`.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Maui's time, if it can be derived from a row.
    pub(super) clock: Option<Time>,
    pub(super) reservations: Vec<Reserved>,
    /// Expected starts of waiting jobs, by their numbers.
    pub(super) starts: BTreeMap<String, Time>,
}

/// A reservation on one node.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    node: String,
    is_job: bool,
    id: String,
    waits: bool,
    tasks: u32,
    interval: Interval,
    clock: Option<Time>,
}

/// Details of a reservation.
#[derive(Debug, Default, PartialEq, Eq)]
struct About {
    /// Processors of a task; None for whole nodes.
    procs: Option<u32>,
    accounts: Vec<String>,
}

/// All reservations, and the expected starts of jobs.
pub(super) fn all(commands: &Commands, nodes: &[Node]) -> Result<Seen, LrmsError> {
    let command = commands.maui.command("showres").args(["-n", "-g", "-v"]);
    let rows = rows(&commands.maui.ask(&command)?).map_err(|why| unreadable(&command, why))?;
    let command = commands.maui.command("diagnose").arg("-r");
    let about = abouts(&commands.maui.ask(&command)?).map_err(|why| unreadable(&command, why))?;
    Ok(seen(&rows, &about, nodes))
}

/// The name given at creation: Maui appends a number to it.
pub(super) fn base(id: &str) -> &str {
    match id.rsplit_once('.') {
        Some((base, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            base
        }
        _ => id,
    }
}

/// A job's number, without the name of its server and trailing marks.
pub(super) fn number(name: &str) -> &str {
    let end = name.find(|letter: char| !letter.is_ascii_digit() && letter != '[' && letter != ']');
    &name[..end.unwrap_or(name.len())]
}

fn seen(rows: &[Row], about: &BTreeMap<String, About>, nodes: &[Node]) -> Seen {
    let mut seen = Seen { clock: rows.iter().find_map(|row| row.clock), ..Seen::default() };
    let mut reservations: BTreeMap<&str, Reserved> = BTreeMap::new();
    for row in rows {
        if row.is_job {
            if row.waits {
                seen.starts.insert(number(&row.id).to_owned(), row.interval.begin);
            }
            continue;
        }
        let about = about.get(&row.id);
        let whole = || nodes.iter().find(|node| node.name == row.node).map_or(row.tasks, |node| node.cores);
        // Without details, assume that it occupies whole nodes, to promise nothing that may be taken.
        let procs = about.and_then(|about| about.procs);
        let cores = procs.map_or_else(whole, |procs| procs.saturating_mul(row.tasks));
        let accounts = about.map(|about| about.accounts.clone()).unwrap_or_default();
        let reserved = reservations.entry(&row.id).or_insert_with(|| Reserved {
            handle: Handle(row.id.clone()),
            name: base(&row.id).to_owned(),
            interval: row.interval,
            cores: BTreeMap::new(),
            spread: true,
            accounts,
            maintenance: false,
        });
        add_cores(&mut reserved.cores, &row.node, cores);
    }
    seen.reservations = reservations.into_values().collect();
    seen
}

/// `NodeName Type ReservationID JobState Task Start Duration StartTime`
fn rows(text: &str) -> Result<Vec<Row>, String> {
    // This last line proves that the output is complete: missing rows would count as deleted reservations.
    if !text.contains("nodes reserved") {
        return Err("it does not end with the number of reserved nodes".into());
    }
    let is_row = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() != Some("NodeName") && words.nth(5).is_some()
    };
    let rows = text.lines().filter(|line| !line.starts_with("reservations on")).filter(is_row);
    rows.map(|line| row(line).ok_or_else(|| format!("{line:?} is not a reservation on a node"))).collect()
}

fn row(line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [node, kind, id, state, tasks, start, lasts, rest @ ..] = &words[..] else { return None };
    let begin = ctime(&rest.join(" "))?;
    let end = length(lasts)?.map_or(Time::MAX, |length| begin + length);
    Some(Row {
        node: (*node).into(),
        is_job: *kind == "Job",
        id: (*id).into(),
        waits: *state == "Idle",
        tasks: tasks.parse().ok()?,
        interval: Interval::new(begin, end),
        clock: signed(start).map(|start| Time(begin.0.saturating_sub(start.0))),
    })
}

/// A line for each reservation, followed by indented lines that belong to it.
fn abouts(text: &str) -> Result<BTreeMap<String, About>, String> {
    if !text.contains("Diagnosing Reservations") {
        return Err("it is not a diagnosis of reservations".into());
    }
    if text.contains("list truncated") {
        return Err("there are too many reservations for one answer of Maui; release some".into());
    }
    let mut abouts: BTreeMap<String, About> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            if let Some(about) = current.as_ref().and_then(|id| abouts.get_mut(id)) {
                about.add(line);
            }
        } else {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_head =
                words.len() >= 9 && words.get(1).is_some_and(|kind| ["Job", "User", "Meta"].contains(kind));
            current = is_head.then(|| words[0].to_owned());
            abouts.extend(current.clone().map(|id| (id, About::default())));
        }
    }
    Ok(abouts)
}

impl About {
    fn add(&mut self, line: &str) {
        // The previous line may end without a line feed.
        if let Some((_, behind)) = line.split_once("Task Resources: PROCS: ") {
            self.procs = behind.split_whitespace().next().and_then(|procs| procs.parse().ok());
        }
        if let Some(list) = line.trim_start().strip_prefix("ACL:") {
            let users = list.split_whitespace().find_map(|part| part.strip_prefix("USER"));
            let users = users.into_iter().flat_map(|users| users.split(':'));
            let plain = |user: &str| {
                let user = user.trim_start_matches('=');
                user.trim_end_matches(['+', '-', '=', '?', '*', '!', '^']).to_owned()
            };
            self.accounts.extend(users.map(plain).filter(|user| !user.is_empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::damage::survives;
    use bookahead_plan::Seconds;
    use proptest::prelude::*;

    const NODES: &str = "\
reservations on Sun Nov 15 00:00:01

            NodeName       Type      ReservationID   JobState Task       Start    Duration                 StartTime

              west01        Job              40046    Running    2    -1:47:09  1:06:00:00  Sat Nov 14 22:12:52 2026
              west01        Job              40056       Idle    2    00:10:00     6:40:00  Sun Nov 15 00:10:01 2026
              west01       User            ba.7.0.0       N/A    4     1:00:00     2:00:00  Sun Nov 15 01:00:01 2026
              west02       User            ba.7.0.0       N/A    2     1:00:00     2:00:00  Sun Nov 15 01:00:01 2026
              west02       User      chem.0.1       N/A    1   -INFINITY    INFINITE  Sun Nov  1 00:00:00 2026
2 nodes reserved
";
    const ABOUT: &str = "\
Diagnosing Reservations
ResID                      Type Par   StartTime     EndTime     Duration Node Task Proc
-----                      ---- ---   ---------     -------     -------- ---- ---- ----
chem.0.1               User   A   -INFINITY    INFINITY     INFINITY    1    1    8
    Flags: STANDINGRES
    ACL: CLASS==batch+:==long+ QOS==low-:==high+
    CL:  RES==chem.0
    Task Resources: PROCS: [ALL]
    Attributes (HostList='west02')
ba.7.0.0                   User   A     1:00:00     3:00:00      2:00:00    2    6    6
    ACL: RES==ba.7.0= USER==ann+:==bob+
    CL:  RES==ba.7.0
    Accounting Creds:  User:root    Task Resources: PROCS: 1
WARNING:  node 'x' has multiple links to reservation 'y' (clearing extra links)
40046                       Job   A    -1:47:09  1:04:12:51   1:06:00:00    1    2    2
    ACL: JOB==40046=

Active Reserved Processors: 2
";

    #[test]
    fn reservations_and_starts_of_jobs_are_read() {
        let node = |name: &str| Node { name: name.into(), cores: 8, usable: true, resources: Vec::new() };
        let nodes = [node("west01"), node("west02")];
        let seen = seen(&rows(NODES).unwrap(), &abouts(ABOUT).unwrap(), &nodes);
        assert_eq!(seen.clock, Some(Time(1_794_700_801)));
        assert_eq!(seen.starts, BTreeMap::from([("40056".into(), Time(1_794_701_401))]));
        let [ours, foreign] = &seen.reservations[..] else { panic!("{:?}", seen.reservations) };
        assert_eq!((ours.name.as_str(), ours.handle.0.as_str()), ("ba.7.0", "ba.7.0.0"));
        assert_eq!(ours.cores, BTreeMap::from([("west01".into(), 4), ("west02".into(), 2)]));
        assert_eq!(ours.interval, Interval::starting(Time(1_794_704_401), Seconds(7200)));
        assert_eq!(ours.accounts, ["ann", "bob"]);
        assert_eq!(foreign.cores, BTreeMap::from([("west02".into(), 8)]));
        assert_eq!((foreign.interval.end, foreign.accounts.len()), (Time::MAX, 0));
    }

    #[test]
    fn nothing_reserved_is_no_error() {
        let text = "reservations on Sun Nov 15 00:00:01\n            NodeName       Type      ReservationID   JobState Task\n\n0 nodes reserved\n";
        assert_eq!(rows(text).unwrap(), []);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        assert!(rows("").is_err());
        assert!(rows("a b c d e f g h\n1 nodes reserved\n").is_err());
        assert!(abouts("").is_err());
        assert!(abouts("Diagnosing Reservations\nNOTE:  list truncated\n").is_err());
    }

    #[test]
    fn only_a_number_is_taken_off_a_name() {
        assert_eq!(
            [base("john.1"), base("a.b"), base("a"), base("a."), base("chem.0.1")],
            ["john", "a.b", "a", "a.", "chem.0"]
        );
    }

    #[test]
    fn damaged_lists_are_read_or_refused() {
        survives(include_str!("../../tests/it/maui/fixtures/showres.txt"), |text| drop(rows(text)));
        survives(include_str!("../../tests/it/maui/fixtures/diagnose.txt"), |text| drop(abouts(text)));
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]
        #[test]
        fn nothing_makes_it_panic(line in "[a-z0-9:. -]{0,60}", number in any::<i64>()) {
            let _ = rows(&format!("{line}\nn User r N/A 1 {number} {number}:{number} Sun Nov {number} 00:00:01 {number}\n1 nodes reserved"));
            let _ = abouts(&format!("Diagnosing Reservations\nr User A 1 2 3 4 5 6\n {line}\n ACL: USER{line}\n Task Resources: PROCS: {line}"));
        }
    }
}
