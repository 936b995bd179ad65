//! The streams of a host: where its clients connect, and how their sessions bind Actors.

use std::sync::Arc;

use spotlane_session::{ActorRoute, BindError, FailureKind};
use spotlane_stream::{
    Endpoint, Execution, Session, SessionActor, SessionFactory, StartError, StreamServer,
    StreamSettings, StreamStats, actors_of,
};
use spotlane_wire::reference::ActorRef as WireActorRef;

use crate::actor::ActorRef;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::host::Host;
use crate::resolve::{self, Place};
use crate::session::bindings::HostBindings;

/// A listener for client sessions. It serves until its host ends, also when this handle is dropped.
#[derive(Clone, Debug)]
pub struct SessionStream {
    server: Arc<StreamServer>,
}

impl SessionStream {
    pub(crate) async fn start<F: SessionFactory>(
        core: &Arc<Core>,
        settings: StreamSettings,
        factory: F,
    ) -> Result<Self, StartError> {
        let execution = Execution {
            engine: &core.engine,
            jobs: core.jobs.clone(),
        };
        let bindings = HostBindings::new(core);
        let ids = core.sessions.ids.clone();
        let server = StreamServer::start(settings, execution, ids, Some(bindings), factory).await?;
        let server = Arc::new(server);
        core.sessions.add(Arc::clone(&server));
        Ok(Self { server })
    }

    /// Where it listens, with the port that the system chose.
    pub fn endpoint(&self) -> Endpoint {
        self.server.endpoint()
    }

    /// Its counters.
    pub fn stats(&self) -> &StreamStats {
        self.server.stats()
    }
}

impl Host {
    /// Listens for client sessions. `factory` makes the handler of each (ST-136).
    ///
    /// # Errors
    /// The endpoint and its certificate do not fit together, or the address cannot be listened on.
    ///
    /// # Cancel safety
    /// Dropped, nothing listens.
    pub async fn listen_for_sessions<F: SessionFactory>(
        &self,
        settings: StreamSettings,
        factory: F,
    ) -> Result<SessionStream, StartError> {
        SessionStream::start(self.core(), settings, factory).await
    }

    /// Binds an Actor to a session of this host: what the client sends is relayed to it, and its pushes reach the client,
    /// wherever it moves. What the session has bound already is returned unchanged (SB-25, SB-26).
    ///
    /// # Errors
    /// `Unavailable`: the Actor is not where it was found, or moves right now. `InvalidOperation`: another incarnation
    /// lives under the id.
    ///
    /// # Cancel safety
    /// Dropped, a bind that was begun is taken back (SB-27).
    pub async fn bind(&self, session: &Session, actor: &ActorRef) -> Result<SessionActor, Error> {
        let core = self.core();
        let actors = actors_of(session)
            .ok_or_else(|| Error::invalid("the session has no actor dispatch"))?;
        let deadline = core.deadline(core.settings.all.default_request_timeout);
        // The own slots and the route cache know it as a rule; the store is read once otherwise.
        let tenure = match resolve::find(core, actor.id(), &deadline).await? {
            Place::Here(live) => live.unit.tenure(),
            Place::There(tenure) => *tenure,
            Place::Moving(_) => return Err(Error::unavailable("the actor is being moved")),
        };
        let asked = tenure.clone();
        let route = ActorRoute {
            mesh_name: core.identity.mesh.clone(),
            node_rid: tenure.node_rid,
            node_generation: tenure.node_generation,
            authority_owner_generation: tenure.authority_owner_generation,
            owner_lease_generation: tenure.owner_lease_generation,
        };
        if route.node_rid != core.identity.rid {
            resolve::connected(core, &route.node_rid, &deadline).await?;
        }
        let reference = WireActorRef {
            actor_id: actor.id().clone(),
            object_generation: actor.generation(),
        };
        let bound = actors.bind(reference, route).await;
        bound.map_err(|error| {
            // RL-167: the next call looks again; this one is never sent elsewhere (SB-20).
            core.forget_route(&asked);
            bind_error(error)
        })
    }
}

fn bind_error(error: BindError) -> Error {
    let kind = match error.kind() {
        FailureKind::Unavailable => ErrorKind::Unavailable,
        FailureKind::InvalidOperation => ErrorKind::InvalidOperation,
        FailureKind::NotFound => ErrorKind::NotFound,
        FailureKind::DeadlineExceeded => ErrorKind::DeadlineExceeded,
        FailureKind::ShuttingDown => ErrorKind::ShuttingDown,
        FailureKind::InternalFailure => ErrorKind::InternalFailure,
    };
    Error::new(kind, error.to_string()).with_source(error)
}
