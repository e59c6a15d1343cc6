//! A progress bar on standard error for work that takes long. It appears only on a terminal and only once the work
//! has taken a moment, so that short runs stay quiet.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const QUIET_FOR: Duration = Duration::from_millis(400);

/// Progress towards `total`; may be told from several threads.
pub(crate) struct Progress {
    begun: Instant,
    total: u64,
    what: &'static str,
    done: AtomicU64,
    wanted: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Towards `total` of `what`, such as jobs.
    pub(crate) fn new(total: u64, what: &'static str) -> Progress {
        let (begun, done, bar) = (Instant::now(), AtomicU64::new(0), OnceLock::new());
        Progress { begun, total, what, done, wanted: stderr().is_terminal(), bar }
    }

    pub(crate) fn add(&self, more: u64) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        if self.wanted && self.begun.elapsed() > QUIET_FOR {
            self.bar.get_or_init(|| bar(self.total, self.what)).set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = format!("{{bar:40}} {{human_pos}} of {{human_len}} {what}, {{eta}} left");
    bar.set_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
