//! Against a real Slurm: each test starts one of its own, in a folder of its own, and ends it. Where Slurm is not installed they
//! fail and say what to install.

mod own;

use bookahead_lrms::batch::{
    BatchSystem, FactState, Handle, JobFact, Picture, Place, Reserved, Submission, Unit, Wanted,
};
use bookahead_lrms::command::Runner;
use bookahead_lrms::slurm::{OwnCluster, OwnClusterSettings, Settings, Slurm};
use bookahead_lrms::{LrmsError, Work};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::Name;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A cluster, and the dialect that speaks to it.
struct Site {
    slurm: Slurm,
    cluster: OwnCluster,
    _folder: TempDir,
}

/// All cores of the partition `main`.
fn cores() -> Place {
    Place { resource: Name::from("cpu"), unit: Unit::Cores, partition: Some("main".into()), features: vec![] }
}

/// Whole nodes of the partition `main`.
fn nodes() -> Place {
    Place { unit: Unit::Nodes, ..cores() }
}

fn start(settings: impl FnOnce(&mut OwnClusterSettings), places: Vec<Place>) -> Site {
    let folder = tempfile::Builder::new().prefix("ba").tempdir().unwrap();
    let mut wanted = OwnClusterSettings::new("test", folder.path());
    wanted.programs = std::env::var_os("BOOKAHEAD_TEST_SLURM").map(Into::into);
    settings(&mut wanted);
    let cluster = OwnCluster::start(&wanted).unwrap_or_else(|why| panic!("{why}"));
    let slurm = dialect(&cluster, places);
    Site { slurm, cluster, _folder: folder }
}

fn dialect(cluster: &OwnCluster, places: Vec<Place>) -> Slurm {
    let settings = Settings {
        conf: Some(cluster.conf()),
        bin: cluster.commands(),
        jobs: cluster.folder().into(),
        ..Settings::new(places)
    };
    Slurm::new(Runner::local(Duration::from_secs(30)), settings)
}
