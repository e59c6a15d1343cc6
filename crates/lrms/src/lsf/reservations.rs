//! Reservations from `brsvs -w` (brsvs, and "Viewing advance reservation information"): a line with the first host,
//! and a line for each further host. `-w` shows ids in full. The wide format puts blanks around `/`.
//!
//! The list has no dates for a recurring reservation; `brsvs -l` has the next one, and the others follow from it.

use super::times::{Lies, Window, stamp, window};
use crate::batch::{Handle, Reserved, add_cores};
use crate::command::Command;
use crate::dialect::{Tools, failed, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use std::collections::BTreeMap;

/// How far ahead recurring reservations are shown, in seconds.
const SHOWN_AHEAD: i64 = 28 * 86_400;

/// A line of the list, with its continuation lines.
#[derive(Debug, Default)]
struct Row {
    id: String,
    users: Vec<String>,
    hosts: BTreeMap<String, u32>,
    window: Option<Window>,
}

/// All reservations that are not over.
pub(super) fn all(tools: &Tools, clock: Time) -> Result<Vec<Reserved>, LrmsError> {
    let command = tools.command("brsvs").arg("-w");
    let outcome = tools.run(&command)?;
    let says_none = |text: &str| {
        let text = text.trim_start().to_ascii_lowercase();
        text.starts_with("no ") && text.contains("reservation")
    };
    if says_none(&outcome.out) || says_none(&outcome.err) {
        return Ok(Vec::new());
    }
    if !outcome.is_success() {
        return Err(failed(&command, &outcome));
    }
    let rows = rows(&outcome.out, clock).map_err(|why| unreadable(&command, why))?;
    let mut all = Vec::new();
    for row in rows {
        match &row.window {
            // A reservation that waits for resources (brsvsub) has neither hosts nor a time window.
            None => {}
            Some(Window::Once(interval)) => all.push(reserved(&row, *interval)),
            Some(Window::Every(step)) => {
                let next = next(tools, &row.id, clock)?;
                all.extend(repeated(next, *step, clock).map(|interval| reserved(&row, interval)));
            }
        }
    }
    Ok(all)
}

/// The reservation with this name, if any. It is searched for in the whole list, since the message for an unknown
/// name is not documented.
pub(super) fn one(tools: &Tools, name: &str, clock: Time) -> Result<Option<Reserved>, LrmsError> {
    Ok(all(tools, clock)?.into_iter().find(|reserved| reserved.name == name))
}

fn reserved(row: &Row, interval: Interval) -> Reserved {
    Reserved {
        handle: Handle(row.id.clone()),
        name: row.id.clone(),
        interval,
        cores: row.hosts.clone(),
        spread: true,
        accounts: row.users.clone(),
        maintenance: false,
    }
}

fn rows(text: &str, clock: Time) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words = words(line);
        if words.first().is_some_and(|word| word == "RSVID") {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let row = rows.last_mut().ok_or_else(|| format!("{line:?} does not belong to a reservation"))?;
            words.iter().try_for_each(|word| row.add(word, clock))?;
        } else {
            rows.push(Row::read(&words, clock)?);
        }
    }
    // Without its times, the hosts of a reservation would seem free.
    match rows.iter().find(|row| row.window.is_none() && !row.hosts.is_empty()) {
        Some(row) => Err(format!("it does not show the times of {}", row.id)),
        None => Ok(rows),
    }
}

/// Splits into words, and joins those around a lone `/`.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match words.last_mut() {
            Some(last) if word.starts_with('/') || last.ends_with('/') => last.push_str(word),
            _ => words.push(word.into()),
        }
    }
    words
}

impl Row {
    /// `RSVID TYPE USER NCPUS RSV_HOSTS TIME_WINDOW [*]`
    fn read(words: &[String], clock: Time) -> Result<Row, String> {
        let [id, kind, rest @ ..] = words else {
            return Err(format!("{:?} is not a line of a reservation", words.join(" ")));
        };
        if !["user", "group", "sys"].contains(&kind.as_str()) {
            return Err(format!("{id} has the unknown type {kind}"));
        }
        let is_count = |word: &String| {
            let total = word.rsplit('/').next().unwrap_or_default();
            // System reservations show only the total.
            (word.contains('/') || kind == "sys")
                && total.parse::<u32>().is_ok()
                && !word.contains([':', '-'])
                || word.starts_with("-/")
        };
        let count = rest.iter().position(is_count);
        let (users, behind) = rest.split_at(count.unwrap_or(rest.len().min(1)));
        let users = if kind == "sys" { Vec::new() } else { users.to_vec() };
        let mut row = Row { id: id.clone(), users, ..Row::default() };
        behind.iter().skip(usize::from(count.is_some())).try_for_each(|word| row.add(word, clock))?;
        Ok(row)
    }

    fn add(&mut self, word: &str, clock: Time) -> Result<(), String> {
        if let Some(window) = window(word, clock) {
            self.window = Some(window);
        } else if let Some((host, slots)) = word.rsplit_once(':') {
            let total = slots.rsplit('/').next().and_then(|total| total.parse().ok());
            let total: u32 =
                total.ok_or_else(|| format!("{word:?} of {} is not a host with its slots", self.id))?;
            add_cores(&mut self.hosts, host, total);
        } else if !["*", "-", "none"].contains(&word) {
            self.users.push(word.into());
        }
        Ok(())
    }
}

/// The next interval of a recurring reservation, from "Next Active Period:" of `brsvs -l`.
fn next(tools: &Tools, id: &str, clock: Time) -> Result<Interval, LrmsError> {
    let command = tools.command("brsvs").args(["-l", id]);
    let outcome = tools.run(&command)?;
    let next = outcome.out.split_once("Next Active Period:").map(|(_, behind)| behind.trim_start());
    let line = next.and_then(|behind| behind.lines().next()).unwrap_or_default();
    period(line, clock).ok_or_else(|| no_period(&command, line))
}

fn period(line: &str, clock: Time) -> Option<Interval> {
    let (begin, end) = line.split_once(" - ")?;
    let read = |text: &str| stamp(text.trim(), clock, Lies::Ahead);
    Some(Interval::new(read(begin)?, read(end)?)).filter(|interval| !interval.is_empty())
}

fn no_period(command: &Command, line: &str) -> LrmsError {
    unreadable(command, format!("{line:?} is not a next active period"))
}

fn repeated(first: Interval, step: i64, clock: Time) -> impl Iterator<Item = Interval> {
    let until = clock + Seconds(SHOWN_AHEAD);
    let shifted = move |times: i64| {
        let by = Seconds(step.saturating_mul(times));
        Interval::new(first.begin + by, first.end + by)
    };
    (0..).map(shifted).take_while(move |interval| interval.begin < until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::damage::survives;
    use proptest::prelude::*;

    const NOW: Time = Time(1_794_700_000);

    #[test]
    fn the_list_is_read_as_it_is_documented() {
        let text = "\
RSVID       TYPE    USER   NCPUS      RSV_HOSTS           TIME_WINDOW
ann#0       user    ann     0/16      north:0/16     12/24/6/0-12/24/8/0
bob#3       user    bob    2/8        north:2/8              9:30-11:0 *
chem#1     group   chem    -/48       north:-/16         2:0:0-2:3:0 *
                                      south:0/32
system#0     sys   system   32        south:0/32       6:18:0-6:20:0 *
";
        let rows = rows(text, NOW).unwrap();
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["ann#0", "bob#3", "chem#1", "system#0"]);
        assert_eq!(rows[0].users, ["ann"]);
        assert!(matches!(rows[0].window, Some(Window::Once(_))));
        assert_eq!(rows[2].hosts, BTreeMap::from([("north".into(), 16), ("south".into(), 32)]));
        assert_eq!(rows[2].window, Some(Window::Every(7 * 86_400)));
        assert_eq!((rows[3].users.len(), rows[3].hosts["south"]), (0, 32));
    }

    #[test]
    fn the_wide_list_is_read_with_blanks_around_slashes_and_users_below_each_other() {
        let text = "\
RSVID                       TYPE      USER       NCPUS          RSV_HOSTS     TIME_WINDOW
ba_77_0                     user      ann        0 / 12     node-1:0 / 8     2026/11/20/10/0-2026/11/20/12/0
                                      bob                   node-2:0 / 4
dyn#20                      user      carol      -          none            -
";
        let rows = rows(text, NOW).unwrap();
        assert_eq!(rows[0].users, ["ann", "bob"]);
        assert_eq!(rows[0].hosts, BTreeMap::from([("node-1".into(), 8), ("node-2".into(), 4)]));
        assert_eq!((rows[1].users.as_slice(), rows[1].window.is_none()), (&["carol".to_owned()][..], true));
    }

    #[test]
    fn lines_that_are_not_understood_are_an_error() {
        let garbage = [
            "x",
            "a strange user 1/2 h:1/2 1/1/0/0-1/1/1/0",
            "  hostB:0/4",
            "r user ann 0/4 h:0/4",
            "r user ann 0/4 h:0/x 11/12/6/0-11/12/8/0",
        ];
        for text in garbage {
            assert!(rows(text, NOW).is_err(), "{text}");
        }
    }

    #[test]
    fn what_comes_again_is_shown_for_four_weeks() {
        let line = "Sat Nov 14 08:00:00 2026 - Sat Nov 14 22:00:00 2026";
        let first = period(line, NOW).unwrap();
        assert_eq!(first.length(), Seconds(14 * 3600));
        assert_eq!(repeated(first, 7 * 86_400, first.begin).count(), 4);
        assert_eq!(repeated(first, 86_400, first.begin).count(), 28);
    }

    #[test]
    fn damaged_lists_are_read_or_refused() {
        survives(include_str!("../../tests/it/lsf/fixtures/brsvs.txt"), |text| drop(rows(text, NOW)));
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]
        #[test]
        fn nothing_makes_it_panic(text in "[ \n*:/0-9a-c-]{0,80}|(r user u [0-9/:* -]{0,40}\n?){0,4}") {
            let _ = rows(&text, NOW);
        }
    }
}
