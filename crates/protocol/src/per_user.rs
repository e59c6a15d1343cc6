//! Values that are remembered for a while, with bounds in bytes for each user and over all users: the oldest of a user
//! with too many go first, and with too many in all, the oldest of the users with the most. So a user pushes out the
//! values of others only by having as many as they do. Users with little are equal, and the oldest of all their values
//! goes first: otherwise the newest value of a user with four would go before the old ones of a thousand users with three.
//!
//! Drops depend only on the values and their order. A replay of the same events drops the same.

use crate::clock::Moment;
use crate::ids::Name;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Users with at most this fraction of the bytes count as equal: together 1,024 of them just fill the memory.
const LITTLE: usize = 1_024;

/// Most bytes of the values of each user, and of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Most {
    /// Of one user.
    pub each: usize,
    /// Of all users.
    pub all: usize,
}

/// Values by key, each with the user it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PerUser<K, V> {
    by_key: BTreeMap<K, Item<V>>,
    /// Oldest first.
    by_age: BTreeSet<(Moment, K)>,
    /// By user, oldest first. None is never stored: it is the least, where the values of a user begin.
    of_users: BTreeSet<(Name, Moment, Option<K>)>,
    bytes_of: BTreeMap<Name, usize>,
    /// Users by their bytes to a power of two, so that a few bytes more or less make no difference between users. Of
    /// equal ones the last has the oldest value.
    by_weight: BTreeSet<(u32, Reverse<Moment>, Name)>,
    /// Users with at most this many bytes are equal. 0 without values.
    little: usize,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Item<V> {
    at: Moment,
    user: Name,
    bytes: usize,
    value: V,
}

impl<K, V> Default for PerUser<K, V> {
    fn default() -> PerUser<K, V> {
        PerUser {
            by_key: BTreeMap::new(),
            by_age: BTreeSet::new(),
            of_users: BTreeSet::new(),
            bytes_of: BTreeMap::new(),
            by_weight: BTreeSet::new(),
            little: 0,
            bytes: 0,
        }
    }
}

impl<K: Ord + Clone, V> PerUser<K, V> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The value with a key.
    pub fn get(&self, key: &K) -> Option<&V> {
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

    /// The oldest value's moment and key.
    pub(crate) fn oldest(&self) -> Option<(Moment, &K)> {
        self.by_age.first().map(|(at, key)| (*at, key))
    }

    /// Stores a value, replacing one with the same key. Then drops others until at most the given numbers of bytes are
    /// left, and returns their keys. The new one always stays. `most` is the same in all calls.
    pub fn remember(
        &mut self,
        (at, user): (Moment, &Name),
        key: &K,
        value: V,
        bytes: usize,
        most: Most,
    ) -> Vec<K> {
        self.forget(key);
        self.little = most.all / LITTLE;
        self.change(user, |this| {
            this.bytes += bytes;
            *this.bytes_of.entry(user.clone()).or_default() += bytes;
            this.of_users.insert((user.clone(), at, Some(key.clone())));
        });
        self.by_age.insert((at, key.clone()));
        self.by_key.insert(key.clone(), Item { at, user: user.clone(), bytes, value });
        let mut dropped = Vec::new();
        while let Some(oldest) = self.too_much(user, key, most) {
            self.forget(&oldest);
            dropped.push(oldest);
        }
        dropped
    }

    /// The value to drop next.
    fn too_much(&self, user: &Name, new: &K, most: Most) -> Option<K> {
        let oldest = |user: &Name| self.of_user(user).find(|key| *key != new).cloned();
        let of_this = self.bytes_of.get(user).is_some_and(|bytes| *bytes > most.each);
        of_this.then(|| oldest(user)).flatten().or_else(|| {
            let mut users = self.by_weight.iter().rev().map(|(_, _, user)| user);
            (self.bytes > most.all).then(|| users.find_map(oldest)).flatten()
        })
    }

    /// Keys of a user's values, oldest first.
    fn of_user(&self, user: &Name) -> impl Iterator<Item = &K> {
        self.oldest_of(user).filter_map(|(_, key)| key)
    }

    fn oldest_of(&self, user: &Name) -> impl Iterator<Item = (Moment, Option<&K>)> {
        let from = (user.clone(), Moment(i64::MIN), None);
        let theirs = self.of_users.range(from..).take_while({
            let user = user.clone();
            move |(of, ..)| *of == user
        });
        theirs.map(|(_, at, key)| (*at, key.as_ref()))
    }

    /// Drops a value.
    pub fn forget(&mut self, key: &K) {
        let Some(Item { at, user, bytes, .. }) = self.by_key.remove(key) else { return };
        self.by_age.remove(&(at, key.clone()));
        self.change(&user, |this| {
            this.bytes -= bytes;
            this.of_users.remove(&(user.clone(), at, Some(key.clone())));
            if let Some(theirs) = this.bytes_of.get_mut(&user) {
                *theirs -= bytes;
            }
        });
        if self.by_key.is_empty() {
            self.little = 0;
        }
    }

    /// Changes the values of a user, and updates its weight.
    fn change(&mut self, user: &Name, change: impl FnOnce(&mut Self)) {
        if let Some(weight) = self.weight(user) {
            self.by_weight.remove(&weight);
        }
        change(self);
        match self.weight(user) {
            Some(weight) => drop(self.by_weight.insert(weight)),
            // Users without values are removed, or the map would grow with every user that ever called.
            None => drop(self.bytes_of.remove(user)),
        }
    }

    fn weight(&self, user: &Name) -> Option<(u32, Reverse<Moment>, Name)> {
        let (oldest, _) = self.oldest_of(user).next()?;
        let bytes = self.bytes_of.get(user).copied().unwrap_or(0).max(self.little);
        Some((bytes.checked_ilog2().map_or(0, |log| log + 1), Reverse(oldest), user.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FEW: Most = Most { each: 100, all: 1_000 };
    const MANY: Most = Most { each: 100, all: 10_000 };

    #[test]
    fn who_asks_without_end_is_forgotten_alone_and_the_oldest_first() {
        let mut known = PerUser::default();
        let (ada, eve) = (Name::from("ada"), Name::from("eve"));
        known.remember((Moment(0), &ada), &0, "first", 10, MANY);
        for key in 1..=1_000 {
            known.remember((Moment(key), &eve), &key, "more", 10, MANY);
        }
        assert_eq!(known.len(), 11);
        assert_eq!((known.get(&0), known.get(&990), known.get(&991)), (Some(&"first"), None, Some(&"more")));
        assert_eq!(known.oldest(), Some((Moment(0), &0)));
        known.remember((Moment(2_000), &eve), &2_000, "large", 1_000, MANY);
        assert_eq!((known.len(), known.get(&2_000)), (2, Some(&"large")));
        known.remember((Moment(3_000), &ada), &2_000, "other", 10, MANY);
        known.forget(&0);
        known.forget(&2_000);
        assert_eq!(known, PerUser::default());
    }

    #[test]
    fn of_many_users_those_with_the_most_are_forgotten_first() {
        let mut known = PerUser::default();
        let user = |number: i64| Name::from(format!("user-{number}"));
        (0..9).for_each(|key| drop(known.remember((Moment(key), &user(-1)), &key, (), 10, FEW)));
        let dropped: Vec<i64> = (10..1_000)
            .flat_map(|key| known.remember((Moment(key), &user(key)), &key, (), 10, FEW))
            .collect();
        // All but one of the user with nine, then the oldest of all users with one.
        assert_eq!(dropped[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(dropped[8..11], [8, 10, 11]);
        assert_eq!(known.len(), 100);
    }

    #[test]
    fn of_users_with_little_the_oldest_value_is_forgotten_first() {
        const MOST: Most = Most { each: 100_000, all: 400_000 };
        let mut known = PerUser::default();
        let user = |number: i64| Name::from(format!("user-{number}"));
        (0..2_000).for_each(|key| drop(known.remember((Moment(key), &user(key)), &key, (), 100, MOST)));
        // Three values of one user, more than any other has.
        (2_000..2_003).for_each(|key| drop(known.remember((Moment(key), &user(-1)), &key, (), 100, MOST)));
        let more = 2_003..5_000;
        let dropped: Vec<i64> =
            more.flat_map(|key| known.remember((Moment(key), &user(key)), &key, (), 100, MOST)).collect();
        assert_eq!(dropped, (0..1_000).collect::<Vec<_>>());
    }

    /// A value of the plain twin: age, user, key, bytes.
    type Plain = (Moment, Name, u8, usize);

    /// The same with lists that are searched.
    fn remember_plainly(all: &mut Vec<Plain>, new: &Plain, most: Most) -> Vec<u8> {
        all.retain(|(_, _, key, _)| *key != new.2);
        all.push(new.clone());
        let sum = |all: &[Plain], of: &dyn Fn(&Plain) -> bool| {
            all.iter().filter(|plain| of(plain)).map(|(.., bytes)| bytes).sum::<usize>()
        };
        let mut dropped = Vec::new();
        loop {
            let of_user = |user: &Name| sum(all, &|(_, of, ..): &Plain| of == user);
            let others = || all.iter().filter(|(_, _, key, _)| *key != new.2);
            let age = |(at, _, key, _): &&Plain| (*at, *key);
            let oldest_at =
                |user: &Name| all.iter().filter(|(_, of, ..)| of == user).map(|(at, ..)| *at).min();
            let next = if of_user(&new.1) > most.each {
                others().filter(|(_, user, ..)| *user == new.1).min_by_key(age)
            } else {
                None
            };
            let next = next.or_else(|| {
                let too_much = sum(all, &|_| true) > most.all;
                let little = most.all / LITTLE;
                let weight = |user: &Name| of_user(user).max(little).checked_ilog2().map_or(0, |log| log + 1);
                let heaviest = others()
                    .map(|(_, user, ..)| user)
                    .max_by_key(|user| (weight(user), Reverse(oldest_at(user)), (*user).clone()));
                let heaviest = heaviest.filter(|_| too_much)?;
                others().filter(|(_, user, ..)| user == heaviest).min_by_key(age)
            });
            let Some(next) = next.map(|(_, _, key, _)| *key) else { return dropped };
            all.retain(|(_, _, key, _)| *key != next);
            dropped.push(next);
        }
    }

    /// Of all sizes, also so few that several of them are little.
    fn bytes() -> impl Strategy<Value = usize> {
        prop_oneof![2 => 0..60_000usize, 1 => 0..120usize]
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(128))]

        #[test]
        fn what_is_dropped_is_what_a_search_finds(
            values in prop::collection::vec((0..40i64, 0..4u8, 0..30u8, bytes(), any::<bool>()), 1..200)
        ) {
            let most = Most { each: 100_000, all: 250_000 };
            let (mut known, mut plain) = (PerUser::default(), Vec::new());
            for (at, user, key, bytes, forgets) in values {
                let (at, user) = (Moment(at), Name::from(user.to_string()));
                if forgets {
                    known.forget(&key);
                    plain.retain(|(_, _, of, _): &Plain| *of != key);
                }
                let dropped = known.remember((at, &user), &key, (), bytes, most);
                prop_assert_eq!(dropped, remember_plainly(&mut plain, &(at, user.clone(), key, bytes), most));
                let theirs: usize = plain.iter().filter(|(_, of, ..)| *of == user).map(|(.., bytes)| bytes).sum();
                prop_assert!(theirs <= most.each.max(bytes));
                prop_assert_eq!((known.len(), known.bytes), (plain.len(), plain.iter().map(|(.., bytes)| bytes).sum()));
            }
            plain.iter().for_each(|(_, _, key, _)| known.forget(key));
            prop_assert_eq!(known, PerUser::default());
        }
    }
}
