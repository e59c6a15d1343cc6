//! Projects, which Slurm calls accounts, on a Slurm with slurmdbd.

use super::fake::Fakes;
use super::slurmdbd::Accounted;
use super::{FactState, Handle, Submission, Wanted, cores, plain, refusal};
use crate::{at, backing, job, span};
use bookahead_lrms::batch::{
    self, Accounts, BatchSystem, Finding, Grade, JobSystem, Projects, ReservationSystem,
};
use bookahead_lrms::command::Runner;
use bookahead_lrms::slurm::{Settings, Slurm};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::{Backing, Job, JobState, Work};
use bookahead_plan::{Capacity, Interval, Seconds};
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use bookahead_tests::polling::until_true;
use bookahead_workload::import::{Import, ImportOptions, Skipped};
use bookahead_workload::swf::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Users that exist on every Debian and are not used for logins.
const ADA: &str = "games";
const BOB: &str = "news";
const IN_NO_PROJECT: &str = "man";
const OPERATOR: &str = "nobody";

/// Ada is in physics and chem, Bob in physics.
fn accounted() -> Accounted {
    filled(Accounted::start(&cores()))
}

fn filled(mut all: Accounted) -> Accounted {
    all.make_projects(&["physics", "chem"]);
    for (project, user) in [("physics", ADA), ("chem", ADA), ("physics", BOB)] {
        all.put_into(project, user);
    }
    all.site.slurm = speaking(&all, None, BTreeMap::new());
    all
}

/// The dialect, with jobs that run as their owners.
fn speaking(all: &Accounted, bin: Option<&Path>, projects: BTreeMap<String, BTreeSet<String>>) -> Slurm {
    let settings = Settings {
        conf: Some(all.site.cluster.conf()),
        bin: bin.map(Into::into).or(all.site.cluster.commands()),
        output: Some(all.jobs.clone()),
        let_go_within: Duration::from_secs(20),
        accounting: true,
        projects,
        ..Settings::new(vec![cores()])
    };
    let prefix = ["runuser", "-u", "{user}", "--"].map(String::from).into();
    Slurm::new(Runner::local(Duration::from_secs(30)).becoming(prefix), settings)
}

fn wanted(all: &mut Accounted, name: &str, project: Option<&str>) -> Wanted {
    let wanted = all.site.wanted(name, &cores(), -10, 600, 2);
    Wanted { account: ADA.into(), project: project.map(Into::into), ..wanted }
}

fn submission(all: &Accounted, user: &str, project: Option<&str>, inside: &[&Handle]) -> Submission {
    let work = Work::Pretended { run: Seconds(0) };
    let submission = all.site.submission("job_1", &cores(), 1, inside);
    Submission { account: Some(user.into()), project: project.map(Into::into), work, ..submission }
}

fn finding<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.what == what).unwrap_or_else(|| panic!("{what}: {findings:?}"))
}

#[test]
fn a_reservation_for_a_project_lets_in_jobs_of_its_user_for_this_project_alone() {
    let mut all = accounted();
    let terms = wanted(&mut all, "ba.one", Some("physics"));
    let handle = all.site.create(&terms).unwrap();
    assert!(all.site.shown("ba.one").contains("Users=games Groups=(null) Accounts=physics "));
    let ours = submission(&all, ADA, Some("physics"), &[&handle]);
    let id = all.site.slurm.submit(&ours).unwrap();
    assert_eq!(all.site.until_state(&id, &FactState::Done { exit: 0 }).account, ADA);
    for (user, project) in [(ADA, "chem"), (BOB, "physics")] {
        let other = submission(&all, user, Some(project), &[&handle]);
        let said = refusal(all.site.slurm.submit(&other));
        assert!(said.contains("Access denied") && said.contains("another account or project"), "{said}");
    }
    // In the queue too, whatever a script requests.
    let text = "#!/bin/sh\n#SBATCH --account=physics\n".to_owned();
    let work = Work::Script { text, arguments: vec![] };
    let queued = Submission { work, ..submission(&all, ADA, Some("chem"), &[]) };
    let id = all.site.slurm.submit(&queued).unwrap();
    assert!(all.site.by_hand("scontrol", &["show", "job", &id]).out.contains(" Account=chem "));
    all.site.until_state(&id, &FactState::Done { exit: 0 });

    // Times change and the project stays. Other changes are left to the caller, and nothing is done.
    let end = terms.interval.end + Seconds(100);
    let longer = Wanted { interval: Interval::new(terms.interval.begin, end), ..terms.clone() };
    assert_eq!(all.site.change(&handle, &longer).unwrap(), Some(handle.clone()));
    assert!(all.site.shown("ba.one").contains("Accounts=physics "));
    for project in [Some("chem"), None] {
        let other = Wanted { project: project.map(Into::into), ..longer.clone() };
        assert_eq!(all.site.change(&handle, &other).unwrap(), None);
        let said = refusal(all.site.create(&other));
        let should = project.unwrap_or("no project");
        assert!(said.contains(&format!("it is for physics, and should be for {should}")), "{said}");
    }
    assert!(all.site.shown("ba.one").contains("Accounts=physics "));
    // Slurm stores projects in lower case.
    let large = Wanted { project: Some("Physics".into()), ..longer.clone() };
    assert_eq!(all.site.create(&large).unwrap(), handle);
    // The project was removed by hand: this is no longer the promised reservation.
    let outcome = all.site.by_hand("scontrol", &["update", "ReservationName=ba.one", "Accounts-=physics"]);
    assert!(outcome.is_success(), "{}", outcome.said());
    assert_eq!(all.site.change(&handle, &longer).unwrap(), None);
}

#[test]
fn a_project_that_slurm_does_not_know_is_refused_with_words_and_leaves_nothing_behind() {
    let mut all = accounted();
    for (user, project) in [(ADA, Some("nope")), (BOB, Some("chem")), (IN_NO_PROJECT, None)] {
        let terms = Wanted { account: user.into(), ..wanted(&mut all, "ba.one", project) };
        let outside = submission(&all, user, project, &[]);
        let refused = [all.site.create(&terms).map(drop), all.site.slurm.submit(&outside).map(drop)];
        for said in refused.map(refusal) {
            let see = format!("`sacctmgr show assoc user={user}`");
            assert!(said.starts_with("Error") || said.starts_with("Batch job submission failed"), "{said}");
            assert!(said.contains(&see) && said.contains(project.unwrap_or("in none")), "{said}");
        }
    }
    // A grant without the project, or with another one, is undone.
    let fakes = Fakes::of(&all.site.cluster);
    for instead in ["", "Accounts=chem"] {
        let without = format!(
            "if [ \"$1\" = create ]; then for word in \"$@\"; do shift; case $word in Accounts=*) set -- \"$@\" {instead};; \
             *) set -- \"$@\" \"$word\";; esac; done; fi"
        );
        fakes.put("scontrol", &without);
        all.site.slurm = speaking(&all, Some(fakes.bin()), BTreeMap::new());
        let terms = wanted(&mut all, "ba.one", Some("physics"));
        let said = refusal(all.site.create(&terms));
        assert!(said.contains("should be for physics; it was deleted again"), "{said}");
    }
    for word in ["a,b", "-x", "+x", "", "a b"] {
        let terms = wanted(&mut all, "ba.one", Some(word));
        assert!(refusal(all.site.create(&terms)).contains("is not a valid name"), "{word}");
        let job = submission(&all, ADA, Some(word), &[]);
        assert!(matches!(all.site.slurm.submit(&job), Err(LrmsError::Malformed(_))), "{word}");
    }
    assert_eq!(all.site.look().reservations, []);
    assert_eq!(all.site.look().jobs, []);

    let members = [("Physics", ADA), ("chem", BOB), ("nope", ADA)];
    let members = members.map(|(project, user)| (project.to_owned(), BTreeSet::from([user.to_owned()])));
    let findings = speaking(&all, None, members.into()).examine();
    let grade = |what: &str| (finding(&findings, what).grade, finding(&findings, what).advice.as_deref());
    assert_eq!(grade("the project Physics"), (Grade::Well, None));
    let advice = "run `sacctmgr add user news account=chem`";
    assert_eq!(grade("the project chem"), (Grade::Wrong, Some(advice)));
    let advice = "correct project and projects, or run `sacctmgr add account nope`";
    assert_eq!(grade("the project nope"), (Grade::Wrong, Some(advice)));
    assert_eq!(finding(&findings, "the project Physics").seen, "known, with 2 users in it");
    assert!(findings.iter().all(|finding| finding.what != "projects"), "{findings:?}");
    // With that user and that project.
    assert_eq!(finding(&findings, "making and deleting reservations").grade, Grade::Well);
}

#[test]
fn without_slurmdbd_any_project_will_do_and_the_operator_is_told_so() {
    let mut site = plain(&cores());
    let terms = Wanted { project: Some("physics".into()), ..site.wanted("ba.one", &cores(), 1000, 60, 1) };
    site.create(&terms).unwrap();
    assert!(site.shown("ba.one").contains("Accounts=physics "));
    let projects = BTreeMap::from([("physics".to_owned(), BTreeSet::new())]);
    let settings = Settings { conf: Some(site.cluster.conf()), projects, ..Settings::new(vec![cores()]) };
    let findings = Slurm::new(Runner::local(Duration::from_secs(30)), settings).examine();
    let found = finding(&findings, "projects");
    assert_eq!(found.grade, Grade::Doubtful);
    assert!(found.advice.as_ref().unwrap().contains("AccountingStorageType=accounting_storage/slurmdbd"));
}

/// Commands that run as the operator, unless another account is given.
fn as_operator(all: &Accounted) -> Fakes {
    let fakes = Fakes::of(&all.site.cluster);
    std::fs::set_permissions(fakes.bin(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for name in super::fake::COMMANDS {
        let become_him = format!(
            "if [ \"$(id -u)\" = 0 ]; then exec setpriv --reuid={OPERATOR} --regid=nogroup --clear-groups \"$REAL/{name}\" \"$@\"; fi"
        );
        fakes.put(name, &become_him);
    }
    fakes
}

fn now() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    at(i64::try_from(since.as_secs()).unwrap())
}

fn for_physics(interval: Interval) -> Wanted {
    Wanted {
        name: "ba.one".into(),
        place: cores(),
        interval,
        amount: 1,
        account: ADA.into(),
        others: Vec::new(),
        terms: Default::default(),
        project: Some("physics".into()),
        nodes: Vec::new(),
        tres: Default::default(),
    }
}

#[test]
fn an_operator_who_is_neither_root_nor_the_slurm_user_may_do_everything() {
    let all = Accounted::with(&cores(), &["AccountingStorageEnforce=associations,limits", "MinJobAge=2"]);
    all.make_projects(&["physics", "chem"]);
    for (project, user) in [("physics", ADA), ("chem", ADA), ("chem", OPERATOR)] {
        all.put_into(project, user);
    }
    let fakes = as_operator(&all);
    let slurm = speaking(&all, Some(fakes.bin()), BTreeMap::new());
    let picture = slurm.look().unwrap();
    let interval = Interval::starting(picture.clock.unwrap() + Seconds(1000), Seconds(60));
    let terms = for_physics(interval);
    refusal(slurm.create(&terms, &picture));
    // As in the how-to.
    all.accounts(&["modify", "user", OPERATOR, "set", "adminlevel=Operator"]);
    let members = BTreeMap::from([("physics".to_owned(), BTreeSet::from([ADA.to_owned()]))]);
    let slurm = speaking(&all, Some(fakes.bin()), members);
    let findings = slurm.examine();
    assert!(findings.iter().all(|finding| finding.grade < Grade::Wrong), "{findings:?}");
    assert_eq!(finding(&findings, "the project physics").grade, Grade::Well);

    let batch = site_of(slurm);
    // From a reservation and its change to a job that slurmctld forgets.
    let begin = now().second().0;
    let keep = |from: i64, to: i64, amount| Backing {
        owner: Name::from("ada"),
        ..backing(7, &[span(begin + from, begin + to, amount)])
    };
    batch.keep(now(), &keep(-5, 500, 2)).unwrap();
    batch.keep(now(), &keep(-5, 600, 2)).unwrap();
    let shown = all.site.by_hand("scontrol", &["-o", "show", "res"]).out;
    assert!(shown.contains("Users=games Groups=(null) Accounts=physics "), "{shown}");
    assert!(shown.contains(&format!("EndTime={} ", begin + 600)), "{shown}");
    let of_ada = |id, run| Job {
        user: Name::from("ada"),
        reservation: Some(ReservationId(7)),
        ..job(id, 1, 600, run)
    };
    let short = of_ada(1, 1);
    batch.submit(now(), &short).unwrap();
    batch.submit(now(), &of_ada(2, 500)).unwrap();
    let states = |batch: &Batch| -> BTreeMap<JobId, JobState> {
        batch.seen().jobs.into_iter().map(|status| (status.id, status.state)).collect()
    };
    until_true("both run", || {
        batch.look(now()).unwrap();
        states(&batch).values().all(|state| *state == JobState::Running)
    });
    let native = |name: &str| {
        let shown = all.site.by_hand("squeue", &["-h", "--states=all", "-o", "%i %j"]).out;
        let line = shown.lines().find(|line| line.ends_with(name)).map(str::to_owned);
        line.and_then(|line| Some(line.split(' ').next()?.to_owned()))
    };
    let name = batch::tag::job_name(JobId(1), &Name::from("uni-a"));
    let forgotten = native(&name).unwrap();
    until_true("slurmctld has forgotten it", || {
        !all.site.by_hand("scontrol", &["show", "job", &forgotten]).is_success()
    });
    batch.look(now()).unwrap();
    batch.follow(now(), || false).unwrap();
    assert_eq!(states(&batch)[&JobId(1)], JobState::Done { exit: 0 }, "as sacct says");
    // Jobs of others can be cancelled, and reservations with jobs in them deleted.
    batch.cancel(now(), JobId(2)).unwrap();
    batch.submit(now(), &of_ada(3, 500)).unwrap();
    batch.keep(now(), &Backing { owner: Name::from("ada"), ..backing(7, &[]) }).unwrap();
    assert!(all.site.by_hand("scontrol", &["show", "res"]).out.contains("No reservations"));
    until_true("no job is left", || all.site.by_hand("squeue", &["-h"]).out.trim().is_empty());
}

/// The logic above, with Ada's account and project.
fn site_of(slurm: Slurm) -> Batch {
    let map = BTreeMap::from([(Name::from("ada"), ADA.to_owned())]);
    let usual =
        batch::Settings::new(Name::from("uni-a"), vec![(cores(), Capacity(8))], Accounts::Owners { map });
    let map = BTreeMap::from([(Name::from("ada"), "physics".to_owned())]);
    let projects = Projects { usual: Some("chem".into()), map };
    Batch::new(Box::new(slurm), batch::Settings { projects, ..usual }).unwrap()
}

#[test]
fn a_job_of_a_priority_class_has_its_qos_and_one_that_slurm_does_not_know_is_refused() {
    let all = filled(Accounted::with(&cores(), &["AccountingStorageEnforce=associations,limits,qos"]));
    all.accounts(&["add", "qos", "high", "priority=1000"]);
    all.accounts(&["modify", "user", ADA, "set", "qos+=high"]);
    let of = |qos: &str| Submission { qos: Some(qos.into()), ..submission(&all, ADA, Some("physics"), &[]) };
    // slurmctld learns of a new QoS from slurmdbd a moment later.
    let mut native = None;
    until_true("slurmctld knows the QoS", || {
        native = all.site.slurm.submit(&of("high")).ok();
        native.is_some()
    });
    let native = native.unwrap();
    assert!(all.site.by_hand("scontrol", &["show", "job", &native]).out.contains(" QOS=high"));
    all.site.slurm.submit(&of("nope")).unwrap_err();
}

/// The columns are those of the how-to.
const COLUMNS: &str = "JobID,JobIDRaw,User,Account,Partition,QOS,Submit,Eligible,Start,End,Timelimit,ReqCPUS,AllocCPUS,\
                       AllocNodes,State";

#[test]
fn what_sacct_prints_is_imported_as_a_log() {
    let all = accounted();
    let done = submission(&all, ADA, Some("physics"), &[]);
    all.site.slurm.submit(&done).unwrap();
    all.site
        .by_hand("sbatch", &["--array=0-1", "--output=/dev/null", "--time=5", "--ntasks=2", "--wrap=exit 3"]);
    let sacct =
        ["--allusers", "--duplicates", "--parsable2", "--starttime", "now-1days", "--format", COLUMNS];
    let options = ImportOptions::default();
    let mut log = None;
    until_true("all three jobs have ended", || {
        let told = all.site.by_hand("sacct", &sacct).out;
        let mut import = Import::new(&options, &|text| text.parse().ok());
        import.read("sacct", told.as_bytes(), None).unwrap();
        log = Some((import.finish(), told));
        log.as_ref().is_some_and(|(log, _)| log.as_ref().is_ok_and(|log| log.records.len() == 3))
    });
    let (log, told) = log.unwrap();
    let log = log.unwrap();
    let said = |record: &Record| {
        assert!(record.wait >= 0 && record.run >= 0, "{told}");
        (record.allocated_processors, record.requested_time, record.status)
    };
    let mut jobs: Vec<_> = log.records.iter().map(said).collect();
    jobs.sort_unstable();
    assert_eq!(jobs[1..], [(2, 300, 0), (2, 300, 0)], "{told}");
    let steps = log.report.skipped().find(|(skipped, _)| *skipped == Skipped::Step);
    assert!(steps.is_some_and(|(_, steps)| steps >= 3), "{told}");
}
