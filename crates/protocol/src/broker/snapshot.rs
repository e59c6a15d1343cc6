//! What of a broker is kept in the place of all events before it: its bookings as the events tell of them, and which life
//! it is in. Whatever a crash loses (peers, calls under way, who waits, what peers have said) is not in it. The agenda and
//! the identities follow from the rest.

use super::booking::Booking;
use super::{Broker, Rules};
use crate::ids::Identities;
use serde::{Deserialize, Serialize};

/// What the events so far come to. Whoever restores it and applies the events after it has the broker that
/// would have come of all events from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    life: Option<u32>,
    /// In order of their ids.
    bookings: Vec<Booking>,
}

impl Broker {
    /// One with the same bookings that does nothing: events are applied to it, and it is asked. Answers that were given are not
    /// in it.
    pub fn read_copy(&self) -> Broker {
        let bookings = self
            .bookings
            .iter()
            .map(|(id, booking)| (*id, Booking { answered: Vec::new(), ..booking.clone() }));
        Broker { bookings: bookings.collect(), ..Broker::new(self.rules.clone()) }
    }

    /// What stands for all its events so far.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { life: self.life, bookings: self.bookings().map(Booking::as_written).collect() }
    }

    /// The broker that all events before a snapshot make. As after any replay it knows no peers, and
    /// [`Broker::resume`] begins its next life once the events after the snapshot are applied. How long what is over
    /// stays known follows the rules as they are now.
    pub fn restore(rules: Rules, snapshot: Snapshot) -> Broker {
        let mut broker = Broker::new(rules);
        broker.life = snapshot.life;
        broker.identities = Identities::new(broker.rules.maker, snapshot.life.unwrap_or(0));
        for booking in snapshot.bookings {
            let due = booking.next_change(broker.rules.retention);
            broker.agenda.extend(due.map(|due| (due, booking.id)));
            broker.bookings.insert(booking.id, booking);
        }
        broker
    }
}
