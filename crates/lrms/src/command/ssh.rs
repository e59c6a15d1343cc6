//! Commands on another machine, through the OpenSSH client (options: ssh_config(5)). It never prompts, trusts only
//! known hosts, and keeps a connection open for later calls if it has a control folder.
//!
//! The account on the other machine needs a POSIX shell (not csh or fish), and `timeout` and `env` of coreutils. The
//! startup files of that shell (bash reads `~/.bashrc`) run in every call, and must print nothing. `timeout` ends a
//! command there: after a lost connection, or if we give up first, the command may run until then.
//!
//! Exit code 255 means that ssh itself failed, unless a marker from the other side says that the command exited with
//! it. Every word is quoted, and a host is never one that ssh could take for an option.

use super::command_line::{Outcome, is_account, quoted, whole_seconds};
use crate::error::LrmsError;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

/// How to reach another machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ssh {
    /// Host name, address, or alias from the ssh configuration.
    pub host: String,
    /// Login account; None for the account of the service, or the ssh configuration.
    pub user: Option<String>,
    /// None for 22, or the ssh configuration.
    pub port: Option<u16>,
    /// The only private key to use; None for ssh's own choice.
    pub key_file: Option<PathBuf>,
    /// The only known-hosts file to trust; None for those of the account and the machine.
    pub known_hosts: Option<PathBuf>,
    /// Folder for the socket of the open connection, which makes calls after the first cheap. Created if missing.
    /// Only our account may write to it, as other writers could impersonate the remote host. None opens a new
    /// connection for each call.
    pub control_folder: Option<PathBuf>,
    /// Whether to trust an unknown host on first contact. A changed host key is never accepted.
    pub accept_new: bool,
    /// ssh configuration file to use in place of those of the account and the machine.
    pub config_file: Option<PathBuf>,
}

/// How long an idle connection stays open, in seconds.
const KEPT_OPEN: u64 = 60;

/// Longest path of a socket: `sockaddr_un` has 108 bytes on Linux and 104 elsewhere, including the final NUL.
const LONGEST_SOCKET: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Longest path of a control folder, in bytes. `%C` is 40 digits, and ssh first creates the socket under a name that
/// is 17 characters longer (a dot and 16 random characters).
pub const LONGEST_CONTROL_FOLDER: usize = LONGEST_SOCKET - "/".len() - 40 - 17;

/// Longest command line, in bytes. The remote shell gets it as one argument, and Linux limits one argument to this
/// (execve(2), `MAX_ARG_STRLEN`).
const LONGEST_LINE: usize = (1 << 17) - 1;

pub(super) struct Line {
    text: String,
    /// Marker that the other side prints if the command itself exited with 255. Random, as the output of a command
    /// must not forge it.
    own_255: String,
}

impl Ssh {
    /// A host with the defaults of the ssh configuration.
    pub fn to(host: impl Into<String>) -> Ssh {
        Ssh { host: host.into(), ..Ssh::default() }
    }

    /// Validates the fields and creates the control folder.
    pub(super) fn check(&self) -> Result<(), LrmsError> {
        if !is_host(&self.host) {
            return self
                .refused("this is not a valid name or address of a host; use letters, digits, . : _ and -");
        }
        if let Some(user) = self.user.as_ref().filter(|user| !is_account(user)) {
            return self.refused(&format!("{user:?} is not a valid name of an account; correct the user"));
        }
        let paths = [&self.key_file, &self.known_hosts, &self.config_file, &self.control_folder];
        for path in paths.into_iter().flatten() {
            if written(path).is_none() {
                return self.refused(&format!(
                    "the path {} cannot be passed to ssh; use an absolute path without quotes, $, \\ and line breaks",
                    path.display()
                ));
            }
        }
        self.control_folder.as_ref().map_or(Ok(()), |folder| self.check_control_folder(folder))
    }

    fn check_control_folder(&self, folder: &Path) -> Result<(), LrmsError> {
        let length = folder.as_os_str().len();
        if length > LONGEST_CONTROL_FOLDER {
            return self.refused(&format!(
                "the path of the control folder {} has {length} bytes; the limit is {LONGEST_CONTROL_FOLDER}, \
                 to leave room for \
                 the name of a socket; take a shorter one, such as /run/bookahead/ssh",
                folder.display()
            ));
        }
        private_folder(folder).map_err(LrmsError::files("make the control folder", folder))?;
        if !is_ours_alone(folder)
            .map_err(LrmsError::files("read the permissions of the control folder", folder))?
        {
            return self.refused(&format!(
                "other accounts may write to the control folder {}; it must belong to this account and have mode 0700",
                folder.display()
            ));
        }
        Ok(())
    }

    fn refused<T>(&self, why: &str) -> Result<T, LrmsError> {
        Err(LrmsError::NotRunnable { what: format!("commands on {:?}", self.host), why: why.into() })
    }

    pub(super) fn process(&self, line: &Line, time_out: Duration) -> Process {
        let mut ssh = Process::new("ssh");
        if let Some(file) = &self.config_file {
            ssh.arg("-F").arg(file);
        }
        // No terminal: it would change line ends and merge both outputs.
        ssh.arg("-T");
        for option in self.options(time_out) {
            ssh.arg("-o").arg(option);
        }
        if let Some(user) = &self.user {
            ssh.arg("-l").arg(user);
        }
        if let Some(port) = self.port {
            ssh.arg("-p").arg(port.to_string());
        }
        ssh.arg("--").arg(&self.host).arg(&line.text);
        ssh
    }

    fn options(&self, time_out: Duration) -> Vec<String> {
        // At most half of the timeout, to tell an unreachable host from a command that hangs.
        let connect = (whole_seconds(time_out) / 2).clamp(1, 10);
        let mut options = vec![
            "BatchMode=yes".into(),
            format!("ConnectTimeout={connect}"),
            "ConnectionAttempts=1".into(),
            format!("StrictHostKeyChecking={}", if self.accept_new { "accept-new" } else { "yes" }),
            "UpdateHostKeys=no".into(),
            // A dead connection is noticed after 15 seconds.
            "ServerAliveInterval=5".into(),
            "ServerAliveCountMax=3".into(),
            // The ssh configuration of the account must not open ports or run other commands.
            "ClearAllForwardings=yes".into(),
            "ForwardAgent=no".into(),
            "ForwardX11=no".into(),
            "PermitLocalCommand=no".into(),
            "RemoteCommand=none".into(),
            // Suppress login banners, which would mix with the standard error of the command.
            "LogLevel=ERROR".into(),
        ];
        if let Some(key) = self.key_file.as_deref().and_then(written) {
            options.extend([format!("IdentityFile={key}"), "IdentitiesOnly=yes".into()]);
        }
        if let Some(hosts) = self.known_hosts.as_deref().and_then(written) {
            options.extend([format!("UserKnownHostsFile={hosts}"), "GlobalKnownHostsFile=/dev/null".into()]);
        }
        let socket = self.control_folder.as_ref().and_then(|folder| socket_in(folder));
        options.extend(match socket {
            Some(socket) => vec![
                "ControlMaster=auto".into(),
                format!("ControlPersist={KEPT_OPEN}"),
                format!("ControlPath={socket}"),
            ],
            None => vec!["ControlMaster=no".into(), "ControlPath=none".into()],
        });
        options
    }

    /// Interprets the exit of the ssh client.
    pub(super) fn outcome(
        &self,
        line: &Line,
        code: Option<i32>,
        out: String,
        err: &str,
    ) -> Result<Outcome, LrmsError> {
        match (code, err.rsplit_once(line.own_255.as_str())) {
            (Some(255), Some((err, _))) => Ok(Outcome { code, out, err: without_noise(err) }),
            (Some(255), None) => Err(self.unreachable(err)),
            (None, _) => Err(self.unreachable("ssh was ended by a signal")),
            _ => Ok(Outcome { code, out, err: without_noise(err) }),
        }
    }

    fn unreachable(&self, said: &str) -> LrmsError {
        let said = said.trim();
        let said = if said.is_empty() { "ssh gave no reason" } else { said };
        LrmsError::Unreachable { host: self.host.clone(), said: said.into() }
    }
}

impl Line {
    pub(super) fn of(program: &str, words: &[String]) -> Result<Line, LrmsError> {
        let refused = |why: String| LrmsError::NotRunnable { what: program.into(), why };
        let quoted: Option<Vec<String>> = words.iter().map(|word| quoted(word)).collect();
        let quoted = quoted.ok_or_else(|| refused("an argument contains a NUL byte; remove it".into()))?;
        let own_255 = format!("own-255-{:016x}", RandomState::new().build_hasher().finish());
        let text = format!(
            r#"{}; e=$?; if [ "$e" -eq 255 ]; then echo {own_255} >&2; fi; exit "$e""#,
            quoted.join(" ")
        );
        if text.len() > LONGEST_LINE {
            let length = text.len();
            return Err(refused(format!(
                "the command line has {length} bytes, at most {LONGEST_LINE} are possible; pass the data on \
                 standard input"
            )));
        }
        Ok(Line { text, own_255 })
    }
}

/// Removes messages of the ssh client about its shared connection: another client opened one at the same moment, it
/// has just closed, or it has no session left. In each case the client opens its own connection, so they are not
/// errors.
fn without_noise(err: &str) -> String {
    let noise = |line: &&str| {
        let shared =
            line.starts_with("ControlSocket ") && line.contains(" already exists, disabling multiplexing");
        shared || line.starts_with("mux_client_") || line.starts_with("muxclient: ")
    };
    err.split_inclusive('\n').filter(|line| !noise(line)).collect()
}

/// Accepts nothing that ssh could read as an option, as `user@host` or as a URL.
fn is_host(host: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    !host.is_empty() && host.len() <= 255 && !host.starts_with('-') && host.bytes().all(legal)
}

/// A path quoted for an ssh option, where `%` and blanks have a meaning; None if it cannot be expressed.
fn written(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|_| path.is_absolute())?;
    let legal = !text.contains(|letter: char| "\"'$\\".contains(letter) || letter.is_control());
    legal.then(|| format!("\"{}\"", text.replace('%', "%%")))
}

/// Path of the control socket; `%C` is ssh's hash of the connection.
fn socket_in(folder: &Path) -> Option<String> {
    let folder = written(folder)?;
    Some(format!("{}/%C\"", folder.strip_suffix('"')?))
}

#[cfg(unix)]
fn private_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

#[cfg(unix)]
fn is_ours_alone(folder: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let about = std::fs::metadata(folder)?;
    Ok(about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0)
}

#[cfg(not(unix))]
fn is_ours_alone(_: &Path) -> std::io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_CONTROL_FOLDER, LONGEST_LINE, Line, Ssh};
    use crate::error::LrmsError;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    fn refusal(ssh: &Ssh) -> String {
        ssh.check().expect_err("it is refused").to_string()
    }

    fn options(ssh: &Ssh) -> Vec<String> {
        ssh.options(Duration::from_secs(10))
    }

    fn line(words: &[&str]) -> Line {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Line::of("squeue", &words).unwrap()
    }

    #[test]
    fn a_host_that_could_mean_something_else_is_refused() {
        for host in ["cluster", "login-1.example.org", "10.0.0.1", "::1", "fe80::1", "my_alias"] {
            Ssh::to(host).check().unwrap();
        }
        let odd = [
            "",
            "-oProxyCommand=id",
            "a b",
            "a;b",
            "ann@a",
            "ssh://a",
            "a\n",
            "ä",
            "a/b",
            "%h",
            "$(id)",
            "a\0",
        ];
        for host in odd {
            let refused = refusal(&Ssh::to(host));
            assert!(refused.contains("name or address of a host"), "{refused}");
        }
        assert!(Ssh::to("a".repeat(256)).check().is_err());
    }

    #[test]
    fn a_user_that_could_mean_something_else_is_refused() {
        for user in ["-v", "", "a b", "a@b", "9", "a;b"] {
            let refused = refusal(&Ssh { user: Some(user.into()), ..Ssh::to("cluster") });
            assert!(refused.contains("name of an account"), "{refused}");
        }
    }

    #[test]
    fn a_path_that_ssh_would_take_apart_is_refused_and_others_are_written_so_that_it_does_not() {
        for path in ["relative", "~/key", "/a\"b", "/a'b", "/${HOME}", "/a\\b", "/a\nb"] {
            let refused = refusal(&Ssh { key_file: Some(path.into()), ..Ssh::to("cluster") });
            assert!(refused.contains("absolute"), "{refused}");
            assert!(Ssh { known_hosts: Some(path.into()), ..Ssh::to("cluster") }.check().is_err());
        }
        let ssh = Ssh { key_file: Some("/my keys/100%h".into()), ..Ssh::to("cluster") };
        ssh.check().unwrap();
        assert!(options(&ssh).contains(&"IdentityFile=\"/my keys/100%%h\"".to_owned()));
        assert!(options(&ssh).contains(&"IdentitiesOnly=yes".to_owned()));
    }

    #[test]
    fn a_control_folder_that_leaves_no_room_for_a_socket_is_refused_with_what_to_do() {
        let folder = PathBuf::from(format!("/{}", "x".repeat(LONGEST_CONTROL_FOLDER)));
        let refused = refusal(&Ssh { control_folder: Some(folder), ..Ssh::to("cluster") });
        assert!(refused.contains("take a shorter one"), "{refused}");
    }

    #[cfg(unix)]
    #[test]
    fn a_control_folder_is_made_for_us_alone_and_refused_where_others_may_write() {
        use std::fs::{Permissions, metadata, set_permissions};
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir_in("/tmp").unwrap();
        let folder = place.path().join("c");
        let ssh = Ssh { control_folder: Some(folder.clone()), ..Ssh::to("cluster") };
        ssh.check().unwrap();
        assert_eq!(metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let socket = format!("ControlPath=\"{}/%C\"", folder.display());
        assert!(options(&ssh).contains(&socket));
        set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
        let refused = refusal(&ssh);
        assert!(refused.contains("0700"), "{refused}");
    }

    #[test]
    fn ssh_asks_nobody_and_trusts_only_whom_it_knows() {
        let plain = options(&Ssh::to("cluster"));
        for option in ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=5", "ControlPath=none"] {
            assert!(plain.contains(&option.to_owned()), "{option}");
        }
        let ssh = Ssh { accept_new: true, known_hosts: Some("/hosts".into()), ..Ssh::to("cluster") };
        for option in [
            "StrictHostKeyChecking=accept-new",
            "UserKnownHostsFile=\"/hosts\"",
            "GlobalKnownHostsFile=/dev/null",
        ] {
            assert!(options(&ssh).contains(&option.to_owned()), "{option}");
        }
    }

    #[test]
    fn the_host_and_the_line_come_behind_all_options() {
        let ssh = Ssh { user: Some("ann".into()), port: Some(2222), ..Ssh::to("cluster") };
        let process = ssh.process(&line(&["squeue"]), Duration::from_secs(10));
        let arguments: Vec<&str> = process.get_args().filter_map(|word| word.to_str()).collect();
        let [.., user, ann, port, number, end, host, text] = arguments.as_slice() else {
            panic!("{arguments:?}")
        };
        assert_eq!([*user, *ann, *port, *number, *end, *host], ["-l", "ann", "-p", "2222", "--", "cluster"]);
        assert!(text.starts_with("'squeue'; "), "{text}");
        assert_eq!(process.get_program(), Path::new("ssh"));
    }

    #[test]
    fn code_255_is_the_commands_own_only_if_the_other_side_says_so() {
        let (ssh, line) = (Ssh::to("cluster"), line(&["squeue"]));
        let told = |code, err: &str| ssh.outcome(&line, code, "out".into(), err);
        let own = told(Some(255), &format!("oh\n{}\n", line.own_255)).unwrap();
        assert_eq!((own.code, own.err.as_str(), own.out.as_str()), (Some(255), "oh\n", "out"));
        for (code, err, expected) in [
            (Some(255), "ssh: connect to host cluster port 22: Connection refused\n", "Connection refused"),
            (Some(255), "", "ssh gave no reason"),
            (None, "", "ended by a signal"),
        ] {
            let lost = told(code, err).unwrap_err();
            assert!(matches!(&lost, LrmsError::Unreachable { host, .. } if host == "cluster"), "{lost}");
            assert!(lost.to_string().contains(expected), "{lost}");
        }
        assert_eq!(told(Some(1), "ssh: oh").unwrap().code, Some(1));
    }

    #[test]
    fn what_ssh_says_of_its_open_connection_is_not_what_the_command_says() {
        let (ssh, line) = (Ssh::to("cluster"), line(&["squeue"]));
        let err = "ControlSocket /run/c/0a already exists, disabling multiplexing\r\nslurm: oh\n\
                   mux_client_request_session: session request failed: Session open refused by peer\r\n";
        assert_eq!(ssh.outcome(&line, Some(1), String::new(), err).unwrap().err, "slurm: oh\n");
    }

    #[test]
    fn a_line_that_is_too_long_for_the_other_side_is_refused() {
        let word = ["x".repeat(LONGEST_LINE)];
        let refused = Line::of("sbatch", &word).err().map(|refused| refused.to_string()).unwrap_or_default();
        assert!(refused.contains("pass the data on standard input"), "{refused}");
        assert!(Line::of("sbatch", &["\0".to_owned()]).is_err());
    }
}
