//! Who somebody was found to be, and what his roles allow.

use bookahead_party::Viewer;
use bookahead_protocol::{Caller, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What somebody is to a site or a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Books for himself, and sees and changes what is his.
    User,
    /// Sees and changes everything.
    Operator,
    /// Speaks for others: whatever user it names is believed; may register as a peer.
    Broker,
    /// Sees everything, and changes nothing.
    Reader,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Whose limits count, and who owns what is made.
    pub user: Name,
    /// What he may.
    pub roles: BTreeSet<Role>,
    /// Who spoke for him, where somebody did: for the audit.
    pub through: Option<Name>,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::User, Role::Operator, Role::Broker, Role::Reader];

    /// Its name in tokens and configurations.
    pub fn word(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Operator => "operator",
            Role::Broker => "broker",
            Role::Reader => "reader",
        }
    }

    /// The role of a name.
    pub fn of(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }
}

impl Identity {
    /// Whether he may book and change.
    pub fn may_change(&self) -> bool {
        self.roles.contains(&Role::User) || self.roles.contains(&Role::Operator)
    }

    /// Whether he may register peers.
    pub fn may_register(&self) -> bool {
        self.roles.contains(&Role::Broker) || self.roles.contains(&Role::Operator)
    }

    /// As one who calls a head.
    pub fn caller(&self) -> Caller {
        let roles = self.roles.iter().map(|role| Name::from(role.word())).collect();
        Caller { user: self.user.clone(), roles }
    }

    /// As one who looks.
    pub fn viewer(&self) -> Viewer {
        let sees_all = self.roles.contains(&Role::Operator) || self.roles.contains(&Role::Reader);
        Viewer { user: self.user.clone(), sees_all }
    }
}
