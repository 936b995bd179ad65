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
pub(crate) use imp::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};

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

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// A queue of gates, first in, first out, for any number of pushing and popping threads.
#[cfg(not(any(loom, shuttle)))]
pub(crate) type RunQueue = crossbeam_queue::SegQueue<std::sync::Arc<dyn crate::ready::Runnable>>;

/// What the model checkers see in its place.
#[cfg(any(loom, shuttle))]
pub(crate) struct RunQueue(
    Mutex<std::collections::VecDeque<std::sync::Arc<dyn crate::ready::Runnable>>>,
);

#[cfg(any(loom, shuttle))]
impl Default for RunQueue {
    fn default() -> Self {
        Self(Mutex::new(std::collections::VecDeque::new()))
    }
}

#[cfg(any(loom, shuttle))]
impl RunQueue {
    pub(crate) fn push(&self, job: std::sync::Arc<dyn crate::ready::Runnable>) {
        self.0.lock().push_back(job);
    }

    pub(crate) fn pop(&self) -> Option<std::sync::Arc<dyn crate::ready::Runnable>> {
        self.0.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
