//! The jobs of the experiment: the first 2,000 valid jobs of SDSC Blue Horizon in nodes of eight processors if the
//! trace is available, otherwise as many jobs drawn from tables of its figures.

use bookahead_plan::{Capacity, Time};
use bookahead_workload::models::{Calibrated, ModelError, Tables};
use bookahead_workload::{Job, LoadError, LoadOptions, Overrun, Trace};
use std::path::{Path, PathBuf};

/// The trace, and an older conversion of it, which alone has the first eight jobs.
const LOG: &str = "SDSC-BLUE-2000-4.2-cln.swf.gz";
const HEAD: &str = "SDSC-BLUE-2000-2-first10.swf.gz";
const JOBS_FROM_HEAD: i64 = 8;
/// Processors of a node.
const NODE: u32 = 8;
const NODES: Capacity = Capacity(144);
const JOBS: usize = 2_000;

/// Jobs and their machine.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Description in the report.
    pub name: String,
    /// Whether it is the real trace.
    pub real: bool,
    /// Number of nodes.
    pub machine: Capacity,
    /// In order of submission, sizes in nodes.
    pub jobs: Vec<Job>,
}

/// Why a workload could not be loaded or generated.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The trace cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The model cannot generate it.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Workload {
    /// The trace if `folder` has it, otherwise a generated workload.
    pub fn find(folder: &Path) -> Result<Workload, WorkloadError> {
        if folder.join(LOG).exists() { Workload::load(folder) } else { Workload::draw(1) }
    }

    /// The files that [`Workload::find`] reads.
    pub fn files(folder: &Path) -> Vec<PathBuf> {
        let files = [LOG, HEAD].map(|name| folder.join(name));
        if files[0].exists() { files.into_iter().filter(|file| file.exists()).collect() } else { Vec::new() }
    }

    /// A valid job has a run time and processors above 0, and a run time within its request.
    fn load(folder: &Path) -> Result<Workload, WorkloadError> {
        let options =
            LoadOptions { unit: NODE, overruns: Overrun::Drop, first: Some(JOBS), ..LoadOptions::default() };
        let head = folder.join(HEAD);
        // Optional: eight of 2,000 jobs change little, and the report says how many were restored.
        let mut jobs = if head.exists() { Trace::load(&head, &options)?.jobs } else { Vec::new() };
        jobs.retain(|job| job.number <= JOBS_FROM_HEAD);
        let restored = jobs.len();
        // The log begins with job 9 and both files have the same origin of time, so the jobs stay in order of
        // submission.
        jobs.extend(Trace::load(&folder.join(LOG), &options)?.jobs);
        // Both files were read up to the full number of jobs.
        jobs.truncate(JOBS);
        let name = format!(
            "SDSC Blue Horizon, the first {JOBS} valid jobs, {restored} of them from an older conversion"
        );
        Ok(Workload { name, real: true, machine: NODES, jobs })
    }

    /// Draws a workload from the figures of the log.
    pub fn draw(seed: u64) -> Result<Workload, WorkloadError> {
        let tables = Tables::blue_horizon();
        let machine = Capacity(tables.machine);
        let jobs = Calibrated { tables, jobs: JOBS, load: None, seed }.generate()?;
        let name = format!(
            "{JOBS} jobs drawn for each seed from tables of figures of SDSC Blue Horizon, because the log ({LOG} of the \
             Parallel Workloads Archive) was not found"
        );
        Ok(Workload { name, real: false, machine, jobs })
    }

    /// The workload for a seed: the log is the same for all, drawn jobs differ.
    pub fn of_seed(&self, seed: u64) -> Workload {
        let other = if self.real { None } else { Workload::draw(seed).ok() };
        // Drawing for another seed cannot fail if it did not for the first.
        other.unwrap_or_else(|| self.clone())
    }

    /// The figures of the jobs, from which workloads like them can be drawn; `None` if they have no span.
    pub fn tables(&self) -> Option<Tables> {
        Tables::of(&self.name, &self.jobs, self.machine)
    }

    /// A copy with all jobs cut to `widest`, and the number of jobs that were cut.
    pub fn limited(&self, widest: Capacity) -> (Workload, usize) {
        let mut limited = self.clone();
        let mut cut = 0;
        for job in limited.jobs.iter_mut().filter(|job| job.processors > widest) {
            job.processors = widest;
            cut += 1;
        }
        (limited, cut)
    }

    /// Time of the first submission.
    pub(super) fn begin(&self) -> Time {
        self.jobs.first().map_or(Time(0), |job| job.submit)
    }
}
