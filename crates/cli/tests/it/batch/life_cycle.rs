//! The life cycle of a reservation on Slurm, from a probe to its end, at the command line and in Slurm.

use super::cluster::Cluster;
use super::jobs::Traces;
use super::terminal::Terminal;
use super::wait_for;
use crate::services::asking::now;
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::ReservationId;
use bookahead_tests::polling::until;
use serde_json::Value;

fn written(time: Time) -> String {
    jiff::Timestamp::from_second(time.0).unwrap().to_string()
}

#[test]
fn a_waiting_job_given_with_the_commit_starts_in_it_and_an_active_reservation_grows_on_a_slurm() {
    let cluster = Cluster::of(2, 4);
    let mut grid = Grid::new();
    runtime().block_on(grid.start("site", "north", &cluster.site("north", "", ""), None));
    let ada = Terminal::at(&grid.of("north").url());
    let begin = now() + Seconds(20);
    let from = written(begin);
    let wanted = ["reserve", "--hold", "60s", "--capacity", "8", "--duration", "40s", "--from", &from];
    let id = id_of(&ada.document(&wanted));
    let text = id.to_string();
    let traces = Traces::new(cluster.folder(), "given");
    ada.folder.write("script.sh", traces.endless());
    // A minute does not fit before the reservation, so the job waits.
    let job = ada.document(&["submit", "--capacity", "8", "--limit", "1m", "script.sh"]);
    let job = job["id"].as_str().unwrap();
    assert_eq!(cluster.job(job).unwrap().state, "PENDING");
    let unknown = ada.run(&["commit", &text, "--job", "job_77"]);
    assert!(unknown.code == Some(3) && unknown.err.contains("job-refused"), "{unknown:?}");
    assert_eq!(ada.document(&["show", &text])["state"], "held");
    assert_eq!(ada.document(&["commit", &text, "--job", job])["state"], "committed");
    assert!(now() < begin, "all that was to be said before it begins");
    let began = traces.began();
    eprintln!("promised {}, the job says {began}", begin.0);
    assert!((begin.0..begin.0 + 40).contains(&began));
    assert_eq!(ada.document(&["show", job])["reservation"], *text);

    let longer = ada.document(&["change", &text, "--duration", "90s"]);
    assert_eq!(
        (&longer["state"], &longer["slots"][0]["end"]),
        (&"active".into(), &written(begin + Seconds(90)).into())
    );
    assert_eq!(cluster.one_for("north", id).end, begin.0 + 90);
    let shorter = ada.document(&["change", &text, "--duration", "60s"]);
    assert_eq!(shorter["slots"][0]["end"], written(begin + Seconds(60)));
    until(|| match cluster.one_for("north", id).end - begin.0 {
        60 => Ok(()),
        other => Err(format!("{other} s")),
    });
    assert_eq!(ada.document(&["show", job])["state"], "running", "through all of it");
    ada.document(&["cancel", &text]);
    until(|| {
        let left = cluster.reservations();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    grid.check_journals();
}

fn id_of(document: &Value) -> ReservationId {
    document["id"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_reservation_on_a_slurm_lives_from_a_probe_to_its_end_with_a_job_that_starts_on_the_second() {
    let cluster = Cluster::of(2, 4);
    let mut grid = Grid::new();
    let site = cluster.site("north", "", "");
    runtime().block_on(grid.start("site", "north", &site, None));
    let ada = Terminal::at(&grid.of("north").url());
    let begin = now() + Seconds(20);
    let from = written(begin);
    let wanted = ["--capacity", "6", "--duration", "8s", "--from", &from];

    let offers = ada.document(&[&["probe"], &wanted[..]].concat());
    assert_eq!(offers["offers"][0]["slots"][0]["begin"], *from, "{offers}");
    assert!(cluster.reservations().is_empty(), "who asks takes nothing");

    // Two of the eight cores are left beside it; a hold that is not committed disappears from Slurm too.
    let short = ["--capacity", "2", "--duration", "8s", "--from", &from, "--hold", "1s"];
    let fleeting = id_of(&ada.document(&[&["reserve"], &short[..]].concat()));
    let held = ada.document(&[&["reserve", "--hold", "40s"], &wanted[..]].concat());
    let id = id_of(&held);
    assert_eq!(held["state"], "held");
    let kept = cluster.one_for("north", id);
    assert_eq!((kept.begin, kept.end, kept.cores), (begin.0, begin.0 + 8, 6));
    until(|| match &cluster.kept_for("north", fleeting)[..] {
        [] => Ok(()),
        left => Err(format!("{left:?}")),
    });

    let text = id.to_string();
    assert_eq!(ada.document(&["hold", &text, "--for", "60s"])["state"], "held");
    assert_eq!(ada.document(&["commit", &text])["state"], "committed");
    let changed = ada.document(&["change", &text, "--duration", "6s", "--from", &from]);
    let end = begin + Seconds(6);
    assert_eq!(changed["slots"][0]["end"], written(end));
    let mut shown = ada.document(&["show", &text]);
    assert!(shown.as_object_mut().unwrap().remove("request").is_some(), "only the answer to `show` has it");
    assert_eq!(shown, changed);
    // Capacity is released in Slurm after the answer.
    until(|| match cluster.one_for("north", id) {
        kept if (kept.begin, kept.end, kept.cores) == (begin.0, end.0, 6) => Ok(()),
        kept => Err(format!("{kept:?}")),
    });

    let traces = Traces::new(cluster.folder(), "job");
    ada.folder.write("script.sh", traces.endless().replacen('\n', "\npwd\n", 1));
    let job = ada.document(&["submit", "--reservation", &text, "script.sh"]);
    assert_eq!((&job["state"], &job["capacity"]), (&"waiting".into(), &6.into()), "{job}");
    assert!(job["native_id"].is_string(), "{job}");
    let job = job["id"].as_str().unwrap();
    let queued = cluster.job(job).unwrap();
    assert_eq!(queued.state, "PENDING");
    let listed = ada.run(&["jobs"]).out;
    assert!(listed.contains("native id") && listed.contains(&queued.native), "{listed}");
    assert_eq!(ada.document(&["show", job])["native_id"], *queued.native);
    assert!(now() < begin, "all that was to be said before it begins");

    let began = traces.began();
    let by_slurm = cluster.job(job).unwrap().start.unwrap();
    eprintln!("promised {}, the job says {began}, Slurm says {by_slurm}", begin.0);
    // How late it is depends on the machine.
    assert!([began, by_slurm].iter().all(|second| (begin.0..end.0).contains(second)));
    assert_eq!(ada.document(&["show", &text])["state"], "active");

    let printed = std::fs::read_to_string(cluster.folder().join(format!("{job}.out"))).unwrap();
    assert_eq!(printed.trim(), cluster.folder().to_str().unwrap());
    wait_for(end);
    let ended = traces.ended();
    eprintln!("ends at {}, the job last lived at {ended}", end.0);
    assert!(ended >= end.0 - 3, "{ended} for {}", end.0);
    until(|| {
        let left = cluster.reservations();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    until(|| {
        let (shown, over) = (ada.document(&["show", &text]), ada.document(&["show", job]));
        let so = shown["state"] == "completed" && over["state"] == "reservation-over";
        if so { Ok(()) } else { Err(format!("{shown} {over}")) }
    });
    grid.check_journals();
}

/// Runs a job of 4 cores in a reservation without the site; returns its number.
fn submit_natively(cluster: &Cluster, reservation: &str) -> String {
    let words = ["sbatch", "--parsable", "--output=/dev/null", "--ntasks=4", "--time=10", "--reservation"];
    let native = cluster.tell(&[&words[..], &[reservation, "--wrap=sleep 600"]].concat()).trim().to_owned();
    until(|| match cluster.jobs().into_iter().find(|job| job.native == native) {
        Some(job) if job.state == "RUNNING" => Ok(()),
        job => Err(format!("{job:?}")),
    });
    native
}

#[test]
fn a_release_leaves_jobs_their_room_or_ends_them_and_slurm_keeps_what_the_ledger_says() {
    let cluster = Cluster::of(1, 8);
    let mut grid = Grid::new();
    runtime().block_on(grid.start("site", "north", &cluster.site("north", "", ""), None));
    let ada = Terminal::at(&grid.of("north").url());
    let booked =
        ada.document(&["reserve", "--book", "--from", "now", "--capacity", "8", "--duration", "20m"]);
    let id = id_of(&booked);
    let text = id.to_string();
    let state = |job: &str, wanted: &str| {
        until(|| match ada.document(&["show", job])["state"].as_str() {
            Some(state) if state == wanted => Ok(()),
            state => Err(format!("{state:?}")),
        });
    };
    let kept = |wanted: u32| {
        assert_eq!(ada.document(&["show", &text])["slots"][0]["capacity"], wanted);
        until(|| match &cluster.kept_for("north", id)[..] {
            [one] if one.cores == wanted => Ok(()),
            kept => Err(format!("{kept:?}")),
        });
    };
    let submit = |capacity: &str| {
        let words = [
            "submit",
            "--reservation",
            &text,
            "--capacity",
            capacity,
            "--limit",
            "10m",
            "--",
            "sleep",
            "600",
        ];
        let job = ada.document(&words)["id"].as_str().unwrap().to_owned();
        state(&job, "running");
        job
    };
    let wide = submit("8");
    let refused = ada.run(&["release", &text, "--keep", "1"]);
    assert!(refused.code == Some(3) && refused.err.contains("jobs-inside"), "{refused:?}");
    assert!(refused.err.contains(&wide) && refused.err.contains("--end-jobs"), "{refused:?}");
    kept(8);
    assert_eq!(ada.document(&["show", &wide])["state"], "running");
    assert_eq!(ada.document(&["release", &text, "--keep", "6", "--end-jobs"])["state"], "active");
    kept(6);
    assert_eq!(ada.document(&["show", &wide])["state"], "cancelled");

    // A job that the site does not know.
    let native = submit_natively(&cluster, &cluster.one_for("north", id).name);
    let native = native.as_str();
    let refused = ada.run(&["release", &text, "--keep", "1", "--end-jobs"]);
    assert!(refused.code == Some(3) && refused.err.contains(native), "{refused:?}");
    kept(6);
    cluster.tell(&["scancel", native]);
    until(|| match cluster.jobs().into_iter().find(|job| job.native == native) {
        Some(job) if ["RUNNING", "COMPLETING"].contains(&job.state.as_str()) => Err(format!("{job:?}")),
        _ => Ok(()),
    });
    // What is released can be booked, and what is kept is not.
    assert_eq!(ada.document(&["release", &text, "--keep", "4"])["state"], "active");
    kept(4);
    let beside = ["--book", "--from", "now", "--duration", "10m", "--capacity"];
    ada.document(&[&["reserve"], &beside[..], &["4"]].concat());
    assert_eq!(ada.run(&[&["reserve"], &beside[..], &["1"]].concat()).code, Some(3));
    grid.check_journals();
}
