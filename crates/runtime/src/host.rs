//! The handle of a running host.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use spotlane_lane::JobQueueStatus;
use spotlane_types::count::ApplicationVersion;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{ActorId, Endpoint, MeshName, NodeRid};

use crate::actor::{Actor, ActorRef};
use crate::builder::HostBuilder;
use crate::calls::{ActorHandle, Caller};
use crate::core::Core;
use crate::create::{CreateCall, Mode};
use crate::destroy;
use crate::error::Error;
use crate::relocation::{self, HostRelocation, RelocateMode};
use crate::session::SessionCounts;
use crate::shutdown::{self, Shutdown};
use crate::state::HostState;

/// A running host. Clones are the same host.
///
/// When the last clone, handle and context is dropped, the host ends at once, without releasing its objects; call
/// [`Host::shutdown`] for an orderly end.
#[derive(Clone)]
pub struct Host {
    core: Arc<Core>,
}

impl Host {
    /// Begins a host.
    pub fn builder() -> HostBuilder {
        HostBuilder::new()
    }

    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Creates, finds and destroys Actors.
    pub fn actors(&self) -> Actors {
        Actors {
            core: Arc::clone(&self.core),
        }
    }

    /// An Actor by its id, wherever it is. What is wrong with the id comes out when a call is made.
    pub fn actor(&self, id: impl AsRef<str>) -> ActorHandle {
        ActorHandle::new(Arc::clone(&self.core), id.as_ref(), Caller::Handle)
    }

    /// The mesh of this host.
    pub fn mesh_name(&self) -> &MeshName {
        &self.core.identity.mesh
    }

    /// The node of this host.
    pub fn node_id(&self) -> &NodeRid {
        &self.core.identity.rid
    }

    /// Where other nodes reach this one; `None` before the socket is bound.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.core
            .mesh
            .get()
            .map(spotlane_mesh::Mesh::advertised_endpoint)
    }

    /// The state.
    pub fn state(&self) -> HostState {
        self.core.state.get()
    }

    /// Waits until the host is in one of the states that `wanted` accepts.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn wait_for_state(&self, mut wanted: impl FnMut(HostState) -> bool) -> HostState {
        let mut states = self.core.state.watch();
        let found = states
            .wait_for(|state| wanted(*state))
            .await
            .map(|state| *state);
        found.unwrap_or(HostState::Stopped)
    }

    /// The nodes of the mesh whose hosts are alive, this one included, as of the last look (RL-301).
    pub fn nodes(&self) -> Vec<NodeInfo> {
        let nodes = self.core.directory.nodes();
        let all = nodes.iter().map(|node| {
            let descriptor = &node.descriptor().row.descriptor;
            NodeInfo {
                node: descriptor.routing_id.clone(),
                generation: descriptor.lifecycle_generation,
                endpoint: descriptor.endpoint.clone(),
                application_version: descriptor.application_version,
                is_connected: descriptor.routing_id == self.core.identity.rid
                    || self
                        .core
                        .mesh
                        .get()
                        .is_some_and(|mesh| mesh.link(&descriptor.routing_id).is_some()),
            }
        });
        all.collect()
    }

    /// Waits until this host is connected to so many other nodes.
    ///
    /// # Errors
    /// `DeadlineExceeded` when they are not there in time.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn wait_for_peers(&self, count: usize, timeout: Duration) -> Result<(), Error> {
        let mut peers = self.core.mesh()?.watch_peers();
        let there = peers.wait_for(|peers| peers.len() >= count);
        match tokio::time::timeout(timeout, there).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Error::shutting_down()),
            Err(_) => Err(Error::deadline(format!(
                "{count} peers were not there in {timeout:?}"
            ))),
        }
    }

    /// Computes something long off the workers that run handlers, on at most as many threads as the host has workers
    /// (EX-279). Full, it waits for its turn. Waiting for I/O needs no such call: a handler simply awaits it.
    ///
    /// A handler that awaits it keeps its Actor's turn.
    ///
    /// # Errors
    /// `InternalFailure` when `work` panics; `DeadlineExceeded` when it has not ended in time,
    /// `ShuttingDown` when the runtime ends.
    ///
    /// # Cancel safety
    /// Dropped before `work` began, it never runs; later it runs to its end and its result is dropped.
    pub async fn compute<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.core.processors.run(timeout, work).await
    }

    /// What the host counts and is right now.
    pub fn status(&self) -> HostStatus {
        let core = &self.core;
        HostStatus {
            state: core.state.get(),
            mesh: core.identity.mesh.clone(),
            node: core.identity.rid.clone(),
            node_generation: core.identity.generation,
            endpoint: self.endpoint().cloned(),
            actors: usize::try_from(core.capacity.live()).unwrap_or(usize::MAX),
            moving: core.moves.leaving(),
            sealing: core.moves.sealing(),
            arrived: core.moves.arrived(),
            safe_to_shutdown: core.state.get() == HostState::Relocated && core.moves.leaving() == 0,
            peers: core.mesh.get().map_or(0, |mesh| mesh.peers().len()),
            admits_work: core.admits(),
            jobs: core.jobs.status(),
            pending_requests: core.pending.len(),
            handlers_failed: core.engine.stats().handlers_failed(),
            handlers_panicked: core.engine.stats().handlers_panicked(),
        }
    }

    /// What this host keeps for sessions and bindings. It looks at every Actor of the host.
    pub fn session_counts(&self) -> SessionCounts {
        self.core.sessions.counts(&self.core)
    }

    /// Moves an Actor of this host to another node, with its state, its accepted work and its timers.
    ///
    /// Done when this host has stopped serving it for good and has sent everything that it had (RL-210). The change of owner
    /// is the target's and comes right after: until then a look-up may still name this host. Messages to the Actor are not
    /// lost meanwhile, from whichever node they come. An Actor that is on that node already stays.
    ///
    /// # Errors
    /// `NotFound`: it does not live here. `Rejected`: its type does not move. `Unavailable`: the target cannot take it, or
    /// the Actor is being moved or destroyed. `InternalFailure`: its adapter failed. `DeadlineExceeded`: where it went is
    /// not known in time; the move ends by itself.
    ///
    /// # Cancel safety
    /// Dropped early, the move goes on (SRC-10).
    pub async fn relocate(&self, id: impl AsRef<str>, target: &NodeRid) -> Result<(), Error> {
        self.relocate_within(id, target, self.core.settings.all.relocate_deadline)
            .await
    }

    /// As [`Host::relocate`] with a deadline of its own, up to the point where nothing leads back (RL-303, RL-354).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn relocate_within(
        &self,
        id: impl AsRef<str>,
        target: &NodeRid,
        timeout: Duration,
    ) -> Result<(), Error> {
        let id = ActorId::new(id.as_ref())?;
        relocation::relocate(&self.core, &id, target, self.core.deadline(timeout)).await
    }

    /// Moves everything that lives here to other nodes (RL-180): the host takes no new objects, its Actors leave, and when
    /// all have left it is `Relocated` and may be shut down. `deadline` is the setting when `None`. Concurrent calls of one
    /// mode share one operation.
    ///
    /// # Errors
    /// `InvalidOperation`: the target version of a rolling update is not above that of this host. Everything else is an
    /// outcome with a reason.
    ///
    /// # Cancel safety
    /// Dropped early, the operation goes on (RL-217).
    pub async fn drain(
        &self,
        mode: RelocateMode,
        deadline: Option<Duration>,
    ) -> Result<HostRelocation, Error> {
        let deadline = deadline.unwrap_or(self.core.settings.all.relocate_deadline);
        relocation::relocate_host(&self.core, mode, deadline).await
    }

    /// Ends the host in order (RL-220, RL-221): takes nothing new, finishes what was accepted until `deadline` (the
    /// setting when `None`), releases its Actors, its place in the directory and its lease, and closes its connections.
    /// Repeated and concurrent calls share one shutdown and its result.
    ///
    /// # Cancel safety
    /// Dropped early, the shutdown goes on.
    pub async fn shutdown(&self, deadline: Option<Duration>) -> Shutdown {
        let deadline = deadline.unwrap_or(self.core.settings.all.shutdown_deadline);
        shutdown::run(&self.core, deadline).await
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("node", &self.core.identity.rid)
            .field("state", &self.core.state.get())
            .finish_non_exhaustive()
    }
}

/// One node of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// Its routing id.
    pub node: NodeRid,
    /// Its run.
    pub generation: NodeGeneration,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// The version of its application.
    pub application_version: ApplicationVersion,
    /// Whether this host has a link to it.
    pub is_connected: bool,
}

/// What a host counts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostStatus {
    /// The state.
    pub state: HostState,
    /// The mesh.
    pub mesh: MeshName,
    /// The node.
    pub node: NodeRid,
    /// The run of the node.
    pub node_generation: NodeGeneration,
    /// Where it listens.
    pub endpoint: Option<Endpoint>,
    /// How many Actors live here.
    pub actors: usize,
    /// Whether everything has left and nothing is forwarded any more (RL-224). Earlier is allowed.
    pub safe_to_shutdown: bool,
    /// How many Actors are on their way out, or are still forwarded for.
    pub moving: usize,
    /// How many of those start no further handler: they are sealed, or will be when the running handler
    /// ends, and have not left yet.
    pub sealing: usize,
    /// How many Actors have come here by a move, are on their way here, or have gone on and are remembered until Message
    /// Follow and the validity of their restore are over (RL-362).
    pub arrived: usize,
    /// How many nodes it is connected to.
    pub peers: usize,
    /// Whether its owner lease admits work (RL-284).
    pub admits_work: bool,
    /// The jobs that wait for a handler.
    pub jobs: JobQueueStatus,
    /// Requests to other nodes that wait for their answers, at most 4,096; more wait for a place (EX-273).
    pub pending_requests: usize,
    /// Handlers that returned an error outside of a request.
    pub handlers_failed: u64,
    /// Handlers that panicked.
    pub handlers_panicked: u64,
}

/// Creates, finds and destroys Actors.
#[derive(Clone)]
pub struct Actors {
    core: Arc<Core>,
}

impl Actors {
    /// Creates an Actor; it is an error when the id is taken (RL-90 to RL-93). The framework chooses the node (RL-83).
    pub fn create<A: Actor>(&self, id: impl AsRef<str>) -> CreateCall {
        self.create_type(id, A::TYPE)
    }

    /// As [`Actors::create`], by the name of the type.
    pub fn create_type(&self, id: impl AsRef<str>, stable_type: &str) -> CreateCall {
        CreateCall::new(
            Arc::clone(&self.core),
            Mode::Create,
            id.as_ref(),
            stable_type,
        )
    }

    /// Creates an Actor unless it is there already (RL-90 to RL-93).
    pub fn get_or_create<A: Actor>(&self, id: impl AsRef<str>) -> CreateCall {
        self.get_or_create_type(id, A::TYPE)
    }

    /// As [`Actors::get_or_create`], by the name of the type.
    pub fn get_or_create_type(&self, id: impl AsRef<str>, stable_type: &str) -> CreateCall {
        CreateCall::new(
            Arc::clone(&self.core),
            Mode::GetOrCreate,
            id.as_ref(),
            stable_type,
        )
    }

    /// Where a ready Actor is; `None` when there is none, or it is being created or closed (RL-90 to RL-95). Reads the
    /// store, and waits while the Actor is between two owners (RL-365).
    ///
    /// # Errors
    /// `InvalidOperation` for an illegal id; `Unavailable` when the store does not answer; `DeadlineExceeded` when a move
    /// took longer than the default request timeout.
    pub async fn find(&self, id: impl AsRef<str>) -> Result<Option<ActorRef>, Error> {
        let id = ActorId::new(id.as_ref())?;
        let deadline = self
            .core
            .deadline(self.core.settings.all.default_request_timeout);
        let ready = crate::resolve::ready(&self.core, &id, &deadline).await?;
        Ok(ready.map(|route| ActorRef {
            id,
            generation: route.tenure.object_generation,
            mesh: route.mesh_name,
            node: route.tenure.node_rid,
        }))
    }

    /// Destroys exactly this incarnation, wherever it is, after the work that it accepted; `false` when it is gone
    /// (RL-97).
    ///
    /// # Errors
    /// `InvalidOperation` when the id has another incarnation now; `Unavailable` when it is being moved or its owner does
    /// not answer.
    pub async fn destroy(&self, actor: &ActorRef) -> Result<bool, Error> {
        let timeout = self.core.settings.all.default_request_timeout;
        let deadline = self.core.deadline(timeout);
        let done = destroy::destroy(&self.core, actor, &deadline);
        match tokio::time::timeout(timeout, done).await {
            Ok(done) => done,
            Err(_) => Err(Error::deadline(format!(
                "the actor did not end within {timeout:?}"
            ))),
        }
    }
}

impl fmt::Debug for Actors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actors").finish_non_exhaustive()
    }
}
