//! The Debian package: built from the program under test, installed by dpkg into a root of its own, where its scripts
//! run; the commands of its units start a site and a broker there, upgrades and removal keep their state, and purging
//! deletes it. There is no systemd in that root: the test makes the folders that the units ask systemd for.

use crate::folder::Folder;
use crate::service::{Service, connect};
use bookahead_service::security::is_root;
use bookahead_tests::polling::{PATIENCE, until_true};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that the maintainer scripts run.
const PROGRAMS: [&str; 9] = [
    "/bin/sh",
    "/usr/bin/getent",
    "/usr/sbin/groupadd",
    "/usr/sbin/groupdel",
    "/usr/sbin/useradd",
    "/usr/sbin/userdel",
    "/bin/chown",
    "/bin/rm",
    "/usr/sbin/nologin",
];

/// Packages that these come from, which dpkg in the root takes as installed.
const INSTALLED: [&str; 3] = ["libc6", "libgcc-s1", "passwd"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn build(folder: &Folder, version: &str) -> PathBuf {
    let mut command = Command::new(repository().join("packaging/build-deb"));
    command.args(["--fast", "--binary", env!("CARGO_BIN_EXE_bookahead"), "--version", version, "--out"]);
    PathBuf::from(run(command.arg(folder.path("packages"))).trim())
}

/// A root folder with the C library, a shell, and the programs of the package `passwd`.
struct Root(PathBuf);

impl Root {
    fn new(folder: &Folder) -> Root {
        let root = Root(folder.path("root"));
        for name in [
            "etc",
            "tmp",
            "dev",
            "run",
            "var/lib/dpkg/info",
            "var/lib/dpkg/updates",
            "usr/bin",
            "usr/sbin",
            "usr/lib",
            "usr/lib64",
        ] {
            fs::create_dir_all(root.at(name)).unwrap();
        }
        for name in ["bin", "sbin", "lib", "lib64"] {
            symlink(format!("usr/{name}"), root.at(name)).unwrap();
        }
        fs::set_permissions(root.at("tmp"), Permissions::from_mode(0o1777)).unwrap();
        let mut files: BTreeSet<PathBuf> = PROGRAMS.iter().map(PathBuf::from).collect();
        for program in PROGRAMS.iter().copied().chain([env!("CARGO_BIN_EXE_bookahead")]) {
            let listed = run(Command::new("ldd").arg(program));
            files.extend(listed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
        }
        for file in files.iter().filter(|file| **file != Path::new(env!("CARGO_BIN_EXE_bookahead"))) {
            let to = root.at(file.strip_prefix("/").unwrap().to_str().unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(file, to).unwrap();
        }
        fs::write(root.at("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::write(root.at("etc/group"), "root:x:0:\n").unwrap();
        fs::write(root.at("etc/nsswitch.conf"), "passwd: files\ngroup: files\n").unwrap();
        fs::write(root.at("dev/null"), "").unwrap();
        let status: String =
            INSTALLED.iter().map(|name| run(Command::new("dpkg-query").args(["-s", name])) + "\n").collect();
        // Of their own dependencies, none is asked of dpkg here.
        let depends = |line: &&str| !line.starts_with("Depends:") && !line.starts_with("Pre-Depends:");
        let status: String = status.lines().filter(depends).map(|line| format!("{line}\n")).collect();
        fs::write(root.at("var/lib/dpkg/status"), status).unwrap();
        fs::write(root.at("var/lib/dpkg/available"), "").unwrap();
        // Folders of the system, so that dpkg does not remove them with the last package that uses them.
        fs::write(root.at("var/lib/dpkg/info/passwd.list"), "/.\n/etc\n/usr\n/usr/bin\n/usr/lib\n").unwrap();
        root
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    #[track_caller]
    fn dpkg(&self, words: &[&str]) -> String {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.0.display())).arg("--force-not-root").args(words);
        run(command.env("DEBIAN_FRONTEND", "noninteractive").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }

    /// Numbers of the account that the package has made.
    fn account(&self) -> Option<(u32, u32)> {
        let users = fs::read_to_string(self.at("etc/passwd")).unwrap();
        let fields: Vec<&str> =
            users.lines().find(|line| line.starts_with("bookahead:"))?.split(':').collect();
        Some((fields[2].parse().unwrap(), fields[3].parse().unwrap()))
    }

    /// Starts the command of a unit for an instance, as systemd does.
    fn start(&self, role: &str, instance: &str, notify: Option<&str>) -> Service {
        let unit = fs::read_to_string(self.at(&format!("usr/lib/systemd/system/bookahead-{role}@.service")))
            .unwrap();
        let value = |key: &str| {
            let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            lines.map(|value| value.replace("%i", instance)).next_back().unwrap_or_else(|| panic!("no {key}"))
        };
        let (user, group) = self.account().expect("an account");
        let folder = |under: &str, name: &str, mode: u32| {
            let path = self.at(under).join(name);
            fs::create_dir_all(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        let mode = u32::from_str_radix(&value("StateDirectoryMode"), 8).unwrap();
        value("StateDirectory").split_whitespace().for_each(|name| folder("var/lib", name, mode));
        value("RuntimeDirectory").split_whitespace().for_each(|name| folder("run", name, 0o755));
        let mut command = Command::new("/usr/sbin/chroot");
        assert_eq!((&*value("User"), &*value("Group")), ("bookahead", "bookahead"));
        command.arg(format!("--userspec={user}:{group}")).arg(&self.0);
        command.args(value("ExecStart").split_whitespace()).env_clear();
        if let Some(socket) = notify {
            command.env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", "200000");
        }
        Service::of(command)
    }

    /// Asks a service at its socket, which has another path outside of the root.
    fn ask(&self, instance: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let socket = self.at(&format!("run/bookahead/{instance}/socket"));
        let mut stream = connect(&format!("unix:{}", socket.display()));
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Idempotency-Key: \"1\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {text}")))
    }

    fn reservations(&self, instance: &str) -> u64 {
        self.ask(instance, "GET", "/v1/reservations", "").1["total"].as_u64().unwrap()
    }
}

#[test]
fn the_package_has_units_manuals_completions_and_safe_configurations() {
    let folder = Folder::new();
    let package = build(&folder, "1.2.3");
    let run_deb = |words: &[&str]| run(Command::new("dpkg-deb").args(words).arg(&package));
    let control = run_deb(&["--field"]);
    assert!(control.contains("Version: 1.2.3") && control.contains("libc6 (>= 2."), "{control}");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder.path("out")));
    let out = |name: &str| folder.path("out").join(name);
    for file in [
        "usr/lib/systemd/system/bookahead-site@.service",
        "usr/lib/systemd/system/bookahead-broker@.service",
        "usr/share/man/man1/bookahead.1.gz",
        "usr/share/man/man1/bookahead-site-doctor.1.gz",
        "usr/share/bash-completion/completions/bookahead",
        "usr/share/zsh/vendor-completions/_bookahead",
        "usr/share/fish/vendor_completions.d/bookahead.fish",
        "usr/share/doc/bookahead/examples/alerts.yml",
        "usr/share/doc/bookahead/copyright",
    ] {
        assert!(out(file).metadata().unwrap().len() > 100, "{file}");
    }
    for (role, mode) in [("site", 0o640), ("broker", 0o640)] {
        let config = out(&format!("etc/bookahead/{role}.toml"));
        assert_eq!(config.metadata().unwrap().mode() & 0o777, mode);
        let text = fs::read_to_string(&config).unwrap();
        let listeners: Vec<&str> = text.lines().filter(|line| line.starts_with("listen")).collect();
        assert_eq!(listeners, [format!("listen = \"unix:/run/bookahead/{role}/socket\"")], "only a socket");
        run(Command::new(out("usr/bin/bookahead")).args([role, "--check", "--config"]).arg(&config));
        // systemd's own opinion of the unit: it can be read, and little is left that it may do.
        let unit = repository().join(format!("packaging/systemd/bookahead-{role}@.service"));
        if Path::new("/usr/bin/systemd-analyze").exists() {
            run(Command::new("systemd-analyze")
                .args(["security", "--offline=true", "--threshold=20"])
                .arg(unit));
        }
    }
}

#[test]
fn a_site_and_a_broker_start_from_the_package_and_their_state_outlives_it() {
    if !is_root() {
        eprintln!("not root: dpkg cannot install into a root of its own");
        return;
    }
    let folder = Folder::new();
    let (old, new) = (build(&folder, "1.0.0"), build(&folder, "1.1.0"));
    let root = Root::new(&folder);
    root.dpkg(&["--install", old.to_str().unwrap()]);
    let (user, group) = root.account().expect("the package makes an account");
    let config = root.at("etc/bookahead/site.toml").metadata().unwrap();
    assert_eq!((config.uid(), config.gid(), config.mode() & 0o777), (0, group, 0o640));

    let site = root.start("site", "site", None);
    let status = fs::read_to_string(format!("/proc/{}/status", pid_of(&root, "site"))).unwrap();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    assert!(uids.split_whitespace().all(|uid| uid == user.to_string()), "it runs as its own account: {uids}");
    let broker = root.start("broker", "broker", None);
    let known = |root: &Root| {
        let sites = root.ask("broker", "GET", "/v1/sites", "").1;
        sites["sites"].as_array().unwrap().iter().any(|site| site["name"] == "site" && site["state"] == "up")
    };
    until_true("the broker sees the site", || known(&root));
    let now = jiff::Timestamp::now().as_second();
    let at = |hours: i64| jiff::Timestamp::from_second(now + hours * 3_600).unwrap().to_string();
    let part = format!(
        r#"{{"capacity":2,"duration_seconds":3600,"earliest_start":"{}","latest_end":"{}"}}"#,
        at(1),
        at(48)
    );
    let body = format!(r#"{{"request":{{"parts":[{part}]}},"book":true}}"#);
    let (status, booked) = root.ask("broker", "POST", "/v1/reservations", &body);
    assert_eq!((status, booked["state"].as_str()), (201, Some("committed")), "{booked}");
    broker.stop();
    site.stop();

    // A change by the operator survives an upgrade, as do the promises.
    let own =
        fs::read_to_string(root.at("etc/bookahead/site.toml")).unwrap() + "\n[holds]\nlongest = \"2m\"\n";
    fs::write(root.at("etc/bookahead/site.toml"), &own).unwrap();
    root.dpkg(&["--force-confold", "--install", new.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(root.at("etc/bookahead/site.toml")).unwrap(), own);
    tells_systemd_that_it_is_ready_and_alive(&root);

    root.dpkg(&["--remove", "bookahead"]);
    assert!(!root.at("usr/bin/bookahead").exists());
    for journal in ["site", "broker"] {
        assert!(
            root.at(&format!("var/lib/bookahead/{journal}/journal.db")).exists(),
            "removal keeps the state"
        );
    }
    assert!(root.at("etc/bookahead/site.toml").exists() && root.account().is_some());
    root.dpkg(&["--force-confold", "--install", new.to_str().unwrap()]);
    let site = root.start("site", "site", None);
    assert_eq!(root.reservations("site"), 1, "the promise is kept after removal and installation");
    site.stop();
    root.dpkg(&["--purge", "bookahead"]);
    assert!(!root.at("var/lib/bookahead").exists() && !root.at("etc/bookahead").exists());
    assert_eq!(root.account(), None);
    root.dpkg(&["--install", new.to_str().unwrap()]);
    assert!(root.account().is_some(), "it can be installed again");
}

/// Starts the site with the sockets of a supervisor, and expects its messages.
fn tells_systemd_that_it_is_ready_and_alive(root: &Root) {
    let path = root.at("run/notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    supervisor.set_read_timeout(Some(PATIENCE)).unwrap();
    let site = root.start("site", "site", Some("/run/notify"));
    let heard = || {
        let mut buffer = [0; 1_024];
        let length = supervisor.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert!(heard().contains("READY=1"));
    assert!(
        heard().contains("WATCHDOG=1") && heard().contains("WATCHDOG=1"),
        "twice in the time that is given"
    );
    assert_eq!(root.reservations("site"), 1, "the promise is kept after the upgrade");
    site.signal("HUP");
    while !heard().contains("RELOADING=1") {}
    while !heard().contains("READY=1") {}
    site.signal("TERM");
    while !heard().contains("STOPPING=1") {}
    let (status, said) = site.ended();
    assert_eq!(status.code(), Some(0), "{said}");
}

/// The process that holds the journal of an instance: chroot replaces itself by the program.
fn pid_of(root: &Root, instance: &str) -> u32 {
    let words = format!("--config\0/etc/bookahead/{instance}.toml\0");
    let inside = |pid: u32| fs::read_link(format!("/proc/{pid}/root")).is_ok_and(|at| at == root.0);
    let all =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let runs = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&words))
            && inside(*pid)
    };
    all.into_iter().find(runs).expect("it runs")
}
