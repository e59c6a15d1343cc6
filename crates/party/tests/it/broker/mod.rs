//! The broker as a value, killed and started again from what it wrote.

mod bookings;
mod desk;
mod faults;
mod flooded;
mod losses;
mod parts;
mod peers;
mod reserved;
