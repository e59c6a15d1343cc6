//! Processes on Unix. The caller's thread watches all pipes; a second thread starts the process and waits for its
//! exit.
//!
//! An exited process is reaped only after the last signal to its group was sent. Until then its pid cannot be reused,
//! so no unrelated process is ever killed. A process that even SIGKILL does not end is left to the second thread.

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

/// How long to wait for the exit of a killed process. A process in uninterruptible sleep may take longer; it is then
/// left to its thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// A ready pipe accepts this much without blocking: `PIPE_BUF` is at least 512 bytes (POSIX, `write`).
const WRITTEN_AT_ONCE: usize = 512;

/// Default capacity of a pipe on Linux.
const READ_AT_ONCE: usize = 1 << 16;

/// [`Stop`] fires when this is dropped.
pub(in super::super) type Alive = PipeWriter;

/// Fires once its [`Alive`] is dropped. A pipe, as `poll` can wait for it together with the output of a process.
#[derive(Debug)]
pub(in super::super) struct Stop(PipeReader);

pub(in super::super) fn stop() -> io::Result<(Stop, Alive)> {
    let (stop, alive) = io::pipe()?;
    Ok((Stop(stop), alive))
}

impl Stop {
    /// Waits for at most `time`; returns whether to stop.
    pub(in super::super) fn within(&self, time: Duration) -> bool {
        // If waiting fails, stop: the caller would otherwise loop without a pause.
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
    // Its own process group, so that one signal reaches all its children.
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

/// A process that runs, or has exited and is not reaped yet.
struct Started {
    /// Process group id; equal to the pid.
    group: Option<Pid>,
    /// Reaches end of file when the process exits.
    exited: PipeReader,
    /// Dropped when no more signals will be sent to the group; then the process is reaped.
    release: Sender<()>,
    waiter: JoinHandle<io::Result<ExitStatus>>,
}

impl Started {
    /// The second thread starts the process: if no thread can be started, no process is left without a waiter.
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

    /// The exit status. Only for a process that has exited.
    fn status(self) -> io::Result<ExitStatus> {
        drop(self.release);
        self.waiter
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that waits for the process failed")))
    }

    /// Kills the whole group. It is not an error if some processes are gone or belong to another account.
    fn kill(self) {
        if let Some(group) = self.group {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        if says_something(&self.exited, PATIENCE).unwrap_or(false) {
            let _how = self.status();
        }
    }
}

/// Body of the second thread.
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
        // `NOWAIT` leaves the process unreaped, so its pid stays valid for signals.
        let over = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(process), over).is_err_and(|why| why == Errno::INTR) {}
    }
    // Tells the watcher that the process exited. It is reaped only after `released`.
    drop(exit);
    let _released = released.recv();
    child.wait()
}

struct Pipes {
    input: Option<File>,
    out: Output,
    err: Output,
}

struct Output {
    name: &'static str,
    /// None at end of file.
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl Pipes {
    /// Writes and reads until the process exits (None) or must be killed (the reason).
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

    /// Stops writing if the process closed its input.
    fn write(&mut self, input: &mut &[u8]) {
        let some = &input[..input.len().min(WRITTEN_AT_ONCE)];
        match self.input.as_mut().map(|pipe| pipe.write(some)) {
            Some(Ok(written)) => *input = &input[written..],
            Some(Err(why)) if why.kind() == io::ErrorKind::Interrupted => {}
            _ => *input = &[],
        }
    }

    /// The final output of a process is already in its pipes. End of file may never come, as children may hold them
    /// open.
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

    /// Reads once. Only for an output that is ready, as the pipe blocks.
    fn read(&mut self) {
        let mut some = [0; READ_AT_ONCE];
        match self.pipe.as_mut().map(|pipe| pipe.read(&mut some)) {
            Some(Ok(read)) if read > 0 => self.bytes.extend_from_slice(&some[..read]),
            Some(Err(why)) if why.kind() == io::ErrorKind::Interrupted => {}
            _ => self.pipe = None,
        }
    }
}

/// Whether there is something to read, or end of file, within this time.
fn says_something(pipe: &PipeReader, within: Duration) -> io::Result<bool> {
    let [something] = ready([Some((pipe.as_fd(), PollFlags::IN))], Instant::now() + within)?;
    Ok(something)
}

/// Waits until one of these is ready or at end of file, or until `until`; returns which are.
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
