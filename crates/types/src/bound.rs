//! The named limits of the contract. Lengths count bytes.

/// A routing id.
pub const RID_BYTES: usize = 255;
/// A text with a one-byte length.
pub const SHORT_TEXT_BYTES: usize = 255;
/// An advertised endpoint.
pub const ENDPOINT_BYTES: usize = 4096;
/// A byte string or text with a two-byte length.
pub const BLOB_BYTES: usize = 65_535;
/// One encoded metadata frame, and the value of one entry (WR-9).
pub const METADATA_BYTES: usize = 1024;
/// The packet name of a payload.
pub const PACKET_NAME_BYTES: usize = 255;
/// The content type of a payload.
pub const CONTENT_TYPE_BYTES: usize = 255;
/// A reference to a stored relocation part.
pub const RELOCATION_REFERENCE_BYTES: usize = 4096;
/// A reference to a stored creation request.
pub const CREATION_CONTENT_REFERENCE_BYTES: usize = 4096;
/// The version of an authority row.
pub const AUTHORITY_STORE_VERSION_BYTES: usize = 4096;
/// The body of a payload envelope.
pub const COMPLETE_MESSAGE_BYTES: u32 = u32::MAX;
/// The payload inside an envelope.
pub const APPLICATION_PAYLOAD_BYTES: u32 = 4_294_966_774;
/// The extension of a descriptor.
pub const DESCRIPTOR_ENVELOPE_BYTES: u32 = 1_048_576;
/// One chunk of a relocation stream; also the largest stored state blob.
pub const RELOCATION_CHUNK_BYTES: u32 = 67_108_864;
/// The chunks of one relocation stream.
pub const RELOCATION_CHUNK_COUNT: u32 = 4096;
/// A whole relocation stream: 2^38 (WR-40).
pub const RELOCATION_LOGICAL_BYTES: u64 = 274_877_906_944;
/// A stored relocation manifest.
pub const RELOCATION_MANIFEST_BYTES: u32 = 33_554_432;
/// A weight on the wire (WR-64).
pub const WEIGHT_MAX: u32 = 100;
/// A creation intent.
pub const CREATION_INTENT_BYTES: u32 = 1_048_576;
/// The stored terminal result of a creation.
pub const CREATION_TERMINAL_ENVELOPE_BYTES: u32 = 1_048_576;
/// The participants of a stored aggregate (WR-41).
pub const MAINTENANCE_AGGREGATE_PARTICIPANTS: usize = 1024;
/// A stored aggregate.
pub const MAINTENANCE_AGGREGATE_BYTES: u32 = 1_048_576;
/// How often a message is forwarded.
pub const MESSAGE_FOLLOW_HOP_COUNT: u8 = 8;
/// A route notice of Message Follow.
pub const MESSAGE_FOLLOW_CONTROL_ENVELOPE_BYTES: u32 = 16_777_216;
/// The capacity of one object type.
pub const OBJECT_TYPE_CAPACITY_MAX: u32 = 2_147_483_647;
/// The greatest generation and ordinal: 2^63 - 1 (WR-8).
pub const GENERATION_MAX: u64 = 9_223_372_036_854_775_807;
/// The greatest aggregate generation of a relocation state: 2^63 - 2 (WR-63).
pub const AGGREGATE_GENERATION_ISSUED_MAX: u64 = 9_223_372_036_854_775_806;
/// The entries of a sorted list in a descriptor extension.
pub const DESCRIPTOR_LIST_ENTRIES: usize = 1024;
/// An authority key in its text form (WR-60).
pub const AUTHORITY_KEY_BYTES: usize = 776;
