//! Accounting for one test: a MariaDB, a slurmdbd and the munged that it shares with the cluster, from Debian's
//! packages, in their own folder; the database has no port. They end when dropped, and the kernel kills them if the
//! test is killed. Jobs of several users run, so it must be started as root, as slurmd must.

use super::{Place, Site, start};
use bookahead_lrms::command::{Command as OneCommand, Runner};
use bookahead_tests::polling::until_true;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Required Debian packages besides Slurm itself.
const PROGRAMS: [(&str, &str); 4] = [
    ("/usr/sbin/slurmdbd", "slurmdbd"),
    ("/usr/sbin/mariadbd", "mariadb-server-core"),
    ("/usr/bin/mariadb-install-db", "mariadb-server-core"),
    ("/usr/bin/my_print_defaults", "mariadb-client-core"),
];

/// Attempts to start: another process may take a free port before slurmdbd does.
const ATTEMPTS: usize = 3;

/// A cluster with accounting; the cluster ends first.
pub(super) struct Accounted {
    pub(super) site: Site,
    /// A folder where jobs of all users can run.
    pub(super) jobs: PathBuf,
    _accounting: Accounting,
}

/// The daemons and their folder.
struct Accounting {
    folder: TempDir,
    port: u16,
    _daemons: Vec<Daemon>,
}

struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Accounted {
    /// Two nodes with four cores. Only members of a project may run jobs, and limits of projects apply.
    pub(super) fn start(place: &Place) -> Accounted {
        Accounted::with(place, &["AccountingStorageEnforce=associations,limits"])
    }

    /// With more lines for slurm.conf.
    pub(super) fn with(place: &Place, more: &[&str]) -> Accounted {
        assert!(rustix::process::geteuid().is_root(), "a Slurm with several users must be started as root");
        for (program, package) in PROGRAMS {
            assert!(
                Path::new(program).exists(),
                "{program} is not there; install Debian's package {package}"
            );
        }
        let accounting = Accounting::start();
        let site = start(place, |settings| {
            // Of two lines with the same key, the later one counts.
            settings.extra = accounting.lines();
            settings.extra.extend(more.iter().map(|line| (*line).to_owned()));
        });
        let jobs = site.folder.path().join("jobs");
        fs::create_dir(&jobs).unwrap();
        open(&jobs, 0o1777);
        // Other accounts reach their jobs through these.
        for folder in [site.folder.path(), site.cluster.folder(), &site.cluster.folder().join("spool")] {
            open(folder, 0o755);
        }
        let accounted = Accounted { site, jobs, _accounting: accounting };
        // slurmctld would not learn of projects that are created before it has registered.
        until_true("slurmctld is known to slurmdbd", || {
            let shown = accounted.accounts(&["-n", "-P", "show", "cluster", "format=controlport"]);
            shown.trim().parse::<u16>().is_ok_and(|port| port != 0)
        });
        accounted
    }

    /// Runs `sacctmgr`, which must succeed.
    #[track_caller]
    pub(super) fn accounts(&self, words: &[&str]) -> String {
        let outcome = self.site.by_hand("sacctmgr", &[&["-i"], words].concat());
        assert!(outcome.is_success(), "{words:?}: {}", outcome.said());
        outcome.out
    }

    /// Creates projects.
    pub(super) fn make_projects(&self, projects: &[&str]) {
        self.accounts(&[&["add", "account"], projects].concat());
    }

    /// Puts a user into a project. The first one is the user's default.
    pub(super) fn put_into(&self, project: &str, user: &str) {
        self.accounts(&["add", "user", user, &format!("account={project}")]);
    }
}

impl Accounting {
    fn start() -> Accounting {
        let folder = tempfile::Builder::new().prefix("ba").tempdir().unwrap();
        // Clients of slurmdbd get their credentials from this munged.
        open(folder.path(), 0o755);
        let path = |name: &str| folder.path().join(name);
        let mut daemons = vec![munged(folder.path()), database(folder.path())];
        let (port, slurmdbd) = (0..ATTEMPTS).find_map(|_| slurmdbd(folder.path())).unwrap_or_else(|| {
            panic!("slurmdbd found no port: {}", text(&path("slurmdbd.log")));
        });
        daemons.push(slurmdbd);
        Accounting { folder, port, _daemons: daemons }
    }

    /// Lines for slurm.conf.
    fn lines(&self) -> Vec<String> {
        let munge = self.folder.path().join("munge.socket");
        vec![
            format!("AuthInfo=socket={}", munge.display()),
            "AccountingStorageType=accounting_storage/slurmdbd".into(),
            "AccountingStorageHost=127.0.0.1".into(),
            format!("AccountingStoragePort={}", self.port),
            // Commands would otherwise use another munged.
            format!("AccountingStoragePass={}", munge.display()),
        ]
    }
}

fn munged(folder: &Path) -> Daemon {
    let file = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    let key = folder.join("munge.key");
    fs::write(&key, fs::read("/proc/sys/kernel/random/uuid").unwrap()).unwrap();
    open(&key, 0o400);
    let mut words = vec!["--foreground".to_owned(), "--force".to_owned()];
    words.push(file("key-file", "munge.key"));
    words.push(file("socket", "munge.socket"));
    words.push(file("pid-file", "munged.pid"));
    words.push(file("log-file", "munged.log"));
    words.push(file("seed-file", "munged.seed"));
    let mut daemon = Daemon::start("munged", "/usr/sbin/munged", &words, folder);
    daemon.until("listens", |_| folder.join("munge.socket").exists());
    daemon
}

/// A database without users, reachable only by accounts that may enter its folder.
fn database(folder: &Path) -> Daemon {
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    open(&data, 0o700);
    let (datadir, tmpdir) = (format!("--datadir={}", data.display()), format!("--tmpdir={}", data.display()));
    let install = OneCommand::new("/usr/bin/mariadb-install-db")
        .args(["--no-defaults", "--user=root", "--skip-test-db", "--skip-name-resolve"])
        .arg(datadir.clone())
        // Of its own: a server that starts deletes the temporary tables that it finds, also those of others.
        .arg(tmpdir.clone());
    let made = Runner::local(Duration::from_secs(60)).run(&install).unwrap();
    assert!(made.is_success(), "mariadb-install-db: {} {}", made.out, made.said());
    let words = [
        "--no-defaults",
        "--user=root",
        "--skip-networking",
        "--skip-grant-tables",
        "--skip-log-bin",
        "--innodb-buffer-pool-size=32M",
        "--innodb-log-file-size=8M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-method=nosync",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.extend([datadir, format!("--socket={}", socket(folder).display())]);
    words.push(format!("--pid-file={}", data.join("mariadbd.pid").display()));
    words.push(tmpdir);
    let mut daemon = Daemon::start("mariadbd", "/usr/sbin/mariadbd", &words, folder);
    daemon.until("is ready", |log| log.contains("ready for connections"));
    daemon
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("data/socket")
}

/// None if its port was taken meanwhile.
fn slurmdbd(folder: &Path) -> Option<(u16, Daemon)> {
    let port = TcpListener::bind(("0.0.0.0", 0)).unwrap().local_addr().unwrap().port();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let conf = folder.join("slurmdbd.conf");
    let lines = format!(
        "\
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
PidFile={pid}
",
        munge = path("munge.socket"),
        pid = path("slurmdbd.pid"),
    );
    fs::write(&conf, lines).unwrap();
    // slurmdbd requires this mode, and finds the file beside slurm.conf.
    open(&conf, 0o600);
    let words = ["-D".to_owned()];
    let mut daemon = Daemon::start("slurmdbd", "/usr/sbin/slurmdbd", &words, folder);
    let mut taken = false;
    daemon.until("is ready", |log| {
        taken = log.contains("Address already in use");
        taken || (log.contains("slurmdbd version") && log.contains("started"))
    });
    (!taken).then_some((port, daemon))
}

impl Daemon {
    /// Killed with the thread that starts it, which is that of the test.
    fn start(name: &'static str, program: &str, words: &[String], folder: &Path) -> Daemon {
        let log = folder.join(format!("{name}.out"));
        let file = fs::File::create(&log).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .args(words)
            .current_dir(folder)
            .env("SLURM_CONF", folder.join("slurm.conf"))
            .env("MYSQL_UNIX_PORT", socket(folder))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|why| panic!("setpriv (Debian's package util-linux): {why}"));
        Daemon { name, child, log }
    }

    /// Waits for a line in its log; fails if it exits before.
    #[track_caller]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&str) -> bool) {
        until_true(&format!("{} {what}", self.name), || {
            let log = text(&self.log);
            let so = is_so(&log);
            let ended = self.child.try_wait().unwrap();
            assert!(so || ended.is_none(), "{} ended by itself: {log}", self.name);
            so
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
