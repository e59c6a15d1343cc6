//! Somebody at a terminal who asks one server: the binary with words as its arguments, and nothing of this machine's
//! configuration.

use crate::folder::{Folder, Ran};
use serde_json::Value;

/// Somebody who asks.
pub(crate) struct Terminal {
    pub(crate) folder: Folder,
    server: String,
}

impl Terminal {
    pub(crate) fn at(server: &str) -> Terminal {
        Terminal { folder: Folder::new(), server: server.to_owned() }
    }

    /// Runs the binary, whatever comes of it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.folder.command("");
        command.args(arguments).env("TZ", "UTC").env("BOOKAHEAD_SERVER", &self.server).env("USER", "ada");
        command.env("XDG_CONFIG_HOME", self.folder.path("no-configuration"));
        command.env_remove("BOOKAHEAD_CONFIG").env_remove("BOOKAHEAD_TOKEN_FILE");
        Ran::of(&arguments.join(" "), command.output().unwrap())
    }

    /// Runs it for a program; it must succeed with one document.
    #[track_caller]
    pub(crate) fn document(&self, arguments: &[&str]) -> Value {
        let (command, rest) = arguments.split_first().unwrap();
        let ran = self.run(&[&[*command, "--json"], rest].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.json()
    }
}
