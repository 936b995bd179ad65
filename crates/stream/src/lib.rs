//! The stream server: client connections over `tcp`, `tls`, `ws` and `wss`, one session each.
//!
//! A [`StreamServer`] accepts connections and gives each of them a [`SessionHandler`], whose callbacks run
//! one at a time on the session's lane. The bytes are those of `spotlane-stream-proto`; the callbacks never
//! see them (ST-138). With [`ActorBindings`] a session binds Actors; without them the server is one for
//! plain packets, and needs nothing else of this project's runtime.
//!
//! What a client does reaches its own session only: frames are judged before memory is taken for them,
//! packets wait under a permit of the host or in the socket, a client that does not read is waited for in
//! bounded queues, and one that says nothing is closed.
//!
//! Layer 3, async: one task for each connection, owned by its server.
//!
//! ```no_run
//! use std::{num::NonZeroUsize, sync::Arc, time::Duration};
//! use spotlane_lane::{Engine, JobQueue, JobQueueSettings, Monotonic};
//! use spotlane_stream::{Execution, HandlerFailure, Packet, Session, SessionHandler, SessionIds};
//! use spotlane_stream::{StreamServer, StreamSettings};
//!
//! struct Echo;
//! impl SessionHandler for Echo {
//!     async fn packet(&mut self, _: &Session, packet: Packet) -> Result<(), HandlerFailure> {
//!         let payload = packet.payload().clone();
//!         Ok(packet.reply(payload).await?)
//!     }
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Arc::new(|| Monotonic::ORIGIN);
//! let engine = Engine::start(&tokio::runtime::Handle::current(), NonZeroUsize::MIN, clock);
//! let jobs = JobQueue::new(JobQueueSettings::manual(1_024)?);
//! let execution = Execution { engine: &engine, jobs };
//! let settings = StreamSettings::new("tcp://127.0.0.1:0".parse()?);
//! let server = StreamServer::start(settings, execution, SessionIds::default(), None, |_| Echo).await?;
//! # server.shutdown(Duration::from_secs(1)).await; Ok(()) }
//! ```

mod accept;
mod actors;
mod connection;
mod error;
mod handler;
mod outbox;
mod seat;
mod server;
mod session;
mod settings;
mod signal;
mod stats;
mod tls;

pub use actors::{
    ActorBindings, BindRequest, BindTicket, BoundActors, NoticeTicket, Relay, RelayFailure,
    RelayTicket, SessionActor, SessionActors, actors_of, route_of,
};
pub use error::{HandlerFailure, SendError, StartError};
pub use handler::{Accepted, Packet, SessionFactory, SessionHandler};
pub use server::{Execution, SessionIds, StreamServer};
pub use session::{Replier, Session};
pub use settings::{Endpoint, StreamSettings, Transport};
pub use stats::StreamStats;
pub use tls::ServerTls;
