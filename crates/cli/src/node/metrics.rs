//! `/metrics`: what the host counts, in the text form of Prometheus.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::admin::Metrics;

/// Bounds of durations in seconds: from a fast move to a slow one.
const SECONDS: [f64; 14] = [
    0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0,
];
/// Bounds of sizes in bytes: 1 KiB to 1 GiB.
const BYTES: [f64; 6] = [
    1_024.0,
    16_384.0,
    262_144.0,
    4_194_304.0,
    67_108_864.0,
    1_073_741_824.0,
];

/// The counters of this process.
#[derive(Clone)]
pub(crate) struct Prometheus(PrometheusHandle);

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}

impl Prometheus {
    /// Takes every metric of this process from here on.
    ///
    /// # Errors
    /// Somebody else takes them already.
    pub(crate) fn install() -> Result<Self, String> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)
            .and_then(|builder| {
                builder.set_buckets_for_metric(Matcher::Suffix("bytes".to_owned()), &BYTES)
            })
            .map_err(|error| error.to_string())?
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
        Ok(Self(handle))
    }
}

impl Metrics for Prometheus {
    fn render(&self) -> String {
        self.0.render()
    }
}
