//! A bounded position in one frame or standalone value.

use crate::model::Encoding;
use crate::refusal::Fault;

/// Reads from the front; every error is a truncated field at the given start.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at `at`, so that offsets count from the start of the frame.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// `count` bytes; without them the field that began at `start` is truncated.
    pub(crate) fn take(&mut self, count: usize, start: usize) -> Result<&'a [u8], Fault> {
        if count > self.remaining() {
            return Err(Fault::truncated(start));
        }
        let from = self.at;
        self.at += count;
        Ok(&self.bytes[from..self.at])
    }

    pub(crate) fn integer(&mut self, encoding: Encoding, start: usize) -> Result<u64, Fault> {
        let bytes = self.take(encoding.size(), start)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}
