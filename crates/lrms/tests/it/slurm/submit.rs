//! Jobs run as they were written, whatever they contain.

use super::{FactState, Runner, Settings, Site, Slurm, Submission, cores, nodes, plain, refusal, start};
use bookahead_lrms::batch::tag::job_name;
use bookahead_lrms::batch::{Accounts, Handle, JobSystem};
use bookahead_lrms::output::{BatchOutputs, OutputError, Outputs, Stream};
use bookahead_lrms::{LrmsError, Within};
use bookahead_party::Work;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::jobs::{JobView, JobWord};
use bookahead_protocol::{JobId, ReservationId};
use bookahead_tests::polling::until_true;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const HOSTILE: [&str; 16] = [
    "a b",
    "",
    "$(id)",
    "`id`",
    "; touch /tmp/pwned",
    "q'\"x",
    "-n9",
    "--wrap=x",
    "*",
    "~",
    "new\nline",
    "\u{e9}\u{4e16}",
    "%j %x",
    "\\",
    "--",
    "a=b",
];

fn submit(site: &mut Site, name: &str, work: Work) -> String {
    let job = Submission { work, ..site.submission(name, &cores(), 2, &[]) };
    site.slurm.submit(&job).unwrap()
}

fn output(site: &Site, name: &str) -> String {
    std::fs::read_to_string(site.cluster.folder().join(format!("{name}.out"))).unwrap_or_default()
}

/// Prints its arguments, each after its length.
const PRINTS: &str = "for one in \"$@\"; do printf '%s|%s|' \"${#one}\" \"$one\"; done; echo end";

fn printed(arguments: &[&str]) -> String {
    let one = |word: &&str| format!("{}|{word}|", word.len());
    arguments.iter().map(one).collect::<String>() + "end\n"
}

#[test]
fn programs_get_their_words_and_variables_unchanged() {
    let mut site = plain(&cores());
    let arguments: Vec<String> =
        ["-c", PRINTS, "sh"].iter().chain(&HOSTILE).map(|word| (*word).to_owned()).collect();
    let program = |arguments, environment| Work::Program {
        program: "/bin/sh".into(),
        arguments,
        folder: None,
        environment,
    };
    let words = submit(&mut site, "job_words", program(arguments, BTreeMap::new()));
    let hostile = HOSTILE.iter().enumerate().map(|(at, word)| (format!("V{at}"), (*word).to_owned()));
    let values = (0..HOSTILE.len()).map(|at| format!("\"$V{at}\"")).collect::<Vec<_>>().join(" ");
    let script =
        format!("set -- {values}; {PRINTS}; echo \"$TZ,$LC_ALL,$SLURM_TIME_FORMAT,$SECRET,$SLURM_NTASKS\"");
    let variables = submit(&mut site, "job_variables", program(vec!["-c".into(), script], hostile.collect()));
    // In its own folder.
    let folder = tempfile::tempdir().unwrap();
    let placed = Work::Program {
        program: "pwd".into(),
        arguments: vec![],
        folder: Some(folder.path().into()),
        environment: BTreeMap::new(),
    };
    let placed = submit(&mut site, "job_placed", placed);
    for id in [&words, &variables, &placed] {
        site.until_state(id, &FactState::Done { exit: 0 });
    }
    until_true("it is written", || output(&site, "job_words").ends_with("end\n"));
    assert_eq!(output(&site, "job_words"), printed(&HOSTILE));
    // None of our own variables for Slurm reach a job.
    assert_eq!(output(&site, "job_variables"), printed(&HOSTILE) + ",,,,2\n");
    let placed = output(&site, "job_placed");
    assert_eq!(placed.trim(), folder.path().canonicalize().unwrap().display().to_string());
}

/// The output of a job that prints its working folder, by the names that Bookahead gives.
fn where_it_runs(site: &mut Site, id: JobId) -> String {
    let work = Work::Script { text: "pwd; ls -d nowhere".into(), arguments: vec![] };
    let native = submit(site, &job_name(id, &"north".into()), work);
    site.until_state(&native, &FactState::Done { exit: 2 });
    native
}

#[test]
fn scripts_run_in_the_output_folder_and_print_to_a_file_named_by_the_id_of_the_job() {
    let mut site = plain(&cores());
    let id = JobId(0xa11);
    where_it_runs(&mut site, id);
    let printed = output(&site, &id.to_string());
    let folder = site.cluster.folder().canonicalize().unwrap();
    assert_eq!(printed.lines().next(), folder.to_str(), "{printed}");
    assert!(printed.contains("nowhere"), "errors go there as well: {printed}");
}

#[test]
fn without_an_output_folder_jobs_run_and_print_in_the_home_folder() {
    let mut site = plain(&cores());
    let settings = Settings { conf: Some(site.cluster.conf()), ..Settings::new(vec![cores()]) };
    let bin = site.cluster.commands();
    site.slurm = Slurm::new(Runner::local(Duration::from_secs(30)), Settings { bin, ..settings });
    let id = JobId(u128::from(std::process::id()) << 64 | 0x40e);
    where_it_runs(&mut site, id);
    let home = site.by_hand("sh", &["-c", "getent passwd \"$(id -un)\" | cut -d: -f6"]).out;
    let file = Path::new(home.trim()).join(format!("{id}.out"));
    let printed = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(printed.lines().next(), Some(home.trim()), "{printed}");
}

#[test]
fn a_job_and_its_steps_know_their_reservation() {
    let mut site = plain(&cores());
    let wanted = site.wanted("ba.one", &cores(), -10, 300, 2);
    let handle = site.create(&wanted).unwrap();
    let text = "srun -n 1 sh -c 'echo $BOOKAHEAD_RESERVATION $BOOKAHEAD_BEGIN $BOOKAHEAD_END'
        echo $BOOKAHEAD_RESERVATION $BOOKAHEAD_BEGIN $BOOKAHEAD_END $BOOKAHEAD_CAPACITY $BOOKAHEAD_JOB";
    let within = Within { id: ReservationId(0x4f), interval: Interval::new(Time(60), Time(3600)) };
    let job = Submission {
        work: Work::Script { text: text.into(), arguments: vec![] },
        within: Some(within),
        ..site.submission(&job_name(JobId(0xa12), &"north".into()), &cores(), 2, &[&handle])
    };
    let id = site.slurm.submit(&job).unwrap();
    site.until_state(&id, &FactState::Done { exit: 0 });
    let known = "rsv_4f 1970-01-01T00:01:00Z 1970-01-01T01:00:00Z";
    assert_eq!(output(&site, "job_a12"), format!("{known}\n{known} 2 job_a12\n"));
}

#[test]
fn the_output_of_a_job_is_read_where_slurm_put_it() {
    let mut site = plain(&cores());
    let (id, errors) = (JobId(0xa13), site.cluster.folder().join("my errors"));
    let text = format!("#!/bin/sh\n#SBATCH --error=\"{}\"\necho printed\necho oh >&2\n", errors.display());
    let native = submit(&mut site, &job_name(id, &"north".into()), Work::Script { text, arguments: vec![] });
    site.until_state(&native, &FactState::Done { exit: 0 });
    let runner = || Runner::local(Duration::from_secs(30));
    let settings = Settings { conf: Some(site.cluster.conf()), ..Settings::new(vec![cores()]) };
    let slurm = Slurm::new(runner(), Settings { bin: site.cluster.commands(), ..settings });
    let accounts = Accounts::Service(site.account());
    let folder = site.cluster.folder().to_owned();
    let outputs = BatchOutputs::new(Box::new(slurm), runner(), accounts, Some(folder));
    let job = |native: Option<&str>| JobView {
        rerun: Default::default(),
        runs: Default::default(),
        id,
        owner: "ada".into(),
        site: None,
        resource: None,
        reservation: None,
        capacity: Capacity(2),
        limit: Seconds(600),
        state: JobWord::Done,
        submitted: Time(0),
        started: None,
        ended: None,
        expected_start: None,
        exit: Some(0),
        native_id: native.map(str::to_owned),
        detail: None,
        description: Default::default(),
    };
    let read = |native, stream| outputs.read(&job(native), stream, 0).map(|piece| piece.bytes);
    // Before Slurm is asked: the file that the submission named.
    assert_eq!(read(None, Stream::Output).unwrap(), b"printed\n");
    assert!(matches!(read(None, Stream::Error), Err(OutputError::OneFile)));
    assert_eq!(read(Some(&native), Stream::Output).unwrap(), b"printed\n");
    assert_eq!(read(Some(&native), Stream::Error).unwrap(), b"oh\n");
    std::fs::remove_file(&errors).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &errors).unwrap();
    let told = read(Some(&native), Stream::Error).unwrap_err().to_string();
    assert!(told.contains("is a symbolic link"), "{told}");
}

#[test]
fn scripts_run_with_their_arguments_and_our_terms_win() {
    let mut site = plain(&cores());
    let wanted = site.wanted("ba.one", &cores(), -10, 300, 2);
    let handle = site.create(&wanted).unwrap();
    let text = format!(
        "#!/bin/sh\n#SBATCH -p nowhere -J other --time=99 -n 7 -N 2\n#SBATCH --reservation=none --comment='its own'\n{PRINTS}\nexit 3\n"
    );
    let arguments: Vec<String> = HOSTILE.iter().map(|word| (*word).to_owned()).collect();
    let work = Work::Script { text: text.clone(), arguments: arguments.clone() };
    let job =
        Submission { work, limit: Seconds(61), ..site.submission("job_script", &cores(), 2, &[&handle]) };
    let id = site.slurm.submit(&job).unwrap();
    let fact = site.until_state(&id, &FactState::Done { exit: 3 });
    assert_eq!((fact.name.as_str(), fact.limit), ("job_script", Some(Seconds(120))));
    let shown = site.by_hand("scontrol", &["show", "job", &id]).out;
    for kept in ["NumCPUs=2", "Comment=its own", "Partition=main", "Reservation=ba.one", "Requeue=0"] {
        assert!(shown.contains(kept), "{kept}: {shown}");
    }
    assert_eq!(output(&site, "job_script"), printed(&HOSTILE));
    // Without a reservation, that of the script has no effect either; without a first line, it is for sh.
    let text = text.replacen("#!/bin/sh\n", "# plain\n", 1).replace("exit 3", "kill -9 $$");
    let id = submit(&mut site, "job_plain", Work::Script { text, arguments });
    let fact = site.until_state(&id, &FactState::Done { exit: 137 });
    assert_eq!(fact.reservations, []);
    let outcome = site.slurm.outcome(&id).unwrap().unwrap();
    assert_eq!((outcome.state, outcome.started, outcome.ended), (fact.state, fact.started, fact.ended));
    assert_eq!((outcome.name.as_str(), outcome.account), ("job_plain", site.account()));
}

#[test]
fn what_cannot_be_submitted_is_refused_with_the_reason() {
    let mut site = plain(&cores());
    let base = site.submission("job_1", &cores(), 1, &[]);
    let script = |text: &str| Work::Script { text: text.into(), arguments: vec![] };
    let program = |program: &str, name: &str| Work::Program {
        program: program.into(),
        arguments: vec![],
        folder: None,
        environment: BTreeMap::from([(name.to_owned(), String::new())]),
    };
    let malformed = [
        script("#!/bin/sh\n#SBATCH --array=1-1000\n"),
        script("#!/bin/sh\n#SBATCH -N1 -a 1-3\n"),
        script("#!/bin/sh\n#SBATCH hetjob\n"),
        script("#!/bin/sh\r\necho\r\n"),
        script("#!/bin/sh\n\0"),
        script(&"x".repeat(2 << 20)),
        program("", "A"),
        program("-x", "A"),
        program("true", "A B"),
        program("true", ""),
        program("true", "-i"),
    ];
    for work in malformed {
        let job = Submission { work: work.clone(), ..base.clone() };
        assert!(matches!(site.slurm.submit(&job), Err(LrmsError::Malformed(_))), "{work:?}");
    }
    let job = Submission { reservations: vec![Handle("ba.none".into())], ..base.clone() };
    let said = refusal(site.slurm.submit(&job));
    assert!(said.contains("Requested reservation is invalid; the reservation no longer exists"), "{said}");
    let mut job = base.clone();
    job.place.partition = Some("nowhere".into());
    let said = refusal(site.slurm.submit(&job));
    assert!(said.contains("invalid partition"), "{said}");
    // Another user's reservation.
    site.foreign(&["ReservationName=other", "StartTime=now", "Duration=10", "Nodes=n1", "CoreCnt=1"]);
    site.by_hand("scontrol", &["update", "ReservationName=other", "Users=daemon"]);
    let job = Submission { reservations: vec![Handle("other".into())], ..base };
    if site.account() != "root" {
        assert!(refusal(site.slurm.submit(&job)).contains("Access denied"));
    }
    assert_eq!(site.look().jobs, []);
}

#[test]
fn an_array_in_any_spelling_is_one_job() {
    let mut site = plain(&cores());
    // Under the account of the service they are refused.
    let folder = site.cluster.folder().to_owned();
    let settings = Settings {
        conf: Some(site.cluster.conf()),
        bin: site.cluster.commands(),
        output: Some(folder),
        ..Settings::new(vec![cores()])
    };
    let runner = Runner::local(Duration::from_secs(30)).becoming(vec!["env".into()]);
    site.slurm = Slurm::new(runner, settings);
    let spellings = ["--arr=1-3", "--ar 1-3", "-Ha1-3", "-n1 -Ha 1-3", "--hold --arra=1-3"];
    for (at, spelling) in spellings.iter().enumerate() {
        let text = format!("#!/bin/sh\n#SBATCH {spelling}\nsleep 100\n");
        let name = format!("job_{at}");
        let work = Work::Script { text, arguments: vec![] };
        let account = Some(site.account());
        let job = Submission { account, work, ..site.submission(&name, &cores(), 2, &[]) };
        let id = site.slurm.submit(&job).unwrap();
        let jobs = site.look().jobs.into_iter().filter(|job| job.name == name);
        assert_eq!(jobs.map(|job| job.native).collect::<Vec<_>>(), std::slice::from_ref(&id), "{spelling}");
        site.slurm.cancel(&id).unwrap();
    }
}

#[test]
fn under_the_account_of_the_service_a_script_takes_no_more_than_its_job_was_given() {
    let mut site = plain(&cores());
    let harmful = [
        "--nice=-100000",
        "--priority=999999",
        "--qos=high",
        "--exclusive",
        "--excl",
        "-H",
        "-QH",
        "--dependency=afterok:1",
        "-d singleton",
        "--mem=0",
        "--begin=now+1hour",
        "--oversubscribe",
        "--reboot",
        "--uid=root",
        "--comment=x --nice=-1",
    ];
    let script =
        |options: &str| Work::Script { text: format!("#!/bin/sh\n#SBATCH {options}\n"), arguments: vec![] };
    for options in harmful {
        let job = Submission { work: script(options), ..site.submission("job_1", &cores(), 1, &[]) };
        match site.slurm.submit(&job) {
            Err(LrmsError::Malformed(why)) => {
                assert!(why.contains("is not allowed in a script here"), "{options}: {why}");
            }
            other => panic!("{options}: {other:?}"),
        }
    }
    assert_eq!(site.look().jobs, []);
    let harmless =
        "--mail-type=NONE --signal=USR1@60 -J mine -p nowhere -A nobody --comment='a # b' # --nice=-1";
    let id = submit(&mut site, "job_2", script(harmless));
    site.until_state(&id, &FactState::Done { exit: 0 });
    let shown = site.by_hand("scontrol", &["show", "job", &id]).out;
    for kept in ["JobName=job_2\n", "Comment=a # b", "Partition=main", "Nice=0 "] {
        assert!(shown.contains(kept), "{kept}: {shown}");
    }
    // On whole nodes the job has their memory anyway.
    let job = Submission {
        work: script("--mem=0 --gres-flags=enforce-binding"),
        ..site.submission("job_3", &nodes(), 1, &[])
    };
    let id = site.slurm.submit(&job).unwrap();
    site.until_state(&id, &FactState::Done { exit: 0 });
}

#[test]
fn a_job_that_slurm_cannot_launch_did_not_run() {
    let mut site = start(&cores(), |settings| settings.extra.push("Prolog=/bin/false".into()));
    let native = submit(&mut site, "job_launched", Work::Pretended { run: Seconds(60) });
    // Slurm reports no more than that; since we did not cancel it, it could not be launched.
    let fact = site.until_state(&native, &FactState::Cancelled);
    // The prolog fails within the second of the start or the next one.
    let (started, ended) = (fact.started.unwrap(), fact.ended.unwrap());
    assert!((ended - started).0 <= 1, "{fact:?}");
    let mut site = plain(&cores());
    let missing = site.folder.path().join("missing");
    site.slurm = Slurm::new(
        Runner::local(Duration::from_secs(30)),
        Settings {
            conf: Some(site.cluster.conf()),
            bin: site.cluster.commands(),
            output: Some(missing),
            ..Settings::new(vec![cores()])
        },
    );
    let native = submit(&mut site, "job_mute", Work::Pretended { run: Seconds(60) });
    until_not_launched(&mut site, &native, "output file");
}

/// Waits until a job is over, and both queries report why it was not launched.
#[track_caller]
fn until_not_launched(site: &mut Site, native: &str, expected: &str) {
    let mut asked = None;
    until_true("it is over", || {
        asked = site.slurm.outcome(native).unwrap();
        asked.as_ref().is_some_and(|fact| fact.state.is_over())
    });
    for state in [asked, site.job(native)].into_iter().flatten().map(|fact| fact.state) {
        let so = matches!(&state, FactState::NotLaunched { why } if why.contains(expected));
        assert!(so, "{state:?}");
    }
}
