//! Points in time as wire and store carry them.

use crate::bound::GENERATION_MAX;
use crate::number::number_type;

number_type! {
    /// Milliseconds since 1970 in UTC.
    UnixMillis: u64, 0, u64::MAX, PartialOrd, Ord;
    /// A deadline in milliseconds since 1970 in UTC; never zero.
    DeadlineUnixMillis: u64, 1, GENERATION_MAX, PartialOrd, Ord;
}
