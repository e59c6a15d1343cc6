//! Processes of callers: a site or broker with a journal in PostgreSQL numbers its active processes, one after the
//! other, and sends the number with every call. A call of an earlier process that arrives late is refused.
//! The highest numbers outlive a restart, in a small file or in the database of the journal.

use super::answer::Refusal;
use crate::journal::{CallerEpochs, JournalError};
use crate::replace_file::replace_file;
use crate::security::user_name;
use axum::http::HeaderMap;
use bookahead_api::Code;
use bookahead_api::header::{self, EPOCH};
use bookahead_protocol::Name;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name of the file in the state folder.
const FILE: &str = "caller-epochs.json";

/// Most parties that are remembered: far more than a grid has. The one that called longest ago is forgotten for another.
const MOST: usize = 1_000;

/// Most with the same credentials.
const MOST_EACH: usize = 16;

/// The highest number of each calling party.
#[derive(Default)]
pub struct Epochs {
    place: Place,
    known: Mutex<Known>,
}

/// By the authenticated caller and the party that it says it is.
#[derive(Default)]
struct Known {
    epochs: BTreeMap<String, u64>,
    /// Grows with each call.
    calls: u64,
    /// The last call of each since the start.
    last_calls: BTreeMap<String, u64>,
}

#[derive(Default)]
enum Place {
    #[default]
    Memory,
    File(PathBuf),
    Database(CallerEpochs),
}

impl Known {
    fn of(epochs: BTreeMap<String, u64>) -> Known {
        Known { epochs, ..Known::default() }
    }

    fn called(&mut self, key: &str) {
        self.calls += 1;
        self.last_calls.insert(key.to_owned(), self.calls);
    }

    /// Which ones must be forgotten for a new one.
    fn too_many(&self, caller: &str) -> Vec<String> {
        let own = format!("{caller}/");
        let oldest = |keys: Vec<&String>, most: usize| {
            let last = |key: &&String| self.last_calls.get(*key).copied().unwrap_or_default();
            let is_full = keys.len() >= most;
            keys.into_iter().min_by_key(last).filter(|_| is_full).cloned()
        };
        let of_caller = self.epochs.keys().filter(|key| key.starts_with(&own)).collect();
        let of_all = self.epochs.keys().collect();
        oldest(of_caller, MOST_EACH).or_else(|| oldest(of_all, MOST)).into_iter().collect()
    }
}

impl Epochs {
    /// Those in the state folder of a party.
    pub(crate) fn in_folder(state: &Path) -> io::Result<Epochs> {
        let path = state.join(FILE);
        let known = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(missing) if missing.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(why) => return Err(why),
        };
        Ok(Epochs { place: Place::File(path), known: Mutex::new(Known::of(known)) })
    }

    /// Those in the database of the journal. Blocks.
    pub(crate) fn in_database(place: CallerEpochs) -> Result<Epochs, JournalError> {
        let known = Mutex::new(Known::of(place.read()?));
        Ok(Epochs { place: Place::Database(place), known })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a call of a broker's process that another one has replaced. `caller` is authenticated, and may
    /// be a broker or a site; the header of others has no effect, because users could replace a broker by it.
    pub(super) async fn admit(
        self: &Arc<Self>,
        caller: Option<&Name>,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let (Some(value), Some(caller)) = (headers.get(EPOCH), caller) else { return Ok(()) };
        let read = value.to_str().ok().and_then(header::read_epoch);
        let Some((party, epoch)) = read.filter(|(party, _)| user_name(party.as_str()).is_some()) else {
            return Err(Refusal::bad_request(
                "Bookahead-Epoch is the name of the caller, a slash and a number",
            ));
        };
        let key = format!("{caller}/{party}");
        let before = {
            let mut known = self.known();
            let before = known.epochs.get(&key).copied();
            if before.is_some() {
                known.called(&key);
            }
            before
        };
        match before {
            Some(before) if epoch < before => {
                let why =
                    format!("process {epoch} of {party} was replaced by process {before}; nothing was done");
                Err(Refusal::new(Code::Superseded, why))
            }
            Some(before) if epoch == before => Ok(()),
            _ => {
                // Written before the call is carried out: after a restart the old process must still be refused.
                let (epochs, caller) = (self.clone(), caller.clone());
                let raised = tokio::task::spawn_blocking(move || epochs.raise(&caller, &key, epoch)).await;
                match raised {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(why)) => {
                        tracing::error!(event = "caller_epochs_not_written", "{why}");
                        Err(Refusal::new(
                            Code::Unavailable,
                            "cannot record the process of the caller; repeat the call",
                        ))
                    }
                    Err(_) => Err(Refusal::internal("a task ended unexpectedly")),
                }
            }
        }
    }

    fn raise(&self, caller: &Name, key: &str, epoch: u64) -> Result<(), String> {
        // Held while the file is written, so that an older state never replaces a newer one.
        let mut known = self.known();
        let mut raised = known.epochs.clone();
        let is_new = !raised.contains_key(key);
        let forgotten = if is_new { known.too_many(caller.as_str()) } else { Vec::new() };
        raised.retain(|key, _| !forgotten.contains(key));
        let entry = raised.entry(key.to_owned()).or_default();
        *entry = epoch.max(*entry);
        match &self.place {
            Place::Memory => {}
            Place::File(path) => {
                let text = serde_json::to_vec(&raised).map_err(|why| why.to_string())?;
                replace_file(path, &text).map_err(|why| why.to_string())?;
            }
            Place::Database(place) => {
                place.raise(key, epoch, &forgotten).map_err(|why| why.to_string())?;
            }
        }
        known.last_calls.retain(|key, _| !forgotten.contains(key));
        known.epochs = raised;
        known.called(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn admitted(epochs: &Arc<Epochs>, broker: &str, value: &str) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(EPOCH, value.parse().unwrap());
        let admitted = epochs.admit(Some(&broker.into()), &headers).await;
        admitted.map_err(|refusal| refusal.code().to_owned())
    }

    #[tokio::test]
    async fn an_earlier_process_of_a_caller_is_refused_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let epochs = Arc::new(Epochs::in_folder(folder.path()).unwrap());
        assert_eq!(epochs.admit(None, &HeaderMap::new()).await.map_err(|_| ()), Ok(()));
        assert_eq!(admitted(&epochs, "grid", "grid/7").await, Ok(()));
        assert_eq!(admitted(&epochs, "grid", "grid/7").await, Ok(()));
        assert_eq!(admitted(&epochs, "grid", "grid/8").await, Ok(()));
        assert_eq!(admitted(&epochs, "mallory", "grid/99").await, Ok(()), "of another caller");
        for epochs in [epochs, Arc::new(Epochs::in_folder(folder.path()).unwrap())] {
            assert_eq!(admitted(&epochs, "grid", "grid/7").await, Err("superseded".into()));
            assert_eq!(admitted(&epochs, "grid", "grid/8").await, Ok(()));
            assert_eq!(admitted(&epochs, "grid", "nonsense").await, Err("bad-request".into()));
        }
    }

    #[tokio::test]
    async fn a_broker_that_invents_names_neither_fills_the_list_nor_replaces_another_broker() {
        let folder = tempfile::tempdir().unwrap();
        let epochs = Arc::new(Epochs::in_folder(folder.path()).unwrap());
        assert_eq!(admitted(&epochs, "grid", "grid/8").await, Ok(()));
        for number in 0..2_000 {
            assert_eq!(admitted(&epochs, "mallory", &format!("name{number}/1")).await, Ok(()));
        }
        let bytes = std::fs::metadata(folder.path().join(FILE)).unwrap().len();
        assert!(bytes < 1_000, "{bytes} bytes");
        assert_eq!(admitted(&epochs, "grid", "grid/7").await, Err("superseded".into()));
        let long = format!("{}/1", "x".repeat(20_000));
        assert_eq!(admitted(&epochs, "mallory", &long).await, Err("bad-request".into()));
    }

    #[tokio::test]
    async fn of_many_brokers_the_one_that_called_longest_ago_is_forgotten() {
        let epochs = Arc::new(Epochs::default());
        for number in 0..MOST {
            assert_eq!(admitted(&epochs, &format!("broker{number}"), "grid/5").await, Ok(()));
        }
        assert_eq!(admitted(&epochs, "broker0", "grid/5").await, Ok(()));
        assert_eq!(admitted(&epochs, "another", "grid/5").await, Ok(()));
        assert_eq!(epochs.known().epochs.len(), MOST);
        assert_eq!(admitted(&epochs, "broker0", "grid/4").await, Err("superseded".into()));
        assert_eq!(admitted(&epochs, "broker1", "grid/4").await, Ok(()), "forgotten");
    }
}
