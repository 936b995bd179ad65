//! Durations and what is said of them: median, 99th percentile, longest.

use std::time::Duration;

/// As many are kept; of more, every second one is dropped and from then on only every second one taken, and so on.
const SAMPLES_MAX: usize = 1 << 18;

/// A collection of durations in bounded memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    micros: Vec<u32>,
    longest: Duration,
    count: u64,
    /// Only each `1 << skip`-th is kept.
    skip: u32,
}

impl Spread {
    /// Adds one.
    pub(crate) fn add(&mut self, duration: Duration) {
        self.longest = self.longest.max(duration);
        if self.count.is_multiple_of(1 << self.skip) {
            if self.micros.len() == SAMPLES_MAX {
                let mut index = 0;
                self.micros.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.skip += 1;
            }
            if self.count.is_multiple_of(1 << self.skip) {
                self.micros
                    .push(u32::try_from(duration.as_micros()).unwrap_or(u32::MAX));
            }
        }
        self.count += 1;
    }

    /// What is said of them.
    pub(crate) fn summary(&self) -> Summary {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        Summary {
            count: self.count,
            p50_us: quantile(&sorted, 50),
            p99_us: quantile(&sorted, 99),
            max_us: u64::try_from(self.longest.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// The smallest value that at least `percent` of all do not exceed.
fn quantile(sorted: &[u32], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0).into()
}

/// Figures in microseconds; zero when there was nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Summary {
    /// How many.
    pub(crate) count: u64,
    /// Half of them took no longer.
    pub(crate) p50_us: u64,
    /// All but a hundredth took no longer.
    pub(crate) p99_us: u64,
    /// None took longer.
    pub(crate) max_us: u64,
}

/// Microseconds as `1.234 ms`.
pub(crate) fn millis(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1_000, micros % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let mut spread = Spread::default();
        for micros in 1..=100 {
            spread.add(Duration::from_micros(micros));
        }
        assert_eq!(
            spread.summary(),
            Summary {
                count: 100,
                p50_us: 50,
                p99_us: 99,
                max_us: 100
            }
        );
        assert_eq!(Spread::default().summary(), Summary::default());
    }

    #[test]
    fn memory_is_bounded_and_the_longest_is_kept() {
        let mut spread = Spread::default();
        let count = u64::try_from(SAMPLES_MAX).unwrap() * 5;
        for micros in 0..count {
            spread.add(Duration::from_micros(micros));
        }
        let summary = spread.summary();
        assert!(spread.micros.len() <= SAMPLES_MAX);
        assert_eq!((summary.count, summary.max_us), (count, count - 1));
        assert!(
            summary.p50_us.abs_diff(count / 2) < count / 100,
            "{summary:?}"
        );
    }

    #[test]
    fn microseconds_are_shown_as_milliseconds() {
        assert_eq!(millis(1_234), "1.234 ms");
        assert_eq!(millis(5), "0.005 ms");
    }
}
