//! GPUs, memory and licences of a real Slurm: probed, held, committed, read back, refused with the reason, and never
//! promised twice.

use super::cluster::Cluster;
use super::terminal::Terminal;
use crate::services::asking::{Asker, book, new_id, now, part, soon, together};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Answer, Call, Part, State, Tres};
use bookahead_tests::polling::until;
use serde_json::json;
use std::collections::BTreeSet;

const GPU: &str = "gres/gpu:a100";
const QPU: &str = "license/qpu";

/// A site in whole nodes on four nodes of two cores: n1 without GPUs, the others with two each; two QPUs as licences.
async fn site() -> (Cluster, Grid, String) {
    let cluster = Cluster::of_gpus(4, 2, &[(2, 2), (3, 2), (4, 2)], "qpu:2,matlab:5");
    let resource = format!("tres = {{ \"{GPU}\" = 6, mem = 64000, \"{QPU}\" = 2 }}");
    let text = cluster.site("north", "", &resource);
    let text =
        text.replace("capacity = 8", "capacity = 4").replace("\"main\" }", "\"main\", unit = \"nodes\" }");
    let mut grid = Grid::new();
    grid.start("site", "north", &text, None).await;
    let url = grid.of("north").url();
    (cluster, grid, url)
}

fn with(begin: Time, nodes: u32, amounts: &[(&str, u32)]) -> Part {
    Part { tres: amounts.iter().copied().collect(), ..part(nodes, begin, 600) }
}

#[test]
fn gpus_memory_and_a_qpu_are_booked_with_nodes_from_the_command_line_and_read_back() {
    runtime().block_on(async {
        let (cluster, grid, url) = site().await;
        let ada = Terminal::at(&url);
        let when = ["--from", "+2h", "--duration", "30m"];
        let both = format!("{GPU}=4,mem=30G,{QPU}=1");
        let probed = ada.document(&[&["probe", "--capacity", "2", "--tres", &both], &when[..]].concat());
        let slot = &probed["offers"][0]["slots"][0];
        assert_eq!(slot["tres"], json!({GPU: 4, "mem": 30_720, QPU: 1}));
        assert_eq!(slot["free_tres"], json!({GPU: 6, "mem": 64_000, QPU: 2}));
        let told = ada.run(&[&["probe", "--capacity", "2", "--tres", &both], &when[..]].concat());
        assert!(told.err.contains(&format!("--tres {GPU}=4,{QPU}=1,mem=30720")), "{told:?}");

        let held = ada.document(&[&["reserve", "--capacity", "2", "--tres", &both], &when[..]].concat());
        let id = held["id"].as_str().unwrap().to_owned();
        ada.document(&["commit", &id]);
        let shown = cluster.tell(&["scontrol", "-o", "show", "res"]);
        assert!(shown.contains("Licenses=qpu:1 ") && shown.contains("Nodes=n[2-3] "), "{shown}");
        let text = ada.run(&["show", &id]).out;
        assert!(text.contains(&format!("2 {GPU}=4 {QPU}=1 mem=30720")), "{text}");
        let listed = ada.run(&["sites"]).out;
        assert!(listed.contains(&format!("{GPU}=6")), "{listed}");

        // Two GPUs are left, on one node; one QPU.
        let refused =
            ada.run(&[&["reserve", "--capacity", "1", "--tres", &format!("{GPU}=3")], &when[..]].concat());
        assert!(refused.err.contains("not enough gres/gpu:a100"), "{refused:?}");
        assert!(refused.err.contains("3 requested, at most 2 free"), "{refused:?}");
        let refused =
            ada.run(&[&["reserve", "--capacity", "1", "--tres", &format!("{QPU}=2")], &when[..]].concat());
        assert!(refused.err.contains("not enough license/qpu"), "{refused:?}");
        let refused =
            ada.run(&[&["reserve", "--capacity", "1", "--tres", "license/cad=1"], &when[..]].concat());
        assert!(refused.err.contains("has license/cad"), "{refused:?}");
        let wrong = ada.run(&[&["probe", "--capacity", "1", "--tres", "gres/gpu"], &when[..]].concat());
        assert!(wrong.err.contains("has no amount"), "{wrong:?}");

        // Only the QPUs change: in place.
        let asker = Asker::new(&url, "ada");
        let reservation = asker.client().show(id.parse().unwrap()).await.unwrap();
        let name = cluster.reservations()[0].name.clone();
        let mut request = reservation.request.unwrap();
        request.parts[0].tres.insert(QPU.into(), 2);
        let call = Call::Change { id: reservation.id, version: None, request: request.into() };
        assert_eq!(asker.get(call).await.slots[0].tres.of(&QPU.into()), Capacity(2));
        assert_eq!(cluster.reservations()[0].name, name);
        assert!(cluster.tell(&["scontrol", "-o", "show", "res"]).contains("Licenses=qpu:2 "));
        grid.check_journals();
    });
}

#[test]
fn a_job_in_the_booking_gets_its_gpus_and_its_qpu_while_others_wait() {
    runtime().block_on(async {
        let (cluster, _grid, url) = site().await;
        let ada = Asker::new(&url, "ada");
        let part = Part { tres: [(GPU, 2), (QPU, 2)].into_iter().collect(), ..soon(1, 600) };
        let booked = ada.get(book(new_id(), together(vec![part]))).await;
        let name = format!("--reservation={}", cluster.one_for("north", booked.id).name);
        let submit = |words: &[&str]| {
            let script = ["sbatch", "--parsable", "--output=/dev/null", "-t", "5", "--wrap=sleep 300"];
            cluster.tell(&[&script[..], words].concat()).trim().to_owned()
        };
        let inside = submit(&[&name, "--gres=gpu:a100:2", "-L", "qpu:2"]);
        let outside = submit(&["-L", "qpu:1"]);
        let state = |native: &str| cluster.jobs().into_iter().find(|job| job.native == native).unwrap();
        until(|| match state(&inside) {
            job if job.state == "RUNNING" => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let detail = cluster.tell(&["scontrol", "-d", "show", "job", &inside]);
        assert!(detail.contains("GRES=gpu:a100:2"), "{detail}");
        assert_eq!(state(&outside).state, "PENDING", "all QPUs are reserved");
    });
}

#[test]
fn what_a_job_or_another_reservation_has_is_not_offered() {
    runtime().block_on(async {
        let (cluster, _grid, url) = site().await;
        let ada = Asker::new(&url, "ada");
        let begin = now() + Seconds(120);
        // A job with a QPU on a node with GPUs, for ten minutes.
        let script =
            ["sbatch", "--output=/dev/null", "-t", "10", "-w", "n2", "-L", "qpu:1", "--wrap=sleep 600"];
        cluster.tell(&script);
        cluster.reserve_nodes("theirs", "n3", begin, begin + Seconds(600));
        let asks = |amounts: &[(&str, u32)]| together(vec![with(begin, 1, amounts)]);
        let free = async |amounts: &[(&str, u32)]| {
            let call = Call::Probe { request: asks(amounts), most: 1, starts: vec![] };
            match ada.ask(call).await {
                Answer::Offers(offers) => Ok(offers[0].slots[0].free_tres.clone()),
                Answer::Problem(problem) => Err(problem.why.to_string()),
                other => panic!("{other:?}"),
            }
        };
        // The site looks at Slurm once a second.
        let once = async |amounts: &[(&str, u32)], is: &dyn Fn(&Result<Tres, String>) -> bool| {
            let mut seen = free(amounts).await;
            for _ in 0..400 {
                if is(&seen) {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                seen = free(amounts).await;
            }
            seen
        };
        let both: Tres = [(GPU, 2), (QPU, 1)].into_iter().collect();
        let seen = once(&[(GPU, 1), (QPU, 1)], &|seen| seen.as_ref() == Ok(&both)).await;
        assert_eq!(seen, Ok(both));
        let why = free(&[(GPU, 1), (QPU, 2)]).await.unwrap_err();
        assert!(why.contains("2 requested, at most 1 free"), "{why}");
        ada.get(book(new_id(), asks(&[(GPU, 1), (QPU, 1)]))).await;
        // The other GPU of the booked node cannot be promised to others.
        let why = once(&[(GPU, 1)], &|seen| seen.is_err()).await.unwrap_err();
        assert!(why.contains("not enough gres/gpu:a100"), "{why}");
    });
}

#[test]
fn nodes_with_a_feature_are_asked_for_by_number_and_what_if_counts_the_nodes() {
    runtime().block_on(async {
        let cluster = Cluster::of_gpus(4, 2, &[(2, 2), (3, 2), (4, 2)], "qpu:2");
        cluster.tell(&["scontrol", "update", "nodename=n[3-4]", "availablefeatures=ib", "activefeatures=ib"]);
        let resource = format!("method = \"what-if\"\ntres = {{ \"{GPU}\" = 6, \"feature/ib\" = 2 }}");
        let text = cluster.site("north", "", &resource);
        let text = text
            .replace("capacity = 8", "capacity = 4")
            .replace("\"main\" }", "\"main\", unit = \"nodes\" }");
        let mut grid = Grid::new();
        grid.start("site", "north", &text, None).await;
        let url = grid.of("north").url();
        // All nodes are busy; the next job on all of them has a promise, and the one after it has none.
        for job in ["-t1", "-t30", "-t30"] {
            cluster.tell(&["sbatch", "--output=/dev/null", "-N4", "--exclusive", job, "--wrap=sleep 50"]);
        }
        let ada = Terminal::at(&url);
        let wanted = format!("{GPU}=2,feature/ib=1");
        let asked = ["--capacity", "1", "--tres", &wanted, "--from", "+35m", "--duration", "30m"];
        until(|| {
            match ada.document(&[&["probe"], &asked[..]].concat())["offers"][0]["slots"][0]["impact"].clone()
            {
                impact if impact["delayed_jobs"] == 1 => Ok(()),
                other => Err(other.to_string()),
            }
        });
        let id =
            ada.document(&[&["reserve", "--book"], &asked[..]].concat())["id"].as_str().unwrap().to_owned();
        let kept = cluster.one_for("north", id.parse().unwrap());
        assert!(["n3", "n4"].contains(&&*kept.nodes), "{kept:?}");
        let refused = ada.run(&[
            "probe",
            "--capacity",
            "2",
            "--tres",
            "feature/ib=2",
            "--from",
            "+35m",
            "--duration",
            "30m",
        ]);
        assert!(
            refused.err.contains("not enough feature/ib") && refused.err.contains("at most 1 free"),
            "{refused:?}"
        );
    });
}

/// Fifty users at the same moment for the same ten minutes.
#[test]
fn fifty_at_once_never_get_more_gpus_memory_or_qpus_than_there_are() {
    runtime().block_on(async {
        let (cluster, grid, url) = site().await;
        let begin = now() + Seconds(3_600);
        let calls = (0..50_u32).map(|number| {
            let asker = Asker::new(&url, &format!("user{number}"));
            let amounts = [(GPU, number % 3), (QPU, u32::from(number % 4 == 0)), ("mem", 8_000)];
            let amounts: Vec<(&str, u32)> = amounts.into_iter().filter(|(_, amount)| *amount > 0).collect();
            let request = together(vec![with(begin, 1, &amounts)]);
            tokio::spawn(async move { asker.ask(book(new_id(), request)).await })
        });
        let calls: Vec<_> = calls.collect();
        let (mut sums, mut granted, mut refused) = ([0_u32; 3], 0, BTreeSet::new());
        for call in calls {
            match call.await.unwrap() {
                Answer::Reservation(reservation) => {
                    assert_eq!(reservation.state, State::Committed);
                    let tres = &reservation.slots[0].tres;
                    granted += 1;
                    for (sum, name) in sums.iter_mut().zip([GPU, "mem", QPU]) {
                        *sum += tres.of(&name.into()).0;
                    }
                }
                Answer::Problem(problem) => {
                    refused.insert(problem.why.code());
                }
                other => panic!("{other:?}"),
            }
        }
        eprintln!("{granted} of 50 granted; GPUs, memory, QPUs: {sums:?}; refusals: {refused:?}");
        assert!((1..=4).contains(&granted), "four nodes");
        assert!(sums[0] <= 6 && sums[1] <= 64_000 && sums[2] <= 2, "{sums:?}");
        assert!(refused.iter().all(|code| ["no-room", "not-granted"].contains(code)), "{refused:?}");
        let kept = cluster.reservations();
        let nodes: BTreeSet<&String> = kept.iter().map(|reserved| &reserved.nodes).collect();
        assert_eq!((kept.len(), nodes.len()), (granted, granted), "{kept:?}");
        let shown = cluster.tell(&["scontrol", "-o", "show", "res"]);
        assert_eq!(shown.matches("Licenses=qpu:1 ").count(), sums[2] as usize, "{shown}");
        grid.check_journals();
    });
}
