//! What goes wrong in a simulated grid, or is put right again, at a moment that was arranged before.

use super::external::Temper;
use super::{CrashPoint, Grid, Happening, Message, Role, What, network};
use crate::site::Job;
use bookahead_party::{Input, JobCall};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Call, Caller, Envelope, JobId, Key, Millis, Moment, Name, ReservationId};

/// Something that goes wrong, or is put right again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// A party crashes, at once or with the next thing that it writes down.
    Crash(usize, CrashPoint),
    /// It starts again.
    Restart(usize),
    /// These parties are cut off from all others.
    CutOff(Vec<usize>),
    /// Everybody hears everybody again.
    Reunite,
    /// Part of a site's resource fails.
    Lose(usize, Name, Capacity),
    /// It comes back.
    Restore(usize, Name, Capacity),
    /// The network treats messages differently from now on.
    Network(network::Rules),
    /// A site crashes, and all that it wrote down is lost.
    LoseDisk(usize),
    /// The clock of a party jumps.
    Clock(usize, Millis),
    /// Something happens in the batch system of a site.
    Batch(usize, BatchTrouble),
    /// Somebody wants to see the batch system of a site as it is now.
    WantLook(usize),
    /// An owner or an operator does something at a party itself, to one of its reservations.
    Command {
        /// At which party.
        at: usize,
        /// To which of its reservations, counted around.
        which: usize,
        /// As an operator, and not as the owner.
        operator: bool,
        /// What.
        command: Command,
    },
}

/// What can happen in a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchTrouble {
    /// It behaves differently from now on.
    Temper(Temper),
    /// It answers nothing until then; where `true`, that is not even noticed before the site restarts.
    Silence(Moment, bool),
    /// It restarts and has forgotten what it keeps where no jobs are.
    Forget,
    /// Its operator deletes one of the things that it keeps for the site.
    Delete(usize),
    /// Somebody else reserves: after how long, for how long, how much.
    Foreign(Seconds, Seconds, Capacity),
    /// Somebody else submits a job.
    Job(Name, Job),
    /// Its clock is ahead by this from now on.
    Skew(Seconds),
}

/// What an owner or an operator does to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Gives it up.
    Cancel,
    /// Gives back all but so much of what is left.
    Release(Capacity),
    /// Cancels a job, and not a reservation.
    CancelJob,
}

impl Grid {
    /// Something will go wrong, or be put right.
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
        // Whatever it was going to crash of is over.
        self.parties[at].armed = None;
        if !self.parties[at].up {
            self.parties[at].up = true;
            self.troubles.count("restarts");
            self.log.row(self.now, || What::Restart { party: at });
            self.start(at);
            self.witness.restarted(self.local(at), &self.parties[at], at);
        }
    }

    /// A batch system in the process of the site is heard at once; another one when it is looked at.
    fn change_capacity(&mut self, at: usize, resource: &Name, capacity: Capacity, back: bool) {
        let Role::Site(site) = &self.parties[at].role else { return };
        let now = if site.asks() { self.now } else { self.now + self.parties[at].ahead };
        let Role::Site(site) = &mut self.parties[at].role else { return };
        site.batch.advance(now);
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

    /// Somebody cancels one of the jobs of a site.
    fn cancel_one_job(&mut self, at: usize, which: usize) {
        let Role::Site(site) = &self.parties[at].role else { return };
        let live: Vec<JobId> = site.party().records().live().map(|record| record.job.id).collect();
        if let Some(id) = live.get(which % live.len().max(1)) {
            self.troubles.count("jobs_cancelled_behind_the_broker");
            self.command(at, Message::Job { caller: an_operator(), id: *id, ask: JobCall::Drop, job: None });
        }
    }

    /// Somebody does something to one of the reservations of a party.
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
                Call::Release { id, part: Some(0), from: self.local(at).second(), keep }
            }
        };
        self.troubles.count("commands_behind_the_broker");
        self.arranged += 1;
        self.witness.interfered.insert((at, id));
        let key = Key((1 << 126) | u128::from(self.arranged));
        self.command(at, Message::Call(Envelope { key, caller, call }));
    }
}

fn an_operator() -> Caller {
    Caller { user: "root".into(), roles: vec!["operator".into()] }
}
