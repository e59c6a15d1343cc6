//! Delivers notices: one task per target tries the oldest notice of every reservation until it succeeds or is given
//! up, several reservations at once. A failing receiver is tried less and less often, and delays only its own
//! reservations.

use super::outbox::Outbox;
use super::target::Letter;
use bookahead_protocol::ReservationId;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Wait after the first failure; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Upper bound of the wait: a receiver that is back gets its notices within the hour.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// How often the file is written at most. Notices delivered since the last write are delivered again if the service
/// is killed.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Delivers the contents of an outbox while these tasks live.
pub(crate) fn deliver(outbox: &Arc<Outbox>, tasks: &mut JoinSet<()>) {
    for at in 0..outbox.targets.len() {
        tasks.spawn(Delivery { outbox: outbox.clone(), at, lanes: BTreeMap::new() }.run());
    }
    tasks.spawn(keep_written(outbox.clone()));
}

async fn keep_written(outbox: Arc<Outbox>) {
    loop {
        outbox.stale.notified().await;
        let saving = outbox.clone();
        if let Ok(Err(why)) = tokio::task::spawn_blocking(move || saving.save()).await {
            tracing::error!(event = "notices_not_written", "cannot write the file of waiting notices: {why}");
        }
        sleep(WRITE_EVERY).await;
    }
}

struct Delivery {
    outbox: Arc<Outbox>,
    at: usize,
    /// Reservations whose first notice is being tried, or has failed.
    lanes: BTreeMap<ReservationId, Lane>,
}

struct Lane {
    tries: u32,
    /// `None` while it is being tried.
    due: Option<Instant>,
}

impl Delivery {
    async fn run(mut self) {
        let mut trying: JoinSet<(Letter, Result<(), String>)> = JoinSet::new();
        loop {
            let next = self.start_due(&mut trying);
            let wait = async {
                match next {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(tried) = trying.join_next() => {
                    if let Ok((letter, outcome)) = tried {
                        self.settle(&letter, outcome);
                    }
                }
                () = self.outbox.came[self.at].notified() => {}
                () = wait => {}
            }
        }
    }

    /// Starts deliveries that are due, up to the limit of the target. Returns when the next one is due.
    fn start_due(&mut self, trying: &mut JoinSet<(Letter, Result<(), String>)>) -> Option<Instant> {
        let at_once = self.outbox.targets[self.at].at_once();
        if trying.len() >= at_once {
            return None;
        }
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        // Only the first notice of each reservation: notices of one reservation must arrive in order.
        self.outbox.visit_first(self.at, |letter| {
            let lane = self.lanes.entry(letter.reservation).or_insert(Lane { tries: 0, due: Some(now) });
            match lane.due {
                Some(due) if due <= now => {
                    lane.due = None;
                    let (outbox, at, letter) = (self.outbox.clone(), self.at, letter.clone());
                    trying.spawn(async move {
                        let outcome = outbox.targets[at].attempt(&letter).await;
                        (letter, outcome)
                    });
                }
                Some(due) => next = Some(next.map_or(due, |next| next.min(due))),
                None => {}
            }
            if trying.len() < at_once { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // At the limit, the end of a delivery wakes the task.
        next.filter(|_| trying.len() < at_once)
    }

    fn settle(&mut self, letter: &Letter, outcome: Result<(), String>) {
        let Some(lane) = self.lanes.get_mut(&letter.reservation) else { return };
        let (target, reservation) = (&self.outbox.targets[self.at], letter.reservation);
        let (id, to) = (&letter.id, letter.webhook.clone().unwrap_or_else(|| target.name()));
        lane.tries += 1;
        match outcome {
            Err(why) if target.tries_again(letter, lane.tries) => {
                // The exponent is capped, so that the multiplication cannot overflow.
                let wait = FIRST_WAIT * 2_u32.saturating_pow(lane.tries - 1).min(1 << 16);
                lane.due = Some(Instant::now() + wait.min(LONGEST_WAIT));
                // Only the first failure is logged: an outage of a day would fill the log.
                if lane.tries == 1 {
                    let event = "notice_failed";
                    tracing::warn!(event, id, %reservation, to, "notice not delivered, retrying: {why}");
                }
                return;
            }
            Err(why) => {
                let (event, tries) = ("notice_given_up", lane.tries);
                tracing::error!(event, id, %reservation, to, tries, "notice given up: {why}");
                self.outbox.done(self.at, letter.sequence, false);
            }
            Ok(()) => {
                tracing::debug!(event = "notice_delivered", id, %reservation, to, "notice delivered");
                self.outbox.done(self.at, letter.sequence, true);
            }
        }
        self.lanes.remove(&reservation);
    }
}
