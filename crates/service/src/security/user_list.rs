//! What users have decided for themselves: sign-outs that ended all tokens until then, secret addresses of calendars, and
//! users whose invitations they do not want. Small lists that outlive a restart and a take-over.

use crate::journal::{Lease, Store};
use crate::state_file::StateFile;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bookahead_protocol::Name;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use thiserror::Error;

/// Most users in one list. A full list has about 1 MB, which is written with each change.
const MOST_USERS: usize = 10_000;

/// Most users that one user blocks: more than anybody is invited by. All users together block at most [`MOST_USERS`],
/// so that this list is not larger than the others.
const MOST_BLOCKED: usize = 100;

/// Length of the secret in the address of a calendar: 256 bits cannot be guessed.
const SECRET_BYTES: usize = 32;

/// One value for each of a bounded number of users. Readers never wait for a write.
pub(crate) struct UserList<V> {
    file: StateFile,
    known: RwLock<Arc<BTreeMap<Name, V>>>,
    writing: Mutex<()>,
}

/// Why a list could not be changed.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub(crate) enum NotChanged {
    #[error("the list has {MOST} users, the most it can have; ask the operator of this service", MOST = MOST_USERS)]
    Full,
    #[error("you have blocked {MOST} users, the most that is possible; unblock one first", MOST = MOST_BLOCKED)]
    BlocksTooMany,
    #[error("cannot write {file}: {why}")]
    Unwritable { file: String, why: String },
    #[error("the system provides no random numbers")]
    NoRandomness,
}

impl<V: Clone + Serialize + DeserializeOwned> UserList<V> {
    /// Blocks.
    fn open(file: StateFile) -> io::Result<UserList<V>> {
        let known = match file.read()? {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|why| {
                io::Error::other(format!("{file} is damaged ({why}); restore or remove it"))
            })?,
            None => BTreeMap::new(),
        };
        Ok(UserList { file, known: RwLock::new(Arc::new(known)), writing: Mutex::default() })
    }

    fn known(&self) -> Arc<BTreeMap<Name, V>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets or removes the value of a user. Blocks until that is durable.
    fn set(&self, user: &Name, value: Option<V>) -> Result<(), NotChanged> {
        // Held while the file is written, so that an older state never replaces a newer one.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = BTreeMap::clone(&self.known());
        match value {
            Some(_) if known.len() >= MOST_USERS && !known.contains_key(user) => {
                return Err(NotChanged::Full);
            }
            Some(value) => drop(known.insert(user.clone(), value)),
            None if known.remove(user).is_none() => return Ok(()),
            None => {}
        }
        let unwritable = |why: String| NotChanged::Unwritable { file: self.file.to_string(), why };
        let text = serde_json::to_vec(&known).map_err(|why| unwritable(why.to_string()))?;
        self.file.write(&text).map_err(|why| unwritable(why.to_string()))?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        Ok(())
    }
}

/// The address of a calendar. The secret itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Feed {
    /// SHA-256 of the secret.
    digest: String,
    /// When it was made, in seconds since 1970.
    made: i64,
}

impl fmt::Debug for UserLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserLists")
    }
}

/// The lists of a service.
pub(crate) struct UserLists {
    /// Until when tokens are ended, in seconds since 1970.
    sign_outs: UserList<i64>,
    feeds: UserList<Feed>,
    /// The users that each user has blocked.
    blocks: UserList<Arc<BTreeSet<Name>>>,
}

impl UserLists {
    /// Those of a party. Blocks.
    pub(crate) fn open(
        whose: (&'static str, &str),
        state: &Path,
        journal: (&Store, &Lease),
    ) -> io::Result<UserLists> {
        let sign_outs = UserList::open(StateFile::new("sign-outs.json", whose, state, journal))?;
        let feeds = UserList::open(StateFile::new("calendar-addresses.json", whose, state, journal))?;
        let blocks = UserList::open(StateFile::new("blocked-users.json", whose, state, journal))?;
        Ok(UserLists { sign_outs, feeds, blocks })
    }

    /// Empty lists that are kept nowhere.
    pub(super) fn in_memory() -> UserLists {
        fn list<V>() -> UserList<V> {
            UserList { file: StateFile::Memory, known: RwLock::default(), writing: Mutex::default() }
        }
        UserLists { sign_outs: list(), feeds: list(), blocks: list() }
    }

    /// Ends all sessions and tokens of a user that were issued up to now. Blocks.
    pub(crate) fn sign_out(&self, user: &Name, now: i64) -> Result<(), NotChanged> {
        // A clock that was set back must not bring tokens back.
        let until = self.sign_outs.known().get(user).map_or(now, |before| now.max(*before));
        self.sign_outs.set(user, Some(until))
    }

    /// Whether a token of this user was ended by a sign-out. One without a time of issue may be from before.
    pub(super) fn has_ended(&self, user: &Name, issued: Option<i64>) -> bool {
        let known = self.sign_outs.known();
        known.get(user).is_some_and(|until| issued.is_none_or(|issued| issued <= *until))
    }

    /// Makes the address of a user's calendar, and withdraws the one before. Returns its secret. Blocks.
    pub(crate) fn make_feed(&self, user: &Name, now: i64) -> Result<String, NotChanged> {
        let mut bytes = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NotChanged::NoRandomness)?;
        let secret = URL_SAFE_NO_PAD.encode(bytes);
        self.feeds.set(user, Some(Feed { digest: digest_of(&secret), made: now }))?;
        Ok(secret)
    }

    /// Withdraws the address of a user's calendar. Blocks.
    pub(crate) fn withdraw_feed(&self, user: &Name) -> Result<(), NotChanged> {
        self.feeds.set(user, None)
    }

    /// When the address of a user's calendar was made, if there is one.
    pub(crate) fn feed_made(&self, user: &Name) -> Option<i64> {
        self.feeds.known().get(user).map(|feed| feed.made)
    }

    /// The users whose invitations this user does not want.
    pub(crate) fn blocked_by(&self, user: &Name) -> Arc<BTreeSet<Name>> {
        self.blocks.known().get(user).cloned().unwrap_or_default()
    }

    /// Hides the invitations of `other` from `user`. Blocks.
    pub(crate) fn block(&self, user: &Name, other: &Name) -> Result<(), NotChanged> {
        let mut blocked = BTreeSet::clone(&self.blocked_by(user));
        if blocked.contains(other) {
            return Ok(());
        }
        if blocked.len() >= MOST_BLOCKED {
            return Err(NotChanged::BlocksTooMany);
        }
        if self.blocks.known().values().map(|blocked| blocked.len()).sum::<usize>() >= MOST_USERS {
            return Err(NotChanged::Full);
        }
        blocked.insert(other.clone());
        self.blocks.set(user, Some(Arc::new(blocked)))
    }

    /// Shows the invitations of `other` to `user` again. Blocks.
    pub(crate) fn unblock(&self, user: &Name, other: &Name) -> Result<(), NotChanged> {
        let mut blocked = BTreeSet::clone(&self.blocked_by(user));
        if !blocked.remove(other) {
            return Ok(());
        }
        self.blocks.set(user, Some(Arc::new(blocked)).filter(|blocked| !blocked.is_empty()))
    }

    /// The user whose calendar has this secret in its address.
    pub(crate) fn reader(&self, secret: &str) -> Option<Name> {
        let digest = digest_of(secret);
        let mut found = None;
        // All of them, so that the time tells nothing about a digest or about who has an address.
        for (user, feed) in self.feeds.known().iter() {
            if same(&feed.digest, &digest) {
                found = Some(user.clone());
            }
        }
        found
    }
}

fn digest_of(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// Compares without telling by its time where the texts differ.
pub(super) fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(folder: &Path) -> UserLists {
        let store = Store::File(folder.join("journal.db"));
        UserLists::open(("site", "north"), folder, (&store, &Lease::for_ever())).unwrap()
    }

    #[test]
    fn the_address_of_a_calendar_is_that_of_one_user_until_it_is_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let (ada, eve) = (Name::from("ada"), Name::from("eve"));
        let first = lists(folder.path()).make_feed(&ada, 100).unwrap();
        let other = lists(folder.path()).make_feed(&eve, 100).unwrap();
        let again = lists(folder.path());
        assert_eq!((again.reader(&first), again.reader(&other)), (Some(ada.clone()), Some(eve)));
        assert_eq!(again.feed_made(&ada), Some(100));
        assert_eq!(again.reader(&first[1..]), None);
        let written = std::fs::read_to_string(folder.path().join("calendar-addresses.json")).unwrap();
        assert!(!written.contains(&first), "only a digest is kept");
        let second = again.make_feed(&ada, 200).unwrap();
        assert_eq!((again.reader(&first), again.reader(&second)), (None, Some(ada.clone())));
        again.withdraw_feed(&ada).unwrap();
        again.withdraw_feed(&ada).unwrap();
        let again = lists(folder.path());
        assert_eq!((again.reader(&second), again.feed_made(&ada)), (None, None));
        assert!(again.reader(&other).is_some());
    }

    #[test]
    fn a_sign_out_ends_what_was_issued_before_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let ada = Name::from("ada");
        lists(folder.path()).sign_out(&ada, 100).unwrap();
        let again = lists(folder.path());
        again.sign_out(&ada, 90).unwrap();
        for (issued, ended) in [(Some(99), true), (Some(100), true), (Some(101), false), (None, true)] {
            assert_eq!(again.has_ended(&ada, issued), ended, "{issued:?}");
        }
        assert!(!again.has_ended(&"eve".into(), None));
    }

    #[test]
    fn blocked_users_are_remembered_and_their_number_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let [ada, eve, bob] = ["ada", "eve", "bob"].map(Name::from);
        let first = lists(folder.path());
        first.block(&ada, &eve).unwrap();
        first.block(&ada, &eve).unwrap();
        first.block(&ada, &bob).unwrap();
        first.unblock(&ada, &bob).unwrap();
        first.unblock(&eve, &ada).unwrap();
        let again = lists(folder.path());
        assert_eq!(*again.blocked_by(&ada), [eve.clone()].into());
        assert!(again.blocked_by(&eve).is_empty());
        for number in 1..MOST_BLOCKED {
            again.block(&ada, &format!("user{number}").into()).unwrap();
        }
        assert!(matches!(again.block(&ada, &bob), Err(NotChanged::BlocksTooMany)));
        again.block(&ada, &eve).unwrap();
        again.block(&bob, &eve).unwrap();
        again.unblock(&bob, &eve).unwrap();
        assert!(!again.blocks.known().contains_key(&bob), "an empty list is not kept");
    }

    #[test]
    fn the_lists_of_users_are_bounded_and_a_damaged_one_is_not_taken_for_an_empty_one() {
        let lists = UserLists::in_memory();
        let all = (0..MOST_USERS).map(|number| (Name::from(format!("user{number}")), 1)).collect();
        *lists.sign_outs.known.write().unwrap() = Arc::new(all);
        assert!(matches!(lists.sign_out(&"eve".into(), 5), Err(NotChanged::Full)));
        lists.sign_out(&"user7".into(), 5).unwrap();
        assert!(lists.has_ended(&"user7".into(), Some(5)));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sign-outs.json"), "{\"ada\":").unwrap();
        let store = Store::File(folder.path().join("journal.db"));
        let opened = UserLists::open(("site", "north"), folder.path(), (&store, &Lease::for_ever()));
        assert!(opened.is_err_and(|why| why.to_string().contains("damaged")));
    }
}
