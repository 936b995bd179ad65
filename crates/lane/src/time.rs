//! The engine's idea of time: a value that is handed in, never a clock that is asked behind its back.

use std::fmt;

pub use spotlane_types::time::Monotonic;

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
