//! Keys that a service makes at its first start and keeps in its state folder: the one with which a broker signs tokens
//! for its peers, next to its public key, and the one with which a service signs the sessions of its pages.

use super::DaemonError;
use super::broker::{IDENTITY, new_identity};
use crate::journal::{Database, SharedFile, shared_file};
use crate::replace_file::replace_file;
use crate::security::tls::Content;
use crate::security::{CallsKey, Keys, SecurityError, new_secret};
use crate::thread::PartyError;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Private key, PKCS#8 in PEM.
const PRIVATE: &str = "calls-key.pem";
/// Public key in PEM, for `[[security.broker]] key` of the peers.
const PUBLIC: &str = "calls-key.pub";

/// A secret, as in key files.
const SESSIONS: &str = "sessions-key";

/// The key of sessions, made at the first call.
pub(super) fn sessions_key(state: &Path) -> Result<Keys, DaemonError> {
    let path = state.join(SESSIONS);
    make(&path, new_secret)?;
    Ok(Keys::read(&path)?)
}

/// Writes a new key if there is none. After another error than that, a new key would replace one that is in use; reading
/// the file reports that error.
fn make(path: &Path, new: impl FnOnce() -> Option<String>) -> Result<(), DaemonError> {
    if !std::fs::metadata(path).is_err_and(|missing| missing.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    let made = new().ok_or(DaemonError::NoRandomness)?;
    replace_file(path, made.as_bytes()).map_err(|cause| DaemonError::State { path: path.to_owned(), cause })
}

/// Makes the keys of all processes of a party the same: those in the database, or else those of this process. Then
/// sessions and tokens outlive a take-over, and a broker derives the same ids.
pub(super) fn share_keys(
    database: &Database,
    what: &str,
    owner: &str,
    state: &Path,
) -> Result<(), DaemonError> {
    type Make = fn() -> Option<Vec<u8>>;
    let all: [(&str, Make); 3] = [
        (SESSIONS, || new_secret().map(String::into_bytes)),
        (PRIVATE, || CallsKey::generate().map(String::into_bytes)),
        (IDENTITY, || new_identity().ok()),
    ];
    for (name, new) in all {
        let path = state.join(name);
        let own = std::fs::read(&path).ok();
        let offer = || own.clone().or_else(new);
        let stored =
            shared_file(&SharedFile { database, what, owner, name }, offer).map_err(PartyError::from)?;
        let stored = stored.ok_or(DaemonError::NoRandomness)?;
        if own.as_ref() != Some(&stored) {
            replace_file(&path, &stored).map_err(|cause| DaemonError::State { path: path.clone(), cause })?;
        }
    }
    Ok(())
}

/// The key of the broker, made at the first call.
pub(super) fn calls_key(state: &Path, name: &str) -> Result<Arc<CallsKey>, DaemonError> {
    let path = state.join(PRIVATE);
    make(&path, CallsKey::generate)?;
    let content = Content::read("the key for calls", &path)?;
    content.must_be_private()?;
    let key = CallsKey::parse(name, &content.bytes)
        .map_err(|fault| SecurityError::Keys { path: path.clone(), fault })?;
    let (path, public) = (state.join(PUBLIC), key.public_pem());
    // Written again if it is missing or differs: an operator may have replaced the private key alone.
    if std::fs::read(&path).ok().as_deref() != Some(public.as_bytes()) {
        replace_file(&path, public.as_bytes())
            .map_err(|cause| DaemonError::State { path: path.clone(), cause })?;
    }
    tracing::info!(event = "calls_key", key = key.id(), public = %path.display(), "signing calls to peers with this key");
    Ok(Arc::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_outlive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let sign = |keys: &Keys| keys.secret().unwrap().sign(b"x").as_ref().to_vec();
        let made = sessions_key(folder.path()).unwrap();
        assert_eq!(sign(&made), sign(&sessions_key(folder.path()).unwrap()));
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(sign(&made), sign(&sessions_key(elsewhere.path()).unwrap()));
    }

    #[test]
    fn a_key_is_made_once_and_a_private_key_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = calls_key(folder.path(), "grid").unwrap();
        let again = calls_key(folder.path(), "grid").unwrap();
        assert_eq!(made.id(), again.id());
        let public = folder.path().join(PUBLIC);
        assert_eq!(std::fs::read_to_string(&public).unwrap(), made.public_pem());
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(calls_key(elsewhere.path(), "grid").unwrap().id(), made.id());
        let private = folder.path().join(PRIVATE);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| std::fs::set_permissions(&private, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(std::fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
            mode(0o644);
            assert!(calls_key(folder.path(), "grid").unwrap_err().to_string().contains("chmod o-rwx"));
            mode(0o600);
        }
        std::fs::write(&private, "-----BEGIN PRIVATE KEY-----\nMAAA\n-----END PRIVATE KEY-----\n").unwrap();
        let why = calls_key(folder.path(), "grid").unwrap_err().to_string();
        assert!(why.contains(PRIVATE) && why.contains("Ed25519"), "{why}");
    }
}
