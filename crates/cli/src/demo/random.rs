//! Choices that the seed repeats.

/// `SplitMix64`: small, fast, and good enough to choose senders and targets.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The choices of one seed and one part of the demo.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        let mut random = Self(seed ^ part.wrapping_mul(0xA076_1D64_78BD_642F));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let product = u128::from(self.next()) * u128::from(bound);
        u32::try_from(product >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_the_same_choices() {
        let choices = |seed, part| {
            let mut random = Random::new(seed, part);
            [0; 20].map(|_| random.below(1000))
        };
        assert_eq!(choices(1, 1), choices(1, 1));
        assert_ne!(choices(1, 1), choices(2, 1));
        assert_ne!(choices(1, 1), choices(1, 2));
    }

    #[test]
    fn every_choice_is_in_range_and_taken() {
        let mut random = Random::new(7, 0);
        let mut seen = [0_u32; 3];
        for _ in 0..3_000 {
            seen[random.below(3) as usize] += 1;
        }
        assert!(
            seen.iter().all(|count| (900..1_100).contains(count)),
            "{seen:?}"
        );
    }
}
