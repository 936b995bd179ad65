//! From settings to a running host.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use spotlane_lane::{Clock, Engine, GateUse, JobQueue, Timers};
use spotlane_location::cache::RouteCache;
use spotlane_location::lease::LeaseKeeper;
use spotlane_location::{LocationError, Repository};
use spotlane_mesh::proto::name::{BadPrefix, IdPrefix};
use spotlane_mesh::{Mesh, MeshConfig, NodeIdentity};
use spotlane_store::{BoxedRelocation, BoxedStore, RelocationProvider, StoreProvider};
use spotlane_types::generation::OwnerLeaseGeneration;
use spotlane_types::id::{MeshName, NodeRid};
use spotlane_types::kind::RelocationPolicyKind;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::actor::Actor;
use crate::capacity::Capacity;
use crate::clock::{HostClock, HostTiming};
use crate::compute::Processors;
use crate::core::{Core, Identity, Ids};
use crate::creations::Creations;
use crate::directory::{self, Directory};
use crate::entry::{EntryLane, EntrySpot, ErasedEntrySpot};
use crate::error::Error;
use crate::host::Host;
use crate::inbound::{Dispatcher, Inlet};
use crate::lease::{self, OwnLease};
use crate::policy::Policy;
use crate::registry::{ActorType, Registry};
use crate::relocation::{HostMove, Moves, Pending};
use crate::session::Sessions;
use crate::settings::{Checked, Settings, SettingsError};
use crate::slots::Slots;
use crate::state::StateCell;
use crate::tasks::Tasks;

/// Why a host did not start; nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is out of its range.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// What was registered contradicts itself; every fault is listed.
    #[error("the registration is not consistent: {}", faults.join("; "))]
    Registration {
        /// The faults.
        faults: Vec<String>,
    },
    /// Something that the host needs was not given.
    #[error("{what} is missing; {why}")]
    Missing {
        /// What.
        what: &'static str,
        /// Why it is needed.
        why: &'static str,
    },
    /// The owner lease cannot be had (RL-285).
    #[error("the owner lease was refused")]
    Lease(#[source] LocationError),
    /// The socket cannot be had.
    #[error(transparent)]
    Mesh(#[from] spotlane_mesh::StartError),
    /// The prefix of the node id is not legal.
    #[error(transparent)]
    Prefix(#[from] BadPrefix),
    /// The mesh does not take its configuration.
    #[error(transparent)]
    MeshConfig(#[from] spotlane_mesh::ConfigError),
    /// A part of the host could not be made.
    #[error(transparent)]
    Host(#[from] Error),
}

/// Collects what a host is made of.
#[must_use = "a builder does nothing until it is started"]
pub struct HostBuilder {
    mesh: Option<String>,
    node: Option<Vec<u8>>,
    prefix: String,
    listen: String,
    advertise: Option<String>,
    location_store: Option<BoxedStore>,
    relocation_store: Option<BoxedRelocation>,
    types: Registry,
    entry: Option<Box<dyn ErasedEntrySpot>>,
    faults: Vec<String>,
    settings: Settings,
}

impl HostBuilder {
    pub(crate) fn new() -> Self {
        Self {
            mesh: None,
            node: None,
            prefix: "spotlane".to_owned(),
            listen: "tcp://127.0.0.1:0".to_owned(),
            advertise: None,
            location_store: None,
            relocation_store: None,
            types: Registry::default(),
            entry: None,
            faults: Vec::new(),
            settings: Settings::default(),
        }
    }

    /// The mesh that the host belongs to.
    pub fn mesh(mut self, name: impl Into<String>) -> Self {
        self.mesh = Some(name.into());
        self
    }

    /// The routing id of the node, unique in the mesh; otherwise one is drawn at each start: the prefix
    /// and a UUID of version 4 (TR-12).
    pub fn node_id(mut self, rid: impl AsRef<[u8]>) -> Self {
        self.node = Some(rid.as_ref().to_vec());
        self
    }

    /// What a drawn routing id begins with: 1 to 64 of `A-Z a-z 0-9 . _ -`; `spotlane` otherwise (TR-12).
    /// It tells an operator what a node is for; nothing in the mesh reads it.
    pub fn node_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Where to listen: `tcp://host:port`, port 0 for a free one. `tcp://127.0.0.1:0` otherwise.
    pub fn listen(mut self, endpoint: impl Into<String>) -> Self {
        self.listen = endpoint.into();
        self
    }

    /// What other nodes dial, when that is not where the host listens.
    pub fn advertise(mut self, endpoint: impl Into<String>) -> Self {
        self.advertise = Some(endpoint.into());
        self
    }

    /// The Location Store, shared by all hosts of the mesh.
    pub fn location_store(mut self, store: impl StoreProvider) -> Self {
        self.location_store = Some(BoxedStore::new(store));
        self
    }

    /// The Relocation Store; needed as soon as a type moves (RL-121).
    pub fn relocation_store(mut self, store: impl RelocationProvider) -> Self {
        self.relocation_store = Some(BoxedRelocation::new(store));
        self
    }

    /// Registers an Actor type with its one relocation policy and its factory (RL-2, RL-309).
    pub fn actor<A: Actor>(
        mut self,
        policy: Policy<A>,
        factory: impl Fn() -> A + Send + Sync + 'static,
    ) -> Self {
        match ActorType::of(policy, factory) {
            Ok(actor_type) => self.faults.extend(self.types.add(actor_type).err()),
            Err(faults) => self.faults.extend(faults),
        }
        self
    }

    /// Registers what the Entry Spot of the host does when Actors join and leave it (RL-45, RL-46); nothing otherwise.
    pub fn entry_spot(mut self, spot: impl EntrySpot) -> Self {
        if self.entry.replace(Box::new(spot)).is_some() {
            let fault = "the entry spot is registered twice";
            self.faults.push(fault.to_owned());
        }
        self
    }

    /// The settings; the contract's otherwise.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Checks everything, claims the owner lease, binds the socket, enters the directory.
    ///
    /// When the store does not answer, the host starts all the same and is `Preparing` until it does (RL-285).
    ///
    /// # Errors
    /// Nothing is left behind.
    ///
    /// # Cancel safety
    /// Dropped early, everything ends; the lease, if it was claimed, ends by itself.
    pub async fn start(mut self) -> Result<Host, StartError> {
        let settings = self.settings.checked()?;
        if !self.faults.is_empty() {
            return Err(StartError::Registration {
                faults: self.faults,
            });
        }
        self.check_relocation_store()?;
        let (listen, advertise) = (self.listen.clone(), self.advertise.clone());
        let entry = self.entry.take();
        let core = self.core(settings)?;
        if let Some(spot) = entry {
            drop(core.entry.set(EntryLane::new(&core, spot)));
        }
        core.lease
            .claim(&core.identity.mesh)
            .await
            .map_err(StartError::Lease)?;
        bind(&core, &listen, advertise.as_deref()).await?;
        run_loops(&core);
        // The first look is made here, so that a host that started is in the directory, if the store answers.
        directory::look(&core).await;
        Ok(Host::of(core))
    }

    fn check_relocation_store(&self) -> Result<(), StartError> {
        let moves = self
            .types
            .all()
            .any(|t| t.policy != RelocationPolicyKind::Disabled);
        if moves && self.relocation_store.is_none() {
            return Err(StartError::Missing {
                what: "the relocation store",
                why: "a registered type moves; give one, or use Policy::disable (RL-121)",
            });
        }
        Ok(())
    }

    fn core(self, settings: Checked) -> Result<Arc<Core>, StartError> {
        let missing = |what, why| StartError::Missing { what, why };
        let mesh = self
            .mesh
            .ok_or_else(|| missing("the mesh", "call mesh(name)"))?;
        // SB-5: a host without a store has no Actors, and no session that could bind one.
        let store = self.location_store;
        let store = store.ok_or_else(|| missing("the location store", "call location_store"))?;
        let runtime = Handle::try_current()
            .map_err(|_| missing("a tokio runtime", "start the host inside of one"))?;
        let prefix = IdPrefix::new(self.prefix)?;
        let rid = match self.node {
            Some(rid) => NodeRid::new(&rid),
            None => prefix.id(crate::random::id_bytes()),
        };
        let mesh = MeshName::new(&mesh).map_err(Error::from)?;
        let identity = Identity::new(mesh, rid.map_err(Error::from)?)?;
        let clock = HostClock::start();
        let lane_clock: Arc<dyn Clock> = Arc::new(clock);
        let engine = Engine::start(&runtime, settings.workers, Arc::clone(&lane_clock));
        let cells = engine.kind(settings.all.lane_limits, GateUse::Own);
        let timing = HostTiming(clock);
        let keeper = LeaseKeeper::new(
            store.clone(),
            timing,
            identity.owner.clone(),
            settings.lease,
        );
        let capacity = Capacity::new(settings.all.actor_limit);
        let permits = usize::try_from(settings.all.activation_concurrency).unwrap_or(usize::MAX);
        Ok(Arc::new(Core {
            clock,
            identity,
            ids: Ids::new(),
            cells,
            engine,
            timers: Timers::new(lane_clock),
            jobs: JobQueue::new(settings.jobs),
            repository: Repository::new(store, timing),
            relocation_store: self.relocation_store,
            lease: OwnLease::new(keeper),
            types: self.types,
            slots: Slots::new(Arc::clone(&capacity)),
            capacity,
            creations: Creations::default(),
            entry: OnceLock::new(),
            joins: Arc::default(),
            pending: Pending::default(),
            moves: Moves::new(settings.relocation),
            host_move: HostMove::default(),
            sessions: Sessions::default(),
            routes: Mutex::new(RouteCache::new(
                settings.routes,
                settings.all.route_cache_capacity,
            )),
            directory: Directory::new(self.listen),
            mesh: OnceLock::new(),
            activations: Semaphore::new(permits.min(Semaphore::MAX_PERMITS)),
            state: StateCell::new(),
            shutdown: watch::Sender::new(None),
            shutting_down: AtomicBool::new(false),
            processors: Processors::new(runtime.clone(), settings.workers),
            operations: Arc::default(),
            tasks: Tasks::new(runtime),
            settings,
        }))
    }
}

async fn bind(core: &Arc<Core>, listen: &str, advertise: Option<&str>) -> Result<(), StartError> {
    let lease = core.lease.held().map(|held| held.lease().generation());
    // The lease is no part of what a link is admitted by.
    let described = directory::describe(core, lease.unwrap_or(OwnerLeaseGeneration::MIN))?;
    let identity = NodeIdentity {
        rid: core.identity.rid.clone(),
        descriptor: directory::admission(&described)?,
    };
    let settings = &core.settings.all;
    let mut config = MeshConfig::new(identity)
        .listen(listen)?
        .send_timeout(settings.send_timeout)?
        .seed(crate::random::u64());
    if let Some(advertise) = advertise {
        config = config.advertise(advertise)?;
    }
    let mesh = Mesh::start(config, Inlet(Dispatcher::new(core))).await?;
    drop(core.mesh.set(mesh));
    Ok(())
}

fn run_loops(core: &Arc<Core>) {
    core.tasks.spawn(lease::keep_renewing(Arc::downgrade(core)));
    core.tasks
        .spawn(directory::keep_watching(Arc::downgrade(core)));
    let (timers, source) = (core.timers.clone(), core.jobs.source());
    core.tasks
        .spawn(async move { timers.run(Some(source)).await });
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder")
            .field("mesh", &self.mesh)
            .field("listen", &self.listen)
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}
