//! The snapshot of a broker, which replaces all events before it, and copies for queries. The agenda and the
//! identities are derived from the rest.

use super::booking::Booking;
use super::{Broker, Rules};
use crate::clock::Moment;
use crate::ids::{Identities, Name, ReservationId};
use serde::{Deserialize, Serialize};

/// The state after all events so far. Restoring it and applying later events gives the same broker as
/// applying all events from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    life: Option<u32>,
    /// By ascending id.
    bookings: Vec<Booking>,
    /// When a user cancelled an id that was not reserved yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cancelled_before: Vec<(ReservationId, Name, Moment)>,
}

impl Broker {
    /// A copy with the same bookings, for queries: events are applied to it, but it never acts. It has no
    /// recorded answers.
    pub fn read_copy(&self) -> Broker {
        let bookings = self
            .bookings
            .iter()
            .map(|(id, booking)| (*id, Booking { answered: Vec::new(), ..booking.clone() }));
        let mut copy = Broker { bookings: bookings.collect(), ..Broker::new(self.rules.clone()) };
        copy.remembered = self.remembered.without_answers();
        copy
    }

    /// The state after all events so far.
    pub fn snapshot(&self) -> Snapshot {
        let cancelled_before = self.cancelled_before.all();
        Snapshot {
            life: self.life,
            bookings: self.bookings().map(Booking::as_written).collect(),
            cancelled_before: cancelled_before.map(|((id, user), at)| (*id, user.clone(), *at)).collect(),
        }
    }

    /// The broker at a snapshot. As after any replay it has no peers; apply the later events, then call
    /// [`Broker::resume`]. The retention time is that of the given rules.
    pub fn restore(rules: Rules, snapshot: Snapshot) -> Broker {
        let mut broker = Broker::new(rules);
        broker.life = snapshot.life;
        broker.identities = Identities::new(broker.rules.maker, snapshot.life.unwrap_or(0));
        for (id, user, at) in snapshot.cancelled_before {
            broker.remember_cancelled(id, &user, at);
        }
        // Snapshots of earlier versions may have more than is remembered. The oldest are dropped.
        let mut ended: Vec<_> = snapshot.bookings.iter().map(|booking| (booking.ended, booking.id)).collect();
        ended.sort_unstable();
        for booking in snapshot.bookings {
            let due = booking.next_change(broker.rules.retention);
            broker.agenda.extend(due.map(|due| (due, booking.id)));
            broker.heals.extend(booking.heal_at(broker.rules.heal_after).map(|due| (due, booking.id)));
            broker.watched.note(&booking);
            broker.bookings.insert(booking.id, booking);
        }
        ended.into_iter().for_each(|(_, id)| broker.count_restored(id));
        broker
    }
}
