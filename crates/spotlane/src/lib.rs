//! Actors that keep their address while they move between nodes.
//!
//! A host is one node of a mesh. It registers Actor types, each with one relocation policy, creates and finds Actors by
//! id, and sends them messages wherever they are. When a node has to go, its Actors move to another one with their state,
//! their accepted work and their timers, and callers do not notice.
//!
//! ```
//! use std::time::Duration;
//! use spotlane::memory::{MemoryRelocation, MemoryStore};
//! use spotlane::prelude::*;
//!
//! #[derive(Default)]
//! struct Counter { total: i64 }
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Add { n: i64 }
//!
//! impl Counter {
//!     async fn add(&mut self, _: &mut Context, Json(add): Json<Add>) -> Result<Json<i64>, Error> {
//!         self.total += add.n;
//!         Ok(Json(self.total))
//!     }
//!
//!     async fn note(&mut self, context: &mut Context, text: String) {
//!         println!("{}: {text}", context.id());
//!     }
//!
//!     async fn tick(&mut self, _: &mut Context, _: Tick) {
//!         self.total += 1;
//!     }
//! }
//!
//! impl Actor for Counter {
//!     const TYPE: &'static str = "counter";
//!
//!     fn configure(handlers: &mut Handlers<Self>) {
//!         handlers
//!             .request("add", Self::add)
//!             .send("note", Self::note)
//!             .timer("tick", Every::new(Duration::from_secs(60)), Self::tick);
//!     }
//! }
//!
//! /// How a counter moves: its total, as text.
//! struct Total;
//!
//! impl Adapter<Counter> for Total {
//!     async fn capture(&self, counter: &mut Counter) -> Result<Bytes, Error> {
//!         Ok(Bytes::from(counter.total.to_string()))
//!     }
//!
//!     async fn restore(&self, counter: &mut Counter, state: Bytes) -> Result<(), Error> {
//!         let text = std::str::from_utf8(&state).map_err(|_| Error::internal("not a text"))?;
//!         counter.total = text.parse().map_err(|_| Error::internal("not a number"))?;
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let host = Host::builder()
//!     .mesh("game")
//!     .listen("tcp://127.0.0.1:0")
//!     .location_store(MemoryStore::new(spotlane::store_time))
//!     .relocation_store(MemoryRelocation::new(spotlane::store_time))
//!     .actor(Policy::preserve(Total), Counter::default)
//!     .settings(Settings::default())
//!     .start()
//!     .await?;
//!
//! host.actors().get_or_create::<Counter>("c-1").await?;
//! let counter = host.actor("c-1");
//! counter.send("note", "hello").await?;
//! let Json(total) = counter
//!     .request("add", Json(Add { n: 5 }))
//!     .timeout(Duration::from_secs(1))
//!     .reply::<Json<i64>>()
//!     .await?;
//! assert_eq!(total, 5);
//!
//! let found = host.actors().find("c-1").await?.expect("it was created");
//! assert!(host.actors().destroy(&found).await?);
//! let error = counter.request("add", Json(Add { n: 1 })).await.unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::NotFound);
//! host.shutdown(None).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to do about an error
//!
//! Every call ends with one [`Error`], and [`Error::kind`] is one of twelve. A kind does not say whether a handler ran;
//! what may be repeated is for the application to know.
//!
//! # Features
//!
//! `json` (default): [`Json`] payloads. `memory` (default): stores in memory. `redis`: stores on Redis and Valkey.
//!
//! Layer 5, the facade: this crate has no logic of its own.

/// Everything that an application usually needs.
pub mod prelude {
    pub use bytes::Bytes;
    #[cfg(feature = "json")]
    pub use spotlane_runtime::Json;
    pub use spotlane_runtime::{
        Actor, ActorHandle, ActorRef, Adapter, Context, Creation, Decision, Error, ErrorKind,
        Every, Handlers, Host, HostState, JoinOutcome, Payload, Policy, Settings, Tick,
    };
}

/// Stores in memory: for one process, for tests and for demos.
#[cfg(feature = "memory")]
pub mod memory {
    pub use spotlane_store_memory::{MemoryRelocation, MemoryStore};
}

/// Stores on Redis and Valkey.
#[cfg(feature = "redis")]
pub mod redis {
    pub use spotlane_store_redis::{OpenError, RedisOptions, RedisRelocation, RedisStore};
}

/// The provider interface of the two stores, for stores of one's own.
pub mod store {
    pub use spotlane_store::{RelocationProvider, StoreProvider};
}

/// Client sessions: where clients connect and what handles their packets.
///
/// A handler sees sessions, references and payloads (SB-1):
///
/// ```
/// use spotlane::session::{Packet, Session, SessionActor};
///
/// async fn relays(session: &Session, packet: Packet) -> Option<()> {
///     let bound: Vec<SessionActor> = session.actors()?.bound();
///     let actor = bound.first()?;
///     println!("{} is on {:?}", actor.actor_ref().actor_id, actor.node());
///     actor.relay(packet).await.ok()
/// }
/// ```
///
/// The route of a binding, with the number of its owner change, is none of that,
///
/// ```compile_fail,E0599
/// use spotlane::session::SessionActor;
///
/// fn route(actor: &SessionActor) {
///     actor.route();
/// }
/// ```
///
/// and neither is a bind along a route of one's own,
///
/// ```compile_fail,E0599
/// use spotlane::session::Session;
///
/// fn binds(session: &Session) {
///     session.actors().expect("actors").bind();
/// }
/// ```
///
/// a record for a session, as another node sends it,
///
/// ```compile_fail,E0599
/// use spotlane::session::Session;
///
/// fn pushes(session: &Session) {
///     session.actors().expect("actors").on_push();
/// }
/// ```
///
/// a message that is a record already,
///
/// ```compile_fail,E0624
/// use spotlane::session::SessionActor;
///
/// fn raw(actor: &SessionActor) {
///     actor.relay_message();
/// }
/// ```
///
/// or the ways to them that the runtime has.
///
/// ```compile_fail,E0432
/// use spotlane::session::{actors_of, route_of};
/// ```
pub mod session {
    pub use spotlane_runtime::{BoundSession, SessionCounts, SessionStream};
    pub use spotlane_stream::{
        Accepted, BoundActors, Endpoint, HandlerFailure, Packet, RelayFailure, Replier, SendError,
        ServerTls, Session, SessionActor, SessionFactory, SessionHandler, StartError,
        StreamSettings, StreamStats, Transport,
    };
    pub use spotlane_stream_proto::{CloseReason, Codec, Metadata, Name, Payload};
}

/// Ids and generations, as handles and status show them.
pub mod id {
    pub use spotlane_types::count::ApplicationVersion;
    pub use spotlane_types::generation::{NodeGeneration, ObjectGeneration};
    pub use spotlane_types::id::{ActorId, Endpoint, MaintenanceWave, MeshName, NodeRid};
}

pub use spotlane_runtime::*;
