//! Configuration of recurring maintenance windows.

use super::common::in_list;
use super::error::{Wrong, check_name};
use super::site::SiteConfig;
use bookahead_lrms::maintenance::{KNOWN_AHEAD, Rule, Window};
use bookahead_protocol::ledger;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Most windows of a site, to bound the time that a plan around them takes.
const MOST_WINDOWS: usize = 32;

/// A recurring maintenance window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct MaintenanceConfig {
    #[serde(default = "default_name")]
    pub name: String,
    pub rule: Option<String>,
    pub start: Option<String>,
    pub from: String,
    pub to: String,
    pub zone: String,
    pub resource: Option<String>,
}

fn default_name() -> String {
    "maintenance".into()
}

impl MaintenanceConfig {
    fn window(&self, site: &SiteConfig) -> Result<Window, Wrong> {
        check_name("a maintenance window", &self.name)?;
        if self.name.contains('`') {
            return Err(Wrong::new("name", "messages quote the name in `…`; leave ` out of it"));
        }
        let known = |name: &String| site.resources.iter().any(|resource| resource.name == *name);
        if let Some(unknown) = self.resource.as_ref().filter(|name| !known(name)) {
            let why =
                format!("there is no resource {}; leave it out for all resources", unknown.escape_debug());
            return Err(Wrong::new("resource", why));
        }
        let start = self.start.as_deref().map(day).transpose()?;
        let rule = match (&self.rule, start) {
            (Some(rule), start) => Rule::parse(rule, start).map_err(|why| Wrong::new("rule", why))?,
            (None, Some(day)) => Rule::once(day),
            (None, None) => {
                let why =
                    "give a rule such as \"FREQ=WEEKLY;BYDAY=WE\", or the only day as start = \"2026-11-18\"";
                return Err(Wrong::new("rule", why));
            }
        };
        let zone = TimeZone::get(&self.zone).map_err(|_| {
            let zone = self.zone.escape_debug();
            let why = format!(
                "unknown time zone \"{zone}\"; use a name of the tz database, such as \"Europe/Zurich\""
            );
            Wrong::new("zone", why)
        })?;
        Ok(Window {
            name: self.name.as_str().into(),
            resource: self.resource.as_deref().map(Into::into),
            rule,
            from: clock("from", &self.from)?,
            to: clock("to", &self.to)?,
            zone,
        })
    }
}

fn day(text: &str) -> Result<Date, Wrong> {
    let wrong = || format!("start must be a day such as \"2026-11-18\", not \"{}\"", text.escape_debug());
    Date::strptime("%Y-%m-%d", text).map_err(|_| Wrong::new("start", wrong()))
}

/// A time of day. Midnight at the end of a day may be written as 24:00.
fn clock(field: &'static str, text: &str) -> Result<Time, Wrong> {
    let wrong =
        || format!("{field} must be a time of day such as \"08:00\", not \"{}\"", text.escape_debug());
    let text = if text == "24:00" && field == "to" { "00:00" } else { text };
    Time::strptime("%H:%M", text).map_err(|_| Wrong::new(field, wrong()))
}

impl SiteConfig {
    /// The recurring maintenance windows.
    pub fn windows(&self) -> Result<Vec<Window>, Wrong> {
        if self.maintenance.len() > MOST_WINDOWS {
            let why =
                format!("there are {} windows; at most {MOST_WINDOWS} are possible", self.maintenance.len());
            return Err(Wrong::new("maintenance", why));
        }
        in_list("maintenance", self.maintenance.iter().map(|one| one.window(self).map(drop)))?;
        self.maintenance.iter().map(|one| one.window(self)).collect()
    }

    /// Lets no booking reach beyond the time for which the windows are known.
    pub(super) fn limit_horizon(&self, limits: &mut ledger::Limits) {
        if self.maintenance.is_empty() {
            return;
        }
        let users = limits.users.values_mut().chain(limits.roles.values_mut());
        for limits in users.chain([&mut limits.default]) {
            limits.horizon = Some(limits.horizon.map_or(KNOWN_AHEAD, |horizon| horizon.min(KNOWN_AHEAD)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Seconds;
    use std::path::Path;

    fn read(maintenance: &str) -> Result<SiteConfig, String> {
        let text = format!(
            "name = \"north\"\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 8\n\
             [[maintenance]]\n{maintenance}\n"
        );
        SiteConfig::parse(Path::new("site.toml"), &text).map_err(|why| why.to_string())
    }

    const WEEKLY: &str =
        "rule = \"FREQ=WEEKLY;BYDAY=WE\"\nfrom = \"08:00\"\nto = \"12:00\"\nzone = \"Europe/Zurich\"";

    #[test]
    fn a_window_has_a_rule_and_times_and_limits_how_far_ahead_is_booked() {
        let site = read(WEEKLY).unwrap();
        let windows = site.windows().unwrap();
        assert_eq!((windows.len(), windows[0].name.as_str()), (1, "maintenance"));
        assert_eq!(site.rules().unwrap().limits.default.horizon, Some(KNOWN_AHEAD));
        let shorter = SiteConfig {
            limits: super::super::Limits {
                horizon: Some(bookahead_api::Length::of_seconds(60)),
                ..site.limits
            },
            ..site
        };
        assert_eq!(shorter.rules().unwrap().limits.default.horizon, Some(Seconds(60)));
        let once =
            read("name = \"move\"\nstart = \"2026-12-01\"\nfrom = \"00:00\"\nto = \"24:00\"\nzone = \"UTC\"");
        assert_eq!(once.unwrap().windows().unwrap()[0].name.as_str(), "move");
    }

    #[test]
    fn a_window_that_is_wrong_says_where_and_what_to_write() {
        for (from, to, words) in [
            ("BYDAY=WE", "BYDAY=XX", ["line 7", "maintenance[1].rule", "MO,WE"]),
            ("FREQ=WEEKLY;BYDAY=WE", "FREQ=DAILY;COUNT=2", ["line 7", "maintenance[1].rule", "UNTIL"]),
            ("08:00", "8 o'clock", ["line 8", "maintenance[1].from", "\"08:00\""]),
            ("12:00", "25:00", ["line 9", "maintenance[1].to", "\"08:00\""]),
            ("Europe/Zurich", "Europe/Atlantis", ["line 10", "maintenance[1].zone", "Europe/Zurich"]),
            ("zone", "resource = \"other\"\nzone", ["line 10", "maintenance[1].resource", "all resources"]),
            ("zone", "start = \"tomorrow\"\nzone", ["line 10", "maintenance[1].start", "2026-11-18"]),
            ("zone", "name = \"a`b\"\nzone", ["line 10", "maintenance[1].name", "quote"]),
            ("rule = \"FREQ=WEEKLY;BYDAY=WE\"", "", ["maintenance[1]", "rule", "FREQ=WEEKLY"]),
        ] {
            let why = read(&WEEKLY.replacen(from, to, 1)).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{to}: {why}");
        }
    }
}
