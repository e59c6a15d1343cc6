//! What a look shows, and what an examination finds.

use super::{commands, impatient, pbs, place, settings};
use bookahead_lrms::batch::{self, Accounts, BatchSystem, FactState, Grade, JobFact, Place, Unit};
use bookahead_lrms::pbs::Pbs;
use bookahead_lrms::{Batch, LrmsError, Worker};
use bookahead_party::{BatchError, BatchOrder, BatchReport, OrderId};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn cores(pairs: &[(&str, u32)]) -> BTreeMap<String, u32> {
    pairs.iter().map(|(name, cores)| ((*name).to_owned(), *cores)).collect()
}

#[test]
fn vnodes_that_can_be_reserved_are_nodes() {
    let picture = pbs(&commands()).look().unwrap();
    assert_eq!(picture.clock, Some(Time(1_794_742_000)));
    let seen: Vec<_> =
        picture.nodes.iter().map(|node| (node.name.as_str(), node.cores, node.usable)).collect();
    // n4 belongs to another queue, n5 cannot be reserved, n6 has no processors.
    assert_eq!(seen, [("n1", 8, true), ("n2", 8, true), ("n3", 4, false)]);
}

#[test]
fn queues_and_features_choose_vnodes() {
    let commands = commands();
    let names = |place: Place| {
        let mut settings = settings(&commands);
        settings.places = vec![place];
        let picture = Pbs::new(commands.runner(), settings).look().unwrap();
        picture.nodes.into_iter().map(|node| node.name).collect::<Vec<_>>()
    };
    let with = |features: &[&str]| Place {
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        ..place(Unit::Cores)
    };
    assert_eq!(names(with(&["gpu=h100"])), ["n1"]);
    assert_eq!(names(with(&["fast"])), ["n2"]);
    assert_eq!(names(with(&["fast", "gpu=h100"])), [""; 0]);
    assert_eq!(names(Place { partition: Some("special".into()), ..place(Unit::Cores) }), ["n4"]);
}

#[test]
fn reservations_are_seen_as_they_are() {
    let picture = pbs(&commands()).look().unwrap();
    let [ours, maintenance, asked] = &picture.reservations[..] else { panic!("{:?}", picture.reservations) };
    assert_eq!((ours.handle.0.as_str(), ours.name.len()), ("R5.pbs1", 46));
    assert_eq!(ours.interval, Interval::new(Time(1_794_742_400), Time(1_794_742_500)));
    assert_eq!(ours.cores, cores(&[("n1", 3), ("n2", 1)]));
    assert_eq!(ours.accounts, ["ann", "bookahead"]);
    // It has the vnode for itself, however few processors it asked for.
    assert_eq!((maintenance.handle.0.as_str(), &maintenance.cores), ("M6.pbs1", &cores(&[("n2", 8)])));
    // It is not promised anything yet.
    assert_eq!((asked.handle.0.as_str(), asked.cores.len()), ("R7.pbs1", 0));
}

#[test]
fn jobs_are_seen_in_order_with_what_they_take() {
    let picture = pbs(&commands()).look().unwrap();
    let ids: Vec<&str> = picture.jobs.iter().map(|job| job.native.as_str()).collect();
    let waiting = ["10.pbs1", "2.pbs1", "9.pbs1", "11.pbs1", "12.pbs1", "13.pbs1", "14[3].pbs1", "16.pbs1"];
    assert_eq!(ids, [&["21.pbs1", "22.pbs1"], &waiting[..]].concat());
    let find = |native: &str| picture.jobs.iter().find(|job| job.native == native).unwrap();

    let endless = find("21.pbs1");
    assert_eq!((&endless.state, endless.limit, endless.cores), (&FactState::Running, None, 2));
    assert_eq!((endless.account.as_str(), endless.started), ("carol", Some(Time(1_794_740_460))));
    let alone = find("22.pbs1");
    assert_eq!((&alone.placed, alone.cores), (&cores(&[("n2", 8)]), 8));
    assert_eq!(alone.limit, Some(Seconds(7200)));
    let large = find("10.pbs1");
    assert_eq!((&large.state, large.cores, large.nodes, large.limit), (&FactState::Waiting, 16, 2, None));
    assert_eq!(find("9.pbs1").expected_start, Some(Time(1_794_744_000)));
    assert_eq!(find("16.pbs1").reservations, [picture.reservations[0].handle.clone()]);
    let why = |job: &JobFact| match &job.state {
        FactState::Held { why, orphaned: false } => why.clone(),
        other => panic!("{other:?}"),
    };
    let held = ["11.pbs1", "12.pbs1", "13.pbs1"].map(|native| why(find(native)));
    assert_eq!(held, ["it is held", "it waits for another job", "its time has not come"]);
}

#[test]
fn a_server_without_jobs_and_reservations_is_read() {
    let commands = commands();
    commands.prints("qstat", 0, "{\"timestamp\":1, \"pbs_version\":\"23.06.06\", \"pbs_server\":\"pbs1\"}");
    commands.prints("pbs_rstat", 0, "");
    let picture = pbs(&commands).look().unwrap();
    assert_eq!((picture.jobs.len(), picture.reservations.len()), (0, 0));
}

#[test]
fn garbage_failures_and_silence_are_told_apart() {
    let garbage = ["", "[]", "{", "Resv ID: R5\nreserve_start = tomorrow\n", "no = block\n", "what?\n"];
    for program in ["pbsnodes", "qstat", "pbs_rstat"] {
        for text in garbage {
            let commands = commands();
            commands.prints(program, 0, text);
            let expected = (program, text) != ("pbs_rstat", "");
            let unreadable = matches!(pbs(&commands).look(), Err(LrmsError::Unreadable { .. }));
            assert_eq!(unreadable, expected, "{program} {text:?}");
        }
        let commands = commands();
        commands.prints(program, 1, "something odd");
        assert!(matches!(pbs(&commands).look(), Err(LrmsError::Failed { .. })));
        commands.prints(program, 15, &format!("{program}: cannot connect to server pbs1 (errno=15010)"));
        assert!(matches!(pbs(&commands).look(), Err(LrmsError::Silent { .. })));
        commands.forget(program);
        commands.hangs(program);
        let hangs = impatient(&commands);
        assert!(matches!(hangs.look(), Err(LrmsError::Silent { .. })));
    }
}

#[test]
fn an_examination_says_what_to_do() {
    let commands = commands();
    commands.prints("qstat", 0, include_str!("fixtures/server.json"));
    commands.prints("pbs_rsub", 0, "R9.pbs1 DENIED\n");
    let findings = pbs(&commands).examine();
    let grades: Vec<_> = findings.iter().map(|finding| (finding.what.as_str(), finding.grade)).collect();
    let expected = [
        ("server", Grade::Well),
        ("scheduler", Grade::Well),
        ("history", Grade::Well),
        ("jobs without a limit", Grade::Well),
        ("the resource cpu", Grade::Doubtful),
        ("making and deleting reservations", Grade::Wrong),
    ];
    assert_eq!(grades, expected);
    // A year after the server's time.
    assert!(
        commands.calls_of("pbs_rsub")[0].contains("-R|202711151126.40|-E|202711151226.40"),
        "{:?}",
        commands.calls_of("pbs_rsub")
    );

    let bare = "{\"pbs_version\":\"14.1\", \"Server\":{\"pbs1\":{\"scheduling\":\"False\"}}}";
    commands.prints("qstat", 0, bare);
    let findings = pbs(&commands).examine();
    let grades: Vec<_> = findings.iter().skip(1).take(3).map(|finding| finding.grade).collect();
    assert_eq!(grades, [Grade::Wrong, Grade::Doubtful, Grade::Doubtful]);
    commands.prints("qstat", 1, "qstat: cannot connect to server pbs1 (errno=15010)");
    assert!(pbs(&commands).examine().iter().all(|finding| finding.grade == Grade::Wrong));
}

#[test]
fn a_worker_whose_commands_hang_stops_within_their_time_out() {
    let commands = commands();
    commands.forget("pbsnodes");
    commands.hangs("pbsnodes");
    let accounts = Accounts::Service("svc".into());
    let places = vec![(place(Unit::Cores), Capacity(16))];
    let batch =
        Batch::new(Box::new(impatient(&commands)), batch::Settings::new("uni".into(), places, accounts));
    let (report, reports) = channel();
    let report = Arc::new(move |reported| drop(report.send(reported)));
    let worker = Worker::start(batch.unwrap(), 2, Arc::new(|| Moment(0)), report);
    worker.order(BatchOrder::Look { order: OrderId(1) });
    for order in 2..20 {
        let backing = crate::backing(u128::from(order), &[crate::span(1000, 2000, 1)]);
        worker.order(BatchOrder::Keep { order: OrderId(order), backing });
    }
    let began = Instant::now();
    worker.stop();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for report in reports {
        let (BatchReport::Looked { outcome: Err(BatchError::Unknown(_)), .. }
        | BatchReport::Kept { outcome: Err(BatchError::Unknown(_)), .. }) = report
        else {
            panic!("{report:?}")
        };
    }
}
