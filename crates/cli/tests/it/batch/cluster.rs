//! A Slurm cluster of the test: queries of its state, and the configuration of a site on it. Daemons, jobs and folder
//! are removed when it is dropped.

use super::watcher::Watcher;
use crate::services::asking::Asker;
use crate::services::grid::Grid;
use bookahead_lrms::batch::Tag;
use bookahead_lrms::slurm::{OwnCluster, OwnClusterSettings};
use bookahead_plan::Time;
use bookahead_protocol::{Name, ReservationId};
use bookahead_tests::polling::until;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Scheduling interval of Slurm in seconds: the delay of a reservation's start on a busy machine.
const OFTEN: &str = "SchedulerParameters=bf_interval=1,bf_resolution=1,bf_window=43200,sched_interval=1,\
                     sched_min_interval=0,batch_sched_delay=0";

/// A running Slurm cluster.
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
    /// The nodes that it runs or ran on.
    pub(crate) nodes: String,
    /// The real or expected start.
    pub(crate) start: Option<i64>,
}

impl Cluster {
    /// A cluster with this number of nodes and of cores per node.
    pub(crate) fn of(nodes: u32, cores_per_node: u32) -> Cluster {
        Cluster::with(nodes, cores_per_node, &[OFTEN])
    }

    /// A cluster whose failed nodes stay down until they are resumed. Otherwise a node that had jobs reports their end,
    /// and is up again by that.
    pub(crate) fn of_frail(nodes: u32, cores_per_node: u32) -> Cluster {
        Cluster::with(nodes, cores_per_node, &[OFTEN, "ReturnToService=0"])
    }

    /// A cluster that notices killed node daemons after some seconds, and has the nodes back with their daemons.
    pub(crate) fn of_watched(nodes: u32, cores_per_node: u32) -> Cluster {
        Cluster::with(nodes, cores_per_node, &[OFTEN, "SlurmdTimeout=4"])
    }

    /// A cluster with GPUs (plain files stand for the devices) on some nodes, and with licences.
    pub(crate) fn of_gpus(nodes: u32, cores_per_node: u32, gpus: &[(u32, u32)], licenses: &str) -> Cluster {
        let gpus = gpus.iter().map(|(node, count)| (*node, ("a100".to_owned(), *count))).collect();
        Cluster::made(nodes, cores_per_node, &[OFTEN, &format!("Licenses={licenses}")], gpus)
    }

    fn with(nodes: u32, cores_per_node: u32, extra: &[&str]) -> Cluster {
        Cluster::made(nodes, cores_per_node, extra, BTreeMap::new())
    }

    fn made(nodes: u32, cores_per_node: u32, extra: &[&str], gpus: BTreeMap<u32, (String, u32)>) -> Cluster {
        // Paths of sockets must be short.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let name = "own";
        let settings = OwnClusterSettings {
            nodes,
            cores_per_node,
            extra: extra.iter().map(|line| (*line).to_owned()).collect(),
            gpus,
            ..OwnClusterSettings::new(name, folder.path().join("slurm"))
        };
        let own = OwnCluster::start(&settings).unwrap_or_else(|why| panic!("no Slurm: {why}"));
        Cluster { own, capacity: nodes * cores_per_node, folder }
    }

    /// The configuration of a site on it, with more lines for its batch system and for its only resource.
    pub(crate) fn site(&self, name: &str, batch: &str, resource: &str) -> String {
        let (conf, output, capacity) = (self.own.conf(), self.folder.path(), self.capacity);
        let (conf, output) = (conf.display(), output.display());
        format!(
            "name = \"{name}\"\n[batch]\nsystem = \"slurm\"\nconf = \"{conf}\"\noutput = \"{output}\"\n\
             look_every = \"1s\"\nmove_after = \"2s\"\n{batch}\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\n\
             capacity = {capacity}\nbatch = {{ partition = \"main\" }}\n{resource}\n"
        )
    }

    /// A site called north on it, with a client and a watcher.
    pub(crate) async fn watched_site(&self) -> (Grid, Asker, Watcher) {
        let mut grid = Grid::new();
        grid.start("site", "north", &self.site("north", "", ""), None).await;
        let ada = grid.asker("north");
        let watcher = Watcher::of(&ada).await;
        (grid, ada, watcher)
    }

    /// A folder for additional files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The daemons.
    pub(crate) fn daemons(&mut self) -> &mut OwnCluster {
        &mut self.own
    }

    /// Sets a node down.
    pub(crate) fn fail(&self, node: &str) {
        self.own.set_node(node, "down").unwrap();
    }

    /// Resumes a node, and waits until Slurm has it back.
    #[track_caller]
    pub(crate) fn bring_back(&self, node: &str) {
        self.own.set_node(node, "resume").unwrap();
        until(|| {
            let shown = self.tell(&["scontrol", "-o", "show", "node", node]);
            let is_back = [" State=IDLE ", " State=IDLE+RESERVED "].iter().any(|state| shown.contains(state));
            if is_back { Ok(()) } else { Err(shown) }
        });
    }

    /// Allows other users of this machine to use it and run jobs. Needs root.
    pub(crate) fn open_to_others(&self) {
        for folder in [self.folder.path(), self.own.folder(), &self.own.folder().join("spool")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Submits a job of another user, and returns its number.
    #[track_caller]
    pub(crate) fn submit_as(&self, user: &str, cores: u32, minutes: u32) -> String {
        let (cores, minutes) = (format!("--ntasks={cores}"), format!("--time={minutes}"));
        let script = ["sbatch", "--parsable", "--output=/dev/null", &cores, &minutes, "--wrap=sleep 600"];
        self.tell(&[&["runuser", "-u", user, "--"], &script[..]].concat()).trim().to_owned()
    }

    /// Runs a Slurm command.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("SLURM_CONF", self.own.conf()).env("TZ", "UTC");
        command.env("SLURM_TIME_FORMAT", "%s").current_dir(self.folder.path());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Runs a Slurm command, which must succeed.
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

    /// The Slurm reservations that a site made for one of its reservations.
    #[track_caller]
    pub(crate) fn kept_for(&self, site: &str, id: ReservationId) -> Vec<Reserved> {
        let site = Name::from(site);
        let is_for = |name: &str| Tag::read(name, &site).is_some_and(|tag| tag.id == id);
        self.reservations().into_iter().filter(|reserved| is_for(&reserved.name)).collect()
    }

    /// The only Slurm reservation that a site made for one of its reservations.
    #[track_caller]
    pub(crate) fn one_for(&self, site: &str, id: ReservationId) -> Reserved {
        let kept = self.kept_for(site, id);
        let [one] = &kept[..] else { panic!("one should be kept for {id}: {:?}", self.reservations()) };
        one.clone()
    }

    /// The names of the Slurm reservations that a site made.
    #[track_caller]
    pub(crate) fn tags(&self, site: &str) -> Vec<Tag> {
        let site = Name::from(site);
        self.reservations().iter().filter_map(|reserved| Tag::read(&reserved.name, &site)).collect()
    }

    /// Reserves whole nodes like an operator; times are in seconds.
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

    /// All jobs that the controller knows.
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

    /// The Slurm job of a job of the site.
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
