//! The key with which a broker signs tokens for its peers. It is made at the first start and kept in the state
//! folder, next to the public key for the peers.

use super::DaemonError;
use crate::replace_file::replace_file;
use crate::security::tls::Content;
use crate::security::{CallsKey, SecurityError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Private key, PKCS#8 in PEM.
const PRIVATE: &str = "calls-key.pem";
/// Public key in PEM, for `[[security.broker]] key` of the peers.
const PUBLIC: &str = "calls-key.pub";

/// The key of the broker, made at the first call.
pub(super) fn calls_key(state: &Path, name: &str) -> Result<Arc<CallsKey>, DaemonError> {
    let path = state.join(PRIVATE);
    // Only if it is missing: after another error a new key would replace the one that peers trust. `read`
    // below reports that error.
    if let Err(missing) = std::fs::metadata(&path)
        && missing.kind() == ErrorKind::NotFound
    {
        let made = CallsKey::generate().ok_or(DaemonError::NoRandomness)?;
        replace_file(&path, made.as_bytes())
            .map_err(|cause| DaemonError::State { path: path.clone(), cause })?;
    }
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
