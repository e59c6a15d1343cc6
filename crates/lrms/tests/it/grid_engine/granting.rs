//! Grants and refusals: other reservations, running jobs, hosts that are down, accounts without permission.

use super::own_cell::{OwnCell, SLOTS, place};
use super::{reserve, stands, wanted};
use crate::scripted::{link, refusal};
use bookahead_lrms::batch::{BatchSystem, FactState, Grade, Place, ReservationSystem, Unit, Wanted};
use bookahead_plan::{Seconds, Time};

/// The name of the finding.
const RESERVING: &str = "making and deleting reservations";

#[test]
fn reservations_and_jobs_of_others_are_respected() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let now = engine.look().unwrap().clock.unwrap();
    let (begin, end) = (date(now, 600), date(now, 700));
    cell.done(&["qrsub", "-a", &begin, "-e", &end, "-pe", "smp", "6", "-N", "foreign&<"]);
    let picture = engine.look().unwrap();
    assert_eq!(picture.reservations.len(), 1);
    // Grid Engine prints it unescaped.
    assert_eq!(picture.reservations[0].name, "foreign&<");
    assert_eq!(picture.reservations[0].cores.values().sum::<u32>(), 6);

    assert!(refusal(reserve(&mut engine, 650, 100, 3)).contains("no suitable queues"));
    assert_eq!(engine.look().unwrap().reservations.len(), 1);
    reserve(&mut engine, 650, 100, 2).unwrap();
    reserve(&mut engine, 800, 100, SLOTS).unwrap();
    assert!(refusal(reserve(&mut engine, 800, 100, 1)).contains("no suitable queues"));
    assert!(refusal(reserve(&mut engine, 5000, 100, SLOTS + 1)).contains("no suitable queues"));

    let native = cell.submit(&["-pe", "smp", "3", "-l", "h_rt=0:1:0"], 60);
    cell.until("it runs", || {
        stands(&mut engine, &native).is_some_and(|fact| fact.state == FactState::Running)
    });
    assert!(refusal(reserve(&mut engine, 30, 10, 6)).contains("no suitable queues"));
    reserve(&mut engine, 30, 10, 5).unwrap();
    // Grid Engine plans a minute more, and so does the picture.
    assert_eq!(stands(&mut engine, &native).unwrap().limit, Some(Seconds(120)));
    assert!(refusal(reserve(&mut engine, 90, 10, SLOTS)).contains("no suitable queues"));
    reserve(&mut engine, 130, 10, SLOTS).unwrap();

    // A job without a limit blocks forever.
    cell.done(&["qdel", &native]);
    cell.done(&["qrdel", "-u", "*"]);
    let endless = cell.submit(&["-pe", "smp", "1"], 600);
    cell.until("it runs", || {
        stands(&mut engine, &endless).is_some_and(|fact| fact.state == FactState::Running)
    });
    assert_eq!(stands(&mut engine, &endless).unwrap().limit, None);
    assert!(refusal(reserve(&mut engine, 100_000, 10, SLOTS)).contains("without h_rt"));
    reserve(&mut engine, 100_000, 10, SLOTS - 1).unwrap();
}

/// A time in the format of `qrsub`.
fn date(now: Time, ahead: i64) -> String {
    let at = format!("@{}", now.0 + ahead);
    let output =
        std::process::Command::new("date").args(["-u", "-d", &at, "+%Y%m%d%H%M.%S"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn nothing_is_reserved_where_no_job_can_run() {
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let stale = engine.look().unwrap();
    let promised = reserve(&mut engine, 2000, 100, 2).unwrap();
    cell.done(&["qmod", "-d", "all.q"]);
    let picture = engine.look().unwrap();
    assert!(!picture.nodes[0].usable);
    // Grid Engine would grant it.
    let wanted = wanted(picture.clock.unwrap(), 1000, 100, 2);
    assert!(refusal(engine.create(&wanted, &picture)).contains("usable"));
    assert!(refusal(engine.create(&wanted, &stale)).contains("no job can run"));
    cell.done(&["qmod", "-e", "all.q"]);
    reserve(&mut engine, 1000, 100, 2).unwrap();

    cell.stop_execd();
    cell.until("the host is missed", || !engine.look().unwrap().nodes[0].usable);
    let picture = engine.look().unwrap();
    assert!(picture.reservations.iter().any(|reserved| reserved.handle == promised));
    assert!(refusal(engine.create(&wanted, &stale)).contains("no job can run"));
    assert_eq!(engine.look().unwrap().reservations.len(), 2);
}

#[test]
fn what_cannot_be_promised_is_refused_with_a_reason_and_found_by_an_examination() {
    let cell = OwnCell::start();
    let engine = cell.engine();
    assert!(engine.examine().iter().all(|finding| finding.grade == Grade::Well), "{:?}", engine.examine());
    assert!(engine.look().unwrap().reservations.is_empty());

    let picture = engine.look().unwrap();
    let good = wanted(picture.clock.unwrap(), 100, 100, 2);
    let nodes = Place { unit: Unit::Nodes, ..place("all.q") };
    let mut whole = good.clone();
    whole.place = nodes.clone();
    assert!(refusal(engine.create(&whole, &picture)).contains("whole hosts cannot be promised"));
    let mut stranger = good.clone();
    stranger.account = "nobody-of-that-name".into();
    assert!(refusal(engine.create(&stranger, &picture)).contains("not known as a user"));
    for account in ["", "a,b", "@arusers", "-x"] {
        stranger.account = account.into();
        assert!(refusal(engine.create(&stranger, &picture)).contains("account"));
    }
    // Grid Engine cuts names to a hundred characters, silently.
    let longest = engine.traits().longest_name;
    let named = |length: usize| Wanted { name: "n".repeat(length), ..good.clone() };
    assert!(refusal(engine.create(&named(longest + 1), &picture)).contains("it is called"));
    let handle = engine.create(&named(longest), &picture).unwrap().handle;
    engine.delete(&handle).unwrap();
    assert!(engine.look().unwrap().reservations.is_empty());

    let mut settings = cell.settings();
    settings.places = vec![nodes, Place { resource: "other".into(), ..place("nope.q") }];
    settings.parallel_environment = "nope".into();
    let findings = cell.engine_with(settings).examine();
    let wrong: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.grade == Grade::Wrong)
        .map(|finding| finding.what.as_str())
        .collect();
    assert_eq!(wrong, ["parallel environment nope", "the resource cpu", "the resource other", RESERVING]);

    let mut settings = cell.settings();
    settings.bin = Some(as_nobody(&cell));
    let mut unprivileged = cell.engine_with(settings);
    assert!(refusal(reserve(&mut unprivileged, 100, 10, 1)).contains("qconf -au"));
    let findings = unprivileged.examine();
    let told = findings.iter().find(|finding| finding.grade == Grade::Wrong).unwrap();
    assert!(told.what == RESERVING && told.advice.as_ref().unwrap().contains("arusers"));
    let ours = engine.create(&good, &picture).unwrap().handle;
    refusal(unprivileged.delete(&ours));
    cell.done(&["qconf", "-au", "nobody", "arusers"]);
    assert!(refusal(unprivileged.delete(&ours)).contains("privileges"));
    assert_eq!(engine.look().unwrap().reservations[0].handle, ours);
    let handle = reserve(&mut unprivileged, 100, 10, 1).unwrap();
    unprivileged.delete(&handle).unwrap();
}

/// A folder with the commands, run as an account without permissions.
fn as_nobody(cell: &OwnCell) -> std::path::PathBuf {
    let folder = cell.path("nobody");
    let programs = ["qstat", "qrstat", "qrsub", "qrdel", "qconf", "qacct", "qselect"];
    link(&folder, "grid_engine/as_nobody.sh", &programs);
    folder
}
