//! Where commands run, and the steps of each run: validation, admission, a slot, the run, and the conclusion about
//! the state of the batch system.

use super::command_line::{Command, Outcome};
use super::local::{self, Alive, Stop};
use super::outage::{self, Admission, Outage, Outside, Slot, Slots};
use super::ssh::Ssh;
use super::transport::{Counters, Transport, Usage};
use crate::error::LrmsError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// Default limit of parallel commands. Creating a reservation takes two commands, and a busy controller may need
/// three seconds for each: eight in parallel create fifty reservations in forty seconds. More would crowd out other
/// users.
pub const MOST_AT_ONCE: usize = 8;

/// Slots for commands of looks. They are separate from those of orders, so that neither waits for the other. No
/// dialect runs more than four commands in one look in parallel.
const LOOKS_AT_ONCE: usize = 4;

/// Upper limit of every timeout, one day. A value without limit could overflow `Instant + timeout`.
const LONGEST_TIME_OUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Where commands run, and their timeout. Clones share the slots, the state of an outage, the probe and the usage
/// counters.
#[derive(Debug, Clone)]
pub struct Runner {
    transport: Transport,
    /// Whether it uses the slots of looks.
    looks: bool,
    permission: Permission,
    shared: Arc<Shared>,
    /// Keeps the probe thread alive; the thread ends when the last clone is dropped.
    probing: Arc<Mutex<Option<Alive>>>,
}

#[derive(Debug)]
struct Shared {
    orders: Slots,
    looks: Slots,
    outage: Outage,
    counters: Counters,
}

/// Whether a command with this timeout may start.
#[derive(Clone, Default)]
struct Permission(Option<Arc<dyn Fn(Duration) -> bool + Send + Sync>>);

impl Permission {
    fn allows(&self, timeout: Duration) -> bool {
        self.0.as_ref().is_none_or(|may_start| may_start(timeout))
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permission")
    }
}

impl Runner {
    /// Runs commands on this machine. They inherit the environment, except for variables that begin with
    /// `BOOKAHEAD_`.
    pub fn local(time_out: Duration) -> Runner {
        Runner::by(None, time_out)
    }

    /// Runs commands on another machine, in the environment it provides. See [`Ssh`] for its requirements. A command
    /// that exceeds the timeout is given up here at once, and `timeout` on that machine kills it a few seconds later;
    /// the same holds if the connection breaks.
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
            permission: Permission::default(),
            shared: Arc::new(Shared { orders, looks, outage, counters }),
            probing: Arc::default(),
        }
    }

    /// Sets the prefix for commands under another account. `{user}` stands for the account, as in `["sudo", "-n",
    /// "-u", "{user}", "--"]` or `["runuser", "-u", "{user}", "--"]`. The prefix runs `timeout`, which runs `env`,
    /// which runs the command; sudo must allow that. The account does not inherit the environment.
    pub fn becoming(mut self, prefix: Vec<String>) -> Runner {
        self.transport.prefix = prefix;
        self
    }

    /// Sets default environment variables for all commands. Variables of a command take precedence.
    pub fn with_environment(mut self, environment: BTreeMap<String, String>) -> Runner {
        self.transport.environment = environment;
        self
    }

    /// Limits parallel commands over all clones to `most` (at least 1); the default is [`MOST_AT_ONCE`]. Looks have
    /// their own slots: `most`, but at most four.
    pub fn at_most(self, most: usize) -> Runner {
        self.shared.orders.set_most(most);
        self.shared.looks.set_most(most.min(LOOKS_AT_ONCE));
        self
    }

    /// Asks before each command whether one with its timeout may still start. One that may not fails as if the batch
    /// system were silent.
    pub fn permitted_by(mut self, may_start: impl Fn(Duration) -> bool + Send + Sync + 'static) -> Runner {
        self.permission = Permission(Some(Arc::new(may_start)));
        self
    }

    /// A clone that uses the slots of looks.
    pub(crate) fn for_looks(&self) -> Runner {
        Runner { looks: true, ..self.clone() }
    }

    /// A clone with a longer timeout, for commands that wait for an event.
    pub(crate) fn patient(&self, longer: Duration) -> Runner {
        let mut patient = self.clone();
        patient.transport.time_out = patient.transport.time_out.saturating_add(longer).min(LONGEST_TIME_OUT);
        patient
    }

    fn slots(&self) -> &Slots {
        if self.looks { &self.shared.looks } else { &self.shared.orders }
    }

    /// Sets the probe: a command that exits with 0 if and only if the batch system answers, such as `scontrol ping`.
    /// During an outage it runs every second, and less often as the outage lasts.
    pub fn with_probe(self, probe: Command) -> Runner {
        self.shared.outage.set_probe(probe);
        self
    }

    /// Runs a command to its end, whatever its exit code. A command that exceeds the timeout is killed and may have
    /// taken effect: [`LrmsError::Silent`]. This begins an outage, as does a host that cannot be reached
    /// ([`LrmsError::Unreachable`]): commands then fail at once with [`LrmsError::Silent`], until the probe succeeds.
    /// Without a probe, a command is let through after five seconds as a trial. If all slots are in use, the command
    /// waits for one, at most one timeout.
    pub fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let command = &*self.transport.complete(command);
        let prepared = self.transport.prepare(command)?;
        let is_trial = match self.shared.outage.admit(Instant::now()) {
            Admission::Free => false,
            Admission::Trial => true,
            Admission::Refused(silent_for) => return Err(not_run(command, silent_for)),
        };
        let pass = self.enter(command, is_trial)?;
        if !self.permission.allows(self.transport.time_out) {
            if is_trial {
                self.shared.outage.not_tried();
            }
            return Err(not_run(command, Duration::ZERO));
        }
        let asked = Instant::now();
        let result = self.transport.run(command, &prepared, &self.shared.counters, None);
        self.learn(&result, asked, is_trial);
        // Free the slot only now: the next command to take it must see the new state of the outage.
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

    /// Runs commands in parallel, as many as there are slots, and returns their results in the same order.
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
                // If no thread can be started, the caller's thread runs them all.
                let _handle = thread::Builder::new().name("lrms-commands".into()).spawn_scoped(scope, work);
            }
            work();
        });
        let results = results.into_iter().zip(commands);
        results.map(|(result, command)| result.into_inner().unwrap_or_else(|| self.run(command))).collect()
    }

    /// Counters since the start, over all clones.
    pub fn usage(&self) -> Usage {
        self.shared.counters.usage()
    }

    /// Start of the present outage; None if there is none.
    pub fn silent_since(&self) -> Option<Instant> {
        self.shared.outage.since()
    }

    /// Begins an outage. For callers that recognise one from the output of a command.
    pub fn note_silence(&self) {
        let now = Instant::now();
        self.note(now, now, false);
    }

    fn silent_for(&self) -> Duration {
        self.silent_since().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn learn(&self, result: &Result<Outcome, LrmsError>, asked: Instant, is_trial: bool) {
        match result {
            Err(LrmsError::Silent { .. } | LrmsError::Unreachable { .. }) => {
                self.note(asked, Instant::now(), is_trial);
            }
            // The trial failed before it reached the batch system, which proves nothing either way.
            Err(_) if is_trial => self.shared.outage.not_tried(),
            Ok(_) if is_trial => self.shared.outage.is_over(Instant::now()),
            _ => {}
        }
    }

    fn note(&self, asked: Instant, now: Instant, was_trial: bool) {
        let probe = self.shared.outage.note(asked, now, was_trial);
        // Callers that wait for a slot must give up now, instead of timing out one after the other.
        self.shared.orders.look_again();
        self.shared.looks.look_again();
        if let Some(probe) = probe
            && self.start_probing(probe).is_err()
        {
            self.shared.outage.not_tried();
        }
    }

    /// Starts the thread that probes until there is an answer, or the last clone is dropped.
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
    /// A probe uses no slot: all slots may be waiting for its result.
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
    let said = format!("was not run: the batch system has not answered for {} s", silent_for.as_secs());
    LrmsError::Silent { what: command.program.clone(), after: silent_for, said: Some(said) }
}

fn too_many(command: &Command, waited: Duration) -> LrmsError {
    // Reads as: "x was not run: the commands already running did not answer within …".
    let what = format!("{} was not run: the commands already running", command.program);
    LrmsError::Silent { what, after: waited, said: None }
}
