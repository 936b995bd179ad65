//! Takes the figures of moves from what the hosts report: the points of a move, and the bytes.
//!
//! A host alone cannot say how long nobody served an object: the source stops and the target opens, each by its own
//! clock (RL-346). Here all hosts share one clock, so the points of both sides are put together.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::spread::{Spread, Summary};

/// Where the hosts report points, as traces.
pub(crate) const POINTS: &str = "spotlane::runtime::relocation::point";
/// The source has stopped (RL-341).
const STOPPED: &str = "S0";
/// The target has opened (RL-344).
const OPENED: &str = "S3";
/// Bytes of a move (RL-336).
const BYTES: &str = "zlink.relocation.bytes";

/// The figures, shared with the recorder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Held only while one point is recorded. A leaf lock.
    interruption: Mutex<Interruption>,
    bytes: AtomicU64,
}

/// Moves whose source has stopped and whose target has not opened, and how long the others took.
#[derive(Debug, Default)]
struct Interruption {
    begun: HashMap<String, Instant>,
    spread: Spread,
}

impl Figures {
    /// The interruptions so far.
    pub(crate) fn interruption(&self) -> Summary {
        self.interruptions().spread.summary()
    }

    fn interruptions(&self) -> MutexGuard<'_, Interruption> {
        self.0
            .interruption
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a point of a move. An actor has one move at a time, so its id is enough.
    fn reach(&self, actor: String, point: &str, now: Instant) {
        let mut interruptions = self.interruptions();
        match point {
            STOPPED => drop(interruptions.begun.insert(actor, now)),
            OPENED => {
                if let Some(begun) = interruptions.begun.remove(&actor) {
                    interruptions.spread.add(now.duration_since(begun));
                }
            }
            _ => {}
        }
    }

    /// State bytes that moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
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

/// Listens to the points; the filter in front of it lets nothing else through.
impl<S: Subscriber> Layer<S> for Figures {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut point = Point::default();
        event.record(&mut point);
        self.reach(point.actor, &point.point, Instant::now());
    }
}

/// The fields of an event.
#[derive(Debug, Default)]
struct Point {
    actor: String,
    point: String,
}

impl Visit for Point {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "actor_id" => value.clone_into(&mut self.actor),
            "point" => value.clone_into(&mut self.point),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
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
            BYTES => Histogram::from_arc(Arc::new(Bytes(self.clone()))),
            _ => Histogram::noop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn what_hosts_write_is_counted() {
        let figures = Figures::default();
        metrics::with_local_recorder(&figures, || {
            metrics::histogram!(BYTES, "outcome" => "completed").record(65_536.0);
            metrics::counter!("other").increment(1);
        });
        assert_eq!(figures.bytes(), 65_536);
    }

    #[test]
    fn the_points_of_both_sides_are_put_together() {
        let figures = Figures::default();
        let start = Instant::now();
        for (actor, point, millis) in [
            ("a", STOPPED, 0),
            ("b", STOPPED, 1),
            ("a", OPENED, 4),
            ("b", OPENED, 3),
            // Not stopped here, or stopped and opened again at the source.
            ("c", OPENED, 5),
            ("d", STOPPED, 0),
            ("d", STOPPED, 6),
            ("d", OPENED, 7),
        ] {
            figures.reach(
                actor.to_owned(),
                point,
                start + Duration::from_millis(millis),
            );
        }
        assert_eq!(
            figures.interruption(),
            Summary {
                count: 3,
                p50_us: 2_000,
                p99_us: 4_000,
                max_us: 4_000
            }
        );
    }

    #[test]
    fn points_are_read_from_traces() {
        let figures = Figures::default();
        let subscriber = tracing_subscriber::registry().with(figures.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: POINTS, actor_id = %"a", point = STOPPED);
            tracing::trace!(target: POINTS, actor_id = %"a", point = OPENED);
        });
        assert_eq!(figures.interruption().count, 1);
    }
}
