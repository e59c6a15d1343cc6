//! Processes on Unix. All pipes are watched by the caller's thread; a second thread starts the process and waits for its
//! end.
//!
//! A process that is over stays in the list of processes until nobody will tell its group anything any more: so no
//! other process that was given its number is ever killed. It relies on the system to end what is killed; a process that
//! cannot even be killed is left to the second thread.

use super::{End, Limits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long it may take until a process that was killed is gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// A pipe that takes anything takes so much without waiting: `PIPE_BUF` is nowhere less (POSIX, `write`).
const WRITTEN_AT_ONCE: usize = 512;

/// So much is read at once: what a pipe has on Linux.
const READ_AT_ONCE: usize = 1 << 16;

/// As long as this is there [`Stop`] says nothing.
pub(in super::super) type Alive = PipeWriter;

/// Says that something should end, once its [`Alive`] is dropped.
#[derive(Debug)]
pub(in super::super) struct Stop(PipeReader);

pub(in super::super) fn stop() -> io::Result<(Stop, Alive)> {
    let (stop, alive) = io::pipe()?;
    Ok((Stop(stop), alive))
}

impl Stop {
    /// Waits so long; answers whether something should end.
    pub(in super::super) fn within(&self, time: Duration) -> bool {
        // Who cannot wait would do what it does without end and pause.
        says_something(&self.0, time).unwrap_or(true)
    }
}

/// Runs a process to its end. An error means that it was not started.
pub(in super::super) fn run(
    mut process: Command,
    input: Option<&str>,
    limits: Limits<'_>,
) -> io::Result<End> {
    process.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    process.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let (started, mut pipes) = Started::start(process)?;
    let early = match pipes.watch(input.unwrap_or_default().as_bytes(), &started.exited, limits) {
        Ok(None) => {
            return Ok(started.status().map_or_else(End::Unknown, |status| End::Exited {
                code: status.code(),
                out: text(pipes.out.bytes),
                err: text(pipes.err.bytes),
            }));
        }
        Ok(Some(end)) => end,
        Err(why) => End::Unknown(why),
    };
    started.kill();
    Ok(early)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
}

/// A process that runs, or is over and still in the list of processes.
struct Started {
    /// Its own number is that of its group.
    group: Option<Pid>,
    /// At its end when the process is over.
    exited: PipeReader,
    /// Dropped when nobody will tell the group anything.
    release: Sender<()>,
    waiter: JoinHandle<io::Result<ExitStatus>>,
}

impl Started {
    /// The second thread starts the process: where there can be no thread, there is no process to look after.
    fn start(process: Command) -> io::Result<(Started, Pipes)> {
        let (tell, told) = channel();
        let (release, released) = channel();
        let (exited, exit) = io::pipe()?;
        let wait = move || start_and_wait(process, tell, exit, &released);
        let waiter = Builder::new().name("lrms-command".into()).spawn(wait)?;
        match told.recv() {
            Ok((group, pipes)) => Ok((Started { group, exited, release, waiter }, pipes)),
            Err(_) => match waiter.join() {
                Ok(Err(why)) => Err(why),
                _ => Err(io::Error::other("the process was not started")),
            },
        }
    }

    /// How it ended; only where it has.
    fn status(self) -> io::Result<ExitStatus> {
        drop(self.release);
        self.waiter.join().unwrap_or_else(|_| Err(io::Error::other("nobody waited for the process")))
    }

    /// Kills all of the group. That some are gone, or not ours to kill, is no error.
    fn kill(self) {
        if let Some(group) = self.group {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        if says_something(&self.exited, PATIENCE).unwrap_or(false) {
            let _how = self.status();
        }
    }
}

/// What the second thread does.
fn start_and_wait(
    mut process: Command,
    tell: Sender<(Option<Pid>, Pipes)>,
    exit: PipeWriter,
    released: &Receiver<()>,
) -> io::Result<ExitStatus> {
    let mut child = process.spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pipes = Pipes {
        input: child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe))),
        out: Output::new("standard output", child.stdout.take().map(OwnedFd::from)),
        err: Output::new("standard error", child.stderr.take().map(OwnedFd::from)),
    };
    let _heard = tell.send((group, pipes));
    drop(tell);
    if let Some(process) = group {
        let over = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(process), over).is_err_and(|why| why == Errno::INTR) {}
    }
    drop(exit);
    let _released = released.recv();
    child.wait()
}

/// Our ends of the pipes of a process.
struct Pipes {
    input: Option<File>,
    out: Output,
    err: Output,
}

struct Output {
    name: &'static str,
    /// None when it is at its end.
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl Pipes {
    /// Writes and reads until the process is over (then None), or has to be ended for that reason.
    fn watch(
        &mut self,
        mut input: &[u8],
        exited: &PipeReader,
        limits: Limits<'_>,
    ) -> io::Result<Option<End>> {
        loop {
            if input.is_empty() {
                self.input = None;
            }
            let [is_over, stops, takes, out, err] = ready(
                [
                    Some((exited.as_fd(), PollFlags::IN)),
                    limits.stop.map(|stop| (stop.0.as_fd(), PollFlags::IN)),
                    self.input.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::OUT)),
                    self.out.watched(),
                    self.err.watched(),
                ],
                limits.until,
            )?;
            if takes {
                self.write(&mut input);
            }
            let outputs = [(out, &mut self.out), (err, &mut self.err)];
            for (_, output) in outputs.into_iter().filter(|(has_some, _)| *has_some) {
                output.read();
                if output.bytes.len() > limits.most_bytes {
                    return Ok(Some(End::TooMuch(output.name)));
                }
            }
            if is_over {
                return self.read_what_is_left(limits.most_bytes);
            }
            if stops {
                return Ok(Some(End::Stopped));
            }
            if Instant::now() >= limits.until {
                return Ok(Some(End::TimedOut));
            }
        }
    }

    /// A process that reads no more is given no more.
    fn write(&mut self, input: &mut &[u8]) {
        let some = &input[..input.len().min(WRITTEN_AT_ONCE)];
        match self.input.as_mut().map(|pipe| pipe.write(some)) {
            Some(Ok(written)) => *input = &input[written..],
            Some(Err(why)) if why.kind() == io::ErrorKind::Interrupted => {}
            _ => *input = &[],
        }
    }

    /// What a process wrote before it ended is in the pipes; their end may never come if others have them open.
    fn read_what_is_left(&mut self, most_bytes: usize) -> io::Result<Option<End>> {
        for output in [&mut self.out, &mut self.err] {
            while ready([output.watched()], Instant::now())? == [true] {
                output.read();
                if output.bytes.len() > most_bytes {
                    return Ok(Some(End::TooMuch(output.name)));
                }
            }
        }
        Ok(None)
    }
}

impl Output {
    fn new(name: &'static str, pipe: Option<OwnedFd>) -> Output {
        Output { name, pipe: pipe.map(File::from), bytes: Vec::new() }
    }

    fn watched(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN))
    }

    /// Reads once. Only for an output that is ready.
    fn read(&mut self) {
        let mut some = [0; READ_AT_ONCE];
        match self.pipe.as_mut().map(|pipe| pipe.read(&mut some)) {
            Some(Ok(read)) if read > 0 => self.bytes.extend_from_slice(&some[..read]),
            Some(Err(why)) if why.kind() == io::ErrorKind::Interrupted => {}
            _ => self.pipe = None,
        }
    }
}

/// Whether there is something to read, or its end, within this time.
fn says_something(pipe: &PipeReader, within: Duration) -> io::Result<bool> {
    let [something] = ready([Some((pipe.as_fd(), PollFlags::IN))], Instant::now() + within)?;
    Ok(something)
}

/// Waits until one of these is ready, or at its end, but not longer than until then; answers which are.
fn ready<const N: usize>(
    watched: [Option<(BorrowedFd<'_>, PollFlags)>; N],
    until: Instant,
) -> io::Result<[bool; N]> {
    let polled = watched.iter().flatten();
    let mut polled: Vec<PollFd<'_>> =
        polled.map(|(pipe, flags)| PollFd::from_borrowed_fd(*pipe, *flags)).collect();
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now()));
        match poll(&mut polled, Some(&left.unwrap_or_default())) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    let mut answers = polled.iter().map(|one| !one.revents().is_empty());
    Ok(watched.map(|one| one.is_some() && answers.next().unwrap_or(false)))
}
