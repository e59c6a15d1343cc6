//! The folder of a sweep:
//!
//! - `sweep.json`: the plan, that is the description, the digest of version and inputs, and the runs that were not done
//! - `runs/command=…/*.parquet`, `jobs/command=…/*.parquet`: the results
//! - `work/PLAN/`: logs of chunks that are not finished, with one line for each run that is; failures
//!
//! A plan is divided into chunks. The log of a chunk becomes a Parquet file when all its runs are done. After a kill, a
//! chunk continues behind the last line of its log; a new plan first turns all logs into files. So no run that ended is
//! run again.

use super::description::{Sweep, text_of};
use super::grid::{Key, digest};
use super::{VERSION, table};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The plan, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// [`VERSION`] of the program that planned, which all chunks must have.
    pub(crate) version: String,
    /// The description, and the folder of its relative paths.
    description: String,
    folder: String,
    /// Digest of version, command and inputs, in hexadecimal digits.
    identity: String,
    /// Runs that were not done when the plan was made: ranges without their ends.
    pending: Vec<(usize, usize)>,
    /// The batch system that runs the chunks.
    pub(crate) submitted: Option<Submitted>,
}

/// Jobs of a batch system that run the chunks of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Submitted {
    /// `slurm` or `hyperqueue`.
    pub(crate) on: String,
    pub(crate) jobs: Vec<String>,
}

/// The folder of a sweep, with its plan.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) root: PathBuf,
    pub(crate) sweep: Sweep,
    pub(crate) plan: Plan,
    pub(crate) identity: u128,
    /// Ranges of runs of each chunk.
    chunks: Vec<Vec<(usize, usize)>>,
    /// Names the files of this plan; the same for the same runs, wherever they run.
    id: String,
}

const PLAN: &str = "sweep.json";

/// Keeps two commands from using one folder. Dropped with the process.
pub(crate) struct FolderLock(File);

impl FolderLock {
    pub(crate) fn take(root: &Path) -> Result<FolderLock> {
        let path = root.join("lock");
        fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let taken = file.try_lock().is_ok();
        ensure!(taken, "another bookahead sweep uses {}; wait for it, or stop it", root.display());
        Ok(FolderLock(file))
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Store {
    /// The plan of a folder.
    pub(crate) fn open(root: &Path) -> Result<Store> {
        let path = root.join(PLAN);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}; use the folder of a sweep", path.display()))?;
        let plan: Plan = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged; delete it and start again", path.display()))?;
        let name = path.display().to_string();
        let sweep = Sweep::parse(&plan.description, &name, Path::new(&plan.folder))?;
        let identity =
            u128::from_str_radix(&plan.identity, 16).with_context(|| format!("{name} is damaged"))?;
        Ok(Store::new(root, sweep, plan, identity))
    }

    fn new(root: &Path, sweep: Sweep, plan: Plan, identity: u128) -> Store {
        let chunks = layout(&plan.pending, sweep.chunk, sweep.runs_in_folder());
        let runs: Vec<String> = plan.pending.iter().map(|(from, to)| format!("{from}-{to}")).collect();
        let parameters: Vec<String> = sweep.parameters.iter().map(|p| format!("{p:?}")).collect();
        let texts = runs.iter().chain(&parameters).chain([&plan.identity]).map(String::as_str);
        let id = format!("{:032x}", digest(texts))[..8].to_owned();
        Store { root: root.to_owned(), sweep, plan, identity, chunks, id }
    }

    /// Makes the plan of the runs that are not done. Results of killed chunks are saved first.
    pub(crate) fn plan(sweep: Sweep, description: String, folder: &Path, identity: u128) -> Result<Store> {
        let root = sweep.out.clone();
        if root.join(PLAN).exists() {
            Store::open(&root)?.save_unfinished()?;
        }
        let _ = fs::remove_dir_all(root.join("work"));
        let done = done(&root)?;
        let mut pending: Vec<(usize, usize)> = Vec::new();
        for run in (0..sweep.runs()).filter(|run| !done.contains(&sweep.key(identity, *run))) {
            match pending.last_mut() {
                Some((_, to)) if *to == run => *to += 1,
                _ => pending.push((run, run + 1)),
            }
        }
        let plan = Plan {
            version: VERSION.to_owned(),
            description,
            folder: text_of(&fs::canonicalize(folder)?)?,
            identity: format!("{identity:032x}"),
            pending,
            submitted: None,
        };
        let store = Store::new(&root, sweep, plan, identity);
        fs::create_dir_all(store.work())
            .with_context(|| format!("cannot create {}", store.work().display()))?;
        store.save()?;
        Ok(store)
    }

    /// Writes the plan, whole.
    fn save(&self) -> Result<()> {
        let (draft, path) = (self.work().join("plan"), self.root.join(PLAN));
        fs::write(&draft, serde_json::to_string_pretty(&self.plan)?)
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Records which jobs run the chunks.
    pub(crate) fn set_submitted(&mut self, submitted: Option<Submitted>) -> Result<()> {
        self.plan.submitted = submitted;
        self.save()
    }

    /// The name of its jobs.
    pub(crate) fn job_name(&self) -> String {
        format!("bookahead-{}", self.id)
    }

    /// Whether it is the plan of this description, on these inputs.
    pub(crate) fn is_of(&self, sweep: &Sweep, identity: u128) -> bool {
        // Compared as parameters: other settings, such as those of Slurm, change no result.
        self.identity == identity
            && self.sweep.parameters == sweep.parameters
            && self.sweep.chunk == sweep.chunk
    }

    /// The folder of relative paths.
    pub(crate) fn folder(&self) -> PathBuf {
        PathBuf::from(&self.plan.folder)
    }

    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The runs that were not done when the plan was made.
    pub(crate) fn pending(&self) -> usize {
        self.plan.pending.iter().map(|(from, to)| to - from).sum()
    }

    /// The runs of a chunk.
    pub(crate) fn runs_of(&self, chunk: usize) -> impl Iterator<Item = usize> + '_ {
        self.chunks.get(chunk).into_iter().flatten().flat_map(|(from, to)| *from..*to)
    }

    pub(crate) fn key_text(&self, run: usize) -> String {
        format!("{:032x}", self.sweep.key(self.identity, run))
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work").join(&self.id)
    }

    /// A file of a chunk in the work folder.
    pub(crate) fn work_file(&self, chunk: usize, ending: &str) -> PathBuf {
        self.work().join(format!("{chunk:05}.{ending}"))
    }

    /// The file of results of a chunk; `table` is `runs` or `jobs`.
    pub(crate) fn results_file(&self, table: &str, chunk: usize) -> PathBuf {
        let mut path = self.root.join(table).join(format!("command={}", self.sweep.command.name()));
        if let Some(run) = self.runs_of(chunk).next() {
            for (parameter, value) in self.sweep.setting(run).iter().take(self.sweep.partition) {
                path.push(format!("{}={}", parameter.column, in_path(&value.to_string())));
            }
        }
        path.join(format!("{}-{chunk:05}.parquet", self.id))
    }

    /// Whether all runs of a chunk ended.
    pub(crate) fn is_done(&self, chunk: usize) -> bool {
        let finished = self.results_file("runs", chunk).exists() || self.work_file(chunk, "failed").exists();
        finished && !self.work_file(chunk, "log").exists()
    }

    /// The number of runs of this plan that ended, from its files and logs.
    pub(crate) fn count_ended(&self) -> usize {
        let lines = |chunk| {
            let log = fs::read(self.work_file(chunk, "log")).unwrap_or_default();
            log.iter().filter(|byte| **byte == b'\n').count()
        };
        let ended = |chunk| if self.is_done(chunk) { self.runs_of(chunk).count() } else { lines(chunk) };
        (0..self.chunks()).map(ended).sum()
    }

    fn save_unfinished(&self) -> Result<()> {
        for chunk in 0..self.chunks() {
            if self.work_file(chunk, "log").exists()
                && let Some(mut open) = super::chunk::OpenChunk::open(self, chunk)?
            {
                open.finish(self)?;
            }
        }
        Ok(())
    }
}

/// Keys of all runs in the folder.
fn done(root: &Path) -> Result<HashSet<Key>> {
    let mut keys = HashSet::new();
    for file in parquet_files(&root.join("runs"))? {
        for row in table::read(&file, Some("key"))? {
            let text = row.first().and_then(|cell| cell.value.as_ref()).map(ToString::to_string);
            keys.extend(text.and_then(|text| Key::from_str_radix(&text, 16).ok()));
        }
    }
    Ok(keys)
}

/// All Parquet files below a folder, in order; none if there is no such folder.
pub(crate) fn parquet_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.sort_unstable();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(parquet_files(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "parquet") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Divides runs into chunks. A chunk does not reach over a multiple of `folder`, so that its runs share a folder.
fn layout(pending: &[(usize, usize)], chunk: usize, folder: usize) -> Vec<Vec<(usize, usize)>> {
    let mut chunks: Vec<Vec<(usize, usize)>> = Vec::new();
    let (mut room, mut of) = (0, None);
    for &(mut from, to) in pending {
        while from < to {
            let group = from / folder.max(1);
            if room == 0 || of != Some(group) {
                chunks.push(Vec::new());
                (room, of) = (chunk.max(1), Some(group));
            }
            let end = to.min(from + room).min((group + 1) * folder.max(1));
            if let Some(last) = chunks.last_mut() {
                last.push((from, end));
            }
            room -= end - from;
            from = end;
        }
    }
    chunks
}

/// A value as the name of a folder, with the escapes of Hive.
fn in_path(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']' | ',' | '+');
    let mut escaped = String::new();
    for character in text.chars() {
        if plain(character) {
            escaped.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                escaped += &format!("%{byte:02X}");
            }
        }
    }
    // An empty name would be no folder; Hive has this one for it.
    if escaped.is_empty() { "__HIVE_DEFAULT_PARTITION__".to_owned() } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_in_paths_are_escaped() {
        assert_eq!(in_path("easy[order=sjf]"), "easy[order%3Dsjf]");
        assert_eq!((in_path("a/b"), in_path("")), ("a%2Fb".into(), "__HIVE_DEFAULT_PARTITION__".into()));
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn each_pending_run_is_in_one_chunk_of_its_folder(
            gaps in proptest::collection::vec((0_usize..4, 1_usize..30), 0..8),
            chunk in 1_usize..12,
            folder in 1_usize..20,
        ) {
            let mut pending = Vec::new();
            let mut at = 0;
            for (gap, length) in gaps {
                pending.push((at + gap, at + gap + length));
                at += gap + length + 1;
            }
            let chunks = layout(&pending, chunk, folder);
            let runs = |ranges: &[(usize, usize)]| ranges.iter().flat_map(|(from, to)| *from..*to).collect::<Vec<_>>();
            prop_assert_eq!(chunks.iter().flat_map(|chunk| runs(chunk)).collect::<Vec<_>>(), runs(&pending));
            for ranges in &chunks {
                let runs = runs(ranges);
                prop_assert!((1..=chunk).contains(&runs.len()));
                prop_assert!(runs.iter().all(|run| run / folder == runs[0] / folder));
            }
        }
    }
}
