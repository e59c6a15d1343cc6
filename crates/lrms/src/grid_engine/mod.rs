//! Grid Engine 8.1.9 (Son of Grid Engine, as packaged by Debian), driven by its commands.
//!
//! - `nodes` (queue instances), `jobs`, `reservations`: the parts of a picture
//! - `create`: creates and deletes reservations
//! - `submit`, `outcome`: submits and cancels jobs, and determines their results
//! - `examine`: checks for operators
//!
//! # Behaviour of Grid Engine, and consequences
//! - Slots belong to queue instances (`all.q@host`), so a queue instance is a node here. Whole hosts cannot be
//!   promised: jobs of other queues may run on the same host. [`Unit::Nodes`](crate::batch::Unit::Nodes) is refused.
//! - An advance reservation (AR) is granted exactly as requested or not at all, but also on hosts that are down and
//!   in disabled queues. It is therefore requested on usable queue instances only, and the grant is read back.
//! - An AR cannot be changed. Its name need not be unique; its number is its handle. Names are cut to 100 characters.
//! - A job without `h_rt` may run forever, and Grid Engine plans with that (unless `default_duration` says
//!   otherwise). For a job with `h_rt` it adds a minute (`DURATION_OFFSET`); so do we.
//! - A job whose `h_rt` exceeds its AR is refused, so its limit is reduced. At the end of an AR its jobs are killed
//!   and forgotten at once, without a record in the accounting file.

mod create;
mod examine;
mod jobs;
mod nodes;
mod outcome;
mod reservations;
mod submit;

use crate::batch::{BatchSystem, Finding, Picture, Place, Traits};
use crate::command::Runner;
use crate::dialect::{Tools, document};
use crate::error::LrmsError;
use bookahead_party::Sharing;
use bookahead_plan::{Seconds, Time};
use outcome::Memory;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

const NO_WHOLE_HOSTS: &str = "Grid Engine reserves slots of queues, and jobs of other queues may run on the same \
     host, so whole hosts cannot be promised; count this resource in cores";

/// Settings of a Grid Engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Resources of the site. A place's partition is a queue, or an expression for queue instances such as
    /// `all.q@@group`; its features are resource requests as for `qselect -l`, such as `gpu=true`.
    pub places: Vec<Place>,
    /// Parallel environment for requests. Its allocation rule must let a job spread: `$fill_up` or `$round_robin`.
    pub parallel_environment: String,
    /// `SGE_ROOT`; None for the default of the commands.
    pub root: Option<PathBuf>,
    /// `SGE_CELL`, likewise.
    pub cell: Option<String>,
    /// `SGE_QMASTER_PORT`, likewise.
    pub qmaster_port: Option<u16>,
    /// `SGE_EXECD_PORT`, likewise.
    pub execd_port: Option<u16>,
    /// Folder of the commands; None for `PATH`.
    pub bin: Option<PathBuf>,
    /// Working folder and output folder of jobs; None for the home folder of the account.
    pub output: Option<PathBuf>,
    /// How long after its end a job may be missing in the accounting file (`flush_time` of `reporting_params`, and
    /// some more); None if there is no readable accounting.
    pub accounting: Option<Duration>,
}

/// A cluster managed by Grid Engine.
#[derive(Debug)]
pub struct GridEngine {
    tools: Tools,
    settings: Settings,
    memory: Mutex<Memory>,
    /// Time that Grid Engine adds to the limits of jobs; queried once.
    slack: OnceLock<Seconds>,
}

impl Settings {
    /// Defaults for the Grid Engine that the commands find by themselves.
    pub fn new(places: Vec<Place>, parallel_environment: impl Into<String>) -> Settings {
        let (parallel_environment, accounting) = (parallel_environment.into(), Some(Duration::from_secs(20)));
        Settings { places, parallel_environment, accounting, ..Settings::default() }
    }
}

impl GridEngine {
    /// Runs no command yet.
    pub fn new(runner: Runner, settings: Settings) -> GridEngine {
        let tools = tools(runner, &settings);
        GridEngine { tools, settings, memory: Mutex::default(), slack: OnceLock::new() }
    }
}

impl BatchSystem for GridEngine {
    fn traits(&self) -> Traits {
        // Longer names are cut off silently.
        Traits {
            smallest_step: Seconds(1),
            longest_name: 100,
            moves_jobs: false,
            requeues_jobs: false,
            freed_within: Seconds::ZERO,
            sharing: Sharing::FromTheBeginning,
            tres: false,
            attracts: false,
        }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let picture = look(&self.tools.for_looks(), &self.settings.places, &self.slack)?;
        outcome::locked(&self.memory).note(picture.clock, &picture.jobs, &picture.reservations);
        Ok(picture)
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// Messages of commands if the master does not answer.
const DOWN: [&str; 4] = [
    "unable to send message to qmaster",
    "unable to contact qmaster",
    "commlib error",
    "can't get answer from",
];

fn tools(runner: Runner, settings: &Settings) -> Tools {
    let variables = [
        ("SGE_ROOT", settings.root.as_ref().map(|root| root.to_string_lossy().into_owned())),
        ("SGE_CELL", settings.cell.clone()),
        ("SGE_QMASTER_PORT", settings.qmaster_port.map(|port| port.to_string())),
        ("SGE_EXECD_PORT", settings.execd_port.map(|port| port.to_string())),
    ];
    let given = variables.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Tools::new(runner, settings.bin.clone(), given.collect(), &DOWN).probed_by("qconf", &["-sql"])
}

/// Reads the state. `slack` caches the result of [`jobs::slack`].
fn look(tools: &Tools, places: &[Place], slack: &OnceLock<Seconds>) -> Result<Picture, LrmsError> {
    // The slowest query comes first.
    let asked = [jobs::details(tools), jobs::listing(tools), reservations::listing(tools), tools.date()];
    let [detailed, listed, reserved, date] = tools.ask_each(&asked);
    // A look is of use without the time: the clock of this machine is used instead.
    let clock = date.ok().and_then(|seconds| seconds.trim().parse().ok()).map(Time);
    let listed = listed?;
    let slack = match slack.get() {
        Some(known) => *known,
        None => {
            // `get_or_init` cannot fail, so the query comes before it; two looks at once may both run it.
            let asked = jobs::slack(tools)?;
            *slack.get_or_init(|| asked)
        }
    };
    let listing = jobs::Listing::read(tools, &listed, detailed, slack)?;
    let (queues, nodes) = nodes::find(tools, places, listing.instances())?;
    let jobs = jobs::facts(&listing, &queues, clock);
    let reservations = reservations::list(tools, &document(&asked[2], &reserved?)?)?;
    let unreadable = listing.unreadable();
    Ok(Picture { clock, nodes, reservations, jobs, unreadable, ..Picture::default() })
}
