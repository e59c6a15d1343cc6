//! A queue of a thousand jobs.

use super::{FactState, cores, plain};
use std::time::{Duration, Instant};

#[test]
fn a_thousand_waiting_jobs_are_seen_within_a_second() {
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
    let took: Vec<Duration> = (0..3)
        .map(|_| {
            let began = Instant::now();
            let picture = site.look();
            let waiting = picture.jobs.iter().filter(|job| job.state == FactState::Waiting).count();
            assert_eq!(waiting, 1000);
            began.elapsed()
        })
        .collect();
    let best = took.iter().min().unwrap();
    println!("a look takes {took:?}");
    assert!(*best < Duration::from_secs(1), "{took:?}");
    // They are no reason to refuse.
    let wanted = site.wanted("ba.one", &cores(), 2000, 60, 8);
    site.create(&wanted).unwrap();
}
