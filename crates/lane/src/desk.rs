//! What a carrier notes from one gate to the next, and how it knows the time without asking for it at
//! every message (EX-65, EX-392).

use std::time::Duration;

use crate::core::Core;
use crate::owner::Owner;
use crate::time::Monotonic;

/// A worker that counted so many items and gates lets the other tasks of its thread run.
const PAUSE_ITEMS: u32 = 128;
/// A worker that measured this much time lets the other tasks of its thread run.
const PAUSE_AFTER: Duration = Duration::from_micros(200);
/// The most handlers between two readings of the clock; only while handlers prove short.
const STRIDE_MAX: u32 = 8;

/// What a carrier keeps between slices.
pub(crate) struct Desk {
    /// The budget of the slice is used up (EX-65).
    pub(crate) cut: bool,
    /// Items of this slice since room was handed to those who wait for it.
    pub(crate) served: u64,
    /// Items and gates since the last pause.
    spent: u32,
    /// Items since the clock was read, and how many are let pass before the next reading.
    since: u32,
    stride: u32,
    /// The carrier was at rest since the last reading.
    rested: bool,
    /// When the carrier last knew the time, and when it began to keep its thread.
    now: Monotonic,
    busy_since: Monotonic,
    slice_start: Monotonic,
    /// The slice began without a reading; it counts from the next one.
    unread: bool,
    /// Items since the worker was told of them, without those that bring nothing.
    handled: u32,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self {
            cut: false,
            served: 0,
            spent: 0,
            since: 0,
            stride: 1,
            rested: true,
            now: Monotonic::ORIGIN,
            busy_since: Monotonic::ORIGIN,
            slice_start: Monotonic::ORIGIN,
            unread: false,
            handled: 0,
        }
    }

    /// The other tasks of the thread had their turn: whatever was read before is old.
    pub(crate) fn rest(&mut self) {
        self.rested = true;
        self.spent = 0;
    }

    /// Asked after a handler ended, never during one (EX-65). Whether the clock was read: only then
    /// may the slice be over, or a pause due.
    ///
    /// It is read after every handler until handlers prove short; then after at most [`STRIDE_MAX`],
    /// so that a message of a few dozen nanoseconds does not pay for a reading (EX-392).
    #[inline]
    pub(crate) fn count_item<O: Owner>(&mut self, core: &Core<O>) -> bool {
        self.served += 1;
        self.since += 1;
        if self.since < self.stride {
            return false;
        }
        self.read_clock(core);
        self.cut = self.now.since(self.slice_start) >= core.kind.limits.owner_time_budget;
        true
    }

    /// Of an item whose end may bring more work to this thread.
    #[inline]
    pub(crate) const fn count_lively(&mut self) {
        self.handled += 1;
    }

    pub(crate) fn take_handled(&mut self) -> u32 {
        std::mem::take(&mut self.handled)
    }

    /// A gate that leads nowhere counts as well, so that a long row of them ends.
    #[inline]
    pub(crate) fn count_gate(&mut self) {
        self.spent += 1;
    }

    /// Whether the other tasks of the thread should have their turn.
    #[inline]
    pub(crate) fn wants_pause(&self) -> bool {
        self.spent >= PAUSE_ITEMS
            || (!self.rested && self.now.since(self.busy_since) >= PAUSE_AFTER)
    }

    #[inline(never)]
    fn read_clock<O: Owner>(&mut self, core: &Core<O>) {
        let before = self.now;
        self.now = core.shared().clock.now();
        self.spent = self.spent.saturating_add(self.since);
        self.since = 0;
        let rested = std::mem::take(&mut self.rested);
        if rested {
            self.busy_since = self.now;
        }
        if self.now.since(before) < core.kind.limits.owner_time_budget / 64 {
            self.stride = (self.stride * 2).min(STRIDE_MAX);
        } else if !rested {
            self.stride = 1;
        }
        if std::mem::take(&mut self.unread) {
            self.slice_start = self.now;
        }
    }

    /// The start of the slice, for whoever goes on with it.
    pub(crate) fn slice_start<O: Owner>(&mut self, core: &Core<O>) -> Monotonic {
        if self.unread {
            self.read_clock(core);
        }
        self.slice_start
    }

    /// A gate is taken from the ready set. The last reading serves as its start as long as it is no
    /// older than the stride allows.
    #[inline]
    pub(crate) fn start_slice<O: Owner>(&mut self, core: &Core<O>, entries: usize) {
        self.cut = false;
        self.served = 0;
        self.unread = false;
        if self.rested {
            if entries == 1 && self.stride > 1 {
                // Handlers proved short and there is one item: most likely nobody will want to know.
                self.unread = true;
            } else {
                self.read_clock(core);
            }
        }
        self.slice_start = self.now;
    }

    /// A gate that was never let go comes back from another carrier, which ran one item in it: that
    /// item counts for the slice too (EX-66).
    pub(crate) fn continue_slice<O: Owner>(&mut self, core: &Core<O>, start: Option<Monotonic>) {
        self.served = 0;
        self.unread = false;
        self.read_clock(core);
        self.slice_start = start.unwrap_or(self.now);
        self.cut = self.now.since(self.slice_start) >= core.kind.limits.owner_time_budget;
    }
}
