//! What a dialler keeps from pair to pair: its intent to be connected (TR-56, TR-57, TR-60).

use core::time::Duration;

use crate::bound::{REDIAL_BASE, REDIAL_JITTER};
use crate::zmp::{Generation, PairId, PairKey};

/// How long a dialler waits before it tries again (TR-56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-56")]
pub enum RedialPolicy {
    /// 100 ms and a random part below 100 ms, without growth.
    #[default]
    Steady,
    /// Doubles from 100 ms up to this, without a random part.
    Doubling(Duration),
}

/// The intent of a dialler to be connected to one endpoint.
///
/// It lives until its owner gives it up; a new intent has a new pair id.
#[derive(Debug)]
pub struct Intent {
    key: PairKey,
    policy: RedialPolicy,
    attempts: u32,
    was_ready: Established,
}

/// Whether the pair of the present generation was ready once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Established {
    No,
    Yes,
}

impl Intent {
    /// A new intent: `pair` is random, the generation is 1.
    pub const fn new(pair: PairId, policy: RedialPolicy) -> Self {
        Self {
            key: PairKey {
                pair,
                generation: Generation::FIRST,
            },
            policy,
            attempts: 0,
            was_ready: Established::No,
        }
    }

    /// What both lanes of the next attempt carry in READY.
    pub const fn key(&self) -> PairKey {
        self.key
    }

    /// Both lanes are ready.
    pub const fn on_ready(&mut self) {
        self.was_ready = Established::Yes;
        self.attempts = 0;
    }

    /// The pair was lost or the attempt failed. Gives the wait before the next attempt; `random` is
    /// any random number.
    ///
    /// The generation rises once for a loss and stays until both lanes are ready again, however many
    /// attempts that takes (TR-57).
    pub fn on_lost(&mut self, random: u32) -> Duration {
        if self.was_ready == Established::Yes {
            self.was_ready = Established::No;
            self.key.generation = self.key.generation.next();
        }
        let wait = match self.policy {
            RedialPolicy::Steady => {
                let jitter = u32::try_from(REDIAL_JITTER.as_millis()).unwrap_or(u32::MAX);
                let random = random.checked_rem(jitter).unwrap_or(0);
                REDIAL_BASE.saturating_add(Duration::from_millis(u64::from(random)))
            }
            RedialPolicy::Doubling(max) => {
                let factor = 1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
                REDIAL_BASE.saturating_mul(factor).min(max)
            }
        };
        self.attempts = self.attempts.saturating_add(1);
        wait
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use super::*;

    fn intent(policy: RedialPolicy) -> Intent {
        Intent::new(PairId::new(NonZeroU64::MIN), policy)
    }

    /// TR-56
    #[test]
    fn the_wait_is_steady_with_jitter_or_doubles_without() {
        let mut steady = intent(RedialPolicy::Steady);
        for random in [0, 99, 100, 12_345, u32::MAX] {
            let wait = steady.on_lost(random).as_millis();
            assert_eq!(wait, 100 + u128::from(random % 100));
        }
        let mut doubling = intent(RedialPolicy::Doubling(Duration::from_secs(1)));
        let waits = [0; 6].map(|random| doubling.on_lost(random).as_millis());
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        for _ in 0..100 {
            assert_eq!(doubling.on_lost(7).as_millis(), 1000);
        }
        doubling.on_ready();
        assert_eq!(doubling.on_lost(7).as_millis(), 100);
    }

    /// TR-22, TR-57
    #[test]
    fn the_generation_rises_once_for_each_loss() {
        let mut intent = intent(RedialPolicy::Steady);
        let pair = intent.key().pair;
        let mut generations = vec![];
        for ready in [false, true, false, false, true, true] {
            if ready {
                intent.on_ready();
            }
            intent.on_lost(0);
            generations.push(intent.key().generation.get());
        }
        assert_eq!(generations, [1, 2, 2, 2, 3, 4]);
        assert_eq!(intent.key().pair, pair);
    }
}
