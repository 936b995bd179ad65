//! Values by sequence, most of which leave in about the order in which they came.

use std::collections::{BTreeMap, VecDeque};

use crate::zmp::Sequence;

/// The places that are kept in a row: from the oldest one that waits to the newest.
const ROW_MAX: usize = 1024;

/// A table by sequence, whose sequences count up from one.
///
/// The newest are found by their place in a row; what stays behind for long moves into a tree, so that
/// one value that waits does not keep the places of all that came and went since.
#[derive(Debug)]
pub struct Window<T> {
    row: VecDeque<Option<T>>,
    /// The sequence of the first place of the row.
    first: Sequence,
    old: BTreeMap<Sequence, T>,
    next: Sequence,
    len: usize,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Window<T> {
    /// Empty; the first sequence is [`Sequence::FIRST`].
    pub const fn new() -> Self {
        Self {
            row: VecDeque::new(),
            first: Sequence::FIRST,
            old: BTreeMap::new(),
            next: Sequence::FIRST,
            len: 0,
        }
    }

    /// The sequence of the next value.
    pub const fn next(&self) -> Sequence {
        self.next
    }

    /// How many values there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a value and gives its sequence.
    pub fn push(&mut self, value: T) -> Sequence {
        let sequence = self.next;
        self.next = sequence.next();
        if self.row.len() >= ROW_MAX {
            self.shorten();
        }
        self.row.push_back(Some(value));
        self.len = self.len.saturating_add(1);
        sequence
    }

    fn shorten(&mut self) {
        if let Some(Some(value)) = self.row.pop_front() {
            self.old.insert(self.first, value);
        }
        self.first = self.first.next();
        self.trim();
    }

    /// Gives up places in front that are empty.
    fn trim(&mut self) {
        while let Some(None) = self.row.front() {
            self.row.pop_front();
            self.first = self.first.next();
        }
    }

    fn place(&self, sequence: Sequence) -> Option<usize> {
        let distance = sequence.get().checked_sub(self.first.get())?;
        usize::try_from(distance).ok()
    }

    /// The value of a sequence.
    pub fn get(&self, sequence: Sequence) -> Option<&T> {
        match self.place(sequence) {
            Some(place) => self.row.get(place)?.as_ref(),
            None => self.old.get(&sequence),
        }
    }

    /// As [`Self::get`], for a value that is changed where it is.
    pub fn get_mut(&mut self, sequence: Sequence) -> Option<&mut T> {
        match self.place(sequence) {
            Some(place) => self.row.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&sequence),
        }
    }

    /// Takes the value of a sequence out.
    pub fn take(&mut self, sequence: Sequence) -> Option<T> {
        let value = match self.place(sequence) {
            Some(place) => self.row.get_mut(place)?.take()?,
            None => self.old.remove(&sequence)?,
        };
        self.len = self.len.saturating_sub(1);
        self.trim();
        Some(value)
    }

    /// Takes the oldest value out.
    pub fn pop(&mut self) -> Option<(Sequence, T)> {
        if let Some((sequence, value)) = self.old.pop_first() {
            self.len = self.len.saturating_sub(1);
            return Some((sequence, value));
        }
        self.trim();
        let sequence = self.first;
        Some((sequence, self.take(sequence)?))
    }

    /// The values from a sequence on, in order.
    pub fn from(&self, sequence: Sequence) -> impl Iterator<Item = (Sequence, &T)> {
        let old = self.old.range(sequence..).map(|(at, value)| (*at, value));
        let skip = self.place(sequence).unwrap_or(0);
        let mut at = self.first;
        let row = self.row.iter().map(move |value| {
            let here = at;
            at = at.next();
            (here, value)
        });
        let row = row.skip(skip);
        old.chain(row.filter_map(|(at, value)| Some((at, value.as_ref()?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-40: the same as a tree, for values that leave in any order.
    #[test]
    fn it_is_a_table_by_sequence() {
        let mut window = Window::new();
        let mut model = BTreeMap::new();
        let mut random = 7_u64;
        for step in 0..50_000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if random >> 63 == 0 {
                let sequence = window.push(step);
                model.insert(sequence, step);
            } else {
                let back = (random >> 40) % 3000;
                let at = window.next().get().saturating_sub(back);
                if let Some(sequence) = Sequence::new(at) {
                    assert_eq!(window.get(sequence), model.get(&sequence));
                    assert_eq!(window.take(sequence), model.remove(&sequence));
                }
            }
            assert_eq!(window.len(), model.len());
            assert!(window.row.len() <= ROW_MAX);
        }
        let from = Sequence::new(window.next().get() - 1500).unwrap();
        let all: Vec<_> = window.from(from).map(|(at, value)| (at, *value)).collect();
        let expected: Vec<_> = model
            .range(from..)
            .map(|(at, value)| (*at, *value))
            .collect();
        assert_eq!(all, expected);
        for expected in model {
            assert_eq!(window.pop(), Some(expected));
        }
        assert_eq!(window.pop(), None);
    }
}
