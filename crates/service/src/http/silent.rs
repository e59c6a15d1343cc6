//! Connections of one address that have not authenticated yet. Many users share the address of a login node or of a
//! network behind a router, and one of them could take all its connections without a word. So connections without an
//! authenticated request have at most half of them, and the oldest of these is closed for a new one.

use super::listener::Source;
use super::shares::{Full, Place, Shares};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Clones share their state.
#[derive(Clone, Default)]
pub(super) struct Silent(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    next: u64,
    /// By source and age.
    silent: HashMap<Source, BTreeMap<u64, Arc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    place: Mutex<Option<Place<Source>>>,
    close: Notify,
}

/// A connection with its slot, which is released when this is dropped.
pub(super) struct Connected {
    of: Silent,
    source: Source,
    number: u64,
    slot: Arc<Slot>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Silent {
    /// A slot for a new connection; `Err` if all connections of the source are authenticated, or the service is full.
    pub(super) fn connect(&self, shares: &Shares<Source>, source: Source) -> Result<Connected, Full> {
        let mut known = lock(&self.0);
        let most_silent = (shares.most_each() / 2).max(1);
        let others = known.silent.get(&source).map_or(0, BTreeMap::len);
        let place = match shares.take(&source) {
            Ok(place) if others < most_silent => place,
            Err(Full::All) => return Err(Full::All),
            // Its slot goes to the new connection.
            mine => known.close_oldest(&source).or(mine.ok()).ok_or(Full::Own)?,
        };
        let slot = Arc::new(Slot { place: Mutex::new(Some(place)), close: Notify::new() });
        let number = known.next;
        known.next += 1;
        known.silent.entry(source).or_default().insert(number, slot.clone());
        Ok(Connected { of: self.clone(), source, number, slot })
    }
}

impl Known {
    fn close_oldest(&mut self, source: &Source) -> Option<Place<Source>> {
        let (number, slot) = self.silent.get(source)?.first_key_value()?;
        let (number, slot) = (*number, slot.clone());
        self.remove(source, number);
        slot.close.notify_one();
        lock(&slot.place).take()
    }

    fn remove(&mut self, source: &Source, number: u64) {
        let Some(own) = self.silent.get_mut(source) else { return };
        own.remove(&number);
        if own.is_empty() {
            self.silent.remove(source);
        }
    }
}

impl Connected {
    /// It has made an authenticated request, and is no longer closed for others.
    pub(super) fn authenticated(&self) {
        lock(&self.of.0).remove(&self.source, self.number);
    }

    /// Waits until it must be closed for another connection.
    pub(super) async fn closed(&self) {
        self.slot.close.notified().await;
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.authenticated();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_closed(connected: &Connected) -> bool {
        pin!(connected.closed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn silent_connections_have_half_of_an_address_and_the_oldest_goes_first() {
        let (shares, silent) = (Shares::new(100, 6), Silent::default());
        let (here, there) = (Source::Account(1), Source::Account(2));
        let connect = |source| silent.connect(&shares, source);
        let first: Vec<Connected> = (0..3).map(|_| connect(here).unwrap()).collect();
        let other = connect(there).unwrap();
        let fourth = connect(here).unwrap();
        assert_eq!(
            [&first[0], &first[1], &first[2], &fourth, &other].map(is_closed),
            [true, false, false, false, false]
        );
        first[1..].iter().chain([&fourth]).for_each(Connected::authenticated);
        let more: Vec<Connected> = (0..3).map(|_| connect(here).unwrap()).collect();
        more.iter().for_each(Connected::authenticated);
        assert_eq!(connect(here).err(), Some(Full::Own), "all six are authenticated");
        assert!(![&first[1], &first[2], &fourth, &more[0]].map(is_closed).contains(&true));
        drop((first, fourth, more, other));
        assert!(connect(here).is_ok() && lock(&silent.0).silent.is_empty(), "nothing is left");
    }
}
