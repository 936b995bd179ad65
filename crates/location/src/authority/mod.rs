//! Who owns an object: the states of its row as types, and the operations that lead from one to another.
//!
//! ```text
//!           reserve            commit
//! Missing ---------> Reserved ---------> Active --+ preserve, new owner,
//!    ^                  |                  |  ^   | reincarnate
//!    +---- abort -------+                  |  +---+
//!    +---------------- delete -------------+
//! ```
//!
//! ```compile_fail
//! use spotlane_location::authority::ReservedObject;
//! // ST-70: what is reserved is not closed, moved or deleted.
//! fn close(reserved: ReservedObject) { let _ = reserved.closing(); }
//! ```
//!
//! What must not happen cannot be called: only an [`ActiveObject`] can be preserved, moved or deleted, so a reserved row
//! never is (ST-70, RL-16); only a [`ClosingObject`] can be reincarnated; only a [`PreparedTarget`] can become the owner (RL-20).
//! Each operation is a plan, pure, in `ops`; [`Repository`](crate::Repository) has the one runner that sends them.

mod ops;
mod plan;
mod state;

pub(crate) use ops::Life;
pub use ops::{
    CreationOperation, PreparedTarget, Reservation, TERMINAL_RECORD_SLACK, TerminalRecord,
};
pub(crate) use ops::{
    abort, commit, delete, has_room, identity, lease_ended, new_owner, preserve,
    preserve_in_aggregate, reincarnate, release, reserve, settle_member,
};
pub(crate) use plan::{Change, Effect, Fence, First, Issues, Settled, Whose, holds};
pub(crate) use state::aggregate_of;
pub use state::{ActiveObject, Authority, ClosingObject, ReservedObject};
