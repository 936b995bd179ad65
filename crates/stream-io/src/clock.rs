//! The one reader of the clock.

use spotlane_types::time::Monotonic;
use tokio::time::Instant;

/// Turns the clock of tokio, which tests can hold, into points of our own.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The point in time.
    #[must_use]
    pub fn now(self) -> Monotonic {
        Monotonic::from_origin(self.origin.elapsed())
    }

    /// When tokio reaches a point. What is further away than a day is looked at again in a day.
    #[must_use]
    pub fn instant(self, at: Monotonic) -> Instant {
        let far = std::time::Duration::from_hours(24);
        let after = at.since(Monotonic::ORIGIN);
        let latest = self.now().since(Monotonic::ORIGIN).saturating_add(far);
        self.origin + after.min(latest)
    }
}
