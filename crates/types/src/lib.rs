//! The vocabulary of Spotlane: one type per id, generation and bound.
//!
//! Everything that a record of service-wire v1 names has a type of its own here, so that two of them
//! cannot be mistaken for each other. A value of such a type is always legal: its only constructor
//! checks the bounds of the contract.
//!
//! Layer 0, pure: no dependency, no I/O, no clock. The crate never encodes anything; that is
//! `spotlane-wire`.
//!
//! ```
//! use spotlane_types::id::ActorId;
//! use spotlane_types::generation::ObjectGeneration;
//!
//! let actor = ActorId::new("player-7")?;
//! assert_eq!(actor.as_str(), "player-7");
//! assert!(ObjectGeneration::new(0).is_err(), "zero never names an incarnation");
//! # Ok::<(), spotlane_types::ValueError>(())
//! ```
#![expect(
    clippy::inline_always,
    reason = "measured: an id is built where it ends up, or it costs twice"
)]
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

pub mod authority_key;
pub mod bound;
mod compact;
pub mod count;
mod error;
pub mod generation;
pub mod hex;
pub mod id;
pub mod kind;
pub mod machine;
mod number;
pub mod text;
pub mod time;

pub use error::{ValueError, ValueFault};
