//! Every byte layout of service-wire v1: typed records, envelopes and durable formats.
//!
//! The crate turns bytes into values that are always legal and back into the one canonical encoding
//! (WR-6). It never does I/O, never keeps state between calls, and knows nothing of who may send what
//! when: that is for the crates above. Layer 1, pure.
//!
//! * [`Record`] is any of the forty commands; [`decode_command`] and [`encode_command`] are for code
//!   that knows which one it wants.
//! * [`stream`] writes and reads relocation streams piece by piece.
//! * [`durable`] holds the four stored formats, [`multipart`] the framework's multipart profile.
//! * With the feature `serde`, every record and value has a JSON form ([`json`], [`by_name`]).
//!
//! ```
//! use bytes::Bytes;
//! use spotlane_types::kind::MeshOperationKind;
//! use spotlane_wire::{FrameBuffer, Record};
//!
//! let received = [Bytes::from_static(b"ZM\x01\x05\x00\0\0\0\0\0\0\0\x07")];
//! let record = Record::decode(&received, MeshOperationKind::None)?;
//! let mut out = FrameBuffer::default();
//! record.encode(&mut out)?;
//! assert_eq!(out.to_frames(), received);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![expect(
    clippy::inline_always,
    reason = "measured: views and what is built of them must end up in place"
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

pub mod authority;
pub mod blob;
#[cfg(feature = "serde")]
pub mod by_name;
pub mod checksum;
pub mod command;
pub mod creation;
pub mod descriptor;
pub mod durable;
mod error;
mod frame_buffer;
mod frame_slice;
pub mod frozen;
#[cfg(feature = "serde")]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is not expected is refused alike"
)]
pub mod json;
#[expect(unnameable_types, unreachable_pub, reason = "the layouts are sealed")]
mod layout;
pub mod multipart;
pub mod payload;
#[expect(unnameable_types, unreachable_pub, reason = "the layouts are sealed")]
mod reader;
mod record;
pub mod reference;
pub mod relocation;
pub mod scalar;
mod standalone;
pub mod stream;
mod terminal;
mod vector;
pub mod view;
mod width;
#[expect(unnameable_types, unreachable_pub, reason = "the layouts are sealed")]
mod writer;

pub use command::{Command, PayloadRule, ViewCommand};
pub use error::{DecodeError, EncodeError, ErrorKind};
pub use frame_buffer::{Frame, FrameBuffer, FramePart};
pub use frame_slice::FrameSlice;
pub use record::{
    Record, RecordRef, decode_command, decode_command_slices, encode_command, view_command,
    view_command_slices,
};
pub use standalone::{Standalone, decode, encode};
