//! The SPI of the Location Store: three operations over opaque keys and bytes.

use crate::answer::{ReadOutcome, ScanOutcome, WriteOutcome};
use crate::error::StoreError;
use crate::request::{ScanRequest, WriteRequest};
use crate::text::StoreKey;

/// A store of records that a location repository can build on. A provider knows nothing of what the records mean.
///
/// Whoever implements it promises the rules below for everybody who shares the same data, in this process or another;
/// `spotlane-store-conformance` checks them with one call.
///
/// - Expiry is decided by the provider's clock alone, and every answer carries that clock's time (ST-6).
/// - Versions are never reused for a key: not after a delete, not after a restart (ST-9).
/// - A future that has not been polled has done no I/O. Once it has, an operation whose answer did not arrive is
///   [`StoreError::Indeterminate`], never a success and never [`WriteOutcome::Conflict`] (ST-7). A read and a scan
///   change nothing that a caller could see, so a lost answer of theirs is [`StoreError::Transient`].
/// - After an indeterminate write, a read made through the same provider settles the question: the write has happened
///   by then or never will.
///
/// # Cancel safety
/// Dropping the future of `read` or `scan` costs at most the page. Dropping the future of a `write` that has been
/// polled leaves its outcome unknown, exactly as [`StoreError::Indeterminate`] does; the provider stays usable and the
/// caller settles it with a read.
pub trait StoreProvider: Send + Sync + 'static {
    /// Observes one key (ST-1).
    ///
    /// # Errors
    /// By [`StoreError::recovery`]: `Retry` when the provider could not be reached, `GiveUp` when the stored bytes are
    /// malformed or access is denied.
    fn read(&self, key: &StoreKey) -> impl Future<Output = Result<ReadOutcome, StoreError>> + Send;

    /// Checks all conditions, then applies all mutations as one commit, or changes nothing (ST-2).
    ///
    /// # Errors
    /// By [`StoreError::recovery`]: `Retry` when it certainly did not happen, `ReadThenDecide` when it may have,
    /// `GiveUp` when it cannot happen.
    fn write(
        &self,
        request: WriteRequest,
    ) -> impl Future<Output = Result<WriteOutcome, StoreError>> + Send;

    /// Reads one page of a snapshot that the first page fixes (ST-5).
    ///
    /// Every record that existed at the first page appears exactly once over all pages, with the bytes it had then;
    /// records written later may be absent. The same cursor may be used again, for example after a lost answer.
    ///
    /// # Errors
    /// As [`StoreProvider::read`].
    fn scan(
        &self,
        request: ScanRequest,
    ) -> impl Future<Output = Result<ScanOutcome, StoreError>> + Send;
}
