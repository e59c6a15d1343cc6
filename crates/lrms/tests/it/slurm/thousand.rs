//! A queue of a thousand jobs.

use super::{FactState, cores, plain};
use std::time::{Duration, Instant};

/// A look takes less than this many times the time of the command that prints the jobs.
const MOST: u32 = 10;

#[test]
fn a_look_at_a_thousand_waiting_jobs_takes_little_longer_than_to_print_them() {
    let mut site = plain(&cores());
    site.local_job(&["-N2", "--exclusive", "-t", "30"]);
    // One shell submits them all, which saves half a minute.
    let script = "i=0; while [ $i -lt 1000 ]; do printf '#!/bin/sh\\ntrue\\n' | sbatch -J j$i -n1 -t 5 -o /dev/null > /dev/null || exit 1; i=$((i+1)); done";
    let bin = site.cluster.commands().map_or("/usr/bin".to_owned(), |bin| bin.display().to_string());
    let mut shells: Vec<_> = (0..1)
        .map(|_| {
            std::process::Command::new("/bin/sh")
                .args(["-c", script])
                .env("SLURM_CONF", site.cluster.conf())
                .env("PATH", format!("{bin}:/usr/bin:/bin"))
                .spawn()
                .unwrap()
        })
        .collect();
    assert!(shells.iter_mut().all(|shell| shell.wait().unwrap().success()));
    // At best, in turn, so that a busy machine slows down both.
    let (mut bare, mut look) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let began = Instant::now();
        assert!(site.by_hand("squeue", &["--json", "--all", "--states=all"]).is_success());
        bare = bare.min(began.elapsed());
        let began = Instant::now();
        let picture = site.look();
        look = look.min(began.elapsed());
        let waiting = picture.jobs.iter().filter(|job| job.state == FactState::Waiting).count();
        assert_eq!(waiting, 1000);
    }
    println!("a look takes {look:?}, squeue alone {bare:?}");
    assert!(look < MOST * bare, "{look:?}, squeue alone {bare:?}");
    // They are no reason to refuse.
    let wanted = site.wanted("ba.one", &cores(), 2000, 60, 8);
    site.create(&wanted).unwrap();
}
