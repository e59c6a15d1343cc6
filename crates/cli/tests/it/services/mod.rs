//! The whole system with real sockets and processes: sites and brokers are started as a user starts them, called
//! through the client library, killed at any step, and checked against the invariants.
//!
//! - [`process`]: one site or broker as a process; [`grid`]: several of them; [`asking`]: their clients
//! - [`witness`]: the invariants of a grid
//! - the rest: the tests

/// A module with one test for each point at which a process is killed. Each calls `check` with the point.
macro_rules! at_each_point {
    ($name:ident: $check:path $(, $argument:expr)*) => {
        #[cfg(debug_assertions)]
        mod $name {
            use super::*;

            #[test]
            fn decided() {
                $check(Point::Decided $(, $argument)*);
            }

            #[test]
            fn written() {
                $check(Point::Written $(, $argument)*);
            }

            #[test]
            fn sending() {
                $check(Point::Sending $(, $argument)*);
            }

            #[test]
            fn sent() {
                $check(Point::Sent $(, $argument)*);
            }
        }
    };
}

pub(crate) mod asking;
mod co_reservations;
mod crash_points;
mod flooding;
mod generated_client;
pub(crate) mod grid;
mod hard_searches;
mod healing;
mod job_parts;
mod jobs;
mod life_cycle;
mod losses;
mod negotiation;
mod notices;
pub(crate) mod process;
mod races;
mod reruns;
mod schemathesis;
mod stand_by;
mod stopping;
mod torture;
mod watching;
pub(crate) mod witness;

use bookahead_tests::cases::quick;
use tokio::runtime::{Builder, Runtime};

/// The async runtime of a test.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Calls `crash_at` with 1, 2, 3 …; it kills a process the n-th time that it passes a point, and returns false if the process
/// does not pass it that often. A quick run stops after the first.
fn kill_each_time(fewest: usize, crash_at: impl AsyncFn(u32) -> bool) {
    let most = if quick() { 1 } else { usize::MAX };
    let crashes = (1..).take(most).take_while(|&count| runtime().block_on(crash_at(count))).count();
    eprintln!("killed {crashes} times");
    assert!(crashes >= fewest.min(most), "killed only {crashes} times");
}
