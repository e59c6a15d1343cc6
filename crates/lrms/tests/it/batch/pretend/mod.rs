//! A simulated batch system: nodes, reservations in cores, jobs and its own clock, all in memory. It outlives the
//! adapters that drive it, and fails on request. Its commands are in `commands`.

mod commands;

use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{
    FactState, Handle, JobFact, NO_GO, Node, Reserved, Submission, Unit, Unreadable, Wanted,
};
use bookahead_party::{Sharing, Work};
use bookahead_plan::{Interval, Seconds, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The fault of the next command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not executed, without an answer.
    SilentBefore,
    /// Executed, without an answer.
    SilentAfter,
    /// Executed later, when the world settles; without an answer.
    SilentLate,
    /// Refused.
    Refuse,
    /// A reservation gets one core less than requested, unnoticed.
    Short,
    /// No fault.
    None,
}

/// The state of the simulated batch system.
pub(super) struct World {
    pub(super) clock: i64,
    pub(super) nodes: Vec<Node>,
    pub(super) reservations: Vec<Reserved>,
    pub(super) jobs: Vec<JobFact>,
    /// Actual run time of each job.
    runs: BTreeMap<String, i64>,
    pub(super) faults: VecDeque<Fault>,
    late: Vec<Late>,
    /// Every command except looks.
    pub(super) log: Vec<String>,
    /// Intervals and amounts of our reservations just before each of them.
    pub(super) history: Vec<Vec<(i64, i64, u32)>>,
    /// Project of each created reservation and job.
    pub(super) projects: Vec<Option<String>>,
    pub(super) looks: usize,
    /// Reservations reported as created: a later creation must see them, unless both run in parallel.
    made: BTreeSet<Handle>,
    pub(super) one_at_a_time: bool,
    /// For claiming jobs: how long they wait, and when they got their go-ahead.
    claims: BTreeMap<String, (i64, Option<i64>)>,
    /// How long running jobs ignore a signal, and when each signalled job ends.
    pub(super) kill_wait: i64,
    dying: BTreeMap<String, i64>,
    /// Whether a reservation can be changed.
    pub(super) changes: bool,
    /// Whether jobs can be moved to another reservation.
    pub(super) moves_jobs: bool,
    pub(super) step: i64,
    pub(super) longest_name: usize,
    /// Whether it does not answer at all.
    pub(super) deaf: bool,
    pub(super) unreadable: Vec<Unreadable>,
    pub(super) freed_within: i64,
    pub(super) sharing: Sharing,
    pub(super) tres: bookahead_lrms::batch::TresPicture,
    /// Finished jobs that it remembers.
    pub(super) accounting: BTreeMap<String, JobFact>,
    next: u32,
}

enum Late {
    Create(Wanted),
    Submit(Submission),
    Cancel(String),
    Delete(Handle),
}

/// A world that several adapters drive, one after the other.
#[derive(Clone)]
pub(super) struct Pretend(Arc<Mutex<World>>);

impl Pretend {
    /// Nodes with `cores` cores each, at time zero.
    pub(super) fn new(nodes: usize, cores: u32) -> Pretend {
        let node = |number: usize| Node {
            name: format!("n{number}"),
            cores,
            usable: true,
            resources: vec![crate::cpu()],
        };
        Pretend(Arc::new(Mutex::new(World {
            clock: 0,
            nodes: (0..nodes).map(node).collect(),
            reservations: Vec::new(),
            jobs: Vec::new(),
            runs: BTreeMap::new(),
            faults: VecDeque::new(),
            late: Vec::new(),
            log: Vec::new(),
            history: Vec::new(),
            projects: Vec::new(),
            looks: 0,
            made: BTreeSet::new(),
            one_at_a_time: true,
            claims: BTreeMap::new(),
            kill_wait: 0,
            dying: BTreeMap::new(),
            changes: true,
            moves_jobs: false,
            step: 1,
            longest_name: 200,
            deaf: false,
            accounting: BTreeMap::new(),
            unreadable: Vec::new(),
            freed_within: 0,
            sharing: Sharing::Always,
            tres: Default::default(),
            next: 0,
        })))
    }

    /// Access for checks and for manual changes.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }
}

impl World {
    /// Advances the time: reservations end with their jobs, jobs end and start.
    pub(super) fn pass(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.clock += 1;
            self.end_what_is_due();
            self.start_what_can();
        }
    }

    /// Executes delayed commands.
    pub(super) fn settle(&mut self) {
        for late in std::mem::take(&mut self.late) {
            let _ = match late {
                Late::Create(wanted) => self.make(&wanted, 0).map(drop),
                Late::Submit(job) => self.enqueue(&job).map(drop),
                Late::Cancel(native) => {
                    self.kill(&native, FactState::Cancelled);
                    Ok(())
                }
                Late::Delete(handle) => {
                    self.drop_reservation(&handle);
                    Ok(())
                }
            };
        }
    }

    /// Another user reserves whole nodes, over existing reservations.
    pub(super) fn reserve_foreign(&mut self, name: &str, nodes: &[usize], begin: i64, end: i64) {
        let cores = nodes.iter().map(|at| (self.nodes[*at].name.clone(), self.nodes[*at].cores)).collect();
        self.add_foreign(name, cores, begin, end);
    }

    /// Another user reserves cores.
    pub(super) fn add_foreign(&mut self, name: &str, cores: BTreeMap<String, u32>, begin: i64, end: i64) {
        let handle = Handle(format!("foreign-{name}"));
        let interval = Interval::new(Time(begin), Time(end));
        let accounts = vec!["eve".into()];
        self.reservations.push(Reserved {
            handle,
            name: name.into(),
            interval,
            cores,
            spread: true,
            accounts,
            maintenance: name.starts_with("maint-"),
        });
    }

    /// A job of another user.
    pub(super) fn add_job(
        &mut self,
        native: &str,
        state: FactState,
        placed: &[(&str, u32)],
        limit: Option<i64>,
    ) {
        let placed: BTreeMap<String, u32> =
            placed.iter().map(|(node, cores)| ((*node).into(), *cores)).collect();
        let started = (state == FactState::Running).then_some(Time(self.clock));
        self.jobs.push(JobFact {
            restarts: 0,
            native: native.into(),
            name: "another user's".into(),
            account: "eve".into(),
            resources: vec![crate::cpu()],
            state,
            cores: placed.values().sum(),
            nodes: placed.len() as u32,
            placed,
            submitted: Time(self.clock),
            eligible: None,
            started,
            ended: None,
            limit: limit.map(Seconds),
            reservations: Vec::new(),
            expected_start: None,
            awaits_go: false,
        });
    }

    /// Reservations with our names.
    pub(super) fn ours(&self) -> Vec<&Reserved> {
        let ours = |reserved: &&Reserved| !reserved.handle.0.starts_with("foreign");
        self.reservations.iter().filter(ours).collect()
    }

    /// Jobs that wait or run.
    pub(super) fn live(&self) -> Vec<&JobFact> {
        self.jobs.iter().filter(|job| !job.state.is_over()).collect()
    }

    fn end_what_is_due(&mut self) {
        let now = Time(self.clock);
        let (over, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.reservations)
            .into_iter()
            .partition(|reserved| reserved.interval.end <= now);
        self.reservations = left;
        for reserved in over {
            self.orphan(&reserved.handle, &FactState::OutOfTime);
        }
        let due: Vec<(String, FactState)> = self.jobs.iter().filter_map(|job| self.due(job)).collect();
        due.into_iter().for_each(|(native, state)| self.kill(&native, state));
    }

    fn due(&self, job: &JobFact) -> Option<(String, FactState)> {
        let ran = (Time(self.clock) - job.started.filter(|_| job.state == FactState::Running)?).0;
        let limit = job.limit.map_or(i64::MAX, |limit| limit.0);
        let claim = self.claims.get(&job.native);
        if let Some(until) = self.dying.get(&job.native) {
            return (*until <= self.clock).then(|| (job.native.clone(), FactState::Cancelled));
        }
        if claim.is_some_and(|(within, went)| went.is_none() && *within <= ran) {
            return Some((job.native.clone(), FactState::Done { exit: NO_GO }));
        }
        let worked = match claim {
            None => Some(ran),
            Some((_, went)) => went.map(|went| self.clock - went),
        };
        if self.runs.get(&job.native).zip(worked).is_some_and(|(run, worked)| *run <= worked) {
            return Some((job.native.clone(), FactState::Done { exit: 0 }));
        }
        (limit <= ran).then(|| (job.native.clone(), FactState::OutOfTime))
    }

    /// Jobs of a deleted reservation: running ones end, waiting ones wait forever.
    fn orphan(&mut self, handle: &Handle, ended: &FactState) {
        let now = Time(self.clock);
        for job in
            self.jobs.iter_mut().filter(|job| !job.state.is_over() && job.reservations.contains(handle))
        {
            job.reservations.retain(|other| other != handle);
            if !job.reservations.is_empty() {
                continue;
            }
            if job.state == FactState::Running && self.kill_wait > 0 {
                self.dying.entry(job.native.clone()).or_insert(self.clock + self.kill_wait);
            } else if job.state == FactState::Running {
                (job.state, job.ended) = (ended.clone(), Some(now));
            } else {
                job.state = FactState::Held { why: "its reservation is gone".into(), orphaned: true };
            }
        }
    }

    fn kill(&mut self, native: &str, state: FactState) {
        let now = Time(self.clock);
        let job = self.jobs.iter_mut().find(|job| job.native == native && !job.state.is_over());
        if let Some(job) = job {
            (job.state, job.ended) = (state, Some(now));
        }
    }

    fn drop_reservation(&mut self, handle: &Handle) {
        let natives: Vec<String> = self
            .live()
            .into_iter()
            .filter(|job| job.reservations.contains(handle))
            .map(|job| job.native.clone())
            .collect();
        natives.iter().for_each(|native| self.kill(native, FactState::Cancelled));
        self.reservations.retain(|reserved| reserved.handle != *handle);
    }

    fn start_what_can(&mut self) {
        for at in 0..self.jobs.len() {
            if self.jobs[at].state != FactState::Waiting || !self.runs.contains_key(&self.jobs[at].native) {
                continue;
            }
            if let Some(placed) = self.room_for(&self.jobs[at]) {
                let job = &mut self.jobs[at];
                (job.state, job.started, job.placed) = (FactState::Running, Some(Time(self.clock)), placed);
            }
        }
    }

    fn room_for(&self, job: &JobFact) -> Option<BTreeMap<String, u32>> {
        let now = Time(self.clock);
        if job.reservations.is_empty() {
            let interval = Interval::new(now, now + job.limit.unwrap());
            return self.placed(interval, job.cores, None);
        }
        let active = |reserved: &&Reserved| {
            job.reservations.contains(&reserved.handle) && reserved.interval.contains(now)
        };
        let reserved = self.reservations.iter().find(active)?;
        let free = reserved.cores.iter().map(|(node, cores)| {
            let guests =
                self.live().into_iter().filter(|other| other.reservations.contains(&reserved.handle));
            let used: u32 = guests.filter_map(|other| other.placed.get(node)).sum();
            (node.clone(), cores.saturating_sub(used))
        });
        spread(free, job.cores)
    }

    /// Nodes on which this many cores are free all the time.
    fn placed(
        &self,
        interval: Interval,
        cores: u32,
        except: Option<&Handle>,
    ) -> Option<BTreeMap<String, u32>> {
        let usable = self.nodes.iter().filter(|node| node.usable);
        let free = usable.map(|node| (node.name.clone(), self.free(node, interval, except)));
        spread(free, cores)
    }

    fn free(&self, node: &Node, interval: Interval, except: Option<&Handle>) -> u32 {
        let others = || self.reservations.iter().filter(|other| Some(&other.handle) != except);
        let begins = others().map(|other| other.interval.begin).filter(|begin| interval.contains(*begin));
        let taken = |at: Time| {
            let reserved = others().filter(|other| other.interval.contains(at));
            let reserved: u32 = reserved.filter_map(|other| other.cores.get(&node.name)).sum();
            // A job whose reservation has moved may run on nodes outside of it.
            let inside = |job: &JobFact| {
                let mut named = others().filter(|other| job.reservations.contains(&other.handle));
                let old = except.is_some_and(|except| job.reservations.contains(except));
                old || named.any(|other| other.cores.contains_key(&node.name))
            };
            let running = self.jobs.iter().filter(|job| {
                let end = job.limit.map_or(Time::MAX, |limit| job.started.unwrap_or(at) + limit);
                job.state == FactState::Running && !inside(job) && end > at
            });
            reserved + running.filter_map(|job| job.placed.get(&node.name)).sum::<u32>()
        };
        let most = begins.chain([interval.begin]).map(taken).max().unwrap();
        node.cores.saturating_sub(most)
    }

    fn make(&mut self, wanted: &Wanted, missing: u32) -> Result<Reserved, LrmsError> {
        if self.reservations.iter().any(|reserved| reserved.name == wanted.name) {
            return Err(refused("there is one of this name"));
        }
        let interval = self.interval(wanted)?;
        let cores = self.chosen(wanted, interval, missing, None)?;
        self.next += 1;
        let handle = Handle(format!("r{}", self.next));
        let (name, accounts) = (wanted.name.clone(), wanted.accounts().cloned().collect());
        self.projects.push(wanted.project.clone());
        let reserved = Reserved { handle, name, interval, cores, spread: true, accounts, maintenance: false };
        self.reservations.push(reserved.clone());
        Ok(reserved)
    }

    fn chosen(
        &self,
        wanted: &Wanted,
        interval: Interval,
        missing: u32,
        except: Option<&Handle>,
    ) -> Result<BTreeMap<String, u32>, LrmsError> {
        let busy = || refused("requested nodes are busy");
        if !wanted.nodes.is_empty() {
            let named = |node: &&Node| wanted.nodes.iter().any(|(name, _)| *name == node.name);
            let mut nodes = self.nodes.iter().filter(named);
            let free = nodes.all(|node| node.usable && self.free(node, interval, except) == node.cores);
            return free.then(|| wanted.nodes.iter().cloned().collect()).ok_or_else(busy);
        }
        if wanted.place.unit == Unit::Cores {
            return self.placed(interval, wanted.amount - missing, except).ok_or_else(busy);
        }
        let usable = self.nodes.iter().filter(|node| node.usable);
        let whole = usable.filter(|node| self.free(node, interval, except) == node.cores);
        let whole: BTreeMap<String, u32> = whole
            .take((wanted.amount - missing) as usize)
            .map(|node| (node.name.clone(), node.cores))
            .collect();
        (whole.len() as u32 == wanted.amount - missing).then_some(whole).ok_or_else(busy)
    }

    fn interval(&self, wanted: &Wanted) -> Result<Interval, LrmsError> {
        let Interval { begin, end } = wanted.interval;
        assert_eq!((begin.0 % self.step, end.0 % self.step), (0, 0), "times must be whole steps");
        if end <= Time(self.clock) {
            return Err(refused("invalid time specified"));
        }
        Ok(Interval::new(begin.max(Time(self.clock)), end))
    }

    fn enqueue(&mut self, job: &Submission) -> Result<String, LrmsError> {
        let there = |handle: &Handle| self.reservations.iter().any(|reserved| reserved.handle == *handle);
        if !job.reservations.iter().all(there) {
            return Err(refused("requested reservation is invalid"));
        }
        self.next += 1;
        let native = self.next.to_string();
        let Work::Pretended { run } = job.work else { return Err(refused("only pretended jobs")) };
        self.runs.insert(native.clone(), run.0);
        self.projects.push(job.project.clone());
        let held = FactState::Held { why: "JobHeldUser".into(), orphaned: false };
        self.jobs.push(JobFact {
            restarts: 0,
            native: native.clone(),
            name: job.name.clone(),
            account: job.account.clone().unwrap_or_else(|| "service".into()),
            resources: vec![job.place.resource.clone()],
            state: if job.held { held } else { FactState::Waiting },
            cores: job.amount,
            nodes: 1,
            placed: BTreeMap::new(),
            submitted: Time(self.clock),
            eligible: None,
            started: None,
            ended: None,
            limit: Some(job.limit),
            reservations: job.reservations.clone(),
            expected_start: None,
            awaits_go: job.go_within.is_some(),
        });
        self.claims.extend(job.go_within.map(|within| (native.clone(), (within.0, None))));
        Ok(native)
    }

    /// Intervals and amounts of our reservations, in order.
    pub(super) fn terms(&self) -> Vec<(i64, i64, u32)> {
        let terms = |one: &&Reserved| (one.interval.begin.0, one.interval.end.0, one.cores.values().sum());
        let mut ours: Vec<_> = self.ours().iter().map(terms).collect();
        ours.sort_unstable();
        ours
    }

    /// The fault of this command, which is logged.
    fn fault(&mut self, command: String) -> Result<Fault, LrmsError> {
        self.log.push(command);
        self.history.push(self.terms());
        if self.deaf {
            return Err(silent());
        }
        match self.faults.pop_front().unwrap_or(Fault::None) {
            Fault::SilentBefore => Err(silent()),
            Fault::Refuse => Err(refused("because it was ordered")),
            fault => Ok(fault),
        }
    }
}

/// Takes cores from the first nodes that have some.
fn spread(free: impl Iterator<Item = (String, u32)>, cores: u32) -> Option<BTreeMap<String, u32>> {
    let (mut left, mut chosen) = (cores, BTreeMap::new());
    for (node, free) in free {
        let share = free.min(left);
        if share > 0 {
            chosen.insert(node, share);
            left -= share;
        }
    }
    (left == 0).then_some(chosen)
}

fn refused(said: &str) -> LrmsError {
    LrmsError::Refused { what: "it".into(), said: said.into() }
}

fn silent() -> LrmsError {
    LrmsError::Silent { what: "the pretended one".into(), after: Duration::from_secs(1), said: None }
}
