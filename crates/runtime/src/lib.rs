//! The host of Spotlane: Actors with their handlers, creation and look-up, messages between nodes, live relocation.
//!
//! A [`Host`] is one node of a mesh in one process. It runs the machines of the lower layers: the lane engine executes
//! handlers, the location repository says who owns what, the mesh carries records. Everything that decides about a
//! protocol lives there; this crate wires, times and reports. Layer 4, async.
//!
//! Applications use it through the facade `spotlane`, which has the tour; `docs/runtime.md` has the rest.

mod activate;
mod actor;
mod builder;
mod calls;
mod capacity;
mod cell;
mod clock;
mod compute;
mod context;
mod control;
mod core;
#[cfg(test)]
mod counted;
mod create;
mod creations;
mod destroy;
mod directory;
mod drops;
mod entry;
mod error;
mod handlers;
mod host;
mod in_flight;
mod inbound;
mod join;
mod lease;
mod message;
mod operations;
mod payload;
mod placement;
mod policy;
mod random;
mod registry;
mod relocation;
mod remote;
mod resolve;
mod session;
mod settings;
mod shutdown;
mod slots;
mod state;
mod tasks;
mod unwind;

pub use crate::actor::{Actor, ActorRef, Decision};
pub use crate::builder::{HostBuilder, StartError};
pub use crate::calls::{ActorHandle, RequestCall, Requesting, SendCall, Sending};
pub use crate::clock::store_time;
pub use crate::context::{Arrival, Context};
pub use crate::create::{CreateCall, Creation};
pub use crate::entry::{CloseReason, Closing, EntrySpot, SpotContext};
pub use crate::error::{Error, ErrorKind};
pub use crate::handlers::{Every, Handler, Handlers};
pub use crate::host::{Actors, Host, HostStatus, NodeInfo};
pub use crate::join::{JoinCall, JoinOutcome};
#[cfg(feature = "json")]
pub use crate::payload::Json;
pub use crate::payload::{FromPayload, IntoPayload, IntoReply, Payload};
pub use crate::policy::{Adapter, Policy};
pub use crate::relocation::{BlockReason, HostRelocation, RelocateMode, RelocateOutcome};
pub use crate::session::{BoundSession, SessionCounts, SessionStream};
pub use crate::settings::{JobLimit, Settings, SettingsError};
pub use crate::shutdown::{ForceReason, Shutdown};
pub use crate::state::HostState;

pub use spotlane_lane::{
    FifoLimits, JobQueueProfile, JobQueueStatus, LaneLimits, OnTickError, OverrunPolicy, Tick,
};
