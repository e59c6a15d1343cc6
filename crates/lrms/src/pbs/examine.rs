//! Whether a PBS can be used as it is configured, step by step. It makes one small reservation a year ahead and deletes it
//! again, and changes nothing else.

use super::Pbs;
use super::nodes::Vnodes;
use super::{ask_json, text};
use crate::batch::{Finding, Picture, Place, ReservationSystem};
use crate::dialect::{Trial, resource};
use bookahead_plan::{Seconds, Time};
use serde_json::Value;

const YEAR: Seconds = Seconds(365 * 86_400);
const HOUR: Seconds = Seconds(3600);
/// As long as names of reservations really are: old versions take 15 characters.
const NAME: &str = "bookahead.examination.0123456789abcdef0123456789abcdef.0";

pub(super) fn examine(pbs: &Pbs) -> Vec<Finding> {
    let (tools, settings) = (&pbs.tools, &pbs.settings);
    let server = match ask_json(tools, &tools.command("qstat").args(["-B", "-f", "-F", "json"])) {
        Ok(server) => server,
        Err(error) => {
            let advice = "see whether the server runs, /etc/pbs.conf, and that this is PBS 14.1 or later";
            return vec![Finding::wrong("server", error, advice)];
        }
    };
    let version = text(&server["pbs_version"]).unwrap_or_else(|| "unknown".into());
    let mut findings = vec![Finding::well("server", format!("it answers, version {version}"))];
    let attributes = server["Server"].as_object().and_then(|servers| servers.values().next());
    findings.extend(attributes.into_iter().flat_map(server_findings));
    match Vnodes::ask(tools, &settings.places) {
        Err(error) => findings.push(Finding::wrong("vnodes", error, "see pbsnodes -av -F json")),
        Ok((clock, vnodes)) => {
            let picture = Picture { clock, nodes: vnodes.into_nodes(), ..Picture::default() };
            let none = "see pbsnodes -av, and correct queue and features";
            let of = |place| resource(place, &picture.nodes, ["cores", "vnodes"], none, "see pbsnodes -l");
            findings.extend(settings.places.iter().map(of));
            findings.extend(settings.places.first().map(|place| privilege(pbs, place, &picture)));
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

/// Makes a reservation of one core or vnode a year ahead, and deletes it again.
fn privilege(pbs: &Pbs, place: &Place, picture: &Picture) -> Finding {
    let trial = Trial {
        name: NAME,
        place: place.clone(),
        begin: picture.clock.unwrap_or(Time(0)) + YEAR,
        lasts: HOUR,
        advice:
            "see acl_resv_enable and acl_resv_users of the server, and that names of 60 characters are taken"
                .into(),
    };
    trial.finding(&pbs.tools, |wanted| pbs.delete(&pbs.create(wanted, picture)?.handle))
}
