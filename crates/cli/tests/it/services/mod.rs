//! The whole system with real sockets and processes: sites and brokers are started as a user starts them, called
//! through the client library, killed at any step, and checked against the invariants.
//!
//! - [`process`]: one site or broker as a process; [`grid`]: several of them; [`asking`]: their clients
//! - [`witness`]: the invariants of a grid
//! - the rest: the tests

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

use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Far longer than any step takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whether to run fewer cases.
fn quick() -> bool {
    std::env::var_os("BOOKAHEAD_TEST_QUICK").is_some()
}

/// The async runtime of a test.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Polls until a condition is true; panics with `what` after the timeout.
pub(crate) async fn until<T>(mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < deadline, "never came to be: {why}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs a test for each item, several at a time: grids wait for disks, sockets and each other most of the time.
fn side_by_side<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    const AT_ONCE: usize = 4;
    let waiting = Mutex::new(all.into_iter());
    let next = || waiting.lock().unwrap().next();
    let worker = || std::iter::from_fn(next).map(&work).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}
