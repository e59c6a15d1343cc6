//! Configuration of the batch system of a site. Without one, a site uses its built-in scheduler.

use super::error::{Wrong, no_user};
use super::resource::Resource;
use crate::security::user_name;
use bookahead_api::Length;
use bookahead_lrms::batch::accounts::is_project;
use bookahead_lrms::batch::{Place, Unit};
use bookahead_protocol::{Millis, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The batch system of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct BatchConfig {
    pub system: SystemName,
    pub commands: Option<PathBuf>,
    pub conf: Option<PathBuf>,
    pub parallel_environment: Option<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    pub output: Option<PathBuf>,
    #[serde(default)]
    pub accounting: bool,
    #[serde(default = "default_time_out")]
    pub time_out: Length,
    #[serde(default = "default_at_once")]
    pub at_once: usize,
    #[serde(default = "default_look_every")]
    pub look_every: Length,
    #[serde(default = "default_move_after")]
    pub move_after: Length,
    #[serde(default = "default_answer_within")]
    pub answer_within: Length,
    pub confirm_within: Option<Length>,
    #[serde(default = "default_end_jobs_early")]
    pub end_jobs_early: Length,
    pub account: Option<String>,
    #[serde(default)]
    pub r#become: Vec<String>,
    #[serde(default)]
    pub accounts: BTreeMap<Name, String>,
    #[serde(default)]
    pub attract: bool,
    pub project: Option<String>,
    #[serde(default)]
    pub projects: BTreeMap<Name, String>,
    #[serde(default)]
    pub qos: BTreeMap<String, String>,
    pub ssh: Option<SshConfig>,
}

/// A host on which commands are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshConfig {
    /// Host name or address.
    pub host: String,
    /// User name on that host. Default: that of ssh.
    pub user: Option<String>,
    /// Port. Default: that of ssh.
    pub port: Option<u16>,
    /// Private key file. Default: that of ssh.
    pub key: Option<PathBuf>,
    /// File of known hosts. Default: that of the account.
    pub known_hosts: Option<PathBuf>,
}

/// Supported batch systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemName {
    /// Slurm.
    Slurm,
    /// PBS Professional and OpenPBS.
    Pbs,
    /// Grid Engine.
    GridEngine,
    /// IBM Spectrum LSF.
    Lsf,
    /// Torque with Maui.
    Maui,
}

/// A resource in terms of the batch system.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlaceConfig {
    /// Partition (Slurm), queue (PBS, Grid Engine, LSF) or class (Maui). Default: all nodes.
    pub partition: Option<String>,
    /// Unit of its capacity.
    pub unit: UnitName,
    /// Only nodes with all of these features.
    pub features: Vec<String>,
}

/// Unit of a capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitName {
    /// Cores.
    #[default]
    Cores,
    /// Whole nodes.
    Nodes,
}

fn default_time_out() -> Length {
    Length::of_seconds(10)
}

fn default_at_once() -> usize {
    bookahead_lrms::command::MOST_AT_ONCE
}

fn default_look_every() -> Length {
    Length::of_seconds(10)
}

fn default_move_after() -> Length {
    Length(bookahead_party::site::MOVE_AFTER)
}

/// Batch systems grant within seconds. An overloaded one may take a minute, and few callers wait longer.
fn default_answer_within() -> Length {
    Length::of_seconds(60)
}

/// A scheduling cycle of PBS takes a second or two on small clusters, and tens of seconds on large ones.
const CONFIRM_WITHIN: Length = Length::of_seconds(10);

/// Reservations last to the second by default.
fn default_end_jobs_early() -> Length {
    Length::of_seconds(0)
}

impl SystemName {
    /// Name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            SystemName::Slurm => "slurm",
            SystemName::Pbs => "pbs",
            SystemName::GridEngine => "grid-engine",
            SystemName::Lsf => "lsf",
            SystemName::Maui => "maui",
        }
    }
}

impl BatchConfig {
    /// Checks bounds and combinations of fields.
    pub fn check(&self) -> Result<(), Wrong> {
        let (becomes, seconds) = (&self.r#become, Length::of_seconds);
        // Under load, starting a command alone can take tens of milliseconds, and every timeout counts as an
        // outage of the batch system. With more than a few minutes, a real outage would be noticed too late.
        let time_out = (Length(Millis(100))..=seconds(300)).contains(&self.time_out);
        let why = "time_out must be 100ms to 5m; usually \"10s\"";
        Wrong::unless(time_out, "time_out", why)?;
        // A look runs several commands at the server of the batch system, and must not slow down its users.
        Wrong::unless(
            self.look_every >= seconds(1),
            "look_every",
            "look_every must be at least 1s; usually \"10s\"",
        )?;
        // A caller waits for the grant on an open HTTP request; people and proxies give up after minutes.
        let answer_within = (seconds(1)..=seconds(600)).contains(&self.answer_within);
        Wrong::unless(answer_within, "answer_within", "answer_within must be 1s to 10m; usually \"60s\"")?;
        // It shortens jobs in a reservation that is followed by another, so it must stay a grace period.
        let early = self.end_jobs_early <= seconds(300);
        Wrong::unless(
            early,
            "end_jobs_early",
            "end_jobs_early must be at most 5m, such as KillWait of Slurm: \"30s\"",
        )?;
        Wrong::unless((1..=64).contains(&self.at_once), "at_once", "at_once must be 1 to 64; usually 8")?;
        self.check_confirm_within()?;
        let conf = self.conf.is_none() || matches!(self.system, SystemName::Slurm | SystemName::Pbs);
        Wrong::unless(conf, "conf", "only Slurm and PBS have a configuration file; remove conf")?;
        let environment = self.system != SystemName::GridEngine || self.parallel_environment.is_some();
        let why = "Grid Engine needs a parallel environment for more than one slot: parallel_environment = \"smp\"; \
                   qconf -spl lists them";
        Wrong::unless(environment, "parallel_environment", why)?;
        // Without the placeholder every command would run as the same fixed account.
        let user = becomes.is_empty() || becomes.iter().any(|word| word.contains("{user}"));
        let why = "become must contain {user}, the account of the owner; write \
                   become = [\"sudo\", \"-n\", \"-u\", \"{user}\", \"--\"]";
        Wrong::unless(user, "become", why)?;
        // Refused and not ignored: the operator would believe that jobs run under these accounts.
        let why = "accounts are used only with become; \
                   write become = [\"sudo\", \"-n\", \"-u\", \"{user}\", \"--\"], or remove accounts";
        Wrong::unless(!becomes.is_empty() || self.accounts.is_empty(), "accounts", why)?;
        let why = "with become everything belongs to the accounts of the owners; remove account or become";
        Wrong::unless(becomes.is_empty() || self.account.is_none(), "account", why)?;
        self.check_attract()?;
        self.check_users()?;
        self.check_projects()
    }

    fn check_attract(&self) -> Result<(), Wrong> {
        let slurm = !self.attract || self.system == SystemName::Slurm;
        Wrong::unless(slurm, "attract", "only Slurm has reservations that attract jobs; remove attract")?;
        // All jobs would run as the account of the service, and one reservation would attract them all.
        let why = "attract needs become: otherwise a reservation attracts the jobs of all users; write \
                   become = [\"sudo\", \"-n\", \"-u\", \"{user}\", \"--\"], or remove attract";
        Wrong::unless(!self.attract || !self.r#become.is_empty(), "attract", why)
    }

    fn check_users(&self) -> Result<(), Wrong> {
        // An entry for a name that no caller can have would never apply, and the mistake would go unnoticed.
        let accounts = self.accounts.keys().map(|user| ("accounts", user));
        let mut users = accounts.chain(self.projects.keys().map(|user| ("projects", user)));
        let wrong = users.find(|(_, user)| user_name(user.as_str()).is_none());
        wrong.map_or(Ok(()), |(field, user)| Err(Wrong::new(field, no_user(user.as_str()))))
    }

    /// How long PBS may take to confirm a reservation. Default: at most half of the time limit of a grant, because
    /// the reservation has to be read back as well.
    pub(crate) fn confirm_within(&self) -> Length {
        let half = Length(Millis(self.answer_within.0.0 / 2));
        // At least the lower bound of the field: half of a short answer_within may be less.
        self.confirm_within.unwrap_or_else(|| CONFIRM_WITHIN.min(half).max(Length::of_seconds(1)))
    }

    fn check_confirm_within(&self) -> Result<(), Wrong> {
        let Some(confirm_within) = self.confirm_within else { return Ok(()) };
        let (field, seconds) = ("confirm_within", Length::of_seconds);
        let in_bounds = (seconds(1)..=seconds(300)).contains(&confirm_within);
        Wrong::unless(in_bounds, field, "confirm_within must be 1s to 5m; usually \"10s\"")?;
        let fits = confirm_within.0 + self.time_out.0 <= self.answer_within.0;
        let why = "confirm_within plus time_out exceeds answer_within, the time limit for confirming and reading back; \
                   raise answer_within";
        Wrong::unless(fits, field, why)
    }

    /// Whether the batch system can reserve what a resource offers beside its capacity.
    pub(super) fn check_tres<Jobs>(&self, resource: &Resource<Jobs>) -> Result<(), Wrong> {
        let nodes = resource.batch.as_ref().is_some_and(|place| place.unit == UnitName::Nodes);
        let wrong = |name: &Name| match self.system {
            SystemName::Slurm if name.as_str().starts_with("license/") => None,
            SystemName::Slurm if !on_slurm_nodes(name.as_str()) => Some(format!(
                "Slurm cannot reserve {name}; use gres/NAME, gres/NAME:TYPE, mem, feature/NAME or license/NAME"
            )),
            SystemName::Slurm if nodes => None,
            SystemName::Slurm => Some(format!(
                "Slurm reserves {name} only with whole nodes; write batch = {{ unit = \"nodes\" }}, or remove it"
            )),
            SystemName::Pbs if !name.as_str().contains(['/', ':']) => None,
            SystemName::Pbs => {
                Some(format!("{name} is not the name of a PBS resource; use a name such as ngpus or mem"))
            }
            other => {
                Some(format!("only Slurm and PBS reserve tres, and this is {}; remove it", other.word()))
            }
        };
        match resource.tres.keys().find_map(wrong) {
            Some(why) => Err(Wrong::new("tres", why)),
            None => Ok(()),
        }
    }

    fn check_projects(&self) -> Result<(), Wrong> {
        let named = self.project.iter().map(|project| ("project", project));
        let named = named.chain(self.projects.values().map(|project| ("projects", project)));
        for (field, project) in named {
            let why = format!("only Slurm has projects, and this is {}; remove them", self.system.word());
            Wrong::unless(self.system == SystemName::Slurm, field, why)?;
            let why = format!("invalid project {project:?}; use letters, digits, _ . - only");
            Wrong::unless(is_project(project), field, why)?;
        }
        for qos in self.qos.values() {
            let why = format!("only Slurm has QoS, and this is {}; remove qos", self.system.word());
            Wrong::unless(self.system == SystemName::Slurm, "qos", why)?;
            let why = format!("invalid QoS {qos:?}; use letters, digits, _ . - only");
            Wrong::unless(is_project(qos), "qos", why)?;
        }
        Ok(())
    }
}

/// Whether nodes of Slurm have something of this name.
fn on_slurm_nodes(name: &str) -> bool {
    name == "mem" || name.starts_with("gres/") || name.starts_with("feature/")
}

impl PlaceConfig {
    /// Converts to the type of the batch system.
    pub fn place(&self, resource: &str) -> Place {
        Place {
            resource: resource.into(),
            unit: match self.unit {
                UnitName::Cores => Unit::Cores,
                UnitName::Nodes => Unit::Nodes,
            },
            partition: self.partition.clone(),
            features: self.features.clone(),
        }
    }
}
