//! The one reader of the clock in this crate.

use spotlane_types::time::Monotonic;
use tokio::time::Instant;

/// Turns the clock of tokio, which tests can hold, into points of our own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> Monotonic {
        Monotonic::from_origin(self.origin.elapsed())
    }

    /// When tokio reaches a point.
    pub(crate) fn instant(self, at: Monotonic) -> Instant {
        let far = std::time::Duration::from_hours(24);
        let after = at.since(Monotonic::ORIGIN);
        // What is further away than a day is looked at again in a day.
        let latest = self.now().since(Monotonic::ORIGIN).saturating_add(far);
        self.origin + after.min(latest)
    }
}
