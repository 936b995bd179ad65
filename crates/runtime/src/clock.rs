//! The only place of the runtime that reads clocks, and the conversions between the kinds of time.

use std::time::{Duration, Instant, SystemTime};

use spotlane_lane::Clock;
use spotlane_location::Timing;
use spotlane_store::StoreTime;
use spotlane_types::time::UnixMillis;

use crate::random;

/// The monotonic clock of one host: nanoseconds since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    origin: Instant,
}

impl HostClock {
    #[expect(clippy::disallowed_methods, reason = "the one reader of the clock")]
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// How long the host runs.
    #[expect(clippy::disallowed_methods, reason = "the one reader of the clock")]
    pub(crate) fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.origin)
    }

    /// Now, as the repository counts.
    pub(crate) fn location_now(&self) -> spotlane_location::Monotonic {
        spotlane_location::Monotonic::from_origin(self.elapsed())
    }

    /// Now in Unix milliseconds: what wire and store carry.
    #[expect(
        clippy::unused_self,
        reason = "the clock of a host is asked, not that of the process"
    )]
    pub(crate) fn unix(self) -> UnixMillis {
        unix_now()
    }
}

impl Clock for HostClock {
    fn now(&self) -> spotlane_lane::Monotonic {
        spotlane_lane::Monotonic::from_origin(self.elapsed())
    }
}

/// The system's time in Unix milliseconds.
#[expect(clippy::disallowed_methods, reason = "the one reader of the clock")]
fn unix_now() -> UnixMillis {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    UnixMillis::new(millis).unwrap_or(UnixMillis::MIN)
}

/// The system's time as a store in memory wants it.
pub fn store_time() -> StoreTime {
    StoreTime::from_unix_millis(unix_now().get())
}

/// How the repository waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostTiming(pub(crate) HostClock);

impl Timing for HostTiming {
    fn now(&self) -> spotlane_location::Monotonic {
        self.0.location_now()
    }

    async fn pause(&self, attempt: u32) {
        tokio::time::sleep(backoff(attempt, random::u64())).await;
    }
}

/// 2 ms for the first repeat, doubled to 250 ms, with a quarter of chance on top so that rivals fall out of step.
pub(crate) fn backoff(attempt: u32, chance: u64) -> Duration {
    let step = Duration::from_millis(2u64.saturating_mul(1 << attempt.min(7)));
    let step = step.min(Duration::from_millis(250));
    let quarter = u64::try_from(step.as_micros() / 4).unwrap_or(0);
    step + Duration::from_micros(chance % (quarter + 1))
}

/// A point in time until which one call may wait: fixed once, at submit (RL-81, EX-268).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    clock: HostClock,
    at: Duration,
}

impl Deadline {
    pub(crate) fn after(clock: HostClock, timeout: Duration) -> Self {
        Self {
            clock,
            at: clock.elapsed().saturating_add(timeout),
        }
    }

    /// What is left; `None` when it has passed.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.at.saturating_sub(self.clock.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// When it is, on the host's clock.
    pub(crate) const fn at(&self) -> Duration {
        self.at
    }

    /// As the repository counts.
    pub(crate) fn location(&self) -> spotlane_location::Monotonic {
        spotlane_location::Monotonic::from_origin(self.at)
    }

    /// As it travels.
    pub(crate) fn unix(&self) -> UnixMillis {
        let left = self.left().unwrap_or_default();
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        UnixMillis::new(self.clock.unix().get().saturating_add(left)).unwrap_or(UnixMillis::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_to_a_bound_and_has_some_chance_in_it() {
        assert_eq!(backoff(0, 0), Duration::from_millis(2));
        assert_eq!(backoff(3, 0), Duration::from_millis(16));
        assert_eq!(backoff(40, 0), Duration::from_millis(250));
        assert!(backoff(40, u64::MAX) <= Duration::from_micros(312_500));
    }
}
