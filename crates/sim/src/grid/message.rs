//! What travels between simulated parties.

use super::log::Kind;
use bookahead_party::JobCall;
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord};
use bookahead_protocol::{Answer, Caller, Envelope, JobId, Key, Moment, Problem};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Somebody asks.
    Call(Envelope),
    /// Somebody answers.
    Answer {
        /// The key of the call.
        key: Key,
        /// What.
        answer: Answer,
    },
    /// Somebody asks something about a job.
    Job {
        /// On whose behalf.
        caller: Caller,
        /// Which job, by its id there.
        id: JobId,
        /// What.
        ask: JobCall,
        /// Where it is submitted: what.
        job: Option<Box<JobRequest>>,
    },
    /// Somebody tells of a job.
    JobAnswer {
        /// Which job.
        id: JobId,
        /// What was asked.
        asked: JobCall,
        /// How it stands, or why not.
        answer: Result<Box<JobView>, Problem>,
    },
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sent: Moment,
    pub(super) message: Message,
    /// Whether the network made it.
    pub(super) copy: bool,
}

impl Packet {
    pub(super) fn kind(&self) -> Kind {
        match self.message {
            _ if self.copy => Kind::Copy,
            Message::Call(_) | Message::Job { .. } => Kind::Call,
            Message::Answer { .. } | Message::JobAnswer { .. } => Kind::Answer,
        }
    }
}

impl Message {
    /// A word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Message::Call(envelope) => envelope.call.word(),
            Message::Answer { answer, .. } => answer.word(),
            Message::Job { ask: JobCall::Submit, .. } => "submit",
            Message::Job { ask: JobCall::Look, .. } => "look",
            Message::Job { ask: JobCall::Go, .. } => "go",
            Message::Job { ask: JobCall::Drop, .. } => "drop",
            Message::JobAnswer { answer: Err(problem), .. } => problem.why.code(),
            Message::JobAnswer { answer: Ok(job), .. } => match job.state {
                JobWord::Placing => "placing",
                JobWord::Waiting => "waiting",
                JobWord::Claiming => "claiming",
                JobWord::Running => "running",
                JobWord::Done => "done",
                JobWord::Cancelled => "job-cancelled",
                JobWord::OutOfTime => "out-of-time",
                JobWord::ReservationOver => "reservation-over",
                JobWord::Lost => "lost",
                JobWord::CouldNotStart => "could-not-start",
            },
        }
    }
}
