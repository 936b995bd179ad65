//! The named limits and times of a link.
//!
//! Those with a rule id are the contract's. The others are our decisions: each bounds memory that a
//! peer could otherwise make grow.

use core::time::Duration;

/// A frame header.
pub const HEADER_BYTES: usize = 8;
/// The least body of a HELLO (TR-10).
pub const HELLO_BODY_MIN: u32 = 3;
/// The greatest body of a HELLO (TR-10).
pub const HELLO_BODY_MAX: u32 = 258;
/// The body of any control frame, and of a frame that is dropped anyway. Ours: E1 names no bound, a
/// READY of a router takes 404 bytes at most.
pub const CONTROL_BODY_MAX: u32 = 65_536;
/// The body of any control frame of E2, whatever the limit of the receiver (TR-54).
pub const CONTROL_BODY_MAX_E2: u32 = 4096;
/// The sequence behind the header of a first frame of E2 (TR-45).
pub const SEQUENCE_BYTES: usize = 8;
/// Frames of one message. Ours; a service record takes seven at most.
pub const MESSAGE_FRAMES_MAX: usize = 1024;
/// Bytes of all frames of one message. Ours: an envelope of the greatest size and what belongs to it.
pub const MESSAGE_BYTES_MAX: u64 = 4_294_967_295 + 65_536;
/// Payload frames of a completion control (TR-44).
pub const COMPLETION_CONTROL_FRAMES_MAX: usize = 64;
/// What each frame is charged besides its body (TR-50).
pub const FRAME_CHARGE: u64 = 64;
/// The handshake of one connection, and the wait for its sister (TR-26, TR-27).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two hellos of a dialler that is not admitted yet (TR-71).
pub const HELLO_REPEAT: Duration = Duration::from_millis(500);
/// How long an acceptor keeps a link without an admitted peer (TR-79).
pub const UNADMITTED_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two probes (TR-82).
pub const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// From one matching acknowledgement to the end of the link without another (TR-84).
pub const LIVENESS_TIMEOUT: Duration = Duration::from_secs(15);
/// Records held for a peer that is not admitted (TR-80).
pub const HELD_RECORDS_MAX: usize = 1024;
/// Bytes of the records held for a peer that is not admitted (TR-80).
pub const HELD_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Requests of one link that wait for a reply. Ours.
pub const PENDING_MAX: usize = 65_536;
/// The fixed part of the wait before a redial, and the start of a growing one (TR-56).
pub const REDIAL_BASE: Duration = Duration::from_millis(100);
/// The random part of the wait before a redial is below this (TR-56).
pub const REDIAL_JITTER: Duration = Duration::from_millis(100);
/// Connections that are joined to pairs or wait for it, at one node. Ours.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Pairs of one peer at the same time: the current one and its standbys. Ours.
pub const PAIRS_PER_PEER_MAX: usize = 8;
