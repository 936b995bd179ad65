//! Every limit and time of the client wire by name.

use core::time::Duration;

/// Bytes of a frame before its header: two of header length, four of payload length.
pub const PREFIX_BYTES: usize = 6;

/// The shortest header there is: marker, kind, codec, flags, and the length of an empty name (ST-103).
pub const HEADER_BYTES_MIN: usize = 5;

/// The longest header that the prefix can announce.
pub const HEADER_BYTES_MAX: usize = 65_535;

/// The longest name (section 2).
pub const NAME_BYTES_MAX: usize = 255;

/// The longest correlation id that is sent; received ones may have 255 bytes (ST-108).
pub const CORRELATION_BYTES_SENT_MAX: usize = 64;

/// The longest metadata block that is sent; received ones may fill their length field (ST-115).
pub const METADATA_BYTES_SENT_MAX: usize = 1_024;

/// The longest text of a closing packet (ST-118).
pub const CLOSING_TEXT_BYTES_MAX: usize = 512;

/// What both sides accept and send by default (ST-126).
pub const SIZE_DEFAULT: u32 = 65_536;

/// Names of this form belong to the framework (ST-106).
pub const RESERVED_PREFIX: &str = "$zlink.";

/// The metadata key by which the framework hands a deadline on (ST-116).
pub const DEADLINE_KEY: &str = "$zlink.actor-request-deadline-unix-ms";

/// From one ping of the server to the next, and from the connection to the first (ST-151).
pub const SERVER_PING_INTERVAL: Duration = Duration::from_secs(1);

/// How long the server waits for a pong (ST-151).
pub const SERVER_HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may send nothing of an application (ST-151).
pub const SERVER_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long what is queued and the closing packet may take to be written (ST-155).
pub const CLOSE_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Frames of one connection in one pass of its reader (ST-141).
pub const FRAMES_PER_PASS: usize = 64;

/// Bytes of an upgrade request or response, which come before anything is bounded by frames.
pub const UPGRADE_BYTES_MAX: usize = 8_192;
