//! A spinner on standard error while an answer is awaited. It appears only on a terminal and only once it takes a moment.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

const QUIET_FOR: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(100);

/// Awaits `call`, and says what is being done meanwhile.
pub(crate) async fn waiting<T>(doing: &str, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    if !stderr().is_terminal() {
        return call.await;
    }
    if let Ok(outcome) = timeout(QUIET_FOR, &mut call).await {
        return outcome;
    }
    let spinner = spinner(&format!("{doing}, {{elapsed}}"));
    let outcome = call.await;
    spinner.finish_and_clear();
    outcome
}

/// A spinner that turns by itself; the text may name `{elapsed}` and `{msg}`.
pub(crate) fn spinner(text: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(&format!("{{spinner}} {text}"));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(TICK);
    bar
}
