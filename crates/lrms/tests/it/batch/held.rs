//! A simulated batch system whose commands can be held: a caller waits until the command is released. On request it
//! chooses nodes by the picture.

use super::pretend::Pretend;
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{
    BatchSystem, Finding, Handle, JobFact, JobSystem, Picture, ReservationSystem, Reserved, Share,
    Submission, Traits, Unit, Wanted,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Clone)]
pub(super) struct Held {
    pub(super) pretend: Pretend,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Default)]
struct Gate {
    holds: BTreeSet<&'static str>,
    inside: Vec<&'static str>,
    chooses: bool,
    chosen: Vec<Vec<Share>>,
}

impl Held {
    pub(super) fn new(nodes: usize, cores: u32) -> Held {
        let pretend = Pretend::new(nodes, cores);
        pretend.world().one_at_a_time = false;
        Held { pretend, gate: Arc::default() }
    }

    pub(super) fn chooses(self) -> Held {
        self.gate().chooses = true;
        self
    }

    /// Callers of this command wait from now on. (A look waits before it reads anything, or, as `looked`, after.)
    pub(super) fn hold(&self, command: &'static str) {
        self.gate().holds.insert(command);
    }

    pub(super) fn let_go(&self) {
        self.gate().holds.clear();
        self.gate.1.notify_all();
    }

    /// Waits until this many such commands are held.
    #[track_caller]
    pub(super) fn until_held(&self, command: &'static str, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut gate = self.gate();
        while gate.inside.iter().filter(|held| **held == command).count() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never: {count} of {command} are held; {:?}", gate.inside);
            gate = self.gate.1.wait_timeout(gate, left).unwrap().0;
        }
    }

    pub(super) fn held(&self) -> Vec<&'static str> {
        self.gate().inside.clone()
    }

    pub(super) fn unit(&self) -> Unit {
        if self.gate().chooses { Unit::Nodes } else { Unit::Cores }
    }

    pub(super) fn chosen(&self) -> Vec<Vec<Share>> {
        self.gate().chosen.clone()
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.0.lock().unwrap()
    }

    fn enter(&self, command: &'static str) {
        let mut gate = self.gate();
        gate.inside.push(command);
        self.gate.1.notify_all();
        while gate.holds.contains(command) {
            gate = self.gate.1.wait(gate).unwrap();
        }
        let at = gate.inside.iter().position(|held| *held == command).unwrap();
        gate.inside.remove(at);
    }
}

impl BatchSystem for Held {
    fn traits(&self) -> Traits {
        self.pretend.traits()
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        self.enter("look");
        let picture = self.pretend.look();
        self.enter("looked");
        picture
    }

    fn examine(&self) -> Vec<Finding> {
        self.pretend.examine()
    }
}

impl ReservationSystem for Held {
    /// Nodes that are free all the time.
    fn choose(&self, wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, LrmsError> {
        if !self.gate().chooses {
            return Ok(Vec::new());
        }
        let meets = |one: &&Reserved| {
            one.interval.begin < wanted.interval.end && wanted.interval.begin < one.interval.end
        };
        let taken: BTreeSet<&String> =
            picture.reservations.iter().filter(meets).flat_map(|one| one.cores.keys()).collect();
        let free = picture.nodes.iter().filter(|node| !taken.contains(&node.name));
        let chosen: Vec<Share> =
            free.map(|node| (node.name.clone(), node.cores)).take(wanted.amount as usize).collect();
        if chosen.len() < wanted.amount as usize {
            let said = "no nodes are free".into();
            return Err(LrmsError::Refused { what: "it".into(), said });
        }
        Ok(chosen)
    }

    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        self.gate().chosen.push(wanted.nodes.clone());
        self.enter("create");
        self.pretend.create(wanted, picture)
    }

    fn change(
        &self,
        handle: &Handle,
        wanted: &Wanted,
        picture: &Picture,
    ) -> Result<Option<Reserved>, LrmsError> {
        self.enter("change");
        self.pretend.change(handle, wanted, picture)
    }

    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        self.enter("delete");
        self.pretend.delete(handle)
    }
}

impl JobSystem for Held {
    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        let submitted = self.pretend.submit(job);
        self.enter("submit");
        submitted
    }

    fn release(&self, native: &str) -> Result<(), LrmsError> {
        self.pretend.release(native)
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        self.pretend.go(native)
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        let ended = self.pretend.cancel(native);
        self.enter("cancel");
        ended
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        self.pretend.outcome(native)
    }
}
