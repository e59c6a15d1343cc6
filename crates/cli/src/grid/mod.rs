//! `bookahead simulate-grid`: a described grid of sites, brokers and clients, run in virtual time on a network on which
//! things go wrong, and what became of it.
//!
//! - [`config`]: the description; [`parties`], [`trouble`]: the grid that it describes
//! - [`results`], [`tables`]: what became of it
//! - [`diagram`]: who told whom what, and when

mod config;
pub(crate) mod diagram;
mod parties;
mod results;
pub(crate) mod tables;
mod trouble;

use crate::output::{print_json, save_and_tell, say};
use crate::trace::file_not_stdout;
use anyhow::{Context, Result, bail, ensure};
use bookahead_protocol::{Millis, Moment};
use bookahead_service::config::Length;
use bookahead_sim::grid::{Grid, Party, Role, Violation};
use clap::Args;
use config::Config;
use std::path::{Path, PathBuf};
use trouble::Names;

/// What is under way at the end of a simulation has so long to come to its end.
const TO_SETTLE: Millis = Millis::seconds(3_600);

#[derive(Args)]
pub(crate) struct Arguments {
    /// The description of the grid, in TOML; docs/grid.md explains it
    #[arg(value_name = "CONFIG")]
    config: PathBuf,

    /// Another seed than the description's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Print who told whom what, and when, as a sequence diagram in text, before the results
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    trace_events: bool,

    /// Draw the sequence diagram
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    trace_svg: Option<PathBuf>,

    /// Where the diagram begins, from the start of the simulation (90s, 1h, 500ms)
    #[arg(long, value_name = "LENGTH", default_value = "0s", help_heading = "Output")]
    from: Length,

    /// Where it ends [default: with the last message]
    #[arg(long, value_name = "LENGTH", help_heading = "Output")]
    until: Option<Length>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = arguments.trace_events || arguments.trace_svg.is_some();
    let ranged = arguments.until.is_some() || arguments.from != Length::default();
    ensure!(
        wanted || !ranged,
        "--from and --until are about the diagram; give --trace-events or --trace-svg"
    );
    let name = arguments.config.display().to_string();
    let mut config = read(&arguments.config)?;
    config.seed = arguments.seed.unwrap_or(config.seed);
    let folder = arguments.config.parent().unwrap_or(Path::new(""));
    let mut grid = build(&config, folder).with_context(|| name.clone())?;
    if wanted {
        grid.log.keep();
    }
    let end = config.duration.moment();
    grid.run(end);
    let settled = grid.settle(end + TO_SETTLE);
    grid.look_around();
    let settled_at = settled.then(|| grid.now());
    let violations = grid.verdict(settled);
    show_diagram(arguments, &grid)?;
    let description = file_name(&arguments.config);
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

/// Fails where something is wrong, and says what.
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
        .with_context(|| format!("{name} cannot be read; give the description of a grid"))?;
    let config: Config =
        toml::from_str(&text).with_context(|| format!("{name} is no description of a grid"))?;
    ensure!(config.duration > Length::default(), "{name}: a duration of 0 simulates nothing");
    Ok(config)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The grid, with all that will go wrong. Parties have the places that their names say.
fn build(config: &Config, folder: &Path) -> Result<Grid> {
    let names = Names::of(config)?;
    ensure!(!config.sites.is_empty(), "there is no [[site]]; describe at least one");
    let around = parties::Surroundings { seed: config.seed, end: config.duration.time(), folder };
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

/// A link joins two sites that exist.
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

fn show_diagram(arguments: &Arguments, grid: &Grid) -> Result<()> {
    let until = arguments.until.map_or(Moment::MAX, Length::moment);
    let range = arguments.from.moment()..=until;
    let sequence = || diagram::sequence(&file_name(&arguments.config), grid, &range);
    if arguments.trace_events {
        print_text(&sequence().to_text())?;
    }
    if let Some(path) = &arguments.trace_svg {
        save_and_tell(path, &sequence().to_svg())?;
    }
    Ok(())
}

/// A diagram, with an empty line below it.
pub(crate) fn print_text(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{text}")
}
