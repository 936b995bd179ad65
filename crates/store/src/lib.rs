//! What a store must offer to carry the location of actors and spots: opaque keys and bytes with read, conditional
//! atomic write and snapshot scan ([`StoreProvider`]), and named blobs with a time to live ([`RelocationProvider`]).
//!
//! Layer 1. This crate holds the traits, the arguments that check themselves, the outcomes and the error classes. It
//! does no I/O, knows no particular database and no meaning of a record, and it never will. A third party implements
//! a provider with this crate alone:
//!
//! ```
//! use spotlane_store::{
//!     ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider, StoreTime,
//!     WriteOutcome, WriteRequest,
//! };
//!
//! struct Unreachable;
//!
//! impl StoreProvider for Unreachable {
//!     async fn read(&self, _: &StoreKey) -> Result<ReadOutcome, StoreError> {
//!         Ok(ReadOutcome::Missing { store_now: StoreTime::from_unix_millis(1) })
//!     }
//!     async fn write(&self, _: WriteRequest) -> Result<WriteOutcome, StoreError> {
//!         Err(StoreError::transient("not connected"))
//!     }
//!     async fn scan(&self, _: ScanRequest) -> Result<ScanOutcome, StoreError> {
//!         Ok(ScanOutcome::Expired)
//!     }
//! }
//! ```
//!
//! A larger example, with every rule, stands in `docs/store.md`.

mod answer;
pub mod bound;
mod boxed;
mod error;
mod provider;
mod relocation;
mod request;
mod text;
mod value;

pub use answer::{
    Applied, Found, PageBuilder, ReadOutcome, Row, ScanOutcome, ScanPage, WriteOutcome,
};
pub use boxed::{BoxedRelocation, BoxedStore};
pub use error::{ArgumentError, Failure, Field, KeyLabel, Recovery, StoreError};
pub use provider::StoreProvider;
pub use relocation::{BlobOutcome, DeleteOutcome, PutOutcome, RelocationProvider, RenewOutcome};
pub use request::{Condition, Cursor, Mutation, ScanRequest, WriteRequest};
pub use text::{BlobReference, KeyPrefix, StoreKey, StoreVersion};
pub use value::{StoreTime, StoreValue, Ttl};
