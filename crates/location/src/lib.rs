//! Who owns an Actor or Spot, decided once, over any Location Store.
//!
//! Layer 3.
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
pub mod record;
mod repository;
mod resolve;
mod time;

pub use error::{Conflict, LocationError, Stale};
pub use repository::Repository;
pub use resolve::{LiveRoute, Resolved};
pub use time::{Monotonic, Timing};
