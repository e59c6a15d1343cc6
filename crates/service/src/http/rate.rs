//! How often one user may ask: a bucket of tokens for each, refilled with time. The number of buckets is bounded;
//! where there are too many users, the buckets that are full again are forgotten first, and then all, which only ever
//! favours a user.

use bookahead_protocol::Name;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many users have a bucket at the same time.
const MOST_BUCKETS: usize = 10_000;

/// The buckets of all users.
pub(super) struct Rates {
    /// Tokens in a second; none where there is no limit.
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<Name, Bucket>>,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rates {
    /// With so many requests in a second, and so many at once; without a limit where the first is 0.
    pub(super) fn new(per_second: u32, burst: u32) -> Rates {
        let burst = f64::from(burst.max(per_second).max(1));
        Rates { per_second: f64::from(per_second), burst, buckets: Mutex::default() }
    }

    /// Counts a request of a user, or says when he may ask again.
    pub(super) fn take(&self, user: &Name, now: Instant) -> Result<(), Duration> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_BUCKETS && !buckets.contains_key(user) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
            if buckets.len() >= MOST_BUCKETS {
                buckets.clear();
            }
        }
        let full = || Bucket { tokens: self.burst, at: now };
        let bucket = buckets.entry(user.clone()).or_insert_with(full);
        let tokens = self.filled(bucket, now);
        let enough = tokens >= 1.0;
        *bucket = Bucket { tokens: if enough { tokens - 1.0 } else { tokens }, at: now };
        if enough { Ok(()) } else { Err(Duration::from_secs_f64((1.0 - tokens) / self.per_second)) }
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_ask_in_bursts_and_then_at_the_rate() {
        let (rates, start) = (Rates::new(2, 3), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let asks = |millis| rates.take(&"ada".into(), at(millis)).is_ok();
        assert_eq!(
            [0, 0, 0, 0, 400, 500, 600, 1_000].map(asks),
            [true, true, true, false, false, true, false, true]
        );
        assert_eq!(rates.take(&"ada".into(), at(1_000)), Err(Duration::from_millis(500)));
        assert!(rates.take(&"grace".into(), at(1_000)).is_ok(), "others have buckets of their own");
        assert!((0..1_000).all(|_| Rates::new(0, 0).take(&"ada".into(), start).is_ok()));
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let (rates, start) = (Rates::new(1, 1), Instant::now());
        for user in 0..3 * MOST_BUCKETS {
            assert!(rates.take(&user.to_string().into(), start).is_ok());
            assert!(rates.buckets.lock().unwrap().len() <= MOST_BUCKETS);
        }
        let later = start + Duration::from_secs(2);
        rates.take(&"ada".into(), later).unwrap();
        assert!(rates.buckets.lock().unwrap().len() <= MOST_BUCKETS);
    }
}
