//! A small private Grid Engine: a master and an execution daemon from Debian's packages, or two of these on their own
//! machines, with their own root, ports and spool in a temporary folder. It uses nothing of the packaged cell, needs
//! no systemd, and leaves no process behind. It must be started as root, since an execution daemon must.

use super::machines::{self, Machine};
use crate::scripted::link;
use bookahead_lrms::batch::{Place, Unit};
use bookahead_lrms::command::Runner;
use bookahead_lrms::grid_engine::{GridEngine, Settings};
use bookahead_protocol::Name;
use bookahead_tests::polling::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where Debian's packages put the programs, without the wrappers that look for a cell.
const PROGRAMS: &str = "/usr/lib/gridengine";
const SHARED: &str = "/usr/share/gridengine";
/// The commands that a site runs.
const COMMANDS: [&str; 10] =
    ["qacct", "qalter", "qconf", "qdel", "qrdel", "qrstat", "qrsub", "qselect", "qstat", "qsub"];
/// The hosts of a cell with two.
pub(crate) const HOSTS: [&str; 2] = ["ge1", "ge2"];
/// Slots of each queue instance.
pub(crate) const SLOTS: u32 = 8;

/// A Grid Engine with the queue `all.q`, the parallel environment `smp` and one or two hosts. It ends when dropped.
pub(crate) struct OwnCell {
    folder: TempDir,
    qmaster_port: u16,
    execd_port: u16,
    /// The first has the master, and commands run there.
    hosts: Vec<String>,
    /// Empty if its one host is this machine itself.
    machines: Vec<Machine>,
}

impl OwnCell {
    /// Starts one on this machine, and waits until its queue is usable.
    pub(crate) fn start() -> OwnCell {
        OwnCell::on(&[])
    }

    /// Starts one with two hosts, each its own machine.
    pub(crate) fn of_two_hosts() -> OwnCell {
        OwnCell::on(&HOSTS)
    }

    fn on(hosts: &[&str]) -> OwnCell {
        for program in ["sge_qmaster", "sge_execd", "qrsub"] {
            let there = Path::new(PROGRAMS).join(program).exists();
            assert!(
                there,
                "{PROGRAMS}/{program} is missing: apt install gridengine-master gridengine-exec gridengine-client"
            );
        }
        assert!(rustix::process::geteuid().is_root(), "a Grid Engine of one's own must be started as root");
        // Another process may have taken a port since it was found free.
        let mut cells = std::iter::repeat_with(|| OwnCell::laid_out(hosts)).take(3);
        let cell = cells.find(|cell| cell.run(&["sge_qmaster"]).status.success()).unwrap();
        cell.until_the_master_answers();
        cell.configure();
        cell.hosts.iter().for_each(|host| cell.start_execd_on(host));
        cell.until("the queue is usable", || {
            let shown = cell.text(&["qstat", "-f"]);
            shown.contains("lx-") && !shown.contains("-NA-")
        });
        cell
    }

    /// Creates folders and files as an installation does.
    fn laid_out(hosts: &[&str]) -> OwnCell {
        let folder = tempfile::Builder::new().prefix("ge").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // Both stay open until both are known, so that they differ.
        let ports = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let [qmaster_port, execd_port] = ports.each_ref().map(|port| port.local_addr().unwrap().port());
        let machines: Vec<Machine> = match hosts {
            [one, other] => machines::two([one, other], folder.path()).into(),
            _ => Vec::new(),
        };
        let this = || fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
        let hosts = if machines.is_empty() {
            vec![this()]
        } else {
            hosts.iter().map(|host| (*host).into()).collect()
        };
        let cell = OwnCell { folder, qmaster_port, execd_port, hosts, machines };
        let (root, common) = (cell.root(), cell.root().join("default/common"));
        for made in [
            &common,
            &cell.path("spool/qmaster/job_scripts"),
            &cell.path("spool/execd"),
            &cell.path("spool/db"),
        ] {
            fs::create_dir_all(made).unwrap();
        }
        for links in ["bin", "lib", "utilbin"] {
            fs::create_dir_all(root.join(links)).unwrap();
            symlink(PROGRAMS, root.join(links).join("lx-amd64")).unwrap();
        }
        symlink(Path::new(SHARED).join("util"), root.join("util")).unwrap();
        fs::write(common.join("bootstrap"), cell.bootstrap()).unwrap();
        fs::write(common.join("act_qmaster"), format!("{}\n", cell.hosts[0])).unwrap();
        // Otherwise loopback is called localhost, and the master trusts no host.
        fs::write(common.join("host_aliases"), format!("{} localhost\n", cell.hosts[0])).unwrap();
        cell.spool();
        cell
    }

    fn bootstrap(&self) -> String {
        let (db, spool) = (self.path("spool/db"), self.path("spool/qmaster"));
        format!(
            "admin_user root\ndefault_domain none\nignore_fqdn true\nspooling_method berkeleydb\nspooling_lib libspoolb\n\
             spooling_params {}\nbinary_path /usr/sbin\nqmaster_spool_dir {}\nsecurity_mode none\nlistener_threads 2\n\
             worker_threads 2\nscheduler_threads 1\n",
            db.display(),
            spool.display()
        )
    }

    /// The database of the master, with a configuration that reports fast. Each cell has its own groups: an execution
    /// daemon finds the processes of a job by them, and must not find those of another cell on this machine.
    fn spool(&self) {
        let first_group = 200_000 + u32::from(self.qmaster_port) * 100;
        let changes = [
            ("execd_spool_dir", self.path("spool/execd").display().to_string()),
            ("min_uid", "0".into()),
            ("min_gid", "0".into()),
            ("load_report_time", "00:00:01".into()),
            ("max_unheard", "00:00:05".into()),
            ("gid_range", format!("{first_group}-{}", first_group + 99)),
            ("reporting_params", "accounting=true reporting=false flush_time=00:00:01 joblog=false".into()),
        ];
        let default = fs::read_to_string(Path::new(SHARED).join("default-configuration")).unwrap();
        let lines = default.lines().map(|line| {
            let name = line.split_whitespace().next().unwrap_or("");
            let change = changes.iter().find(|(changed, _)| *changed == name);
            change.map_or_else(|| line.to_owned(), |(name, value)| format!("{name} {value}"))
        });
        let configuration = self.file("configuration", &(lines.collect::<Vec<_>>().join("\n") + "\n"));
        let resources = format!("{SHARED}/util/resources");
        let db = self.path("spool/db").display().to_string();
        self.done(&["spoolinit", "berkeleydb", "libspoolb", &db, "init"]);
        self.done(&["spooldefaults", "configuration", &configuration]);
        self.done(&["spooldefaults", "complexes", &format!("{resources}/centry")]);
        self.done(&["spooldefaults", "usersets", &format!("{resources}/usersets")]);
        self.done(&["spooldefaults", "managers", "root"]);
    }

    fn configure(&self) {
        for host in &self.hosts {
            self.done(&["qconf", "-as", host]);
            self.done(&["qconf", "-ah", host]);
        }
        let group = format!("group_name @allhosts\nhostlist {}\n", self.hosts.join(" "));
        self.done(&["qconf", "-Ahgrp", &self.file("group", &group)]);
        let environment = "pe_name smp\nslots 999\nuser_lists NONE\nxuser_lists NONE\nstart_proc_args NONE\n\
             stop_proc_args NONE\nallocation_rule $fill_up\ncontrol_slaves TRUE\njob_is_first_task TRUE\n\
             urgency_slots min\naccounting_summary TRUE\nqsort_args NONE\n";
        self.done(&["qconf", "-Ap", &self.file("pe", environment)]);
        self.add_queue("all.q");
        let pace = ["schedule_interval 0:0:1", "flush_submit_sec 1", "flush_finish_sec 1"];
        let scheduler = self.text(&["qconf", "-ssconf"]);
        let lines = scheduler.lines().map(|line| {
            let name = line.split_whitespace().next().unwrap_or("");
            pace.iter()
                .find(|changed| changed.split(' ').next() == Some(name))
                .map_or(line, |changed| changed)
        });
        self.done(&[
            "qconf",
            "-Msconf",
            &self.file("scheduler", &(lines.collect::<Vec<_>>().join("\n") + "\n")),
        ]);
    }

    /// Adds a queue on all hosts, with the same number of slots.
    pub(crate) fn add_queue(&self, name: &str) {
        let limits = ["rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem"];
        let limits = limits.map(|limit| format!("s_{limit} INFINITY\nh_{limit} INFINITY\n")).concat();
        let lists =
            ["ckpt_list", "owner_list", "user_lists", "xuser_lists", "subordinate_list", "complex_values"];
        let others = [
            "projects",
            "xprojects",
            "calendar",
            "load_thresholds",
            "suspend_thresholds",
            "prolog",
            "epilog",
        ];
        let methods = ["starter_method", "suspend_method", "resume_method", "terminate_method"];
        let none: String =
            lists.iter().chain(&others).chain(&methods).map(|name| format!("{name} NONE\n")).collect();
        let queue = format!(
            "qname {name}\nhostlist @allhosts\nseq_no 0\nnsuspend 1\nsuspend_interval 00:05:00\npriority 0\n\
             min_cpu_interval 00:05:00\nprocessors UNDEFINED\nqtype BATCH INTERACTIVE\npe_list smp\nrerun FALSE\n\
             slots {SLOTS}\ntmpdir /tmp\nshell /bin/sh\nshell_start_mode posix_compliant\nnotify 00:00:60\n\
             initial_state default\n{none}{limits}"
        );
        self.done(&["qconf", "-Aq", &self.file("queue", &queue)]);
    }

    pub(crate) fn start_master(&self) {
        self.done(&["sge_qmaster"]);
        self.until_the_master_answers();
    }

    fn until_the_master_answers(&self) {
        self.until("the master answers", || self.run(&["qconf", "-sss"]).status.success());
    }

    pub(crate) fn stop_master(&self) {
        self.stop(&self.path("spool/qmaster/qmaster.pid"));
    }

    pub(crate) fn start_execd_on(&self, host: &str) {
        let output = self.command(host, &["sge_execd"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Ends all execution daemons: their hosts do not answer any more.
    pub(crate) fn stop_execd(&self) {
        let spool = fs::read_dir(self.path("spool/execd")).unwrap();
        for host in spool.map(|host| host.unwrap().path()) {
            self.stop(&host.join("execd.pid"));
        }
    }

    /// Ends the one on one of two hosts.
    pub(crate) fn stop_execd_on(&self, host: &str) {
        self.stop(&self.path("spool/execd").join(host).join("execd.pid"));
    }

    fn stop(&self, pid_file: &Path) {
        let pid: i32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM);
        self.until("a daemon has ended", || !ours(self.folder.path()).contains(&pid));
    }

    /// Runs a program of Grid Engine in this cell.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(&self.hosts[0], words).output().unwrap()
    }

    fn command(&self, host: &str, words: &[&str]) -> Command {
        let machine = self.hosts.iter().zip(&self.machines).find(|(name, _)| *name == host);
        let mut prefixed = machine.map(|(_, machine)| machine.prefix()).unwrap_or_default();
        // Other programs are given with a path.
        prefixed.push(Path::new(PROGRAMS).join(words[0]).display().to_string());
        let mut command = Command::new(&prefixed[0]);
        command
            .args(&prefixed[1..])
            .args(&words[1..])
            .current_dir(self.folder.path())
            .env("TZ", "UTC")
            .env("LC_ALL", "C");
        command.env("SGE_ROOT", self.root()).env("SGE_CELL", "default");
        command.env("SGE_QMASTER_PORT", self.qmaster_port.to_string());
        command.env("SGE_EXECD_PORT", self.execd_port.to_string());
        command
    }

    /// Runs a program that must succeed; returns its output.
    pub(crate) fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{words:?} failed: {said}{}",
            String::from_utf8_lossy(&output.stdout)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn done(&self, words: &[&str]) {
        self.text(words);
    }

    /// Submits a job by hand, as any user could; returns its number.
    pub(crate) fn submit(&self, options: &[&str], seconds: u32) -> String {
        let words = ["qsub", "-terse", "-b", "y", "-shell", "n", "-o", "/dev/null", "-j", "y"];
        let seconds = seconds.to_string();
        self.text(&[&words, options, &["/bin/sleep", &seconds]].concat()).trim().to_owned()
    }

    /// The same as another user.
    pub(crate) fn submit_as(&self, user: &str, options: &[&str], seconds: u32) -> String {
        let (qsub, seconds) = (format!("{PROGRAMS}/qsub"), seconds.to_string());
        let words =
            ["/usr/sbin/runuser", "-u", user, "--", &qsub, "-terse", "-b", "y", "-shell", "n", "-wd", "/tmp"];
        let words =
            [&words[..], &["-o", "/dev/null", "-j", "y"], options, &["/bin/sleep", &seconds]].concat();
        self.text(&words).trim().to_owned()
    }

    /// Waits for a condition.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut come: impl FnMut() -> bool) {
        let messages = || fs::read_to_string(self.path("spool/qmaster/messages")).unwrap_or_default();
        until(|| come().then_some(()).ok_or_else(|| format!("{what}; the master says:\n{}", messages())));
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// The queue instance of a queue on the first host.
    pub(crate) fn instance(&self, queue: &str) -> String {
        format!("{queue}@{}", self.hosts[0])
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(vec![place("all.q")], "smp");
        settings.root = Some(self.root());
        settings.cell = Some("default".into());
        settings.qmaster_port = Some(self.qmaster_port);
        settings.execd_port = Some(self.execd_port);
        settings.bin = Some(self.programs());
        settings.output = Some(self.folder.path().into());
        settings.accounting = Some(Duration::from_secs(4));
        settings
    }

    /// A folder with the commands as they run on the first host.
    fn programs(&self) -> PathBuf {
        let Some(machine) = self.machines.first() else { return PROGRAMS.into() };
        let folder = self.path("programs");
        if !folder.exists() {
            fs::write(self.root().join("machine"), machine.process().to_string()).unwrap();
            link(&folder, "grid_engine/on_machine.sh", &COMMANDS);
        }
        folder
    }

    pub(crate) fn engine(&self) -> GridEngine {
        self.engine_with(self.settings())
    }

    pub(crate) fn engine_with(&self, settings: Settings) -> GridEngine {
        GridEngine::new(Runner::local(Duration::from_secs(20)), settings)
    }
}

/// A queue as a resource counted in slots.
pub(crate) fn place(queue: &str) -> Place {
    Place {
        resource: Name::from("cpu"),
        unit: Unit::Cores,
        partition: Some(queue.to_owned()),
        features: Vec::new(),
    }
}

impl Drop for OwnCell {
    /// Ends the daemons, then the jobs that they leave behind.
    fn drop(&mut self) {
        let began = Instant::now();
        loop {
            let left = ours(self.folder.path());
            if left.is_empty() || began.elapsed() > Duration::from_secs(10) {
                return;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// All processes with the root of this cell in their environment: daemons, shepherds and jobs.
fn ours(folder: &Path) -> Vec<i32> {
    let root = format!("SGE_ROOT={}\0", folder.join("root").display());
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_root = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(root.len()).any(|part| part == root.as_bytes())
    };
    pids.filter(has_root).collect()
}
