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
        let mut inline = [0; INLINE];
        match (inline.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(bytes);
                Self(Repr::Inline { len, bytes: inline })
            }
            _ => Self(Repr::Shared(Arc::from(bytes))),
        }
    }

    /// The first `len` bytes of `input`, or `None` when there are fewer.
    ///
    /// When the input goes on behind the string, the copy has a constant size, which is a few vector
    /// moves instead of a call. What lies behind `len` is never looked at again.
    #[inline]
    pub(crate) fn copy_prefix(input: &[u8], len: usize) -> Option<Self> {
        match (input.first_chunk::<INLINE>(), u8::try_from(len)) {
            (Some(bytes), Ok(short)) if len <= INLINE => Some(Self(Repr::Inline {
                len: short,
                bytes: *bytes,
            })),
            _ => input.get(..len).map(Self::copy_from),
        }
    }

    /// The inline array with the number of bytes that count.
    #[inline]
    pub(crate) fn as_padded(&self) -> Option<(&[u8; INLINE], usize)> {
        match &self.0 {
            Repr::Inline { len, bytes } => Some((bytes, usize::from(*len))),
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
            let from_middle = CompactBytes::copy_prefix(&long, len).unwrap();
            let at_end = CompactBytes::copy_prefix(&long[..len], len).unwrap();
            assert_eq!(exact.as_slice(), &long[..len]);
            assert_eq!(exact, from_middle);
            assert_eq!(exact, at_end);
            assert!(CompactBytes::copy_prefix(&long[..len], len + 1).is_none());
        }
    }

    #[test]
    fn an_id_takes_forty_bytes() {
        assert_eq!(size_of::<CompactBytes>(), 40);
        assert_eq!(size_of::<Option<CompactBytes>>(), 40);
    }
}
