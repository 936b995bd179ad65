//! The client wire of sessions, without sockets, clocks or tasks.
//!
//! * [`Frame`] is what travels; [`FrameDecoder`] and [`encode`] turn it into bytes and back.
//! * [`compress`] and [`decompress`] are the packed form of payloads.
//! * [`Carrier`] is both for one connection, with [`ws`] around the bytes or without.
//! * [`server::ServerConnection`] and [`connector::Connector`] are the two ends of a connection.
//! * [`bound`] has every limit and time by name.
//!
//! Layer 2, pure: events and time go in, effects come out ([`Machine`]). The crate never does I/O, reads
//! no clock and draws no random number. Client and server depend on it and not on each other (ST-180).
//!
//! ```
//! use spotlane_stream_proto::{Extras, Frame, Name, Payload, to_bytes};
//!
//! let frame = Frame::Send {
//!     name: Name::application("chat.say")?,
//!     payload: Payload::json(r#"{"text":"hi"}"#),
//!     extras: Extras::default(),
//! };
//! assert_eq!(&to_bytes(&frame)?[..], b"\0\x0d\0\0\0\x0d\xf2\x01\x01\0\x08chat.say{\"text\":\"hi\"}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
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

pub mod bound;
mod carrier;
mod compress;
pub mod connector;
mod control;
mod decode;
mod encode;
mod error;
mod frame;
mod machine;
mod metadata;
mod name;
mod remote_error;
pub mod server;
pub mod ws;

pub use carrier::{Carrier, CarrierError, Step};
pub use compress::{compress, decompress};
pub use control::{CloseReason, Control, SessionClosing};
pub use decode::{FlowRule, FrameDecoder, SizeBound, Upcoming};
pub use encode::{encode, to_bytes};
pub use error::{ControlFault, DecodeError, DecompressError, EncodeError, HeaderFault};
pub use frame::{Codec, Extras, Frame, Packing, Payload, Sequence};
pub use machine::Machine;
pub use metadata::Metadata;
pub use name::{CorrelationId, Flow, FlowOrigin, Name, ValueError};
pub use remote_error::RemoteError;
