//! Deleting reservations with all their jobs, and cancelling jobs.

use super::fake::Fakes;
use super::{FactState, Handle, cores, dialect, nodes, plain, refusal};
use bookahead_lrms::batch::{JobSystem, ReservationSystem};

#[test]
fn a_reservation_goes_with_its_jobs_and_no_job_is_left_waiting_for_it() {
    let mut site = plain(&cores());
    let (one, two) =
        (site.wanted("ba.one", &cores(), -10, 900, 4), site.wanted("ba.two", &cores(), -10, 900, 4));
    let (one, two) = (site.create(&one).unwrap(), site.create(&two).unwrap());
    let beside = site.local_job(&["-n1", "-t5", "--reservation=ba.two"]);
    let submit = |name: &str, amount: u32, inside: &[&Handle]| {
        let job = site.submission(name, &cores(), amount, inside);
        site.slurm.submit(&job).unwrap()
    };
    let runs = submit("job_runs", 3, &[&one]);
    let waits = submit("job_waits", 4, &[&one]);
    // Slurm's own command to cancel all jobs of a reservation skips this one.
    let either = submit("job_either", 4, &[&one, &two]);
    site.until_state(&runs, &FactState::Running);
    site.slurm.delete(&one).unwrap();
    assert_eq!(site.shown("ba.one"), "");
    site.until_state(&runs, &FactState::Cancelled);
    site.until_state(&waits, &FactState::Cancelled);
    // It may still run inside the other.
    let fact = site.job(&either).unwrap();
    assert_eq!((fact.state, fact.reservations), (FactState::Waiting, vec![two.clone()]));
    assert_eq!(site.job(&beside).unwrap().state, FactState::Running);
    // A missing reservation is no error.
    site.slurm.delete(&one).unwrap();
    site.slurm.delete(&Handle("never there".into())).unwrap();
    site.slurm.delete(&two).unwrap();
    site.until_state(&either, &FactState::Cancelled);
    assert!(site.look().jobs.iter().all(|job| !matches!(job.state, FactState::Held { .. })));
}

#[test]
fn a_reservation_that_is_never_let_go_is_reported_in_time() {
    let mut site = plain(&cores());
    let wanted = site.wanted("ba.one", &cores(), -10, 300, 2);
    let handle = site.create(&wanted).unwrap();
    site.local_job(&["-n1", "-t5", "--reservation=ba.one"]);
    let fakes = Fakes::of(&site.cluster);
    fakes.put("scancel", "exit 0");
    let settings = bookahead_lrms::slurm::Settings {
        conf: Some(site.cluster.conf()),
        bin: Some(fakes.bin().into()),
        let_go_within: std::time::Duration::from_millis(300),
        ..bookahead_lrms::slurm::Settings::new(vec![cores()])
    };
    let runner = bookahead_lrms::command::Runner::local(std::time::Duration::from_secs(30));
    let slurm = bookahead_lrms::slurm::Slurm::new(runner, settings);
    let said = refusal(slurm.delete(&handle));
    assert!(said.contains("Requested reservation is in use; its jobs do not end"), "{said}");
    // The next attempt succeeds.
    site.slurm.delete(&handle).unwrap();
}

#[test]
fn ending_a_job_twice_or_one_that_never_was_is_no_error() {
    let mut site = plain(&nodes());
    let job = site.submission("job_1", &nodes(), 2, &[]);
    let id = site.slurm.submit(&job).unwrap();
    let fact = site.until_state(&id, &FactState::Running);
    assert_eq!((fact.nodes, fact.cores), (2, 8));
    for _ in 0..2 {
        site.slurm.cancel(&id).unwrap();
    }
    site.until_state(&id, &FactState::Cancelled);
    site.slurm.cancel(&id).unwrap();
    site.slurm.cancel("99999").unwrap();
    site.slurm.cancel("--state=running").unwrap();
    // Another dialect over the same cluster knows it too.
    let other = dialect(&site.cluster, vec![nodes()], None);
    assert_eq!(other.outcome(&id).unwrap().unwrap().state, FactState::Cancelled);
    assert_eq!(other.outcome("99999").unwrap(), None);
    assert_eq!(other.outcome("x").unwrap(), None);
}
