//! Whether a PBS can be used as it is configured, step by step. It makes one small reservation a year ahead and deletes it
//! again, and changes nothing else.

use super::commands::{Tools, text};
use super::vnodes::Vnodes;
use super::{Settings, booking};
use crate::batch::{Finding, Node, Picture, Place, Wanted};
use crate::command::Command;
use bookahead_plan::{Interval, Seconds, Time};
use serde_json::Value;

const YEAR: Seconds = Seconds(365 * 86_400);
const HOUR: Seconds = Seconds(3600);
/// As long as names of reservations really are: old versions take 15 characters.
const NAME: &str = "bookahead.examination.0123456789abcdef0123456789abcdef.0";

/// What is well, doubtful and wrong.
pub(super) fn examine(tools: &Tools, settings: &Settings) -> Vec<Finding> {
    let server = match tools.ask_json(&tools.command("qstat").args(["-B", "-f", "-F", "json"])) {
        Ok(server) => server,
        Err(error) => {
            let advice = "see whether the server runs, /etc/pbs.conf, and that this is PBS 14.1 or later";
            return vec![Finding::wrong("server", error.to_string(), advice)];
        }
    };
    let version = text(&server["pbs_version"]).unwrap_or_else(|| "unknown".into());
    let mut findings = vec![Finding::well("server", format!("it answers, version {version}"))];
    let attributes = server["Server"].as_object().and_then(|servers| servers.values().next());
    findings.extend(attributes.into_iter().flat_map(server_findings));
    match Vnodes::ask(tools, &settings.places) {
        Err(error) => findings.push(Finding::wrong("vnodes", error.to_string(), "see pbsnodes -av -F json")),
        Ok((clock, vnodes)) => {
            let picture = Picture { clock, nodes: vnodes.into_nodes(), ..Picture::default() };
            findings.extend(settings.places.iter().map(|place| place_finding(place, &picture.nodes)));
            findings.extend(settings.places.first().map(|place| privilege(tools, settings, place, &picture)));
        }
    }
    findings
}

fn server_findings(server: &Value) -> [Finding; 3] {
    let is_true = |name: &str| text(&server[name]).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let scheduling = if is_true("scheduling") {
        Finding::well("scheduler", "it is on")
    } else {
        Finding::wrong("scheduler", "it is off", "run: qmgr -c 'set server scheduling = true'")
    };
    let history = if is_true("job_history_enable") {
        Finding::well("history", "ended jobs are remembered")
    } else {
        let advice = "how jobs ended will not be known; run: qmgr -c 'set server job_history_enable = true'";
        Finding::doubtful("history", "ended jobs are forgotten", advice)
    };
    let default = text(&server["resources_default"]["walltime"]);
    let limits = match default {
        Some(walltime) => Finding::well("jobs without a limit", format!("they get {walltime}")),
        None => {
            let advice = "where one runs no reservation is granted for years; run: qmgr -c 'set server \
                 resources_default.walltime = 24:00:00', or the same for each queue";
            Finding::doubtful("jobs without a limit", "they run for ever", advice)
        }
    };
    [scheduling, history, limits]
}

fn place_finding(place: &Place, nodes: &[Node]) -> Finding {
    let what = format!("resource {}", place.resource);
    let mine: Vec<&Node> = nodes.iter().filter(|node| node.resources.contains(&place.resource)).collect();
    let usable = mine.iter().filter(|node| node.usable).count();
    let cores: u64 = mine.iter().map(|node| u64::from(node.cores)).sum();
    let seen = format!("{cores} cores on {} vnodes, {usable} of them usable", mine.len());
    if mine.is_empty() {
        Finding::wrong(what, "no vnode belongs to it", "see pbsnodes -av, and correct queue and features")
    } else if usable < mine.len() {
        Finding::doubtful(what, seen, "see pbsnodes -l")
    } else {
        Finding::well(what, seen)
    }
}

/// Makes a reservation of one core or node a year ahead, and deletes it again.
fn privilege(tools: &Tools, settings: &Settings, place: &Place, picture: &Picture) -> Finding {
    let what = "reserving";
    let account = tools.run(&Command::new("id").arg("-un")).map(|outcome| outcome.out.trim().to_owned());
    let Ok(account) = account else {
        return Finding::doubtful(
            what,
            "id -un does not say as whom the commands run",
            "see whether it works there",
        );
    };
    let wanted = Wanted {
        name: NAME.into(),
        place: place.clone(),
        interval: Interval::starting(picture.clock.unwrap_or(Time(0)) + YEAR, HOUR),
        amount: 1,
        account: account.clone(),
    };
    let made = booking::create(tools, settings.decided_within, &wanted, picture);
    match made.and_then(|handle| booking::delete(tools, &handle)) {
        Ok(()) => Finding::well(what, format!("{account} may make and delete reservations")),
        Err(error) => {
            let advice = "see acl_resv_enable and acl_resv_users of the server, and that names of 60 characters are taken";
            Finding::wrong(what, error.to_string(), advice)
        }
    }
}
