//! The stores of `spotlane-store` on Redis 7 and Valkey: standalone, Sentinel and Cluster, with TLS and ACL by URL.
//!
//! Layer 2. Records and keys are byte for byte those of the public vectors, so processes of other runtimes and ours
//! share one Redis; `docs/store.md` describes the layout. A write is one script call, sent once: when its answer does
//! not come, the caller learns that the outcome is unknown, and a read settles it. This crate has no options beside
//! connection, key prefix and timeout, reads no clock but the server's, and shows no type of its client.
//!
//! ```no_run
//! use spotlane_store::{StoreKey, StoreProvider};
//! use spotlane_store_redis::{RedisOptions, RedisStore};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let options = RedisOptions::new("rediss://app:secret@redis.internal:6379", "app1");
//! let store = RedisStore::open(&options)?;
//! let outcome = store.read(&StoreKey::new("room")?).await?;
//! # let _: spotlane_store::ReadOutcome = outcome;
//! # Ok(())
//! # }
//! ```

mod classify;
mod connect;
mod encode;
mod gather;
mod key;
mod link;
mod member;
mod options;
mod relocation;
mod scan;
mod script;
mod store;

pub use options::{
    KEY_PREFIX_BYTES_MAX, OPERATION_TIMEOUT, OPERATION_TIMEOUT_MAX, OPERATION_TIMEOUT_MIN,
    OpenError, RedisOptions,
};
pub use relocation::RedisRelocation;
pub use store::RedisStore;
