//! A Slurm of its own, what it says of itself, and how a site on it is described. It is gone with its owner, daemons, jobs
//! and folder.

use super::until;
use super::watcher::Watcher;
use crate::services::asking::Asker;
use crate::services::grid::Grid;
use bookahead_lrms::batch::Tag;
use bookahead_lrms::slurm::{OwnCluster, OwnClusterSettings};
use bookahead_plan::Time;
use bookahead_protocol::{Name, ReservationId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// How often Slurm looks for what it may start, in seconds: what a reservation's begin is late by on a busy machine.
const OFTEN: &str = "SchedulerParameters=bf_interval=1,bf_resolution=1,bf_window=43200,sched_interval=1,\
                     sched_min_interval=0,batch_sched_delay=0";

/// A Slurm that runs.
pub(crate) struct Cluster {
    own: OwnCluster,
    capacity: u32,
    folder: TempDir,
}

/// A reservation in Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) name: String,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    pub(crate) cores: u32,
    pub(crate) nodes: String,
}

/// A job in Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) native: String,
    pub(crate) name: String,
    pub(crate) state: String,
    /// Where it runs, or ran.
    pub(crate) nodes: String,
    /// When it started, or is expected to.
    pub(crate) start: Option<i64>,
}

impl Cluster {
    /// One with so many nodes of so many cores.
    pub(crate) fn of(nodes: u32, cores_per_node: u32) -> Cluster {
        Cluster::with(nodes, cores_per_node, &[OFTEN])
    }

    /// One whose nodes, once failed, stay so until they are brought back. Otherwise one that had jobs says that these are ended,
    /// and is back by that.
    pub(crate) fn of_frail(nodes: u32, cores_per_node: u32) -> Cluster {
        Cluster::with(nodes, cores_per_node, &[OFTEN, "ReturnToService=0"])
    }

    /// One that misses nodes some seconds after their daemons were killed, and has them back with their daemons.
    pub(crate) fn of_watched(nodes: u32, cores_per_node: u32) -> Cluster {
        Cluster::with(nodes, cores_per_node, &[OFTEN, "SlurmdTimeout=4"])
    }

    fn with(nodes: u32, cores_per_node: u32, extra: &[&str]) -> Cluster {
        // Sockets want a short path.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let name = "own";
        let settings = OwnClusterSettings {
            nodes,
            cores_per_node,
            extra: extra.iter().map(|line| (*line).to_owned()).collect(),
            ..OwnClusterSettings::new(name, folder.path().join("slurm"))
        };
        let own = OwnCluster::start(&settings).unwrap_or_else(|why| panic!("no Slurm: {why}"));
        Cluster { own, capacity: nodes * cores_per_node, folder }
    }

    /// What is said of a site on it, with more lines on its batch system and on its one resource.
    pub(crate) fn site(&self, name: &str, batch: &str, resource: &str) -> String {
        let (conf, output, capacity) = (self.own.conf(), self.folder.path(), self.capacity);
        let (conf, output) = (conf.display(), output.display());
        format!(
            "name = \"{name}\"\n[batch]\nsystem = \"slurm\"\nconf = \"{conf}\"\noutput = \"{output}\"\n\
             look_every = \"1s\"\nmove_after = \"2s\"\n{batch}\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\n\
             capacity = {capacity}\nbatch = {{ partition = \"main\" }}\n{resource}\n"
        )
    }

    /// A site before it called north, who asks it, and somebody who watches it.
    pub(crate) async fn watched_site(&self) -> (Grid, Asker, Watcher) {
        let mut grid = Grid::new();
        grid.start("site", "north", &self.site("north", "", ""), None).await;
        let ada = grid.asker("north");
        let watcher = Watcher::of(&ada).await;
        (grid, ada, watcher)
    }

    /// A folder for whatever belongs to it.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The daemons.
    pub(crate) fn daemons(&mut self) -> &mut OwnCluster {
        &mut self.own
    }

    /// Lets a node fail.
    pub(crate) fn fail(&self, node: &str) {
        self.own.set_node(node, "down").unwrap();
    }

    /// Brings a node back, and waits until Slurm has heard of it.
    #[track_caller]
    pub(crate) fn bring_back(&self, node: &str) {
        self.own.set_node(node, "resume").unwrap();
        until(|| {
            let shown = self.tell(&["scontrol", "-o", "show", "node", node]);
            let is_back = [" State=IDLE ", " State=IDLE+RESERVED "].iter().any(|state| shown.contains(state));
            if is_back { Ok(()) } else { Err(shown) }
        });
    }

    /// Lets other users of this machine come to it, and their jobs run. The tests must run as root for that.
    pub(crate) fn open_to_others(&self) {
        for folder in [self.folder.path(), self.own.folder(), &self.own.folder().join("spool")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Submits a job of another user, and answers its number.
    #[track_caller]
    pub(crate) fn submit_as(&self, user: &str, cores: u32, minutes: u32) -> String {
        let (cores, minutes) = (format!("--ntasks={cores}"), format!("--time={minutes}"));
        let script = ["sbatch", "--parsable", "--output=/dev/null", &cores, &minutes, "--wrap=sleep 600"];
        self.tell(&[&["runuser", "-u", user, "--"], &script[..]].concat()).trim().to_owned()
    }

    /// Runs a command of Slurm.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("SLURM_CONF", self.own.conf()).env("TZ", "UTC");
        command.env("SLURM_TIME_FORMAT", "%s").current_dir(self.folder.path());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Runs a command of Slurm, which must succeed.
    #[track_caller]
    pub(crate) fn tell(&self, words: &[&str]) -> String {
        self.run(words).unwrap_or_else(|why| panic!("{words:?}: {why}"))
    }

    /// All reservations.
    #[track_caller]
    pub(crate) fn reservations(&self) -> Vec<Reserved> {
        let shown = self.tell(&["scontrol", "-o", "show", "res"]);
        shown.lines().filter(|line| line.starts_with("ReservationName=")).map(reserved).collect()
    }

    /// Those that a site made for a reservation of its book.
    #[track_caller]
    pub(crate) fn kept_for(&self, site: &str, id: ReservationId) -> Vec<Reserved> {
        let site = Name::from(site);
        let is_for = |name: &str| Tag::read(name, &site).is_some_and(|tag| tag.id == id);
        self.reservations().into_iter().filter(|reserved| is_for(&reserved.name)).collect()
    }

    /// The one that a site made for a reservation of its book.
    #[track_caller]
    pub(crate) fn one_for(&self, site: &str, id: ReservationId) -> Reserved {
        let kept = self.kept_for(site, id);
        let [one] = &kept[..] else { panic!("one should be kept for {id}: {:?}", self.reservations()) };
        one.clone()
    }

    /// What the names of those say that a site made.
    #[track_caller]
    pub(crate) fn tags(&self, site: &str) -> Vec<Tag> {
        let site = Name::from(site);
        self.reservations().iter().filter_map(|reserved| Tag::read(&reserved.name, &site)).collect()
    }

    /// Reserves whole nodes as an operator does, by the times in seconds.
    #[track_caller]
    pub(crate) fn reserve_nodes(&self, name: &str, nodes: &str, begin: Time, end: Time) {
        let time = |time: Time| jiff::Timestamp::from_second(time.0).unwrap().strftime("%FT%T").to_string();
        let words = [
            format!("ReservationName={name}"),
            format!("Nodes={nodes}"),
            format!("StartTime={}", time(begin)),
            format!("EndTime={}", time(end)),
            "Users=root".to_owned(),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.tell(&[&["scontrol", "create", "reservation"], &words[..]].concat());
    }

    /// All jobs that the controller remembers.
    #[track_caller]
    pub(crate) fn jobs(&self) -> Vec<Queued> {
        let shown = self.tell(&["squeue", "-h", "-t", "all", "-o", "%i|%j|%T|%N|%S"]);
        let job = |line: &str| {
            let fields: Vec<&str> = line.split('|').collect();
            let [native, name, state, nodes, start] = fields[..] else { panic!("{line}") };
            let [native, name, state, nodes] = [native, name, state, nodes].map(str::to_owned);
            Queued { native, name, state, nodes, start: start.parse().ok() }
        };
        shown.lines().map(job).collect()
    }

    /// The one that a site was given as this job.
    #[track_caller]
    pub(crate) fn job(&self, id: &str) -> Option<Queued> {
        self.jobs().into_iter().find(|job| job.name.starts_with(&format!("{id}_")))
    }
}

#[track_caller]
fn reserved(line: &str) -> Reserved {
    let field = |name: &str| {
        let value = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
    };
    Reserved {
        name: field("ReservationName"),
        begin: field("StartTime").parse().unwrap(),
        end: field("EndTime").parse().unwrap(),
        cores: field("CoreCnt").parse().unwrap(),
        nodes: field("Nodes"),
    }
}
