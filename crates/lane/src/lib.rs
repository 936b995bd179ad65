//! The one execution engine of Spotlane: order, admission, the ready set and gates of every execution
//! object of a host (EX-170).
//!
//! An object (a Spot, an Actor, a session) is an [`Owner`]: a value with a handler. Its [`Lane`] holds
//! the work that was accepted for it and runs it one turn at a time, in order, on the workers of an
//! [`Engine`]. What differs between the sites is a policy type: [`Spot`] lanes can be sealed for a move
//! and their turns may give up a shared gate while they wait, [`Session`] lanes close, [`ActorDelivery`]
//! lanes do neither. A combination outside that table does not compile.
//!
//! The crate never runs anything on the caller's stack, holds no lock while foreign code runs, keeps no
//! global state and reads no clock that was not handed to it. It knows nothing of nodes, stores or wire
//! formats. Layer 2, async.
//!
//! ```
//! use std::{num::NonZeroUsize, sync::Arc, time::Duration};
//! use spotlane_lane::{
//!     ActorDelivery, AskError, Engine, GateUse, HandlerError, KeepGate, LaneLimits, Monotonic, Owner, Turn,
//! };
//!
//! struct Counter(u64);
//! impl Owner for Counter {
//!     type Policy = ActorDelivery;
//!     type Waits = KeepGate;
//!     type Item = u64;
//!     type Reply = u64;
//!     async fn handle(turn: &mut Turn<'_, Self>, add: u64) -> Result<u64, HandlerError> {
//!         turn.state().0 += add;
//!         Ok(turn.state().0)
//!     }
//! }
//!
//! # let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
//! # runtime.block_on(async {
//! let clock = Arc::new(|| Monotonic::from_origin(Duration::ZERO));
//! let engine = Engine::start(&tokio::runtime::Handle::current(), NonZeroUsize::MIN, clock);
//! let counter = engine.kind(LaneLimits::DEFAULT, GateUse::Own).lane(Counter(0));
//! counter.submit(2).await.unwrap();
//! assert_eq!(counter.ask(3).await?, 5);
//! # Ok::<(), AskError>(()) }).unwrap();
//! ```

mod activation;
mod after;
mod backlog;
mod carrier;
mod coordinator;
mod core;
mod desk;
mod drive;
mod driven;
mod end;
mod engine;
mod error;
mod gate;
mod hand;
mod here;
mod host;
mod jobs;
mod kind;
mod lane;
mod limits;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod multicast;
mod owner;
mod policy;
mod queue;
mod ready;
mod reply;
mod seal;
mod select;
mod serve;
mod session;
mod signal;
mod stats;
mod submit;
mod sync;
mod ticker;
mod ticket;
mod time;
mod timer;
mod turn;
mod worker;

pub use crate::activation::{Activation, ActivationError, Pending, activation};
pub use crate::backlog::Backlog;
pub use crate::coordinator::{BindError, SpotCoordinator, SpotMode, TimerTarget};
pub use crate::engine::Engine;
pub use crate::error::{
    AskError, Fifo, HandlerError, InvalidOperation, Refusal, Refused, YieldError,
};
pub use crate::jobs::{
    JobPermit, JobPermits, JobQueue, JobQueueError, JobQueueProfile, JobQueueSettings,
    JobQueueStatus, JobSource, Pressure,
};
pub use crate::kind::{GateUse, Kind};
pub use crate::lane::{Lane, Usage};
pub use crate::limits::{FifoLimits, LaneLimits};
pub use crate::multicast::{
    DeliveredMulticast, Multicast, MulticastReport, MulticastSlots, Share, StartedMulticast,
};
pub use crate::owner::Owner;
pub use crate::policy::{
    ActorDelivery, Connection, KeepGate, LanePolicy, Moves, Session, Spot, Waiting, WaitsUnder,
    Yielding,
};
pub use crate::seal::{Caller, Captured, CoveredMember, Handoff, Saved, SealError, SealGuard};
pub use crate::session::Closing;
pub use crate::signal::RelocationReady;
pub use crate::stats::Stats;
pub use crate::ticker::{TimerHandle, Timers};
pub use crate::time::{Clock, Monotonic};
pub use crate::timer::{
    CapturedTimer, OnTickError, OverrunPolicy, Tick, TimerError, TimerSettings,
};
pub use crate::turn::{BarrierHold, Fence, Turn, TurnKind};
