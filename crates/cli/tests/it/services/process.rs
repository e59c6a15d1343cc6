//! A site or broker as a process: started as a user starts it, stopped, killed and restarted with the same state and
//! socket. Its output is kept to explain failures. It is killed when it is dropped. Its journal is in a file, or in
//! the database of its grid.

use bookahead_tests::polling::{PATIENCE, until_async};
use bookahead_tests::postgres::Database;
use bookahead_tests::signals::signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A site or broker.
pub(crate) struct Process {
    role: &'static str,
    name: String,
    config: PathBuf,
    /// With its journal, if that is not in a file.
    database: Option<Rc<Database>>,
    /// Its URL, once it was ready.
    url: Option<String>,
    life: Option<Life>,
    /// Standard error of its earlier runs.
    said_before: String,
}

/// One run, from start to end.
struct Life {
    child: Child,
    said: Arc<Mutex<Said>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Said {
    /// The line that it prints when it is ready.
    ready: Option<String>,
    /// Its standard error.
    errors: String,
}

/// The result of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Began {
    /// It is ready.
    Ready,
    /// It stopped at its point.
    Stopped,
}

impl Process {
    /// Writes its configuration into a folder; does not start it.
    pub(crate) fn new(
        folder: &Path,
        database: Option<Rc<Database>>,
        role: &'static str,
        name: &str,
        text: &str,
    ) -> Process {
        let config = folder.join(format!("{name}.toml"));
        let state = database.as_ref().map(|database| format!("state = \"{}\"\n", database.url()));
        // Tests call as fast as they can, with few users.
        let limits = if text.contains("[server]") { "" } else { "\n[server]\nrequests_per_second = 0\n" };
        std::fs::write(&config, state.unwrap_or_default() + text + limits).unwrap();
        let (name, said_before) = (name.to_owned(), String::new());
        Process { role, name, config, database, url: None, life: None, said_before }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file with its configuration.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// Its state folder.
    fn folder(&self) -> PathBuf {
        self.config.with_file_name(format!("bookahead-{}", self.name))
    }

    /// Copies its private keys to another process of the same service, as an operator does.
    pub(crate) fn share_keys(&self, other: &Process) {
        std::fs::create_dir_all(other.folder()).unwrap();
        for name in ["identity", "calls-key.pem", "sessions-key"] {
            let path = self.folder().join(name);
            if path.exists() {
                std::fs::copy(path, other.folder().join(name)).unwrap();
            }
        }
    }

    /// Its journal, for `bookahead journal`.
    pub(crate) fn journal(&self) -> PathBuf {
        match &self.database {
            None => self.folder(),
            Some(database) => format!("{}?party={}", database.url(), self.name).into(),
        }
    }

    /// Deletes everything that it stored.
    pub(crate) fn lose_state(&self) {
        std::fs::remove_dir_all(self.folder()).unwrap();
        let Some(database) = &self.database else { return };
        let of_party = format!("party = (SELECT id FROM bookahead.party WHERE owner = '{}')", self.name);
        database.sql(&format!("DELETE FROM bookahead.record WHERE {of_party}"));
        database.sql(&format!("DELETE FROM bookahead.snapshot WHERE {of_party}"));
        for table in ["party", "caller", "file"] {
            database.sql(&format!("DELETE FROM bookahead.{table} WHERE owner = '{}'", self.name));
        }
    }

    /// Its URL, once it was ready.
    pub(crate) fn url(&self) -> String {
        self.url.clone().unwrap_or_else(|| panic!("{} was never ready", self.name))
    }

    /// Starts it, to stop at a point if one is given, and waits until it is ready or stopped.
    pub(crate) async fn start(&mut self, stop_at: Option<&str>) -> Began {
        self.start_with(&[], stop_at).await
    }

    /// The same with more options.
    pub(crate) async fn start_with(&mut self, options: &[&str], stop_at: Option<&str>) -> Began {
        assert!(self.life.is_none(), "{} runs already", self.name);
        let deadline = Instant::now() + PATIENCE;
        self.launch(options, stop_at);
        match self.begun(deadline).await {
            Some(began) => began,
            None => {
                let said = self.kill9();
                panic!("{} did not start: {said}", self.name)
            }
        }
    }

    /// Kills it and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.kill9();
        assert_eq!(self.start(None).await, Began::Ready);
    }

    /// Starts it without waiting: a stand-by is not ready.
    pub(crate) fn launch(&mut self, options: &[&str], stop_at: Option<&str>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bookahead"));
        command.arg(self.role).arg("--config").arg(&self.config).arg("--json");
        command.args(options);
        command.env_remove("BOOKAHEAD_LOG").env_remove("BOOKAHEAD_STOP_AT");
        command.envs(stop_at.map(|point| ("BOOKAHEAD_STOP_AT", point)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.life = Some(Life::of(command.spawn().unwrap()));
    }

    /// None if it ended before it was ready.
    async fn begun(&mut self, deadline: Instant) -> Option<Began> {
        let (name, life) = (self.name.clone(), self.life.as_mut().unwrap());
        let began = until_async(async || {
            if let Some(ready) = life.ready() {
                return Ok(Some((Began::Ready, ready)));
            }
            if life.is_stopped() {
                return Ok(Some((Began::Stopped, String::new())));
            }
            if life.child.try_wait().unwrap().is_some() || Instant::now() > deadline {
                return Ok(None);
            }
            Err(format!("{name} is ready"))
        });
        let (began, ready) = began.await?;
        if began == Began::Ready {
            let ready: Value = serde_json::from_str(&ready).unwrap();
            self.url = Some(ready["url"].as_str().unwrap().to_owned());
        }
        Some(began)
    }

    /// Whether it has stopped at its point.
    pub(crate) fn is_stopped(&self) -> bool {
        self.life.as_ref().is_some_and(Life::is_stopped)
    }

    /// Kills it, if it runs, and returns the standard error of that run. Its lease ends: how long another process waits
    /// for that is tested elsewhere.
    pub(crate) fn kill9(&mut self) -> String {
        let Some(mut life) = self.life.take() else { return String::new() };
        // Fails if it has already exited.
        let _ = life.child.kill();
        let (_, said) = life.ended();
        if let Some(database) = &self.database {
            let end = format!("UPDATE bookahead.party SET holder = NULL WHERE owner = '{}'", self.name);
            database.sql(&end);
        }
        self.said_before += &format!("{said}-- killed\n");
        said
    }

    /// Sends it a signal, like `kill`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.life.as_ref().unwrap().child.id(), name);
    }

    /// Waits until it has exited.
    pub(crate) async fn ended(&mut self) -> (ExitStatus, String) {
        let life = self.life.as_mut().unwrap();
        until_async(async || match life.child.try_wait().unwrap() {
            Some(_) => Ok(()),
            None => Err(format!("{} has ended", self.name)),
        })
        .await;
        let (status, said) = self.life.take().unwrap().ended();
        self.said_before += &format!("{said}-- ended: {status}\n");
        (status, said)
    }

    /// Standard error of this run so far.
    pub(crate) fn said_now(&self) -> String {
        self.life.as_ref().map(|life| life.said.lock().unwrap().errors.clone()).unwrap_or_default()
    }

    /// Standard error of all runs.
    pub(crate) fn said(&self) -> String {
        format!("== {}\n{}{}", self.name, self.said_before, self.said_now())
    }
}

impl Life {
    fn of(mut child: Child) -> Life {
        let said = Arc::new(Mutex::new(Said::default()));
        let out = BufReader::new(child.stdout.take().unwrap());
        let errors = child.stderr.take().unwrap();
        let readers = vec![
            std::thread::spawn({
                let said = said.clone();
                move || out.lines().map_while(Result::ok).for_each(|line| said.lock().unwrap().hear(line))
            }),
            std::thread::spawn({
                let said = said.clone();
                move || take_down(errors, &said)
            }),
        ];
        Life { child, said, readers }
    }

    fn ready(&self) -> Option<String> {
        self.said.lock().unwrap().ready.clone()
    }

    fn is_stopped(&self) -> bool {
        self.said.lock().unwrap().errors.contains("stopped at ")
    }

    /// Waits for its exit, which must be soon.
    fn ended(&mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        // The rest of its output is read soon, unless a program that it started still has the pipe open.
        let deadline = Instant::now() + Duration::from_secs(1);
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        (status, std::mem::take(&mut self.said.lock().unwrap().errors))
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    fn hear(&mut self, line: String) {
        self.ready.get_or_insert(line);
    }
}

fn take_down(mut errors: impl Read, said: &Mutex<Said>) {
    let mut some = [0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut some) {
        said.lock().unwrap().errors += &String::from_utf8_lossy(&some[..count]);
    }
}
