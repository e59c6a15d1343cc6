//! A controller that is gone, and one that refuses us.

use super::fake::Fakes;
use super::{Settings, Slurm, cores, dialect, nodes, plain, refusal};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{BatchSystem, Grade, Handle, JobSystem, ReservationSystem};
use bookahead_lrms::command::Runner;
use bookahead_tests::polling::until;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[track_caller]
fn is_silent<T: std::fmt::Debug>(result: &Result<T, LrmsError>) {
    assert!(matches!(result, Err(LrmsError::Silent { .. })), "{result:?}");
}

#[test]
fn a_controller_that_is_down_is_silent_within_the_time_out_and_keeps_what_it_had() {
    let mut site = plain(&cores());
    let wanted = site.wanted("ba.one", &cores(), 1000, 60, 3);
    let handle = site.create(&wanted).unwrap();
    let picture = site.look();
    site.cluster.stop_controller();
    let settings = Settings {
        conf: Some(site.cluster.conf()),
        bin: site.cluster.commands(),
        ..Settings::new(vec![cores()])
    };
    let hasty = Slurm::new(Runner::local(Duration::from_secs(1)), settings);
    let silent = hasty.look();
    // Ended by the timeout: the commands themselves give up later.
    assert!(
        matches!(&silent, Err(LrmsError::Silent { after, said: None, .. }) if *after == Duration::from_secs(1)),
        "{silent:?}"
    );
    is_silent(&hasty.create(&wanted, &picture));
    is_silent(&hasty.change(&handle, &wanted, &picture));
    is_silent(&hasty.delete(&handle));
    let job = site.submission("job_1", &cores(), 1, &[&handle]);
    is_silent(&hasty.submit(&job));
    is_silent(&hasty.cancel("1"));
    is_silent(&hasty.outcome("1"));
    // Without a shorter timeout, Slurm's commands themselves report it.
    is_silent(&site.slurm.look());
    assert!(
        hasty
            .examine()
            .iter()
            .any(|finding| finding.grade == Grade::Wrong && finding.what == "the controller")
    );
    site.cluster.start_controller().unwrap();
    // No command is run before the next probe.
    until(|| site.slurm.look());
    assert_eq!(site.reserved("ba.one").unwrap().interval, wanted.interval);
    assert_eq!(site.create(&wanted).unwrap(), handle);
}

#[test]
fn a_short_grant_is_undone_and_refused() {
    let mut site = plain(&cores());
    let fakes = Fakes::of(&site.cluster);
    // Slurm grants less than requested, and reports success.
    let shrink = "for word; do shift; case \"$word\" in CoreCnt=4) word=CoreCnt=3;; CoreCnt=4,4) word=CoreCnt=4,3;; CoreCnt=8) word=CoreCnt=7;; esac; set -- \"$@\" \"$word\"; done";
    fakes.put("scontrol", shrink);
    site.slurm = dialect(&site.cluster, vec![cores()], Some(fakes.bin()));
    let wanted = site.wanted("ba.one", &cores(), 1000, 60, 4);
    let said = refusal(site.create(&wanted));
    assert!(said.contains("it has 3 instead of 4; it was deleted again"), "{said}");
    site.slurm = dialect(&site.cluster, vec![nodes()], Some(fakes.bin()));
    let wanted = site.wanted("ba.two", &nodes(), 1000, 60, 2);
    let said = refusal(site.create(&wanted));
    assert!(said.contains("it has only parts of some nodes"), "{said}");
    // Another time than requested.
    fakes.put("scontrol", "for word; do shift; case \"$word\" in EndTime=*) word=EndTime=now+5000;; esac; set -- \"$@\" \"$word\"; done");
    let said = refusal(site.create(&wanted));
    assert!(said.contains("it is from"), "{said}");
    assert_eq!(site.look().reservations, []);
}

#[test]
fn who_may_not_make_reservations_is_told_what_to_do() {
    let mut site = plain(&cores());
    let fakes = Fakes::of(&site.cluster);
    if site.account() == "root" {
        // As another account, which may enter the folders on the way to the cluster.
        for folder in [site.folder.path(), site.cluster.folder(), fakes.bin()] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        fakes.put(
            "scontrol",
            "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$REAL/scontrol\" \"$@\"",
        );
    } else {
        fakes.put("scontrol", "case \"$1\" in create) echo 'Error creating the reservation: Invalid user id' >&2; exit 1;; esac");
    }
    site.slurm = dialect(&site.cluster, vec![cores()], Some(fakes.bin()));
    let wanted = site.wanted("ba.one", &cores(), 1000, 60, 1);
    let said = refusal(site.create(&wanted));
    assert!(said.contains("Invalid user id;"), "{said}");
    let findings = site.slurm.examine();
    let finding = findings.iter().find(|finding| finding.what == "making and deleting reservations").unwrap();
    assert_eq!(finding.grade, Grade::Wrong, "{finding:?}");
    assert_eq!(finding.advice.as_deref(), Some("run the commands as root, SlurmUser or an operator"));
}

#[test]
fn commands_that_are_missing_or_print_nonsense_are_errors_that_say_so() {
    let mut site = plain(&cores());
    let picture = site.look();
    let wanted = site.wanted("ba.one", &cores(), 1000, 60, 1);
    let nowhere = dialect(&site.cluster, vec![cores()], Some("/nonexistent".as_ref()));
    let why = nowhere.look().unwrap_err();
    assert!(matches!(why, LrmsError::CannotRun { .. }), "{why}");
    assert!(nowhere.examine().iter().all(|finding| finding.grade == Grade::Wrong));
    let fakes = Fakes::of(&site.cluster);
    let odd = dialect(&site.cluster, vec![cores()], Some(fakes.bin()));
    for nonsense in [
        "echo garbage",
        "echo '{}'",
        "echo '{\"jobs\":3}'",
        "echo '{\"jobs\":['",
        "head -c 3000 /dev/urandom",
        "true",
    ] {
        fakes.put("squeue", &format!("{nonsense}; exit 0"));
        let why = odd.look().unwrap_err();
        assert!(matches!(why, LrmsError::Unreadable { .. }), "{nonsense}: {why}");
    }
    fakes.put("squeue", "echo 'squeue: error: something odd' >&2; exit 1");
    assert!(matches!(odd.look(), Err(LrmsError::Failed { .. })));
    fakes.put("squeue", "");
    fakes.put("scontrol", "echo 'ReservationName=x StartTime=yesterday'; exit 0");
    assert!(odd.look().is_err());
    assert!(odd.create(&wanted, &picture).is_err());
    fakes.put("scontrol", "kill -9 $$");
    assert!(matches!(odd.delete(&Handle("ba.one".into())), Err(LrmsError::Failed { .. })));
    fakes.put("sbatch", "echo 'Submitted'; exit 0");
    let job = site.submission("job_1", &cores(), 1, &[]);
    assert!(matches!(odd.submit(&job), Err(LrmsError::Unreadable { .. })));
}
