//! What is going to happen, earliest first. The events of one instant come in a fixed order: ends of jobs, then
//! limits that running jobs reach, then beginnings and ends of reservations; submissions are taken from the
//! workload after them. It never holds more than one event for each running job and two for each reservation.

use bookahead_plan::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at an instant. The order of the variants is the order inside an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The job with this index ends.
    End(u32),
    /// The job with this index has run for as long as expected and goes on.
    Limit(u32),
    /// A reservation begins or ends.
    Reservation,
}

/// The events to come.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Time, Event)>>,
}

impl Events {
    /// Adds an event.
    pub fn push(&mut self, time: Time, event: Event) {
        self.heap.push(Reverse((time, event)));
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|&Reverse((time, _))| time)
    }

    /// Takes the next event if it happens at `now`.
    pub fn pop_at(&mut self, now: Time) -> Option<Event> {
        if self.next_time() != Some(now) {
            return None;
        }
        self.heap.pop().map(|Reverse((_, event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_come_as_ends_limits_reservations() {
        let mut events = Events::default();
        for event in [Event::Reservation, Event::Limit(0), Event::End(9), Event::End(2)] {
            events.push(Time(5), event);
        }
        events.push(Time(4), Event::Reservation);
        assert_eq!(events.pop_at(Time(5)), None);
        assert_eq!(events.pop_at(Time(4)), Some(Event::Reservation));
        let order: Vec<Event> = std::iter::from_fn(|| events.pop_at(Time(5))).collect();
        assert_eq!(order, [Event::End(2), Event::End(9), Event::Limit(0), Event::Reservation]);
    }
}
