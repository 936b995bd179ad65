//! Protocol errors, with what the ERROR frame says of them.

use thiserror::Error;

/// A violation of the protocol by the peer, answered with one ERROR frame (TR-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The first byte of a frame.
    #[error("invalid magic")]
    InvalidMagic,
    /// The second byte of a frame.
    #[error("version mismatch")]
    VersionMismatch,
    /// A flag or a combination of flags that is not allowed, or the reserved byte (TR-4).
    #[error("flags invalid")]
    FlagsInvalid,
    /// A body above the limit of the receiver (TR-54).
    #[error("body too large")]
    BodyTooLarge,
    /// A HELLO above its bound (TR-10).
    #[error("hello too large")]
    HelloTooLarge,
    /// A HELLO below its bound (TR-10).
    #[error("hello too short")]
    HelloTooShort,
    /// A peer of a type that does not fit (TR-10).
    #[error("socket type mismatch")]
    SocketTypeMismatch,
    /// The handshake took too long (TR-26).
    #[error("handshake timeout")]
    HandshakeTimeout,
    /// A kind of message that does not exist (TR-8).
    #[error("kind invalid")]
    KindInvalid,
    /// A request or reply with sequence zero (TR-8).
    #[error("sequence invalid")]
    SequenceInvalid,
    /// A frame that does not belong inside of a message (TR-8).
    #[error("multipart invalid")]
    MultipartInvalid,
    /// The stream ended inside of a frame or message (TR-8).
    #[error("incomplete frame")]
    Incomplete,
    /// A message of the other edition (TR-3).
    #[error("edition mismatch")]
    OtherEdition,
    /// A Completion lane that begins with something that it does not carry (TR-45).
    #[error("completion lane invalid")]
    NotCompletion,
    /// Data where READY is due (TR-16).
    #[error("data before ready")]
    DataBeforeReady,
    /// The pair properties are missing, malformed or not the ones that were sent (TR-15, TR-23).
    #[error("transport pair metadata invalid")]
    PairMetadataInvalid,
    /// The limit property has another length than 8 (TR-17).
    #[error("maximum message size metadata invalid")]
    MaxSizeMetadataInvalid,
    /// A property that is cut short or given twice, or stray bytes (TR-14).
    #[error("ready metadata invalid")]
    ReadyMetadataInvalid,
    /// A second READY (TR-16).
    #[error("duplicate ready")]
    DuplicateReady,
    /// Another control frame where HELLO is due (TR-10).
    #[error("missing hello")]
    MissingHello,
    /// The length of a HELLO disagrees with its id (TR-10).
    #[error("hello identity mismatch")]
    HelloIdentityMismatch,
    /// An unknown control frame where READY is due (TR-16).
    #[error("unknown control")]
    UnknownControl,
    /// A control frame without a type, or inside of a message (TR-38).
    #[error("invalid control")]
    InvalidControl,
    /// The peer sent ERROR (TR-19).
    #[error("internal error")]
    PeerSentError,
}

impl Refusal {
    /// The code of the ERROR frame.
    pub const fn code(self) -> u8 {
        match self {
            Self::InvalidMagic => 1,
            Self::VersionMismatch => 2,
            Self::FlagsInvalid => 3,
            Self::BodyTooLarge | Self::HelloTooLarge => 4,
            Self::SocketTypeMismatch => 5,
            Self::HandshakeTimeout => 6,
            Self::KindInvalid => 7,
            Self::SequenceInvalid => 8,
            Self::MultipartInvalid => 9,
            Self::Incomplete => 10,
            Self::HelloTooShort
            | Self::OtherEdition
            | Self::NotCompletion
            | Self::DataBeforeReady
            | Self::PairMetadataInvalid
            | Self::MaxSizeMetadataInvalid
            | Self::ReadyMetadataInvalid
            | Self::DuplicateReady
            | Self::MissingHello
            | Self::HelloIdentityMismatch
            | Self::UnknownControl
            | Self::InvalidControl
            | Self::PeerSentError => 127,
        }
    }

    /// Whether a dialler gives up its endpoint because of it. A timeout is a lost attempt (TR-26);
    /// everything else would come out the same again (TR-60).
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::HandshakeTimeout)
    }
}
