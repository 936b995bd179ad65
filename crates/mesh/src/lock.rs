//! The lock of what each record passes: a link's machine, and a lane's queues.
//!
//! No host code runs under them and nothing is written under them, so each is held for less than it takes to put a thread
//! to sleep and to wake it. A reader wakes many callers at once, which then meet at these locks on all threads of the
//! runtime; with a lock that sleeps, they would wake each other in turn. `docs/decisions/lane-locks.md` has the price.

use spin::mutex::SpinMutex;
pub(crate) use spin::mutex::SpinMutexGuard as MutexGuard;

/// How often a lock is looked at before its thread lets others run: its holder may be one of them.
const LOOKS: u32 = 128;

/// A mutex that spins.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(SpinMutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> MutexGuard<'_, T> {
        loop {
            for _ in 0..LOOKS {
                if !self.0.is_locked()
                    && let Some(guard) = self.0.try_lock()
                {
                    return guard;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}
