//! Clocks of peers and brokers. While the system clock has jumped and is not followed, an answer of another machine
//! with the same time confirms it.

use crate::clock::Clock;
use crate::security::is_on_this_machine;
use bookahead_client::Client;
use bookahead_protocol::{Millis, Moment};

/// Compares the clock with the last answer of a configured service.
pub(crate) fn compare(clock: Clock, client: &Client) {
    let Some(theirs) = client.server_clock().filter(|theirs| theirs.speed == 1) else { return };
    if is_on_this_machine(client.url()) && !counts_local_clocks() {
        // A service on this machine reads the same clock.
        return;
    }
    let since = i64::try_from(theirs.told.elapsed().as_millis()).unwrap_or(i64::MAX);
    clock.confirm(Moment::of(theirs.now.time()) + Millis(since), client.url());
}

/// In debug builds a test can treat services on one machine as different ones, because it gives them different
/// clocks.
fn counts_local_clocks() -> bool {
    cfg!(debug_assertions) && std::env::var_os("BOOKAHEAD_LOCAL_CLOCKS").is_some()
}
