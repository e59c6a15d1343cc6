//! PBS, driven as by a site, against scripted commands with recorded output of OpenPBS 23.06.06; see the README of
//! the fixtures.

mod create;
mod jobs;
mod look;
mod tres;

use crate::scripted::Scripted;
use bookahead_lrms::batch::{Place, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_lrms::pbs::{Pbs, Settings};
use bookahead_plan::{Interval, Seconds, Time};
use std::time::Duration;

/// The name of the reservations.
const NAME: &str = "ba.site.0123456789abcdef0123456789abcdef.0.ann";

/// With the vnodes, jobs and reservations of the fixtures.
fn commands() -> Scripted {
    let names = [
        "pbsnodes",
        "qstat",
        "qsub",
        "qdel",
        "qrls",
        "pbs_rstat",
        "pbs_rsub",
        "pbs_ralter",
        "pbs_rdel",
        "qalter",
        "qmgr",
    ];
    let commands = Scripted::new(&[&names[..], &["date", "id"]].concat());
    commands.says("date", "1794828400\n");
    commands.says("id", "ann\n");
    commands.says("pbsnodes", include_str!("fixtures/pbsnodes.dsv"));
    commands.says("qstat", include_str!("fixtures/qstat.dsv"));
    commands.says("qmgr", include_str!("fixtures/sched.txt"));
    commands.says("pbs_rstat", include_str!("fixtures/pbs_rstat.txt"));
    commands.says("pbs_rdel", "");
    commands
}

fn pbs(commands: &Scripted) -> Pbs {
    Pbs::new(commands.runner(), settings(commands))
}

/// A PBS with a very short timeout.
fn impatient(commands: &Scripted) -> Pbs {
    let settings = Settings { confirm_within: Seconds(0), ..settings(commands) };
    Pbs::new(Runner::local(Duration::from_millis(300)), settings)
}

fn settings(commands: &Scripted) -> Settings {
    let program = |name: &str| commands.bin().join(name).to_str().unwrap().to_owned();
    let (bin, date, id) = (Some(commands.bin()), program("date"), program("id"));
    Settings { bin, date, id, ..Settings::new(vec![place(Unit::Cores)]) }
}

fn place(unit: Unit) -> Place {
    Place { resource: "cpu".into(), unit, partition: Some("workq".into()), features: Vec::new() }
}

/// From 11:33:20 to 11:35:00, as in the fixtures.
fn wanted(amount: u32) -> Wanted {
    Wanted {
        name: NAME.into(),
        place: place(Unit::Cores),
        interval: Interval::new(Time(1_794_828_800), Time(1_794_828_900)),
        amount,
        account: "ann".into(),
        others: Vec::new(),
        terms: Default::default(),
        project: None,
        nodes: Vec::new(),
        tres: Default::default(),
    }
}

/// One confirmed reservation in the output of `pbs_rstat -F`.
fn shown(begin: &str, end: &str, select: &str, place: &str, nodes: &str) -> String {
    format!(
        "Resv ID: R9.pbs1\nReserve_Name = {NAME}\nReserve_Owner = root@pbs1\nreserve_state = RESV_CONFIRMED\n\
         reserve_start = Mon Nov 16 {begin} 2026\nreserve_end = Mon Nov 16 {end} 2026\nqueue = R9\n\
         Resource_List.place = {place}\nResource_List.select = {select}\nresv_nodes = {nodes}\n\
         Authorized_Users = ann@*\n\n"
    )
}

/// Two cores on n1 and two on n2, from 11:33:20 to the given end.
fn four_until(end: &str) -> String {
    shown("11:33:20", end, "4:ncpus=1", "free", "(n1:ncpus=1)+(n1:ncpus=1)+(n2:ncpus=1)+(n2:ncpus=1)")
}
