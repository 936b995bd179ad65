//! The limits of the contract. Every constructor of this crate checks its own before any I/O.

use std::time::Duration;

/// Longest key in bytes of UTF-8 (ST-4); the shortest has one byte.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Longest value in bytes (ST-4); an empty value is a value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Longest version in bytes of UTF-8 (ST-4); the shortest has one byte.
pub const VERSION_BYTES_MAX: usize = 4_096;
/// Most distinct keys of one write, over its conditions and mutations together (ST-4).
pub const BATCH_KEYS_MAX: usize = 2_048;
/// Largest encoded write in bytes, see [`WriteRequest::encoded_bytes`](crate::WriteRequest::encoded_bytes) (ST-4).
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Longest prefix of a scan in bytes; an empty one names all keys (ST-5).
pub const PREFIX_BYTES_MAX: usize = 1_024;
/// Most rows of one page; the least is one (ST-5).
pub const PAGE_ROWS_MAX: usize = 1_000;
/// Largest encoded page in bytes, see [`Row::encoded_bytes`](crate::Row::encoded_bytes) (ST-5).
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// Longest cursor in bytes; the shortest has one (ST-5).
pub const CURSOR_BYTES_MAX: usize = 4_096;
/// Longest time to live: a hundred years of 365 days. The contract has no limit of its own; this one keeps every
/// expiry exact in all providers, whatever they calculate with.
pub const TTL_MAX: Duration = Duration::from_hours(100 * 365 * 24);
/// Longest reference of a relocation blob in bytes of UTF-8 (`relocation-reference` of the wire contract).
pub const REFERENCE_BYTES_MAX: usize = 4_096;

/// What every condition, mutation and row counts beside the bytes of its texts and values: a tag, three lengths and
/// an expiry.
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = 16;
