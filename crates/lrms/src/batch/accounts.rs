//! As whom things are done on a cluster: the owner of a reservation or job is a user of Bookahead, and the cluster knows
//! accounts. Nobody becomes an account that the configuration does not allow, and no name becomes a word of a command that
//! is not plainly an account.

use crate::error::LrmsError;
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Accounts and projects have at most so many characters.
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

/// Which project is whose. Where none is named the batch system charges whatever it charges by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projects {
    /// That of all owners of whom the map does not say otherwise.
    pub usual: Option<String>,
    /// From owners to projects.
    pub map: BTreeMap<Name, String>,
}

impl Projects {
    pub(super) fn check(&self) -> Result<(), LrmsError> {
        match self.map.values().chain(&self.usual).find(|project| !is_project(project)) {
            None => Ok(()),
            Some(wrong) => Err(LrmsError::Misconfigured(format!(
                "{wrong:?} cannot be a project of a cluster; write letters, digits, _ . - only"
            ))),
        }
    }

    pub(super) fn of(&self, owner: &Name) -> Option<String> {
        self.map.get(owner).or(self.usual.as_ref()).cloned()
    }

    /// All projects, with the accounts of which it is known beforehand that they use it: an operator may see to it that
    /// the batch system knows them.
    pub fn members(&self, accounts: &Accounts) -> BTreeMap<String, BTreeSet<String>> {
        let mut members: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (owner, project) in &self.map {
            // Whoever has no account has no use for a project either.
            members.entry(project.clone()).or_default().extend(accounts.of(owner));
        }
        if let Some(project) = &self.usual {
            let everybody = match accounts {
                Accounts::Service(account) => Some(account.clone()),
                Accounts::Owners { .. } => None,
            };
            members.entry(project.clone()).or_default().extend(everybody);
        }
        members
    }
}

/// A letter, a digit or `_`, then letters, digits, `_`, `.` and `-`: never an option, nor a list.
pub fn is_project(text: &str) -> bool {
    let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    begins && plain && text.len() <= LONGEST
}
