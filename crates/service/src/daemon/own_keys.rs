//! Keys that a service makes at its first start and keeps in its state folder: the one with which a broker signs tokens
//! for its peers, next to its public key, and the one with which a service signs the sessions of its pages.

use super::DaemonError;
use super::broker::{IDENTITY, new_identity};
use crate::journal::{Database, SharedFile, remove_shared_file, shared_file};
use crate::replace_file::replace_file;
use crate::security::tls::Content;
use crate::security::{CallsKey, Keys, SecurityError, new_secret};
use crate::thread::PartyError;
use bookahead_party::Role;
use ring::digest;
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

/// The private keys of a service.
const ALL: [(&str, New); 3] = [
    (SESSIONS, || new_secret().map(String::into_bytes)),
    (PRIVATE, || CallsKey::generate().map(String::into_bytes)),
    (IDENTITY, || new_identity().ok()),
];

type New = fn() -> Option<Vec<u8>>;

/// The keys that a site or broker needs.
pub(super) fn needed(role: Role, signs_in: bool) -> Vec<&'static str> {
    let sessions = signs_in.then_some(SESSIONS);
    let of_broker = [PRIVATE, IDENTITY].into_iter().filter(|_| role == Role::Broker);
    sessions.into_iter().chain(of_broker).collect()
}

/// Checks that all processes of a party have the same keys, so that sessions and tokens outlive a take-over and a broker
/// derives the same ids. The database has only the digest of each key: its dumps and archives must be of no use to
/// others. The first process makes the keys, and an operator copies them to the others. Keys that an earlier version
/// stored in the database are written to the state folder and deleted there.
pub(super) fn check_keys(
    database: &Database,
    (what, owner): (&str, &str),
    state: &Path,
    needed: &[&str],
) -> Result<(), DaemonError> {
    for (name, new) in ALL {
        let path = state.join(name);
        let failed = |cause| DaemonError::State { path: path.clone(), cause };
        let before = SharedFile { database, what, owner, name };
        let mut own = match std::fs::read(&path) {
            Ok(own) => Some(own),
            Err(missing) if missing.kind() == ErrorKind::NotFound => None,
            Err(cause) => return Err(failed(cause)),
        };
        if let Some(stored) = shared_file(&before, || None).map_err(PartyError::from)? {
            if own.as_ref() != Some(&stored) {
                replace_file(&path, &stored).map_err(failed)?;
            }
            remove_shared_file(&before).map_err(PartyError::from)?;
            tracing::warn!(
                event = "key_taken_out_of_database",
                key = name,
                "deleted a private key from the database; dumps and archives of it still have the key, so replace it"
            );
            own = Some(stored);
        }
        if !needed.contains(&name) {
            continue;
        }
        let digest_name = format!("{name}.sha256");
        let digests = SharedFile { name: &digest_name, ..before };
        let known = shared_file(&digests, || None).map_err(PartyError::from)?;
        let own = match own {
            Some(own) => own,
            None if known.is_some() => return Err(DaemonError::KeyMissing { path }),
            None => {
                let made = new().ok_or(DaemonError::NoRandomness)?;
                replace_file(&path, &made).map_err(failed)?;
                made
            }
        };
        let digest = digest::digest(&digest::SHA256, &own).as_ref().to_vec();
        let stored = shared_file(&digests, || Some(digest.clone())).map_err(PartyError::from)?;
        if stored != Some(digest) {
            let owner = owner.to_owned();
            return Err(DaemonError::OtherKey { path, owner, name: digest_name });
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

    /// Bytes of the files of these keys.
    fn kept(state: &Path) -> Vec<Option<Vec<u8>>> {
        ALL.iter().map(|(name, _)| std::fs::read(state.join(name)).ok()).collect()
    }

    #[test]
    fn the_database_has_no_private_key_and_every_process_needs_the_same() {
        let server = bookahead_tests::postgres::Server::start(&[]);
        let database = Database::parse(&server.database("keys"), Path::new("")).unwrap();
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let needs = needed(Role::Broker, true);
        let check = |state: &Path| check_keys(&database, ("broker", "grid"), state, &needs);
        check(first.path()).unwrap();
        check(first.path()).unwrap();
        let secret = |state: &Path| {
            let found =
                server.sql("keys", "SELECT string_agg(encode(content, 'hex'), ',') FROM bookahead.file");
            let hex = |key: &Vec<u8>| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            kept(state).iter().flatten().any(|key| found.contains(&hex(key)))
        };
        assert!(!secret(first.path()) && kept(first.path()).iter().all(Option::is_some));
        let why = check(second.path()).unwrap_err();
        assert!(matches!(&why, DaemonError::KeyMissing { path } if path.ends_with(SESSIONS)), "{why}");
        for (name, _) in ALL {
            std::fs::copy(first.path().join(name), second.path().join(name)).unwrap();
        }
        check(second.path()).unwrap();
        std::fs::write(second.path().join(PRIVATE), CallsKey::generate().unwrap()).unwrap();
        let why = check(second.path()).unwrap_err().to_string();
        assert!(
            why.contains("is not the key of the other processes") && why.contains("DELETE FROM"),
            "{why}"
        );
    }

    #[test]
    fn keys_that_an_earlier_version_stored_in_the_database_move_to_the_state_folder() {
        let server = bookahead_tests::postgres::Server::start(&[]);
        let database = Database::parse(&server.database("keys"), Path::new("")).unwrap();
        let state = tempfile::tempdir().unwrap();
        let stored: Vec<Option<Vec<u8>>> = ALL.iter().map(|(_, new)| new()).collect();
        for ((name, _), key) in ALL.iter().zip(&stored) {
            let file = SharedFile { database: &database, what: "site", owner: "north", name };
            shared_file(&file, || key.clone()).unwrap();
        }
        // What was in the folder was not in use.
        std::fs::write(state.path().join(SESSIONS), "base64:other\n").unwrap();
        let site = needed(Role::Site, true);
        check_keys(&database, ("site", "north"), state.path(), &site).unwrap();
        assert_eq!(kept(state.path()), stored);
        let names = server.sql("keys", "SELECT string_agg(name, ',') FROM bookahead.file");
        assert_eq!(names, "sessions-key.sha256");
        #[cfg(unix)]
        for (name, _) in ALL {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(state.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
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
