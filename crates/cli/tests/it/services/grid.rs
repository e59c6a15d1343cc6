//! Several sites and brokers in one folder, which know each other. Sites are started before the brokers that ask them, and
//! a broker is waited for until it has heard of all its peers.

use super::asking::Asker;
use super::process::{Began, Process};
use super::until;
use super::witness::check_journal;
use crate::folder::shared_folder;
use bookahead_api as api;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;
use tempfile::TempDir;

/// What there is of the one resource of every site: whoever has it all leaves nothing.
pub(crate) const CAPACITY: u32 = 8;

/// Sites and brokers.
pub(crate) struct Grid {
    /// What is done with it, for whoever looks into a failure.
    pub(crate) label: String,
    folder: TempDir,
    pub(crate) processes: Vec<Process>,
}

/// What is said of a site with one cluster.
pub(crate) fn site(name: &str, more: &str) -> String {
    format!(
        "name = \"{name}\"\n{more}\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = {CAPACITY}\n"
    )
}

impl Grid {
    /// Nobody yet.
    pub(crate) fn new() -> Grid {
        Grid { label: String::new(), folder: shared_folder(), processes: Vec::new() }
    }

    /// Three sites and those who ask them. Some are to stop at a point; whether one did before all were ready, and was killed
    /// and started again, is said.
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
            // Whoever asks it needs to know where it is.
            if began == Began::Stopped {
                crashed = true;
                grid.of_mut(name).restart().await;
            }
        }
        (grid, crashed)
    }

    /// What is said of a broker that asks these, who have been started.
    pub(crate) fn broker_of(&self, name: &str, more: &str, peers: &[&str]) -> String {
        let mut text = format!("name = \"{name}\"\nheartbeat = \"100ms\"\n{more}\n");
        for peer in peers {
            let url = self.of(peer).url();
            writeln!(text, "[[peer]]\nname = \"{peer}\"\nurl = \"{url}\"").unwrap();
        }
        text
    }

    /// Starts one more.
    pub(crate) async fn start(
        &mut self,
        role: &'static str,
        name: &str,
        text: &str,
        stop_at: Option<&str>,
    ) -> Began {
        let mut process = Process::new(self.folder.path(), role, name, text);
        let began = process.start(stop_at).await;
        self.processes.push(process);
        began
    }

    /// One of them.
    pub(crate) fn of(&self, name: &str) -> &Process {
        self.processes.iter().find(|process| process.name() == name).unwrap()
    }

    /// One of them, to be killed or started.
    pub(crate) fn of_mut(&mut self, name: &str) -> &mut Process {
        self.processes.iter_mut().find(|process| process.name() == name).unwrap()
    }

    /// Kills one of them whenever it has stopped at the point that it was told, and starts it again, which is noted.
    pub(crate) async fn kill_when_stopped(&mut self, name: &str, crashed: &mut bool) -> Infallible {
        loop {
            if self.of(name).is_stopped() {
                *crashed = true;
                self.of_mut(name).restart().await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Somebody who asks one of them.
    pub(crate) fn asker(&self, name: &str) -> Asker {
        Asker::new(&self.of(name).url(), "ada")
    }

    /// The journals of all are as they should be.
    pub(crate) fn check_journals(&self) {
        self.processes.iter().for_each(|process| check_journal(&process.state()));
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

/// Enough of a log to see what came before a failure.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (first, rest) = lines.split_at(1.min(lines.len()));
    let shown = first.iter().chain(&rest[rest.len().saturating_sub(200)..]);
    shown.map(|line| format!("{line}\n")).collect()
}

/// The sites of a grid of three.
pub(crate) const SITES: [&str; 3] = ["north", "south", "west"];

/// Who asks whom in a grid of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One broker asks all sites.
    Flat,
    /// One broker asks a site, and another broker that asks the two others.
    Nested,
}

impl Shape {
    /// The brokers in the order in which they are started, and whom they ask.
    fn brokers(self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Shape::Flat => &[("grid", &SITES)],
            Shape::Nested => &[("inner", &["north", "south"]), ("grid", &["inner", "west"])],
        }
    }

    /// The names by which the broker that clients ask offers the resources of the sites.
    pub(crate) fn offered(self) -> [&'static str; 3] {
        match self {
            Shape::Flat => ["north/cluster", "south/cluster", "west/cluster"],
            Shape::Nested => ["inner/north/cluster", "inner/south/cluster", "west/cluster"],
        }
    }

    /// The brokers; the one that clients ask is the last.
    pub(crate) fn broker_names(self) -> impl Iterator<Item = &'static str> {
        self.brokers().iter().map(|(name, _)| *name)
    }
}

/// Waits until a broker can ask all of these, by the names of their resources there.
pub(crate) async fn knows(broker: &Asker, resources: &[&str]) {
    until(async || {
        let sites = broker.client().sites().await.map_err(|why| why.to_string())?;
        let up = sites.sites.iter().all(|site| site.state == api::Reachability::Up);
        let offered = broker.client().resources().await.map_err(|why| why.to_string())?;
        let offers = |name: &&str| offered.resources.iter().any(|offered| offered.name.as_str() == *name);
        if up && resources.iter().all(offers) { Ok(()) } else { Err(format!("{resources:?} in {offered:?}")) }
    })
    .await;
}
