//! A site on a simulated PBS that behaves like a real one (`pbs.py`): three hosts, confirmations and denials, slow
//! deletions, a restarted server, odd bytes in its output. No reservation is lost, made twice or made smaller.

use super::jobs::Traces;
use super::terminal::Terminal;
use crate::services::asking::now;
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_plan::{Seconds, Time};
use bookahead_tests::polling::until;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PROGRAMS: [&str; 10] = [
    "pbs_rsub",
    "pbs_rdel",
    "pbs_ralter",
    "pbs_rstat",
    "qsub",
    "qdel",
    "qstat",
    "pbsnodes",
    "qmgr",
    "control",
];

/// The simulated PBS, in its own folder. Its jobs end with it.
struct Pbs {
    folder: TempDir,
}

impl Pbs {
    fn new() -> Pbs {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/batch/pbs.py");
        for program in PROGRAMS {
            symlink(&script, folder.path().join("bin").join(program)).unwrap();
        }
        Pbs { folder }
    }

    fn site(&self) -> String {
        let folder = self.folder.path().display();
        format!(
            "name = \"north\"\n[batch]\nsystem = \"pbs\"\ncommands = \"{folder}/bin\"\noutput = \"{folder}\"\n\
             look_every = \"1s\"\nenvironment = {{ PATH = \"/usr/bin:/bin\" }}\n[[resource]]\nname = \"cluster\"\n\
             kind = \"processors\"\ncapacity = 12\n"
        )
    }

    /// Sets its behaviour.
    #[track_caller]
    fn control(&self, words: &[&str]) {
        let mut control = Command::new(self.folder.path().join("bin/control"));
        assert!(control.args(words).env("PATH", "/usr/bin:/bin").status().unwrap().success());
    }

    /// The commands since a moment.
    fn log(&self, since: usize) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().skip(since).map(str::to_owned).collect()
    }

    /// The commands that are not part of polling.
    fn orders(&self, since: usize) -> Vec<String> {
        let looks = ["pbsnodes", "qstat", "control", "pbs_rstat -F"];
        let is_look = |line: &String| {
            looks.contains(&line.as_str()) || looks[..3].iter().any(|look| line.starts_with(look))
        };
        self.log(since).into_iter().filter(|line| !is_look(line)).collect()
    }

    /// Waits for complete polls that begin after this.
    #[track_caller]
    fn pass_looks(&self, count: usize) {
        let since = self.log(0).len();
        until(|| {
            let looks = self.log(since).iter().filter(|line| line.starts_with("pbsnodes")).count();
            if looks > count { Ok(()) } else { Err(format!("{looks} looks")) }
        });
    }

    /// Begin, end and cores of its reservations, by id.
    fn kept(&self) -> Vec<(String, i64, i64, usize)> {
        let state: Value =
            serde_json::from_slice(&fs::read(self.folder.path().join("state.json")).unwrap()).unwrap();
        let reservations = state["resv"].as_object().unwrap();
        let there = reservations.iter().filter(|(_, one)| one.get("gone_at").is_none());
        let terms = there.map(|(id, one)| {
            let time = |name: &str| one[name].as_i64().unwrap();
            (id.clone(), time("begin"), time("end"), one["nodes"].as_array().unwrap().len())
        });
        terms.collect()
    }
}

impl Drop for Pbs {
    fn drop(&mut self) {
        let mut control = Command::new(self.folder.path().join("bin/control"));
        let _ended = control.arg("end").env("PATH", "/usr/bin:/bin").status();
    }
}

fn written(time: Time) -> String {
    jiff::Timestamp::from_second(time.0).unwrap().to_string()
}

fn id_of(document: &Value) -> String {
    document["id"].as_str().unwrap().to_owned()
}

fn reserve(ada: &Terminal, cores: &str, begin: Time, lasts: &str, more: &[&str]) -> Value {
    let from = written(begin);
    let words = ["reserve", "--capacity", cores, "--duration", lasts, "--from", &from];
    ada.document(&[&words[..], more].concat())
}

/// The refusal of a call.
fn refusal(ada: &Terminal, cores: &str, begin: Time, lasts: &str) -> String {
    let from = written(begin);
    let ran =
        ada.run(&["reserve", "--capacity", cores, "--duration", lasts, "--from", &from, "--hold", "30s"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    format!("{}{}", ran.out, ran.err)
}

#[test]
fn a_site_on_pbs_keeps_its_reservations_through_restarts_lost_hosts_and_odd_bytes() {
    let pbs = Pbs::new();
    // Shorter than the 30 seconds of a real one, to save time.
    pbs.control(&["deletes_for", "8"]);
    pbs.control(&["odd", "true"]);
    let mut grid = Grid::new();
    runtime().block_on(grid.start("site", "north", &pbs.site(), None));
    let ada = Terminal::at(&grid.of("north").url());

    // Held, held longer, and committed: two commands.
    let (far, since) = (now() + Seconds(3_600), pbs.log(0).len());
    let first = id_of(&reserve(&ada, "8", far, "10m", &["--hold", "20s"]));
    assert_eq!(ada.document(&["hold", &first, "--for", "60s"])["state"], "held");
    assert_eq!(ada.document(&["commit", &first])["state"], "committed");
    let orders = pbs.orders(since);
    assert!(orders.len() <= 3 && orders[0].starts_with("pbs_rsub -I 10 "), "{orders:?}");
    assert!(grid.of("north").said().contains("records_unreadable"), "the torn job is told");

    // A denial with exit code 0.
    pbs.control(&["deny", "1"]);
    let told = refusal(&ada, "2", far, "5m");
    assert!(told.contains("the scheduler denied it"), "{told}");

    // Changed in place.
    let changed = ada.document(&["change", &first, "--duration", "8m", "--from", &written(far)]);
    assert_eq!(changed["slots"][0]["end"], written(far + Seconds(480)));
    let becomes = |cores: usize| {
        until(|| match &pbs.kept()[..] {
            [one] if (one.1, one.2, one.3) == (far.0, far.0 + 480, cores) => Ok(pbs.kept()),
            kept => Err(format!("{kept:?}")),
        })
    };
    let before = becomes(8);
    ada.document(&["release", &first, "--keep", "6", "--from", &written(far)]);
    let terms = becomes(6);
    assert_eq!(terms[0].0, before[0].0, "it is the same one");

    // Its server is restarted, and does not know its hosts for a while.
    let since = pbs.log(0).len();
    pbs.control(&["restart", "1.5"]);
    until(|| {
        let up = pbs.log(since).iter().filter(|line| line.starts_with("pbs_rstat")).count();
        if up > 4 { Ok(()) } else { Err(format!("{up} looks")) }
    });
    // A host is down for some polls, and its reservation has odd bytes as vnodes.
    pbs.control(&["away", "pn2"]);
    pbs.pass_looks(3);
    assert_eq!(ada.document(&["show", &first])["state"], "committed");
    pbs.control(&["away"]);
    pbs.pass_looks(2);
    assert_eq!(pbs.kept(), terms);
    let changes = pbs.orders(since).into_iter().filter(|line| !line.starts_with("pbs_rstat"));
    assert_eq!(changes.collect::<Vec<_>>(), [""; 0], "nothing was done about it");

    // A job in a reservation that is cancelled while the job runs.
    let begin = now() + Seconds(10);
    let second = id_of(&reserve(&ada, "12", begin, "10m", &[]));
    assert_eq!(ada.document(&["commit", &second])["state"], "committed");
    let traces = Traces::new(pbs.folder.path(), "job");
    ada.folder.write("script.sh", traces.endless());
    let job = id_of(&ada.document(&["submit", "--reservation", &second, "script.sh"]));
    traces.began();
    assert!(pbs.folder.path().join(format!("{job}.out")).exists(), "what it prints is in a file of its id");
    until(|| match &ada.document(&["show", &job])["state"] {
        state if state == "running" => Ok(()),
        state => Err(state.to_string()),
    });
    ada.document(&["cancel", &second]);
    until(|| if pbs.kept() == terms { Ok(()) } else { Err(format!("{:?}", pbs.kept())) });
    let later = begin + Seconds(120);
    let told = refusal(&ada, "12", later, "5m");
    assert!(told.contains("cores are still being freed by R"), "{told}");
    let from = written(later);
    let again = until(|| {
        let ran = ada.run(&["reserve", "--json", "--capacity", "12", "--duration", "5m", "--from", &from]);
        if ran.code == Some(0) { Ok(id_of(&ran.json())) } else { Err(ran.err) }
    });

    // Cancelled before they begin.
    [again, first].iter().for_each(|id| drop(ada.document(&["cancel", id])));
    until(|| if pbs.kept().is_empty() { Ok(()) } else { Err(format!("{:?}", pbs.kept())) });
    grid.check_journals();
}

#[test]
fn the_log_tells_silence_once_when_it_begins_and_once_when_it_is_over() {
    let pbs = Pbs::new();
    let mut grid = Grid::new();
    runtime().block_on(grid.start("site", "north", &pbs.site(), None));
    let ada = Terminal::at(&grid.of("north").url());
    let far = now() + Seconds(3_600);
    let first = id_of(&reserve(&ada, "4", far, "10m", &["--hold", "60s"]));
    // No command works, then some do, then none again, while all kinds of calls are made. The second silence begins
    // with the first answer after the first one, because ten seconds of answers end a silence.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let from = written(far);
            for _ in 0..3 {
                ada.run(&["reserve", "--capacity", "1", "--duration", "5m", "--from", &from, "--hold", "5s"]);
                ada.run(&["probe", "--capacity", "1", "--duration", "5m", "--from", &from]);
                ada.run(&["submit", "--pretend", "1s"]);
            }
            assert_eq!(ada.document(&["hold", &first, "--for", "60s"])["state"], "held");
        });
        for seconds in ["4", "3"] {
            let since = pbs.log(0).len();
            pbs.control(&["restart", seconds]);
            // The second command of a poll is run only if the first succeeded.
            until(|| match pbs.log(since).iter().filter(|line| *line == "pbs_rstat -F").count() {
                0 | 1 => Err("no look was answered"),
                _ => Ok(()),
            });
        }
    });
    ada.document(&["cancel", &first]);
    let said = || grid.of("north").said();
    until(|| if said().contains("batch_answers") { Ok(()) } else { Err(said()) });
    let lines = |word: &str| said().lines().filter(|line| line.contains(word)).count();
    assert_eq!((lines("batch_silent"), lines("batch_answers"), lines(" ERROR ")), (1, 1, 1), "{}", said());
    assert!(said().contains("queries failed"), "{}", said());
}
