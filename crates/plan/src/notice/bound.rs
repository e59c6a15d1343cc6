//! An upper bound of a quantile from a sample, with stated confidence and no assumption on the distribution: the
//! smallest order statistic whose rank gives the confidence (the binomial method; J. Brevik, D. Nurmi, R. Wolski,
//! "Predicting bounds on queuing delay for batch-scheduled parallel machines", PPoPP 2006, apply it to waits).
//!
//! It relies on additions, multiplications and divisions alone, so a rank is the same on every machine. It takes
//! observations as independent; waits are not, so the confidence is that of the method, not of the future.

/// The quantile that is bounded and the confidence of the bound, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantileBound {
    quantile: u32,
    confidence: u32,
}

impl QuantileBound {
    /// The 95% quantile with 95% confidence, the usual choice for batch waits; it needs 59 observations.
    pub const USUAL: QuantileBound = QuantileBound { quantile: 95, confidence: 95 };

    /// Both from 1 to 99 per cent; None where they are not.
    pub fn new(quantile: u32, confidence: u32) -> Option<QuantileBound> {
        let possible = (1..=99).contains(&quantile) && (1..=99).contains(&confidence);
        possible.then_some(QuantileBound { quantile, confidence })
    }

    /// The quantile, in per cent.
    pub fn quantile(&self) -> u32 {
        self.quantile
    }

    /// The confidence, in per cent.
    pub fn confidence(&self) -> u32 {
        self.confidence
    }

    /// The rank, from 1, of the smallest of `observations` order statistics that is not below the quantile with the
    /// confidence. None where not even the largest is.
    ///
    /// The k-th smallest of n is below the quantile q only where at least k observations are, each with probability q:
    /// so it is not below it with probability P(Binomial(n, q) < k).
    pub fn rank(&self, observations: usize) -> Option<usize> {
        let weights = binomial_weights(observations, f64::from(self.quantile) / 100.0);
        let wanted = weights.iter().sum::<f64>() * f64::from(self.confidence) / 100.0;
        let mut below = 0.0;
        for rank in 1..=observations {
            below += weights[rank - 1];
            if below >= wanted {
                return Some(rank);
            }
        }
        None
    }
}

/// Numbers in the ratio of the probabilities of 0, 1, … n successes. Counted from the most probable one outwards, so
/// that what is too small for a float is too small to matter.
fn binomial_weights(n: usize, p: f64) -> Vec<f64> {
    let odds = p / (1.0 - p);
    let mode = (((n + 1) as f64 * p) as usize).min(n);
    let mut weights = vec![1.0; n + 1];
    for k in mode..n {
        weights[k + 1] = weights[k] * odds * (n - k) as f64 / (k + 1) as f64;
    }
    for k in (0..mode).rev() {
        weights[k] = weights[k + 1] / odds * (k + 1) as f64 / (n - k) as f64;
    }
    weights
}
