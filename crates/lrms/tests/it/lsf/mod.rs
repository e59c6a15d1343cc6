//! LSF, driven end to end by commands with answers from its documentation. Nothing here was recorded from a real LSF.

mod change;
mod create;
mod jobs;
mod look;

use crate::scripted::Scripted;
use bookahead_lrms::batch::{Handle, Picture, Place, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_lrms::lsf::{Lsf, Settings};
use bookahead_plan::{Interval, Time};
use bookahead_protocol::Name;

/// Midnight before the 15th of November 2026.
const MIDNIGHT: i64 = 1_794_700_800;
const BHOSTS: &str = include_str!("fixtures/bhosts.json");
const BJOBS: &str = include_str!("fixtures/bjobs.json");
const NO_JOBS: &str = r#"{"COMMAND":"bjobs","JOBS":0,"RECORDS":[]}"#;
const HEAD: &str = "RSVID        TYPE      USER       NCPUS          RSV_HOSTS     TIME_WINDOW\n";
const NONE: &str = "No reservation found\n";

fn commands() -> Scripted {
    let names = [
        "date", "lsid", "bhosts", "bqueues", "bjobs", "bhist", "bsub", "bkill", "brsvs", "brsvadd",
        "brsvmod", "brsvdel", "bread",
    ];
    let commands = Scripted::new(&names);
    commands.says("date", &format!("{MIDNIGHT}\n"));
    commands
}

fn place(unit: Unit) -> Place {
    Place { resource: Name::from("cpu"), unit, partition: Some("normal".into()), features: Vec::new() }
}

fn lsf(commands: &Scripted) -> Lsf {
    with(commands, commands.runner(), place(Unit::Cores))
}

fn with(commands: &Scripted, runner: Runner, place: Place) -> Lsf {
    let date = commands.bin().join("date").to_str().unwrap().to_owned();
    let settings = Settings { places: vec![place], bin: Some(commands.bin()), date, ..Settings::default() };
    Lsf::new(runner, settings)
}

fn at(hour: i64, minute: i64) -> Time {
    Time(MIDNIGHT + hour * 3600 + minute * 60)
}

/// From two to three in the morning, for ann.
fn wanted(amount: u32) -> Wanted {
    Wanted {
        name: "ba_77_0".into(),
        place: place(Unit::Cores),
        interval: Interval::new(at(2, 0), at(3, 0)),
        amount,
        account: "ann".into(),
        others: Vec::new(),
        terms: Default::default(),
        project: None,
        nodes: Vec::new(),
        tres: Default::default(),
    }
}

/// Four idle hosts of eight slots.
fn picture() -> Picture {
    let node = |name: &str| bookahead_lrms::batch::Node {
        name: name.into(),
        cores: 8,
        usable: true,
        resources: vec![Name::from("cpu")],
    };
    let nodes = ["node1", "node2", "node3", "node4"].map(node).to_vec();
    Picture { clock: Some(at(0, 0)), nodes, ..Picture::default() }
}

/// The list with one reservation of ann.
fn listed(hosts: &[(&str, u32)], window: &str) -> String {
    let sum: u32 = hosts.iter().map(|(_, slots)| slots).sum();
    let mut text = HEAD.to_owned();
    for (number, (host, slots)) in hosts.iter().enumerate() {
        let begin = if number == 0 { format!("ba_77_0 user ann 0 / {sum}") } else { String::new() };
        let end = if number == 0 { window } else { "" };
        text.push_str(&format!("{begin}    {host}:0 / {slots}   {end}\n"));
    }
    text
}

/// The window of [`wanted`], with and without a year.
const WINDOW: &str = "2026/11/15/2/0-2026/11/15/3/0";
const WINDOW_WITHOUT_YEAR: &str = "11/15/2/0-11/15/3/0";

fn handle() -> Handle {
    Handle("ba_77_0".into())
}
