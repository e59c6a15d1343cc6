//! Configuration of a site.

use super::batch::BatchConfig;
use super::common::*;
use super::error::{self, ConfigError, Wrong, no_user};
use super::holds::Holds;
use super::local_jobs::LocalJobs;
use super::maintenance::MaintenanceConfig;
use super::notify::NotifyConfig;
use super::resource::Resource;
use crate::http;
use crate::security::{Role, Security, user_name};
use bookahead_api::{AttributeValue, Length};
use bookahead_protocol::description::check_class;
use bookahead_protocol::ledger::{Class, Priorities, Reveal, Rules, UserLimits};
use bookahead_protocol::{Millis, Name, ledger};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Extra time that a call may wait in addition to the batch system: for the disk, and for calls before it in the
/// queue.
const BEYOND_BATCH: Millis = Millis::seconds(15);

/// Configuration of a site. Paths are relative to the folder of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct SiteConfig {
    pub name: String,
    pub listen: Option<Listeners>,
    pub url: Option<String>,
    pub state: Option<PathBuf>,
    /// Folder of local files, if `state` is a database; set by the command line.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
    #[serde(default = "default_lease")]
    pub lease: Length,
    #[serde(default = "default_retention")]
    pub retention: Length,
    #[serde(default = "default_history", deserialize_with = "history")]
    pub history: Length,
    #[serde(default = "default_answers")]
    pub most_answers: usize,
    #[serde(default = "default_heartbeat")]
    pub heartbeat: Length,
    #[serde(default)]
    pub clock: ClockConfig,
    #[serde(default)]
    pub jobs: SubmittedJobs,
    pub batch: Option<BatchConfig>,
    #[serde(default)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    #[serde(default)]
    pub holds: Holds,
    #[serde(default)]
    pub reveal: Reveal,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub role_limits: BTreeMap<String, Limits>,
    #[serde(default)]
    pub user_limits: BTreeMap<String, Limits>,
    #[serde(default)]
    pub priorities: BTreeMap<String, PriorityClass>,
    #[serde(default, rename = "resource")]
    pub resources: Vec<Resource<LocalJobs>>,
    #[serde(default)]
    pub maintenance: Vec<MaintenanceConfig>,
    #[serde(default, rename = "broker")]
    pub brokers: Vec<BrokerLink>,
    #[serde(default)]
    pub calls: Calls,
    #[serde(default)]
    pub notify: NotifyConfig,
    #[serde(default)]
    pub server: http::Limits,
    #[serde(default)]
    pub security: Security,
}

/// A priority class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct PriorityClass {
    pub number: i32,
    pub users: BTreeSet<Name>,
    pub projects: BTreeSet<Name>,
    pub roles: BTreeSet<Name>,
    pub default: bool,
}

/// How submitted jobs are run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct SubmittedJobs {
    pub processes: bool,
    pub account: Option<String>,
    pub output: Option<PathBuf>,
}

fn default_answers() -> usize {
    Rules::new("", Vec::new()).most_answers
}

/// Limits of one user. A missing field means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct Limits {
    pub count: Option<u32>,
    pub unit_hours: Option<u32>,
    pub horizon: Option<Length>,
    pub notice: Option<Length>,
    pub share: Option<u32>,
    pub jobs: Option<u32>,
    pub job_share: Option<u32>,
    pub longest_job: Option<Length>,
}

impl Limits {
    /// Converts to the type of the ledger.
    pub fn user_limits(&self) -> UserLimits {
        UserLimits {
            count: self.count,
            area: self.unit_hours.map(|hours| i64::from(hours) * 3_600),
            horizon: self.horizon.map(Length::seconds),
            notice: self.notice.map(Length::seconds),
            share: self.share,
            jobs: self.jobs,
            job_share: self.job_share,
            longest_job: self.longest_job.map(Length::seconds),
        }
    }

    /// Converts the limits of several users or roles.
    pub fn by_name(described: &BTreeMap<String, Limits>) -> BTreeMap<Name, UserLimits> {
        described.iter().map(|(name, limits)| (name.as_str().into(), limits.user_limits())).collect()
    }
}

common_of!(SiteConfig, bookahead_party::Role::Site, SiteConfig::server_limits);

impl SiteConfig {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<SiteConfig, ConfigError> {
        SiteConfig::parse(path, &error::read(path, "site")?)
    }

    /// Parses a text; `path` is used in errors only.
    pub fn parse(path: &Path, text: &str) -> Result<SiteConfig, ConfigError> {
        error::parse(path, text, SiteConfig::check)
    }

    /// Checks the fields, without opening other files.
    pub fn check(&self) -> Result<(), Wrong> {
        Common::from(self).check()?;
        let why =
            "without stored answers a repeated call would be executed twice; leave it out, or give 1 or more";
        Wrong::unless(self.most_answers > 0, "most_answers", why)?;
        self.check_users()?;
        self.check_roles()?;
        self.check_priorities()?;
        self.check_jobs()?;
        self.check_batch()?;
        self.windows()?;
        if self.jobs.processes || self.batch.is_some() {
            Common::from(self).check_trust("run programs as the account of this service")?;
        }
        // The ledger checks its own rules. Building them here reports its errors with their line.
        self.rules().map(drop)
    }

    /// Refuses limits for a name that no user can have, because they would have no effect.
    fn check_users(&self) -> Result<(), Wrong> {
        let Some(unknown) = self.user_limits.keys().find(|user| user_name(user).is_none()) else {
            return Ok(());
        };
        Err(Wrong::new(unknown.clone(), no_user(unknown)).within("user_limits"))
    }

    fn check_roles(&self) -> Result<(), Wrong> {
        let Some(unknown) = self.role_limits.keys().find(|role| Role::of(role).is_none()) else {
            return Ok(());
        };
        let known: Vec<&str> = Role::ALL.map(Role::word).into();
        let why = format!("unknown role {unknown}; use one of: {}", known.join(", "));
        Err(Wrong::new(unknown.clone(), why).within("role_limits"))
    }

    fn check_priorities(&self) -> Result<(), Wrong> {
        for (name, class) in &self.priorities {
            let wrong = |field: &str, why: String| {
                Err(Wrong::new(field.to_owned(), why).within(name.clone()).within("priorities"))
            };
            if let Err(why) = check_class(name) {
                return Err(Wrong::new(name.clone(), why.to_string()).within("priorities"));
            }
            if let Some(unknown) = class.users.iter().find(|user| user_name(user.as_str()).is_none()) {
                return wrong("users", no_user(unknown.as_str()));
            }
            if let Some(unknown) = class.roles.iter().find(|role| Role::of(role.as_str()).is_none()) {
                let known = Role::ALL.map(Role::word).join(", ");
                return wrong("roles", format!("unknown role {unknown}; use one of: {known}"));
            }
            if let Some(unknown) =
                class.projects.iter().find(|name| !self.security.projects.contains_key(*name))
            {
                return wrong("projects", format!("unknown project {unknown}; name it in security.projects"));
            }
        }
        let mut defaults = self.priorities.iter().filter(|(_, class)| class.default).map(|(name, _)| name);
        if let (Some(one), Some(other)) = (defaults.next(), defaults.next()) {
            let why = format!("{one} is the default already; there can be one");
            return Err(Wrong::new("default", why).within(other.clone()).within("priorities"));
        }
        let classes = self.batch.iter().flat_map(|batch| batch.qos.keys());
        match classes.into_iter().find(|class| !self.priorities.contains_key(class.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let why = format!("unknown priority class {unknown}; describe it in [priorities.{unknown}]");
                Err(Wrong::new("qos", why).within("batch"))
            }
        }
    }

    /// The priority classes. Projects are replaced by their users.
    fn priorities(&self) -> Priorities {
        let class = |class: &PriorityClass| {
            let members = class.projects.iter().filter_map(|project| self.security.projects.get(project));
            let users = class.users.iter().chain(members.flatten()).cloned().collect();
            Class { number: class.number, users, roles: class.roles.clone() }
        };
        let classes = self.priorities.iter();
        Priorities {
            classes: classes.clone().map(|(name, of)| (name.as_str().into(), class(of))).collect(),
            default: classes
                .into_iter()
                .find(|(_, class)| class.default)
                .map(|(name, _)| name.as_str().into()),
        }
    }

    /// Real programs need a real clock, and capacity that no simulated job occupies.
    fn check_jobs(&self) -> Result<(), Wrong> {
        if self.jobs.account.is_some() && !self.jobs.processes {
            let why = "account is for programs on this machine; write processes = true, or remove it";
            return Err(Wrong::new("account", why).within("jobs"));
        }
        if self.jobs.processes && self.clock.speed > 1 {
            let why = "programs cannot run on an accelerated clock; write processes = false, or remove clock";
            return Err(Wrong::new("processes", why).within("jobs"));
        }
        in_list(
            "resource",
            self.resources.iter().map(|resource| {
                let Some(jobs) = &resource.jobs else { return Ok(()) };
                if self.jobs.processes {
                    let why =
                        "local jobs are pretended, but processes = true runs programs; remove one of the two";
                    return Err(Wrong::new("jobs", why));
                }
                jobs.check(resource.capacity).map_err(|wrong| wrong.within("jobs"))
            }),
        )
    }

    /// Batch systems need a real clock and have their own local jobs.
    fn check_batch(&self) -> Result<(), Wrong> {
        let Some(batch) = &self.batch else {
            return in_list(
                "resource",
                self.resources.iter().map(|resource| match resource.batch {
                    None => Ok(()),
                    Some(_) => {
                        let why =
                            "there is no batch system; write [batch] with system = \"slurm\", or remove it";
                        Err(Wrong::new("batch", why))
                    }
                }),
            );
        };
        batch.check().map_err(|wrong| wrong.within("batch"))?;
        if self.clock.speed > 1 {
            let why = "a batch system needs real time; remove clock";
            return Err(Wrong::new("speed", why).within("clock"));
        }
        if self.jobs.processes {
            let why = "jobs are run by the batch system; remove processes or [batch]";
            return Err(Wrong::new("processes", why).within("jobs"));
        }
        in_list(
            "resource",
            self.resources.iter().map(|resource| match resource.jobs {
                None => batch.check_tres(resource),
                Some(_) => Err(Wrong::new("jobs", "the batch system has its own local jobs; leave it out")),
            }),
        )
    }

    /// Converts to the rules of the ledger.
    pub fn rules(&self) -> Result<Rules, Wrong> {
        let (mut offered, mut notices) = (Vec::new(), BTreeMap::new());
        for (at, resource) in self.resources.iter().enumerate() {
            let here = |wrong: Wrong| wrong.within(at).within("resource");
            offered.push(resource.offered(&self.name).map_err(here)?);
            notices.extend(resource.shortest_notice().map_err(here)?);
        }
        let mut rules = Rules::new(self.name.as_str(), offered);
        rules.notices = notices;
        rules.holds = self.holds.rules(self.clock.speed)?;
        rules.reveal = self.reveal;
        rules.limits = ledger::Limits {
            default: self.limits.user_limits(),
            roles: Limits::by_name(&self.role_limits),
            users: Limits::by_name(&self.user_limits),
        };
        self.limit_horizon(&mut rules.limits);
        rules.priorities = self.priorities();
        rules.retention = self.retention.seconds();
        rules.most_answers = self.most_answers;
        rules.consent = self.batch.as_ref().map(|batch| batch.answer_within.0);
        rules.check().map_err(|why| wrong_rules(&rules, &why))?;
        Ok(rules)
    }

    /// Limits of the server. With a batch system, calls may wait longer for their answers.
    pub(crate) fn server_limits(&self) -> http::Limits {
        let mut limits = self.server.clone();
        if let Some(batch) = &self.batch {
            // HTTP must not give up before the batch system does: the caller would not learn the outcome.
            limits.patience = limits.patience.max(Length(batch.answer_within.0 + BEYOND_BATCH));
        }
        limits
    }

    /// Folder of journal and jobs. `base` is the folder of the configuration file.
    pub fn state(&self, base: &Path) -> PathBuf {
        Common::from(self).folder(base)
    }
}

/// Maps an error of the ledger to the field that causes it.
fn wrong_rules(rules: &Rules, why: &ledger::RulesError) -> Wrong {
    use ledger::RulesError as Why;
    // The last one: of two resources with the same name, the second is the mistake.
    let place = |name: &Name| rules.resources.iter().rposition(|offered| offered.resource.name == *name);
    let text = why.to_string();
    match why {
        Why::NoResource => Wrong::new("resource", "there is no [[resource]]; describe at least one"),
        Why::SameName(name) => Wrong::new("name", text).within(place(name).unwrap_or(0)).within("resource"),
        Why::NoCapacity(name) => {
            let text = format!("{text}; give 1 or more");
            Wrong::new("capacity", text).within(place(name).unwrap_or(0)).within("resource")
        }
        Why::NoSlots => Wrong::new("slots", text).within("reveal"),
        Why::NoTimeToAnswer => Wrong::new("answer_within", text).within("batch"),
        Why::OtherSite { .. } | Why::Negative(_) | Why::Fixed(_) => Wrong::all(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::listener::Listen;

    const SMALL: &str =
        "name = \"north\"\n\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n";

    fn read(text: &str) -> Result<SiteConfig, ConfigError> {
        SiteConfig::parse(Path::new("site.toml"), text)
    }

    #[track_caller]
    fn refused(text: &str, words: &[&str]) {
        let why = read(text).expect_err(text).to_string();
        for word in words.iter().chain(&["site.toml"]) {
            assert!(why.contains(word), "'{word}' is missing in: {why}");
        }
    }

    #[test]
    fn a_name_and_a_resource_are_enough() {
        let site = read(SMALL).expect("a site");
        assert_eq!(
            Common::from(&site).listeners(Path::new("/etc")),
            [Listen::Unix("/etc/bookahead-north/socket".into())]
        );
        assert_eq!(site.state(Path::new("/etc")), Path::new("/etc/bookahead-north"));
        let rules = site.rules().expect("rules");
        assert_eq!(rules, Rules { resources: rules.resources.clone(), ..Rules::new("north", Vec::new()) });
        assert_eq!(rules.resources.len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line_and_what_was_expected() {
        refused(&SMALL.replace("capacity", "capicity"), &["line 6", "capicity", "`capacity`"]);
        refused(&SMALL.replace("64", "\"64\""), &["line 6", "u32"]);
        refused(&SMALL.replace("kind = \"processors\"\n", ""), &["line 3", "kind"]);
        refused(&format!("listen = \"localhost\"\n{SMALL}"), &["line 1", "localhost", "127.0.0.1:7420"]);
        refused(&format!("heartbeat = \"5 sx\"\n{SMALL}"), &["line 1", "5 sx", "2h30m"]);
        refused(&format!("{SMALL}method = \"best\"\n"), &["line 7", "best", "what-if"]);
        refused(&format!("{SMALL}[security]\nkey = \"k\"\n"), &["line 8", "`key`", "`keys`"]);
        refused(&format!("{SMALL}notice = \"soon\"\n"), &["line 7", "soon"]);
        refused(&format!("{SMALL}notice = {{ predicted = \"median\" }}\n"), &["line 7", "median", "`mean`"]);
        refused(&format!("{SMALL}admission = \"none\"\n"), &["line 7", "none", "`local-jobs-preferred`"]);
        let missing = SiteConfig::read(Path::new("nowhere/site.toml")).expect_err("no file").to_string();
        assert!(missing.contains("nowhere/site.toml cannot be read"), "{missing}");
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line_its_field_and_what_to_write() {
        refused("name = \"a/b\"\n", &["line 1", "name", "a/b", "letters"]);
        refused("name = \"a\"\n", &["resource", "at least one"]);
        refused(&SMALL.replace("64", "0"), &["line 6", "resource[1].capacity", "capacity of 0", "give 1"]);
        refused(&format!("{SMALL}policy = \"sjf\"\n"), &["line 7", "resource[1].policy", "sjf", "easy"]);
        let twice = format!("{SMALL}[[resource]]\nname = \"cluster\"\nkind = \"x\"\ncapacity = 1\n");
        refused(&twice, &["line 8", "resource[2].name", "two resources"]);
        refused(&format!("{SMALL}makespan_weight = 2\n"), &["line 7", "makespan_weight", "0 to 1"]);
        let load = "method = \"load\"\nmakespan_weight = 0.5\n";
        refused(&format!("{SMALL}{load}"), &["line 8", "makespan_weight", "what-if"]);
        let both = "max_delayed = 1\nadmission = \"local-jobs-preferred\"\n";
        refused(&format!("{SMALL}{both}"), &["line 8", "resource[1].admission", "max_delayed"]);
        let factor = "notice = { predicted = \"mean\", factor = 0 }\n";
        refused(&format!("{SMALL}{factor}"), &["line 7", "resource[1].notice.factor", "above 0"]);
        let mean = "notice = { predicted = \"mean\", quantile = 95 }\n";
        refused(&format!("{SMALL}{mean}"), &["line 7", "resource[1].notice.predicted", "remove"]);
        let zero = "tres = { \"gres/gpu\" = 0 }\n";
        refused(&format!("{SMALL}{zero}"), &["line 7", "resource[1].tres", "gres/gpu is 0"]);
        let typed = "tres = { \"gres/gpu\" = 2, \"gres/gpu:a100\" = 2 }\n";
        refused(&format!("{SMALL}{typed}"), &["line 7", "resource[1].tres", "either gres/gpu or"]);
        let half = "machines = [{ capacity = 32, mhz = 2600 }]\n";
        refused(&format!("{SMALL}{half}"), &["line 7", "resource[1].machines", "32 together"]);
        let other = "machines = [{ capacity = 32, mhz = 2600 }, { capacity = 32, gflops = 40 }]\n";
        refused(&format!("{SMALL}{other}"), &["line 7", "resource[1].machines[2]", "same ratings"]);
        refused(&format!("url = \"north:7420\"\n{SMALL}"), &["line 1", "url", "http://127.0.0.1:7420"]);
        refused(&format!("heartbeat = \"1ms\"\n{SMALL}"), &["line 1", "heartbeat", "5s"]);
        refused(&format!("retention = \"0s\"\n{SMALL}"), &["line 1", "retention", "1d"]);
        refused(&format!("most_answers = 0\n{SMALL}"), &["line 1", "most_answers", "leave it out"]);
        refused(&format!("clock = {{ speed = 60 }}\n{SMALL}"), &["line 1", "clock.speed", "origin ="]);
        refused(&format!("clock = {{ speed = 0 }}\n{SMALL}"), &["line 1", "clock.speed", "not 0"]);
        refused(&format!("{SMALL}[reveal]\nslots = 0\n"), &["line 8", "reveal.slots"]);
        refused(&format!("{SMALL}[server]\nconcurrent = 0\n"), &["line 8", "server.concurrent"]);
        refused(&format!("{SMALL}[calls]\nkey = \"k\"\n"), &["line 8", "calls.key", "certificate ="]);
        let unseen = format!("{SMALL}[user_limits.\"ada\u{3164}\"]\ncount = 1\n");
        refused(&unseen, &["user_limits.ada", "cannot be the name of a user"]);
        refused(&format!("{SMALL}[role_limits.root]\ncount = 1\n"), &["role_limits.root", "operator"]);
        let adaptive = "[holds]\nadaptive = { target = 120.0, shortest = \"1s\" }\n";
        refused(&format!("{SMALL}{adaptive}"), &["line 8", "holds.adaptive.target", "0 to 100"]);
        let everywhere = "listen = \"0.0.0.0:1\"\n[[broker]]\nurl = \"http://b\"\n";
        refused(&SMALL.replace("\n\n", &format!("\n{everywhere}")), &["line 2", "listen", "url ="]);
    }

    #[test]
    fn local_jobs_are_drawn_or_of_a_log_and_not_beside_real_programs() {
        let with = |jobs: &str| format!("{SMALL}jobs = {jobs}\n");
        assert!(read(&with("{ load = 0.7, size = [1, 64], estimate = [\"10m\", \"4h\"] }")).is_ok());
        for (jobs, words) in [
            ("{ load = 3.0 }", ["resource[1].jobs.load", "at most 2"]),
            ("{ load = 0.7, swf = \"x\" }", ["resource[1].jobs", "either"]),
            ("{ load = 0.7, size = [0, 4] }", ["resource[1].jobs.size", "from 1 to 64"]),
            ("{ load = 0.7, estimate = [\"2h\", \"1h\"] }", ["resource[1].jobs.estimate", "10m"]),
            ("{ load = 0.7, first = 3 }", ["resource[1].jobs.load", "for logs"]),
            ("{ swf = \"x\", seed = 3 }", ["resource[1].jobs.swf", "leave out"]),
        ] {
            refused(&with(jobs), &["line 7", words[0], words[1]]);
        }
        let real = format!("jobs = {{ processes = true }}\n{}", with("{ load = 0.7 }"));
        refused(&real, &["line 8", "resource[1].jobs", "pretended"]);
        let faster = format!(
            "jobs = {{ processes = true }}\nclock = {{ speed = 60, origin = \"2026-11-16T00:00:00Z\" }}\n{SMALL}"
        );
        refused(&faster, &["line 1", "jobs.processes", "processes = false"]);
    }

    #[test]
    fn a_batch_system_offers_only_what_it_can_reserve() {
        let with = |system: &str, batch: &str, tres: &str| {
            format!("{SMALL}batch = {{ {batch} }}\ntres = {{ {tres} }}\n[batch]\nsystem = \"{system}\"\n")
        };
        let (nodes, gpu) = ("unit = \"nodes\"", "\"gres/gpu\" = 2, mem = 9, \"license/qpu\" = 1");
        read(&with("slurm", nodes, gpu)).expect("a site");
        read(&with("slurm", "", "\"license/qpu\" = 1")).expect("a site");
        read(&with("pbs", "", "ngpus = 2, mem = 9")).expect("a site");
        let here = |word| ["line 8", "resource[1].tres", word];
        refused(&with("slurm", "", gpu), &here("whole nodes"));
        refused(&with("slurm", nodes, "ngpus = 2"), &here("gres/NAME"));
        refused(&with("pbs", "", gpu), &here("ngpus"));
        refused(&with("lsf", "", "mem = 9"), &here("only Slurm and PBS"));
    }

    #[test]
    fn a_batch_system_lives_in_real_time_and_says_what_is_missing() {
        let with = |batch: &str, resource: &str| format!("{SMALL}{resource}\n[batch]\n{batch}\n");
        let slurm = "system = \"slurm\"";
        let place = "batch = { partition = \"main\", unit = \"nodes\" }";
        let site = read(&with(slurm, place)).expect("a site");
        let batch = site.batch.expect("a batch system");
        assert_eq!((batch.system, batch.at_once), (crate::config::SystemName::Slurm, 8));
        let waits = [batch.time_out, batch.look_every, batch.answer_within].map(|wait| wait.seconds().0);
        assert_eq!(waits, [10, 10, 60]);
        refused(&format!("{SMALL}{place}\n"), &["line 7", "resource[1].batch", "system ="]);
        refused(&with("system = \"torque\"", ""), &["line 9", "torque", "`slurm`", "`maui`"]);
        for (batch, words) in [
            ("system = \"grid-engine\"", ["batch.parallel_environment", "qconf -spl"]),
            ("system = \"slurm\"\ntime_out = \"1h\"", ["batch.time_out", "10s"]),
            ("system = \"slurm\"\nat_once = 0", ["batch.at_once", "1 to 64"]),
            ("system = \"slurm\"\nlook_every = \"1ms\"", ["batch.look_every", "10s"]),
            ("system = \"slurm\"\nanswer_within = \"1h\"", ["batch.answer_within", "60s"]),
            ("system = \"lsf\"\nconf = \"x\"", ["batch.conf", "only Slurm"]),
            ("system = \"pbs\"\nconfirm_within = \"1h\"", ["batch.confirm_within", "1s to 5m"]),
            ("system = \"pbs\"\nconfirm_within = \"51s\"", ["batch.confirm_within", "answer_within"]),
            ("system = \"slurm\"\nbecome = [\"sudo\"]", ["batch.become", "{user}"]),
            ("system = \"slurm\"\naccounts = { ada = \"al1\" }", ["batch.accounts", "become"]),
            ("system = \"pbs\"\nproject = \"physics\"", ["batch.project", "only Slurm"]),
            ("system = \"pbs\"\nattract = true", ["batch.attract", "only Slurm"]),
            ("system = \"slurm\"\nattract = true", ["batch.attract", "become"]),
            ("system = \"lsf\"\nprojects = { ada = \"physics\" }", ["batch.projects", "only Slurm"]),
            ("system = \"slurm\"\nproject = \"-x\"", ["batch.project", "letters"]),
            (
                "system = \"slurm\"\nprojects = { \"ada\u{2800}\" = \"a\" }",
                ["batch.projects", "cannot be the name of a user"],
            ),
            ("system = \"slurm\"\nprojects = { ada = \"a,b\" }", ["batch.projects", "a,b"]),
        ] {
            refused(&with(batch, ""), &words);
        }
        refused(&with(slurm, "jobs = { load = 0.7 }"), &["line 7", "resource[1].jobs", "leave it out"]);
        let real = format!("jobs = {{ processes = true }}\n{}", with(slurm, ""));
        refused(&real, &["line 1", "jobs.processes", "batch system"]);
        let clock = "clock = { speed = 60, origin = \"2026-11-16T00:00:00Z\" }\n";
        refused(&format!("{clock}{}", with(slurm, "")), &["line 1", "clock.speed", "real time"]);
    }

    #[test]
    fn pbs_may_confirm_within_tens_of_seconds_where_the_answer_may_take_longer() {
        let confirm_within = |batch: &str| {
            let site = read(&format!("{SMALL}[batch]\nsystem = \"pbs\"\n{batch}\n")).expect("a site");
            site.batch.expect("a batch system").confirm_within().seconds().0
        };
        assert_eq!(confirm_within(""), 10);
        assert_eq!(confirm_within("confirm_within = \"50s\""), 50);
        assert_eq!(confirm_within("confirm_within = \"2m\"\nanswer_within = \"3m\""), 120);
        assert_eq!(confirm_within("answer_within = \"4s\""), 2);
    }

    #[test]
    fn a_call_waits_longer_than_the_batch_system_may_take() {
        let site = read(SMALL).expect("a site");
        assert_eq!(site.rules().expect("rules").consent, None, "the built-in scheduler is not asked");
        let slow =
            read(&format!("{SMALL}[batch]\nsystem = \"slurm\"\nanswer_within = \"2m\"\n")).expect("a site");
        assert_eq!(slow.rules().expect("rules").consent, Some(Millis::seconds(120)));
        assert!(slow.server_limits().patience > Length::of_seconds(120));
        let usual = read(&format!("{SMALL}[batch]\nsystem = \"slurm\"\n")).expect("a site");
        let client = bookahead_client::Options::default();
        assert!(
            usual.server_limits().patience.duration() < client.timeout && client.timeout < client.patience
        );
    }

    #[test]
    fn holds_last_as_long_in_real_time_however_fast_the_clock_is() {
        let clock = "clock = { speed = 60, origin = \"2026-11-16T00:00:00Z\" }\n";
        let site = read(&format!("{clock}{SMALL}")).expect("a site");
        assert_eq!(site.rules().expect("rules").holds.longest, Millis::seconds(300 * 60));
        assert_eq!(site.clock.clock().speed(), 60);
    }
}
