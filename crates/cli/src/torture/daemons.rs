//! Sites and brokers as processes of this executable: started, killed with SIGKILL, and started again on the same port with
//! the same state folder. They end with their owner. Each writes its log to a file beside its configuration.

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

/// Processors of each site. Clients ask for up to half of them, so that there is contention.
pub(super) const CAPACITY: u32 = 16;
/// A daemon that is not ready by then does not start: reading its journal takes milliseconds.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// All parties know each other by then, or something is wrong.
const KNOWN_WITHIN: Duration = Duration::from_secs(60);
/// A log is emptied at a restart once it is longer, so that hours of kills do not fill the disk.
const LONGEST_LOG: u64 = 8 << 20;
/// One in this many kills is followed by a second one while the daemon starts.
const KILLED_AGAIN: u32 = 8;
/// Timeout of a question to a daemon that runs.
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
    /// Port 0 before the first start.
    listen: String,
    child: Option<Child>,
}

impl Daemon {
    fn new(folder: &Path, role: Role, name: &str, config: &str) -> Result<Daemon> {
        let (folder, listen) = (folder.to_owned(), "127.0.0.1:0".to_owned());
        let daemon = Daemon { name: name.to_owned(), role, kills: 0, folder, listen, child: None };
        let path = daemon.file("toml");
        fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(daemon)
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    fn state(&self) -> PathBuf {
        self.folder.join(format!("bookahead-{}", self.name))
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
        // Ctrl-C is for this process alone: daemons are killed when the test is over.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(File::create(self.file("ready"))?).stderr(self.log()?);
        self.child = Some(command.spawn().context("cannot run this executable again")?);
        Ok(())
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

    /// Starts it and waits until it is ready. Between two starts another program may be given the port; that passes.
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

    /// Where it listens, once it has said so.
    fn ready(&self) -> Option<String> {
        let text = fs::read_to_string(self.file("ready")).ok()?;
        let ready: serde_json::Value = serde_json::from_str(text.strip_suffix('\n')?).ok()?;
        Some(ready["url"].as_str()?.strip_prefix("http://")?.to_owned())
    }

    /// Ends it with SIGKILL.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended by itself cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// All its live reservations.
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

    /// Whether its journal agrees with its checksums, by the command that checks it. It must not run.
    fn check_journal(&self) -> Result<Option<String>> {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args(["journal", "check"]).arg(self.state()).output()?;
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

/// Slots as a party names them, by the site that they are at: a broker names the site before the resource.
pub(super) fn terms(party: &str, slots: &[bookahead_protocol::Slot]) -> Vec<Term> {
    let term = |slot: &bookahead_protocol::Slot| Term {
        site: slot.resource.as_str().rsplit('/').nth(1).unwrap_or(party).to_owned(),
        begin: slot.interval.begin.0,
        end: slot.interval.end.0,
        capacity: slot.capacity.0,
    };
    slots.iter().map(term).collect()
}

/// Sites, a broker of the first of them, and a broker of that broker and the remaining sites.
pub(super) struct Grid {
    pub(super) daemons: Vec<Daemon>,
}

impl Grid {
    pub(super) async fn start(folder: &Path, sites: u32) -> Result<Grid> {
        let mut grid = Grid { daemons: Vec::new() };
        for number in 1..=sites {
            let name = format!("site{number}");
            grid.add(Daemon::new(folder, Role::Site, &name, &site_config(&name))?).await?;
        }
        let behind = (sites / 2).max(1) as usize + usize::from(sites > 2);
        let (inner, others) = grid.daemons.split_at(behind.min(grid.daemons.len()));
        let (inner, others) = (broker_config("inner", inner), broker_config("outer", others));
        grid.add(Daemon::new(folder, Role::Broker, "inner", &inner)?).await?;
        let outer = others + &peer(grid.of("inner")?);
        grid.add(Daemon::new(folder, Role::Broker, "outer", &outer)?).await?;
        grid.wait_until_known().await?;
        Ok(grid)
    }

    async fn add(&mut self, mut daemon: Daemon) -> Result<()> {
        daemon.start().await?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn of(&self, name: &str) -> Result<&Daemon> {
        self.daemons.iter().find(|daemon| daemon.name == name).context("no such daemon")
    }

    /// Waits until the brokers can book at all their sites.
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

    /// Kills one of them and starts it again, and says how often it was killed.
    pub(super) async fn kill_one(&mut self, chance: &mut Chance) -> Result<()> {
        let count = u32::try_from(self.daemons.len()).unwrap_or(u32::MAX);
        let at = chance.below(count) as usize;
        let again = chance.below(KILLED_AGAIN) == 0;
        let pause = Duration::from_millis(chance.below(40).into());
        let Some(victim) = self.daemons.get_mut(at) else { return Ok(()) };
        victim.kill();
        victim.kills += 1;
        if again {
            victim.spawn()?;
            tokio::time::sleep(pause).await;
            victim.kill();
            victim.kills += 1;
        }
        victim.start().await
    }

    pub(super) async fn books(&self) -> Result<Vec<Book>, ClientError> {
        let mut books = Vec::new();
        for daemon in &self.daemons {
            books.push(daemon.book().await?);
        }
        Ok(books)
    }

    /// Ends all of them, with SIGKILL as ever, and says what is wrong with their journals.
    pub(super) fn end(&mut self) -> Result<Vec<String>> {
        self.daemons.iter_mut().for_each(Daemon::kill);
        self.daemons.iter().filter_map(|daemon| daemon.check_journal().transpose()).collect()
    }
}

/// Whether all peers of a broker answer it, and offer something.
async fn is_connected(client: &Client) -> bool {
    let (Ok(sites), Ok(resources)) = (client.sites().await, client.resources().await) else { return false };
    let up = sites.sites.iter().all(|site| site.state == api::Reachability::Up);
    // One of them is the broker itself.
    up && resources.resources.len() + 1 >= sites.sites.len()
}

fn site_config(name: &str) -> String {
    format!(
        "name = \"{name}\"\nretention = \"5m\"\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = {CAPACITY}\n"
    )
}

/// Waits are short, so that a site that was killed is asked again soon.
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
