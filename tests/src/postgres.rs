//! A PostgreSQL server of a test's own, in a temporary folder, and a proxy in front of it that loses connections.
//! PostgreSQL refuses to run as root, so root runs it as the account `postgres`.

use crate::polling::until_true;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Where Debian's packages are, one folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Environment variable with the URL of the server in which services of tests keep their journals. Without it they keep
/// them in files. `with_postgres` sets it.
pub const JOURNAL: &str = "BOOKAHEAD_TEST_JOURNAL";
/// The superuser.
const USER: &str = "bookahead";
const PASSWORD: &str = "only-for-tests";
/// A running server. Dropping it ends it.
pub struct Server {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// Creates and starts a server with these lines in its configuration.
    pub fn start(settings: &[&str]) -> Server {
        let folder = tempfile::Builder::new().prefix("bapg").tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("own folder");
        let mut server = Server { folder, programs: programs(), port: free_port(), child: None };
        let password = server.folder.path().join("password");
        fs::write(&password, PASSWORD).expect("own folder");
        let data = server.data();
        let made = server
            .as_account("initdb")
            .args(["--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "-U", USER])
            .arg(format!("--pwfile={}", password.display()))
            .arg(&data)
            .output()
            .expect("initdb");
        assert!(made.status.success(), "initdb: {}", said(&made));
        let mut all = vec!["max_connections = 100".to_owned(), "unix_socket_directories = ''".to_owned()];
        all.extend(settings.iter().map(|line| (*line).to_owned()));
        let config = data.join("conf.d");
        fs::create_dir(&config).expect("own folder");
        fs::write(config.join("test.conf"), all.join("\n")).expect("own folder");
        let main = data.join("postgresql.conf");
        let text = fs::read_to_string(&main).expect("the configuration") + "\ninclude_dir = 'conf.d'\n";
        fs::write(&main, text).expect("own folder");
        server.start_again();
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Folder in which the server can read files of the test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A program of PostgreSQL, run as an account that it accepts.
    fn as_account(&self, program: &str) -> Command {
        let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let program = self.programs.join(program);
        if !root {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        // SIGQUIT ends the server at once, should the test be killed.
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=QUIT", "--"]);
        command.arg(program);
        command
    }

    /// Starts it after [`Server::kill`], and waits until it answers.
    pub fn start_again(&mut self) {
        let mut server = self.as_account("postgres");
        server.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.expect("own folder");
        server.stdout(log.try_clone().expect("a copy")).stderr(log).stdin(Stdio::null());
        self.child = Some(server.spawn().expect("postgres"));
        until_true("PostgreSQL answers", || self.psql("postgres", "SELECT 1").status.success());
    }

    /// Ends it as a power failure would: connections break, and nothing is saved first.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
        let _ = child.wait();
    }

    /// Port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates a database, and returns its URL.
    pub fn database(&self, name: &str) -> String {
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        url(self.port, name)
    }

    fn psql(&self, database: &str, statement: &str) -> Output {
        psql(&url(self.port, database)).args(["-c", statement]).output().expect("psql")
    }

    /// Runs a statement, which must succeed.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        sql(&url(self.port, database), statement)
    }

    /// `pgbench` with the URL of a database, for comparison.
    pub fn pgbench(&self, database: &str) -> Command {
        let mut command = Command::new(self.programs.join("pgbench"));
        command.arg(url(self.port, database));
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A database of its own for a test, in the server of the environment variable [`JOURNAL`]. Dropping it deletes it.
pub struct Database {
    /// URL of the server, with a slash at the end.
    server: String,
    name: String,
}

impl Database {
    /// `None` without the environment variable.
    pub fn of_this_run() -> Option<Database> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let any = std::env::var(JOURNAL).ok()?;
        let server = any[..=any.rfind('/').expect("the URL of a database")].to_owned();
        let name = format!("test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let database = Database { server, name };
        sql(&any, &format!("CREATE DATABASE {}", database.name));
        Some(database)
    }

    /// Its URL, with the password.
    pub fn url(&self) -> String {
        format!("{}{}", self.server, self.name)
    }

    /// Runs a statement, which must succeed.
    pub fn sql(&self, statement: &str) -> String {
        sql(&self.url(), statement)
    }

    /// Nothing can be written to the journals in it until the guard is dropped.
    pub fn lock(&self) -> Locked {
        let mut child = psql(&self.url()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql");
        let lock = "BEGIN; LOCK TABLE bookahead.party; SELECT 'locked';\n";
        child.stdin.as_mut().expect("its input").write_all(lock.as_bytes()).expect("psql");
        let mut answer = [0; 6];
        child.stdout.as_mut().expect("its output").read_exact(&mut answer).expect("the lock");
        Locked(child)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The services of a failed test may still be connected. The whole server ends soon, so a failure does no harm.
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let _ = psql(&format!("{}postgres", self.server)).args(["-c", &drop]).output();
    }
}

/// A lock on a database, and the session that has it.
pub struct Locked(Child);

impl Drop for Locked {
    fn drop(&mut self) {
        // The end of its input ends the session.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Folder of the programs of the newest version.
fn programs() -> PathBuf {
    let mut versions: Vec<PathBuf> = fs::read_dir(VERSIONS)
        .expect("PostgreSQL is not installed; install Debian's package postgresql")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    versions.sort();
    versions.pop().expect("a version of PostgreSQL").join("bin")
}

fn psql(url: &str) -> Command {
    let mut command = Command::new(programs().join("psql"));
    command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", url]);
    command
}

fn sql(url: &str, statement: &str) -> String {
    let output = psql(url).args(["-c", statement]).output().expect("psql");
    assert!(output.status.success(), "{statement}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// URL of a database behind a port of the loopback address.
pub fn url(port: u16, database: &str) -> String {
    format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/{database}")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// A proxy in front of a server.
pub struct Proxy {
    port: u16,
    state: Arc<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    /// Nothing passes, and nothing is closed.
    blocked: AtomicBool,
    /// The next answer of the server is lost, with its connection.
    cut: AtomicBool,
    cuts: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Forwards connections to a port of the loopback address.
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(ProxyState::default());
        let shared = state.clone();
        // Ends with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                shared.forward(&client, &server);
            }
        });
        Proxy { port, state }
    }

    /// Port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing passes in either direction, or everything again. Connections of before are lost then.
    pub fn block(&self, blocked: bool) {
        self.state.blocked.store(blocked, Ordering::SeqCst);
        if !blocked {
            self.close_all();
        }
    }

    /// The next answer of the server is not delivered; its connection is closed instead. What it answers has been
    /// committed by then.
    pub fn cut_after_commit(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
    }

    /// Number of answers that were not delivered.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    fn close_all(&self) {
        let mut streams = self.state.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

impl ProxyState {
    fn forward(self: &Arc<Self>, client: &TcpStream, server: &TcpStream) {
        let copy = |stream: &TcpStream| stream.try_clone().expect("a copy of a socket");
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).extend([copy(client), copy(server)]);
        for (mut from, mut to, answers) in
            [(copy(client), copy(server), false), (copy(server), copy(client), true)]
        {
            let state = self.clone();
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(length @ 1..) = from.read(&mut buffer) {
                    while state.blocked.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(5));
                    }
                    if answers && state.cut.swap(false, Ordering::SeqCst) {
                        state.cuts.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    if to.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
    }
}
