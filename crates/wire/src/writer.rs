//! Canonical output through which every write goes.

use bytes::Bytes;

use crate::error::{EncodeError, Reason};
use crate::width::wide;

/// What writing a value gives.
pub type Written = Result<(), EncodeError>;

/// Payloads from this size on are handed over as a part of their own; below, a copy is cheaper than one
/// more element of a vectored write.
pub(crate) const SPLIT_MIN: usize = 512;

/// An output that grows and is reused.
///
/// The buffer keeps its full length and a position instead of growing with each write: a short string
/// is then copied with a constant size, and what lies behind the position is overwritten or cut off.
#[derive(Debug)]
pub struct Writer<'b> {
    buf: &'b mut Vec<u8>,
    at: usize,
    /// The payload that follows the written bytes, in a record that is built for a vectored write.
    tail: Option<Bytes>,
    split_from: usize,
}

/// An opened length field that waits for its value.
#[derive(Debug)]
#[must_use]
pub(crate) struct OpenPart {
    at: usize,
    start: usize,
}

impl<'b> Writer<'b> {
    /// Writes behind position `at` of `buf`. A payload that ends the output stays a part of its own.
    pub(crate) fn split(buf: &'b mut Vec<u8>, at: usize) -> Self {
        Self {
            buf,
            at,
            tail: None,
            split_from: SPLIT_MIN,
        }
    }

    /// Writes everything into `buf`, payloads included.
    pub(crate) fn joined(buf: &'b mut Vec<u8>, at: usize) -> Self {
        Self {
            buf,
            at,
            tail: None,
            split_from: usize::MAX,
        }
    }

    /// The position behind what was written.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The written end and the payload that follows it.
    pub(crate) fn into_tail(self) -> (usize, Option<Bytes>) {
        (self.at, self.tail)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) {
        let len = end.max(self.buf.len().saturating_mul(2)).max(256);
        self.buf.resize(len, 0);
    }

    #[inline]
    fn array<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.put(bytes);
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        debug_assert!(self.tail.is_none(), "a payload ends its output");
        let end = self.at.saturating_add(bytes.len());
        if end > self.buf.len() {
            self.grow(end);
        }
        if let Some(place) = self.buf.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
    }

    /// Writes a length of one byte and `bytes[..len]`, copying the whole array, which is faster.
    #[inline]
    pub(crate) fn put_short<const N: usize>(&mut self, len: u8, bytes: &[u8; N]) {
        debug_assert!(self.tail.is_none(), "a payload ends its output");
        let start = self.at.saturating_add(1);
        let end = start.saturating_add(N);
        if end > self.buf.len() {
            self.grow(end);
        }
        if let Some([first, place @ ..]) = self.buf.get_mut(self.at..end) {
            *first = len;
            place.copy_from_slice(bytes);
        }
        self.at = start.saturating_add(usize::from(len));
    }

    #[inline]
    pub(crate) fn u8(&mut self, value: u8) {
        self.array(&[value]);
    }

    #[inline]
    pub(crate) fn u16(&mut self, value: u16) {
        self.array(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.array(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u64(&mut self, value: u64) {
        self.array(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn i64(&mut self, value: i64) {
        self.array(&value.to_be_bytes());
    }

    /// A payload: a copy when it is small, otherwise a part of its own that ends the output (WR-7).
    #[inline]
    pub(crate) fn payload(&mut self, bytes: &Bytes) {
        if bytes.len() >= self.split_from {
            self.tail = Some(bytes.clone());
        } else {
            self.put(bytes);
        }
    }

    #[inline]
    pub(crate) fn open_u16(&mut self) -> OpenPart {
        let at = self.at;
        self.u16(0);
        OpenPart { at, start: self.at }
    }

    #[inline]
    pub(crate) fn open_u32(&mut self) -> OpenPart {
        let at = self.at;
        self.u32(0);
        OpenPart { at, start: self.at }
    }

    pub(crate) fn open_u64(&mut self) -> OpenPart {
        let at = self.at;
        self.u64(0);
        OpenPart { at, start: self.at }
    }

    #[inline]
    fn length(&self, part: &OpenPart) -> usize {
        let tail = self.tail.as_ref().map_or(0, Bytes::len);
        self.at.saturating_sub(part.start).saturating_add(tail)
    }

    #[inline]
    fn patch<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        let end = at.saturating_add(N);
        if let Some(place) = self.buf.get_mut(at..end) {
            place.copy_from_slice(&bytes);
        }
    }

    #[inline]
    pub(crate) fn close_u16(&mut self, part: OpenPart) -> Written {
        let len = self.length(&part);
        let value = u16::try_from(len).map_err(|_| too_long(len, u64::from(u16::MAX)))?;
        self.patch(part.at, value.to_be_bytes());
        Ok(())
    }

    #[inline]
    pub(crate) fn close_u32(&mut self, part: OpenPart, max: u32) -> Written {
        let len = self.length(&part);
        let value = u32::try_from(len).ok().filter(|len| *len <= max);
        self.patch(
            part.at,
            value
                .ok_or_else(|| too_long(len, u64::from(max)))?
                .to_be_bytes(),
        );
        Ok(())
    }

    pub(crate) fn close_u64(&mut self, part: OpenPart) -> Written {
        let len = self.length(&part);
        let value = u64::try_from(len).map_err(|_| too_long(len, u64::MAX))?;
        self.patch(part.at, value.to_be_bytes());
        Ok(())
    }
}

#[cold]
pub(crate) fn too_long(len: usize, bound: u64) -> EncodeError {
    EncodeError::new(Reason::Above {
        bound,
        actual: wide(len),
    })
}
