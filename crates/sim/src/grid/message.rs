//! What travels between simulated parties.

use super::log::Kind;
use bookahead_protocol::{Answer, Envelope, Key, Moment};

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
            Message::Call(_) => Kind::Call,
            Message::Answer { .. } => Kind::Answer,
        }
    }
}

impl Message {
    /// A word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Message::Call(envelope) => envelope.call.word(),
            Message::Answer { answer, .. } => answer.word(),
        }
    }

    /// The key of the call that it is, or that it answers.
    pub fn key(&self) -> Key {
        match self {
            Message::Call(envelope) => envelope.key,
            Message::Answer { key, .. } => *key,
        }
    }
}
