//! Numbers that look random and follow from a seed.

use std::time::Duration;

/// A stream of numbers (`SplitMix64`). Forks are independent streams, so that one more draw in one part
/// of a world does not change what another part draws.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// An independent stream, named so that the order of forks does not matter.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        let mut state = self.state ^ 0xA076_1D64_78BD_642F;
        for byte in name.bytes() {
            state = mix(state.wrapping_add(u64::from(byte)));
        }
        Self { state }
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is far below what a simulation notices.
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A duration between two numbers of microseconds.
    pub fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low, high))
    }

    /// An index of a list with `len` entries.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap_or(u64::MAX))).unwrap_or(0)
    }
}

const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream_and_forks_do_not_disturb_it() {
        let mut a = Random::new(7);
        let mut b = Random::new(7);
        let mut fork = b.fork("network");
        fork.next();
        assert_eq!(
            (0..5).map(|_| a.next()).collect::<Vec<_>>(),
            (0..5).map(|_| b.next()).collect::<Vec<_>>()
        );
        assert_ne!(
            Random::new(7).fork("a").next(),
            Random::new(7).fork("b").next()
        );
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            assert!((3..=9).contains(&random.between(3, 9)));
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.percent(0));
        assert!(random.percent(100));
    }
}
