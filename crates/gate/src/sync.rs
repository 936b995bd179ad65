//! Atomics and cells, or those of a model checker under `cfg(loom)` and `cfg(shuttle)`.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::sync::atomic::{AtomicU32, Ordering};

/// Lets other threads run while a lock is waited for.
pub(crate) fn yield_now() {
    #[cfg(not(any(loom, shuttle)))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(all(shuttle, not(loom)))]
    shuttle::thread::yield_now();
}

/// A cell that says nothing about who may look inside; loom is told of each look, and objects to two that are not in order.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> Cell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) const fn look(&self) -> *mut T {
        self.0.get()
    }
}

#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Cell<T>(loom::cell::UnsafeCell<T>);

#[cfg(loom)]
impl<T> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    pub(crate) fn look(&self) -> *mut T {
        self.0.with_mut(|pointer| pointer)
    }
}

/// A model checker cannot follow who spins, so those who want a lock wait at a door that it knows.
#[cfg(any(loom, shuttle))]
pub(crate) mod door {
    #[cfg(loom)]
    use loom::sync as imp;
    #[cfg(all(shuttle, not(loom)))]
    use shuttle::sync as imp;

    pub(crate) type Guard<'a> = imp::MutexGuard<'a, ()>;

    #[derive(Debug)]
    pub(crate) struct Door(imp::Mutex<()>);

    impl Door {
        pub(crate) fn new() -> Self {
            Self(imp::Mutex::new(()))
        }

        pub(crate) fn pass(&self) -> Guard<'_> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }
}
