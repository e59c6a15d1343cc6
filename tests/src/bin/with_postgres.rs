//! Runs a command with a PostgreSQL server of its own. The command finds the URL of the server in
//! `BOOKAHEAD_TEST_JOURNAL`, and tests of services then keep their journals there instead of in files.

use bookahead_tests::postgres::{JOURNAL, Server, url};
use std::env;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: with_postgres COMMAND [ARGUMENT...]");
        return ExitCode::from(2);
    };
    // Several grids run at the same time, and each process of a grid has a few connections.
    let server = Server::start(&["max_connections = 500"]);
    let status = Command::new(program).args(words).env(JOURNAL, url(server.port(), "postgres")).status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("with_postgres: cannot run the command: {why}");
            ExitCode::FAILURE
        }
    }
}
