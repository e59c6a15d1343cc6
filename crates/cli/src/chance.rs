//! Deterministic random numbers from a seed (SplitMix64), for commands that make random choices.

pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// A number from 0 to `bound` - 1; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // The high half of the product: no modulo bias worth mentioning, and no division.
        let high = u128::from(self.number()) * u128::from(bound);
        // Cannot fail: the product of 64 and 32 bits has at most 96.
        u32::try_from(high >> 64).unwrap_or(0)
    }

    pub(crate) fn number(&mut self) -> u64 {
        // The constants of SplitMix64. Other ones would change the outcome of every recorded seed.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn in_percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}
