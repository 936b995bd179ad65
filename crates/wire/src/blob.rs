//! Byte strings that are slices of the input: payloads and blobs.

use bytes::Bytes;

use crate::error::Reason;
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Node};
use crate::layout::{Layout, standalone};
use crate::reader::{Read, Reader};
use crate::width::wide;
use crate::writer::{Writer, Written};

macro_rules! blobs {
    ($(
        $(#[$meta:meta])*
        $contract:literal $ty:ident: $prefix:ident $prefix_bytes:literal, $min:literal ..= $max:expr;
    )+) => {$(
        $(#[$meta])*
        #[doc = concat!("\n\nContract: `", $contract, "`. A slice of the received buffer (WR-7).")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $ty(Bytes);

        impl $ty {
            /// The least number of bytes.
            pub const BYTES_MIN: u64 = $min;
            /// The greatest number of bytes.
            pub const BYTES_MAX: u64 = $max;

            /// Takes bytes after checking their number.
            ///
            /// # Errors
            /// The length is outside [`Self::BYTES_MIN`] to [`Self::BYTES_MAX`]. The bytes are
            /// given back.
            pub fn new(bytes: Bytes) -> Result<Self, BlobError> {
                let len = wide(bytes.len());
                if !(Self::BYTES_MIN..=Self::BYTES_MAX).contains(&len) {
                    let (min, max) = (Self::BYTES_MIN, Self::BYTES_MAX);
                    return Err(BlobError { bytes, min, max });
                }
                Ok(Self(bytes))
            }

            /// The length prefix, judged by the bounds.
            #[inline]
            pub(crate) fn read_len(r: &mut Reader<'_>, at: usize) -> Read<usize> {
                let len = u64::from(r.$prefix()?);
                if len < Self::BYTES_MIN {
                    let reason = Reason::Expected { expected: Self::BYTES_MIN, actual: len };
                    return Err(Reader::invalid(at, reason));
                }
                if len > Self::BYTES_MAX {
                    let reason = Reason::Above { bound: Self::BYTES_MAX, actual: len };
                    return Err(Reader::invalid(at, reason));
                }
                r.length(at, len)
            }

            /// The bytes; cloning them is cheap.
            pub const fn as_bytes(&self) -> &Bytes {
                &self.0
            }

            /// Gives the bytes back.
            pub fn into_bytes(self) -> Bytes {
                self.0
            }
        }

        impl Layout for $ty {
            const MIN: usize = $prefix_bytes + $min;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                let at = r.offset();
                let len = Self::read_len(r, at)?;
                r.slice(at, len).map(Self)
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                w.$prefix($prefix::try_from(self.0.len()).unwrap_or($prefix::MAX));
                w.payload(&self.0);
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                json::to_hex(&self.0)
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                Self::new(Bytes::from(node.hex()?)).map_err(|e| JsonError::new(e.to_string()))
            }
        }

        standalone!($contract, $ty);
        #[cfg(feature = "serde")]
        json::serde_form!($ty);
    )+};
}

/// Bytes that are too many or too few for their place. A mistake of the caller, who gets them back.
#[derive(Clone, PartialEq, Eq)]
pub struct BlobError {
    bytes: Bytes,
    min: u64,
    max: u64,
}

impl BlobError {
    /// The bytes that were refused.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl core::fmt::Debug for BlobError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "BlobError({self})")
    }
}

impl core::fmt::Display for BlobError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { bytes, min, max } = self;
        write!(f, "{} bytes are outside {min} to {max} bytes", bytes.len())
    }
}

impl core::error::Error for BlobError {}

blobs! {
    /// Opaque bytes with a two-byte length.
    "blob16" Blob16: u16 2, 0..=65_535;
    /// Opaque bytes with a two-byte length, at least one.
    "nonempty-blob16" NonEmptyBlob16: u16 2, 1..=65_535;
    /// What an application sent, without its envelope.
    "application-payload-bytes" PayloadBytes: u32 4, 0..=4_294_966_774;
    /// A stored blob or one relocation chunk.
    "durable-blob" DurableBlob: u32 4, 0..=67_108_864;
    /// The state of one participant of a move.
    "durable-state-blob" StateBlob: u64 8, 0..=274_877_906_944;
    /// The encoded change of one participant of a stored aggregate.
    "aggregate-participant-mutation-bytes" ParticipantMutation: u32 4, 1..=1_048_576;
}

impl PayloadBytes {
    /// Takes bytes whose number was judged by [`Self::read_len`].
    #[inline]
    pub(crate) const fn from_checked(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use spotlane_types::bound;

    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_contract() {
        let payload = u64::from(bound::APPLICATION_PAYLOAD_BYTES);
        assert_eq!(PayloadBytes::BYTES_MAX, payload);
        assert_eq!(
            DurableBlob::BYTES_MAX,
            u64::from(bound::RELOCATION_CHUNK_BYTES)
        );
        assert_eq!(StateBlob::BYTES_MAX, bound::RELOCATION_LOGICAL_BYTES);
        let mutation = u64::from(bound::MAINTENANCE_AGGREGATE_BYTES);
        assert_eq!(ParticipantMutation::BYTES_MAX, mutation);
        assert_eq!(Blob16::BYTES_MAX, wide(bound::BLOB_BYTES));
        assert_eq!(NonEmptyBlob16::BYTES_MAX, wide(bound::BLOB_BYTES));
    }
}
