//! Maps owners (users of Bookahead) to accounts of the cluster. A user never gets an account that the configuration
//! does not allow, and a name that is not a plain account name never reaches a command line.

use crate::error::LrmsError;
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Longest name of an account or project. Well above the 32 characters that Linux allows for accounts.
const LONGEST: usize = 128;

/// Accounts of the cluster that own reservations and run jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accounts {
    /// All reservations and jobs belong to this account, the one of the service.
    Service(String),
    /// Reservations and jobs belong to the account of their owner: the one in `map`, or the account with the owner's
    /// name. `root` is used only if `map` names it.
    Owners {
        /// Owner to account.
        map: BTreeMap<Name, String>,
    },
}

impl Accounts {
    pub(super) fn check(&self) -> Result<(), LrmsError> {
        let named: Vec<&String> = match self {
            Accounts::Service(account) => vec![account],
            Accounts::Owners { map } => map.values().collect(),
        };
        match named.into_iter().find(|account| !is_account(account)) {
            None => Ok(()),
            Some(wrong) => Err(LrmsError::Misconfigured(format!(
                "{wrong:?} is not a valid account of a cluster; use only letters, digits, _ . -"
            ))),
        }
    }

    /// The account whose jobs may use the reservations of an owner.
    pub(super) fn of(&self, owner: &Name) -> Result<String, LrmsError> {
        let no_account = |why: &str| Err(LrmsError::NoAccount { owner: owner.clone(), why: why.into() });
        let map = match self {
            Accounts::Service(account) => return Ok(account.clone()),
            Accounts::Owners { map } => map,
        };
        match map.get(owner) {
            Some(account) => Ok(account.clone()),
            // A user of this service who is called root must not become root on the cluster by that name.
            None if owner.as_str() == "root" => no_account("root must be mapped explicitly"),
            None if is_account(owner.as_str()) => Ok(owner.to_string()),
            None => no_account("the name is not a valid name of an account"),
        }
    }

    /// The account that runs an owner's jobs; None for the account that commands run as.
    pub(crate) fn runs_as(&self, owner: &Name) -> Result<Option<String>, LrmsError> {
        match self {
            Accounts::Service(_) => Ok(None),
            Accounts::Owners { .. } => self.of(owner).map(Some),
        }
    }
}

/// A letter or `_`, then letters, digits, `_`, `.` and `-`; a final `$` is allowed, as in machine accounts.
fn is_account(text: &str) -> bool {
    let plain = text.strip_suffix('$').unwrap_or(text);
    let begins = plain.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on = plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    begins && goes_on && text.len() <= LONGEST
}

/// Projects to charge, by owner. Without one, the batch system charges its own default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projects {
    /// Default project of owners that are not in `map`.
    pub usual: Option<String>,
    /// Owner to project.
    pub map: BTreeMap<Name, String>,
}

impl Projects {
    pub(super) fn check(&self) -> Result<(), LrmsError> {
        match self.map.values().chain(&self.usual).find(|project| !is_project(project)) {
            None => Ok(()),
            Some(wrong) => Err(LrmsError::Misconfigured(format!(
                "{wrong:?} is not a valid project of a cluster; use only letters, digits, _ . -"
            ))),
        }
    }

    pub(super) fn of(&self, owner: &Name) -> Option<String> {
        self.map.get(owner).or(self.usual.as_ref()).cloned()
    }

    /// All projects, each with the accounts that are configured to use it, so that a check can verify them in the
    /// batch system.
    pub fn members(&self, accounts: &Accounts) -> BTreeMap<String, BTreeSet<String>> {
        let mut members: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (owner, project) in &self.map {
            // An owner without an account submits nothing, so its project needs no member.
            members.entry(project.clone()).or_default().extend(accounts.of(owner));
        }
        if let Some(project) = &self.usual {
            // With accounts of owners, the users of the default project are not known in advance.
            let everybody = match accounts {
                Accounts::Service(account) => Some(account.clone()),
                Accounts::Owners { .. } => None,
            };
            members.entry(project.clone()).or_default().extend(everybody);
        }
        members
    }
}

/// A letter, a digit or `_`, then letters, digits, `_`, `.` and `-`. This excludes options and lists.
pub fn is_project(text: &str) -> bool {
    let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    begins && plain && text.len() <= LONGEST
}
