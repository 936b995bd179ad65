//! What an engine counts. Constant size, no per-item time stamps.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// Counters of one engine. Reading them costs nothing to the workers.
#[derive(Default)]
pub struct Stats {
    failed: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
    ignored: AtomicU64,
    discarded: AtomicU64,
    barriers_dropped: AtomicU64,
    carriers_lost: AtomicU64,
}

impl Stats {
    /// Handlers that reported a failure (EX-12).
    pub fn handlers_failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Handlers that panicked (EX-12).
    pub fn handlers_panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }

    /// Items whose caller gave up before their handler began (EX-301).
    pub fn items_cancelled(&self) -> u64 {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Completions that came under a fencing number nobody waits under (EX-7).
    pub fn fences_ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// Inbound packets that a closing session discarded (EX-111).
    pub fn packets_discarded(&self) -> u64 {
        self.discarded.load(Ordering::Relaxed)
    }

    /// Barriers whose lane had ended or was being moved when their handler ended.
    pub fn barriers_dropped(&self) -> u64 {
        self.barriers_dropped.load(Ordering::Relaxed)
    }

    /// Lanes lost because a value panicked while it was dropped between turns. Always zero unless the
    /// application has such values.
    pub fn carriers_lost(&self) -> u64 {
        self.carriers_lost.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ignored(&self) {
        self.ignored.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn discarded(&self) {
        self.discarded.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn barrier_dropped(&self) {
        self.barriers_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn carrier_lost(&self) {
        self.carriers_lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stats")
            .field("handlers_failed", &self.handlers_failed())
            .field("handlers_panicked", &self.handlers_panicked())
            .field("items_cancelled", &self.items_cancelled())
            .field("fences_ignored", &self.fences_ignored())
            .finish_non_exhaustive()
    }
}
