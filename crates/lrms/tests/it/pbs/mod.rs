//! PBS, driven as a site drives it, against commands that print what the manual pages pbs_rsub(1B), pbs_rstat(1B), pbs_ralter(1B),
//! qstat(1B) and pbsnodes(8B) and the PBS Professional Reference Guide describe. No PBS was there to try it with.

mod create;
mod jobs;
mod look;

use crate::scripted::Scripted;
use bookahead_lrms::batch::{Place, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_lrms::pbs::{Pbs, Settings};
use bookahead_plan::{Interval, Time};
use std::time::Duration;

/// What reservations are called.
const NAME: &str = "ba.site.0123456789abcdef0123456789abcdef.0.ann";

/// With the vnodes, jobs and reservations of the fixtures.
fn commands() -> Scripted {
    let names =
        ["pbsnodes", "qstat", "qsub", "qdel", "pbs_rstat", "pbs_rsub", "pbs_ralter", "pbs_rdel", "qalter"];
    let commands = Scripted::new(&names);
    commands.says("pbsnodes", include_str!("fixtures/pbsnodes.json"));
    commands.says("qstat", include_str!("fixtures/qstat.json"));
    commands.says("pbs_rstat", include_str!("fixtures/pbs_rstat.txt"));
    commands.says("pbs_rdel", "");
    commands
}

fn pbs(commands: &Scripted) -> Pbs {
    Pbs::new(commands.runner(), settings(commands))
}

/// One that waits for its commands for a moment only.
fn impatient(commands: &Scripted) -> Pbs {
    Pbs::new(Runner::local(Duration::from_millis(300)), settings(commands))
}

fn settings(commands: &Scripted) -> Settings {
    Settings { bin: Some(commands.bin()), ..Settings::new(vec![place(Unit::Cores)]) }
}

fn place(unit: Unit) -> Place {
    Place { resource: "cpu".into(), unit, partition: Some("workq".into()), features: Vec::new() }
}

/// From 11:33:20 to 11:35:00, as the fixtures have it.
fn wanted(amount: u32) -> Wanted {
    Wanted {
        name: NAME.into(),
        place: place(Unit::Cores),
        interval: Interval::new(Time(1_794_742_400), Time(1_794_742_500)),
        amount,
        account: "ann".into(),
        project: None,
        nodes: Vec::new(),
    }
}

/// One confirmed reservation as `pbs_rstat -F` shows it.
fn shown(begin: &str, end: &str, select: &str, place: &str, nodes: &str) -> String {
    format!(
        "Resv ID: R9.pbs1\nReserve_Name = {NAME}\nReserve_Owner = root@login\nreserve_state = RESV_CONFIRMED\n\
         reserve_start = Sun Nov 15 {begin} 2026\nreserve_end = Sun Nov 15 {end} 2026\nqueue = R9\n\
         Resource_List.place = {place}\nResource_List.select = {select}\nresv_nodes = {nodes}\n\
         Authorized_Users = ann@*\n\n"
    )
}

/// Two cores on n1 and two on n2, from 11:33:20 to the given end.
fn four_until(end: &str) -> String {
    shown("11:33:20", end, "4:ncpus=1", "free", "(n1:ncpus=1)+(n1:ncpus=1)+(n2:ncpus=1)+(n2:ncpus=1)")
}
