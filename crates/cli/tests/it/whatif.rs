//! `whatif`: slots and their effects, refusals with advice that works, charts; nothing is booked.

use crate::folder::Folder;

/// Ten processors. At 10 the first job runs until 100; the second waits for all ten, the third behind it for five.
const QUEUE: &str = "\
; MaxProcs: 10
21 0 -1 100 6 -1 -1 6 100 -1 1 1 1 1 1 1 -1 -1
22 1 -1 50 10 -1 -1 10 50 -1 1 1 1 1 1 1 -1 -1
23 2 -1 100 5 -1 -1 5 100 -1 1 1 1 1 1 1 -1 -1
24 500 -1 100 5 -1 -1 5 100 -1 1 1 1 1 1 1 -1 -1
";

fn folder() -> Folder {
    Folder::with("trace.swf", QUEUE)
}

#[test]
fn each_slot_says_what_it_would_do_to_waiting_jobs() {
    let answer = folder()
        .succeed("whatif trace.swf --at 10 --request processors=6,duration=20s,ahead=150s --gap 1s --json")
        .json();
    assert_eq!((answer["running"].as_u64(), answer["waiting"].as_u64()), (Some(1), Some(2)));
    // From 150 on the third job is planned on five of ten; six for twenty seconds at 160 delay it until 180.
    let slot = &answer["slots"][0];
    assert_eq!((slot["start"].as_i64(), slot["end"].as_i64()), (Some(160), Some(180)));
    assert_eq!(slot["best"].as_bool(), Some(true));
    assert_eq!(slot["impact"]["delayed_jobs"], serde_json::json!([23]));
    assert_eq!(slot["impact"]["total_delay"].as_i64(), Some(30));
    assert_eq!(slot["impact"]["makespan_change"].as_i64(), Some(30));
}

#[test]
fn with_local_jobs_preferred_the_same_slot_is_refused_and_the_advice_works() {
    let folder = folder();
    let line = "whatif trace.swf --at 10 --method local-jobs-preferred --json --request processors=6,duration=20s,ahead=150s";
    let answer = folder.succeed(line).json();
    assert_eq!(answer["refusal"]["reason"], "no-room");
    assert_eq!(answer["refusal"]["blockers"], serde_json::json!(["waiting job 23"]));
    let advice = answer["refusal"]["relaxations"].as_array().unwrap().clone();
    let later = advice.iter().find_map(|change| change["later_by"].as_i64()).unwrap();
    assert_eq!(later, 90, "the third job ends at 250");
    let again = folder.succeed(&format!("{line},window={later}s")).json();
    assert!(
        again["refusal"].is_null()
            && again["slots"].as_array().unwrap().iter().any(|slot| slot["best"] == true)
    );
    assert!(advice.iter().any(|change| change["fewer_by"].as_u64() == Some(1)));
}

#[test]
fn an_admission_limit_refuses_what_it_forbids() {
    let folder = folder();
    let line = "whatif trace.swf --at 10 --json --request processors=6,duration=20s,ahead=150s";
    assert!(folder.succeed(&format!("{line} --max-delay 30s")).json()["refusal"].is_null());
    assert_eq!(
        folder.succeed(&format!("{line} --max-delay 29s")).json()["refusal"]["reason"],
        "not-admitted"
    );
    assert_eq!(folder.succeed(&format!("{line} --max-delayed 0")).json()["refusal"]["reason"], "no-room");
}

#[test]
fn the_table_and_the_pictures_show_the_best_slot() {
    let folder = folder();
    let ran = folder
        .succeed("whatif trace.swf --at 10 --request processors=6,duration=20s,ahead=150s --gantt plan.svg");
    assert!(ran.out.contains("1 job running, 2 waiting") && ran.out.contains("best"), "{}", ran.out);
    assert!(folder.text("plan.before.svg").starts_with("<svg"));
    let after = folder.text("plan.after.svg");
    assert!(after.contains("request") && after.contains("delayed"), "the slot and who is delayed");
}

#[test]
fn wrong_requests_are_explained() {
    let folder = folder();
    for (request, word) in [
        ("processors=4", "'duration' is missing"),
        ("duration=2h", "'processors' is missing"),
        ("processors=0,duration=2h", "invalid number of processors '0'"),
        ("processors=4,duration=soon", "not a length of time"),
        ("cpus=4,duration=2h", "'cpus' is unknown"),
    ] {
        folder.run(&format!("whatif trace.swf --at 10 --request {request}")).assert_refused(2, &[word]);
    }
    folder.fail(
        "whatif trace.swf --at 10 --request processors=4,duration=2h --makespan-weight 2",
        &["between 0 and 1"],
    );
    let wide = folder.succeed("whatif trace.swf --at 10 --request processors=11,duration=1m");
    assert!(wide.out.contains("refused (too-wide)") && wide.out.contains("with 7 fewer"), "{}", wide.out);
}
