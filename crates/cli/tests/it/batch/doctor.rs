//! `bookahead site doctor` on a real Slurm: no findings if all is well, and advice otherwise.

use super::cluster::Cluster;
use crate::folder::{Folder, Ran};

/// Runs the doctor on a site of this configuration.
fn examined(description: &str) -> Ran {
    let folder = Folder::with("site.toml", description);
    folder.run("site doctor --config site.toml")
}

/// Checks that it found an error, and printed all of these words about it.
#[track_caller]
fn assert_wrong(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.lines().any(|line| line.starts_with("wrong ")), "{ran:?}");
    for word in words {
        assert!(ran.out.contains(word), "'{word}' is missing: {ran:?}");
    }
}

#[test]
fn the_doctor_finds_a_site_on_slurm_well_or_says_what_to_mend() {
    let mut cluster = Cluster::of(2, 2);
    let right = cluster.site("north", "time_out = \"2s\"", "");
    let well = examined(&right);
    assert_eq!(well.code, Some(0), "{well:?}");
    assert!(!well.out.contains("wrong ") && well.out.contains("capacity of cluster"), "{well:?}");
    assert!(cluster.reservations().is_empty(), "what it tries is gone");

    let named = examined(&cluster.site("north", "project = \"physics\"", ""));
    assert!(named.code == Some(0) && named.out.contains("any name is accepted as a project"), "{named:?}");
    assert_wrong(&examined(&right.replace("capacity = 4", "capacity = 40")), &["set capacity = 4"]);
    let unknown = right.replace("partition = \"main\"", "partition = \"gpu\"");
    assert_wrong(&examined(&unknown), &["there is no partition gpu", "use one of: main"]);
    cluster.daemons().stop_controller();
    let down = examined(&right);
    assert_wrong(&down, &["→"]);
    assert!(down.out.contains("slurmctld"), "it says what to start: {down:?}");
}
