//! From a reservation to the end of its jobs.

use super::{FactState, cores, plain};
use bookahead_lrms::batch::JobSystem;
use bookahead_party::Work;
use bookahead_plan::Seconds;
use bookahead_tests::polling::until_true;

#[test]
fn a_job_starts_when_its_reservation_begins_and_is_gone_when_it_ends() {
    let place = cores();
    let mut site = plain(&place);
    // Jobs that may end before it, and waiting ones, do not conflict.
    site.local_job(&["-n8", "-t1"]);
    site.by_hand("sbatch", &["-n8", "-t5", "--output=/dev/null", "--wrap", "sleep 300"]);
    let later = site.wanted("ba.later", &place, 64, 8, 4);
    site.create(&later).unwrap();
    site.by_hand("scancel", &["-u", &site.account()]);
    until_true("it is empty", || site.look().jobs.iter().all(|job| job.state.is_over()));

    // Time for the commands below, and for a job inside, on a machine that is very busy.
    let wanted = site.wanted("ba.one", &place, 12, 16, 4);
    let handle = site.create(&wanted).unwrap();
    // Its limit exceeds the end of the reservation.
    let long = site.submission("job_long", &place, 3, &[&handle]);
    let long = site.slurm.submit(&long).unwrap();
    let mut short = site.submission("job_short", &place, 1, &[&handle]);
    short.work = Work::Pretended { run: Seconds(1) };
    let short = site.slurm.submit(&short).unwrap();
    let too_big = site.submission("job_too_big", &place, 5, &[&handle]);
    let too_big = site.slurm.submit(&too_big).unwrap();
    assert_eq!(site.job(&long).unwrap().state, FactState::Waiting);
    assert_eq!(site.job(&long).unwrap().reservations, [handle]);

    let fact = site.until_state(&long, &FactState::Running);
    let late = fact.started.unwrap() - wanted.interval.begin;
    // How late depends on the machine; never after its end.
    assert!((Seconds(-1)..Seconds(16)).contains(&late), "{late} late");
    assert_eq!((fact.cores, fact.limit), (3, Some(Seconds(600))));
    assert_eq!(fact.resources, [super::cpu()]);
    let fact = site.until_state(&short, &FactState::Done { exit: 0 });
    assert!(fact.ended.unwrap() < wanted.interval.end);
    assert!(!matches!(site.job(&too_big).unwrap().state, FactState::Running));

    // After its end it no longer exists for us, though Slurm shows it for some seconds.
    until_true("it is over", || site.reserved("ba.one").is_none());
    let fact = site.until_state(&long, &FactState::OutOfTime);
    assert!(fact.ended.unwrap() >= wanted.interval.end);
    // A job that still waits for it waits forever, and its state says so.
    let mut orphan = None;
    until_true("the job that was too big is orphaned", || {
        orphan = site.job(&too_big).map(|job| job.state);
        matches!(orphan, Some(FactState::Held { orphaned: true, .. }))
    });
    site.slurm.cancel(&too_big).unwrap();
    site.until_state(&too_big, &FactState::Cancelled);
}
