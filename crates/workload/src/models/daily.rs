//! Arrivals that follow the day: a day is cut into parts of equal length, each with a weight. Time passes
//! unevenly on this clock, fast where the weight is high, so that gaps drawn without regard to the hour
//! come out short at noon and long at night. The mean rate over a day is not changed.

const DAY: f64 = 86_400.0;

/// A clock that runs by the weights of the parts of a day.
#[derive(Debug, Clone)]
pub(super) struct DailyCycle<const PARTS: usize> {
    weights: [f64; PARTS],
    /// Parts of a day gone by since the start, and points spent within the present one.
    parts: f64,
    spent: f64,
}

impl<const PARTS: usize> DailyCycle<PARTS> {
    /// Starts at midnight. The weights are positive; only their ratios matter.
    pub(super) fn new(weights: [f64; PARTS]) -> DailyCycle<PARTS> {
        let mean = weights.iter().sum::<f64>() / PARTS as f64;
        DailyCycle { weights: weights.map(|weight| weight / mean), parts: 0.0, spent: 0.0 }
    }

    /// Lets `gap` seconds of a day without cycle pass; gives the time since the start, in seconds.
    pub(super) fn advance(&mut self, gap: f64) -> f64 {
        let part = DAY / PARTS as f64;
        let mut points = self.spent + gap / part;
        // Whole days cost as many points as they have parts, whatever the weights.
        let days = (points / PARTS as f64).floor();
        points -= days * PARTS as f64;
        self.parts += days * PARTS as f64;
        while points > self.weight() {
            points -= self.weight();
            self.parts += 1.0;
        }
        self.spent = points;
        part * (self.parts + points / self.weight())
    }

    /// The weight of the present part of the day.
    fn weight(&self) -> f64 {
        let index = (self.parts % PARTS as f64) as usize;
        self.weights.get(index).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_leave_time_as_it_is() {
        let mut clock = DailyCycle::new([3.0; 24]);
        for gap in [10.0, 3600.0, 100_000.0, 1e6] {
            let mut fresh = DailyCycle::new([3.0; 24]);
            assert!((fresh.advance(gap) - gap).abs() < 1e-6);
        }
        assert!((clock.advance(5000.0) - 5000.0).abs() < 1e-9);
        assert!((clock.advance(5000.0) - 10_000.0).abs() < 1e-9);
    }

    #[test]
    fn time_passes_faster_for_less_weight() {
        let mut clock = DailyCycle::new([1.0, 3.0]);
        // The first half of the day has a weight of one half: two seconds pass for each.
        assert!((clock.advance(100.0) - 200.0).abs() < 1e-9);
        // What is left of it lasts 43,000 s and costs 21,500; then one and a half points buy a second.
        assert!((clock.advance(21_500.0 + 300.0) - 43_400.0).abs() < 1e-6);
        // A whole day passes in a day.
        assert!((clock.advance(86_400.0) - 43_400.0 - 86_400.0).abs() < 1e-6);
    }
}
