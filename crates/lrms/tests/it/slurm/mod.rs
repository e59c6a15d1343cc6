//! Tests against a real Slurm: each starts a private one in its own folder, and ends it. Without an installed Slurm
//! they fail with a message on what to install. `BOOKAHEAD_TEST_SLURM` names the folder of another Slurm (with `bin`
//! and `sbin`) to test.

mod change;
mod claims;
mod create;
mod delete;
mod examine;
mod fake;
mod life;
mod look;
mod nodes_fail;
mod own;
mod projects;
mod rerun;
mod shapes;
mod silence;
mod slow;
mod slurmdbd;
mod submit;
mod thousand;
mod tres;

use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{
    BatchSystem, FactState, Handle, JobFact, Picture, Place, ReservationSystem, Reserved, Submission, Unit,
    Wanted,
};
use bookahead_lrms::command::{Command, Outcome, Runner};
use bookahead_lrms::slurm::{OwnCluster, OwnClusterSettings, Settings, Slurm};
use bookahead_party::Work;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::Name;
use bookahead_tests::polling::until_true;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A cluster, and the dialect that drives it.
struct Site {
    slurm: Slurm,
    cluster: OwnCluster,
    folder: TempDir,
}

fn cpu() -> Name {
    Name::from("cpu")
}

/// All cores of the partition `main`.
fn cores() -> Place {
    Place { resource: cpu(), unit: Unit::Cores, partition: Some("main".into()), features: vec![] }
}

/// Whole nodes of the partition `main`.
fn nodes() -> Place {
    Place { unit: Unit::Nodes, ..cores() }
}

/// Two nodes with four cores, modified by the test.
fn start(place: &Place, settings: impl FnOnce(&mut OwnClusterSettings)) -> Site {
    let folder = tempfile::Builder::new().prefix("ba").tempdir().unwrap();
    let mut wanted = OwnClusterSettings::new("test", folder.path().join("c"));
    wanted.programs = std::env::var_os("BOOKAHEAD_TEST_SLURM").map(Into::into);
    settings(&mut wanted);
    let cluster = OwnCluster::start(&wanted).unwrap_or_else(|why| panic!("{why}"));
    let slurm = dialect(&cluster, vec![place.clone()], None);
    Site { slurm, cluster, folder }
}

fn plain(place: &Place) -> Site {
    start(place, |_| {})
}

fn dialect(cluster: &OwnCluster, places: Vec<Place>, bin: Option<&Path>) -> Slurm {
    let settings = Settings {
        conf: Some(cluster.conf()),
        bin: bin.map(Into::into).or(cluster.commands()),
        output: Some(cluster.folder().into()),
        let_go_within: Duration::from_secs(20),
        ..Settings::new(places)
    };
    Slurm::new(Runner::local(Duration::from_secs(30)), settings)
}

impl Site {
    fn look(&mut self) -> Picture {
        self.slurm.look().unwrap()
    }

    fn now(&mut self) -> Time {
        self.look().clock.unwrap()
    }

    fn account(&self) -> String {
        self.cluster.account().unwrap()
    }

    /// A reservation of `amount` from `from` seconds from now, for `length` seconds.
    fn wanted(&mut self, name: &str, place: &Place, from: i64, length: i64, amount: u32) -> Wanted {
        let interval = Interval::starting(self.now() + Seconds(from), Seconds(length));
        let account = self.account();
        Wanted {
            name: name.into(),
            place: place.clone(),
            interval,
            amount,
            account,
            others: Vec::new(),
            terms: Default::default(),
            project: None,
            nodes: Vec::new(),
            tres: Default::default(),
        }
    }

    fn create(&mut self, wanted: &Wanted) -> Result<Handle, LrmsError> {
        let picture = self.look();
        self.slurm.create(wanted, &picture).map(|made| made.handle)
    }

    fn change(&mut self, handle: &Handle, wanted: &Wanted) -> Result<Option<Handle>, LrmsError> {
        let picture = self.look();
        let changed = self.slurm.change(handle, wanted, &picture)?;
        Ok(changed.map(|changed| changed.handle))
    }

    fn reserved(&mut self, name: &str) -> Option<Reserved> {
        self.look().reservations.into_iter().find(|one| one.name == name)
    }

    fn job(&mut self, native: &str) -> Option<JobFact> {
        self.look().jobs.into_iter().find(|job| job.native == native)
    }

    #[track_caller]
    fn until_state(&mut self, native: &str, expected: &FactState) -> JobFact {
        let mut seen = None;
        until_true(&format!("{native} is {expected:?}"), || {
            seen = self.job(native);
            seen.as_ref().is_some_and(|job| job.state == *expected)
        });
        seen.unwrap()
    }

    fn submission(&self, name: &str, place: &Place, amount: u32, inside: &[&Handle]) -> Submission {
        Submission {
            restartable: false,
            name: name.into(),
            place: place.clone(),
            amount,
            limit: Seconds(600),
            reservations: inside.iter().map(|handle| (*handle).clone()).collect(),
            within: None,
            account: None,
            project: None,
            qos: None,
            work: Work::Pretended { run: Seconds(300) },
            go_within: None,
            held: false,
        }
    }

    /// A command of an operator.
    fn by_hand(&self, program: &str, words: &[&str]) -> Outcome {
        let words = words.iter().map(|word| (*word).to_owned());
        let command: Command = self.cluster.command(program).env("SLURM_TIME_FORMAT", "%s").args(words);
        Runner::local(Duration::from_secs(30)).run(&command).unwrap()
    }

    /// A reservation of another user.
    #[track_caller]
    fn foreign(&self, words: &[&str]) {
        let account = format!("Users={}", self.account());
        let words: Vec<&str> = ["create", "reservation", &account].iter().chain(words).copied().collect();
        let outcome = self.by_hand("scontrol", &words);
        assert!(outcome.is_success(), "{}", outcome.said());
    }

    /// A running job of another user.
    #[track_caller]
    fn local_job(&mut self, words: &[&str]) -> String {
        let words: Vec<&str> = ["--parsable", "--output=/dev/null"]
            .iter()
            .chain(words)
            .chain(&["--wrap", "sleep 300"])
            .copied()
            .collect();
        let outcome = self.by_hand("sbatch", &words);
        assert!(outcome.is_success(), "{}", outcome.said());
        let id = outcome.out.trim().to_owned();
        self.until_state(&id, &FactState::Running);
        id
    }

    /// Slurm's output for a reservation; empty if it does not exist.
    fn shown(&self, name: &str) -> String {
        let outcome = self.by_hand("scontrol", &["show", "res", name]);
        if outcome.is_success() { outcome.out } else { String::new() }
    }

    /// Waits until Slurm reports the core ids of a reservation.
    fn until_cores_are_told(&self, name: &str) {
        until_true("it says which cores", || self.shown(name).contains("CoreIDs="));
    }
}

/// Asserts a refusal, and returns its message.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, LrmsError>) -> String {
    match result {
        Err(LrmsError::Refused { said, .. }) => said,
        other => panic!("not refused: {other:?}"),
    }
}
