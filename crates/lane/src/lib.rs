//! The one execution engine of Spotlane.

mod carrier;
mod core;
mod drive;
mod engine;
mod error;
mod gate;
mod jobs;
mod kind;
mod lane;
mod limits;
mod owner;
mod policy;
mod queue;
mod ready;
mod stats;
mod submit;
mod sync;
mod time;
mod timer;
mod turn;
mod worker;

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
    ActorDelivery, Connection, KeepGate, LanePolicy, Session, Spot, Waiting, WaitsUnder, Yielding,
};
pub use crate::stats::Stats;
pub use crate::time::{Clock, Monotonic};
pub use crate::timer::Tick;
pub use crate::turn::{Fence, Turn, TurnKind};
