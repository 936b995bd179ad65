//! The decisions of a mesh link, without sockets, clocks or tasks.
//!
//! * [`zmp`] turns bytes into messages and back: framing, handshake and envelopes of ZMP v1.
//! * [`admission`] decides who is a peer, [`liveness`] for how long, [`pending`] holds its requests.
//! * [`peers`] chooses among several connections to one peer; [`link`] is all of it in one machine.
//! * [`name`] makes the ids that nodes draw.
//! * [`bound`] has every limit and time by name.
//!
//! Layer 2, pure: events and time go in, effects come out ([`Machine`]). The crate never does I/O,
//! reads no clock and draws no random number; what has to be random is an argument.
//!
//! ```
//! use spotlane_mesh_proto::zmp::{Edition, Envelope, encode_frames};
//!
//! let parts = encode_frames(Edition::E1, Envelope::Plain, &["hi".into()]);
//! assert_eq!(&parts.to_bytes()[..], b"\x5A\x01\0\0\0\0\0\x02hi");
//! ```
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

pub mod admission;
pub mod bound;
pub mod link;
pub mod liveness;
mod machine;
pub mod name;
pub mod peers;
pub mod pending;
#[cfg(test)]
mod sample;
pub mod zmp;

pub use machine::Machine;
