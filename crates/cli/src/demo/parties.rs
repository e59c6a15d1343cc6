//! Who takes part in the usual demo: four sites of different kinds, whose jobs are pretended, and their broker.

use anyhow::{Context, Result};
use bookahead_api::Timestamp;
use bookahead_service::clock::Clock;
use bookahead_service::config::{BrokerConfig, ClockConfig, SiteConfig};
use std::fs;
use std::path::Path;

const SITES: [(&str, &str); 4] = [
    ("centre", include_str!("parties/centre.toml")),
    ("university", include_str!("parties/university.toml")),
    ("museum", include_str!("parties/museum.toml")),
    ("laboratory", include_str!("parties/laboratory.toml")),
];
const BROKER: &str = include_str!("parties/broker.toml");

/// The four sites, in this time.
pub(crate) fn sites(clock: &ClockConfig) -> Result<Vec<SiteConfig>> {
    let sites = SITES.iter().map(|(name, text)| {
        let mut config = SiteConfig::parse(Path::new(name), text)?;
        config.clock = clock.clone();
        Ok(config)
    });
    sites.collect()
}

/// Their broker, in this time.
pub(crate) fn broker(clock: &ClockConfig) -> Result<BrokerConfig> {
    let mut config = BrokerConfig::parse(Path::new("broker"), BROKER)?;
    config.clock = clock.clone();
    Ok(config)
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
