//! Looks at a real cluster.

use super::{FactState, Place, cores, cpu, dialect, plain, start};
use bookahead_lrms::batch::BatchSystem;
use bookahead_plan::Seconds;
use bookahead_tests::polling::until_true;

fn usable(site: &mut super::Site) -> Vec<bool> {
    site.look().nodes.iter().map(|node| node.usable).collect()
}

#[test]
fn nodes_that_fail_are_not_usable_and_come_back() {
    let mut site = start(&cores(), |settings| settings.nodes = 3);
    let wanted = site.wanted("ba.one", &cores(), 1000, 60, 8);
    site.create(&wanted).unwrap();
    site.cluster.set_node("n1", "down").unwrap();
    site.cluster.set_node("n2", "drain").unwrap();
    assert_eq!(usable(&mut site), [false, false, true]);
    // Slurm leaves the reservation on its nodes, and the look shows them.
    let on: Vec<String> = site.reserved("ba.one").unwrap().cores.into_keys().collect();
    assert_eq!(on, ["n1", "n2"]);
    // Only the third node is free.
    let five = site.wanted("ba.two", &cores(), 2000, 60, 5);
    super::refusal(site.create(&five));
    let four = site.wanted("ba.two", &cores(), 2000, 60, 4);
    site.create(&four).unwrap();
    site.cluster.set_node("n1", "resume").unwrap();
    site.cluster.set_node("n2", "resume").unwrap();
    until_true("all are usable", || usable(&mut site) == [true; 3]);
}

#[test]
fn the_queue_is_seen_in_its_order_with_held_jobs_and_arrays() {
    let mut site = start(&cores(), |settings| {
        settings.extra = vec![
            "PartitionName=other Nodes=n2 MaxTime=60".into(),
            "PartitionName=apart Nodes=n2 MaxTime=60".into(),
        ];
    });
    let running = site.local_job(&["-N2", "--exclusive", "-t", "30"]);
    let sbatch = |words: &[&str]| {
        let words: Vec<&str> =
            ["--parsable", "-o", "/dev/null", "--wrap", "true"].iter().chain(words).copied().collect();
        site.by_hand("sbatch", &words).out.trim().to_owned()
    };
    let first = sbatch(&["-n3", "-t", "5", "-J", "odd \"name\" = $(x)"]);
    let urgent = sbatch(&["-n2", "-t", "5"]);
    let array = sbatch(&["-n2", "-t", "7", "--array=0-2,10-20:5%2"]);
    let held = sbatch(&["-n1", "-t", "5", "--hold"]);
    let later = sbatch(&["-n1", "-t", "5", "--begin=now+3600"]);
    let after = sbatch(&["-n1", "-t", "5", &format!("--dependency=afterok:{first}")]);
    let elsewhere = sbatch(&["-n1", "-t", "5", "-p", "other"]);
    let either = sbatch(&["-n1", "-t", "5", "-p", "other,main"]);
    let whole = sbatch(&["-N2", "--exclusive", "-t", "5"]);
    site.by_hand("scontrol", &["update", &format!("JobId={urgent}"), "Priority=1000"]);
    let picture = site.look();
    let of = |id: &str| picture.jobs.iter().find(|job| job.native == id);
    let waiting: Vec<&str> = picture
        .jobs
        .iter()
        .filter(|job| job.state == FactState::Waiting)
        .map(|job| job.native.as_str())
        .collect();
    let tasks = [0, 1, 2, 10, 15, 20].map(|task| format!("{array}_{task}"));
    let mut order = vec![urgent.as_str(), first.as_str()];
    order.extend(tasks.iter().map(String::as_str));
    order.extend([either.as_str(), whole.as_str()]);
    assert_eq!(waiting, order);
    for (id, why) in [(&held, "JobHeldUser"), (&later, "BeginTime"), (&after, "Dependency")] {
        assert_eq!(of(id).unwrap().state, FactState::Held { why: why.into(), orphaned: false });
    }
    assert_eq!(of(&elsewhere), None);
    let job = of(&first).unwrap();
    assert_eq!((job.cores, job.nodes, job.limit), (3, 1, Some(Seconds(300))));
    assert_eq!((job.name.as_str(), &job.account), ("odd \"name\" = $(x)", &site.account()));
    assert_eq!((of(&whole).unwrap().cores, of(&whole).unwrap().nodes), (8, 2));
    let job = of(&running).unwrap();
    assert_eq!(job.placed, [("n1".to_owned(), 4), ("n2".to_owned(), 4)].into());

    // A job of a partition outside of our resources counts if it runs on nodes of one.
    let apart = Place { partition: Some("apart".into()), ..cores() };
    let seen = dialect(&site.cluster, vec![apart], None).look().unwrap();
    let jobs: Vec<(&str, u32)> = seen.jobs.iter().map(|job| (job.native.as_str(), job.cores)).collect();
    assert_eq!(jobs, [(running.as_str(), 8)]);
    assert_eq!(seen.jobs[0].resources, [cpu()]);
}

#[test]
fn reservations_of_others_are_seen_whatever_they_are_called() {
    let mut site = plain(&cores());
    let odd = ["my own", "x StartTime=1 EndTime=2 Duration=3", "a\nReservationName=b", "\u{e9}=\u{e8}"];
    for (at, name) in odd.iter().enumerate() {
        let begin = format!("StartTime=now+{}", 1000 * (at + 1));
        site.foreign(&[&format!("ReservationName={name}"), &begin, "Duration=10", "Nodes=n1"]);
    }
    site.foreign(&[
        "ReservationName=weekly",
        "StartTime=now+90000",
        "Duration=10",
        "Nodes=n2",
        "CoreCnt=2",
        "Flags=WEEKLY",
    ]);
    let picture = site.look();
    let whole = picture.reservations.iter().filter(|one| one.cores == [("n1".to_owned(), 4)].into());
    assert_eq!(whole.count(), odd.len());
    assert!(picture.reservations.iter().any(|one| one.name == odd[1]));
    let weekly: Vec<_> = picture.reservations.iter().filter(|one| one.name == "weekly").collect();
    assert!(weekly.len() > 20);
    assert_eq!(weekly[1].interval.begin - weekly[0].interval.begin, Seconds(7 * 86_400));
    // Ours fit beside them.
    let wanted = site.wanted("ba.one", &cores(), 1100, 60, 4);
    site.create(&wanted).unwrap();
    let more = site.wanted("ba.two", &cores(), 1100, 60, 1);
    super::refusal(site.create(&more));
}
