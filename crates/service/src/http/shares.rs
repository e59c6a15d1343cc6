//! Places of which there are only so many, and of which one user, address or account can have only a part: whoever takes all that
//! it can get leaves the rest to others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One of those who share has at most one part in so many. With fewer than that it takes as many to use up everything.
const PARTS: usize = 4;

/// Places by who has them. Clones share everything.
#[derive(Debug)]
pub(super) struct Shares<K: Eq + Hash>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K: Eq + Hash> {
    most: usize,
    most_each: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    each: HashMap<K, usize>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<K: Eq + Hash> {
    of: Arc<Inner<K>>,
    key: K,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// There is none for anybody.
    All,
    /// The one who asks has its share.
    Own,
}

impl<K: Eq + Hash> Clone for Shares<K> {
    fn clone(&self) -> Shares<K> {
        Shares(self.0.clone())
    }
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// So many places, of which everyone can have a quarter.
    pub(super) fn quarters(most: usize) -> Shares<K> {
        Shares::new(most, most.div_ceil(PARTS))
    }

    pub(super) fn new(most: usize, most_each: usize) -> Shares<K> {
        Shares(Arc::new(Inner { most, most_each, taken: Mutex::new(Taken { all: 0, each: HashMap::new() }) }))
    }

    /// How many places one can have.
    pub(super) fn most_each(&self) -> usize {
        self.0.most_each
    }

    pub(super) fn take(&self, key: &K) -> Result<Place<K>, Full> {
        let mut taken = self.0.taken();
        if taken.each.get(key).is_some_and(|own| *own >= self.0.most_each) {
            return Err(Full::Own);
        }
        if taken.all >= self.0.most {
            return Err(Full::All);
        }
        taken.all += 1;
        *taken.each.entry(key.clone()).or_default() += 1;
        Ok(Place { of: self.0.clone(), key: key.clone() })
    }
}

impl<K: Eq + Hash> Inner<K> {
    fn taken(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        taken.all -= 1;
        if let Some(own) = taken.each.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                taken.each.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_more_than_its_share_and_all_together_not_more_than_there_is() {
        let shares = Shares::quarters(6);
        let take = |key: &str| shares.take(&key.to_owned());
        let mut places = vec![take("ada").unwrap(), take("ada").unwrap()];
        assert_eq!(take("ada").unwrap_err(), Full::Own);
        places.extend(["bob", "bob", "eve", "eve"].map(|key| take(key).unwrap()));
        assert_eq!(take("dan").unwrap_err(), Full::All);
        places.remove(0);
        assert!(take("ada").is_ok() && take("dan").is_ok());
        drop(places);
        let taken = shares.0.taken();
        assert_eq!((taken.all, taken.each.len()), (0, 0), "nothing is left of those who have gone");
    }
}
