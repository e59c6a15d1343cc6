//! Processes of callers: a site or broker with a journal in PostgreSQL numbers its active processes, one after the
//! other, and sends the number with every call. A call of an earlier process that arrives late is refused.
//! The highest numbers outlive a restart, in a small file or in the database of the journal.

use super::answer::Refusal;
use crate::journal::{CallerEpochs, JournalError};
use crate::replace_file::replace_file;
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

/// Most callers that are remembered: far more than a grid has brokers. Later ones are not checked.
const MOST: usize = 1_000;

/// The highest number of each caller.
#[derive(Default)]
pub struct Epochs {
    place: Place,
    known: Mutex<BTreeMap<String, u64>>,
}

#[derive(Default)]
enum Place {
    #[default]
    Memory,
    File(PathBuf),
    Database(CallerEpochs),
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
        Ok(Epochs { place: Place::File(path), known: Mutex::new(known) })
    }

    /// Those in the database of the journal. Blocks.
    pub(crate) fn in_database(place: CallerEpochs) -> Result<Epochs, JournalError> {
        let known = Mutex::new(place.read()?);
        Ok(Epochs { place: Place::Database(place), known })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a call of a process that another one has replaced. `caller` is the authenticated caller.
    pub(super) async fn admit(
        self: &Arc<Self>,
        caller: Option<&Name>,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let Some(value) = headers.get(EPOCH) else { return Ok(()) };
        let read = value.to_str().ok().and_then(header::read_epoch);
        let Some((party, epoch)) = read else {
            return Err(Refusal::bad_request(
                "Bookahead-Epoch is the name of the caller, a slash and a number",
            ));
        };
        let key = format!("{}/{party}", caller.map_or("", Name::as_str));
        let before = self.known().get(&key).copied();
        match before {
            Some(before) if epoch < before => {
                let why =
                    format!("process {epoch} of {party} was replaced by process {before}; nothing was done");
                Err(Refusal::new(Code::Superseded, why))
            }
            Some(before) if epoch == before => Ok(()),
            None if self.known().len() >= MOST => Ok(()),
            _ => {
                // Written before the call is carried out: after a restart the old process must still be refused.
                let (epochs, key) = (self.clone(), key.clone());
                let raised = tokio::task::spawn_blocking(move || epochs.raise(&key, epoch)).await;
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

    fn raise(&self, key: &str, epoch: u64) -> Result<(), String> {
        // Held while the file is written, so that an older state never replaces a newer one.
        let mut known = self.known();
        let mut raised = known.clone();
        let entry = raised.entry(key.to_owned()).or_default();
        *entry = epoch.max(*entry);
        match &self.place {
            Place::Memory => {}
            Place::File(path) => {
                let text = serde_json::to_vec(&raised).map_err(|why| why.to_string())?;
                replace_file(path, &text).map_err(|why| why.to_string())?;
            }
            Place::Database(place) => place.raise(key, epoch).map_err(|why| why.to_string())?,
        }
        *known = raised;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn admitted(epochs: &Arc<Epochs>, caller: &str, value: &str) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(EPOCH, value.parse().unwrap());
        let admitted = epochs.admit(Some(&caller.into()), &headers).await;
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
}
