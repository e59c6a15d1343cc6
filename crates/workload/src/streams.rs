//! Seeded random numbers: one independent stream per purpose, so that more draws for one purpose do not change
//! another. Generator (ChaCha12), seeding (FNV-1a) and all mathematics (`libm`) are fixed, so a seed gives the
//! same jobs on every machine; the operating system is never asked for randomness.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
pub struct Stream(ChaCha12Rng);

impl Stream {
    /// The stream for `purpose` under `seed`.
    pub fn new(seed: u64, purpose: &str) -> Stream {
        let mut key = [0; 32];
        for (lane, part) in (0_u8..).zip(key.chunks_exact_mut(8)) {
            // Four 64-bit hashes, which differ by the lane, fill the 256-bit key.
            let bytes = seed.to_le_bytes().into_iter().chain(purpose.bytes()).chain([lane]);
            part.copy_from_slice(&fnv_1a(bytes).to_le_bytes());
        }
        Stream(ChaCha12Rng::from_seed(key))
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        // An `f64` can hold the upper 53 bits exactly.
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in (0, 1].
    fn positive_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// Uniform in [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A uniform whole number in low..=high; `low` if the range is empty.
    pub fn whole(&mut self, low: i64, high: i64) -> i64 {
        let count = high.saturating_sub(low).max(0).cast_unsigned() + 1;
        // The upper half of the product is biased by at most count / 2^64, and needs no second draw.
        let drawn = (u128::from(self.0.next_u64()) * u128::from(count)) >> 64;
        low + (drawn as i64)
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // Never of zero, whose logarithm is infinite.
        -libm::log(self.positive_unit()) * mean
    }

    /// Normal with mean 0 and variance 1, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.positive_unit()));
        // The second value of the method, with the sine, is not kept: a stream has no state but its
        // generator.
        radius * libm::cos(2.0 * std::f64::consts::PI * self.unit())
    }

    /// Gamma with mean shape x scale, by Marsaglia and Tsang ("A simple method for generating gamma
    /// variables", ACM TOMS 26(3), 2000). A shape below one is reached from the one above it.
    pub(crate) fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(self.positive_unit(), 1.0 / shape);
            return boost * self.gamma(shape + 1.0, scale);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let normal = self.normal();
            let root = 1.0 + c * normal;
            let candidate = root * root * root;
            let bound = 0.5 * normal * normal + d - d * candidate;
            // The logarithm of a negative candidate is NaN, so the sign is checked first.
            if root > 0.0 && libm::log(self.positive_unit()) < bound + d * libm::log(candidate) {
                return d * candidate * scale;
            }
        }
    }
}

/// The 64-bit hash of Fowler, Noll and Vo, variant 1a.
fn fnv_1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_variance(count: usize, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let drawn: Vec<f64> = (0..count).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / count as f64;
        (mean, drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count as f64)
    }

    #[track_caller]
    fn check_near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.03, "{value}, not {expected}");
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv_1a(b"".iter().copied()), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"foobar".iter().copied()), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn streams_are_reproducible_and_differ_by_seed_and_purpose() {
        let first = |seed, purpose| Stream::new(seed, purpose).unit();
        assert_eq!(first(1, "sizes"), first(1, "sizes"));
        assert_ne!(first(1, "sizes"), first(2, "sizes"));
        assert_ne!(first(1, "sizes"), first(1, "gaps"));
    }

    #[test]
    fn distributions_have_their_mean_and_variance() {
        let mut stream = Stream::new(7, "test");
        let (mean, variance) = mean_and_variance(100_000, || stream.exponential(40.0));
        check_near(mean, 40.0);
        check_near(variance, 1600.0);
        for (shape, scale) in [(0.4, 2.0), (4.2, 0.94), (312.0, 0.03)] {
            let (mean, variance) = mean_and_variance(100_000, || stream.gamma(shape, scale));
            check_near(mean, shape * scale);
            check_near(variance, shape * scale * scale);
        }
        let (mean, _) = mean_and_variance(100_000, || stream.whole(1, 9) as f64);
        check_near(mean, 5.0);
    }

    #[test]
    fn whole_numbers_reach_both_ends_and_no_further() {
        let mut stream = Stream::new(7, "test");
        let drawn: Vec<_> = (0..1000).map(|_| stream.whole(3, 5)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&5)));
        assert_eq!(stream.whole(4, 4), 4);
        assert_eq!(stream.whole(4, 3), 4);
    }
}
