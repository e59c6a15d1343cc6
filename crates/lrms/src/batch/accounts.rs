//! As whom things are done on a cluster: the owner of a reservation or job is a user of Bookahead, and the cluster knows
//! accounts. Nobody becomes an account that the configuration does not allow, and no name becomes a word of a command that
//! is not plainly an account.

use crate::error::LrmsError;
use bookahead_protocol::Name;
use std::collections::BTreeMap;

/// Accounts have at most so many characters.
const LONGEST: usize = 128;

/// Which account stands for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accounts {
    /// All reservations and jobs belong to the account of the service.
    Service(String),
    /// They belong to the account of their owner, which is called as the owner is where the map does not say otherwise. The
    /// superuser is nobody's account unless the map says so.
    Owners {
        /// From owners to accounts.
        map: BTreeMap<Name, String>,
    },
}

impl Accounts {
    /// Whether all accounts that are named can be accounts.
    pub(super) fn check(&self) -> Result<(), LrmsError> {
        let named: Vec<&String> = match self {
            Accounts::Service(account) => vec![account],
            Accounts::Owners { map } => map.values().collect(),
        };
        match named.into_iter().find(|account| !is_account(account)) {
            None => Ok(()),
            Some(wrong) => Err(LrmsError::Misconfigured(format!(
                "{wrong:?} cannot be an account of a cluster; write letters, digits, _ . - only"
            ))),
        }
    }

    /// The account whose jobs may use what is kept for an owner.
    pub(super) fn of(&self, owner: &Name) -> Result<String, LrmsError> {
        let no_account = |why: &str| Err(LrmsError::NoAccount { owner: owner.clone(), why: why.into() });
        let map = match self {
            Accounts::Service(account) => return Ok(account.clone()),
            Accounts::Owners { map } => map,
        };
        match map.get(owner) {
            Some(account) => Ok(account.clone()),
            None if owner.as_str() == "root" => no_account("nobody is the superuser without being told so"),
            None if is_account(owner.as_str()) => Ok(owner.to_string()),
            None => no_account("the name cannot be that of an account"),
        }
    }

    /// As whom an owner's job runs; None for the account that commands run as.
    pub(super) fn runs_as(&self, owner: &Name) -> Result<Option<String>, LrmsError> {
        match self {
            Accounts::Service(_) => Ok(None),
            Accounts::Owners { .. } => self.of(owner).map(Some),
        }
    }
}

/// A letter or `_`, then letters, digits, `_`, `.` and `-`; the last may be `$`, as of machines.
fn is_account(text: &str) -> bool {
    let plain = text.strip_suffix('$').unwrap_or(text);
    let begins = plain.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on = plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    begins && goes_on && text.len() <= LONGEST
}
