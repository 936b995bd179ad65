//! How client sessions are bound to Actors, without sockets, clocks or tasks.
//!
//! * [`SessionBindingAggregate`] is everything that one session knows about its Actors: it binds, relays,
//!   judges pushes, gives way to a newer session, takes leave, and holds messages during a move.
//! * [`actor::ActorBinding`] is what the owner of an Actor knows about the one session that is bound to
//!   it: it registers, refuses what is retired, and asks for the seal of a move.
//!
//! Both are one judge of one fact (SB-3, SB-4). Layer 2, pure: events and time go in, effects come out
//! ([`Machine`]). The crate never does I/O, reads no clock, looks nothing up in a store and draws no
//! random number; fresh binding generations are arguments.
//!
//! ```
//! use spotlane_session::{Machine, SessionBindingAggregate, SessionEvent, SessionIdentity, SessionOwner};
//! use spotlane_session::{SessionEffect, SessionTimes};
//! use spotlane_types::time::Monotonic;
//!
//! let identity = SessionIdentity {
//!     owner: SessionOwner {
//!         node_rid: "gate-1".parse_rid()?,
//!         node_generation: spotlane_types::generation::NodeGeneration::new(3)?,
//!         owner_id: "gate".parse()?,
//!         owner_lease_generation: spotlane_types::generation::OwnerLeaseGeneration::new(1)?,
//!     },
//!     session_rid: spotlane_types::id::SessionRid::new(b"42")?,
//! };
//! let mut bindings = SessionBindingAggregate::new(identity, SessionTimes::default());
//! let mut effects = Vec::new();
//! bindings.on_event(Monotonic::ORIGIN, SessionEvent::ConnectionLost, &mut effects);
//! assert_eq!(effects, [SessionEffect::Finished], "nobody was bound, so nobody is told");
//! # trait Rid { fn parse_rid(&self) -> Result<spotlane_types::id::NodeRid, spotlane_types::ValueError>; }
//! # impl Rid for str {
//! #     fn parse_rid(&self) -> Result<spotlane_types::id::NodeRid, spotlane_types::ValueError> {
//! #         spotlane_types::id::NodeRid::new(self.as_bytes())
//! #     }
//! # }
//! # Ok::<(), spotlane_types::ValueError>(())
//! ```
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::string_slice,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod actor;
mod aggregate;
pub mod bound;
mod effect;
mod error;
mod event;
mod identity;
mod machine;

pub use aggregate::{SessionBindingAggregate, SessionTimes};
pub use effect::{BoundActor, CloseCause, Diagnostic, Ignored, NoticeKind, SessionEffect};
pub use error::{BindError, BindRefusal, FailureKind, RelayError, SessionNotBound};
pub use event::{
    BindAnswer, BindCall, CallbackEnd, NoticeEnd, RelayForm, RelayMessage, SessionEvent,
};
pub use identity::{
    ActorRoute, BindingIdentity, BindingToken, CallId, Peer, SessionIdentity, SessionOwner,
};
pub use machine::Machine;
