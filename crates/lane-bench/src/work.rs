//! What every peer's actor does, and how the bench learns that all of it is done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;

/// Counts down; the thread that armed it sleeps until nothing is left.
pub(crate) struct Countdown {
    left: AtomicU64,
    sleeper: Mutex<Option<Thread>>,
}

impl Countdown {
    /// Lives as long as the process, so that actors can hold a plain reference.
    pub(crate) fn forever() -> &'static Self {
        Box::leak(Box::new(Self {
            left: AtomicU64::new(0),
            sleeper: Mutex::new(None),
        }))
    }

    pub(crate) fn arm(&self, from: u64) {
        let mut sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        *sleeper = Some(std::thread::current());
        self.left.store(from, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = &*sleeper {
                thread.unpark();
            }
        }
    }

    pub(crate) fn sleep_until_zero(&self) {
        while self.left.load(Ordering::Acquire) != 0 {
            std::thread::park();
        }
    }
}

/// The actor's state: adds up what it is told and reports after a fixed number of messages.
pub(crate) struct Adder {
    sum: u64,
    until_report: u64,
    per_report: u64,
    done: &'static Countdown,
}

impl Adder {
    pub(crate) fn new(per_report: u64, done: &'static Countdown) -> Self {
        Self {
            sum: 0,
            until_report: per_report,
            per_report,
            done,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        self.sum = self.sum.wrapping_add(value);
        self.until_report -= 1;
        if self.until_report == 0 {
            self.until_report = self.per_report;
            self.done.one();
        }
    }

    #[inline]
    pub(crate) fn next(&mut self, value: u64) -> u64 {
        self.sum = self.sum.wrapping_add(value);
        value + 1
    }
}
