//! Integration tests: any bytes, damaged files, real logs, drawn workloads. Real logs are read if they are present; a
//! test without its log says so and passes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test as tests may")]

mod any_bytes;
mod calibrated;
mod damaged_gzip;
mod drawn;
mod real_logs;
mod round_trip;
