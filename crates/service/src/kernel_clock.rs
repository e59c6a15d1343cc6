//! Whether the kernel reports the system clock as synchronised by NTP. Setting the clock by hand ends that state, so it
//! is independent evidence. systemd is asked for it, because a service that runs with `ProtectClock=yes` may not ask
//! the kernel. Without systemd, or without a system bus, there is no answer.

use crate::time_of_day;
use bookahead_party::ClockState;
use bookahead_protocol::Moment;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Interval between questions while the clock is not followed: NTP has just begun to synchronise it.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// The properties of systemd-timedated, with the longest time to wait for its answer.
const QUESTION: [&str; 8] = [
    "--system",
    "--timeout=2",
    "get-property",
    "org.freedesktop.timedate1",
    "/org/freedesktop/timedate1",
    "org.freedesktop.timedate1",
    "NTPSynchronized",
    "TimeUSec",
];

/// Asks if the clock is not followed, or nothing confirmed it. Blocks for at most two seconds.
pub(crate) fn confirm() {
    if time_of_day::state() != ClockState::Followed
        && let Some(time) = synchronised()
    {
        time_of_day::confirm(time, "NTP");
    }
}

/// Asks again and again.
pub(crate) async fn keep_asking() {
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        // Fails only if the runtime ends.
        let _ = tokio::task::spawn_blocking(confirm).await;
    }
}

/// The time of the kernel, if it is synchronised.
fn synchronised() -> Option<Moment> {
    let mut command = Command::new("busctl");
    let output = command.args(QUESTION).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    if output.status.success() { parse(&String::from_utf8_lossy(&output.stdout)) } else { None }
}

/// The lines `b true` and `t` with the microseconds since 1970.
fn parse(printed: &str) -> Option<Moment> {
    let mut lines = printed.lines();
    let is_synchronised = lines.next()? == "b true";
    let micros: i64 = lines.next()?.strip_prefix("t ")?.parse().ok()?;
    is_synchronised.then_some(Moment(micros / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_synchronised_clock_confirms() {
        assert_eq!(parse("b true\nt 1763514301123456\n"), Some(Moment(1_763_514_301_123)));
        for other in ["b false\nt 1763514301123456\n", "b true\n", "", "b true\nt x\n", "Call failed"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
