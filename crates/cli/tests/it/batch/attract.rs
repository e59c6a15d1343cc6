//! Reservations that attract jobs: plain `sbatch`, arrays and workflows of the owner run in them, those of others do
//! not.

use super::cluster::Cluster;
use crate::services::asking::{Asker, book, new_id, now, part, soon, together};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_api::Consent;
use bookahead_client::{Client, Options};
use bookahead_plan::Seconds;
use bookahead_protocol::problem::{Impossible, Why};
use bookahead_protocol::{Call, Request, Reservation, State};
use bookahead_service::security::own_account;
use bookahead_tests::polling::until;
use bookahead_tests::python;
use std::fs;
use std::path::Path;

/// Accounts of two users. Every Debian has them.
const ADA: &str = "daemon";
const BOB: &str = "games";

/// Settings of a batch system whose jobs run as their owners.
fn as_owners(account: &str) -> String {
    format!("become = [\"runuser\", \"-u\", \"{{user}}\", \"--\"]\naccounts = {{ ada = \"{account}\" }}\n")
}

/// A job as Slurm shows it: number, user, state and reservation.
fn jobs(cluster: &Cluster) -> Vec<[String; 4]> {
    let shown = cluster.tell(&["squeue", "-h", "-r", "-t", "all", "-o", "%i|%u|%T|%v"]);
    let job = |line: &str| {
        let fields: Vec<String> = line.split('|').map(str::to_owned).collect();
        fields.try_into().unwrap_or_else(|_| panic!("{line}"))
    };
    shown.lines().map(job).collect()
}

/// A site that allows it, and a reservation of all cores for Ada, who has this account, that begins soon.
async fn attracting(cluster: &Cluster, account: &str) -> (Grid, Asker, Reservation) {
    cluster.open_to_others();
    let mut grid = Grid::new();
    let site = cluster.site("north", &format!("{}attract = true", as_owners(account)), "");
    grid.start("site", "north", &site, None).await;
    let ada = grid.asker("north");
    let request = Request { attract: true, ..together(vec![soon(4, 300)]) };
    let booked = ada.get(book(new_id(), request)).await;
    assert_eq!(booked.state, State::Committed);
    (grid, ada, booked)
}

#[test]
fn plain_jobs_and_an_array_of_the_owner_run_in_a_reservation_that_attracts_and_those_of_others_wait() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let (grid, ada, booked) = attracting(&cluster, ADA).await;
        let name = cluster.one_for("north", booked.id).name;
        let shown = cluster.tell(&["scontrol", "-o", "show", "res", &name]);
        assert!(shown.contains("MAGNETIC") && shown.contains(&format!(" Users={ADA} ")), "{shown}");
        // Bob's job is first in the queue.
        cluster.submit_as(BOB, 1, 4);
        cluster.submit_as(ADA, 1, 4);
        let array = ["--array=1-2", "--output=/dev/null", "--ntasks=1", "--time=4", "--wrap=sleep 600"];
        cluster.tell(&[&["runuser", "-u", ADA, "--", "sbatch", "--parsable"], &array[..]].concat());
        until(|| {
            let jobs = jobs(&cluster);
            let inside = |job: &&[String; 4]| job[1] == ADA && job[2] == "RUNNING" && job[3] == name;
            match jobs.iter().filter(inside).count() {
                3 => Ok(()),
                _ => Err(format!("{jobs:?}")),
            }
        });
        let seen = jobs(&cluster);
        let of_bob = |job: &&[String; 4]| job[1] == BOB;
        assert!(seen.iter().filter(of_bob).all(|job| job[2] == "PENDING" && job[3] == "(null)"), "{seen:?}");
        // One core of the reservation is idle, and still Bob's job does not get it.
        assert_eq!(seen.iter().filter(|job| job[2] == "RUNNING").count(), 3);
        ada.get(Call::Cancel { id: booked.id }).await;
        until(|| {
            let jobs = jobs(&cluster);
            if jobs.iter().filter(of_bob).all(|job| job[2] == "RUNNING") {
                Ok(())
            } else {
                Err(format!("{jobs:?}"))
            }
        });
        grid.check_journals();
    });
}

#[test]
fn plain_jobs_of_a_guest_are_attracted_only_after_the_guest_has_accepted() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        cluster.open_to_others();
        let mut grid = Grid::new();
        let as_users = "become = [\"runuser\", \"-u\", \"{user}\", \"--\"]\nattract = true\n";
        let accounts = format!("accounts = {{ ada = \"{ADA}\", bob = \"{BOB}\" }}\n");
        let site = cluster.site("north", &format!("{as_users}{accounts}"), "");
        grid.start("site", "north", &site, None).await;
        let ada = grid.asker("north");
        let request =
            Request { attract: true, shared_with: ["bob".into()].into(), ..together(vec![soon(4, 300)]) };
        let booked = ada.get(book(new_id(), request)).await;
        let name = cluster.one_for("north", booked.id).name;
        let users = || cluster.tell(&["scontrol", "-o", "show", "res", &name]);
        assert!(users().contains(&format!(" Users={ADA} ")), "{}", users());
        cluster.submit_as(BOB, 1, 4);
        until(|| match is_active(&cluster, &name) {
            true => Ok(()),
            false => Err(users()),
        });
        let waits = jobs(&cluster);
        assert!(waits.iter().all(|job| job[2] == "PENDING" && job[3] == "(null)"), "{waits:?}");
        let options = Options { user: Some("bob".into()), roles: vec!["user".into()], ..Options::default() };
        let bob = Client::new(&grid.of("north").url(), options).unwrap();
        let accepted = bob.answer_invitation(booked.id, Consent::Accepted).await.unwrap();
        assert!(!accepted.invitation && accepted.version > booked.version);
        until(|| {
            let jobs = jobs(&cluster);
            let inside = jobs.iter().all(|job| job[2] == "RUNNING" && job[3] == name);
            if inside { Ok(()) } else { Err(format!("{jobs:?} {}", users())) }
        });
        grid.check_journals();
    });
}

/// Whether a reservation of Slurm has begun.
fn is_active(cluster: &Cluster, name: &str) -> bool {
    cluster.tell(&["scontrol", "-o", "show", "res", name]).contains("State=ACTIVE")
}

#[test]
fn a_site_that_does_not_allow_reservations_that_attract_says_so() {
    runtime().block_on(async {
        let cluster = Cluster::of(1, 2);
        for (batch, reason) in
            [(as_owners(ADA), Impossible::AttractForbidden), (String::new(), Impossible::Attract)]
        {
            let mut grid = Grid::new();
            grid.start("site", "north", &cluster.site("north", &batch, ""), None).await;
            let request = Request { attract: true, ..together(vec![part(1, now() + Seconds(600), 60)]) };
            let refused = grid.asker("north").refused(book(new_id(), request)).await;
            assert_eq!(refused, Why::Unsupported(reason));
            assert!(cluster.reservations().is_empty());
        }
    });
}

/// The workflow of the how-to page.
fn workflow() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/snakemake.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn a_workflow_of_snakemake_runs_in_a_reservation_that_attracts() {
    let Some(snakemake) = python::program("snakemake") else { return };
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        // Only the account that installed Snakemake can run it for sure.
        let (grid, _ada, booked) = attracting(&cluster, own_account().unwrap().as_str()).await;
        let name = cluster.one_for("north", booked.id).name;
        let folder = cluster.folder().join("workflow");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("Snakefile"), workflow()).unwrap();
        let (home, program) = (format!("HOME={}", folder.display()), snakemake.display().to_string());
        let directory = folder.display().to_string();
        let submit = "sbatch --parsable --output=/dev/null --ntasks={threads} --time=2";
        let file = format!("{directory}/Snakefile");
        let start = ["env", &home, &program, "--directory", &directory, "--snakefile", &file, "--jobs", "4"];
        let by = ["--executor", "cluster-generic", "--cluster-generic-submit-cmd", submit];
        let patience = ["--latency-wait", "30", "--seconds-between-status-checks", "1"];
        let words = [&start[..], &by, &patience].concat();
        cluster.tell(&words);
        let summary = fs::read_to_string(folder.join("summary.txt")).unwrap();
        let lines: Vec<&str> = summary.lines().collect();
        assert_eq!(lines.len(), 3, "{summary}");
        assert!(lines.iter().all(|line| line.ends_with(&format!(" in {name}"))), "{summary}");
        grid.check_journals();
    });
}
