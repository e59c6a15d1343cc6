//! The batch system of a site: which it is, how its commands are run, and as whom. Without it a site runs the scheduler of
//! its own.

use super::error::{Wrong, no_user};
use super::length::Length;
use crate::security::user_name;
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
    pub project: Option<String>,
    #[serde(default)]
    pub projects: BTreeMap<Name, String>,
    pub ssh: Option<SshConfig>,
}

/// A machine on which commands are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshConfig {
    /// Its name or address.
    pub host: String,
    /// As whom.
    pub user: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The private key; without one, what ssh finds by itself.
    pub key: Option<PathBuf>,
    /// The file of known hosts; without one, that of the account.
    pub known_hosts: Option<PathBuf>,
}

/// The batch systems that are known.
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

/// A resource as the batch system knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlaceConfig {
    /// The partition (Slurm), queue (PBS, Grid Engine, LSF) or class (Maui); all nodes where none is named.
    pub partition: Option<String>,
    /// In what its capacity is counted.
    pub unit: UnitName,
    /// Only nodes with all of these features.
    pub features: Vec<String>,
}

/// In what a capacity is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitName {
    /// In cores.
    #[default]
    Cores,
    /// In whole nodes.
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

/// Batch systems grant within seconds. One that is overloaded may take a minute, and few callers wait longer.
fn default_answer_within() -> Length {
    Length::of_seconds(60)
}

/// A scheduling cycle of PBS takes a second or two on small clusters, and tens of seconds on large ones.
const CONFIRM_WITHIN: Length = Length::of_seconds(10);

/// What was promised is kept to the second, unless an operator chooses otherwise.
fn default_end_jobs_early() -> Length {
    Length::of_seconds(0)
}

impl SystemName {
    /// Its name.
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
    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), Wrong> {
        let (becomes, seconds) = (&self.r#become, Length::of_seconds);
        let time_out = (Length(Millis(100))..=seconds(300)).contains(&self.time_out);
        let why = "commands need some time, and nobody waits for minutes; give 100ms to 5m, usually \"10s\"";
        Wrong::unless(time_out, "time_out", why)?;
        Wrong::unless(self.look_every >= seconds(1), "look_every", "give 1s or more, usually \"10s\"")?;
        let answer_within = (seconds(1)..=seconds(600)).contains(&self.answer_within);
        Wrong::unless(answer_within, "answer_within", "give 1s to 10m, usually \"60s\"")?;
        let early = self.end_jobs_early <= seconds(300);
        Wrong::unless(early, "end_jobs_early", "give 5m at most, such as KillWait of Slurm: \"30s\"")?;
        Wrong::unless((1..=64).contains(&self.at_once), "at_once", "give 1 to 64, usually 8")?;
        self.check_confirm_within()?;
        let conf = self.conf.is_none() || matches!(self.system, SystemName::Slurm | SystemName::Pbs);
        Wrong::unless(conf, "conf", "only Slurm and PBS have one; leave it out")?;
        let environment = self.system != SystemName::GridEngine || self.parallel_environment.is_some();
        let why = "Grid Engine needs a parallel environment for more than one slot: parallel_environment = \"smp\"; \
                   qconf -spl lists them";
        Wrong::unless(environment, "parallel_environment", why)?;
        let user = becomes.is_empty() || becomes.iter().any(|word| word.contains("{user}"));
        let why = "{user} stands for the account of an owner and is missing; write \
                   become = [\"sudo\", \"-n\", \"-u\", \"{user}\", \"--\"]";
        Wrong::unless(user, "become", why)?;
        let why = "jobs run as their owners only where become says how; \
                   write become = [\"sudo\", \"-n\", \"-u\", \"{user}\", \"--\"], or leave out accounts";
        Wrong::unless(!becomes.is_empty() || self.accounts.is_empty(), "accounts", why)?;
        let why = "with become everything belongs to the accounts of the owners; leave out one of the two";
        Wrong::unless(becomes.is_empty() || self.account.is_none(), "account", why)?;
        self.check_users()?;
        self.check_projects()
    }

    fn check_users(&self) -> Result<(), Wrong> {
        let accounts = self.accounts.keys().map(|user| ("accounts", user));
        let mut users = accounts.chain(self.projects.keys().map(|user| ("projects", user)));
        let wrong = users.find(|(_, user)| user_name(user.as_str()).is_none());
        wrong.map_or(Ok(()), |(field, user)| Err(Wrong::new(field, no_user(user.as_str()))))
    }

    /// How long PBS may take to confirm a reservation. By default it is no more than half of the time for all of a grant, which
    /// also has to be read back.
    pub fn confirm_within(&self) -> Length {
        let half = Length(Millis(self.answer_within.0.0 / 2));
        self.confirm_within.unwrap_or_else(|| CONFIRM_WITHIN.min(half).max(Length::of_seconds(1)))
    }

    fn check_confirm_within(&self) -> Result<(), Wrong> {
        let Some(confirm_within) = self.confirm_within else { return Ok(()) };
        let (field, seconds) = ("confirm_within", Length::of_seconds);
        let in_bounds = (seconds(1)..=seconds(300)).contains(&confirm_within);
        Wrong::unless(in_bounds, field, "give 1s to 5m, usually \"10s\"")?;
        let fits = confirm_within.0 + self.time_out.0 <= self.answer_within.0;
        let why = "with time_out it is longer than answer_within, within which a grant has to be confirmed and read back; \
                   raise answer_within";
        Wrong::unless(fits, field, why)
    }

    fn check_projects(&self) -> Result<(), Wrong> {
        let named = self.project.iter().map(|project| ("project", project));
        let named = named.chain(self.projects.values().map(|project| ("projects", project)));
        for (field, project) in named {
            let why =
                format!("only Slurm is told projects, and this is {}; leave it out", self.system.word());
            Wrong::unless(self.system == SystemName::Slurm, field, why)?;
            let why = format!("{project:?} cannot be a project; write letters, digits, _ . - only");
            Wrong::unless(is_project(project), field, why)?;
        }
        Ok(())
    }
}

impl PlaceConfig {
    /// As the batch system wants it.
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
