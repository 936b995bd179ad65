//! A frame as a value: five kinds, and what each of them may carry (section 2).

use core::num::NonZeroU64;

use bytes::Bytes;

use crate::compress::compress;
use crate::control::Control;
use crate::metadata::Metadata;
use crate::name::{CorrelationId, Flow, Name};

/// How the payload of a packet is encoded (ST-178).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 2 of the stream contract"
)]
pub enum Codec {
    /// Bytes without a meaning of their own.
    Raw,
    /// JSON.
    Json,
    /// `MessagePack`.
    MessagePack,
    /// Protocol Buffers.
    Protobuf,
}

impl Codec {
    /// The media type of such a payload.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Raw => "application/octet-stream",
            Self::Json => "application/json",
            Self::MessagePack => "application/x-msgpack",
            Self::Protobuf => "application/x-protobuf",
        }
    }

    /// The codec of a media type; anything unknown is raw.
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Self {
        [Self::Json, Self::MessagePack, Self::Protobuf]
            .into_iter()
            .find(|codec| codec.content_type() == content_type)
            .unwrap_or(Self::Raw)
    }

    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Json => 1,
            Self::MessagePack => 2,
            Self::Protobuf => 3,
        }
    }

    pub(crate) const fn from_wire(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Raw,
            1 => Self::Json,
            2 => Self::MessagePack,
            3 => Self::Protobuf,
            _ => return None,
        })
    }
}

/// Names a request until its reply; never 0 (ST-104, ST-166).
pub type Sequence = NonZeroU64;

/// Whether the bytes of a payload are in the compressed form (ST-121).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-121")]
pub enum Packing {
    /// As they are.
    Plain,
    /// In the form of [`compress`].
    Compressed,
}

/// The payload of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "closed by section 2 of the stream contract"
)]
pub struct Payload {
    /// How it is encoded.
    pub codec: Codec,
    /// Whether it is compressed.
    pub packing: Packing,
    /// The bytes as they travel.
    pub bytes: Bytes,
}

impl Payload {
    /// A payload as it is.
    pub const fn plain(codec: Codec, bytes: Bytes) -> Self {
        Self {
            codec,
            packing: Packing::Plain,
            bytes,
        }
    }

    /// JSON text.
    pub fn json(text: impl Into<Bytes>) -> Self {
        Self::plain(Codec::Json, text.into())
    }

    /// A payload in the compressed form.
    #[must_use]
    pub fn compressed(codec: Codec, bytes: &Bytes) -> Self {
        Self {
            codec,
            packing: Packing::Compressed,
            bytes: compress(bytes),
        }
    }
}

/// What every kind but control may carry besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "closed by section 2 of the stream contract"
)]
pub struct Extras {
    /// Keys and values.
    pub metadata: Option<Metadata>,
    /// For log lines; matches nothing.
    pub correlation: Option<CorrelationId>,
    /// What it belongs to.
    pub flow: Option<Flow>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 2 of the stream contract"
)]
pub enum Frame {
    /// A packet that nobody answers.
    Send {
        /// What it is.
        name: Name,
        /// Its payload.
        payload: Payload,
        /// What else it carries.
        extras: Extras,
    },
    /// A packet that is answered once.
    Request {
        /// What the answer repeats.
        sequence: Sequence,
        /// What it is.
        name: Name,
        /// Its payload.
        payload: Payload,
        /// What else it carries.
        extras: Extras,
    },
    /// The answer of a request.
    Response {
        /// Its request.
        sequence: Sequence,
        /// Its payload.
        payload: Payload,
        /// What else it carries.
        extras: Extras,
    },
    /// The failure of a request, or of the stream when it names none.
    Error {
        /// Its request.
        sequence: Option<Sequence>,
        /// A JSON object; see [`crate::RemoteError`].
        payload: Payload,
        /// What else it carries.
        extras: Extras,
    },
    /// Of the protocol itself.
    Control(Control),
}

impl From<Control> for Frame {
    fn from(control: Control) -> Self {
        Self::Control(control)
    }
}
