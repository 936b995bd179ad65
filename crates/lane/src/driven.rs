//! What only the holder of a gate touches, and the gate of a lane (EX-3, EX-391).

use spotlane_gate::{Front, Gate, Gated, Held, Taken};

use crate::core::{Core, Inner};
use crate::owner::Owner;
use crate::queue::Entry;

/// The object's state, the entry a slice begins with, and the last fencing number.
#[repr(C)]
pub(crate) struct Driven<O: Owner> {
    /// In front of everything that the lane holds.
    pub(crate) first: Option<Entry<O>>,
    /// The last fencing number given out (EX-7).
    pub(crate) turns: u64,
    /// Who served the gate last.
    pub(crate) worker: u8,
    pub(crate) owner: Option<O>,
}

impl<O: Owner> Driven<O> {
    #[inline]
    pub(crate) fn put_first(&mut self, entry: Entry<O>) {
        debug_assert!(self.first.is_none(), "a free gate has nothing in hand");
        // Written without looking at what is there, which would wait for the memory of another processor.
        let _none = std::mem::ManuallyDrop::new(self.first.replace(entry));
    }
}

/// The lock of a lane, and the gate behind it.
pub(crate) type Locked<'a, O> = Front<'a, Inner<O>, Driven<O>>;
/// The gate of a lane, held by a driver; of a bound lane its claim, as long as the state is there.
pub(crate) type Key<'a, O> = Taken<'a, Inner<O>, Driven<O>>;
/// The same on its way from one to the next, together with the lane.
pub(crate) type Hold<O> = Held<Core<O>>;
pub(crate) type LaneGate<O> = Gate<Inner<O>, Driven<O>>;

impl<O: Owner> Gated for Core<O> {
    type Front = Inner<O>;
    type Inside = Driven<O>;

    #[inline]
    fn gate(&self) -> &LaneGate<O> {
        &self.gate
    }
}
