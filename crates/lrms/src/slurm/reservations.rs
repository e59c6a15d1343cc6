//! Reservations from `scontrol show res` with `SLURM_TIME_FORMAT=%s`. (JSON exists from 23.02 on, but the text is the
//! same in every version and includes the core ids.) Names of other reservations may contain blanks, `=` and line
//! breaks.

use super::formats;
use super::formats::{field, list, number};
use super::tres;
use crate::batch::{Handle, Picture, Reserved, Wanted, count, total};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::Tres;
use std::collections::{BTreeMap, BTreeSet};

const COMMAND: &str = "scontrol show res";

/// More than any node has; it bounds the memory for a damaged list.
const MOST_CORES: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Booked {
    pub(super) name: String,
    pub(super) interval: Interval,
    pub(super) nodes: Vec<String>,
    /// Total over all nodes.
    pub(super) cores: u32,
    /// Core ids on each node. Slurm 22.05 reports them only some seconds after the creation, and never for whole
    /// nodes.
    pub(super) core_ids: BTreeMap<String, BTreeSet<u32>>,
    pub(super) flags: Vec<String>,
    pub(super) users: Vec<String>,
    /// Slurm calls them accounts. A job must be of one of the users and for one of the projects.
    pub(super) projects: Vec<String>,
    /// As `license/NAME`.
    pub(super) licenses: Tres,
    pub(super) active: bool,
}

pub(super) fn read(printed: &str) -> Result<Vec<Booked>, LrmsError> {
    let unreadable = |why: String| LrmsError::Unreadable { command: COMMAND.into(), why };
    let mut found: Vec<Booked> = Vec::new();
    let mut headed = false;
    for line in printed.lines() {
        if let Some(begun) = head(line) {
            found.push(begun);
            headed = true;
        } else if line.starts_with("   Nodes=") && !std::mem::take(&mut headed) {
            // The lines of a reservation without a readable head must not be added to the previous one.
            return Err(unreadable("the times of a reservation cannot be parsed".into()));
        } else if let Some(last) = found.last_mut() {
            last.add(line)
                .ok_or_else(|| unreadable(format!("{:?} is not a list of nodes or cores", line.trim())))?;
        }
    }
    if found.is_empty() && printed.contains("ReservationName=") {
        return Err(unreadable("no reservation in it could be parsed".into()));
    }
    Ok(found)
}

/// Parses the first line of a reservation. All text before the last `StartTime=` is its name.
fn head(line: &str) -> Option<Booked> {
    let (name, rest) = line.rsplit_once(" StartTime=")?;
    let (begin, rest) = rest.split_once(" EndTime=")?;
    let (end, _duration) = rest.split_once(" Duration=")?;
    Some(Booked {
        name: name.strip_prefix("ReservationName=").unwrap_or(name).to_owned(),
        interval: Interval::new(formats::time(begin)?, formats::time(end)?),
        nodes: Vec::new(),
        cores: 0,
        core_ids: BTreeMap::new(),
        flags: Vec::new(),
        users: Vec::new(),
        projects: Vec::new(),
        licenses: Tres::default(),
        active: false,
    })
}

impl Booked {
    /// Parses a further line; None if it is invalid. Lines without indentation are not Slurm's own.
    fn add(&mut self, line: &str) -> Option<()> {
        let Some(line) = line.strip_prefix("   ").map(str::trim_start) else { return Some(()) };
        if line.starts_with("Nodes=") {
            self.nodes = formats::expand(field(line, "Nodes").unwrap_or_default())?;
            self.cores = number(line, "CoreCnt").unwrap_or(0);
            self.flags = list(line, "Flags");
        } else if line.starts_with("NodeName=") {
            let cores = formats::numbers(field(line, "CoreIDs")?, MOST_CORES)?;
            self.core_ids.insert(field(line, "NodeName")?.to_owned(), cores.into_iter().collect());
        } else if line.starts_with("Users=") {
            self.users = list(line, "Users");
            self.projects = list(line, "Accounts");
            self.licenses = field(line, "Licenses").map(tres::licenses).unwrap_or_default();
            self.active = field(line, "State") == Some("ACTIVE");
        }
        Some(())
    }

    /// Whether exactly these users may use it.
    pub(super) fn is_for<'a>(&self, users: impl IntoIterator<Item = &'a String>) -> bool {
        self.users.iter().collect::<BTreeSet<_>>() == users.into_iter().collect()
    }

    /// The difference in users and projects; None if there is none.
    pub(super) fn differs_in_whom(&self, wanted: &Wanted) -> Option<String> {
        if !self.is_for(wanted.accounts()) {
            let should = wanted.joined_accounts(", ");
            return Some(format!("it is for {}, and should be for {should}", self.users.join(", ")));
        }
        // Slurm stores projects in lower case, but shows them as they were written.
        let same = |(is, should): (&String, &String)| is.eq_ignore_ascii_case(should);
        let as_many = self.projects.len() == usize::from(wanted.project.is_some());
        if as_many && self.projects.iter().zip(&wanted.project).all(same) {
            return None;
        }
        let is = if self.projects.is_empty() { "no project".into() } else { self.projects.join(", ") };
        let should = wanted.project.as_deref().unwrap_or("no project");
        Some(format!("it is for {is}, and should be for {should}"))
    }

    /// Cores on each node, and whether that is exact.
    pub(super) fn spread(
        &self,
        cores_of: impl Fn(&str) -> Option<u32>,
        granted: Option<&BTreeMap<String, u32>>,
    ) -> (BTreeMap<String, u32>, bool) {
        let counted = self.core_ids.iter().map(|(node, cores)| (node.clone(), count(cores.len())));
        let counted: BTreeMap<String, u32> = counted.collect();
        if total(&counted) == self.cores {
            return (counted, true);
        }
        let whole = |node: &String| Some((node.clone(), cores_of(node)?));
        let all: BTreeMap<String, u32> = self.nodes.iter().filter_map(whole).collect();
        // The sizes of its nodes add up, so it has them as a whole.
        if all.len() == self.nodes.len() && total(&all) == self.cores {
            return (all, true);
        }
        if let [node] = self.nodes.as_slice() {
            return (BTreeMap::from([(node.clone(), self.cores)]), true);
        }
        match granted.filter(|granted| total(granted) == self.cores && granted.keys().eq(sorted(&self.nodes)))
        {
            Some(granted) => (granted.clone(), true),
            None => (evenly(self.cores, &self.nodes), false),
        }
    }

    /// A reservation of ours in the common form, on nodes of this picture.
    pub(super) fn ours(&self, picture: &Picture, granted: Option<&BTreeMap<String, u32>>) -> Reserved {
        let node = |name: &str| picture.nodes.iter().find(|node| node.name == name);
        let (cores, spread) = self.spread(|name| node(name).map(|node| node.cores), granted);
        self.at(self.interval, &cores, spread)
    }

    fn at(&self, interval: Interval, cores: &BTreeMap<String, u32>, spread: bool) -> Reserved {
        Reserved {
            handle: Handle(self.name.clone()),
            name: self.name.clone(),
            interval,
            cores: cores.clone(),
            spread,
            accounts: self.users.clone(),
            maintenance: self.flags.iter().any(|flag| flag == "MAINT"),
        }
    }

    /// In the common form. A repeating reservation appears once for each of [`Booked::occurrences`].
    pub(super) fn told(&self, cores: &BTreeMap<String, u32>, spread: bool) -> Vec<Reserved> {
        self.occurrences().into_iter().map(|interval| self.at(interval, cores, spread)).collect()
    }

    /// The next interval, and for a repeating reservation as many more as are relevant for planning. Those on
    /// weekdays or weekends only are assumed to repeat daily.
    pub(super) fn occurrences(&self) -> Vec<Interval> {
        let comes = |flag: &str| self.flags.iter().any(|one| one == flag);
        let (every, times) = match () {
            () if comes("HOURLY") => (3600, 7 * 24),
            () if comes("DAILY") || comes("WEEKDAY") || comes("WEEKEND") => (86_400, 60),
            () if comes("WEEKLY") => (7 * 86_400, 26),
            () => (0, 0),
        };
        let later = |time: Time, steps: i64| time + Seconds(every * steps);
        (0..=times)
            .map(|steps| Interval::new(later(self.interval.begin, steps), later(self.interval.end, steps)))
            .collect()
    }
}

fn sorted(nodes: &[String]) -> impl Iterator<Item = &String> {
    nodes.iter().collect::<BTreeSet<_>>().into_iter()
}

/// Spreads an amount over nodes if only the sum is known.
pub(super) fn evenly(amount: u32, nodes: &[String]) -> BTreeMap<String, u32> {
    let nodes_in_all = count(nodes.len()).max(1);
    let (each, more) = (amount / nodes_in_all, amount % nodes_in_all);
    (0..).zip(nodes).map(|(at, node)| (node.clone(), each + u32::from(at < more))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "\
ReservationName=x y StartTime=1 EndTime=2 Duration=00:00:00 \u{e9} StartTime=1794743748 EndTime=1794743848 Duration=00:01:40
   Nodes=n[2-3] NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=main Flags=DAILY,SPEC_NODES
     NodeName=n2 CoreIDs=0-2
     NodeName=n3 CoreIDs=0-4
   TRES=cpu=8
   Users=root,ann Groups=(null) Accounts=physics Licenses=qpu:2,matlab:4 State=ACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)
   
";

    #[test]
    fn names_of_others_may_look_like_fields() {
        let booked = &read(ONE).unwrap()[0];
        assert_eq!(booked.name, "x y StartTime=1 EndTime=2 Duration=00:00:00 \u{e9}");
        assert_eq!(booked.interval, Interval::new(Time(1794743748), Time(1794743848)));
        assert_eq!((booked.cores, booked.active), (8, true));
        assert_eq!(booked.users, ["root", "ann"]);
        assert_eq!(booked.projects, ["physics"]);
        assert_eq!(booked.licenses.to_string(), "license/matlab=4,license/qpu=2");
        assert_eq!(
            booked.spread(|_| None, None),
            (BTreeMap::from([("n2".into(), 3), ("n3".into(), 5)]), true)
        );
    }

    #[test]
    fn a_name_with_a_line_break_hides_nothing() {
        let text = ONE.replace("x y", "a\nReservationName=b") + ONE;
        assert_eq!(read(&text).unwrap().len(), 2);
    }

    #[test]
    fn none_are_none_and_times_in_another_form_are_an_error() {
        assert_eq!(read("No reservations in the system\n").unwrap(), []);
        assert_eq!(read("").unwrap(), []);
        let local = ONE.replace("=1794743748", "=2026-11-15T11:55:48");
        assert!(read(&local).is_err());
        assert!(read(&(ONE.to_owned() + &local)).is_err());
        assert!(read(&ONE.replace("n[2-3]", "n[2-")).is_err());
        assert!(read(&ONE.replace("0-4", "x")).is_err());
    }

    #[test]
    fn one_that_comes_daily_is_there_tomorrow_too() {
        let times = read(ONE).unwrap()[0].occurrences();
        assert_eq!(times.len(), 61);
        assert_eq!(times[1], Interval::new(Time(1794743748 + 86_400), Time(1794743848 + 86_400)));
    }

    #[test]
    fn what_is_not_told_is_spread_evenly_and_said_to_be_a_guess() {
        let text: String =
            ONE.lines().filter(|line| !line.contains("CoreIDs")).map(|line| format!("{line}\n")).collect();
        let booked = &read(&text).unwrap()[0];
        let guess = BTreeMap::from([("n2".into(), 4), ("n3".into(), 4)]);
        assert_eq!(booked.spread(|_| None, None), (guess, false));
        // We know what we asked for.
        let granted = BTreeMap::from([("n2".into(), 1), ("n3".into(), 7)]);
        assert_eq!(booked.spread(|_| None, Some(&granted)), (granted.clone(), true));
    }
}
