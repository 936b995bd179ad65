//! Relocation streams piece by piece (WR-40 to WR-43).
//!
//! A stream holds the state, the saved work and the timers of everything that moves as one unit. It may
//! be as large as 2^38 bytes, so neither side ever holds it in one buffer: [`EnvelopeEncoder`] gives
//! chunks while it is fed, [`EnvelopeDecoder`] gives participants, work and timers while chunks come.
//!
//! ```
//! use spotlane_types::count::{ApplicationVersion, ParticipantId};
//! use spotlane_types::generation::{AuthorityOwnerGeneration, ObjectGeneration};
//! use spotlane_types::id::RelocationId;
//! use spotlane_wire::reference::ActorRef;
//! use spotlane_wire::relocation::RelocationObject;
//! use spotlane_wire::stream::{ChunkBytes, EnvelopeDecoder, EnvelopeEncoder, EnvelopeHead, EnvelopeItem};
//!
//! let head = EnvelopeHead {
//!     relocation: RelocationId::new(0, 9)?,
//!     object: RelocationObject::Actor {
//!         actor: ActorRef { actor_id: "a".parse()?, object_generation: ObjectGeneration::new(1)? },
//!         expected_authority_owner_generation: AuthorityOwnerGeneration::new(3)?,
//!     },
//!     application_version: ApplicationVersion::new(1)?,
//! };
//! let mut states = EnvelopeEncoder::new(&head, 1, ChunkBytes::new(16)?)?;
//! states.state(ParticipantId::new(1)?, Some("the state".into()))?;
//! let (summary, chunks) = states.work(0)?.timers(0)?.ticks(0)?.finish()?;
//!
//! let mut decoder = EnvelopeDecoder::new(summary.total_length);
//! let mut state = Vec::new();
//! for chunk in chunks {
//!     decoder.push(chunk)?;
//!     while let Some(item) = decoder.next_item()? {
//!         if let EnvelopeItem::StateBytes(bytes) = item {
//!             state.extend_from_slice(&bytes);
//!         }
//!     }
//! }
//! assert_eq!(decoder.finish()?, summary.checksum_crc32c);
//! assert_eq!(state, b"the state");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decoder;
mod encoder;

pub use decoder::{EnvelopeDecoder, EnvelopeItem};
pub use encoder::{ChunkBytes, EnvelopeEncoder, EnvelopeSummary, States, Ticks, Timers, Work};

use spotlane_types::count::ApplicationVersion;
use spotlane_types::id::RelocationId;

use crate::layout::wire_struct;
use crate::relocation::RelocationObject;

/// The name of the stream in errors.
pub(crate) const RECORD: &str = "relocation-envelope-v1";

wire_struct! {
    /// What a stream begins with.
    "relocation-envelope-v1:head" struct EnvelopeHead {
        /// The move.
        relocation: RelocationId = "relocation",
        /// The object that moves.
        object: RelocationObject = "object",
        /// The version of the application's state.
        application_version: ApplicationVersion = "applicationVersion",
    }
}
