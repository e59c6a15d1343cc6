//! A real sshd on loopback, started by a test in its own folder, with its own keys, for the account that runs the
//! tests. It ends with the test, together with its sessions.

use super::until;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A machine that is reached by ssh: this one.
pub(crate) struct Sshd {
    daemon: Child,
    port: u16,
    folder: TempDir,
}

impl Sshd {
    pub(crate) fn start() -> Sshd {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        for name in ["host", "key"] {
            make_key(&folder.path().join(name));
        }
        // Another process may take the port before sshd does; then sshd exits, and another port is tried.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if let Some(daemon) = launched(folder.path(), port) {
                return Sshd { daemon, port, folder };
            }
        }
        panic!("sshd does not start: {:?}", std::fs::read_to_string(folder.path().join("log")));
    }

    /// Its lines in the configuration of a site.
    pub(crate) fn described(&self) -> String {
        let folder = self.folder.path().display();
        format!(
            "[batch.ssh]\nhost = \"127.0.0.1\"\nport = {}\nuser = \"{}\"\nkey = \"{folder}/key\"\n\
             known_hosts = \"{folder}/known_hosts\"\n",
            self.port,
            account()
        )
    }

    /// Number of logins.
    pub(crate) fn logins(&self) -> usize {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        log.lines().filter(|line| line.contains("Accepted publickey")).count()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // Sessions are found first: without their parent they cannot be identified.
        let sessions = children(self.daemon.id());
        let _gone = self.daemon.kill();
        let _status = self.daemon.wait();
        for session in sessions {
            // The connection ends with the session, and so does the ssh client.
            let _gone = Command::new("kill").args(["-9", &session]).stderr(Stdio::null()).status();
        }
    }
}

fn children(process: u32) -> Vec<String> {
    let path = format!("/proc/{process}/task/{process}/children");
    std::fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// None if it exited.
fn launched(folder: &Path, port: u16) -> Option<Child> {
    let place = folder.display();
    // A bash that believes to be nested does not read the ~/.bashrc of the account.
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/key.pub\n\
         PidFile {place}/pid\nStrictModes no\nUsePAM no\nUseDNS no\nMaxStartups 100\n\
         PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         SetEnv SHLVL=9\n"
    );
    let host = std::fs::read_to_string(folder.join("host.pub")).unwrap();
    let hosts = format!("[127.0.0.1]:{port} {host}");
    for (name, text) in [("sshd_config", config), ("known_hosts", hosts)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let mut daemon = Command::new(program());
    daemon.args(["-D", "-f"]).arg(folder.join("sshd_config")).arg("-E").arg(folder.join("log"));
    let mut daemon = daemon.stdin(Stdio::null()).spawn().unwrap();
    until(|| match (folder.join("pid").exists(), daemon.try_wait().unwrap()) {
        (_, Some(_)) => Ok(false),
        (true, None) => Ok(true),
        (false, None) => Err("sshd does not listen".into()),
    })
    .then_some(daemon)
}

fn make_key(path: &Path) {
    let mut made = Command::new("ssh-keygen");
    made.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(path);
    let made = made.status().expect("ssh-keygen is needed: install the package openssh-client");
    assert!(made.success());
}

fn account() -> String {
    let name = Command::new("id").arg("-un").output().unwrap().stdout;
    String::from_utf8(name).unwrap().trim().into()
}

/// It must be called by an absolute path. As root it needs a folder that its package creates at boot.
fn program() -> PathBuf {
    let program = Path::new("/usr/sbin/sshd");
    assert!(program.exists(), "{} is needed: install the package openssh-server", program.display());
    if account() == "root" {
        std::fs::create_dir_all("/run/sshd").unwrap();
    }
    program.into()
}
