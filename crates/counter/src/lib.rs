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
//! | `tell` | one-way [`Told`] | none; the client of the Actor gets the push `told` |
//! | `tick` | timer, every [`TICK_PERIOD`] | |
//!
//! A client logs in with [`Login`]; its packets `add`, `note`, `log` and `blob` go to the Actor that it bound, and it gets
//! the pushes `told` and [`Moved`].

mod counter;
mod message;
mod name;
mod session;
mod state;

pub use counter::{Counter, FOLLOWED_MARK, LOG_TAGS_MAX, TICK_PERIOD};
pub use message::{Add, Added, BLOB_BYTES_MAX, Blob, Log, Moved, Note, TAG_BYTES_MAX, Told};
pub use name::node_name;
pub use session::{CounterSession, CounterSessions, LoggedIn, Login};
pub use state::CounterAdapter;
