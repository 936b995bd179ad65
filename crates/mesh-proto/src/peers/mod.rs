//! More than one connection to the same peer: which belong together, and which link is used.
//!
//! A node has one [`Joins`] for the connections that it accepted and one [`Peers`] for its links.

mod elect;
mod join;
mod redial;

pub use elect::{Election, LinkId, Peers, PeersFull, Verdict, winning_side};
pub use join::{ConnectionId, Join, Joins, RefusedJoin};
pub use redial::{Intent, RedialPolicy};
