//! Waiting for an effect outside of the test: it looks again and again, and panics with the reason if the effect never comes.
//! The pause between two looks grows, so that short waits are short and long ones leave the processors to others.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than any step takes on a busy machine. It only matters to tests that fail.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// First pause between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Waits until there is a value; panics with the last reason why there is none.
#[track_caller]
pub fn until<T, E: Display>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let mut wait = Wait::begin();
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => thread::sleep(wait.pause(&why)),
        }
    }
}

/// Waits until a condition holds.
#[track_caller]
pub fn until_true(what: &str, mut look: impl FnMut() -> bool) {
    until(|| look().then_some(()).ok_or(what));
}

/// The same for asynchronous tests.
pub async fn until_async<T, E: Display>(mut look: impl AsyncFnMut() -> Result<T, E>) -> T {
    let mut wait = Wait::begin();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(why) => tokio::time::sleep(wait.pause(&why)).await,
        }
    }
}

/// Waits until there is something.
pub async fn until_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    until_async(async || look().await.ok_or(what)).await
}

struct Wait {
    deadline: Instant,
    pause: Duration,
}

impl Wait {
    fn begin() -> Wait {
        Wait { deadline: Instant::now() + PATIENCE, pause: SHORTEST_PAUSE }
    }

    #[track_caller]
    fn pause(&mut self, why: &impl Display) -> Duration {
        assert!(Instant::now() < self.deadline, "never came to be: {why}");
        let next = (self.pause * 2).min(LONGEST_PAUSE);
        std::mem::replace(&mut self.pause, next)
    }
}
