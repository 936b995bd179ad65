//! Times and names of session bindings.

use core::time::Duration;

/// How long a seal waits for its route update (RL-291, SB-88).
pub const SEAL_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the callback of a replaced session may take (RL-316, SB-55).
pub const REPLACEMENT_CALLBACK_TIMEOUT: Duration = Duration::from_secs(30);

/// From the end of that callback to the close of the connection (SB-54). Fixed by the seed.
pub const REPLACEMENT_CLOSE_DELAY: Duration = Duration::from_millis(100);

/// How long a disconnect notice waits for the callback of its Spot (SB-63).
pub const LIFECYCLE_DEADLINE: Duration = Duration::from_secs(30);

/// Pushes that may overtake the answer to their bind, for one Actor.
pub const EARLY_PUSHES_MAX: usize = 64;

/// Other records about a binding that may overtake the answer to its bind, for one Actor: what a move and a
/// replacement send at most is one of each.
pub const EARLY_CONTROLS_MAX: usize = 8;

/// The packet by which an Actor closes the connection of its session (SB-39).
pub const SESSION_CLOSE_PACKET: &str = "$zlink.session-close";

/// The packet name of the record that carries a binding to the target of a move (RL-357).
pub const BOUND_SESSION_PACKET: &str = "$zlink.bound-session";

/// The content type of that record.
pub const BOUND_SESSION_CONTENT: &str = "application/octet-stream";
