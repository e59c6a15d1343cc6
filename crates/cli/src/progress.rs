//! A progress bar on standard error for work that takes long. It appears only on a terminal and only once the work
//! has taken a moment, so that short runs stay quiet.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const QUIET_FOR: Duration = Duration::from_millis(400);

/// Progress towards `total`; may be told from several threads.
pub(crate) struct Progress {
    begun: Instant,
    total: u64,
    wanted: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(total: u64) -> Progress {
        Progress { begun: Instant::now(), total, wanted: stderr().is_terminal(), bar: OnceLock::new() }
    }

    pub(crate) fn add(&self, done: u64) {
        if self.wanted && self.begun.elapsed() > QUIET_FOR {
            self.bar.get_or_init(|| bar(self.total)).inc(done);
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

fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = "{bar:40} {human_pos} of {human_len} jobs, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
