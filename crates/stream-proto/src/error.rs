//! Why bytes are no frame, and why a value is none.

use thiserror::Error;

/// What ends a connection: the bytes of the peer are no frame of this wire.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// ST-126: the prefix announces more than the bound.
    #[error("a frame of {bytes} bytes is above the bound of {bound}")]
    TooLarge {
        /// What it announces, counted as the bound counts.
        bytes: u64,
        /// The bound.
        bound: u64,
    },
    /// ST-104: the header breaks a rule.
    #[error("the frame header is not well formed: {0}")]
    Header(#[from] HeaderFault),
    /// ST-118, ST-120: the control packet breaks a rule.
    #[error("the control packet is not well formed: {0}")]
    Control(#[from] ControlFault),
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// ST-103
    #[error("it is shorter than 5 bytes")]
    TooShort,
    /// The first byte is not `F2`.
    #[error("the format marker is {0:#04x} and not 0xf2")]
    Marker(u8),
    /// No such kind.
    #[error("there is no kind {0}")]
    Kind(u8),
    /// No such codec.
    #[error("there is no codec {0}")]
    Codec(u8),
    /// Flag bits that do not exist.
    #[error("the flags {0:#04x} have bits that do not exist")]
    Flags(u8),
    /// A flag that the kind forbids, or one that it needs.
    #[error("the flags do not go with the kind: {0}")]
    FlagOfKind(&'static str),
    /// A field that the header is too short for.
    #[error("the field {field} is cut off")]
    Cut {
        /// The field.
        field: &'static str,
    },
    /// Bytes after the last field.
    #[error("{bytes} bytes are left after the last field")]
    Surplus {
        /// How many.
        bytes: usize,
    },
    /// Sequence 0.
    #[error("the request sequence is zero")]
    SequenceZero,
    /// No name where there must be one, or one where there must be none.
    #[error("the name does not go with the kind")]
    Name,
    /// ST-105
    #[error("the field {field} is not UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// ST-108
    #[error("the correlation id is empty")]
    CorrelationEmpty,
    /// ST-109
    #[error("the flow is no lower-case version 7 uuid with an origin of 1 to 4")]
    Flow,
    /// The codec does not go with the kind.
    #[error("the codec does not go with the kind")]
    CodecOfKind,
    /// ST-114: no block behind the flag.
    #[error("the metadata block is empty")]
    MetadataEmpty,
    /// ST-114: fewer entries than announced.
    #[error("the metadata block ends inside of an entry")]
    MetadataCut,
    /// ST-114: more bytes than entries.
    #[error("the metadata block has bytes after its last entry")]
    MetadataSurplus,
    /// ST-114
    #[error("a metadata key is empty")]
    MetadataKeyEmpty,
    /// ST-114
    #[error("a metadata key stands there twice")]
    MetadataKeyTwice,
}

/// What is wrong with a control packet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlFault {
    /// No such control packet.
    #[error("there is no control packet of this name")]
    Unknown,
    /// A ping or pong with a payload.
    #[error("a heartbeat has a payload")]
    Payload,
    /// ST-118: version, reason or text of a closing packet.
    #[error("a closing packet has another version, reason or text than allowed")]
    Closing,
    /// ST-120: only a server sends it.
    #[error("a client does not send closing packets")]
    ClosingFromClient,
}

/// Why a frame cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The header does not fit its length field.
    #[error("a header of {bytes} bytes is above the bound of {bound}")]
    HeaderTooLong {
        /// Its bytes.
        bytes: usize,
        /// The bound.
        bound: usize,
    },
    /// ST-126: the payload is above the bound of the sender.
    #[error("a payload of {bytes} bytes is above the bound of {bound}; send less or raise it")]
    PayloadTooLarge {
        /// Its bytes.
        bytes: usize,
        /// The bound.
        bound: u32,
    },
    /// ST-113: the codec of an error is JSON.
    #[error("the payload of an error is JSON")]
    ErrorCodec,
}

/// Why a compressed payload has no plain form (ST-121 to ST-125). The connection stays.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// The first byte has another version or bits that do not exist.
    #[error("the compressed form has another version")]
    Version,
    /// The data ends too early, or is no LZ4 block of the announced length.
    #[error("the compressed data is damaged")]
    Damaged,
    /// The form announces more than the bound, or more than its data can hold.
    #[error("{bytes} bytes after decompression are above the bound of {bound}")]
    TooLarge {
        /// What it announces.
        bytes: u64,
        /// The bound.
        bound: u64,
    },
    /// ST-125: compression is not configured.
    #[error("compression is not configured")]
    NotConfigured,
}
