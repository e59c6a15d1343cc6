//! Looks and findings.

use super::{commands, impatient, pbs, place, settings};
use crate::scripted::Scripted;
use bookahead_lrms::batch::{
    self, Accounts, BatchSystem, FactState, Grade, Handle, JobFact, Place, Unit, Unreadable,
};
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
    assert_eq!(picture.clock, Some(Time(1_794_828_400)));
    let seen: Vec<_> =
        picture.nodes.iter().map(|node| (node.name.as_str(), node.cores, node.usable)).collect();
    // n4 belongs to another queue, n5 cannot be reserved, n6 has no processors; n3 is down, n8 offline.
    let expected = [("n1", 8, true), ("n2", 8, true), ("n3", 4, false), ("n7", 8, true), ("n8", 8, false)];
    assert_eq!(seen, expected);
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
    let [_, ours, maintenance, asked] = &picture.reservations[..] else {
        panic!("{:?}", picture.reservations)
    };
    assert_eq!((ours.handle.0.as_str(), ours.name.len()), ("R5.pbs1", 46));
    assert_eq!(ours.interval, Interval::new(Time(1_794_828_800), Time(1_794_828_900)));
    assert_eq!(ours.cores, cores(&[("n1", 3), ("n2", 1)]));
    assert_eq!(ours.accounts, ["ann", "bookahead"]);
    assert_eq!((maintenance.handle.0.as_str(), &maintenance.cores), ("M6.pbs1", &cores(&[("n7", 8)])));
    // It is not confirmed yet, and R1 is being deleted.
    assert_eq!((asked.handle.0.as_str(), asked.cores.len()), ("R18.pbs1", 0));
}

#[test]
fn jobs_are_seen_in_order_with_what_they_take() {
    let picture = pbs(&commands()).look().unwrap();
    let ids: Vec<&str> = picture.jobs.iter().map(|job| job.native.as_str()).collect();
    let running = ["2.pbs1", "4.pbs1", "7.pbs1", "8.pbs1"];
    let waiting = ["10.pbs1", "9.pbs1", "11.pbs1", "12.pbs1", "13.pbs1", "14[2].pbs1", "14[3].pbs1"];
    assert_eq!(ids, [&running[..], &waiting, &["16.pbs1", "17.pbs1"]].concat());
    let find = |native: &str| picture.jobs.iter().find(|job| job.native == native).unwrap();

    let endless = find("8.pbs1");
    assert_eq!((&endless.state, endless.limit, endless.cores), (&FactState::Running, None, 2));
    assert_eq!((endless.account.as_str(), endless.started), ("carol", Some(Time(1_794_822_531))));
    let alone = find("7.pbs1");
    assert_eq!((&alone.placed, alone.cores), (&cores(&[("n2", 8)]), 8));
    assert_eq!(alone.limit, Some(Seconds(3600)));
    let large = find("10.pbs1");
    assert_eq!((&large.state, large.cores, large.nodes, large.limit), (&FactState::Waiting, 16, 2, None));
    assert_eq!(find("9.pbs1").expected_start, Some(Time(1_794_826_133)));
    assert_eq!(find("16.pbs1").reservations, [picture.reservations[1].handle.clone()]);
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
    commands.prints("qstat", 0, "");
    commands.prints("pbs_rstat", 0, "");
    let picture = pbs(&commands).look().unwrap();
    assert_eq!((picture.jobs.len(), picture.reservations.len()), (0, 0));
}

#[test]
fn garbage_failures_and_silence_are_told_apart() {
    let garbage = ["", "[]", "{", "no = block\n", "what?\n"];
    for program in ["pbsnodes", "qstat", "pbs_rstat"] {
        for text in garbage {
            let commands = commands();
            commands.prints(program, 0, text);
            // There may be no jobs and no reservations.
            let expected = program == "pbsnodes" || !text.is_empty();
            let unreadable = matches!(pbs(&commands).look(), Err(LrmsError::Unreadable { .. }));
            assert_eq!(unreadable, expected, "{program} {text:?}");
        }
        let commands = commands();
        commands.prints(program, 1, "something odd");
        assert!(matches!(pbs(&commands).look(), Err(LrmsError::Failed { .. })));
        commands.forget(program);
        commands.hangs(program);
        let hangs = impatient(&commands);
        assert!(matches!(hangs.look(), Err(LrmsError::Silent { .. })));
    }
}

/// Values that the recorded jobs do not have.
const ODD_VALUES: [&[u8]; 6] = [
    // The byte 0xca is printed as ^ and a line feed; here it would end the last value.
    b"Variable_List=X=^\nJob Id: 10.pbs1|etime=Mon Nov 16 11:25:00 2026",
    b"Submit_arguments=<jsdl-hpcpa:Argument>a\\|b=c\\|\\\\</jsdl-hpcpa:Argument>",
    b"comment=two\\nlines\\n\\nJob Id: 7.pbs1",
    b"comment=ends with ^",
    b"Variable_List=",
    b"|=||=x",
];

#[test]
fn jobs_with_odd_bytes_are_read_and_hide_no_other() {
    let commands = commands();
    let plain = pbs(&commands).look().unwrap();
    commands.forget("qstat");
    commands.answers_bytes("qstat", include_bytes!("fixtures/odd.dsv"), "", 0);
    let picture = pbs(&commands).look().unwrap();
    let (eve, others): (Vec<_>, Vec<_>) = picture.jobs.into_iter().partition(|job| job.account == "eve");
    // The reservation of the fourth was deleted by then.
    assert_eq!(others, plain.jobs.into_iter().filter(|job| job.native != "4.pbs1").collect::<Vec<_>>());
    let numbers: Vec<&str> = eve.iter().map(|job| job.native.as_str()).collect();
    let expected: Vec<String> = (19..=35).map(|number| format!("{number}.pbs1")).collect();
    assert_eq!((numbers, picture.unreadable), (expected.iter().map(String::as_str).collect(), Vec::new()));
    let names: Vec<&str> = eve.iter().map(|job| job.name.as_str()).filter(|name| *name != "STDIN").collect();
    assert_eq!(names, ["inf", "00", "args"]);
}

#[test]
fn no_job_of_a_user_hides_another() {
    let plain = pbs(&commands()).look().unwrap();
    for odd in ODD_VALUES {
        let commands = commands();
        let head = b"Job Id: 1.pbs1|Job_Name=inf|Job_Owner=eve@pbs1|job_state=Q|queue=workq|";
        let jobs = include_bytes!("fixtures/qstat.dsv");
        let text = [&head[..], odd, b"\n", jobs].concat();
        commands.forget("qstat");
        commands.answers_bytes("qstat", &text, "", 0);
        let picture = pbs(&commands).look().unwrap();
        let (eve, others): (Vec<_>, Vec<_>) = picture.jobs.into_iter().partition(|job| job.account == "eve");
        assert_eq!(others, plain.jobs, "{:?}", String::from_utf8_lossy(odd));
        assert_eq!((eve.len(), eve[0].name.as_str(), picture.unreadable.len()), (1, "inf", 0));
    }
}

#[test]
fn a_job_that_cannot_be_read_is_left_out_and_told() {
    let commands = commands();
    let damaged = include_str!("fixtures/qstat.dsv")
        .replace("Job_Owner=alice@pbs1|job_state=Q", "Job_Owner=alice@pbs1|job_st\u{7}te=Q")
        .replace("exec_vnode=(n2:ncpus=1)", "exec_vnode=(n2:nc");
    commands.prints("qstat", 0, &damaged);
    let plain = pbs(&super::commands()).look().unwrap();
    let picture = pbs(&commands).look().unwrap();
    let left: Vec<_> =
        plain.jobs.into_iter().filter(|job| !["9.pbs1", "7.pbs1"].contains(&&*job.native)).collect();
    assert_eq!(picture.jobs, left);
    let told: Vec<String> = picture.unreadable.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["job 7.pbs1", "job 9.pbs1"]);
}

#[test]
fn a_vnode_without_a_state_is_there_and_not_usable() {
    let commands = commands();
    commands.prints(
        "pbsnodes",
        0,
        &include_str!("fixtures/pbsnodes.dsv").replacen("state=free", "st\u{fffd}", 1),
    );
    let picture = pbs(&commands).look().unwrap();
    assert_eq!((picture.nodes[0].name.as_str(), picture.nodes[0].usable), ("n1", false));
    assert_eq!(picture.unreadable, [Unreadable::Node("n1".into())]);
}

#[test]
fn a_reservation_that_is_degraded_has_the_vnodes_that_it_had() {
    let commands = commands();
    commands.prints("pbs_rstat", 0, include_str!("fixtures/degraded.txt"));
    let picture = pbs(&commands).look().unwrap();
    let [one] = &picture.reservations[..] else { panic!("{:?}", picture.reservations) };
    assert_eq!((&one.cores, one.spread), (&cores(&[("n1", 4), ("n2", 4), ("n3", 4)]), true));
    assert_eq!((one.handle.0.as_str(), &one.accounts[0][..]), ("R111.pbs1", "bookahead"));
}

#[test]
fn a_reservation_with_bytes_of_freed_memory_is_there_on_nodes_that_are_away() {
    let shown = include_str!("fixtures/pbs_rstat.txt").replacen("RESV_CONFIRMED", "RESV_DEGRADED", 1);
    let (before, after) =
        shown.split_once("resv_nodes = (n1:ncpus=1)+(n1:ncpus=1)+(n1:ncpus=1)+(n2:ncpus=1)\n").unwrap();
    let garbage: [&[u8]; 5] = [
        b"",
        b"resv_nodes = ^Gw^Y^(^\"U\n",
        b"resv_nodes = \xff\xfe\n",
        b"resv_nodes = \n\n = \nx\xcay\n",
        b"resv_nodes = ",
    ];
    for bytes in garbage {
        let commands = commands();
        commands.forget("pbs_rstat");
        commands.answers_bytes("pbs_rstat", &[before.as_bytes(), bytes, after.as_bytes()].concat(), "", 0);
        let picture = pbs(&commands).look().unwrap();
        let [_, ours, maintenance, asked] = &picture.reservations[..] else {
            panic!("{:?}", picture.reservations)
        };
        assert_eq!(
            (ours.handle.0.as_str(), ours.cores.values().sum::<u32>(), ours.spread),
            ("R5.pbs1", 4, false)
        );
        assert!(ours.cores.keys().all(|node| !picture.nodes.iter().any(|known| known.name == *node)));
        assert_eq!((maintenance.handle.0.as_str(), asked.handle.0.as_str()), ("M6.pbs1", "R18.pbs1"));
        // The job that waits in it is there, too.
        assert!(
            picture
                .jobs
                .iter()
                .any(|job| job.native == "16.pbs1" && job.reservations == [ours.handle.clone()])
        );
    }
}

#[test]
fn after_a_restart_of_the_server_all_vnodes_are_there_and_none_is_usable() {
    let commands = commands();
    let names = |commands: &Scripted| {
        let nodes = pbs(commands).look().unwrap().nodes;
        nodes.into_iter().map(|node| (node.name, node.cores, node.usable)).collect::<Vec<_>>()
    };
    let before = names(&commands);
    commands.prints("pbsnodes", 0, include_str!("fixtures/restarted.dsv"));
    assert_eq!(
        names(&commands),
        before.into_iter().map(|(name, cores, _)| (name, cores, false)).collect::<Vec<_>>()
    );
}

#[test]
fn a_reservation_without_times_is_told_and_hides_no_other() {
    let commands = commands();
    let sound = include_str!("fixtures/pbs_rstat.txt").replace("0123456789abcdef0123456789abcdef", "1f");
    let damaged = sound.replace("Mon Nov 16 11:33:20", "M\u{fffd}n");
    commands.prints("pbs_rstat", 0, &damaged);
    let picture = pbs(&commands).look().unwrap();
    let (handle, name) = (Handle("R5.pbs1".into()), "ba.site.1f.0.ann".into());
    assert_eq!(picture.unreadable, [Unreadable::Reservation { handle: handle.clone(), name }]);
    assert_eq!(picture.reservations.len(), 3);
    // A reservation seen before is kept; one of ours that was not seen before is not taken for deleted.
    let accounts = || Accounts::Service("svc".into());
    let places = || vec![(place(Unit::Cores), Capacity(20))];
    let settings = || batch::Settings::new("site".into(), places(), accounts());
    let fresh = Batch::new(Box::new(pbs(&commands)), settings()).unwrap();
    assert!(matches!(fresh.look(Moment(1_794_828_400_000)), Err(LrmsError::Unreadable { .. })));
    commands.prints("pbs_rstat", 0, &sound);
    let before = fresh.look(Moment(1_794_828_401_000)).unwrap();
    commands.prints("pbs_rstat", 0, &damaged);
    let after = fresh.look(Moment(1_794_828_402_000)).unwrap();
    assert_eq!((after.tagged, before.tagged.len()), (before.tagged, 1));
    assert_eq!(after.unreadable, ["reservation R5.pbs1"]);
}

#[test]
fn a_reservation_that_is_being_deleted_has_its_cores_for_half_a_minute_and_not_beyond_its_end() {
    let commands = commands();
    let leaving = |shown: &str| {
        commands.prints("pbs_rstat", 0, shown);
        pbs(&commands).look().unwrap().reservations.swap_remove(0)
    };
    let shown = include_str!("fixtures/pbs_rstat.txt");
    let deleted = leaving(shown);
    assert_eq!((deleted.handle.0.as_str(), deleted.name.as_str()), ("R1.pbs1", ""));
    assert_eq!(deleted.cores, cores(&[("n8", 8)]));
    assert_eq!(deleted.interval.end, Time(1_794_828_400 + 32));
    // The server gives its cores to others as soon as its own end has come, even while it is listed.
    assert_eq!(leaving(&shown.replace("12:30:00", "11:26:50")).interval.end, Time(1_794_828_410));
    assert_eq!(leaving(&shown.replace("12:30:00", "11:26:00")).interval.end, Time(1_794_828_360));
}

#[test]
fn an_examination_says_what_to_do() {
    let commands = commands();
    commands.prints("qstat", 0, include_str!("fixtures/server.dsv"));
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
        commands.calls_of("pbs_rsub")[0].contains("-R|202711161126.40|-E|202711161226.40"),
        "{:?}",
        commands.calls_of("pbs_rsub")
    );

    let bare = "Server: pbs1|server_state=Idle|scheduling=False|pbs_version=14.1\n";
    commands.prints("qstat", 0, bare);
    let findings = pbs(&commands).examine();
    let grades: Vec<_> = findings.iter().skip(1).take(3).map(|finding| finding.grade).collect();
    assert_eq!(grades, [Grade::Wrong, Grade::Doubtful, Grade::Doubtful]);
    commands.prints("qstat", 1, "qstat: cannot connect to server pbs1 (errno=15010)");
    assert!(pbs(&commands).examine().iter().all(|finding| finding.grade == Grade::Wrong));
}

#[test]
fn an_examination_finds_what_hides_jobs_and_denies_reservations() {
    let server = include_str!("fixtures/server.dsv");
    let about = |server: &str, what: &str, prepare: &dyn Fn(&Scripted)| {
        let commands = commands();
        commands.prints("qstat", 0, server);
        commands.prints("pbs_rsub", 247, "pbs_rsub: Bad effective UID for reservation");
        prepare(&commands);
        let mut findings = pbs(&commands).examine().into_iter();
        findings.find(|finding| finding.what == what).map(|finding| {
            (finding.grade, format!("{} → {}", finding.seen, finding.advice.unwrap_or_default()))
        })
    };
    let hidden = server.replace("query_other_jobs=True", "query_other_jobs=False");
    let (grade, told) = about(&hidden, "jobs of others", &|_| {}).unwrap();
    assert!(grade == Grade::Wrong && told.contains("operators += ann@*"), "{told}");
    for list in ["managers=root@pbs1,ann@*", "operators=bookahead@*,ann@pbs1"] {
        let listed = hidden.replace("operators=bookahead@*", list);
        assert_eq!(about(&listed, "jobs of others", &|_| {}), None, "{list}");
    }
    assert_eq!(about(server, "jobs of others", &|_| {}), None);

    let down = include_str!("fixtures/sched-down.txt");
    let (grade, told) = about(server, "scheduler", &|commands| commands.prints("qmgr", 0, down)).unwrap();
    assert!(grade == Grade::Wrong && told.contains("start pbs_sched"), "{told}");
    let (grade, _) = about(server, "scheduler", &|commands| commands.prints("qmgr", 1, "no")).unwrap();
    assert_eq!(grade, Grade::Doubtful);

    let made = "making and deleting reservations";
    let (grade, told) = about(server, made, &|_| {}).unwrap();
    assert!(
        grade == Grade::Wrong && told.contains("acl_resv_user_enable") && !told.contains("acl_roots"),
        "{told}"
    );
    let (_, told) = about(server, made, &|commands| commands.prints("id", 0, "root\n")).unwrap();
    assert!(told.contains("acl_roots += root@*"), "{told}");

    let nodes = include_str!("fixtures/pbsnodes.dsv").replace("default_shared", "force_excl");
    let sharing = |commands: &Scripted| commands.prints("pbsnodes", 0, &nodes);
    let (grade, told) = about(server, "sharing of vnodes of cpu", &sharing).unwrap();
    assert!(
        grade == Grade::Wrong
            && told.contains("on 5 of them: n1, n2, n3, n7, n8")
            && told.contains("unit = \"nodes\""),
        "{told}"
    );
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
    // The command that hangs takes a minute.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    for report in reports {
        let (BatchReport::Looked { outcome: Err(BatchError::Unknown(_)), .. }
        | BatchReport::Kept { outcome: Err(BatchError::Unknown(_)), .. }) = report
        else {
            panic!("{report:?}")
        };
    }
}
