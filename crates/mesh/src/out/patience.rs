//! Whether to wait a turn before a write.

/// Flushes that go without waiting after waiting was in vain for some time.
const SKIP_MAX: u32 = 31;

/// Learns whether it pays to give other tasks a turn before their lane is written.
///
/// A turn lets the messages of many tasks share one call. With a single sender it only costs: the
/// scheduler looks for work elsewhere and wakes another of its threads for nothing. So each turn in vain
/// lets twice as many flushes go without one, and the first that gains something starts over.
#[derive(Debug, Default)]
pub(super) struct Patience {
    skip: u32,
    pause: u32,
}

impl Patience {
    /// Whether to wait this time; always when messages are expected.
    pub(super) const fn is_due(&mut self, expected: usize) -> bool {
        if self.skip == 0 || expected > 0 {
            return true;
        }
        self.skip = self.skip.saturating_sub(1);
        false
    }

    /// A turn was given.
    pub(super) fn learn(&mut self, gained: bool) {
        self.pause = if gained {
            0
        } else {
            self.pause.saturating_mul(2).saturating_add(1).min(SKIP_MAX)
        };
        self.skip = self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_of(flushes: usize, gained: bool) -> usize {
        let mut patience = Patience::default();
        (0..flushes)
            .filter(|_| {
                let due = patience.is_due(0);
                if due {
                    patience.learn(gained);
                }
                due
            })
            .count()
    }

    #[test]
    fn turns_in_vain_become_rare_and_others_do_not() {
        assert_eq!(waits_of(1000, true), 1000);
        assert!(waits_of(1000, false) < 40);
    }

    #[test]
    fn an_expected_message_is_waited_for() {
        let mut patience = Patience::default();
        patience.learn(false);
        assert!(patience.is_due(1));
        assert!(!patience.is_due(0));
    }
}
