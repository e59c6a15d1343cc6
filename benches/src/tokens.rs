//! Tokens for services of benches, signed with a secret of the bench's own.

use crate::Outcome;
use bookahead_service::security::{Claims, Keys, Role, mint, new_secret};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A new secret, in the file `secret.key` of a folder.
pub struct Secret(PathBuf);

impl Secret {
    /// Creates the file.
    pub fn create(folder: &Path) -> Outcome<Secret> {
        let path = folder.join("secret.key");
        std::fs::write(&path, new_secret().ok_or("no random numbers")?)?;
        // Services refuse a secret that others can read.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Secret(path))
    }

    /// A token for an hour.
    pub fn token(&self, user: &str, role: Role) -> Outcome<String> {
        let keys = Keys::read(&self.0)?;
        let secret = keys.secret().ok_or("it has no secret")?;
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
        let claims = Claims {
            user: user.into(),
            roles: BTreeSet::from([role]),
            issuer: None,
            id: None,
            audience: None,
            expires: now + 3_600,
            not_before: None,
            issued: None,
        };
        Ok(mint(secret, &claims))
    }
}
