//! What surrounds the heads of a site and a broker: it keeps what they decide, and lets out what they answer. The heads
//! themselves live in `bookahead-protocol`; nothing here decides anything they should decide.
//!
//! - [`journal`]: events on disk before an answer leaves

pub mod journal;
