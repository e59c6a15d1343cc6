//! Restartable jobs: `--requeue`, and the signal before the end.

use super::{FactState, cores, plain};
use bookahead_lrms::batch::{JobSystem, ReservationSystem, Submission};
use bookahead_party::Work;
use bookahead_tests::polling::until_true;

#[test]
fn a_restartable_job_whose_reservation_is_cancelled_goes_back_to_the_queue_by_requeue_and_was_warned() {
    let place = cores();
    let mut site = plain(&place);
    let wanted = site.wanted("ba.one", &place, 5, 600, 4);
    let handle = site.create(&wanted).unwrap();
    let text = "#!/bin/sh\ntrap 'echo warned' USR1\necho run ${SLURM_RESTART_COUNT:-0}\nwhile :; do sleep 0.2; done\n";
    let work = Work::Script { text: text.into(), arguments: Vec::new() };
    let job = Submission { restartable: true, work, ..site.submission("job_again", &place, 2, &[&handle]) };
    let native = site.slurm.submit(&job).unwrap();
    assert_eq!(site.until_state(&native, &FactState::Running).restarts, 0);
    let output = site.cluster.folder().join("job_again.out");
    let said = |words: &str| std::fs::read_to_string(&output).unwrap_or_default().contains(words);
    until_true("it runs", || said("run 0"));
    site.slurm.warn(&native).unwrap();
    until_true("the signal arrived", || said("warned"));

    site.slurm.delete(&handle).unwrap();
    site.until_state(&native, &FactState::Cancelled);
    // Only once: the adapter, which counts restarts, does not repeat an order, and a second one would end the new run.
    site.slurm.requeue(&native).unwrap();
    // Two minutes later, if Slurm was not done with its end when it went back.
    let again = site.until_state(&native, &FactState::Running);
    assert_eq!((again.restarts, again.reservations.len()), (1, 0), "{again:?}");
    until_true("it runs again, and its first output is kept", || said("run 1") && said("run 0"));
    // A node does not start what it ended in the same second.
    for run in ["run 2", "run 3"] {
        site.slurm.cancel(&native).unwrap();
        site.until_state(&native, &FactState::Cancelled);
        site.slurm.requeue(&native).unwrap();
        site.until_state(&native, &FactState::Running);
        until_true("it runs once more", || said(run));
    }
    site.slurm.cancel(&native).unwrap();
    site.until_state(&native, &FactState::Cancelled);

    let plain = site.slurm.submit(&site.submission("job_once", &place, 2, &[])).unwrap();
    site.until_state(&plain, &FactState::Running);
    site.slurm.cancel(&plain).unwrap();
    site.until_state(&plain, &FactState::Cancelled);
    assert!(site.slurm.requeue(&plain).unwrap_err().is_refusal(), "its owner did not allow it");
    assert!(site.slurm.requeue("4711").unwrap_err().is_refusal());
}
