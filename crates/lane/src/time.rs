//! The engine's idea of time: a value that is handed in, never a clock that is asked behind its back.

use std::fmt;
use std::time::Duration;

/// A point on the monotonic clock of one host, in nanoseconds since an origin the host chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(u64);

impl Monotonic {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(0);

    /// The point `since_origin` after the origin. Durations beyond 584 years are cut.
    pub fn from_origin(since_origin: Duration) -> Self {
        Self(u64::try_from(since_origin.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time between the origin and this point.
    pub fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The point `by` later; stays at the end of the clock instead of wrapping.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(by))
    }

    /// How much time passed from `earlier` to this point; zero when `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Reads the monotonic clock of the host.
///
/// The engine asks it for the owner time budget only (EX-65), once at the start of a slice and after
/// handlers ended. Implementations must be cheap and must not call back into the engine.
pub trait Clock: Send + Sync + 'static {
    /// The current point in time; never earlier than a point returned before.
    fn now(&self) -> Monotonic;
}

impl<F> Clock for F
where
    F: Fn() -> Monotonic + Send + Sync + 'static,
{
    fn now(&self) -> Monotonic {
        self()
    }
}

impl fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
