//! Faults of a simulated grid and their repair, each scheduled for a moment.

use super::external::Temper;
use super::{CrashPoint, Grid, Happening, Message, Role, What, network};
use crate::site::Job;
use bookahead_party::{Input, JobCall};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Call, Caller, Envelope, JobId, Key, Millis, Moment, Name, ReservationId};

/// A fault, or its repair. Numbers are places in [`Grid::parties`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// A party crashes, immediately or at a point of its next write.
    Crash(usize, CrashPoint),
    /// A party restarts; no effect on one that is up, except that it disarms a scheduled crash.
    Restart(usize),
    /// A partition: these parties cannot exchange messages with the others.
    CutOff(Vec<usize>),
    /// Ends all partitions.
    Reunite,
    /// Capacity of a resource at a site fails.
    Lose(usize, Name, Capacity),
    /// Failed capacity comes back.
    Restore(usize, Name, Capacity),
    /// Replaces the rules of the network.
    Network(network::Rules),
    /// A site crashes and loses its journal and snapshot.
    LoseDisk(usize),
    /// The clock of a party jumps by this much, forwards or backwards.
    Clock(usize, Millis),
    /// A party crashes, and its system clock is ahead by this much when it starts again.
    WrongClock(usize, Millis),
    /// The system clock of a party is set right.
    ClockRight(usize),
    /// A fault in the batch system of a site.
    Batch(usize, BatchTrouble),
    /// A caller asks a site for a fresh poll of its batch system.
    WantLook(usize),
    /// An owner or an operator sends a command directly to a party, behind the back of the broker that made the
    /// reservation.
    Command {
        /// Place of the party.
        at: usize,
        /// Index among its live reservations, modulo their number.
        which: usize,
        /// Whether an operator sends it instead of the owner.
        operator: bool,
        /// The command.
        command: Command,
    },
}

/// Faults of a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchTrouble {
    /// Changes its delays and error rates.
    Temper(Temper),
    /// It answers nothing until then. If `true`, the adapter hangs too, and the site notices only after a restart.
    Silence(Moment, bool),
    /// It restarts and loses all backings without jobs.
    Forget,
    /// Its operator deletes one backing of the site, by index modulo their number.
    Delete(usize),
    /// Another client of the batch system reserves: delay, length, capacity.
    Foreign(Seconds, Seconds, Capacity),
    /// A local user submits a job.
    Job(Name, Job),
    /// Sets the lead of its clock.
    Skew(Seconds),
}

/// A command of an owner or an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Cancels the reservation.
    Cancel,
    /// Releases all but this capacity from now on.
    Release(Capacity),
    /// Cancels a job instead of a reservation.
    CancelJob,
}

impl Grid {
    /// Schedules a fault or its repair.
    pub fn arrange(&mut self, at: Moment, trouble: Trouble) {
        self.push(at, Happening::Trouble(trouble));
    }

    pub(super) fn suffer(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Crash(at, CrashPoint::Idle) => {
                if self.parties[at].up {
                    self.crash(at, CrashPoint::Idle);
                }
            }
            Trouble::Crash(at, point) => self.parties[at].armed = Some(point),
            Trouble::Restart(at) => self.restart(at),
            Trouble::CutOff(parties) => {
                self.troubles.count("partitions");
                self.log.row(self.now, || What::CutOff { parties: parties.clone() });
                self.network.cut_off(&parties, self.parties.len());
            }
            Trouble::Reunite => {
                self.log.row(self.now, || What::Reunited);
                self.network.cut.clear();
            }
            Trouble::Lose(at, resource, capacity) => {
                self.troubles.count("capacity_failures");
                self.witness.failed.insert(at);
                self.change_capacity(at, &resource, capacity, false);
            }
            Trouble::Restore(at, resource, capacity) => self.change_capacity(at, &resource, capacity, true),
            Trouble::Network(rules) => self.network.rules = rules,
            Trouble::LoseDisk(at) => {
                self.suffer(Trouble::Crash(at, CrashPoint::Idle));
                self.troubles.count("disks_lost");
                if let Role::Site(site) = &mut self.parties[at].role {
                    site.host.lose_disk();
                }
                self.witness.disk_lost(&self.parties[at], at);
            }
            Trouble::Clock(at, by) => {
                self.troubles.count("clock_jumps");
                self.parties[at].ahead = Millis(self.parties[at].ahead.0 + by.0);
                self.arrange_waking(at);
            }
            Trouble::WrongClock(at, by) => {
                self.suffer(Trouble::Crash(at, CrashPoint::Idle));
                self.troubles.count("clocks_wrong_at_starts");
                self.wrong_at_start(at, by);
            }
            Trouble::ClockRight(at) => self.set_right(at),
            Trouble::Batch(at, trouble) => self.batch_suffers(at, trouble),
            Trouble::WantLook(at) => {
                if self.parties[at].up {
                    self.give(at, Input::WantLook);
                }
            }
            Trouble::Command { at, which, operator, command } => {
                self.command_one(at, which, operator, command);
            }
        }
    }

    fn restart(&mut self, at: usize) {
        // A scheduled crash point that was not reached before the restart is dropped.
        self.parties[at].armed = None;
        if !self.parties[at].up {
            self.parties[at].up = true;
            self.troubles.count("restarts");
            self.log.row(self.now, || What::Restart { party: at });
            if let Role::Site(site) = &mut self.parties[at].role {
                site.batch.forget_what_the_site_knows(|_| true);
            }
            self.start(at);
            self.witness.restarted(self.local(at), &self.parties[at], at);
        }
    }

    /// An in-process batch system reports a change immediately, an external one at the next poll.
    fn change_capacity(&mut self, at: usize, resource: &Name, capacity: Capacity, back: bool) {
        let Role::Site(site) = &self.parties[at].role else { return };
        let now = if site.asks() { self.now } else { self.now + self.parties[at].ahead };
        let Role::Site(site) = &mut self.parties[at].role else { return };
        site.batch.advance(now);
        // The failed nodes belong to a random half of the backings.
        let odd = self.network.draw(2) == 0;
        site.batch.lose(resource, capacity, back, |place| (place % 2 == 1) == odd);
        let heard = site.batch.external.is_none();
        if self.parties[at].up && heard {
            self.give(at, Input::Time);
        }
    }

    fn batch_suffers(&mut self, at: usize, trouble: BatchTrouble) {
        let now = self.now;
        let Role::Site(site) = &mut self.parties[at].role else { return };
        match trouble {
            BatchTrouble::Temper(temper) => {
                if let Some(external) = &mut site.batch.external {
                    external.temper = temper;
                }
            }
            BatchTrouble::Silence(until, mute) => {
                if let Some(external) = &mut site.batch.external {
                    (external.silent_until, external.mute) = (until, mute);
                    site.batch.tally.count(if mute { "batch_hung" } else { "batch_silent" });
                }
            }
            BatchTrouble::Forget => site.batch.forget(now),
            BatchTrouble::Delete(which) => site.batch.delete_one(now, which),
            BatchTrouble::Foreign(after, length, capacity) => {
                site.batch.reserve_foreign(now, after, length, capacity);
            }
            BatchTrouble::Job(resource, mut job) => {
                job.asked.submit = site.batch.time(now).max(Time(0));
                if let Some(cluster) = site.batch.clusters.get_mut(&resource) {
                    cluster.add_local(job);
                    site.batch.tally.count("foreign_jobs");
                }
            }
            BatchTrouble::Skew(by) => {
                site.batch.skew = by;
                site.batch.tally.count("batch_clock_skewed");
            }
        }
        self.witness.look(now, &mut self.parties[at], at);
    }

    /// An operator cancels one of the jobs of a site.
    fn cancel_one_job(&mut self, at: usize, which: usize) {
        let Role::Site(site) = &self.parties[at].role else { return };
        let live: Vec<JobId> = site.party().records().live().map(|record| record.job.id).collect();
        if let Some(id) = live.get(which % live.len().max(1)) {
            self.troubles.count("jobs_cancelled_behind_the_broker");
            self.command(at, Message::Job { caller: an_operator(), id: *id, ask: JobCall::Drop, job: None });
        }
    }

    /// Sends a command to one of the live reservations of a party.
    fn command_one(&mut self, at: usize, which: usize, operator: bool, command: Command) {
        if !self.parties[at].up {
            return;
        }
        let live: Vec<(ReservationId, Name)> = match &self.parties[at].role {
            _ if command == Command::CancelJob => return self.cancel_one_job(at, which),
            Role::Site(site) => {
                let live = site.ledger().entries().filter(|(_, entry)| entry.is_live());
                live.map(|(id, entry)| (id, entry.owner.clone())).collect()
            }
            Role::Broker(broker) => {
                let live = broker.head().bookings().filter(|booking| booking.state.holds_capacity());
                live.map(|booking| (booking.id, booking.owner())).collect()
            }
            Role::Client(_) => return,
        };
        let Some((id, owner)) = live.get(which % live.len().max(1)).cloned() else { return };
        let caller = match operator {
            true => an_operator(),
            false => Caller { user: owner, roles: Vec::new() },
        };
        let call = match command {
            Command::Cancel | Command::CancelJob => Call::Cancel { id },
            Command::Release(keep) => {
                Call::Release { id, part: Some(0), from: self.local(at).second(), keep, end_jobs: false }
            }
        };
        self.troubles.count("commands_behind_the_broker");
        self.arranged += 1;
        // The broker that made the reservation does not know of this command.
        self.witness.interfered.insert((at, id));
        let key = Key((1 << 126) | u128::from(self.arranged));
        self.command(at, Message::Call(Envelope { key, caller, call }));
    }
}

fn an_operator() -> Caller {
    Caller { user: "root".into(), roles: vec!["operator".into()] }
}
