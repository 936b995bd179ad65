//! Points in time: as wire and store carry them, and of the clock that drives timers.

use core::time::Duration;

use crate::bound::GENERATION_MAX;
use crate::number::number_type;

number_type! {
    /// Milliseconds since 1970 in UTC.
    UnixMillis: u64, 0, u64::MAX, PartialOrd, Ord;
    /// A deadline in milliseconds since 1970 in UTC; never zero.
    DeadlineUnixMillis: u64, 1, GENERATION_MAX, PartialOrd, Ord;
}

/// A point on the monotonic clock of one process, for timers.
///
/// Counted from an origin that the driver chooses, so points of two processes have nothing in common.
/// All arithmetic stops at the ends of the range instead of wrapping, so a deadline that is too far
/// away is simply never reached.
///
/// ```
/// use core::time::Duration;
/// use spotlane_types::time::Monotonic;
///
/// let now = Monotonic::from_origin(Duration::from_secs(3));
/// let deadline = now.after(Duration::from_secs(2));
/// assert!(now < deadline);
/// assert_eq!(deadline.since(now), Duration::from_secs(2));
/// assert_eq!(now.since(deadline), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// The point that lies `elapsed` behind the origin.
    #[must_use]
    pub const fn from_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time between the origin and this point.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The point that lies `duration` behind this one.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// The time from `earlier` to this point; zero when `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
