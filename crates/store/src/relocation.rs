//! The SPI of the Relocation Store: named blobs with a time to live (ST-92). It decides no owner.

use crate::error::StoreError;
use crate::text::BlobReference;
use crate::value::{StoreTime, StoreValue, Ttl};

/// How a put ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-92")]
pub enum PutOutcome {
    /// The blob is stored, now or by an earlier put of the same bytes.
    Stored {
        /// When it expires: the later of this put and what was there.
        expires_at: StoreTime,
        /// The provider's time.
        store_now: StoreTime,
    },
    /// Other bytes live under this reference; nothing changed.
    Conflict,
}

/// How a get ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-92")]
pub enum BlobOutcome {
    /// No blob, or one that had expired.
    Missing {
        /// The provider's time.
        store_now: StoreTime,
    },
    /// A blob.
    Found {
        /// Its bytes.
        value: StoreValue,
        /// When it expires; `None` only for a blob that another program stored without expiry.
        expires_at: Option<StoreTime>,
        /// The provider's time.
        store_now: StoreTime,
    },
}

impl BlobOutcome {
    /// The bytes, if there is a blob.
    pub fn value(self) -> Option<StoreValue> {
        match self {
            Self::Missing { .. } => None,
            Self::Found { value, .. } => Some(value),
        }
    }
}

/// How a renewal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-92")]
pub enum RenewOutcome {
    /// The blob lives on.
    Renewed {
        /// When it expires: the later of this renewal and what was there.
        expires_at: StoreTime,
        /// The provider's time.
        store_now: StoreTime,
    },
    /// There is no blob to renew.
    Missing,
}

/// How a delete ended. Either way there is no blob now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-92")]
pub enum DeleteOutcome {
    /// There was one.
    Deleted,
    /// There was none.
    Missing,
}

/// A store of immutable blobs, second to and apart from [`StoreProvider`](crate::StoreProvider) (ST-92).
///
/// The promises about clock, outcome and cancellation are those of [`StoreProvider`](crate::StoreProvider) (ST-6 to
/// ST-8). Every operation may be repeated with the same arguments, so an indeterminate one is settled by a repeat as
/// well as by a [`get`](RelocationProvider::get).
///
/// # Cancel safety
/// Dropping a polled future of `put`, `renew` or `delete` leaves its outcome unknown.
pub trait RelocationProvider: Send + Sync + 'static {
    /// Stores a blob. The same reference with the same bytes is stored already; with other bytes it is a conflict.
    ///
    /// # Errors
    /// By [`StoreError::recovery`], as a write.
    fn put(
        &self,
        reference: &BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> impl Future<Output = Result<PutOutcome, StoreError>> + Send;

    /// Looks a blob up.
    ///
    /// # Errors
    /// By [`StoreError::recovery`], as a read.
    fn get(
        &self,
        reference: &BlobReference,
    ) -> impl Future<Output = Result<BlobOutcome, StoreError>> + Send;

    /// Gives a blob at least this much longer to live, from now; never shortens.
    ///
    /// # Errors
    /// By [`StoreError::recovery`], as a write.
    fn renew(
        &self,
        reference: &BlobReference,
        ttl: Ttl,
    ) -> impl Future<Output = Result<RenewOutcome, StoreError>> + Send;

    /// Removes a blob.
    ///
    /// # Errors
    /// By [`StoreError::recovery`], as a write.
    fn delete(
        &self,
        reference: &BlobReference,
    ) -> impl Future<Output = Result<DeleteOutcome, StoreError>> + Send;
}
