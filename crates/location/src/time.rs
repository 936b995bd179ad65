//! The host's own clock, as an argument.

use spotlane_types::time::Monotonic;

/// What the drivers of this crate need of time. The runtime implements it once; tests move it by hand.
///
/// Its time is never compared with the store's: only the store decides expiry (ST-6).
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
