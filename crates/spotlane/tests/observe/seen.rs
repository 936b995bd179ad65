//! A recorder and a subscriber that keep what they are given.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span;

/// A metric: its kind, the names of its labels, its value over all labels, and everything that it showed.
#[derive(Debug, Default)]
struct Metric {
    kind: &'static str,
    labels: Vec<String>,
    shown: Vec<String>,
    value: f64,
}

/// An event: its level, its name and its fields.
#[derive(Debug)]
struct Event {
    level: String,
    message: String,
    fields: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct State {
    metrics: BTreeMap<String, Metric>,
    events: Vec<Event>,
}

/// Everything that this process has reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<State>>);

impl Seen {
    /// Takes every metric and event of this process from here on.
    pub(crate) fn install() -> Self {
        let seen = Self::default();
        metrics::set_global_recorder(seen.clone()).unwrap();
        tracing::subscriber::set_global_default(seen.clone()).unwrap();
        seen
    }

    /// The names of the labels of a metric, sorted.
    pub(crate) fn labels(&self, kind: &str, name: &str) -> Option<String> {
        let state = self.0.lock().unwrap();
        let metric = state
            .metrics
            .get(name)
            .filter(|metric| metric.kind == kind)?;
        Some(metric.labels.join(","))
    }

    /// The value of a counter or gauge, over all labels.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.0.lock().unwrap().metrics[name].value
    }

    /// The loudest level of an event.
    pub(crate) fn level(&self, message: &str) -> Option<String> {
        let state = self.0.lock().unwrap();
        let event = state.events.iter().find(|event| event.message == message)?;
        Some(event.level.clone())
    }

    /// The values of one field of an event.
    pub(crate) fn field(&self, message: &str, name: &str) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let events = state.events.iter().filter(|event| event.message == message);
        events
            .flat_map(|event| &event.fields)
            .filter(|(field, _)| field == name)
            .map(|(_, value)| value.clone())
            .collect()
    }

    /// Metrics, and events that are no traces, that show a text.
    pub(crate) fn showing(&self, text: &str) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let events = state.events.iter().filter(|event| event.level != "TRACE");
        let events = events.map(|event| format!("{event:?}"));
        let metrics = state.metrics.values().map(|metric| format!("{metric:?}"));
        events
            .chain(metrics)
            .filter(|shown| shown.contains(text))
            .collect()
    }

    fn metric(&self, kind: &'static str, key: &Key) -> One {
        let mut state = self.0.lock().unwrap();
        let metric = state.metrics.entry(key.name().to_owned()).or_default();
        metric.kind = kind;
        metric.labels = key.labels().map(|label| label.key().to_owned()).collect();
        metric.labels.sort();
        metric
            .shown
            .extend(key.labels().map(|label| label.value().to_owned()));
        One {
            seen: self.clone(),
            name: key.name().to_owned(),
        }
    }
}

/// One metric as its user holds it.
struct One {
    seen: Seen,
    name: String,
}

impl One {
    fn add(&self, value: f64) {
        let mut state = self.seen.0.lock().unwrap();
        if let Some(metric) = state.metrics.get_mut(&self.name) {
            metric.value += value;
        }
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.add(u32::try_from(value).map_or(f64::MAX, f64::from));
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {}
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(self.metric("counter", key)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(self.metric("gauge", key)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(self.metric("histogram", key)))
    }
}

impl tracing::Subscriber for Seen {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("spotlane")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut seen = Event {
            level: event.metadata().level().to_string(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut seen);
        self.0.lock().unwrap().events.push(seen);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Visit for Event {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        if field.name() == "message" {
            self.message = value;
        } else {
            self.fields.push((field.name().to_owned(), value));
        }
    }
}
