//! The entries of an application FIFO, in the order of their acceptance (EX-10).

use std::collections::VecDeque;

use crate::owner::Owner;
use crate::queue::Entry;

/// A queue whose first entry lies where the queue lies.
///
/// A lane that is served promptly holds one entry at a time. It finds it in the cache line of its lock,
/// and an idle lane keeps no buffer for it.
pub(crate) struct Entries<O: Owner> {
    /// In front of everything in `rest`.
    first: Option<Entry<O>>,
    rest: VecDeque<Entry<O>>,
}

impl<O: Owner> Entries<O> {
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            rest: VecDeque::new(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, entry: Entry<O>) {
        if self.is_empty() {
            self.first = Some(entry);
        } else {
            self.rest.push_back(entry);
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Entry<O>> {
        match self.first.take() {
            None => self.rest.pop_front(),
            first => first,
        }
    }

    /// Moves everything into `hand`, which is empty; buffers are exchanged, not copied.
    #[inline]
    pub(crate) fn move_to(&mut self, hand: &mut Self) {
        debug_assert!(hand.is_empty(), "entries in hand come first");
        hand.first = self.first.take();
        if !self.rest.is_empty() {
            std::mem::swap(&mut self.rest, &mut hand.rest);
        }
    }

    /// Moves everything in `later` behind the last entry.
    pub(crate) fn append(&mut self, later: &mut Self) {
        if let Some(first) = later.first.take() {
            self.push_back(first);
        }
        self.rest.append(&mut later.rest);
    }

    pub(crate) fn extend(&mut self, later: impl IntoIterator<Item = Entry<O>>) {
        for entry in later {
            self.push_back(entry);
        }
    }

    /// How many entries fit into the buffer beside the first one.
    pub(crate) fn capacity(&self) -> usize {
        self.rest.capacity()
    }

    /// Exchanges the buffer of a queue without entries for that of another one.
    pub(crate) fn swap_buffers(&mut self, other: &mut Self) {
        debug_assert!(self.is_empty() && other.is_empty(), "only buffers change");
        std::mem::swap(&mut self.rest, &mut other.rest);
    }

    /// The buffer of a queue without entries.
    pub(crate) fn take_buffer(&mut self) -> VecDeque<Entry<O>> {
        debug_assert!(self.is_empty(), "only the buffer goes");
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn into_deque(mut self) -> VecDeque<Entry<O>> {
        if let Some(first) = self.first.take() {
            self.rest.push_front(first);
        }
        self.rest
    }
}

impl<O: Owner> Default for Entries<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Owner> From<VecDeque<Entry<O>>> for Entries<O> {
    fn from(rest: VecDeque<Entry<O>>) -> Self {
        Self { first: None, rest }
    }
}

impl<O: Owner> IntoIterator for Entries<O> {
    type Item = Entry<O>;
    type IntoIter = std::iter::Chain<
        std::option::IntoIter<Entry<O>>,
        std::collections::vec_deque::IntoIter<Entry<O>>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}
