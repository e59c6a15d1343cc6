//! A PBS that is nothing but a folder of small scripts: they note how they were called and print what they were told to.

use crate::program::write_program;
use bookahead_lrms::batch::{Place, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_lrms::pbs::{Pbs, Settings};
use bookahead_plan::{Interval, Time};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// What reservations are called.
const NAME: &str = "ba.site.0123456789abcdef0123456789abcdef.0.ann";

pub(crate) struct Fake {
    folder: TempDir,
}

impl Fake {
    /// With the vnodes, jobs and reservations of the fixtures.
    pub(crate) fn new() -> Fake {
        let fake = Fake { folder: tempfile::tempdir().unwrap() };
        fake.prints("pbsnodes", 0, include_str!("fixtures/pbsnodes.json"));
        fake.prints("qstat", 0, include_str!("fixtures/qstat.json"));
        fake.prints("pbs_rstat", 0, include_str!("fixtures/pbs_rstat.txt"));
        fake.prints("pbs_rdel", 0, "");
        fake
    }

    /// From now on a program prints this and ends with that code.
    pub(crate) fn prints(&self, program: &str, code: i32, text: &str) {
        self.prints_in_turn(program, &[(code, text)]);
    }

    /// From now on a program prints one after the other of these, then the last again and again. What has a code of its own
    /// other than zero goes to standard error.
    pub(crate) fn prints_in_turn(&self, program: &str, turns: &[(i32, &str)]) {
        let mut cases = String::new();
        for (turn, (code, text)) in turns.iter().enumerate() {
            let file = self.path(&format!("{program}.{turn}"));
            fs::write(&file, text).unwrap();
            let stream = if *code == 0 { "" } else { " >&2" };
            let last = turn + 1 == turns.len();
            let label = if last { "*".to_owned() } else { turn.to_string() };
            cases.push_str(&format!("{label}) cat {}{stream}; exit {code};;\n", file.display()));
        }
        let counter = self.path(&format!("{program}.count"));
        fs::write(&counter, "0").unwrap();
        let counter = counter.display();
        self.does(
            program,
            &format!("n=$(cat {counter}); echo $((n + 1)) > {counter}\ncase $n in\n{cases}esac"),
        );
    }

    /// From now on a program does this.
    pub(crate) fn does(&self, program: &str, body: &str) {
        let path = self.path(program);
        let (log, input) = (self.path("log"), self.path("input"));
        let note = format!("echo {program} \"$@\" >> {}\n", log.display());
        // Only jobs are read from standard input.
        let read = if program == "qsub" { format!("cat > {}\n", input.display()) } else { String::new() };
        write_program(&path, &format!("#!/bin/sh\n{note}{read}{body}\n"));
    }

    pub(crate) fn pbs(&self) -> Pbs {
        self.pbs_with(self.settings(), Duration::from_secs(20))
    }

    pub(crate) fn pbs_with(&self, settings: Settings, time_out: Duration) -> Pbs {
        Pbs::new(Runner::local(time_out), settings)
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings { bin: Some(self.folder.path().into()), ..Settings::new(vec![place(Unit::Cores)]) }
    }

    /// How this program was called, one line each.
    pub(crate) fn calls(&self, program: &str) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let called = log.lines().filter(|line| line.split(' ').next() == Some(program));
        called.map(str::to_owned).collect()
    }

    /// What the last job read.
    pub(crate) fn input(&self) -> String {
        fs::read_to_string(self.path("input")).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn place(unit: Unit) -> Place {
    Place { resource: "cpu".into(), unit, partition: Some("workq".into()), features: Vec::new() }
}

/// From 11:33:20 to 11:35:00, as the fixtures have it.
pub(crate) fn wanted(amount: u32) -> Wanted {
    Wanted {
        name: NAME.into(),
        place: place(Unit::Cores),
        interval: Interval::new(Time(1_794_742_400), Time(1_794_742_500)),
        amount,
        account: "ann".into(),
    }
}

/// One confirmed reservation as `pbs_rstat -F` shows it.
pub(crate) fn shown(begin: &str, end: &str, select: &str, place: &str, nodes: &str) -> String {
    format!(
        "Resv ID: R9.pbs1\nReserve_Name = {NAME}\nReserve_Owner = root@login\nreserve_state = RESV_CONFIRMED\n\
         reserve_start = Sun Nov 15 {begin} 2026\nreserve_end = Sun Nov 15 {end} 2026\nqueue = R9\n\
         Resource_List.place = {place}\nResource_List.select = {select}\nresv_nodes = {nodes}\n\
         Authorized_Users = ann@*\n\n"
    )
}

/// Two cores on n1 and two on n2, from 11:33:20 to the given end.
pub(crate) fn four_until(end: &str) -> String {
    shown("11:33:20", end, "4:ncpus=1", "free", "(n1:ncpus=1)+(n1:ncpus=1)+(n2:ncpus=1)+(n2:ncpus=1)")
}
