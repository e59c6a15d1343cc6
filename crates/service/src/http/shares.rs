//! A bounded number of slots, of which one user, address or account can take only a part, so that no single client
//! can take them all.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One holder gets at most a quarter, so it takes at least four to exhaust the slots.
const PARTS: usize = 4;

/// Rounded up: with fewer than four slots a holder must still get one.
fn quarter(most: usize) -> usize {
    most.div_ceil(PARTS)
}

/// Slots by holder. Clones share their state.
#[derive(Debug)]
pub(super) struct Shares<K: Eq + Hash>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K: Eq + Hash> {
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    most: usize,
    most_each: usize,
    all: usize,
    each: HashMap<K, usize>,
}

/// A slot, released when dropped.
#[derive(Debug)]
pub(super) struct Place<K: Eq + Hash> {
    of: Arc<Inner<K>>,
    key: K,
}

/// Why no slot was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// All slots are taken.
    All,
    /// The caller has its full share.
    Own,
}

impl<K: Eq + Hash> Clone for Shares<K> {
    fn clone(&self) -> Shares<K> {
        Shares(self.0.clone())
    }
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// `most` slots, of which each holder can have a quarter.
    pub(super) fn quarters(most: usize) -> Shares<K> {
        Shares::new(most, quarter(most))
    }

    pub(super) fn new(most: usize, most_each: usize) -> Shares<K> {
        let taken = Taken { most, most_each, all: 0, each: HashMap::new() };
        Shares(Arc::new(Inner { taken: Mutex::new(taken) }))
    }

    /// Changes the number of slots, and of one holder. Slots that are taken stay taken, even if there are more of them.
    pub(super) fn resize(&self, most: usize, most_each: usize) {
        let mut taken = self.0.taken();
        (taken.most, taken.most_each) = (most, most_each);
    }

    /// Changes the number of slots, of which each holder can have a quarter.
    pub(super) fn resize_quarters(&self, most: usize) {
        self.resize(most, quarter(most));
    }

    /// Most slots of one holder.
    pub(super) fn most_each(&self) -> usize {
        self.0.taken().most_each
    }

    pub(super) fn take(&self, key: &K) -> Result<Place<K>, Full> {
        let mut taken = self.0.taken();
        // Before the total: a client at its own limit should learn that, even if the service is full as well.
        if taken.each.get(key).is_some_and(|own| *own >= taken.most_each) {
            return Err(Full::Own);
        }
        if taken.all >= taken.most {
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
            // Otherwise the map would grow with every client that ever called.
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
        shares.resize_quarters(8);
        assert!(take("eve").is_err() && take("dan").is_ok(), "more slots, but two of one holder as before");
        drop(places);
        let taken = shares.0.taken();
        assert_eq!((taken.all, taken.each.len()), (0, 0), "nothing is left of those who have gone");
    }
}
