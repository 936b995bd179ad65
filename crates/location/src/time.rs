//! The host's own clock, as an argument.

use std::time::Duration;

/// A moment of a clock of this host that never runs backwards, counted from a start that means nothing.
///
/// It is its own type, because it may never be compared with the store's time: only the store decides expiry (ST-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The greatest moment.
    pub const MAX: Self = Self(Duration::MAX);

    /// A moment this long after the start of the clock.
    pub const fn from_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the start of the clock.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// This much later, or the greatest moment.
    #[must_use]
    pub const fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// How long until `later`; zero when it is not later.
    pub const fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// What the drivers of this crate need of time. The runtime implements it once; tests move it by hand.
///
/// # Cancel safety
/// Dropping the future of `pause` ends the pause and nothing else.
pub trait Timing: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Monotonic;

    /// Waits before an attempt is repeated: short for the first, longer for each later one, with some chance in it so
    /// that two rivals do not keep in step.
    fn pause(&self, attempt: u32) -> impl Future<Output = ()> + Send;
}
