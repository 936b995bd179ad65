//! The one execution engine of Spotlane.

mod backlog;
mod carrier;
mod coordinator;
mod core;
mod drive;
mod engine;
mod error;
mod gate;
mod jobs;
mod kind;
mod lane;
mod limits;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod owner;
mod policy;
mod queue;
mod ready;
mod seal;
mod session;
mod stats;
mod submit;
mod sync;
mod ticker;
mod time;
mod timer;
mod turn;
mod worker;

pub use crate::backlog::Backlog;
pub use crate::coordinator::{BindError, SpotCoordinator, SpotMode, TimerTarget};
pub use crate::engine::Engine;
pub use crate::error::{
    AskError, Fifo, HandlerError, InvalidOperation, Refusal, Refused, YieldError,
};
pub use crate::jobs::{
    JobPermit, JobQueue, JobQueueError, JobQueueProfile, JobQueueSettings, JobQueueStatus,
    JobSource, Pressure,
};
pub use crate::kind::{GateUse, Kind};
pub use crate::lane::{Lane, Usage};
pub use crate::limits::{FifoLimits, LaneLimits};
pub use crate::owner::Owner;
pub use crate::policy::{
    ActorDelivery, Connection, KeepGate, LanePolicy, Moves, Session, Spot, Waiting, WaitsUnder, Yielding,
};
pub use crate::seal::{
    Caller, Captured, CoveredMember, Handoff, Saved, SealError, SealGuard,
};
pub use crate::session::Closing;
pub use crate::stats::Stats;
pub use crate::ticker::{TimerHandle, Timers};
pub use crate::time::{Clock, Monotonic};
pub use crate::timer::{
    CapturedTimer, OnTickError, OverrunPolicy, Tick, TimerError, TimerSettings,
};
pub use crate::turn::{Fence, Turn, TurnKind};
