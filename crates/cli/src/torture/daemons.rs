//! Sites and brokers as child processes of this executable. They are killed with SIGKILL and restarted on the same port
//! with the same state folder. Dropping a [`Daemon`] kills it. Each daemon logs to a file next to its configuration.

use super::checker::{Book, Listed, Term};
use crate::chance::Chance;
use anyhow::{Context, Result, bail};
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options};
use bookahead_protocol::State;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Processors of each site. Clients request up to half of them, so that there is contention.
pub(super) const CAPACITY: u32 = 16;
/// Timeout of a start, which normally takes milliseconds to read the journal.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Timeout for the brokers to reach all their sites. With heartbeats of 200 ms it normally takes less than a second.
const KNOWN_WITHIN: Duration = Duration::from_secs(60);
/// Bytes after which a log is truncated at a restart, so that hours of kills do not fill the disk.
const LONGEST_LOG: u64 = 8 << 20;
/// One in this many kills is followed by a second one during the restart, to test crashes of the recovery.
const KILLED_AGAIN: u32 = 8;
/// One in this many restarts is with a wrong clock, if a library for it is given.
const WRONG_CLOCK: u32 = 3;
/// Wrong clocks: by more than the bookings are ahead, so that one that was trusted would end all of them.
const WRONG_BY: [&str; 3] = ["+90d", "-90d", "-2h"];
/// Least number of bookings at a process that starts with a wrong clock. Without any there is nothing to lose, and the
/// clock is trusted; clients may cancel some before the start.
const BOOKED: usize = 5;
/// How long a clock is wrong after a start: some calls arrive meanwhile.
const WRONG_FOR: Duration = Duration::from_millis(700);
/// Timeout of one call to a running daemon.
const TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Site,
    Broker,
}

pub(super) struct Daemon {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) kills: u64,
    folder: PathBuf,
    /// Database of its journal, if that is not in a file.
    postgres: Option<String>,
    /// Library that shifts the clock by the contents of a file.
    faketime: Option<PathBuf>,
    /// Port 0 before the first start, then the port that the system chose.
    listen: String,
    child: Option<Child>,
}

impl Daemon {
    fn new(folder: &Path, role: Role, name: &str, config: &str, postgres: Option<&str>) -> Result<Daemon> {
        let (folder, listen) = (folder.to_owned(), "127.0.0.1:0".to_owned());
        let postgres = postgres.map(ToOwned::to_owned);
        // After a kill the next process waits for the end of the lease. A shorter one is lost by a machine that is busy.
        let state = |url: &String| format!("state = \"{url}\"\nlease = \"2s\"\n");
        let config = postgres.as_ref().map(state).unwrap_or_default() + config;
        let (name, faketime) = (name.to_owned(), None);
        let daemon = Daemon { name, role, kills: 0, folder, postgres, faketime, listen, child: None };
        let path = daemon.file("toml");
        fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(daemon)
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// Where its journal is.
    fn journal(&self) -> PathBuf {
        match &self.postgres {
            None => self.folder.join(format!("bookahead-{}", self.name)),
            Some(url) => {
                let and = if url.contains('?') { '&' } else { '?' };
                format!("{url}{and}party={}", self.name).into()
            }
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    pub(super) fn client(&self, user: &str) -> Result<Client, ClientError> {
        Client::new(&self.url(), Options { user: Some(user.into()), timeout: TIMEOUT, ..Options::default() })
    }

    fn spawn(&mut self) -> Result<()> {
        let role = match self.role {
            Role::Site => "site",
            Role::Broker => "broker",
        };
        let program = std::env::current_exe().context("cannot find this executable")?;
        let mut command = Command::new(program);
        command.arg(role).arg("--config").arg(self.file("toml"));
        command.args(["--listen", &self.listen, "--json", "--log", "warn"]);
        if let Some(library) = &self.faketime {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", self.file("clock"));
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        // In its own process group, so that Ctrl-C in the terminal does not reach it: the final check needs it.
        command.process_group(0).stdin(Stdio::null());
        // Truncated: the line of the killed process must not be taken for that of the new one.
        command.stdout(File::create(self.file("ready"))?).stderr(self.log()?);
        self.child = Some(command.spawn().context("cannot run this executable again")?);
        Ok(())
    }

    /// Shifts its clock.
    fn shift_clock(&self, by: &str) -> Result<()> {
        let path = self.file("clock");
        // Written in place it would be empty for a moment, and the clock right.
        let new = self.file("clock-new");
        fs::write(&new, by)
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn log(&self) -> Result<File> {
        let path = self.file("log");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        if file.metadata()?.len() > LONGEST_LOG {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Starts it and waits until it is ready. Starts it again if it exits: another program may have the port for a
    /// moment.
    async fn start(&mut self) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        self.spawn()?;
        loop {
            if let Some(listen) = self.ready() {
                self.listen = listen;
                return Ok(());
            }
            if Instant::now() > until {
                let log = self.file("log");
                bail!("{} is not ready after {READY_WITHIN:?}; see {}", self.name, log.display());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            if self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None))) {
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.spawn()?;
            }
        }
    }

    /// Its address, once it has printed it.
    fn ready(&self) -> Option<String> {
        let text = fs::read_to_string(self.file("ready")).ok()?;
        // A line without its end is still being written.
        let ready: serde_json::Value = serde_json::from_str(text.strip_suffix('\n')?).ok()?;
        Some(ready["url"].as_str()?.strip_prefix("http://")?.to_owned())
    }

    /// Kills it with SIGKILL.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails if it has already exited; `wait` reaps it in both cases.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Lists all live reservations, over all pages.
    pub(super) async fn book(&self) -> Result<Book, ClientError> {
        let live: Vec<api::State> =
            State::ALL.into_iter().filter(|state| state.holds_capacity()).map(Into::into).collect();
        let (client, state) = (self.client("checker")?, Some(api::States(live)));
        let mut query = api::ListQuery { state, ..api::ListQuery::default() };
        let mut reservations = Vec::new();
        loop {
            let page = client.list(&query).await?;
            reservations.extend(page.reservations.into_iter().map(|one| listed(&self.name, &one.into())));
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        let capacity = (self.role == Role::Site).then_some(CAPACITY);
        Ok(Book { party: self.name.clone(), capacity, reservations })
    }

    /// Number of its committed reservations; 0 if it does not answer.
    async fn booked(&self) -> usize {
        let book = self.book().await.map(|book| book.reservations).unwrap_or_default();
        book.iter().filter(|listed| listed.state == State::Committed).count()
    }

    /// Runs `journal check` on its journal and returns the error, if any. The daemon must be stopped.
    fn check_journal(&self) -> Result<Option<String>> {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args(["journal", "check"]).arg(self.journal()).output()?;
        let said = || format!("{}: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        Ok((!output.status.success()).then(said))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

fn listed(party: &str, reservation: &bookahead_protocol::Reservation) -> Listed {
    let whole = reservation.condition == bookahead_protocol::Condition::Whole;
    Listed {
        id: reservation.id,
        owner: reservation.owner.to_string(),
        state: reservation.state,
        whole,
        terms: terms(party, &reservation.slots),
        prepared: terms(party, &reservation.prepared),
    }
}

/// The slots by site. A broker names a resource `site/resource`; a site names only its resource.
pub(super) fn terms(party: &str, slots: &[bookahead_protocol::Slot]) -> Vec<Term> {
    let term = |slot: &bookahead_protocol::Slot| Term {
        site: slot.resource.as_str().rsplit('/').nth(1).unwrap_or(party).to_owned(),
        begin: slot.interval.begin.0,
        end: slot.interval.end.0,
        capacity: slot.capacity.0,
    };
    slots.iter().map(term).collect()
}

/// Sites, an inner broker of the first sites, and an outer broker of the inner broker and the remaining sites.
pub(super) struct Grid {
    pub(super) daemons: Vec<Daemon>,
    faketime: Option<PathBuf>,
    /// Number of starts with a wrong clock.
    pub(super) wrong_clocks: u64,
}

impl Grid {
    pub(super) async fn start(
        folder: &Path,
        sites: u32,
        postgres: Option<&str>,
        faketime: Option<&Path>,
    ) -> Result<Grid> {
        let faketime = faketime.map(Path::to_owned);
        let mut grid = Grid { daemons: Vec::new(), faketime, wrong_clocks: 0 };
        for number in 1..=sites {
            let name = format!("site{number}");
            grid.add(Daemon::new(folder, Role::Site, &name, &site_config(&name), postgres)?).await?;
        }
        let behind = (sites / 2).max(1) as usize + usize::from(sites > 2);
        let (inner, others) = grid.daemons.split_at(behind.min(grid.daemons.len()));
        let (inner, others) = (broker_config("inner", inner), broker_config("outer", others));
        grid.add(Daemon::new(folder, Role::Broker, "inner", &inner, postgres)?).await?;
        let outer = others + &peer(grid.of("inner")?);
        grid.add(Daemon::new(folder, Role::Broker, "outer", &outer, postgres)?).await?;
        grid.wait_until_known().await?;
        Ok(grid)
    }

    async fn add(&mut self, mut daemon: Daemon) -> Result<()> {
        daemon.faketime.clone_from(&self.faketime);
        daemon.shift_clock("+0")?;
        daemon.start().await?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn of(&self, name: &str) -> Result<&Daemon> {
        self.daemons.iter().find(|daemon| daemon.name == name).context("no such daemon")
    }

    /// Waits until the brokers can reserve at all their sites.
    pub(super) async fn wait_until_known(&self) -> Result<()> {
        let until = Instant::now() + KNOWN_WITHIN;
        for broker in self.daemons.iter().filter(|daemon| daemon.role == Role::Broker) {
            let client = broker.client("checker")?;
            while !is_connected(&client).await {
                if Instant::now() > until {
                    bail!("{} cannot reach all its sites after {KNOWN_WITHIN:?}", broker.name);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Kills a random daemon and restarts it.
    pub(super) async fn kill_one(&mut self, chance: &mut Chance) -> Result<()> {
        let count = u32::try_from(self.daemons.len()).unwrap_or(u32::MAX);
        let at = chance.below(count) as usize;
        // Both numbers are drawn in any case, so that later choices do not depend on their use.
        let again = chance.below(KILLED_AGAIN) == 0;
        let pause = Duration::from_millis(chance.below(40).into());
        let wrong =
            self.faketime.is_some().then(|| (chance.below(WRONG_CLOCK) == 0, chance.below(3) as usize));
        let wrong = wrong.and_then(|(is_wrong, by)| is_wrong.then_some(WRONG_BY[by]));
        let Some(victim) = self.daemons.get_mut(at) else { return Ok(()) };
        let wrong = if wrong.is_some() && victim.booked().await < BOOKED { None } else { wrong };
        victim.kill();
        victim.kills += 1;
        if let Some(by) = wrong {
            victim.shift_clock(by)?;
            self.wrong_clocks += 1;
        }
        if again {
            victim.spawn()?;
            tokio::time::sleep(pause).await;
            victim.kill();
            victim.kills += 1;
        }
        victim.start().await?;
        if wrong.is_some() {
            tokio::time::sleep(WRONG_FOR).await;
            victim.shift_clock("+0")?;
        }
        Ok(())
    }

    pub(super) async fn books(&self) -> Result<Vec<Book>, ClientError> {
        let mut books = Vec::new();
        for daemon in &self.daemons {
            books.push(daemon.book().await?);
        }
        Ok(books)
    }

    /// Kills all daemons and returns the errors in their journals.
    pub(super) fn end(&mut self) -> Result<Vec<String>> {
        // Killed and not stopped, because a journal must be sound after a crash.
        self.daemons.iter_mut().for_each(Daemon::kill);
        self.daemons.iter().filter_map(|daemon| daemon.check_journal().transpose()).collect()
    }
}

/// Whether all peers of a broker are up and their resources are known.
async fn is_connected(client: &Client) -> bool {
    let (Ok(sites), Ok(resources)) = (client.sites().await, client.resources().await) else { return false };
    let up = sites.sites.iter().all(|site| site.state == api::Reachability::Up);
    // The list of sites contains the broker itself, which has no resource.
    up && resources.resources.len() + 1 >= sites.sites.len()
}

fn site_config(name: &str) -> String {
    format!(
        "name = \"{name}\"\nretention = \"5m\"\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = {CAPACITY}\n"
    )
}

/// Timeouts are short, so that a restarted site is used again soon.
fn broker_config(name: &str, peers: &[Daemon]) -> String {
    let mut text = format!(
        "name = \"{name}\"\nretention = \"5m\"\nheartbeat = \"200ms\"\n[rules]\nsurvey_time = \"2s\"\nhold_time = \"2s\"\nretry_time = \"2s\"\n"
    );
    for daemon in peers {
        text += &peer(daemon);
    }
    text
}

fn peer(daemon: &Daemon) -> String {
    let mut text = String::new();
    let _ = write!(text, "[[peer]]\nname = \"{}\"\nurl = \"{}\"\n", daemon.name, daemon.url());
    text
}
