//! An authenticated caller: its user and roles.

use bookahead_party::Viewer;
use bookahead_protocol::{Caller, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Role of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Books, and sees and changes its own reservations and jobs.
    User,
    /// Sees and changes everything.
    Operator,
    /// Calls on behalf of any user, and may register as a peer.
    Broker,
    /// Sees everything, and changes nothing.
    Reader,
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user: owner of new reservations, and subject to limits.
    pub user: Name,
    /// Roles of the user.
    pub roles: BTreeSet<Role>,
    /// The broker that calls on behalf of the user, if any. For the audit log.
    pub through: Option<Name>,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 4] = [Role::User, Role::Operator, Role::Broker, Role::Reader];

    /// Name in tokens and configurations.
    pub fn word(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Operator => "operator",
            Role::Broker => "broker",
            Role::Reader => "reader",
        }
    }

    /// The role with this name.
    pub fn of(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }
}

impl Identity {
    /// Whether the caller may book and change.
    pub fn may_change(&self) -> bool {
        self.roles.contains(&Role::User) || self.roles.contains(&Role::Operator)
    }

    /// Whether the caller may register peers.
    pub fn may_register(&self) -> bool {
        self.roles.contains(&Role::Broker) || self.roles.contains(&Role::Operator)
    }

    /// Subject of the token or certificate: the broker, if it calls on behalf of a user.
    pub fn subject(&self) -> &Name {
        self.through.as_ref().unwrap_or(&self.user)
    }

    /// The caller as the protocol knows it.
    pub fn caller(&self) -> Caller {
        let roles = self.roles.iter().map(|role| Name::from(role.word())).collect();
        Caller { user: self.user.clone(), roles }
    }

    /// The viewer for queries.
    pub fn viewer(&self) -> Viewer {
        let sees_all = self.roles.contains(&Role::Operator) || self.roles.contains(&Role::Reader);
        Viewer::new(self.user.clone(), sees_all)
    }
}
