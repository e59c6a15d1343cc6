//! System clocks that are wrong when a party starts. The code that the daemons run decides whether the clock is followed
//! ([`TimeOfDay`]); the time since boot is that of the grid.

use super::host::Driven;
use super::{Flaw, Grid, Happening, Party, Role};
use bookahead_party::{JournalTime, Reading, TimeOfDay};
use bookahead_protocol::{Millis, Moment};

/// Interval between looks at a clock that is or was wrong: a daemon looks at every message and once a second.
const LOOK_EVERY: Millis = Millis(500);

/// The system clock of a party that started with a wrong one.
pub(super) struct WrongClock {
    /// How far it is ahead of the time of the grid.
    by: Millis,
    time: TimeOfDay,
    /// Whether the party knows that it is in doubt.
    in_doubt: bool,
}

impl WrongClock {
    fn reading(&self, now: Moment) -> Reading {
        Reading { wall: now + self.by, boot: Millis(now.0) }
    }
}

impl Grid {
    /// Sets the system clock of a party that is down, for its next start.
    pub(super) fn wrong_at_start(&mut self, at: usize, by: Millis) {
        let reading = Reading { wall: self.now + by, boot: Millis(self.now.0) };
        let clock = WrongClock { by, time: TimeOfDay::new(reading), in_doubt: false };
        self.parties[at].wrong = Some(Box::new(clock));
    }

    /// Sets the system clock of a party right.
    pub(super) fn set_right(&mut self, at: usize) {
        if let Some(clock) = &mut self.parties[at].wrong {
            clock.by = Millis::ZERO;
            clock.time.confirm(self.now, self.now, "NTP");
            self.look_at_clock(at);
        }
    }

    /// A party that was recovered from its disk compares its clock with its journal, like a daemon.
    pub(super) fn compare_clock(&mut self, at: usize) {
        let (now, trusts) = (self.now, self.flaw == Some(Flaw::TrustClocks));
        let Some(mut clock) = self.parties[at].wrong.take() else { return };
        let journal = self.parties[at].driven().and_then(Driven::recovered);
        // Each start is a new process.
        clock.time = TimeOfDay::new(clock.reading(now));
        if trusts {
            clock.time.trust();
        }
        if let Some(JournalTime { newest, due }) = journal {
            clock.time.start(clock.reading(now), JournalTime { newest, due });
        }
        clock.in_doubt = clock.time.state(clock.reading(now)).is_in_doubt();
        if clock.in_doubt {
            self.troubles.count("clocks_in_doubt");
        } else if !trusts {
            // A party without promises has nothing to lose, and cannot know: its clock is set right first.
            self.parties[at].ahead = Millis::ZERO;
            return;
        }
        let local = clock.time.read(clock.reading(now));
        let party = &mut self.parties[at];
        party.ahead = local - now;
        let in_doubt = clock.in_doubt;
        party.driven().into_iter().for_each(|host| host.doubt_clock(in_doubt));
        self.parties[at].wrong = Some(clock);
        self.push(now + LOOK_EVERY, Happening::Clock(at));
    }

    /// Reads the clock of a party again, and tells it when the doubt is over.
    pub(super) fn look_at_clock(&mut self, at: usize) {
        let now = self.now;
        let Some(mut clock) = self.parties[at].wrong.take() else { return };
        if !self.parties[at].up {
            self.parties[at].wrong = Some(clock);
            return;
        }
        let reading = clock.reading(now);
        let ahead = clock.time.read(reading) - now;
        let in_doubt = clock.time.state(reading).is_in_doubt();
        let party = &mut self.parties[at];
        let by = Millis(ahead.0 - party.ahead.0);
        party.ahead = ahead;
        if let Some(host) = party.driven() {
            host.time_leaps(by);
            if clock.in_doubt != in_doubt {
                host.doubt_clock(in_doubt);
            }
        }
        clock.in_doubt = in_doubt;
        self.witness.ended_early(now, &self.parties[at], at);
        // The clock is right and followed: nothing is left to look at.
        if clock.by != Millis::ZERO || in_doubt || ahead != Millis::ZERO {
            self.parties[at].wrong = Some(clock);
            self.push(now + LOOK_EVERY, Happening::Clock(at));
        }
        self.wake(at);
    }
}

/// Reservations that a party completed although their end is more than `slack` ahead.
pub(super) fn completed_early(party: &Party, now: Moment, slack: Millis) -> Vec<String> {
    let ends = |end: bookahead_plan::Time| Moment::of(end) > now + slack;
    match &party.role {
        Role::Site(site) => {
            let all = site.ledger().entries();
            let early = all.filter(|(_, entry)| {
                entry.state == bookahead_protocol::State::Completed && ends(entry.end())
            });
            early.map(|(id, entry)| format!("{id} is completed and ends at {}", entry.end())).collect()
        }
        Role::Broker(broker) => {
            let all = broker.head().bookings();
            let early = all.filter(|booking| {
                let mut parts = booking.children.iter().map(|child| child.pick.slot.interval.end);
                booking.state == bookahead_protocol::State::Completed && parts.any(ends)
            });
            early.map(|booking| format!("{} is completed before its end", booking.id)).collect()
        }
        Role::Client(_) => Vec::new(),
    }
}
