//! The decisions of a live move, without sockets, clocks, tasks or stores.
//!
//! * [`source`] is the machine of the node that an object leaves, [`target`] that of the node it
//!   comes to. Each stage is a type, and what must not happen is no method of it.
//! * [`unit`] and [`identity`] say what moves and which messages belong to which move, [`saved`] what
//!   the framework itself adds to the work that travels along, [`boundary`] what a cutover promises.
//! * [`follow`] forwards what still comes to the old address, [`notice`] tells senders once.
//! * [`budget`] paces the chunks of all units, [`settings`] has every time and size by name,
//!   [`diagnostic`] all that is worth reporting, [`vocabulary`] the names of observable steps.
//!
//! One pair of machines moves every kind of unit (RL-351). Between them travel 40, 52, 31 and 34 one
//! way and 30 or 53 the other; there is no acknowledgement and no sequence (RL-128).
//!
//! Layer 2, pure: events and time go in, effects come out ([`Machine`]). The crate never decides who
//! owns an object: that is one compare-and-set of the Location Store, which only a target asks for.
//!
//! ```
//! use spotlane_relocation::source::{Source, SourceStage};
//! use spotlane_relocation::settings::RelocationSettings;
//!
//! let unit = Source::new(RelocationSettings::default());
//! assert_eq!(unit.stage(), SourceStage::SourceRunning);
//! ```
#![expect(
    clippy::boxed_local,
    reason = "a stage moves in its box: a pointer, whatever it holds"
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

pub mod boundary;
pub mod budget;
pub mod diagnostic;
pub mod follow;
pub mod identity;
pub mod notice;
pub mod saved;
pub mod settings;
pub mod source;
pub mod target;
#[cfg(test)]
mod tests;
pub mod unit;
pub mod vocabulary;
#[cfg(test)]
mod world;

pub use spotlane_types::machine::Machine;
