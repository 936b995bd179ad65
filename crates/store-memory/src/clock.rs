//! Where the provider's time comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spotlane_store::StoreTime;

/// The clock of a store in memory (ST-6): asked once per operation.
///
/// Every `Fn() -> StoreTime` is one, so a host passes its own reading of the system's clock.
pub trait StoreClock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> StoreTime;
}

impl<F: Fn() -> StoreTime + Send + Sync + 'static> StoreClock for F {
    fn now(&self) -> StoreTime {
        self()
    }
}

/// A clock that stands still until it is moved by hand (ST-20). A clone is the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: StoreTime) -> Self {
        Self(Arc::new(AtomicU64::new(start.as_unix_millis())))
    }

    /// Moves it on by whole milliseconds.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        // Saturating: a clock that wrapped around would bring expired records back.
        self.0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
                Some(now.saturating_add(millis))
            })
            .unwrap_or_default();
    }
}

impl StoreClock for ManualClock {
    fn now(&self) -> StoreTime {
        StoreTime::from_unix_millis(self.0.load(Ordering::SeqCst))
    }
}
