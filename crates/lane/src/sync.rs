//! Locks and atomics, taken from `std` or, under `cfg(loom)` and `cfg(shuttle)`, from a model checker.
//!
//! `Arc` is always the one of `std`: the engine stores trait objects behind it, and neither checker
//! can turn its own `Arc<T>` into an `Arc<dyn Trait>`. What the models look for are lost wake-ups,
//! double starts and broken hand-overs, and those happen in locks and atomics.

#[cfg(not(any(loom, shuttle)))]
use std::sync as imp;

#[cfg(loom)]
use loom::sync as imp;

#[cfg(all(shuttle, not(loom)))]
use shuttle::sync as imp;

pub(crate) use imp::MutexGuard;
pub(crate) use imp::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A mutex without poisoning.
///
/// No code of an application runs under a lock of this crate (EX-360), so a panic cannot leave half a
/// change behind and a poisoned state would carry no information.
#[derive(Debug)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        match self.0.into_inner() {
            Ok(value) => value,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}
