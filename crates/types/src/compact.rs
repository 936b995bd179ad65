//! Storage of short byte strings: inline up to 38 bytes, shared above.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes that fit beside tag and length in 40 bytes. A UUID in text form (36 bytes) fits.
pub(crate) const INLINE: usize = 38;

/// An immutable byte string that is cheap to clone and never pins a receive buffer.
///
/// Ids live in tables for as long as their object does. A slice of the received buffer would keep the
/// whole buffer alive with them, so short ids are copied (they are at most a cache line) and long
/// ones move into an allocation of their own.
#[derive(Clone)]
pub(crate) struct CompactBytes(Repr);

#[derive(Clone)]
enum Repr {
    /// Only the first `len` bytes count; the others may be anything.
    Inline {
        len: u8,
        bytes: [u8; INLINE],
    },
    Shared(Arc<[u8]>),
}

impl CompactBytes {
    /// Copies `bytes`; allocates only above 38 bytes.
    #[inline]
    pub(crate) fn copy_from(bytes: &[u8]) -> Self {
        Self::copy_prefix(bytes, bytes.len())
    }

    /// The first `len` bytes of `input`; all of `input` when it is shorter.
    ///
    /// When the input goes on behind the string, the copy has a constant size, which is a few vector
    /// moves instead of a call. What lies behind `len` is never looked at again.
    #[inline(always)]
    pub(crate) fn copy_prefix(input: &[u8], len: usize) -> Self {
        let len = len.min(input.len());
        let short = match u8::try_from(len) {
            Ok(short) if len <= INLINE => short,
            _ => return Self(Repr::Shared(share(input, len))),
        };
        let bytes = match input.first_chunk::<INLINE>() {
            Some(bytes) => *bytes,
            None => pad(input),
        };
        Self(Repr::Inline { len: short, bytes })
    }

    /// The inline array with the number of bytes that count.
    #[inline]
    pub(crate) fn as_padded(&self) -> Option<(&[u8; INLINE], u8)> {
        match &self.0 {
            Repr::Inline { len, bytes } => Some((bytes, *len)),
            Repr::Shared(_) => None,
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Repr::Shared(bytes) => bytes,
        }
    }
}

// The rare paths return what fits registers or is copied anyway, so that the common one stays in place.
#[cold]
fn share(input: &[u8], len: usize) -> Arc<[u8]> {
    Arc::from(input.get(..len).unwrap_or(input))
}

/// An input of fewer than 38 bytes, in an array of them.
#[inline]
fn pad(input: &[u8]) -> [u8; INLINE] {
    let mut bytes = [0; INLINE];
    bytes
        .iter_mut()
        .zip(input)
        .for_each(|(place, byte)| *place = *byte);
    bytes
}

impl PartialEq for CompactBytes {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for CompactBytes {}

impl PartialOrd for CompactBytes {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CompactBytes {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for CompactBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for CompactBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_equal_to_itself_however_it_was_copied() {
        for len in [0, 1, 37, 38, 39, 255] {
            let long: Vec<u8> = (0..=u8::MAX).cycle().take(len + 64).collect();
            let exact = CompactBytes::copy_from(&long[..len]);
            let from_middle = CompactBytes::copy_prefix(&long, len);
            let at_end = CompactBytes::copy_prefix(&long[..len], len);
            assert_eq!(exact.as_slice(), &long[..len]);
            assert_eq!(exact, from_middle);
            assert_eq!(exact, at_end);
        }
    }

    #[test]
    fn an_id_takes_forty_bytes() {
        assert_eq!(size_of::<CompactBytes>(), 40);
        assert_eq!(size_of::<Option<CompactBytes>>(), 40);
    }
}
