//! The parties of the demo: four sites of different kinds, and the broker that books at them.

use anyhow::{Context, Result};
use bookahead_api::Timestamp;
use bookahead_client::{Client, Options};
use bookahead_service::clock::Clock;
use bookahead_service::config::{BrokerConfig, ClockConfig, PeerLink, SiteConfig};
use bookahead_service::daemon::{self, Running};
use bookahead_service::site::Found;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

const SITES: [(&str, &str); 4] = [
    ("centre", include_str!("parties/centre.toml")),
    ("university", include_str!("parties/university.toml")),
    ("museum", include_str!("parties/museum.toml")),
    ("laboratory", include_str!("parties/laboratory.toml")),
];
const BROKER: &str = include_str!("parties/broker.toml");

/// The broker knows all its sites after this time, or something is wrong.
const ALL_KNOWN_WITHIN: Duration = Duration::from_secs(20);

/// All parties at work.
pub(crate) struct Grid {
    sites: Vec<Running>,
    broker: Running,
}

/// The clock of the demo: from now on faster; in a folder that was used before, the one that was used there.
pub(crate) fn clock(folder: &Path, speed: u32) -> Result<ClockConfig> {
    let path = folder.join("clock.toml");
    let origin = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().with_context(|| format!("{} is not a time", path.display()))?,
        Err(_) => {
            let now = Timestamp::nearest(Clock::WALL.now().second());
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            fs::write(&path, now.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
            now
        }
    };
    let origin = (speed > 1).then_some(origin);
    Ok(ClockConfig { speed, origin })
}

impl Grid {
    /// Starts them all, and waits until the broker knows the sites.
    pub(crate) async fn start(folder: &Path, clock: &ClockConfig, port: u16) -> Result<Grid> {
        let mut sites = Vec::new();
        for (name, text) in SITES {
            let mut config = SiteConfig::parse(Path::new(name), text)?;
            config.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            config.state = Some(folder.join(name));
            config.clock = clock.clone();
            sites.push(
                daemon::site(&config, folder, Found::Ask)
                    .await
                    .with_context(|| format!("cannot start {name}"))?,
            );
        }
        let mut config = BrokerConfig::parse(Path::new("broker"), BROKER)?;
        config.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        config.state = Some(folder.join("broker"));
        config.clock = clock.clone();
        config.peers = SITES.iter().zip(&sites).map(|((name, _), site)| peer(name, site.url())).collect();
        let broker = daemon::broker(&config, folder).await;
        let broker =
            broker.context("cannot start the broker; is another demo running? (--port 0 takes any port)")?;
        let grid = Grid { sites, broker };
        grid.wait_until_all_are_known().await?;
        Ok(grid)
    }

    async fn wait_until_all_are_known(&self) -> Result<()> {
        let (client, began) = (self.client()?, Instant::now());
        loop {
            let known = client.sites().await?.sites.len();
            if known > self.sites.len() {
                return Ok(());
            }
            anyhow::ensure!(
                began.elapsed() < ALL_KNOWN_WITHIN,
                "the broker knows {} of {} sites after {ALL_KNOWN_WITHIN:?}",
                known.saturating_sub(1),
                self.sites.len()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where the broker is.
    pub(crate) fn url(&self) -> &str {
        self.broker.url()
    }

    /// The broker, to be asked.
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::new(self.url(), Options::default())?)
    }

    /// All of them by name, to be asked.
    pub(crate) fn clients(&self) -> Result<Vec<(&'static str, Client)>> {
        let sites = SITES.iter().zip(&self.sites).map(|((name, _), site)| (*name, site.url().to_owned()));
        let all = std::iter::once(("broker", self.url().to_owned())).chain(sites);
        all.map(|(name, url)| Ok((name, Client::new(&url, Options::default())?))).collect()
    }

    /// The time in which they live.
    pub(crate) fn clock(&self) -> Clock {
        self.broker.door().clock()
    }

    /// Whether all are still at work.
    pub(crate) fn is_well(&self) -> bool {
        self.sites.iter().chain([&self.broker]).all(|party| party.door().is_open())
    }

    /// Ends them, the broker first.
    pub(crate) async fn stop(self) -> Result<()> {
        self.broker.stop().await?;
        for site in self.sites {
            site.stop().await?;
        }
        Ok(())
    }
}

fn peer(name: &str, url: &str) -> PeerLink {
    PeerLink { name: name.to_owned(), url: url.to_owned(), token_file: None }
}
