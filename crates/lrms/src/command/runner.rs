//! Where commands run, and all that holds for each of them: checks, admission, a place among those that run at once, the
//! run itself, and what its end says of the batch system.

use super::local::{self, Alive, Stop};
use super::outage::{self, Admission, Outage, Outside, Slot, Slots};
use super::ssh::Ssh;
use super::transport::{Counters, Transport, Usage};
use super::{Command, Outcome};
use crate::error::LrmsError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

/// Default number of commands at once. Making a reservation takes two commands, and a busy controller may take three seconds
/// for each: with eight at once, fifty reservations are made in forty seconds. More would crowd out other users.
pub const MOST_AT_ONCE: usize = 8;

/// Slots for the commands of looks, so that looks and orders do not wait for each other. No dialect runs more than four
/// commands of a look at once.
const LOOKS_AT_ONCE: usize = 4;

/// No command takes longer, whatever was said.
const LONGEST_TIME_OUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Where commands run, and within what time. Clones share how many run at once, whether there is silence and what ends it,
/// and what was used.
#[derive(Debug, Clone)]
pub struct Runner {
    transport: Transport,
    /// Whether it runs commands of looks.
    looks: bool,
    shared: Arc<Shared>,
    /// Of the thread that probes: it ends when the last clone is gone.
    probing: Arc<Mutex<Option<Alive>>>,
}

#[derive(Debug)]
struct Shared {
    orders: Slots,
    looks: Slots,
    outage: Outage,
    counters: Counters,
}

impl Runner {
    /// On this machine. A command has our environment, except for variables that begin with `BOOKAHEAD_`.
    pub fn local(time_out: Duration) -> Runner {
        Runner::by(None, time_out)
    }

    /// On another machine, in the environment that it gives. See [`Ssh`] for what it has to have. A command that takes too
    /// long is given up here at once, and ended there by itself some seconds later; if the connection is lost it may go
    /// on until then, too.
    pub fn ssh(ssh: Ssh, time_out: Duration) -> Result<Runner, LrmsError> {
        ssh.check()?;
        Ok(Runner::by(Some(Arc::new(ssh)), time_out))
    }

    fn by(ssh: Option<Arc<Ssh>>, time_out: Duration) -> Runner {
        let (orders, looks) = (Slots::new(MOST_AT_ONCE), Slots::new(LOOKS_AT_ONCE));
        let (outage, counters) = (Outage::default(), Counters::default());
        Runner {
            transport: Transport {
                time_out: time_out.min(LONGEST_TIME_OUT),
                ssh,
                prefix: Vec::new(),
                environment: BTreeMap::new(),
            },
            looks: false,
            shared: Arc::new(Shared { orders, looks, outage, counters }),
            probing: Arc::default(),
        }
    }

    /// With a prefix for commands that run as another account: `{user}` in it stands for the account, as in
    /// `["sudo", "-n", "-u", "{user}", "--"]` or `["runuser", "-u", "{user}", "--"]`. Behind it `timeout` is run, which
    /// runs `env`, which runs the command; sudo has to allow that. The account does not get our environment.
    pub fn becoming(mut self, prefix: Vec<String>) -> Runner {
        self.transport.prefix = prefix;
        self
    }

    /// With variables that every command finds in its environment, unless it says otherwise.
    pub fn with_environment(mut self, environment: BTreeMap<String, String>) -> Runner {
        self.transport.environment = environment;
        self
    }

    /// With at most `most` commands at once over all clones, and at least one; the default is [`MOST_AT_ONCE`]. Looks have slots of
    /// their own: `most` of them, but no more than four.
    pub fn at_most(self, most: usize) -> Runner {
        self.shared.orders.set_most(most);
        self.shared.looks.set_most(most.min(LOOKS_AT_ONCE));
        self
    }

    /// A clone that runs its commands in the slots of looks.
    pub(crate) fn for_looks(&self) -> Runner {
        Runner { looks: true, ..self.clone() }
    }

    /// A clone whose commands may take this much longer: they wait for something on purpose.
    pub(crate) fn patient(&self, longer: Duration) -> Runner {
        let mut patient = self.clone();
        patient.transport.time_out = patient.transport.time_out.saturating_add(longer).min(LONGEST_TIME_OUT);
        patient
    }

    fn slots(&self) -> &Slots {
        if self.looks { &self.shared.looks } else { &self.shared.orders }
    }

    /// With a command that exits with 0 if and only if the batch system answers, such as `scontrol ping`. In times of
    /// silence it is tried every second, and less often when silence lasts.
    pub fn with_probe(self, probe: Command) -> Runner {
        self.shared.outage.set_probe(probe);
        self
    }

    /// Runs a command and waits for its end, whatever its exit code. One that takes too long is ended, and it is not known
    /// what came of it: [`LrmsError::Silent`]. From then on there is silence, as when a machine cannot be reached
    /// ([`LrmsError::Unreachable`]): commands are not run but fail at once with [`LrmsError::Silent`], until the
    /// probe has succeeded; without a probe, until a command has been answered that was let through after five seconds.
    /// Where too many run already it waits for its turn, for as long as it may take to run and no longer.
    pub fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let command = &*self.transport.complete(command);
        let prepared = self.transport.prepare(command)?;
        let is_trial = match self.shared.outage.admit(Instant::now()) {
            Admission::Free => false,
            Admission::Trial => true,
            Admission::Refused(silent_for) => return Err(not_run(command, silent_for)),
        };
        let pass = self.enter(command, is_trial)?;
        let asked = Instant::now();
        let result = self.transport.run(command, &prepared, &self.shared.counters, None);
        self.learn(&result, asked, is_trial);
        // Only now: whoever takes this place should know what was learnt.
        drop(pass);
        result
    }

    fn enter(&self, command: &Command, is_trial: bool) -> Result<Slot<'_>, LrmsError> {
        let gives_up = || !is_trial && self.silent_since().is_some();
        self.slots().enter(Instant::now() + self.transport.time_out, gives_up).map_err(|outside| {
            if is_trial {
                self.shared.outage.not_tried();
            }
            match outside {
                Outside::GaveUp => not_run(command, self.silent_for()),
                Outside::Full => too_many(command, self.transport.time_out),
            }
        })
    }

    /// Runs commands side by side, as many as may run at once, and answers what came of each, in their order.
    pub fn run_all(&self, commands: &[Command]) -> Vec<Result<Outcome, LrmsError>> {
        let (next, results) = (AtomicUsize::new(0), Vec::from_iter(commands.iter().map(|_| OnceLock::new())));
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((command, result)) = commands.get(number).zip(results.get(number)) else { return };
                let _first = result.set(self.run(command));
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.slots().most().min(commands.len()) {
                // Where there are no more threads to be had, those that are here do it all.
                let _handle = thread::Builder::new().name("lrms-commands".into()).spawn_scoped(scope, work);
            }
            work();
        });
        let results = results.into_iter().zip(commands);
        results.map(|(result, command)| result.into_inner().unwrap_or_else(|| self.run(command))).collect()
    }

    /// What was run until now, by all clones.
    pub fn usage(&self) -> Usage {
        self.shared.counters.usage()
    }

    /// Since when there is silence; None where answers are to be expected.
    pub fn silent_since(&self) -> Option<Instant> {
        self.shared.outage.since()
    }

    /// There is silence, as somebody knows from what a command said. It ends as any other.
    pub fn note_silence(&self) {
        let now = Instant::now();
        self.note(now, now, false);
    }

    fn silent_for(&self) -> Duration {
        self.silent_since().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// What the end of a command says of the batch system.
    fn learn(&self, result: &Result<Outcome, LrmsError>, asked: Instant, is_trial: bool) {
        match result {
            Err(LrmsError::Silent { .. } | LrmsError::Unreachable { .. }) => {
                self.note(asked, Instant::now(), is_trial);
            }
            Err(_) if is_trial => self.shared.outage.not_tried(),
            Ok(_) if is_trial => self.shared.outage.is_over(Instant::now()),
            _ => {}
        }
    }

    fn note(&self, asked: Instant, now: Instant, was_trial: bool) {
        let probe = self.shared.outage.note(asked, now, was_trial);
        self.shared.orders.look_again();
        self.shared.looks.look_again();
        if let Some(probe) = probe
            && self.start_probing(probe).is_err()
        {
            self.shared.outage.not_tried();
        }
    }

    /// Starts the thread that probes until there is an answer, or the last clone of this is gone.
    fn start_probing(&self, probe: Command) -> io::Result<()> {
        let (stop, alive) = local::stop()?;
        let (transport, shared) = (self.transport.clone(), self.shared.clone());
        let probing = move || shared.probe(&transport, &probe, &stop);
        thread::Builder::new().name("lrms-probe".into()).spawn(probing)?;
        *self.probing.lock().unwrap_or_else(PoisonError::into_inner) = Some(alive);
        Ok(())
    }
}

impl Shared {
    /// A probe needs no place among those that run at once: all of them may wait for what it finds out.
    fn probe(&self, transport: &Transport, probe: &Command, stop: &Stop) {
        while let Some(since) = self.outage.since() {
            if stop.within(outage::pause(since.elapsed())) {
                return;
            }
            let probe = &*transport.complete(probe);
            let tried =
                transport.prepare(probe).and_then(|it| transport.run(probe, &it, &self.counters, Some(stop)));
            if tried.is_ok_and(|outcome| outcome.is_success()) {
                self.outage.is_over(Instant::now());
            }
        }
    }
}

fn not_run(command: &Command, silent_for: Duration) -> LrmsError {
    let said = format!("was not run: nothing is heard of the batch system, since {} s", silent_for.as_secs());
    LrmsError::Silent { what: command.program.clone(), after: silent_for, said: Some(said) }
}

fn too_many(command: &Command, waited: Duration) -> LrmsError {
    let what = format!("{} was not run: those that run already", command.program);
    LrmsError::Silent { what, after: waited, said: None }
}
