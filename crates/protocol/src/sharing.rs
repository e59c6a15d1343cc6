//! The users that a reservation is shared with, and their consent. Until a user has answered, the reservation is an
//! invitation: the user may see it and run jobs in it, but it attracts no jobs of that user.

use crate::ids::Name;
use crate::request::Request;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Answer of a user to an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consent {
    /// Accepted. Also of users in a common project with the owner.
    Accepted,
    /// Declined: the user does not see the reservation any more.
    Declined,
}

/// Answers of users that a reservation is shared with. Those without an answer are invited.
pub type Consents = BTreeMap<Name, Consent>;

/// The users that a reservation is shared with, and their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guests<'a> {
    /// As the owner named them.
    pub shared_with: &'a BTreeSet<Name>,
    /// Their answers.
    pub consents: &'a Consents,
}

impl Guests<'_> {
    /// Of a reservation that is not shared.
    pub const NONE: Guests<'static> = Guests { shared_with: &BTreeSet::new(), consents: &Consents::new() };

    /// Whether a user may see the reservation and run jobs in it: all but those who declined.
    pub fn contains(&self, user: &Name) -> bool {
        self.shared_with.contains(user) && self.consents.get(user) != Some(&Consent::Declined)
    }

    /// Whether a user has not answered.
    pub fn is_invited(&self, user: &Name) -> bool {
        self.shared_with.contains(user) && !self.consents.contains_key(user)
    }
}

impl Request {
    /// The users that it is shared with.
    pub fn guests(&self) -> Guests<'_> {
        Guests { shared_with: &self.shared_with, consents: &self.consents }
    }

    /// Whether jobs that do not name the reservation run in it.
    pub fn attracts(&self) -> bool {
        self.attract
    }

    /// Whether a user must accept the invitation before running jobs in it.
    pub fn must_accept(&self, user: &Name) -> bool {
        self.attract && self.guests().is_invited(user)
    }

    /// The users, besides the owner, that the batch system lets in. If it attracts jobs, only those who accepted,
    /// because jobs of all of them would run there. Otherwise all: some batch systems cannot change the users later.
    pub fn let_in(&self) -> BTreeSet<Name> {
        let accepted = |user: &&Name| self.consents.get(*user) == Some(&Consent::Accepted);
        self.shared_with.iter().filter(|user| !self.attract || accepted(user)).cloned().collect()
    }

    /// Whether it differs in what does not concern placement: the description, the users that it is shared
    /// with, and their answers.
    pub fn says_other_than(&self, other: &Request) -> bool {
        (&self.description, self.guests()) != (&other.description, other.guests())
    }
}

/// The answers after a change of the request: a new one replaces an earlier one, and only users with whom the
/// reservation is still shared have one.
pub(crate) fn merged(shared_with: &BTreeSet<Name>, before: &Consents, new: &Consents) -> Consents {
    let all = before.iter().chain(new).filter(|(user, _)| shared_with.contains(*user));
    all.map(|(user, consent)| (user.clone(), *consent)).collect()
}
