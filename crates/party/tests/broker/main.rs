//! The broker as a value: inputs and the time in, events, replies and calls out, killed and started again from what it wrote.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bookings;
mod desk;
mod faults;
mod flooded;
mod parts;
mod peers;
mod reserved;
