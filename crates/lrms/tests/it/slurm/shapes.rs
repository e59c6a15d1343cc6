//! The same small cluster in the output of Slurm 22.05.8 and 25.05.8 (`data_parser/v0.0.43`), recorded from both and
//! shortened.

use super::fake::Fakes;
use super::{FactState, Name, Place, Settings, Slurm, cores};
use bookahead_lrms::batch::{BatchSystem, Picture};
use bookahead_lrms::command::Runner;
use bookahead_plan::{Seconds, Time};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/slurm/fixtures").join(version)
}

/// Commands that print the recorded output.
fn recorded(version: &str) -> Fakes {
    let folder = fixture(version).display().to_string();
    let fakes = Fakes::before("/nonexistent".as_ref());
    fakes.put("squeue", &format!("exec cat {folder}/squeue.json"));
    let scontrol = "case \"$*\" in *nodes*) exec cat F/nodes.txt;; *config*) exec cat F/config.txt;; *res*) exec cat F/reservations.txt;; esac";
    fakes.put("scontrol", &scontrol.replace('F', &folder));
    fakes
}

fn picture(version: &str) -> Picture {
    let fakes = recorded(version);
    let half = Place { resource: Name::from("half"), partition: Some("half".into()), ..cores() };
    let settings = Settings { bin: Some(fakes.bin().into()), ..Settings::new(vec![cores(), half]) };
    Slurm::new(Runner::local(Duration::from_secs(10)), settings).look().unwrap()
}

#[test]
fn both_shapes_tell_the_same() {
    for version in ["22.05", "25.05"] {
        let picture = picture(version);
        let of = |name: &str| {
            picture.jobs.iter().find(|job| job.name == name).unwrap_or_else(|| panic!("{version}: {name}"))
        };
        let state = |name: &str| of(name).state.clone();
        let held = |why: &str| FactState::Held { why: why.into(), orphaned: false };
        let orphan = FactState::Held { why: "Reservation short was deleted".into(), orphaned: true };
        assert_eq!(state("in_short_too_big"), orphan, "{version}");
        assert_eq!(state("killed_at_end"), FactState::OutOfTime);
        assert_eq!(state("code3"), FactState::Done { exit: 3 });
        assert_eq!(state("signal9"), FactState::Done { exit: 137 });
        assert_eq!(state("fine"), FactState::Done { exit: 0 });
        assert_eq!(state("cancelled"), FactState::Cancelled);
        assert_eq!(state("held"), held("JobHeldUser"));
        assert_eq!(state("later"), held("BeginTime"));
        assert_eq!(state("depends"), held("Dependency"));
        assert_eq!(state("waits_inside"), FactState::Waiting);
        assert_eq!(of("waits_inside").reservations[0].0, "ba.site.1f.0.ann");

        let running = of("odd \"name\" $(x)");
        assert_eq!(running.state, FactState::Running);
        assert_eq!((running.cores, running.nodes, running.limit), (3, 1, Some(Seconds(600))));
        assert_eq!(running.placed, [("n1".to_owned(), 3)].into());
        assert_eq!(running.resources, [Name::from("cpu"), Name::from("half")]);
        assert!(running.started.is_some_and(|started| started > Time(1_794_744_000)));
        assert_eq!(of("two_nodes").placed, [("n2".to_owned(), 2), ("n3".to_owned(), 2)].into());
        assert_eq!((of("exclusive").cores, of("exclusive").nodes), (24, 3));
        assert_eq!(of("later").limit, None);
        assert_eq!(of("held").limit, Some(Seconds(2880 * 60)));
        assert_eq!(picture.jobs.iter().filter(|job| job.name == "array").count(), 8);
        assert!(picture.jobs.iter().all(|job| job.name != "elsewhere"));

        let nodes: Vec<_> =
            picture.nodes.iter().map(|node| (node.name.as_str(), node.cores, node.usable)).collect();
        assert_eq!(nodes, [("n1", 8, true), ("n2", 8, true), ("n3", 8, true), ("n4", 8, false)]);
        let ours = picture.reservations.iter().find(|one| one.name == "ba.site.1f.0.ann").unwrap();
        assert_eq!((ours.cores.values().sum::<u32>(), ours.spread), (10, true));
        let foreign = picture.reservations.iter().find(|one| one.name == "foreign one").unwrap();
        assert_eq!(foreign.cores, [("n1".to_owned(), 8)].into());
        assert_eq!(foreign.interval.length(), Seconds(3600));
        assert!(picture.clock.is_some());
    }
}

#[test]
fn a_shape_that_is_cut_anywhere_never_panics() {
    let whole = std::fs::read_to_string(fixture("25.05").join("squeue.json")).unwrap();
    let fakes = recorded("25.05");
    let settings = Settings { bin: Some(fakes.bin().into()), ..Settings::new(vec![cores()]) };
    let slurm = Slurm::new(Runner::local(Duration::from_secs(10)), settings);
    let cut = fakes.bin().join("cut");
    fakes.put("squeue", &format!("exec cat {}", cut.display()));
    for part in 1..20 {
        let end = (0..=whole.len() * part / 20).rev().find(|end| whole.is_char_boundary(*end)).unwrap();
        std::fs::write(&cut, &whole[..end]).unwrap();
        assert!(slurm.look().is_err());
    }
    // Whatever type a value has, the rest is parsed.
    for odd in ["null", "3", "[]", "{}", "\"x\"", "true", "1e300", "-1", "18446744073709551615"] {
        let fields = "job_id array_task_id name job_state priority cpus node_count nodes shared time_limit exit_code job_resources resv_name hold";
        let jobs: Vec<String> = fields
            .split(' ')
            .map(|field| {
                let others = "\"job_id\":7,\"partition\":\"main\",\"job_state\":\"PENDING\",\"name\":\"a\"";
                let others: Vec<&str> =
                    others.split(",\"").filter(|one| !one.contains(&format!("{field}\":"))).collect();
                format!("{{{},\"{field}\":{odd}}}", others.join(",\""))
            })
            .map(|job| job.replace("{partition", "{\"partition").replace("{job_state", "{\"job_state"))
            .collect();
        std::fs::write(&cut, format!("{{\"jobs\":[{}]}}", jobs.join(","))).unwrap();
        assert!(slurm.look().is_ok(), "{odd}: {:?}", slurm.look());
    }
}
