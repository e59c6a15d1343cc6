//! Several sites and brokers in one folder. Sites are started before the brokers that use them, and a broker is ready
//! when it has reached all its peers.

use super::asking::Asker;
use super::process::{Began, Process};
use super::witness::check_journal;
use crate::folder::shared_folder;
use bookahead_api as api;
use bookahead_tests::polling::until_async;
use bookahead_tests::postgres::Database;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;

/// Capacity of the only resource of every site: a reservation of all of it leaves nothing.
pub(crate) const CAPACITY: u32 = 8;

/// Sites and brokers.
pub(crate) struct Grid {
    /// Name of the test, to explain failures.
    pub(crate) label: String,
    folder: TempDir,
    pub(crate) processes: Vec<Process>,
    /// With the journals of all processes, if the tests run with PostgreSQL. Dropped after them.
    database: Option<Rc<Database>>,
}

/// Settings of a broker whose negotiations do not fail because the machine is slow. It waits for a hold a fifth of its
/// time, and some round trips more.
pub(crate) const PATIENT: &str = "[rules]\nsurvey_time = \"30s\"\nhold_time = \"2m\"";

/// The configuration of a site with one cluster.
pub(crate) fn site(name: &str, more: &str) -> String {
    format!(
        "name = \"{name}\"\n{more}\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = {CAPACITY}\n"
    )
}

impl Grid {
    /// An empty grid.
    pub(crate) fn new() -> Grid {
        let database = Database::of_this_run().map(Rc::new);
        Grid { label: String::new(), folder: shared_folder(), processes: Vec::new(), database }
    }

    /// Three sites and their brokers, some of which stop at a point. Also returns whether one stopped before all were
    /// ready, and was killed and restarted.
    pub(crate) async fn of_three(shape: Shape, rules: &str, stop: &[(&str, &str)]) -> (Grid, bool) {
        let point = |name: &str| stop.iter().find(|(victim, _)| *victim == name).map(|(_, point)| *point);
        let mut grid = Grid::new();
        let mut crashed = false;
        for name in SITES {
            grid.start("site", name, &site(name, ""), point(name)).await;
        }
        for (name, peers) in shape.brokers() {
            let text = grid.broker_of(name, rules, peers);
            let began = grid.start("broker", name, &text, point(name)).await;
            // The brokers above it need its address.
            if began == Began::Stopped {
                crashed = true;
                grid.of_mut(name).restart().await;
            }
        }
        (grid, crashed)
    }

    /// The configuration of a broker of these running peers, [`PATIENT`] if there is no more of it.
    pub(crate) fn broker_of(&self, name: &str, more: &str, peers: &[&str]) -> String {
        let more = if more.is_empty() { PATIENT } else { more };
        let mut text = format!("name = \"{name}\"\nheartbeat = \"100ms\"\n{more}\n");
        for peer in peers {
            let url = self.of(peer).url();
            writeln!(text, "[[peer]]\nname = \"{peer}\"\nurl = \"{url}\"").unwrap();
        }
        text
    }

    /// Starts one more process.
    pub(crate) async fn start(
        &mut self,
        role: &'static str,
        name: &str,
        text: &str,
        stop_at: Option<&str>,
    ) -> Began {
        let mut process = Process::new(self.folder.path(), self.database.clone(), role, name, text);
        let began = process.start(stop_at).await;
        self.processes.push(process);
        began
    }

    /// A process by name.
    pub(crate) fn of(&self, name: &str) -> &Process {
        self.processes.iter().find(|process| process.name() == name).unwrap()
    }

    /// A process by name, to kill or start it.
    pub(crate) fn of_mut(&mut self, name: &str) -> &mut Process {
        self.processes.iter_mut().find(|process| process.name() == name).unwrap()
    }

    /// Kills a process whenever it has stopped at its point, restarts it, and records that.
    pub(crate) async fn kill_when_stopped(&mut self, name: &str, crashed: &mut bool) -> Infallible {
        loop {
            if self.of(name).is_stopped() {
                *crashed = true;
                self.of_mut(name).restart().await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// A client of one of the processes.
    pub(crate) fn asker(&self, name: &str) -> Asker {
        Asker::new(&self.of(name).url(), "ada")
    }

    /// Checks the journals of all processes.
    pub(crate) fn check_journals(&self) {
        self.processes.iter().for_each(|process| check_journal(&process.journal()));
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said: String = self.processes.iter().map(|process| last_lines(&process.said())).collect();
            eprintln!("failed: {}\n{said}", self.label);
        }
    }
}

/// The last lines of a log, to show what came before a failure.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (first, rest) = lines.split_at(1.min(lines.len()));
    let shown = first.iter().chain(&rest[rest.len().saturating_sub(200)..]);
    shown.map(|line| format!("{line}\n")).collect()
}

/// The sites of a grid of three.
pub(crate) const SITES: [&str; 3] = ["north", "south", "west"];

/// The topology of a grid of three sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One broker with all sites.
    Flat,
    /// One broker with a site and with another broker, which has the other two sites.
    Nested,
}

impl Shape {
    /// The brokers in the order of their start, with their peers.
    fn brokers(self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Shape::Flat => &[("grid", &SITES)],
            Shape::Nested => &[("inner", &["north", "south"]), ("grid", &["inner", "west"])],
        }
    }

    /// The names of the site resources at the broker that clients use.
    pub(crate) fn offered(self) -> [&'static str; 3] {
        match self {
            Shape::Flat => ["north/cluster", "south/cluster", "west/cluster"],
            Shape::Nested => ["inner/north/cluster", "inner/south/cluster", "west/cluster"],
        }
    }

    /// The brokers; clients use the last one.
    pub(crate) fn broker_names(self) -> impl Iterator<Item = &'static str> {
        self.brokers().iter().map(|(name, _)| *name)
    }
}

/// Waits until a broker can use all these peers, by the names of their resources.
pub(crate) async fn knows(broker: &Asker, resources: &[&str]) {
    until_async(async || {
        let sites = broker.client().sites().await.map_err(|why| why.to_string())?;
        let up = sites.sites.iter().all(|site| site.state == api::Reachability::Up);
        let offered = broker.client().resources().await.map_err(|why| why.to_string())?;
        let offers = |name: &&str| offered.resources.iter().any(|offered| offered.name.as_str() == *name);
        if up && resources.iter().all(offers) { Ok(()) } else { Err(format!("{resources:?} in {offered:?}")) }
    })
    .await;
}
