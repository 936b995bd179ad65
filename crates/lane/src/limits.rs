//! What one lane may hold and how long it may run: policy values, injected, never constants of a queue.

use std::time::Duration;

/// How much accepted and not yet finished work one FIFO of a lane may hold (EX-90, EX-91).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoLimits {
    pub(crate) items_max: u64,
    pub(crate) bytes_max: u64,
}

impl FifoLimits {
    /// A FIFO that holds at most `items_max` items and `bytes_max` bytes. Zero is raised to one, since
    /// a FIFO that accepts nothing is not a FIFO.
    pub const fn new(items_max: u64, bytes_max: u64) -> Self {
        Self {
            items_max: if items_max == 0 { 1 } else { items_max },
            bytes_max: if bytes_max == 0 { 1 } else { bytes_max },
        }
    }

    /// The greatest number of accepted, unfinished items.
    pub const fn items_max(self) -> u64 {
        self.items_max
    }

    /// The greatest sum of the charges of accepted, unfinished items, in bytes.
    pub const fn bytes_max(self) -> u64 {
        self.bytes_max
    }
}

/// The limits of one lane (EX-90, EX-91, EX-92). The defaults are those of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    pub(crate) application: FifoLimits,
    pub(crate) lifecycle: FifoLimits,
    pub(crate) fixed_work_byte_cost: u64,
    pub(crate) lifecycle_burst_limit: u8,
    pub(crate) owner_time_budget: Duration,
}

impl LaneLimits {
    /// The contract's defaults: 1,024 items and 64 MiB of application work, 128 items and 4 MiB of
    /// lifecycle work, 256 bytes for every item, 8 lifecycle turns in a row, 10 ms a slice.
    pub const DEFAULT: Self = Self {
        application: FifoLimits::new(1024, 67_108_864),
        lifecycle: FifoLimits::new(128, 4_194_304),
        fixed_work_byte_cost: 256,
        lifecycle_burst_limit: 8,
        owner_time_budget: Duration::from_millis(10),
    };

    /// Replaces the limits of the application FIFO (EX-90).
    #[must_use]
    pub const fn application(mut self, limits: FifoLimits) -> Self {
        self.application = limits;
        self
    }

    /// Replaces the limits of the lifecycle FIFO (EX-91).
    #[must_use]
    pub const fn lifecycle(mut self, limits: FifoLimits) -> Self {
        self.lifecycle = limits;
        self
    }

    /// Replaces what an item is charged besides its payload, in bytes (EX-92, EX-93).
    #[must_use]
    pub const fn fixed_work_byte_cost(mut self, bytes: u64) -> Self {
        self.fixed_work_byte_cost = bytes;
        self
    }

    /// Replaces how many lifecycle turns may run in a row while application work waits (EX-62). Zero
    /// is raised to one.
    #[must_use]
    pub const fn lifecycle_burst_limit(mut self, turns: u8) -> Self {
        self.lifecycle_burst_limit = if turns == 0 { 1 } else { turns };
        self
    }

    /// Replaces how long a gate may stay on a worker while others wait (EX-65).
    #[must_use]
    pub const fn owner_time_budget(mut self, budget: Duration) -> Self {
        self.owner_time_budget = budget;
        self
    }
}

impl Default for LaneLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
