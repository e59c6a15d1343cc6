//! Commands of the simulated batch system, each of which can fail on request.

use super::{Fault, Late, Pretend, refused, silent};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{
    BatchSystem, FactState, Finding, Handle, JobFact, JobSystem, Picture, ReservationSystem, Reserved,
    Submission, Traits, Wanted,
};
use bookahead_plan::{Seconds, Time};

impl BatchSystem for Pretend {
    fn traits(&self) -> Traits {
        let world = self.world();
        Traits {
            requeues_jobs: true,
            smallest_step: Seconds(world.step),
            longest_name: world.longest_name,
            moves_jobs: world.moves_jobs,
            freed_within: Seconds(world.freed_within),
            sharing: world.sharing,
            tres: true,
            attracts: false,
        }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let mut world = self.world();
        world.looks += 1;
        if world.deaf {
            return Err(silent());
        }
        Ok(Picture {
            clock_elsewhere: false,
            clock: Some(Time(world.clock)),
            nodes: world.nodes.clone(),
            reservations: world.reservations.clone(),
            jobs: world.jobs.clone(),
            unreadable: world.unreadable.clone(),
            tres: world.tres.clone(),
        })
    }

    fn examine(&self) -> Vec<Finding> {
        vec![Finding::well("the pretended one", "is there")]
    }
}

impl ReservationSystem for Pretend {
    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        let mut world = self.world();
        let there = world.reservations.iter().filter(|one| world.made.contains(&one.handle));
        for one in there.filter(|_| world.one_at_a_time) {
            assert!(picture.reservations.contains(one), "{one:?} is not in {:?}", picture.reservations);
        }
        assert_eq!(picture.nodes.len(), world.nodes.len());
        match world.fault(format!("create {}", wanted.name))? {
            Fault::SilentLate => {
                world.late.push(Late::Create(wanted.clone()));
                Err(silent())
            }
            Fault::Short if wanted.amount > 1 => world.make(wanted, 1),
            fault => {
                let made = world.make(wanted, 0);
                if fault == Fault::SilentAfter {
                    return Err(silent());
                }
                world.made.extend(made.iter().map(|made| made.handle.clone()));
                made
            }
        }
    }

    fn change(
        &self,
        handle: &Handle,
        wanted: &Wanted,
        _picture: &Picture,
    ) -> Result<Option<Reserved>, LrmsError> {
        let mut world = self.world();
        if !world.changes {
            return Ok(None);
        }
        let fault = world.fault(format!("change {}", wanted.name))?;
        let interval = world.interval(wanted)?;
        let cores = world.chosen(wanted, interval, 0, Some(handle))?;
        let reserved = world.reservations.iter_mut().find(|reserved| reserved.handle == *handle);
        let Some(reserved) = reserved else { return Err(refused("no such reservation")) };
        assert_eq!(reserved.name, wanted.name, "a reservation keeps its name");
        (reserved.interval, reserved.cores) = (interval, cores);
        let reserved = reserved.clone();
        match fault {
            Fault::SilentAfter | Fault::SilentLate => {
                world.made.remove(handle);
                Err(silent())
            }
            _ => Ok(Some(reserved)),
        }
    }

    fn share(&self, handle: &Handle, accounts: &[String]) -> Result<(), LrmsError> {
        let mut world = self.world();
        world.fault(format!("share {handle} with {}", accounts.join(",")))?;
        let found = world.reservations.iter_mut().find(|reserved| reserved.handle == *handle);
        found.ok_or_else(|| refused("no such reservation"))?.accounts = accounts.to_vec();
        Ok(())
    }

    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        let mut world = self.world();
        match world.fault(format!("delete {handle}"))? {
            Fault::SilentLate => {
                world.late.push(Late::Delete(handle.clone()));
                Err(silent())
            }
            fault => {
                world.drop_reservation(handle);
                if fault == Fault::SilentAfter { Err(silent()) } else { Ok(()) }
            }
        }
    }

    fn move_jobs(&self, from: &Handle, to: &Handle) -> Result<(), LrmsError> {
        let mut world = self.world();
        assert!(world.moves_jobs, "it says that it cannot");
        let fault = world.fault(format!("move {from} {to}"))?;
        let live = world.jobs.iter_mut().filter(|job| !job.state.is_over());
        let named = live.flat_map(|job| &mut job.reservations).filter(|handle| *handle == from);
        named.for_each(|handle| handle.clone_from(to));
        match fault {
            Fault::SilentAfter | Fault::SilentLate => Err(silent()),
            _ => Ok(()),
        }
    }
}

impl JobSystem for Pretend {
    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        let mut world = self.world();
        match world.fault(format!("submit {}", job.name))? {
            Fault::SilentLate => {
                world.late.push(Late::Submit(job.clone()));
                Err(silent())
            }
            fault => {
                let native = world.enqueue(job);
                if fault == Fault::SilentAfter { Err(silent()) } else { native }
            }
        }
    }

    fn bind(&self, native: &str, handles: &[Handle]) -> Result<(), LrmsError> {
        let mut world = self.world();
        let fault = world.fault(format!("bind {native}"))?;
        let job = world.jobs.iter_mut().find(|job| job.native == native && !job.state.is_over());
        let Some(job) = job else { return Err(refused("it is over")) };
        job.reservations = handles.to_vec();
        if fault == Fault::SilentAfter { Err(silent()) } else { Ok(()) }
    }

    fn release(&self, native: &str) -> Result<(), LrmsError> {
        let mut world = self.world();
        let fault = world.fault(format!("release {native}"))?;
        let job = world.jobs.iter_mut().find(|job| job.native == native && !job.state.is_over());
        let Some(job) = job else { return Err(refused("it is over")) };
        if matches!(job.state, FactState::Held { .. }) {
            job.state = FactState::Waiting;
        }
        if fault == Fault::SilentAfter { Err(silent()) } else { Ok(()) }
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        let mut world = self.world();
        let fault = world.fault(format!("go {native}"))?;
        let clock = world.clock;
        let job = world.jobs.iter_mut().find(|job| job.native == native && !job.state.is_over());
        let Some(job) = job else { return Err(refused("it is over")) };
        job.awaits_go = false;
        world.claims.entry(native.into()).and_modify(|(_, went)| *went = Some(clock));
        if fault == Fault::SilentAfter { Err(silent()) } else { Ok(()) }
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        let mut world = self.world();
        match world.fault(format!("cancel {native}"))? {
            Fault::SilentLate => {
                world.late.push(Late::Cancel(native.into()));
                Err(silent())
            }
            fault => {
                let runs =
                    world.jobs.iter().any(|job| job.native == native && job.state == FactState::Running);
                if runs && world.kill_wait > 0 {
                    let over = world.clock + world.kill_wait;
                    world.dying.entry(native.into()).or_insert(over);
                } else {
                    world.kill(native, FactState::Cancelled);
                }
                if fault == Fault::SilentAfter { Err(silent()) } else { Ok(()) }
            }
        }
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        Ok(self.world().accounting.get(native).cloned())
    }
}
