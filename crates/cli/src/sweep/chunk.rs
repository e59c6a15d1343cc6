//! Runs of a chunk: the log of the runs that ended, and its end as a Parquet file.

use super::store::Store;
use super::table::{self, Cell, Row};
use super::task::{Outcome, Task};
use super::values::{Kind, Value};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A line of a log: the results of a run, or why it failed.
#[derive(Serialize, Deserialize)]
struct Line {
    run: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// Name, kind and value as text: numbers in JSON would not keep all their digits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<(String, Kind, Option<String>)>,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) run: usize,
    pub(crate) why: String,
}

/// A chunk that this process runs. Its log is locked, so no other process runs it.
pub(crate) struct OpenChunk {
    number: usize,
    log: File,
    rows: BTreeMap<usize, Row>,
    failures: Vec<Failure>,
}

impl OpenChunk {
    /// None if it is done.
    pub(crate) fn open(store: &Store, number: usize) -> Result<Option<OpenChunk>> {
        if store.is_done(number) {
            return Ok(None);
        }
        let path = store.work_file(number, "log");
        let cannot = || format!("cannot open {}", path.display());
        let mut log =
            File::options().create(true).read(true).append(true).open(&path).with_context(cannot)?;
        match log.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("chunk {number} is run by another process; wait for it"),
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        let finished = store.results_file("runs", number).exists();
        let mut text = String::new();
        log.read_to_string(&mut text).with_context(cannot)?;
        if finished && text.is_empty() {
            // Another process finished it between our two looks.
            let _ = fs::remove_file(&path);
            return Ok(None);
        }
        // A process that is killed may leave a part of its last line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        log.set_len(whole as u64).and_then(|()| log.seek(SeekFrom::End(0))).with_context(cannot)?;
        let mut rows = BTreeMap::new();
        for line in text[..whole].lines() {
            let line: Line =
                serde_json::from_str(line).with_context(|| format!("{} is damaged", path.display()))?;
            // A failed run is tried again.
            if line.failed.is_none() {
                rows.insert(line.run, cells(line.values));
            }
        }
        Ok(Some(OpenChunk { number, log, rows, failures: Vec::new() }))
    }

    /// The runs that have not ended.
    fn left(&self, store: &Store) -> Vec<usize> {
        store.runs_of(self.number).filter(|run| !self.rows.contains_key(run)).collect()
    }

    fn job_part(&self, store: &Store, run: usize) -> PathBuf {
        store.work_file(self.number, &format!("{run}.jobs"))
    }

    fn record(&mut self, store: &Store, run: usize, result: Result<Outcome>) -> Result<()> {
        let line = match result {
            Ok(outcome) => {
                if let Some(jobs) = &outcome.jobs {
                    let draft = store.work_file(self.number, &format!("{run}.draft"));
                    table::write_jobs(&draft, &self.job_part(store, run), &store.key_text(run), jobs)?;
                }
                let line = Line { run, failed: None, values: texts(&outcome.row) };
                self.rows.insert(run, outcome.row);
                line
            }
            Err(error) => {
                let why = format!("{error:#}");
                self.failures.push(Failure { run, why: why.clone() });
                Line { run, failed: Some(why), values: Vec::new() }
            }
        };
        // One write, so that a kill leaves at most a part of this line.
        let line = serde_json::to_string(&line)? + "\n";
        self.log.write_all(line.as_bytes()).context("cannot write the log of a chunk")
    }

    fn ended(&self) -> usize {
        self.rows.len() + self.failures.len()
    }

    /// Writes the results, and removes the log.
    pub(crate) fn finish(&mut self, store: &Store) -> Result<()> {
        let number = self.number;
        let draft = store.work_file(number, "draft");
        if !self.failures.is_empty() {
            self.failures.sort_by_key(|failure| failure.run);
            fs::write(&draft, serde_json::to_string(&self.failures)?)?;
            fs::rename(&draft, store.work_file(number, "failed"))?;
        }
        let parts: Vec<PathBuf> = self.rows.keys().map(|run| self.job_part(store, *run)).collect();
        if store.sweep.jobs {
            table::join(&draft, &store.results_file("jobs", number), parts.iter().map(PathBuf::as_path))?;
        }
        if !self.rows.is_empty() {
            let rows: Vec<Row> = std::mem::take(&mut self.rows)
                .into_iter()
                .map(|(run, results)| whole_row(store, run, results))
                .collect();
            table::write(&draft, &store.results_file("runs", number), &rows)?;
        }
        fs::remove_file(store.work_file(number, "log"))?;
        for part in parts.iter().filter(|_| store.sweep.jobs) {
            fs::remove_file(part)?;
        }
        Ok(())
    }
}

/// Key, version and parameters before the results. Parameters that are folders are not repeated.
fn whole_row(store: &Store, run: usize, results: Row) -> Row {
    let mut row = vec![
        Cell::new("key", Value::Text(store.key_text(run))),
        Cell::new("version", Value::Text(store.plan.version.clone())),
    ];
    let setting = store.sweep.setting(run).into_iter().skip(store.sweep.partition);
    row.extend(setting.map(|(parameter, value)| Cell::new(parameter.column.clone(), value.clone())));
    row.extend(results);
    row
}

fn texts(row: &Row) -> Vec<(String, Kind, Option<String>)> {
    let text = |cell: &Cell| {
        (cell.name.clone().into_owned(), cell.kind, cell.value.as_ref().map(ToString::to_string))
    };
    row.iter().map(text).collect()
}

fn cells(values: Vec<(String, Kind, Option<String>)>) -> Row {
    let cell = |(name, kind, text): (String, Kind, Option<String>)| {
        let value = text.and_then(|text| Value::parse(kind, &text));
        Cell { name: name.into(), kind, value }
    };
    values.into_iter().map(cell).collect()
}

/// The failures of a plan.
pub(crate) fn failures(store: &Store) -> Vec<Failure> {
    let read = |chunk| fs::read_to_string(store.work_file(chunk, "failed")).ok();
    let texts = (0..store.chunks()).filter_map(read);
    texts.filter_map(|text| serde_json::from_str::<Vec<Failure>>(&text).ok()).flatten().collect()
}

/// A chunk whose runs several threads take.
struct Current {
    open: Mutex<OpenChunk>,
    runs: Vec<usize>,
    next: AtomicUsize,
    /// Ended runs at which it is finished.
    full: usize,
}

struct Queue<'a> {
    store: &'a Store,
    chunks: std::slice::Iter<'a, usize>,
    current: Option<Arc<Current>>,
}

impl Queue<'_> {
    /// The next run; `ended` is told the runs that ended earlier.
    fn take(&mut self, ended: &dyn Fn(u64)) -> Result<Option<(Arc<Current>, usize)>> {
        loop {
            if let Some(current) = &self.current {
                let at = current.next.fetch_add(1, Ordering::Relaxed);
                if let Some(run) = current.runs.get(at) {
                    return Ok(Some((current.clone(), *run)));
                }
            }
            self.current = None;
            let Some(chunk) = self.chunks.next() else { return Ok(None) };
            let Some(mut open) = OpenChunk::open(self.store, *chunk)? else {
                ended(self.store.runs_of(*chunk).count() as u64);
                continue;
            };
            let runs = open.left(self.store);
            ended(open.rows.len() as u64);
            if runs.is_empty() {
                open.finish(self.store)?;
                continue;
            }
            let full = open.rows.len() + runs.len();
            let next = AtomicUsize::new(0);
            self.current = Some(Arc::new(Current { open: Mutex::new(open), runs, next, full }));
        }
    }
}

/// Runs chunks on several threads, and returns how many runs that were. `ended` is called with a number of runs that
/// ended now or earlier, on any thread.
pub(crate) fn run_chunks(
    store: &Store,
    task: &Task,
    chunks: &[usize],
    threads: usize,
    ended: &(dyn Fn(u64) + Sync),
) -> Result<usize> {
    let ran = AtomicUsize::new(0);
    let queue = Mutex::new(Queue { store, chunks: chunks.iter(), current: None });
    let error: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let step = || -> Result<bool> {
        let taken = queue.lock().unwrap_or_else(PoisonError::into_inner).take(ended)?;
        let Some((current, run)) = taken else { return Ok(false) };
        ran.fetch_add(1, Ordering::Relaxed);
        let result = task.run(&store.sweep.setting(run));
        let mut open = current.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.record(store, run, result)?;
        ended(1);
        if open.ended() == current.full {
            open.finish(store)?;
        }
        Ok(true)
    };
    let work = || {
        while error.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            match step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let error = error.into_inner().unwrap_or_else(PoisonError::into_inner);
    error.map_or(Ok(ran.into_inner()), Err)
}

/// All chunks that are not done.
pub(crate) fn unfinished(store: &Store) -> BTreeSet<usize> {
    (0..store.chunks()).filter(|chunk| !store.is_done(*chunk)).collect()
}
