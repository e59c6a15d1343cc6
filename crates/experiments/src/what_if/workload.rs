//! The jobs of the experiment: the first 2,000 sound jobs of SDSC Blue Horizon in nodes of eight processors, where the
//! log is at hand, else as many drawn from a model for a machine of the same size.

use bookahead_plan::{Capacity, Time};
use bookahead_workload::models::{Lublin, ModelError, Setting};
use bookahead_workload::{Job, LoadError, LoadOptions, Overruns, Trace};
use std::path::Path;

/// The log, and an older conversion of it that has the first eight jobs.
const LOG: &str = "SDSC-BLUE-2000-4.2-cln.swf.gz";
const HEAD: &str = "SDSC-BLUE-2000-2-first10.swf.gz";
const JOBS_FROM_HEAD: i64 = 8;
/// Processors of a node.
const NODE: u32 = 8;
const NODES: Capacity = Capacity(144);
const JOBS: usize = 2_000;

/// Jobs and the machine that they are for.
#[derive(Debug, Clone)]
pub struct Workload {
    /// What it is, for the report.
    pub name: String,
    /// Whether it is the real log.
    pub real: bool,
    /// Nodes.
    pub machine: Capacity,
    /// In order of submission, sizes in nodes.
    pub jobs: Vec<Job>,
}

/// Why there is no workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The log cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The model cannot draw it.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Workload {
    /// The log where `folder` has it, else a drawn workload.
    pub fn find(folder: &Path) -> Result<Workload, WorkloadError> {
        if folder.join(LOG).exists() { Workload::load(folder) } else { Workload::draw() }
    }

    /// Sound is: run time and processors above 0, run time not above the request.
    fn load(folder: &Path) -> Result<Workload, WorkloadError> {
        let options =
            LoadOptions { unit: NODE, overruns: Overruns::Drop, first: Some(JOBS), ..LoadOptions::default() };
        let head = folder.join(HEAD);
        let mut jobs = if head.exists() { Trace::load(&head, &options)?.jobs } else { Vec::new() };
        jobs.retain(|job| job.number <= JOBS_FROM_HEAD);
        let restored = jobs.len();
        jobs.extend(Trace::load(&folder.join(LOG), &options)?.jobs);
        jobs.truncate(JOBS);
        let name = format!(
            "SDSC Blue Horizon, the first {JOBS} sound jobs, {restored} of them from an older conversion"
        );
        Ok(Workload { name, real: true, machine: NODES, jobs })
    }

    /// A workload of the same size for the same machine at about the same load.
    pub fn draw() -> Result<Workload, WorkloadError> {
        let setting = Setting { jobs: JOBS, processors: NODES, load: Some(0.75), seed: 2000 };
        let jobs = Lublin { setting, ..Lublin::default() }.generate()?;
        let name = format!(
            "{JOBS} jobs drawn from the Lublin-Feitelson model for 144 nodes at 75% load; the log is not at hand"
        );
        Ok(Workload { name, real: false, machine: NODES, jobs })
    }

    /// With no job wider than `widest`; answers how many were cut.
    pub fn limited(&self, widest: Capacity) -> (Workload, usize) {
        let mut limited = self.clone();
        let mut cut = 0;
        for job in limited.jobs.iter_mut().filter(|job| job.processors > widest) {
            job.processors = widest;
            cut += 1;
        }
        (limited, cut)
    }

    /// From the first submission.
    pub(super) fn begin(&self) -> Time {
        self.jobs.first().map_or(Time(0), |job| job.submit)
    }
}
