//! The client commands against a real site or broker: output for people and programs, and exit codes.

use crate::asking::{Asking, SITE};
use crate::folder::{Folder, Ran, binary};
use crate::service::Service;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_probe_shows_what_could_be_had_and_how_to_hold_it() {
    let asking = Asking::site(SITE);
    let wanted = [
        "probe",
        "--capacity",
        "32",
        "--duration",
        "2h",
        "--from",
        "tomorrow 9:00",
        "--until",
        "tomorrow 17:00",
    ];
    let ran = asking.ends(0, &wanted);
    for word in
        ["begin (Europe/Berlin)", "north", "cluster", "tomorrow 09:00", "11:00", "jobs delayed", "1.600"]
    {
        assert!(ran.out.contains(word), "'{word}' is missing: {ran:?}");
    }
    assert!(ran.err.contains("note: 'tomorrow 09:00' is taken in Europe/Berlin: "), "{ran:?}");
    let held =
        shell(&asking, ran.err.lines().map(str::trim).find(|line| line.starts_with("bookahead ")).unwrap());
    assert_eq!(held.code, Some(0), "{held:?}");
    assert!(held.out.contains("held for ") && held.err.contains("bookahead commit rsv_"), "{held:?}");
    let offers = asking.document(&[&wanted[..], &["--most", "1", "--require", "gpus>=4"]].concat());
    assert_eq!(offers["offers"][0]["slots"][0]["site"], "north");
    assert_eq!(offers["offers"].as_array().unwrap().len(), 1);
}

#[test]
fn the_life_of_a_reservation_in_commands() {
    let asking = Asking::site(SITE);
    let id = asking.hold("32");
    let shown = asking.ends(0, &["show", &id]);
    assert!(shown.out.starts_with(&format!("{id}: held for 4:")), "{shown:?}");
    assert_eq!(asking.document(&["hold", &id, "--for", "4m"])["state"], "held");
    assert_eq!(asking.document(&["commit", &id])["state"], "committed");
    let listed =
        asking.document(&["list", "--state", "committed", "--mine", "--from", "-1h", "--until", "+3d"]);
    assert_eq!(listed["reservations"][0]["id"], Value::from(id.as_str()));
    let short = &id[.."rsv_4f3c2b1a".len()];
    let listed = asking.ends(0, &["list"]).out;
    assert!(listed.contains(short) && !listed.contains(&id), "{listed}");
    assert!(asking.ends(0, &["list", "--full-ids"]).out.contains(&id));
    assert!(
        asking.ends(0, &["show", short]).out.starts_with(&format!("{id}: committed")),
        "the begin is enough"
    );
    let changed = asking.document(&["change", &id, "--capacity", "16", "--duration", "90m"]);
    assert_eq!((&changed["slots"][0]["capacity"], &changed["version"]), (&16.into(), &2.into()));
    let kept = asking.document(&["release", &id, "--from", "tomorrow 10:00", "--keep", "4"]);
    assert_eq!(kept["state"], "committed");
    let calendar = asking.ends(0, &["calendar"]);
    assert!(calendar.out.starts_with("BEGIN:VCALENDAR") && calendar.out.contains(&id[..20]), "{calendar:?}");
    assert_eq!(asking.document(&["cancel", &id])["state"], "cancelled");
    let listed = asking.ends(0, &["list"]);
    assert!(
        listed.out.is_empty() && listed.err.contains("no reservations"),
        "what is over is not listed: {listed:?}"
    );
    assert!(asking.ends(0, &["list", "--state", "all"]).out.contains(short), "unless it is asked for");
    asking.ends(3, &["commit", &id]);
}

#[test]
fn usage_is_added_up_by_user_and_month() {
    let asking = Asking::site(SITE);
    let id = asking.hold("32");
    asking.ends(0, &["commit", &id]);
    let cancelled = asking.hold("8");
    asking.ends(0, &["commit", &cancelled]);
    asking.ends(0, &["cancel", &cancelled]);
    let period = ["--by", "user,month", "--from", "-1h", "--until", "+3d"];
    let usage = asking.document(&[&["usage"], &period[..]].concat());
    let row = &usage["rows"][0];
    assert_eq!((&row["reservations"], &row["cancelled"]), (&2.into(), &1.into()), "{usage}");
    assert_eq!((&row["booked_unit_hours"], &row["kept_unit_hours"]), (&80.0.into(), &64.0.into()));
    assert_eq!(usage["zone"], "Europe/Berlin");
    let shown = asking.ends(0, &[&["usage"], &period[..]].concat());
    let last = shown.out.lines().last().unwrap();
    assert!(last.starts_with("total") && last.contains("80.00") && last.contains("64.00"), "{shown:?}");
    assert!(shown.out.contains(row["month"].as_str().unwrap()), "{shown:?}");
    // By default it is this month, in which nothing may be booked yet on its last day.
    asking.ends(0, &["usage"]);
    let wrong = asking.ends(3, &["usage", "--by", "shoe-size"]);
    assert!(wrong.err.contains("user, project, site, resource or month"), "{wrong:?}");
}

#[test]
fn reservations_and_jobs_have_names_notes_and_labels_and_are_shared() {
    let asking = Asking::site(SITE);
    let reserve = ["reserve", "--book", "--capacity", "8", "--duration", "1h", "--from", "tomorrow 9:00"];
    let about =
        ["--until", "tomorrow 17:00", "--name", "MPI course", "--note", "room 5", "--label", "course=mpi"];
    let booked = asking.document(&[&reserve[..], &about, &["--with", "bob,eve"]].concat());
    let id = booked["id"].as_str().unwrap();
    assert_eq!((&booked["name"], &booked["labels"]["course"]), (&"MPI course".into(), &"mpi".into()));
    asking.ends(0, &["reserve", "--book", "--capacity", "8", "--duration", "1h", "--from", "tomorrow 8:00"]);
    let listed = asking.ends(0, &["list"]).out;
    assert!(listed.lines().next().unwrap().contains("name") && listed.contains("MPI course"), "{listed}");
    let found = asking.document(&["list", "--name", "mpi", "--label", "course=mpi"]);
    assert_eq!((&found["total"], &found["reservations"][0]["id"]), (&1.into(), &booked["id"]));
    assert_eq!(asking.document(&["list", "--name", "other"])["total"], 0);
    let shown = asking.ends(0, &["show", id]).out;
    for word in [
        "name",
        "MPI course",
        "room 5",
        "course=mpi",
        "bob (invited), eve (invited)",
        "created",
        "asked for",
        "8 processors for 1h",
    ] {
        assert!(shown.contains(word), "'{word}' is missing: {shown}");
    }
    let changed =
        asking.document(&["change", id, "--name", "OpenMP course", "--label", "course=", "--with", "bob"]);
    assert_eq!((&changed["name"], &changed["slots"]), (&"OpenMP course".into(), &booked["slots"]));
    assert_eq!((&changed["labels"], &changed["shared_with"]), (&Value::Null, &serde_json::json!(["bob"])));
    let moved = asking.document(&["change", id, "--capacity", "4"]);
    assert_eq!(
        (&moved["name"], &moved["note"]),
        (&"OpenMP course".into(), &"room 5".into()),
        "the rest stays"
    );
    assert!(asking.ends(0, &["calendar"]).out.contains("SUMMARY:OpenMP course"));
    let wrong = asking.ends(2, &["reserve", "--capacity", "1", "--duration", "1h", "--label", "course"]);
    assert!(wrong.err.contains("KEY=VALUE"), "{wrong:?}");
    let job = asking.document(&[
        "submit",
        "--pretend",
        "1m",
        "--limit",
        "2m",
        "--name",
        "step 1",
        "--label",
        "a=b",
    ]);
    assert_eq!(job["name"], "step 1");
    assert!(asking.ends(0, &["jobs", "--name", "STEP"]).out.contains("step 1"));
    assert_eq!(asking.document(&["jobs", "--label", "a=c"])["jobs"].as_array().unwrap().len(), 0);
}

#[test]
fn a_flexible_reservation_takes_as_much_as_there_is() {
    let asking = Asking::site(SITE);
    // Half of the cluster, from 9:00 to 11:00.
    asking.hold("32");
    let wanted = ["--capacity", "16..64", "--duration", "1h..4h"];
    let wanted = [&wanted[..], &["--from", "tomorrow 10:00", "--until", "tomorrow 12:00"]].concat();
    for (prefer, capacity, hours) in
        [("capacity", 64, [11, 12]), ("duration", 32, [10, 12]), ("earliest-begin", 32, [10, 12])]
    {
        let offers = asking.document(&[&["probe"], &wanted[..], &["--prefer", prefer]].concat());
        let slot = &offers["offers"][0]["slots"][0];
        assert_eq!(slot["capacity"], capacity, "{prefer}: {slot}");
        let hour = |name: &str| {
            let instant: jiff::Timestamp = slot[name].as_str().unwrap().parse().unwrap();
            i64::from(instant.in_tz("Europe/Berlin").unwrap().hour())
        };
        assert_eq!([hour("begin"), hour("end")], hours, "{prefer}: {slot}");
    }
    let reserve = [&["reserve", "--key", "flexible-1", "--id", "rsv_77"], &wanted[..]].concat();
    let held = asking.document(&reserve);
    assert_eq!(held["slots"][0]["capacity"], 64);
    let again = asking.document(&reserve);
    assert_eq!(again["slots"], held["slots"], "a repetition gets what was made, though the room is taken");
    let too_much = ["reserve", "--capacity", "33..64", "--duration", "1h", "--from", "tomorrow 10:00"];
    let no_room = asking.ends(3, &too_much);
    assert!(no_room.err.contains("error: no-room: "), "{no_room:?}");
    let wrong = asking.ends(2, &["probe", "--capacity", "64..32", "--duration", "1h", "--from", "+1h"]);
    assert!(wrong.err.contains("write 32..64"), "{wrong:?}");
}

#[test]
fn a_reservation_without_a_duration_lasts_until_it_is_released_and_at_most_until_the_end_that_was_told() {
    let asking = Asking::site(SITE);
    let immediate = ["reserve", "--capacity", "8", "--duration", "open", "--from", "now"];
    let hold = asking.ends(2, &immediate);
    assert!(hold.err.contains("add --book"), "{hold:?}");
    let booked = asking.ends(0, &[&immediate[..], &["--book"]].concat());
    assert!(booked.err.contains("it ends when you release it"), "{booked:?}");
    let listed = asking.document(&["list"]);
    let made = &listed["reservations"][0];
    let day = |name: &str| made["slots"][0][name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!((day("end") - day("begin")).total(jiff::Unit::Hour).unwrap(), 720.0);
    let id = made["id"].as_str().unwrap();
    asking.until(&["show", id], |shown| shown["state"] == "active");
    asking.ends(0, &["cancel", id]);
    assert_eq!(asking.document(&["show", id])["state"], "terminated");
}

#[test]
fn what_is_refused_ends_with_3_and_says_what_would_do_instead() {
    let asking = Asking::site(SITE);
    let id = asking.hold("32");
    asking.ends(0, &["commit", &id]);
    let too_much = ["reserve", "--capacity", "50", "--duration", "2h", "--from", "tomorrow 10:00"];
    let ran = asking.ends(3, &too_much);
    assert!(ran.out.is_empty() && ran.err.contains("error: no-room: "), "{ran:?}");
    assert!(ran.err.contains("blocked by a reservation, "), "{ran:?}");
    let commands: Vec<&str> =
        ran.err.lines().map(str::trim).filter(|line| line.starts_with("bookahead ")).collect();
    assert!(commands.len() >= 3, "{ran:?}");
    for command in commands {
        let instead = shell(&asking, command);
        assert_eq!(instead.code, Some(0), "{command}: {instead:?}");
        let id = instead.out.split(':').next().unwrap();
        asking.ends(0, &["cancel", id]);
    }
    let problem = asking.ends(3, &[&too_much[..], &["--json"]].concat()).json();
    assert_eq!((&problem["code"], &problem["status"]), (&"no-room".into(), &409.into()));
    let unknown = asking.ends(3, &["show", "rsv_77"]);
    assert!(unknown.err.contains("error: unknown: rsv_77 is not known here"), "{unknown:?}");
}

#[test]
fn a_command_makes_one_request() {
    let asking = Asking::site_with_programs(SITE);
    let tomorrow = ["--capacity", "4", "--duration", "1h", "--from", "tomorrow 9:00", "--until", "+3d"];
    // A whole id: a shorter one is looked up first.
    let id = "rsv_753a2d0ded89d8bbb038ba84405d9ee3";
    let hold = [&["reserve", "--id", id], &tomorrow[..]].concat();
    let commands: [&[&str]; 12] = [
        &[&["probe"], &tomorrow[..]].concat(),
        &hold,
        &["hold", id, "--for", "4m"],
        &["commit", id],
        &["show", id],
        &["list", "--from", "-1h"],
        &["release", id, "--from", "tomorrow 9:30", "--keep", "1"],
        &["cancel", id],
        &["submit", "--limit", "1m", "--", "/bin/true"],
        &["jobs"],
        &["sites"],
        &["calendar"],
    ];
    for command in commands {
        let before = asking.requests();
        asking.ends(0, command);
        assert_eq!(asking.requests() - before, 1, "{command:?}");
    }
}

/// Runs a suggested command line with the binary of this test.
fn shell(asking: &Asking, command: &str) -> Ran {
    let words = command.strip_prefix("bookahead ").unwrap_or_else(|| panic!("{command}"));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{} {words}", env!("CARGO_BIN_EXE_bookahead"))).stdin(Stdio::null());
    shell.env("BOOKAHEAD_SERVER", asking.service.url()).env("TZ", "Europe/Berlin");
    shell.env("XDG_CONFIG_HOME", asking.folder.path("no-configuration"));
    Ran::of(command, shell.output().unwrap())
}

#[test]
fn only_the_version_that_was_seen_is_changed() {
    let asking = Asking::site(SITE);
    let id = asking.hold("8");
    asking.ends(0, &["commit", &id]);
    asking.ends(0, &["change", &id, "--capacity", "16", "--version", "1"]);
    let stale = asking.ends(3, &["change", &id, "--capacity", "24", "--version", "1"]);
    assert!(stale.err.contains("error: changed: it is at version 2, not 1"), "{stale:?}");
    let forced = asking.document(&["change", &id, "--capacity", "24", "--force"]);
    assert_eq!(forced["slots"][0]["capacity"], 24);
    asking.run(&["change", &id, "--until", "today 0:00"]).assert_refused(2, &["it cannot end by", "--until"]);
}

#[test]
fn a_repeated_reserve_is_one_reservation() {
    let asking = Asking::site(SITE);
    let words = [
        "reserve",
        "--capacity",
        "4",
        "--duration",
        "1h",
        "--from",
        "2099-01-05T09:00:00Z",
        "--id",
        "rsv_abc",
        "--key",
        "once",
    ];
    let (first, second) = (asking.document(&words), asking.document(&words));
    assert_eq!((&first["id"], &second["id"]), (&"rsv_abc".into(), &"rsv_abc".into()));
    let listed = asking.document(&["list"]);
    assert_eq!(listed["reservations"].as_array().unwrap().len(), 1);
    let other = words.map(|word| if word == "4" { "5" } else { word });
    assert!(asking.ends(3, &other).err.contains("error: key-taken: "));
}

#[test]
fn several_are_shown_and_cancelled_in_one_command_also_after_a_failure() {
    let asking = Asking::site(SITE);
    let (one, other) = (asking.hold("8"), asking.hold("8"));
    let shown = asking.ends(3, &["show", &one, "rsv_77", &other]);
    assert!(shown.out.contains(&one) && shown.out.contains(&other), "{shown:?}");
    assert!(shown.err.contains("error: rsv_77: unknown: "), "{shown:?}");
    asking.ends(0, &["cancel", &one, &other]);
    assert_eq!(asking.document(&["list"])["reservations"], Value::Array(Vec::new()));
}

#[test]
fn all_pages_of_a_list_are_read() {
    let asking = Asking::site(&format!("{SITE}\n[server]\nmost_page = 2\n"));
    for _ in 0..5 {
        asking.hold("2");
    }
    let some = asking.ends(0, &["list", "--limit", "2"]);
    assert!(some.err.contains("there are more; use --all"), "{some:?}");
    assert_eq!(asking.document(&["list", "--all"])["reservations"].as_array().unwrap().len(), 5);
}

#[test]
fn a_watch_of_one_reservation_ends_when_that_is_over() {
    let asking = Asking::site(SITE);
    let id = asking.hold("8");
    let watched = asking.command(&["watch", &id, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    asking.ends(0, &["commit", &id]);
    asking.ends(0, &["cancel", &id]);
    let ran = Ran::of("watch", watched.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = events.last().unwrap();
    assert_eq!((&last["state"], &last["reservation"]), (&"cancelled".into(), &id.as_str().into()));
    let before = last["sequence"].as_u64().unwrap() - 1;
    let again = asking.ends(0, &["watch", &id, "--after", &before.to_string()]);
    assert_eq!(again.out.lines().count(), 1, "{again:?}");
    assert!(
        again.out.contains("cancelled")
            && again.err.contains(&format!("watching {id} at {}", asking.service.url())),
        "{again:?}"
    );
}

#[test]
fn whoever_waits_for_a_hold_is_told_what_became_of_it() {
    let asking = Asking::site(SITE);
    let words = ["reserve", "--wait", "--capacity", "4", "--duration", "1h", "--from", "tomorrow 9:00"];
    let ran = asking.ends(3, &[&words[..], &["--hold", "1s"]].concat());
    assert!(ran.out.contains(": held for 0:0") && ran.out.contains(": expired"), "{ran:?}");
    assert!(ran.err.contains("error: expired: "), "{ran:?}");
    let mut waiting = asking.command(&[&words[..], &["--id", "rsv_abc"]].concat());
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    asking.until(&["list"], |listed| !listed["reservations"].as_array().unwrap().is_empty());
    asking.ends(0, &["commit", "rsv_abc"]);
    let ran = Ran::of("reserve", waiting.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("rsv_abc: committed"), "{ran:?}");
}

#[test]
fn a_script_runs_in_a_reservation_and_a_program_in_the_queue() {
    let asking = Asking::site_with_programs(SITE);
    let words = ["reserve", "--book", "--capacity", "8", "--duration", "1h", "--until", "+3h"];
    let id = asking.document(&words)["id"].as_str().unwrap().to_owned();
    let out = asking.folder.path("out.txt");
    asking.folder.write("job.sh", format!("#!/bin/sh\necho \"$@\" > {}\nexit 3\n", out.display()));
    let job = asking.document(&["submit", "--reservation", &id, "job.sh", "one", "--limit"]);
    assert_eq!((&job["reservation"], &job["capacity"]), (&id.as_str().into(), &8.into()));
    let job = job["id"].as_str().unwrap();
    let done = asking.until(&["show", job], |job| job["state"] == "done");
    assert_eq!(done["exit"], 3);
    let waited = asking.ends(3, &["wait", &job[..12]]);
    assert!(waited.out.contains("done, exit code 3"), "a job that failed fails the command: {waited:?}");
    asking.ends(0, &["wait", job, "--until", "started"]);
    asking.ends(0, &["wait", &id, "--until", "started"]);
    asking.ends(0, &["submit", "--wait", "--limit", "1m", "--", "/bin/true"]);
    assert_eq!(asking.folder.text("out.txt"), "one --limit\n", "what follows the script is the script's");
    let program = asking.document(&["submit", "--limit", "1m", "--", "/bin/sleep", "1000"]);
    let program = program["id"].as_str().unwrap();
    let listed = asking.ends(0, &["jobs", "--mine"]);
    assert!(listed.out.contains("done, exit code 3") && listed.out.contains(&program[..12]), "{listed:?}");
    asking.ends(0, &["cancel", program]);
    asking.until(&["show", program], |job| job["state"] == "cancelled");
    asking
        .run(&["submit", "--limit", "1m", "none.sh"])
        .assert_refused(1, &["cannot read the script none.sh", "after --"]);
}

#[test]
fn a_waiting_job_given_with_the_commit_runs_in_the_reservation() {
    let asking = Asking::site_with_programs(SITE);
    let words = ["reserve", "--capacity", "64", "--duration", "1h", "--from", "+10s"];
    let id = asking.document(&words)["id"].as_str().unwrap().to_owned();
    let out = asking.folder.path("out.txt");
    asking.folder.write("job.sh", format!("#!/bin/sh\necho ran > {}\n", out.display()));
    let job = asking.document(&["submit", "--capacity", "64", "--limit", "1h", "job.sh"]);
    assert_eq!((&job["state"], &job["reservation"]), (&"waiting".into(), &Value::Null), "{job}");
    let job = job["id"].as_str().unwrap();
    let unknown = asking.ends(3, &["commit", &id, "--job", job, "--job", "job_77"]);
    assert!(unknown.err.contains("error: job-refused: job_77 is not known here"), "{unknown:?}");
    assert_eq!(asking.document(&["show", &id])["state"], "held");
    let committed = asking.document(&["commit", &id, "--job", job]);
    assert_eq!(committed["jobs"][0]["job"], job);
    let done = asking.until(&["show", job], |job| job["state"] == "done");
    assert_eq!(done["reservation"], id.as_str());
    assert_eq!(asking.folder.text("out.txt"), "ran\n");
    assert_eq!(asking.document(&["show", &id])["state"], "active");
    let longer = asking.document(&["change", &id, "--duration", "2h"]);
    assert_eq!((&longer["state"], &longer["version"]), (&"active".into(), &2.into()));
    let wider = asking.ends(3, &["change", &id, "--capacity", "65"]);
    assert!(wider.err.contains("its capacity cannot grow"), "{wider:?}");
    let later = asking.ends(3, &["change", &id, "--from", "+1h", "--duration", "1h"]);
    assert!(later.err.contains("only its end can change"), "{later:?}");
    let released = asking.document(&["release", &id, "--keep", "8"]);
    assert_eq!(released["slots"][0]["capacity"], 8);
    let more = asking.ends(3, &["release", &id, "--keep", "500"]);
    assert!(more.err.contains("a capacity of 8"), "{more:?}");
    let after_end = asking.ends(3, &["release", &id, "--from", "+3h"]);
    assert!(after_end.err.contains("it ends before"), "{after_end:?}");
}

#[test]
fn a_co_reservation_from_a_file_is_held_and_committed_through_a_broker() {
    let folder = Folder::with("broker.toml", "name = \"grid\"\nheartbeat = \"200ms\"\n");
    let broker = Service::start(&folder, "broker --config broker.toml");
    let asking = Asking { folder, service: broker };
    let sites = ["north", "south"].map(|name| {
        let text = format!(
            "{}\n[[broker]]\nurl = \"{}\"\n",
            SITE.replace("north", name).replacen("\n\n", "\nheartbeat = \"200ms\"\n\n", 1),
            asking.service.url()
        );
        asking.folder.write(&format!("{name}.toml"), text);
        Service::start(&asking.folder, &format!("site --config {name}.toml"))
    });
    asking.until(&["sites"], |known| known["sites"].as_array().unwrap().len() == sites.len() + 1);
    let table = asking.ends(0, &["sites"]);
    assert!(table.out.contains("north/cluster") && table.out.contains("gpus=4"), "{table:?}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/requests/two-clusters.toml");
    let file = file.to_str().unwrap();
    assert!(asking.ends(0, &["probe", "-f", file]).out.contains("south/cluster"));
    let held = asking.document(&["reserve", "-f", file]);
    let begins: Vec<&Value> = held["slots"].as_array().unwrap().iter().map(|slot| &slot["begin"]).collect();
    assert!(begins.len() == 2 && begins[0] == begins[1], "{held}");
    let committed = asking.document(&["commit", held["id"].as_str().unwrap()]);
    assert_eq!(committed["state"], "committed");
    let parts =
        ["--part", "name=a capacity=4 duration=1h", "--part", "capacity=2 duration=30m", "--together"];
    let booked =
        asking.document(&[&["reserve", "--book", "--from", "+1h", "--until", "+9h"], &parts[..]].concat());
    assert_eq!(booked["slots"].as_array().unwrap().len(), 2);
    let booked = booked["id"].as_str().unwrap();
    asking.run(&["change", booked, "--capacity", "1"]).assert_refused(2, &["2 parts", "--part"]);
    asking.run(&["change", booked, "--part", "3", "--duration", "1h"]).assert_refused(2, &["no part 3"]);
    let fewer = asking.document(&["change", booked, "--part", "2", "--capacity", "1"]);
    assert_eq!((&fewer["slots"][0]["capacity"], &fewer["slots"][1]["capacity"]), (&4.into(), &1.into()));
    let longer = asking.document(&["change", booked, "--duration", "2h"]);
    let ends = |shown: &Value| [0, 1].map(|part| shown["slots"][part]["end"].as_str().unwrap().to_owned());
    assert!(ends(&longer)[0] == ends(&longer)[1] && ends(&longer) > ends(&fewer), "{longer}");
    let extended = asking.document(&["extend", booked, "--by", "30m"]);
    assert!(ends(&extended)[0] == ends(&extended)[1] && ends(&extended) > ends(&longer), "{extended}");
    asking.run(&["release", booked]).assert_refused(3, &["which-part", "it has 2 parts", "--part"]);
    assert_eq!(asking.document(&["show", booked])["state"], "committed");
}

#[test]
fn who_cannot_be_reached_is_named_at_once_and_the_exit_code_is_1() {
    let folder = Folder::new();
    for line in ["list", "commit rsv_1", "watch", "probe --capacity 1 --duration 1h --from +1h"] {
        let mut command = folder.command(line);
        command.env("BOOKAHEAD_SERVER", "http://127.0.0.1:1").env("XDG_CONFIG_HOME", "none");
        Ran::of(line, command.output().unwrap()).assert_refused(1, &["cannot connect to http://127.0.0.1:1"]);
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anybody_is_asked() {
    let folder = Folder::new();
    folder
        .run("probe --capacity 4 --from soon")
        .assert_refused(2, &["'soon' is not a time", "tomorrow 9:00"]);
    folder.run("probe --capacity 4 --require >=4").assert_refused(2, &["invalid requirement '>=4'"]);
    folder.run("probe --duration 1h").assert_refused(2, &["--capacity"]);
    folder.run("probe --capacity 4 -f r.toml").assert_refused(2, &["cannot be used with"]);
    folder.run("probe --objective best --capacity 4").assert_refused(2, &["least-impact"]);
    folder.run("reserve --part capacity=0").assert_refused(2, &["'0' is not a capacity"]);
    folder.run("show 77").assert_refused(2, &["invalid id '77'"]);
    folder.run("list --state gone").assert_refused(2, &["change-requested", "or all"]);
    for (words, texts) in [
        ("probe --capacity 64k --duration 1h --from +1h", ["'64k' is not a capacity", "whole number"]),
        ("probe --capacity -5 --duration 1h --from +1h", ["'-5' is not a capacity", "whole number"]),
        ("probe --capacity 4 --duration 90 --from +1h", ["'90' has no unit", "90m"]),
        ("probe --capacity 4 --duration +1h --from +1h", ["'+1h' has a sign", "bookahead extend"]),
        ("probe --capacity 4 --duration 1h --from now-2h", ["'-2h' is in the past", "and now is"]),
        ("change rsv_1", ["nothing to change", "--capacity"]),
        ("extend rsv_1", ["bookahead extend rsv_1 --for 1h", "bookahead hold rsv_1 --for 5m"]),
    ] {
        folder.run(words).assert_refused(2, &texts);
    }
    folder.run("submit run.sh").assert_refused(2, &["--limit"]);
    folder.run("list --server north").assert_refused(2, &["is not a valid server URL"]);
    folder.run("list --zone Mars/Olympus").assert_refused(2, &["unknown time zone 'Mars/Olympus'"]);
    folder.run("list --profile none").assert_refused(2, &["there is no profile none"]);
}

#[test]
fn a_profile_says_where_and_as_whom_and_its_token_goes_nowhere_else() {
    let asking = Asking::site(SITE);
    let url = asking.service.url();
    let profile = format!(
        "default = \"here\"\n[profile.here]\nserver = \"{url}\"\nuser = \"ada\"\ntime_zone = \"Asia/Tokyo\"\n\
         token_file = \"missing.token\"\n[profile.open]\nserver = \"{url}\"\nuser = \"bob\"\n"
    );
    asking.folder.write("config.toml", profile);
    let run = |words: &[&str], server: Option<&str>| {
        let mut command = asking.command(words);
        command.env("BOOKAHEAD_CONFIG", asking.folder.path("config.toml")).env_remove("BOOKAHEAD_SERVER");
        command.envs(server.map(|server| ("BOOKAHEAD_SERVER", server)));
        Ran::of(&words.join(" "), command.output().unwrap())
    };
    run(&["list"], None).assert_refused(1, &["cannot read the token file", "missing.token"]);
    let elsewhere = run(&["list"], Some(&url));
    assert_eq!(elsewhere.code, Some(0), "the token is only for the profile's own server: {elsewhere:?}");
    let words =
        ["reserve", "--capacity", "1", "--duration", "1h", "--from", "2099-01-05 9:00", "--profile", "open"];
    let held = run(&words, Some("http://127.0.0.1:1"));
    assert!(held.out.contains("  owner     bob\n") && held.err.contains("--profile open"), "{held:?}");
    let mine = run(&["list", "--mine", "--profile", "open", "--zone", "Asia/Tokyo"], None);
    assert!(mine.out.contains("bob") && mine.out.contains("begin (Asia/Tokyo)"), "{mine:?}");
}

#[test]
fn a_token_in_a_file_says_who_asks() {
    let folder = Folder::new();
    folder.succeed("token --new-secret secret.key");
    folder.succeed("token --keys secret.key --user ada --out ada.token");
    folder
        .write("site.toml", format!("listen = \"127.0.0.1:0\"\n{SITE}\n[security]\nkeys = \"secret.key\"\n"));
    let service = Service::start(&folder, "site --config site.toml");
    let asking = Asking { folder, service };
    let nobody = asking.ends(3, &["list"]);
    assert!(nobody.err.contains("error: unauthenticated: "), "{nobody:?}");
    let words = [
        "reserve",
        "--capacity",
        "1",
        "--duration",
        "1h",
        "--from",
        "tomorrow 9:00",
        "--token-file",
        "ada.token",
    ];
    let held = asking.ends(0, &words);
    assert!(
        held.out.contains("  owner     ada\n") && held.err.contains("--token-file ada.token"),
        "{held:?}"
    );
    let listed = asking.document(&["list", "--mine", "--token-file", "ada.token"]);
    assert_eq!(listed["reservations"].as_array().unwrap().len(), 1);
}

#[test]
fn shells_complete_commands_and_there_is_a_page_for_each() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = folder.succeed(&format!("completions {shell}"));
        assert!(ran.out.contains("probe") && ran.out.contains("capacity"), "{shell}");
    }
    let page = folder.succeed("man");
    assert!(page.out.contains(".TH") && page.out.contains("bookahead"), "{page:?}");
    folder.succeed("man --out pages");
    for page in ["bookahead.1", "bookahead-probe.1", "bookahead-workload-info.1"] {
        assert!(folder.text(&format!("pages/{page}")).contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(binary().arg("completions").output().unwrap().status.code() == Some(2));
}
