//! A user at a terminal in Berlin: runs the binary against one server, without the configuration of this machine.

use crate::folder::{Folder, Ran};
use crate::service::{PROGRAMS, Service};
use bookahead_tests::polling::until;
use serde_json::Value;
use std::process::Command;

/// A site with one cluster of 64 processors.
pub(crate) const SITE: &str = "name = \"north\"\n\n[[resource]]\nname = \"cluster\"\n\
                               kind = \"processors\"\ncapacity = 64\nprice = 25\nattributes = { gpus = 4 }\n";

/// A user and the server that it calls.
pub(crate) struct Asking {
    pub(crate) folder: Folder,
    pub(crate) service: Service,
}

impl Asking {
    /// With a site of this configuration.
    #[track_caller]
    pub(crate) fn site(description: &str) -> Asking {
        let folder = Folder::with("site.toml", description);
        let service = Service::start(&folder, "site --config site.toml");
        Asking { folder, service }
    }

    /// With a site of this configuration that runs programs.
    #[track_caller]
    pub(crate) fn site_with_programs(description: &str) -> Asking {
        Asking::site(&format!("{PROGRAMS}\n{description}"))
    }

    /// The binary with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.folder.command("");
        command.args(arguments);
        command.env("TZ", "Europe/Berlin").env("XDG_CONFIG_HOME", self.folder.path("no-configuration"));
        command.env_remove("BOOKAHEAD_CONFIG").env_remove("BOOKAHEAD_TOKEN_FILE");
        command.env("BOOKAHEAD_SERVER", self.service.url());
        command
    }

    /// Runs the binary; any exit code is accepted.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&arguments.join(" "), self.command(arguments).output().unwrap())
    }

    /// Runs the binary, which must end with this exit code.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        ran
    }

    /// Runs the binary with `--json`; it must succeed and print one document.
    #[track_caller]
    pub(crate) fn document(&self, arguments: &[&str]) -> Value {
        let (command, rest) = arguments.split_first().unwrap();
        self.ends(0, &[&[*command, "--json"], rest].concat()).json()
    }

    /// Holds this capacity tomorrow from nine to eleven and returns the id.
    #[track_caller]
    pub(crate) fn hold(&self, capacity: &str) -> String {
        let tomorrow = ["reserve", "--duration", "2h", "--from", "tomorrow 9:00", "--capacity"];
        let held = self.document(&[&tomorrow[..], &[capacity]].concat());
        assert_eq!(held["state"], "held");
        held["id"].as_str().unwrap().to_owned()
    }

    /// Number of requests that the server has answered, without those of this function.
    #[track_caller]
    pub(crate) fn requests(&self) -> u64 {
        let metrics = self.service.ask("GET", "/metrics", "", "").body;
        let counts = metrics.lines().filter_map(|line| line.strip_prefix("bookahead_http_requests_total{"));
        let others = counts.filter(|count| !count.starts_with("route=\"/metrics\""));
        others.map(|count| count.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Repeats a command until its document meets a condition.
    #[track_caller]
    pub(crate) fn until(&self, arguments: &[&str], so: impl Fn(&Value) -> bool) -> Value {
        until(|| {
            let found = self.document(arguments);
            if so(&found) { Ok(found) } else { Err(found) }
        })
    }
}
