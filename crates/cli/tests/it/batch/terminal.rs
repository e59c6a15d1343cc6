//! The command line of a user: runs the binary against one server, without the configuration of this machine.

use crate::folder::{Folder, Ran};
use serde_json::Value;

/// A user at the command line.
pub(crate) struct Terminal {
    pub(crate) folder: Folder,
    server: String,
}

impl Terminal {
    pub(crate) fn at(server: &str) -> Terminal {
        Terminal { folder: Folder::new(), server: server.to_owned() }
    }

    /// Runs the binary; any exit code is accepted.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.folder.command("");
        command.args(arguments).env("TZ", "UTC").env("BOOKAHEAD_SERVER", &self.server).env("USER", "ada");
        command.env("XDG_CONFIG_HOME", self.folder.path("no-configuration"));
        command.env_remove("BOOKAHEAD_CONFIG").env_remove("BOOKAHEAD_TOKEN_FILE");
        Ran::of(&arguments.join(" "), command.output().unwrap())
    }

    /// Runs the binary with `--json`; it must succeed and print one document.
    #[track_caller]
    pub(crate) fn document(&self, arguments: &[&str]) -> Value {
        let (command, rest) = arguments.split_first().unwrap();
        let ran = self.run(&[&[*command, "--json"], rest].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.json()
    }
}
