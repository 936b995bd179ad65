//! Who owns an Actor or Spot, decided once, over any Location Store: rows with their one encoding, the owner lease of a
//! host, the authority operations, the directory, and the route cache.
//!
//! Layer 3, over `spotlane-store`. Decisions are pure: observations and time are arguments. The crate starts no task, reads
//! no clock, keeps nothing global, and it never will; whoever drives it brings a store and a [`Timing`].
//!
//! ```
//! use std::time::Duration;
//! use spotlane_location::lease::{LeaseKeeper, LeaseSettings};
//! use spotlane_location::{Monotonic, Timing};
//! use spotlane_store::StoreTime;
//! use spotlane_store_memory::{ManualClock, MemoryStore};
//!
//! struct Still;
//! impl Timing for Still {
//!     fn now(&self) -> Monotonic { Monotonic::from_origin(Duration::ZERO) }
//!     async fn pause(&self, _attempt: u32) {}
//! }
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = MemoryStore::new(ManualClock::new(StoreTime::from_unix_millis(1)));
//! let keeper = LeaseKeeper::new(store, Still, "host-1".parse()?, LeaseSettings::default());
//! let held = keeper.claim().await?;
//! assert_eq!(held.deadline().since(Monotonic::ORIGIN), Duration::from_secs(15 - 5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/location.md` tells the whole of it.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::string_slice,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod aggregate;
pub mod authority;
pub mod cache;
pub mod counter;
pub mod directory;
mod effort;
mod error;
#[expect(clippy::ref_option, reason = "the form that serde calls")]
mod json;
pub mod key;
pub mod lease;
pub mod member_list;
mod progress;
pub mod record;
mod repository;
mod resolve;
mod rewrite;
mod time;

pub use error::{Conflict, LocationError, Stale};
pub use progress::MoveStep;
pub use repository::Repository;
pub use resolve::{Dispatch, LiveRoute, ObjectState, Resolved, SourceFence, SourceView, Standing};
pub use spotlane_types::time::Monotonic;
pub use time::Timing;
