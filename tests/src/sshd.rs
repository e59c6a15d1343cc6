//! A real sshd on loopback, started by a test in its own folder with its own keys, for the account that runs the
//! tests. It ends with the test, with all its sessions.

use crate::polling::until_true;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Text that it sends at each login.
const GREETING: &str = "Authorised users only.\n";

/// A machine that is reached by ssh: this one.
pub struct Sshd {
    folder: TempDir,
    port: u16,
    daemon: Option<Child>,
}

impl Sshd {
    /// Starts it on a free port.
    pub fn start() -> Sshd {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        for name in ["host", "key", "wrong"] {
            make_key(&folder.path().join(name));
        }
        std::fs::copy(folder.path().join("key.pub"), folder.path().join("authorized_keys")).unwrap();
        std::fs::write(folder.path().join("greeting"), GREETING).unwrap();
        std::fs::write(folder.path().join("config"), "").unwrap();
        // Another process may take the port before sshd does; then it exits, and another port is tried.
        let mut sshd = Sshd { folder, port: 0, daemon: None };
        for _ in 0..20 {
            sshd.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if sshd.resume() {
                return sshd;
            }
        }
        panic!("sshd does not start: {}", sshd.log());
    }

    /// Starts the daemon; returns whether it listens.
    pub fn resume(&mut self) -> bool {
        let place = self.folder.path().display();
        // A bash that takes itself for a nested one does not read the ~/.bashrc of the account.
        let config = format!(
            "Port {}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized_keys\n\
             PidFile {place}/pid\nBanner {place}/greeting\nStrictModes no\nUsePAM no\nUseDNS no\nMaxStartups 100\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv SHLVL=9\n",
            self.port
        );
        let hosts = format!("[127.0.0.1]:{} {}", self.port, self.read("host.pub"));
        for (name, text) in [("sshd_config", config), ("known_hosts", hosts)] {
            std::fs::write(self.path(name), text).unwrap();
        }
        let _none = std::fs::remove_file(self.path("pid"));
        let mut daemon = Command::new(daemon_program());
        daemon.args(["-D", "-f"]).arg(self.path("sshd_config")).arg("-E").arg(self.path("log"));
        let mut daemon = daemon.stdin(Stdio::null()).spawn().unwrap();
        let mut listens = false;
        until_true("sshd listens or ends", || {
            listens = self.path("pid").exists();
            listens || daemon.try_wait().unwrap().is_some()
        });
        self.daemon = Some(daemon);
        listens
    }

    /// Ends the daemon and all its sessions.
    pub fn stop(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        // Sessions first: after their parent is gone, they cannot be recognised any more.
        let sessions = descendants(daemon.id());
        let _gone = daemon.kill();
        let _status = daemon.wait();
        for session in sessions {
            let _gone =
                Command::new("kill").arg("-9").arg(session.to_string()).stderr(Stdio::null()).status();
        }
    }

    /// Its section in a configuration, as `batch.ssh` or `slurm.ssh`.
    pub fn section(&self, name: &str) -> String {
        let folder = self.folder.path().display();
        format!(
            "[{name}]\nhost = \"127.0.0.1\"\nport = {}\nuser = \"{}\"\nkey = \"{folder}/key\"\n\
             known_hosts = \"{folder}/known_hosts\"\n",
            self.port,
            account()
        )
    }

    /// Port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file in its folder: `key` (accepted), `wrong` (not), `known_hosts`, `config` (empty), `log`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of such a file, or nothing.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Messages of the daemon.
    pub fn log(&self) -> String {
        self.read("log")
    }

    /// Number of logins.
    pub fn logins(&self) -> usize {
        self.log().lines().filter(|line| line.contains("Accepted publickey")).count()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes a new pair of keys, `path` and `path.pub`.
pub fn make_key(path: &Path) {
    let _none = std::fs::remove_file(path);
    let mut made = Command::new("ssh-keygen");
    made.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(path);
    let made = made.status().expect("ssh-keygen is needed: install the package openssh-client");
    assert!(made.success());
}

/// Name of the account that runs the tests.
pub fn account() -> String {
    let name = Command::new("id").arg("-un").output().unwrap().stdout;
    String::from_utf8(name).unwrap().trim().into()
}

/// sshd must be called by an absolute path. As root it needs a folder that its package creates at boot.
fn daemon_program() -> PathBuf {
    let program = Path::new("/usr/sbin/sshd");
    assert!(program.exists(), "{} is needed: install the package openssh-server", program.display());
    if account() == "root" {
        std::fs::create_dir_all("/run/sshd").unwrap();
    }
    program.into()
}

fn descendants(process: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let about = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in brackets may contain any character; the state and the parent follow it.
        let parent =
            about.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((parent, id)) = parent.zip(id) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        found.extend(children.remove(parent).unwrap_or_default());
        next += 1;
    }
    found.split_off(1)
}
