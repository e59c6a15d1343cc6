//! The broker as a value, killed and restarted from its journal.

mod bookings;
mod desk;
mod faults;
mod flooded;
mod losses;
mod parts;
mod peers;
mod reserved;
