//! How those who wait for something that may never come hear that the party stops.

use tokio::sync::watch;

/// Says that the party stops. Dropping it says the same.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears that the party stops.
#[derive(Debug, Clone)]
pub struct Stop(Option<watch::Receiver<bool>>);

impl Stop {
    /// One to say it, and one to hear it.
    pub fn pair() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(Some(receiver)))
    }

    /// Nobody will ever say it.
    pub fn never() -> Stop {
        Stop(None)
    }

    /// Waits until it is said.
    pub async fn said(&mut self) {
        match &mut self.0 {
            // An error is a stopper that is gone.
            Some(receiver) => drop(receiver.wait_for(|stops| *stops).await),
            None => std::future::pending().await,
        }
    }

    /// Whether it was said.
    pub fn is_said(&self) -> bool {
        self.0.as_ref().is_some_and(|receiver| *receiver.borrow() || receiver.has_changed().is_err())
    }
}

impl Stopper {
    /// Says it.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_hears_it_and_whoever_comes_later_too() {
        let (stopper, stop) = Stop::pair();
        assert!(!stop.is_said() && !Stop::never().is_said());
        let waiting = tokio::spawn({
            let mut stop = stop.clone();
            async move { stop.said().await }
        });
        stopper.stop();
        waiting.await.unwrap();
        assert!(stop.is_said());
        drop(stopper);
        assert!(stop.is_said());
        stop.clone().said().await;
    }
}
