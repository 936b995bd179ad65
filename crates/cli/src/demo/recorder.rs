//! Takes the figures of moves from the counters and histograms that the hosts write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use super::spread::{Spread, Summary};

/// From stopping dispatch at the source to opening it at the target, in seconds (RL-332).
const INTERRUPTION: &str = "zlink.relocation.interruption";
/// Bytes of a move (RL-336).
const BYTES: &str = "zlink.relocation.bytes";

/// The figures, shared with the recorder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Held only while one value is added. A leaf lock.
    interruption: Mutex<Spread>,
    bytes: AtomicU64,
}

impl Figures {
    /// The interruptions so far.
    pub(crate) fn interruption(&self) -> Summary {
        self.0
            .interruption
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .summary()
    }

    /// State bytes that moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }
}

/// Adds interruptions.
#[derive(Debug)]
struct Interruptions(Figures);

impl HistogramFn for Interruptions {
    fn record(&self, seconds: f64) {
        let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let mut spread = self
            .0
            .0
            .interruption
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        spread.add(duration);
    }
}

/// Adds bytes, written as a histogram or as a counter.
#[derive(Debug)]
struct Bytes(Figures);

impl HistogramFn for Bytes {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::as_conversions,
        reason = "a number of bytes that was a whole number before"
    )]
    fn record(&self, bytes: f64) {
        self.0.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl CounterFn for Bytes {
    fn increment(&self, bytes: u64) {
        self.0.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn absolute(&self, _: u64) {}
}

/// Gives the hosts counters that count for [`Figures`] and lets everything else go.
impl Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            BYTES => Counter::from_arc(Arc::new(Bytes(self.clone()))),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() {
            INTERRUPTION => Histogram::from_arc(Arc::new(Interruptions(self.clone()))),
            BYTES => Histogram::from_arc(Arc::new(Bytes(self.clone()))),
            _ => Histogram::noop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_write_is_counted() {
        let figures = Figures::default();
        metrics::with_local_recorder(&figures, || {
            metrics::histogram!(INTERRUPTION, "unit_kind" => "actor").record(0.002);
            metrics::histogram!(INTERRUPTION, "unit_kind" => "actor")
                .record(Duration::from_millis(4));
            metrics::histogram!(BYTES, "outcome" => "completed").record(65_536.0);
            metrics::counter!("other").increment(1);
        });
        assert_eq!(
            figures.interruption(),
            Summary {
                count: 2,
                p50_us: 2_000,
                p99_us: 4_000,
                max_us: 4_000
            }
        );
        assert_eq!(figures.bytes(), 65_536);
    }
}
