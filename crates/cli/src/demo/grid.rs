//! The services of the demo: four sites of different kinds, whose jobs are simulated, and a broker.

use anyhow::{Context, Result};
use bookahead_api::Timestamp;
use bookahead_client::{Client, Options};
use bookahead_service::clock::Clock;
use bookahead_service::config::{BrokerConfig, ClockConfig, PeerLink, SiteConfig};
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_service::thread::Liveness;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout for the broker to reach all sites, which run in the same process and normally answer at once.
const ALL_KNOWN_WITHIN: Duration = Duration::from_secs(20);

pub(crate) struct Grid {
    sites: Vec<(String, Running)>,
    broker: Running,
}

impl Grid {
    /// Starts all services and waits until the broker reaches the sites. The broker listens on `listen` and the sites
    /// on free ports; without `listen` all listen on Unix sockets in the folder.
    pub(crate) async fn start(
        folder: &Path,
        configs: Vec<SiteConfig>,
        mut config: BrokerConfig,
        listen: Option<SocketAddr>,
    ) -> Result<Grid> {
        let mut sites = Vec::new();
        for mut config in configs {
            let name = config.name.clone();
            // Any free port: only the broker needs a known address, and it is told those of its sites below.
            config.listen = listen.is_some().then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into());
            config.state = Some(folder.join(&name));
            let site = daemon::site(&config, folder, OnLostJournal::Ask).await;
            let site = site.with_context(|| format!("cannot start {name}"))?;
            sites.push((name, site));
        }
        config.listen = listen.map(Into::into);
        config.state = Some(folder.join("broker"));
        config.peers = sites.iter().map(|(name, site)| peer(name, site.url())).collect();
        let broker = daemon::broker(&config, folder).await;
        let broker = broker
            .context("cannot start the broker; is another demo running? (--port 0 uses any free port)")?;
        let grid = Grid { sites, broker };
        grid.wait_until_all_are_known().await?;
        Ok(grid)
    }

    async fn wait_until_all_are_known(&self) -> Result<()> {
        let (client, began) = (self.client()?, Instant::now());
        loop {
            let known = client.sites().await?.sites.len();
            // The list contains the broker itself.
            if known > self.sites.len() {
                return Ok(());
            }
            anyhow::ensure!(
                began.elapsed() < ALL_KNOWN_WITHIN,
                "the broker reaches only {} of {} sites after {ALL_KNOWN_WITHIN:?}",
                known.saturating_sub(1),
                self.sites.len()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn url(&self) -> &str {
        self.broker.url()
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::new(self.url(), Options::default())?)
    }

    /// Names and URLs of the sites.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sites.iter().map(|(name, site)| (name.as_str(), site.url()))
    }

    /// Clients of the broker and all sites, by name.
    pub(crate) fn clients(&self) -> Result<Vec<(&str, Client)>> {
        let all = std::iter::once(("broker", self.url())).chain(self.sites());
        all.map(|(name, url)| Ok((name, Client::new(url, Options::default())?))).collect()
    }

    /// The accelerated clock of all services.
    pub(crate) fn clock(&self) -> Clock {
        self.broker.handle().clock()
    }

    /// Whether all services are still running.
    pub(crate) fn is_well(&self) -> bool {
        let sites = self.sites.iter().map(|(_, site)| site);
        sites.chain([&self.broker]).all(|party| party.handle().liveness() != Liveness::Ended)
    }

    /// Stops all services, the broker first, so that its sites do not disappear while it runs.
    pub(crate) async fn stop(self) -> Result<()> {
        self.broker.stop().await?;
        for (_, site) in self.sites {
            site.stop().await?;
        }
        Ok(())
    }
}

fn peer(name: &str, url: &str) -> PeerLink {
    PeerLink { name: name.to_owned(), url: url.to_owned(), token_file: None, audience: None }
}

const SITES: [(&str, &str); 4] = [
    ("centre", include_str!("parties/centre.toml")),
    ("university", include_str!("parties/university.toml")),
    ("museum", include_str!("parties/museum.toml")),
    ("laboratory", include_str!("parties/laboratory.toml")),
];
const BROKER: &str = include_str!("parties/broker.toml");

pub(crate) fn sites(clock: &ClockConfig) -> Result<Vec<SiteConfig>> {
    let sites = SITES.iter().map(|(name, text)| {
        let mut config = SiteConfig::parse(Path::new(name), text)?;
        config.clock = clock.clone();
        Ok(config)
    });
    sites.collect()
}

pub(crate) fn broker(clock: &ClockConfig) -> Result<BrokerConfig> {
    let mut config = BrokerConfig::parse(Path::new("broker"), BROKER)?;
    config.clock = clock.clone();
    Ok(config)
}

/// The clock of the demo. Its origin is stored in the state folder: with another one, the time of a second demo in the
/// same folder could jump back before events in the journals.
pub(crate) fn clock(folder: &Path, speed: u32) -> Result<ClockConfig> {
    let path = folder.join("clock.toml");
    let origin = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().with_context(|| format!("{} is not a time", path.display()))?,
        Err(_) => {
            let now = Timestamp::nearest(Clock::WALL.now().second());
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            fs::write(&path, now.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
            now
        }
    };
    // At the speed of real time the origin has no effect, and the configuration does not accept one.
    let origin = (speed > 1).then_some(origin);
    Ok(ClockConfig { speed, origin })
}
