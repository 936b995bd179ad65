//! A recorder for unit tests: which counters were incremented, with which labels.

use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

#[derive(Default)]
struct Counted(Arc<Mutex<Vec<String>>>);

struct One {
    line: String,
    all: Arc<Mutex<Vec<String>>>,
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        let line = format!("{} {value}", self.line);
        self.all.lock().unwrap().push(line);
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let labels: Vec<_> = labels.collect();
        Counter::from_arc(Arc::new(One {
            line: format!("{}{{{}}}", key.name(), labels.join(",")),
            all: Arc::clone(&self.0),
        }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// What `act` counts on this thread, a line for each increment.
pub(crate) fn counted(act: impl FnOnce()) -> Vec<String> {
    let counted = Counted::default();
    metrics::with_local_recorder(&counted, act);
    std::mem::take(&mut *counted.0.lock().unwrap())
}
