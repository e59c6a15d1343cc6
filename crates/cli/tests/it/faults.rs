//! `faults`: many schedules give the same result on any number of threads, and any of them can be replayed as a
//! diagram.

use crate::folder::Folder;

#[test]
fn schedules_are_run_counted_and_checked() {
    let ran = Folder::new().succeed("faults --schedules 60 --seed 100");
    for words in [
        "60 schedules, seeds 100 to 159",
        "lost",
        "crashes after writing",
        "batch silent",
        "commits",
        "the invariants hold",
    ] {
        assert!(ran.out.contains(words), "'{words}' is missing in:\n{}", ran.out);
    }
}

#[test]
fn threads_do_not_change_a_result() {
    let folder = Folder::new();
    let run = |threads: u32| folder.succeed(&format!("faults -n 50 --json --threads {threads}")).json();
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(7));
    assert_eq!(one["schedules"], 50);
    assert!(
        one["injected"]["messages"].as_u64().unwrap() > 1_000
            && one["reached"]["commits"].as_u64().unwrap() > 0
    );
    assert_eq!(one["violations"], 0);
}

#[test]
fn a_schedule_is_replayed_as_a_diagram() {
    let folder = Folder::new();
    let ran = folder.succeed("faults --replay 3 --svg schedule.svg");
    for words in
        ["fault schedule 3", "user0", "broker0", "site0", "reserve", "messages", "the invariants hold"]
    {
        assert!(ran.out.contains(words), "'{words}' is missing in:\n{}", ran.out);
    }
    assert!(folder.text("schedule.svg").starts_with("<svg"));
    assert_eq!(folder.succeed("faults --replay 3 --json").json()["schedules"], 1);
}

#[test]
fn wrong_usage_is_refused() {
    let folder = Folder::new();
    folder.run("faults --schedules 0").assert_refused(2, &["--schedules"]);
    folder.run("faults --svg out.svg").assert_refused(2, &["--replay"]);
    folder.run("faults --replay 3 --schedules 5").assert_refused(2, &["--schedules"]);
}
