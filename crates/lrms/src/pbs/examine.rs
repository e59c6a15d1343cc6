//! Checks for an operator whether a PBS can be used as configured. It creates one small reservation a year ahead and
//! deletes it; it changes nothing else.

use super::Pbs;
use super::nodes::{Takes, Vnodes};
use super::records::{self, Record, SERVER};
use crate::batch::{Finding, Picture, Place, ReservationSystem, Unit};
use crate::dialect::{Tools, Trial, resource, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};

// A year ahead running jobs with a limit are over, and hardly any reservation is in the way.
const YEAR: Seconds = Seconds(365 * 86_400);
const HOUR: Seconds = Seconds(3600);
/// As long as real names of reservations: old versions accept only 15 characters.
const NAME: &str = "bookahead.examination.0123456789abcdef0123456789abcdef.0";

pub(super) fn examine(pbs: &Pbs) -> Vec<Finding> {
    let (tools, settings) = (&pbs.tools, &pbs.settings);
    let server = match server(tools) {
        Ok(server) => server,
        Err(error) => {
            let advice = "check that the server runs, /etc/pbs.conf, and that this is PBS 14.1 or later";
            return vec![Finding::wrong("server", error, advice)];
        }
    };
    let version = server.text("pbs_version").unwrap_or("unknown");
    let mut findings = vec![Finding::well("server", format!("it answers, version {version}"))];
    let account = tools.account();
    findings.push(scheduler(tools, &server));
    findings.extend(server_findings(&server));
    findings.extend(account.as_deref().and_then(|account| others(&server, account)));
    match Vnodes::ask(tools, &settings.places) {
        Err(error) => findings.push(Finding::wrong("vnodes", error, "check pbsnodes -av -F dsv")),
        Ok((vnodes, _)) => {
            let nodes = vnodes.nodes().cloned().collect();
            let picture = Picture { clock: tools.clock().ok(), nodes, ..Picture::default() };
            let none = "check pbsnodes -av, and correct queue and features";
            let of = |place| resource(place, &picture.nodes, ["cores", "vnodes"], none, "check pbsnodes -l");
            findings.extend(settings.places.iter().map(of));
            findings.extend(settings.places.iter().filter_map(|place| exclusive(place, &vnodes)));
            findings.extend(
                settings.places.first().map(|place| privilege(pbs, place, &picture, account.as_deref())),
            );
        }
    }
    findings
}

fn server(tools: &Tools) -> Result<Record, LrmsError> {
    let command = tools.command("qstat").args(["-B", "-f", "-F", "dsv"]);
    let servers = records::read(&tools.ask(&command)?, &SERVER);
    let server = servers.and_then(|servers| servers.into_iter().next());
    server.ok_or_else(|| unreadable(&command, "it shows no server"))
}

/// `scheduling` says only whether scheduling is enabled; the state of the scheduler says whether it runs.
fn scheduler(tools: &Tools, server: &Record) -> Finding {
    let what = "scheduler";
    if !server.is_true("scheduling") {
        return Finding::wrong(what, "it is off", "run: qmgr -c 'set server scheduling = true'");
    }
    // A failure only means that the state of the scheduler is unknown.
    let listed = tools.ask(&tools.command("qmgr").args(["-c", "list sched"])).unwrap_or_default();
    let states = listed.lines().filter_map(|line| line.trim().strip_prefix("state = "));
    let states: Vec<&str> = states.map(str::trim).collect();
    match states.iter().find(|state| **state != "down") {
        Some(state) => Finding::well(what, format!("it is on and {state}")),
        None if states.is_empty() => {
            let advice = "run: qmgr -c 'list sched', and check that its state is not down";
            Finding::doubtful(what, "it is on; its state is unknown", advice)
        }
        None => {
            let advice =
                "no reservation would be decided; start pbs_sched, for example with: systemctl restart pbs";
            Finding::wrong(what, "it is on, but no scheduler answers (state = down)", advice)
        }
    }
}

fn server_findings(server: &Record) -> [Finding; 2] {
    let history = if server.is_true("job_history_enable") {
        Finding::well("history", "finished jobs are remembered")
    } else {
        let advice =
            "the results of jobs will be unknown; run: qmgr -c 'set server job_history_enable = true'";
        Finding::doubtful("history", "finished jobs are forgotten", advice)
    };
    let limits = match server.text("resources_default.walltime") {
        Some(walltime) => Finding::well("jobs without a limit", format!("they get {walltime}")),
        None => {
            let advice = "while one runs, its cores cannot be reserved for years; run: qmgr -c 'set server \
                 resources_default.walltime = 24:00:00', or the same for each queue";
            Finding::doubtful("jobs without a limit", "they run forever", advice)
        }
    };
    [history, limits]
}

/// Whether jobs of other users are visible. Managers and operators always see them.
fn others(server: &Record, account: &str) -> Option<Finding> {
    let hidden = server.text("query_other_jobs").is_some_and(|value| value.eq_ignore_ascii_case("false"));
    let lists = ["managers", "operators"].into_iter().filter_map(|name| server.text(name));
    let is_account = |entry: &str| entry.trim().split('@').next() == Some(account);
    let listed = lists.into_iter().any(|list| list.split(',').any(is_account));
    // PBS treats root on the host of its server as a manager, listed or not.
    if !hidden || listed || account == "root" {
        return None;
    }
    let seen =
        format!("query_other_jobs is False: {account} sees only its own jobs, so the queue seems empty");
    let advice = format!(
        "run: qmgr -c 'set server query_other_jobs = True', or: qmgr -c 'set server operators += {account}@*'"
    );
    Some(Finding::wrong("jobs of others", seen, advice))
}

/// Vnodes of which PBS grants more than requested.
fn exclusive(place: &Place, vnodes: &Vnodes) -> Option<Finding> {
    let exclusive = vnodes.exclusive(&place.resource);
    // Whole vnodes are promised anyway; only one that takes the other vnodes of its host takes too much.
    let by_host = |takes: Takes| takes == Takes::TheHost && vnodes.share_hosts(&place.resource);
    let odd = exclusive.iter().filter(|(_, takes)| place.unit == Unit::Cores || by_host(*takes));
    let odd: Vec<&str> = odd.map(|(name, _)| *name).collect();
    let first = odd.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    let (seen, advice) = match place.unit {
        Unit::Cores => ("one core occupies a whole vnode", "set unit = \"nodes\""),
        Unit::Nodes => ("one vnode occupies its whole host", "set sharing = default_excl"),
    };
    let what = format!("sharing of vnodes of {}", place.resource);
    let seen = format!("{seen} on {} of them: {first}", odd.len());
    (!odd.is_empty())
        .then(|| Finding::wrong(what, seen, format!("{advice}, or set sharing = default_shared")))
}

/// Creates a reservation of one core or vnode a year ahead, and deletes it.
fn privilege(pbs: &Pbs, place: &Place, picture: &Picture, account: Option<&str>) -> Finding {
    let mut advice =
        "check acl_resv_user_enable and acl_resv_users of the server (and acl_resv_host_enable, \
                      acl_resv_group_enable), and that names of 60 characters are accepted"
            .to_owned();
    if account == Some("root") {
        advice = format!("root may reserve only after: qmgr -c 'set server acl_roots += root@*'; {advice}");
    }
    let trial = Trial {
        name: NAME,
        place: place.clone(),
        begin: picture.clock.unwrap_or(Time(0)) + YEAR,
        lasts: HOUR,
        advice,
    };
    trial.finding(&pbs.tools, |wanted| pbs.delete(&pbs.create(wanted, picture)?.handle))
}
