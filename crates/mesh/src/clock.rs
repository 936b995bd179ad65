//! The one clock of a mesh, which tests may run faster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spotlane_types::time::Monotonic;
use tokio::time::Instant;

/// Where a mesh reads the time (TR-82: one monotonic clock, which tests may inject).
///
/// Clones share one clock. No time of the contract can be configured; a test that wants to see fifteen
/// seconds pass takes a clock that runs faster, or lets it jump.
#[derive(Clone, Debug)]
pub struct MeshClock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    origin: Instant,
    speed: u32,
    ahead_nanos: AtomicU64,
}

impl MeshClock {
    /// The monotonic clock of the system.
    #[must_use]
    pub fn system() -> Self {
        Self::faster(1)
    }

    /// A clock on which `speed` seconds pass in one; 0 counts as 1. For tests.
    #[must_use]
    pub fn faster(speed: u32) -> Self {
        Self {
            inner: Arc::new(Inner {
                origin: Instant::now(),
                speed: speed.max(1),
                ahead_nanos: AtomicU64::new(0),
            }),
        }
    }

    /// Lets the clock jump, as one does when a machine was suspended. For tests.
    pub fn jump(&self, ahead: Duration) {
        let nanos = u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: the value stands alone and orders nothing else.
        let add = |now: u64| Some(now.saturating_add(nanos));
        let ahead = &self.inner.ahead_nanos;
        // The closure always gives a value, so there is no failure to see.
        ahead
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok();
    }

    pub(crate) fn now(&self) -> Monotonic {
        self.at(Instant::now())
    }

    fn at(&self, instant: Instant) -> Monotonic {
        let passed = instant.saturating_duration_since(self.inner.origin);
        let ahead = self.inner.ahead_nanos.load(Ordering::Relaxed);
        if self.inner.speed == 1 && ahead == 0 {
            // Each request comes here, and no clock but that of a test needs more.
            return Monotonic::from_origin(passed);
        }
        let ahead = Duration::from_nanos(ahead);
        Monotonic::from_origin(
            passed
                .saturating_mul(self.inner.speed)
                .saturating_add(ahead),
        )
    }

    /// How long to wait in real time until `deadline`.
    pub(crate) fn until(&self, deadline: Monotonic) -> Duration {
        self.real(deadline.since(self.now()))
    }

    /// How much real time a duration of this clock takes.
    pub(crate) fn real(&self, duration: Duration) -> Duration {
        duration / self.inner.speed
    }
}

impl Default for MeshClock {
    fn default() -> Self {
        Self::system()
    }
}
