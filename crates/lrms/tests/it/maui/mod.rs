//! Torque with Maui, driven end to end by commands with answers from their documentation. Nothing here was recorded
//! from a real Maui.

mod create;
mod jobs;
mod look;

use crate::scripted::Scripted;
use bookahead_lrms::batch::{Handle, Node, Picture, Place, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_lrms::maui::{Maui, Settings};
use bookahead_plan::{Interval, Time};
use bookahead_protocol::Name;

/// Midnight before the 15th of November 2026.
const MIDNIGHT: i64 = 1_794_700_800;
const QSTAT: &str = include_str!("fixtures/qstat.xml");
const NO_JOBS: &str = "<?xml version=\"1.0\"?>\n<Data></Data>\n";

fn commands() -> Scripted {
    let names = [
        "pbsnodes",
        "qstat",
        "qsub",
        "qdel",
        "qrls",
        "showq",
        "showres",
        "diagnose",
        "setres",
        "releaseres",
        "showconfig",
    ];
    Scripted::new(&names)
}

fn place(unit: Unit) -> Place {
    Place { resource: Name::from("cpu"), unit, partition: Some("batch".into()), features: vec!["big".into()] }
}

fn maui(commands: &Scripted) -> Maui {
    with(commands, commands.runner(), place(Unit::Cores))
}

fn with(commands: &Scripted, runner: Runner, place: Place) -> Maui {
    let (maui_bin, torque_bin) = (Some(commands.bin()), Some(commands.bin()));
    Maui::new(runner, Settings { places: vec![place], maui_bin, torque_bin, ..Settings::default() })
}

fn at(hour: i64, minute: i64) -> Time {
    Time(MIDNIGHT + hour * 3600 + minute * 60)
}

/// Six processors from two to three in the morning, for ann.
fn wanted() -> Wanted {
    Wanted {
        name: "ba.7.0".into(),
        place: place(Unit::Cores),
        interval: Interval::new(at(2, 0), at(3, 0)),
        amount: 6,
        account: "ann".into(),
        others: Vec::new(),
        terms: Default::default(),
        project: None,
        nodes: Vec::new(),
        tres: Default::default(),
    }
}

/// Three nodes of eight processors, and one outside of the resource.
fn picture() -> Picture {
    let node =
        |name: &str, resources: Vec<Name>| Node { name: name.into(), cores: 8, usable: true, resources };
    let ours = ["n1", "n2", "n3"].map(|name| node(name, vec![Name::from("cpu")]));
    let nodes = ours.into_iter().chain([node("old", Vec::new())]).collect();
    Picture { clock: Some(at(0, 0)), nodes, ..Picture::default() }
}

/// The output of `showres -n -g -v`: node, reservation, tasks, begin.
fn showres(rows: &[(&str, &str, u32, &str)]) -> String {
    let mut text = String::from(
        "reservations on Sun Nov 15 00:00:00\n\n NodeName Type ReservationID JobState Task Start Duration StartTime\n\n",
    );
    for (node, id, tasks, begin) in rows {
        let start = if *begin == "00:00:00" { "00:00:00" } else { "2:00:00" };
        let lasts = if *begin == "00:00:00" { "3:00:00" } else { "1:00:00" };
        text.push_str(&format!(
            "  {node}  User  {id}  N/A  {tasks}  {start}  {lasts}  Sun Nov 15 {begin} 2026\n"
        ));
    }
    text + &format!("{} nodes reserved\n", rows.len())
}

/// The output of `diagnose -r`: name, size of a task, user.
fn diagnose(about: &[(&str, &str, &str)]) -> String {
    let mut text =
        String::from("Diagnosing Reservations\nResID Type Par StartTime EndTime Duration Node Task Proc\n");
    for (id, procs, user) in about {
        text.push_str(&format!(
            "{id} User DEF 2:00:00 3:00:00 1:00:00 1 1 1\n    ACL: RES==x= USER=={user}+\n"
        ));
        text.push_str(&format!("    Task Resources: PROCS: {procs}\n"));
    }
    text + "\nActive Reserved Processors: 0\n"
}

fn handle() -> Handle {
    Handle("ba.7.0.0".into())
}
