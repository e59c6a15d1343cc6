//! `bookahead simulate-grid`: simulates a grid of sites, brokers and clients in virtual time, on an unreliable network.
//!
//! - [`config`]: the description; [`parties`], [`trouble`]: the grid built from it
//! - [`results`], [`tables`]: the results
//! - [`diagram`]: the messages as a sequence diagram
//! - [`scale`]: generated grids under load

mod config;
pub(crate) mod diagram;
mod parties;
pub(crate) mod results;
pub(crate) mod scale;
pub(crate) mod tables;
mod trouble;

use crate::output::{print_json, save_and_tell, say};
use crate::trace::file_not_stdout;
use anyhow::{Context, Result, bail, ensure};
use bookahead_api::Length;
use bookahead_protocol::{Millis, Moment};
use bookahead_sim::grid::{Grid, Party, Role, Violation};
use clap::Args;
use config::Config;
use std::path::{Path, PathBuf};
use trouble::Names;

/// Virtual time after the end for outstanding work to finish. A run that needs more counts as not settled.
const TO_SETTLE: Millis = Millis::seconds(3_600);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Description of the grid, in TOML; see docs/grid.md
    #[arg(value_name = "CONFIG", required_unless_present = "generated", conflicts_with = "generated")]
    config: Option<PathBuf>,

    /// Random seed [default: from the description, or 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Print all messages as a sequence diagram in text, before the results
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    trace_events: bool,

    /// Write the sequence diagram as SVG
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    trace_svg: Option<PathBuf>,

    /// Start of the diagram, as time since the start of the simulation (90s, 1h, 500ms)
    #[arg(long, value_name = "LENGTH", default_value = "0s", help_heading = "Output")]
    from: Length,

    /// End of the diagram [default: the last message]
    #[arg(long, value_name = "LENGTH", help_heading = "Output")]
    until: Option<Length>,

    #[command(flatten)]
    generated: scale::Options,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = arguments.trace_events || arguments.trace_svg.is_some();
    let ranged = arguments.until.is_some() || arguments.from != Length::default();
    ensure!(wanted || !ranged, "--from and --until apply to the diagram; add --trace-events or --trace-svg");
    let Some(path) = &arguments.config else {
        ensure!(!wanted, "a generated grid has too many messages for a diagram; use a description");
        let seed = arguments.seed.unwrap_or(0);
        return scale::run(
            &arguments.generated,
            arguments.generated.sites.unwrap_or(0),
            seed,
            arguments.json,
        );
    };
    let name = path.display().to_string();
    let mut config = read(path)?;
    config.seed = arguments.seed.unwrap_or(config.seed);
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut grid = build(&config, folder).with_context(|| name.clone())?;
    if wanted {
        // Only for a diagram: the rows of a long simulation would take much memory.
        grid.log.keep();
    }
    let end = config.duration.moment();
    grid.run(end);
    let settled = grid.settle(end + TO_SETTLE);
    // Sites must have seen the ends of their local jobs before the verdict and the statistics.
    grid.look_around();
    let settled_at = settled.then(|| grid.now());
    let violations = grid.verdict(settled);
    // Shown also for a run with violations, which it helps to understand.
    show_diagram(arguments, path, &grid)?;
    let description = file_name(path);
    let seed = config.seed;
    let run = results::Run { description, seed, end, settled_at, grid: &grid, violations: &violations };
    let results = run.results();
    if arguments.json {
        print_json(&results)?;
    } else {
        tables::print(&results)?;
    }
    check(&violations)
}

/// Fails if there are violations, and prints them.
pub(crate) fn check(violations: &[Violation]) -> Result<()> {
    if violations.is_empty() {
        return Ok(());
    }
    violations.iter().for_each(|violation| say!("violation: {violation}"));
    bail!(tables::broken(violations.len()))
}

fn read(path: &Path) -> Result<Config> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {name}; use the description of a grid"))?;
    let config: Config =
        toml::from_str(&text).with_context(|| format!("{name} is not a valid description of a grid"))?;
    ensure!(config.duration > Length::default(), "{name}: the duration must be more than 0");
    Ok(config)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Builds the grid and schedules its faults. The parties are in the order that [`Names`] assumes: clients, brokers,
/// sites.
fn build(config: &Config, folder: &Path) -> Result<Grid> {
    let names = Names::of(config)?;
    ensure!(!config.sites.is_empty(), "there is no [[site]]; add at least one");
    let around = parties::Surroundings { seed: config.seed, end: config.duration.time(), folder };
    // Sites are built first, because a broker needs the resources of its peers.
    let mut offers = parties::Offers::new();
    let mut sites = Vec::new();
    for described in &config.sites {
        let site = parties::site(described, &around)?;
        let resources = site.rules().resources.iter().map(|offered| offered.resource.clone());
        offers.insert(described.name.clone(), resources.collect());
        sites.push(Party::new(described.name.as_str().into(), Role::Site(Box::new(site))));
    }
    check_links(config, &names)?;
    let mut parties = Vec::new();
    for (at, described) in config.clients.iter().enumerate() {
        let client = parties::client(described, at, &names, config.duration)?;
        parties.push(Party::new(described.name.as_str().into(), Role::Client(Box::new(client))));
    }
    let brokers = parties::brokers(&config.brokers, &names, offers)?;
    for (described, broker) in config.brokers.iter().zip(brokers) {
        parties.push(Party::new(described.name.as_str().into(), Role::Broker(Box::new(broker))));
    }
    parties.extend(sites);
    let mut grid = Grid::new(parties, trouble::network(&config.network)?, config.seed);
    trouble::arrange(config, &names, &mut grid)?;
    Ok(grid)
}

/// Fails if a link joins a site that does not exist.
fn check_links(config: &Config, names: &Names) -> Result<()> {
    for site in &config.sites {
        for resource in &site.resources {
            for end in resource.joins.iter().flatten() {
                let whose = format!("site {}, resource {}, joins", site.name, resource.name);
                names.find(end, &[trouble::Kind::Site], &whose)?;
            }
        }
    }
    Ok(())
}

fn show_diagram(arguments: &Arguments, path: &Path, grid: &Grid) -> Result<()> {
    let until = arguments.until.map_or(Moment::MAX, Length::moment);
    let range = arguments.from.moment()..=until;
    let sequence = || diagram::sequence(&file_name(path), grid, &range);
    if arguments.trace_events {
        print_text(&sequence().to_text())?;
    }
    if let Some(path) = &arguments.trace_svg {
        save_and_tell(path, &sequence().to_svg())?;
    }
    Ok(())
}

/// Prints a diagram with an empty line below it.
pub(crate) fn print_text(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{text}")
}
