//! On whose behalf things are done on a cluster: batch systems with accounting charge what runs to projects. (Slurm calls a
//! project an account, or a bank account; here an account is what one logs in with.) No name becomes a word of a command
//! that is not plainly the name of one project.

use super::Accounts;
use crate::error::LrmsError;
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Projects have at most so many characters.
const LONGEST: usize = 128;

/// Which project is whose. Where none is named the batch system charges whatever it charges by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projects {
    /// That of all owners of whom the map does not say otherwise.
    pub usual: Option<String>,
    /// From owners to projects.
    pub map: BTreeMap<Name, String>,
}

impl Projects {
    /// Whether all projects that are named can be projects.
    pub(super) fn check(&self) -> Result<(), LrmsError> {
        match self.map.values().chain(&self.usual).find(|project| !is_project(project)) {
            None => Ok(()),
            Some(wrong) => Err(LrmsError::Misconfigured(format!(
                "{wrong:?} cannot be a project of a cluster; write letters, digits, _ . - only"
            ))),
        }
    }

    /// The project of an owner.
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
