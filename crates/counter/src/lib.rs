//! The sample application of Spotlane: an Actor that counts, remembers and moves.
//!
//! It is what `spotlane demo` and `spotlane node` run, and it is written as an application would be: messages are plain
//! structs, handlers are methods, and an adapter says how the state is written down when the Actor moves. Layer 6; it
//! knows the facade and nothing below it.
//!
//! | message | form | answer |
//! |---|---|---|
//! | `add` | request [`Add`] | [`Added`] |
//! | `note` | one-way [`Note`] | |
//! | `log` | request [`Log`] | the tags in the order of handling |
//! | `blob` | request [`Blob`] | [`Blob`] |
//! | `tick` | timer, every [`TICK_PERIOD`] | |

mod counter;
mod message;
mod name;
mod state;

pub use counter::{Counter, LOG_TAGS_MAX, TICK_PERIOD};
pub use message::{Add, Added, BLOB_BYTES_MAX, Blob, Log, Note, TAG_BYTES_MAX};
pub use name::node_name;
pub use state::CounterAdapter;
