//! A site and a broker as plain values. Inputs and the time go in; events, replies, calls to peers and orders to the batch
//! system come out. The daemons, the simulated grid and the fault schedules drive these very values.
//!
//! - [`step`]: what goes in and comes out, and the rule of durability
//! - [`batch`]: what a site and its batch system say to each other
//! - [`site`]: the book, its batch system and its jobs
//! - [`broker`]: the negotiation, jobs, and the register of peers
//! - [`queries`]: what can be seen without changing anything; [`register`]: what parties tell of themselves
//!
//! Nothing here reads a clock or a file, starts a thread, waits, or iterates over a hash map.

pub mod batch;
pub mod broker;
pub mod queries;
pub mod register;
pub mod site;
pub mod step;

pub use crate::batch::{
    Backing, BatchError, BatchOrder, BatchReport, Clocks, Ended, Job, JobChange, JobState, JobStatus, Look,
    OrderId, Seen, Tagged, Work,
};
pub use crate::broker::{Broker, BrokerEvent, BrokerState, JobEvent, JobRules};
pub use crate::queries::{Filter, Queries, Viewer};
pub use crate::register::{Changes, Heartbeat, Known, Load, OfferedResource, Role};
pub use crate::step::{
    CallId, Input, JobCall, Level, Missing, Notice, Origin, Output, Party, PeerCall, PeerRequest, Remark,
    Reply,
};
