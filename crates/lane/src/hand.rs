//! What a driver has in hand: its own end of an application FIFO, which nobody else reaches (EX-391).

use std::collections::VecDeque;

use crate::core::KEEP_CAPACITY;
use crate::owner::Owner;
use crate::queue::Entry;

/// The entry that a gate came with, and behind it what was taken out of the FIFO as a whole, in the order of acceptance
/// (EX-10). Kept from slice to slice, so that its buffer is used again.
pub(crate) struct Hand<O: Owner> {
    first: Option<Entry<O>>,
    rest: VecDeque<Entry<O>>,
}

impl<O: Owner> Hand<O> {
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            rest: VecDeque::new(),
        }
    }

    /// Begins with the entry that came with a gate.
    #[inline]
    pub(crate) fn begin(&mut self, first: Option<Entry<O>>) {
        debug_assert!(self.is_empty(), "entries in hand come first");
        self.first = first;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Entry<O>> {
        match self.first.take() {
            None => self.rest.pop_front(),
            first => first,
        }
    }

    /// Takes everything out of the FIFO of a lane; buffers are exchanged, nothing is copied.
    #[inline]
    pub(crate) fn take_all(&mut self, app: &mut VecDeque<Entry<O>>) {
        debug_assert!(self.is_empty(), "entries in hand come first");
        std::mem::swap(app, &mut self.rest);
    }

    /// Gives everything back to the FIFO, in front of what came meanwhile. An idle lane keeps a small buffer only; a large
    /// one stays here, or is returned to be dropped without the lock.
    #[inline]
    pub(crate) fn give_back(&mut self, app: &mut VecDeque<Entry<O>>) -> Option<VecDeque<Entry<O>>> {
        if !self.is_empty() {
            if let Some(first) = self.first.take() {
                self.rest.push_front(first);
            }
            self.rest.append(app);
            std::mem::swap(&mut self.rest, app);
        } else if app.is_empty() && app.capacity() > KEEP_CAPACITY {
            if self.rest.capacity() > KEEP_CAPACITY {
                return Some(std::mem::take(app));
            }
            std::mem::swap(app, &mut self.rest);
        }
        None
    }

    /// Everything in hand, in order.
    pub(crate) fn drain(&mut self) -> VecDeque<Entry<O>> {
        let mut all = std::mem::take(&mut self.rest);
        if let Some(first) = self.first.take() {
            all.push_front(first);
        }
        all
    }
}
