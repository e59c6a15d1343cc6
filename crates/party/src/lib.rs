//! A site and a broker as plain values. Inputs and the time go in; events, replies, calls to peers and orders
//! to the batch system come out. The daemons, the simulated grid and the fault tests drive the same values.
//!
//! - [`step`]: inputs and outputs, and the durability rule
//! - [`batch`]: orders to a batch system and its reports
//! - [`site`]: the ledger, its batch system and its jobs
//! - [`broker`]: the negotiation, jobs, and the register of peers
//! - [`time_of_day`]: whether the system clock can be followed
//! - [`queries`]: read-only queries; [`schedule`]: what they draw; [`register`]: heartbeats of parties
//!
//! Nothing here reads a clock or a file, starts a thread, blocks, or iterates over a hash map.

pub mod batch;
pub mod broker;
pub mod queries;
pub mod register;
pub mod schedule;
pub mod site;
pub mod step;
pub mod time_of_day;

pub use crate::batch::{
    Attracting, Backing, BatchError, BatchOrder, BatchReport, Clocks, Ended, Job, JobChange, JobState,
    JobStatus, Look, OrderId, Seen, Sharing, Tagged, Work,
};
pub use crate::broker::{Broker, BrokerEvent, BrokerState, JobEvent, JobRules};
pub use crate::queries::{
    BookedPart, Figures, Filter, Page, Position, Queries, ResourceFigures, Subject, Viewer,
};
pub use crate::register::{Changes, Heartbeat, Known, Load, OfferedResource, Role};
pub use crate::step::{
    CallId, Input, JobCall, JobNews, Level, Missing, NewRules, Notice, Origin, Output, Party, PeerCall,
    PeerRequest, Remark, Reply,
};
pub use crate::time_of_day::{ClockNews, ClockState, JournalTime, Reading, TimeOfDay};
