//! Conversions between lengths in memory and lengths on the wire.

/// A length in memory as a wire number. Exact: no machine has lengths above 64 bits.
#[inline]
pub(crate) fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A wire number as a length in memory; the greatest length when it does not fit.
#[inline]
pub(crate) fn narrow(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
