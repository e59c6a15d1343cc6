//! Values remembered for repeated calls, with a bound in bytes for each user: a user with too many calls
//! pushes out its own oldest entries, never those of others.

use crate::clock::Moment;
use crate::ids::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Values by key, each with the user it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PerUser<K, V> {
    by_key: BTreeMap<K, Item<V>>,
    /// Oldest first.
    by_age: BTreeSet<(Moment, K)>,
    by_user: BTreeMap<Name, OfUser<K>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Item<V> {
    at: Moment,
    user: Name,
    bytes: usize,
    value: V,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OfUser<K> {
    bytes: usize,
    by_age: BTreeSet<(Moment, K)>,
}

impl<K, V> Default for PerUser<K, V> {
    fn default() -> PerUser<K, V> {
        PerUser { by_key: BTreeMap::new(), by_age: BTreeSet::new(), by_user: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V> PerUser<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.by_key.get(key).map(|item| &item.value)
    }

    /// By ascending key.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&K, &V)> {
        self.by_key.iter().map(|(key, item)| (key, &item.value))
    }

    /// From a key on, ascending.
    pub(crate) fn from(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        self.by_key.range(key..).map(|(key, item)| (key, &item.value))
    }

    pub(crate) fn oldest(&self) -> Option<(Moment, &K)> {
        self.by_age.first().map(|(at, key)| (*at, key))
    }

    /// Stores a value, replacing one with the same key. Then drops the user's oldest values until at most
    /// `most` bytes are left. The new one always stays.
    pub(crate) fn remember(
        &mut self,
        (at, user): (Moment, &Name),
        key: &K,
        value: V,
        bytes: usize,
        most: usize,
    ) {
        // The old value may belong to another user, whose bytes must be reduced.
        self.forget(key);
        let user = user.clone();
        let mine = self.by_user.entry(user.clone());
        let mine = mine.or_insert_with(|| OfUser { bytes: 0, by_age: BTreeSet::new() });
        mine.bytes += bytes;
        mine.by_age.insert((at, key.clone()));
        self.by_age.insert((at, key.clone()));
        self.by_key.insert(key.clone(), Item { at, user: user.clone(), bytes, value });
        while let Some(mine) = self.by_user.get(&user).filter(|mine| mine.bytes > most)
            && let Some((_, oldest)) = mine.by_age.iter().find(|(_, one)| one != key)
        {
            // Cloned, because `forget` changes the set that it is borrowed from.
            let oldest = oldest.clone();
            self.forget(&oldest);
        }
    }

    /// Bytes of a user's values, and their keys, oldest first.
    pub(crate) fn of_user(&self, user: &Name) -> (usize, impl Iterator<Item = &K>) {
        let mine = self.by_user.get(user);
        let keys = mine.into_iter().flat_map(|mine| mine.by_age.iter().map(|(_, key)| key));
        (mine.map_or(0, |mine| mine.bytes), keys)
    }

    pub(crate) fn forget(&mut self, key: &K) {
        let Some(Item { at, user, bytes, .. }) = self.by_key.remove(key) else { return };
        let aged = (at, key.clone());
        self.by_age.remove(&aged);
        if let Some(mine) = self.by_user.get_mut(&user) {
            mine.by_age.remove(&aged);
            mine.bytes -= bytes;
            // Users without values are removed, or the map would grow with every user that ever called.
            if mine.by_age.is_empty() {
                self.by_user.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_without_end_is_forgotten_alone_and_the_oldest_first() {
        let mut known = PerUser::default();
        let (ada, eve) = (Name::from("ada"), Name::from("eve"));
        known.remember((Moment(0), &ada), &0, "first", 10, 100);
        for key in 1..=1_000 {
            known.remember((Moment(key), &eve), &key, "more", 10, 100);
        }
        assert_eq!(known.len(), 11);
        assert_eq!((known.get(&0), known.get(&990), known.get(&991)), (Some(&"first"), None, Some(&"more")));
        assert_eq!(known.oldest(), Some((Moment(0), &0)));
        known.remember((Moment(2_000), &eve), &2_000, "large", 1_000, 100);
        assert_eq!((known.len(), known.get(&2_000)), (2, Some(&"large")));
        known.remember((Moment(3_000), &ada), &2_000, "other", 10, 100);
        known.forget(&0);
        known.forget(&2_000);
        assert_eq!(known, PerUser::default());
    }
}
