//! The bounded cursor through which every read goes.

use bytes::Bytes;
use spotlane_types::ValueError;
use spotlane_types::kind::MeshOperationKind;
use spotlane_types::text::Borrowed;

use crate::error::{DecodeError, ErrorKind, Reason};
use crate::frame_slice::FrameSlice;
use crate::width::wide;

/// What reading a value gives.
pub type Read<T> = Result<T, DecodeError>;

/// A cursor over one frame or standalone value. Its only end is the end of the input.
#[derive(Debug)]
pub struct Reader<'a> {
    input: FrameSlice<'a>,
    rest: &'a [u8],
    /// The flags of the record, for fields that are there only with a flag.
    flags: u8,
    /// The operation that a reply answers, for its tail (WR-21).
    pending: MeshOperationKind,
}

/// A length-delimited part that was opened and has to end where its length says.
#[derive(Debug)]
#[must_use]
pub(crate) struct Part {
    /// Where the length field stands.
    at: usize,
    /// Where the fields begin.
    start: usize,
    declared: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(input: impl Into<FrameSlice<'a>>) -> Self {
        let input = input.into();
        Self {
            input,
            rest: input.as_bytes(),
            flags: 0,
            pending: MeshOperationKind::None,
        }
    }

    /// A cursor behind the header of frame 0.
    #[inline]
    pub(crate) fn of_body(frame: FrameSlice<'a>, flags: u8, pending: MeshOperationKind) -> Self {
        let body = frame.as_bytes().get(crate::record::HEADER_BYTES..);
        let rest = body.unwrap_or_default();
        Self {
            input: frame,
            rest,
            flags,
            pending,
        }
    }

    #[inline]
    pub(crate) const fn flags(&self) -> u8 {
        self.flags
    }

    #[inline]
    pub(crate) const fn pending(&self) -> MeshOperationKind {
        self.pending
    }

    #[inline]
    pub(crate) fn offset(&self) -> usize {
        let whole = self.input.as_bytes().len();
        whole.saturating_sub(self.rest.len())
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[cold]
    fn truncated(&self, at: usize, needed: usize) -> DecodeError {
        let missing = needed.saturating_sub(self.rest.len());
        DecodeError::new(ErrorKind::TruncatedField, at, Reason::Missing(missing))
    }

    #[cold]
    pub(crate) fn invalid(at: usize, reason: Reason) -> DecodeError {
        DecodeError::new(ErrorKind::InvalidField, at, reason)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.truncated(self.offset(), N)),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Read<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Read<u16> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self) -> Read<i64> {
        self.array().map(i64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn bytes32(&mut self) -> Read<[u8; 32]> {
        self.array()
    }

    /// Finds a short string whose length prefix has been read; `borrow` judges length and bytes.
    #[inline]
    pub(crate) fn borrowed<T>(
        &mut self,
        at: usize,
        len: usize,
        borrow: impl FnOnce(&'a [u8], usize) -> Result<Option<Borrowed<'a, T>>, ValueError>,
    ) -> Read<Borrowed<'a, T>> {
        match borrow(self.rest, len) {
            Ok(Some(value)) => {
                // `borrow` found `len` bytes, so the tail exists.
                self.rest = self.rest.get(len..).unwrap_or_default();
                Ok(value)
            }
            Ok(None) => Err(self.truncated(at, len)),
            Err(error) => Err(Self::invalid(at, Reason::Value(error))),
        }
    }

    /// Reads text whose length prefix has been read, without making anything of it.
    pub(crate) fn text(
        &mut self,
        at: usize,
        len: usize,
        (min, max): (usize, usize),
        check: impl FnOnce(&[u8]) -> Result<(), ValueError>,
    ) -> Read<&'a [u8]> {
        if len < min {
            let reason = Reason::Expected {
                expected: wide(min),
                actual: wide(len),
            };
            return Err(Self::invalid(at, reason));
        }
        if len > max {
            let reason = Reason::Above {
                bound: wide(max),
                actual: wide(len),
            };
            return Err(Self::invalid(at, reason));
        }
        let rest: &'a [u8] = self.rest;
        let Some((text, tail)) = rest.split_at_checked(len) else {
            return Err(self.truncated(at, len));
        };
        check(text).map_err(|e| Self::invalid(at, Reason::Value(e)))?;
        self.rest = tail;
        Ok(text)
    }

    /// A slice of the input, not a copy (WR-7). `at` is where the field began.
    #[inline]
    pub(crate) fn slice(&mut self, at: usize, len: usize) -> Read<Bytes> {
        let (frame, part) = self.part_of_frame(at, len)?;
        Ok(frame.share(part))
    }

    /// The next `len` bytes and the frame they lie in. `at` is where the field began.
    #[inline]
    pub(crate) fn part_of_frame(
        &mut self,
        at: usize,
        len: usize,
    ) -> Read<(FrameSlice<'a>, &'a [u8])> {
        let rest: &'a [u8] = self.rest;
        let Some((part, tail)) = rest.split_at_checked(len) else {
            return Err(self.truncated(at, len));
        };
        self.rest = tail;
        Ok((self.input, part))
    }

    /// The bytes of the input from `start` to the cursor.
    pub(crate) fn bytes_since(&self, start: usize) -> &'a [u8] {
        let input = self.input.as_bytes();
        input.get(start..self.offset()).unwrap_or_default()
    }

    /// The part of the input from `start` to the cursor, as a slice.
    pub(crate) fn since(&self, start: usize) -> Bytes {
        self.input.share(self.bytes_since(start))
    }

    /// Passes over `len` bytes. `at` is where the field began.
    pub(crate) fn skip(&mut self, at: usize, len: usize) -> Read<()> {
        let Some(tail) = self.rest.get(len..) else {
            return Err(self.truncated(at, len));
        };
        self.rest = tail;
        Ok(())
    }

    /// A length as a number of bytes in memory. What does not fit cannot be there either.
    #[inline]
    pub(crate) fn length(&self, at: usize, len: u64) -> Read<usize> {
        usize::try_from(len).map_err(|_| self.truncated(at, usize::MAX))
    }

    #[inline]
    pub(crate) fn part_u16(&mut self) -> Read<Part> {
        let at = self.offset();
        let declared = u64::from(self.u16()?);
        Ok(Part {
            at,
            start: self.offset(),
            declared,
        })
    }

    pub(crate) fn part_u32(&mut self, max: u32) -> Read<Part> {
        let at = self.offset();
        let declared = self.u32()?;
        if declared > max {
            let reason = Reason::Above {
                bound: u64::from(max),
                actual: u64::from(declared),
            };
            return Err(Self::invalid(at, reason));
        }
        Ok(Part {
            at,
            start: self.offset(),
            declared: u64::from(declared),
        })
    }

    pub(crate) fn part_u64(&mut self) -> Read<Part> {
        let at = self.offset();
        let declared = self.u64()?;
        Ok(Part {
            at,
            start: self.offset(),
            declared,
        })
    }

    /// WR-5: the fields were read; only now is the declared length compared with what they took.
    #[inline]
    pub(crate) fn end_part(&self, part: &Part) -> Read<()> {
        let taken = wide(self.offset().saturating_sub(part.start));
        if taken == part.declared {
            return Ok(());
        }
        Err(Self::invalid(
            part.at,
            Reason::Expected {
                expected: taken,
                actual: part.declared,
            },
        ))
    }

    /// How many bytes of the part are still to come; zero once it is used up.
    pub(crate) fn left_in(&self, part: &Part) -> u64 {
        let taken = wide(self.offset().saturating_sub(part.start));
        part.declared.saturating_sub(taken)
    }

    /// WR-4: a count has to fit the remaining bytes before anything is allocated for it.
    pub(crate) fn count(&self, at: usize, count: usize, element_min: usize) -> Read<()> {
        let needed = count.saturating_mul(element_min);
        if needed > self.remaining() {
            return Err(self.truncated(at, needed));
        }
        Ok(())
    }

    /// The end of the frame or value.
    #[inline]
    pub(crate) fn finish(&self) -> Read<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let reason = Reason::LeftOver(self.rest.len());
        Err(DecodeError::new(
            ErrorKind::TrailingByte,
            self.offset(),
            reason,
        ))
    }
}
