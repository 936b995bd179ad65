//! The parts of one host, put together once and shared by everything that runs on it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use spotlane_lane::{Engine, JobQueue, Kind, Timers};
use spotlane_location::Repository;
use spotlane_location::cache::{RouteCache, Tenure};
use spotlane_location::lease::HeldLease;
use spotlane_location::record::DescriptorName;
use spotlane_mesh::Mesh;
use spotlane_store::{BoxedRelocation, BoxedStore};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{Correlation, ReplyRouteId};
use spotlane_types::generation::{NodeGeneration, ObjectGeneration};
use spotlane_types::id::{ActorId, MeshName, NodeRid, OperationId, OwnerId, SpotId};
use spotlane_wire::reference::{ActorRouteFence, SpotRef};
use tokio::sync::{Semaphore, watch};

use crate::capacity::Capacity;
use crate::cell::Cell;
use crate::clock::{Deadline, HostClock, HostTiming};
use crate::compute::Processors;
use crate::creations::Creations;
use crate::directory::Directory;
use crate::entry::EntryLane;
use crate::error::Error;
use crate::in_flight::InFlight;
use crate::lease::OwnLease;
use crate::operations::Operations;
use crate::registry::Registry;
use crate::relocation::{HostMove, Moves, Pending};
use crate::remote::fence_of;
use crate::session::Sessions;
use crate::settings::Checked;
use crate::shutdown::Shutdown;
use crate::slots::Slots;
use crate::state::{HostState, StateCell};
use crate::tasks::Tasks;

/// Who this host is for the time it runs.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) mesh: MeshName,
    pub(crate) rid: NodeRid,
    /// Random, so that two runs of a node differ (TR-76).
    pub(crate) generation: NodeGeneration,
    /// Never used before and never again (ST-60).
    pub(crate) owner: OwnerId,
    /// The Entry Spot of the node: where its Actors are members at first (RL-30).
    pub(crate) entry_spot: SpotRef,
}

impl Identity {
    /// RL-30, RL-31: the Entry Spot's id is issued here and has the reserved form.
    pub(crate) fn new(mesh: MeshName, rid: NodeRid) -> Result<Self, Error> {
        let uuid = crate::random::uuid();
        let entry = format!("spotlane-entry-{uuid}");
        Ok(Self {
            mesh,
            rid,
            generation: NodeGeneration::new(crate::random::positive())?,
            owner: OwnerId::new(&format!("spotlane-{}", crate::random::uuid()))?,
            entry_spot: SpotRef {
                spot_id: SpotId::new(&entry)?,
                object_generation: ObjectGeneration::MIN,
            },
        })
    }

    pub(crate) fn descriptor_name(&self) -> DescriptorName {
        DescriptorName {
            mesh_name: self.mesh.clone(),
            routing_id: self.rid.clone(),
        }
    }
}

/// Ids that are unique for the run of this host (RL-260, EX-271).
#[derive(Debug)]
pub(crate) struct Ids {
    run: u64,
    next: AtomicU64,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self {
            run: crate::random::positive(),
            next: AtomicU64::new(1),
        }
    }

    fn next(&self) -> u64 {
        // EX-271: 2^63 numbers do not wrap within the run of a process; what would come behind them is refused by
        // its type, which is the end of the host.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    #[expect(clippy::expect_used, reason = "the run is not zero")]
    pub(crate) fn operation(&self) -> OperationId {
        OperationId::new(self.run, self.next()).expect("not both words are zero")
    }

    #[expect(clippy::expect_used, reason = "it starts at 1 and does not wrap")]
    pub(crate) fn reply_route(&self) -> ReplyRouteId {
        ReplyRouteId::new(self.next()).expect("1 to 2^63 - 1")
    }

    /// What one request is called: the operation and the correlation.
    #[expect(clippy::expect_used, reason = "as above")]
    pub(crate) fn request(&self) -> (OperationId, Correlation) {
        let first = self.next.fetch_add(2, Ordering::Relaxed);
        let operation = OperationId::new(self.run, first).expect("not both words are zero");
        let correlation = Correlation::new(first.wrapping_add(1)).expect("1 to 2^63 - 1");
        (operation, correlation)
    }

    #[expect(clippy::expect_used, reason = "it starts at 1 and does not wrap")]
    pub(crate) fn correlation(&self) -> Correlation {
        Correlation::new(self.next()).expect("1 to 2^63 - 1")
    }
}

/// Everything of one host.
pub(crate) struct Core {
    pub(crate) clock: HostClock,
    pub(crate) settings: Checked,
    pub(crate) identity: Identity,
    pub(crate) ids: Ids,
    pub(crate) engine: Engine,
    pub(crate) cells: Kind<Cell>,
    pub(crate) timers: Timers,
    pub(crate) jobs: JobQueue,
    pub(crate) repository: Repository<BoxedStore, HostTiming>,
    /// For the answers of moved requests (RL-263); the payload of a move never goes there (RL-121).
    pub(crate) relocation_store: Option<BoxedRelocation>,
    pub(crate) lease: OwnLease,
    pub(crate) types: Registry,
    pub(crate) slots: Slots,
    pub(crate) capacity: Arc<Capacity>,
    pub(crate) creations: Creations,
    /// The Entry Spot, when the application has registered one; set once, before the socket is bound.
    pub(crate) entry: OnceLock<EntryLane>,
    /// Joins that a handler has recorded and that have not ended (RL-148).
    pub(crate) joins: Arc<InFlight>,
    pub(crate) pending: Pending,
    pub(crate) moves: Moves,
    pub(crate) host_move: HostMove,
    pub(crate) sessions: Sessions,
    /// A hint (RL-165). A leaf lock.
    pub(crate) routes: Mutex<RouteCache>,
    pub(crate) directory: Directory,
    /// Set once, when the socket is bound.
    pub(crate) mesh: OnceLock<Mesh>,
    /// RL-314, RL-130.
    pub(crate) activations: Semaphore,
    pub(crate) state: StateCell,
    /// What the shutdown came to, once it has.
    pub(crate) shutdown: watch::Sender<Option<Shutdown>>,
    pub(crate) shutting_down: AtomicBool,
    /// Of other nodes, for this one.
    pub(crate) operations: Arc<Operations>,
    pub(crate) tasks: Tasks,
    pub(crate) processors: Processors,
}

impl Core {
    /// `true` for the first caller, who runs the shutdown (RL-220).
    pub(crate) fn begin_shutdown(&self) -> bool {
        !self.shutting_down.swap(true, Ordering::AcqRel)
    }

    /// Whether the host may start messages, timers and changes now (RL-283, RL-284).
    pub(crate) fn admits(&self) -> bool {
        self.lease.admits(self.clock)
    }

    /// The lease, to act with.
    ///
    /// # Errors
    /// There is none, or it is past its deadline (RL-284).
    pub(crate) fn held(&self) -> Result<HeldLease, Error> {
        self.lease
            .held()
            .filter(|held| held.admits(self.clock.location_now()))
            .ok_or_else(|| Error::unavailable(crate::cell::NOT_ADMITTED))
    }

    pub(crate) fn deadline(&self, timeout: Duration) -> Deadline {
        Deadline::after(self.clock, timeout)
    }

    /// EX-105: what a host that drains or has stopped answers.
    pub(crate) fn must_take_messages(&self) -> Result<(), Error> {
        match self.state.get() {
            HostState::Draining | HostState::Stopped => Err(Error::shutting_down()),
            _ => Ok(()),
        }
    }

    /// What a caller is told whose request lost its object before it was handled: by the end of the host (EX-306), or by
    /// that of the object (EX-44, EX-112).
    pub(crate) fn gone(&self) -> Error {
        self.must_take_messages().err().unwrap_or_else(|| {
            Error::unavailable("the object moved or ended before the request was handled")
        })
    }

    /// RL-227, EX-314: new objects need a host that serves.
    pub(crate) fn must_take_objects(&self) -> Result<(), Error> {
        match self.state.get() {
            HostState::Serving => Ok(()),
            HostState::Preparing | HostState::Error => Err(Error::unavailable(
                "the host is not serving yet; wait until its status says so",
            )),
            _ => Err(Error::shutting_down()),
        }
    }

    pub(crate) fn mesh(&self) -> Result<&Mesh, Error> {
        self.mesh
            .get()
            .ok_or_else(|| Error::unavailable("the host has not bound its socket yet"))
    }

    /// Where the route cache says that an object is.
    pub(crate) fn cached_route(&self, object: &AuthorityKey) -> Option<Tenure> {
        let now = self.clock.location_now();
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.get(object, now).map(|route| route.tenure.clone())
    }

    /// As [`Core::cached_route`], in the form in which it travels.
    pub(crate) fn cached_fence(&self, id: &ActorId) -> Option<ActorRouteFence> {
        let (key, now) = (actor_key(id), self.clock.location_now());
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes
            .usable(&key, now)
            .map(|route| fence_of(id, &route.tenure))
    }

    /// RL-161, RL-167: compare and remove.
    pub(crate) fn forget_route(&self, tenure: &Tenure) -> bool {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.remove_exact(tenure)
    }

    /// RL-3, RL-7: whether a route leads to this very run of this node.
    pub(crate) fn is_here(&self, tenure: &Tenure) -> bool {
        tenure.node_rid == self.identity.rid && tenure.node_generation == self.identity.generation
    }
}

/// The key of an Actor.
pub(crate) fn actor_key(id: &ActorId) -> AuthorityKey {
    AuthorityKey::Actor(id.clone())
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("identity", &self.identity)
            .field("state", &self.state.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// EX-271, RL-260: whatever asks, and however many at a time, no number comes twice; two runs differ.
    #[test]
    fn ids_are_unique_for_a_run() {
        let ids = Ids::new();
        let draw = || {
            let mut drawn = Vec::new();
            for _ in 0..1000 {
                let operation = ids.operation();
                assert_eq!(operation.high(), ids.run);
                drawn.push(operation.low());
                drawn.push(ids.reply_route().get());
                drawn.push(ids.correlation().get());
                let (operation, correlation) = ids.request();
                drawn.extend([operation.low(), correlation.get()]);
            }
            drawn
        };
        let drawn = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            let drawn = threads.into_iter().flat_map(|it| it.join().unwrap());
            drawn.collect::<Vec<_>>()
        });
        let unique: BTreeSet<_> = drawn.iter().collect();
        assert_eq!((unique.len(), unique.contains(&0)), (20_000, false));
        assert_ne!(Ids::new().run, ids.run);
    }
}
