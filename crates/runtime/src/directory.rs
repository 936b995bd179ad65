//! The nodes of the mesh: what this one says of itself, and whom it has found (RL-280, RL-301, RL-302).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use spotlane_location::directory::Candidate;
use spotlane_location::record::{
    ActivationConcurrency, ChannelWeights, MeshNodeDescriptor, NodeCapacity, ObjectCapability,
    SlotCount,
};
use spotlane_mesh::{DiscoveredNode, PeerIntent};
use spotlane_types::bound::OBJECT_TYPE_CAPACITY_MAX;
use spotlane_types::count::{AvailableCapacity, CapacityLimit, PendingCapacityLimit, Weight};
use spotlane_types::generation::{DescriptorRevision, OwnerLeaseGeneration};
use spotlane_types::id::{Endpoint, NodeRid, ProtocolCapability, SecurityIdentity};
use spotlane_types::kind::{ObjectRole, RelocationPolicyKind, StatefulObjectKind};
use spotlane_wire::descriptor::{
    Channels, DescriptorExtension, ProtocolCapabilities, RouteMeshAdmission, StatefulCapabilities,
    StatefulCapability,
};
use tokio::sync::Semaphore;

use crate::capacity::Capacity;
use crate::core::{Core, Identity};
use crate::error::Error;
use crate::registry::Registry;
use crate::session::end_those_of_the_gone;
use crate::settings::Checked;
use crate::state::HostState;

/// TR-81: what a peer must be able to do.
const CAPABILITY: &str = "framework-service-v13";

/// What is known of the mesh.
#[derive(Debug)]
pub(crate) struct Directory {
    revision: AtomicU64,
    /// One publication at a time: a revision is chosen and written before the next one is chosen, or the loop's and a
    /// shutdown's would refuse each other.
    publishing: Semaphore,
    /// The revision that the store has confirmed; 0 before the first.
    published: AtomicU64,
    /// The counts of Actors in it.
    counted: AtomicU64,
    /// The last complete list (RL-243). A leaf lock.
    found: RwLock<Arc<[Candidate]>>,
    /// Where the host was told to listen.
    listen: String,
    /// Since when the store does not answer, in nanoseconds of the host's clock; 0 when it does.
    failing_since: AtomicU64,
}

impl Directory {
    pub(crate) fn new(listen: String) -> Self {
        Self {
            listen,
            failing_since: AtomicU64::new(0),
            revision: AtomicU64::new(1),
            publishing: Semaphore::new(1),
            published: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            found: RwLock::new(Arc::from(Vec::new())),
        }
    }

    /// The nodes whose lease was live at the last look, this one included.
    pub(crate) fn nodes(&self) -> Arc<[Candidate]> {
        Arc::clone(&self.found.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn node(&self, rid: &NodeRid) -> Option<Candidate> {
        let nodes = self.nodes();
        let found = nodes
            .iter()
            .find(|node| node.descriptor().row.descriptor.routing_id == *rid);
        found.cloned()
    }

    /// What others dial; before the socket is bound, what was asked for.
    fn endpoint(&self, core: &Core) -> Result<Endpoint, Error> {
        match core.mesh.get() {
            Some(mesh) => Ok(mesh.advertised_endpoint().clone()),
            None => Ok(Endpoint::new(&self.listen)?),
        }
    }

    /// Whether this is the first answer after a failure.
    fn recovered(&self) -> bool {
        self.failing_since.swap(0, Ordering::AcqRel) != 0
    }

    fn failing_for(&self, now: Duration) -> Duration {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(1);
        let since =
            self.failing_since
                .compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        Duration::from_nanos(now.saturating_sub(since.err().unwrap_or(now)))
    }

    fn replace(&self, nodes: Vec<Candidate>) {
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = Arc::from(nodes);
    }

    /// Whether the store has what this node says of itself. A count that is limited by nothing is no reason for a
    /// publication of its own.
    fn is_published(&self, capacity: &Capacity) -> bool {
        let current =
            self.published.load(Ordering::Acquire) >= self.revision.load(Ordering::Acquire);
        current
            && (capacity.limit() == 0
                || self.counted.load(Ordering::Acquire)
                    == count(capacity.live(), capacity.reserved()))
    }
}

/// Both counts in one number, to compare.
fn count(active: u32, reserved: u32) -> u64 {
    u64::from(active) << 32 | u64::from(reserved)
}

/// What this node says of itself in the directory.
pub(crate) fn describe(
    core: &Core,
    lease: OwnerLeaseGeneration,
) -> Result<MeshNodeDescriptor, Error> {
    let Identity {
        mesh,
        rid,
        generation,
        owner,
        entry_spot,
    } = &core.identity;
    let settings = &core.settings;
    let capabilities = capabilities(&core.types, settings);
    Ok(MeshNodeDescriptor {
        mesh_name: mesh.clone(),
        routing_id: rid.clone(),
        lifecycle_generation: *generation,
        descriptor_revision: DescriptorRevision::new(
            core.directory.revision.load(Ordering::Acquire),
        )?,
        endpoint: core.directory.endpoint(core)?,
        entry_spot_id: Some(entry_spot.spot_id.clone()),
        channel_weights: ChannelWeights::default(),
        application_version: settings.all.application_version,
        object_capabilities: capabilities,
        object_role: ObjectRole::Server,
        placement_weight: settings.weight,
        capacity: NodeCapacity {
            actors: SlotCount {
                active: core.capacity.live(),
                reserved: core.capacity.reserved(),
                limit: core.capacity.limit(),
            },
            ..NodeCapacity::default()
        },
        activation_concurrency: ActivationConcurrency {
            active: activations(core),
            limit: settings.all.activation_concurrency,
        },
        maintenance_wave: settings.all.maintenance_wave.clone(),
        state: core.state.get().on_the_wire(),
        security_identity: SecurityIdentity::new("plaintext")?,
        owner_id: owner.clone(),
        lease_generation: lease,
        updated_at_epoch_ms: core.clock.unix(),
    })
}

/// How many activations run now.
fn activations(core: &Core) -> u32 {
    let free = core.activations.available_permits();
    let limit = core.settings.all.activation_concurrency;
    limit.saturating_sub(u32::try_from(free).unwrap_or(u32::MAX))
}

fn capabilities(types: &Registry, settings: &Checked) -> Vec<ObjectCapability> {
    let of = |found: &Arc<crate::registry::ActorType>| ObjectCapability {
        object_kind: StatefulObjectKind::Actor,
        stable_type: found.name.clone(),
        policy: found.policy,
        has_snapshot_adapter: found.policy == RelocationPolicyKind::Snapshot,
        limit: settings.all.actor_limit,
    };
    types.all().map(of).collect()
}

/// The same as it travels when a link is admitted (TR-70).
pub(crate) fn admission(node: &MeshNodeDescriptor) -> Result<RouteMeshAdmission, Error> {
    let broken = |error: spotlane_wire::EncodeError| {
        Error::internal("a descriptor cannot be encoded").with_source(error)
    };
    let limit = |limit: u32| {
        CapacityLimit::new(if limit == 0 {
            OBJECT_TYPE_CAPACITY_MAX
        } else {
            limit
        })
    };
    let mut stateful = Vec::new();
    for found in &node.object_capabilities {
        stateful.push(StatefulCapability {
            object_kind: found.object_kind,
            stable_type: found.stable_type.clone(),
            relocation_policy: found.policy,
            active_capacity_limit: limit(found.limit)?,
            pending_capacity_limit: PendingCapacityLimit::new(node.activation_concurrency.limit)?,
            has_snapshot_adapter: found.has_snapshot_adapter,
            // TR-75: nothing in here may change while a link stands; what is used stands in the counts below.
            available: AvailableCapacity::new(u64::from(limit(found.limit)?.get()))?,
        });
    }
    let capability = ProtocolCapability::new(CAPABILITY)?;
    Ok(RouteMeshAdmission {
        mesh_name: node.mesh_name.clone(),
        security_identity: node.security_identity.clone(),
        lifecycle_generation: node.lifecycle_generation,
        descriptor_revision: node.descriptor_revision,
        advertised_endpoint: node.endpoint.clone(),
        channels: Channels::new(Vec::new()).map_err(broken)?,
        extension: DescriptorExtension {
            runtime_state: node.state,
            application_version: node.application_version,
            protocol_capabilities: ProtocolCapabilities::new(vec![capability]).map_err(broken)?,
            object_role: node.object_role,
            placement_weight: Weight::from_setting(node.placement_weight.get())?,
            active_capacity_limit: limit(node.capacity.actors.limit)?,
            pending_capacity_limit: PendingCapacityLimit::new(node.activation_concurrency.limit)?,
            active_capacity_used: node.capacity.actors.active,
            pending_capacity_used: node.capacity.actors.reserved,
            spot_types: None,
            stateful_capabilities: Some(
                StatefulCapabilities::from_unsorted(stateful).map_err(broken)?,
            ),
            maintenance_wave: node.maintenance_wave.clone().map(Some),
        },
    })
}

/// Publishes the descriptor as it is now, under the next revision (TR-77, RL-284), and tells the peers.
///
/// # Errors
/// The lease does not admit it, or the store did not take it within `within`.
pub(crate) async fn publish(core: &Core, within: Duration) -> Result<(), Error> {
    let turn = core.directory.publishing.acquire();
    let turn = tokio::time::timeout(within, turn).await;
    let _turn = turn.map_err(|_| Error::deadline("another publication did not end in time"))?;
    let held = core.held()?;
    let mesh = core.mesh()?;
    let revision = core
        .directory
        .revision
        .fetch_add(1, Ordering::AcqRel)
        .saturating_add(1);
    let descriptor = describe(core, held.lease().generation())?;
    let actors = descriptor.capacity.actors;
    mesh.describe(admission(&descriptor)?);
    let until = core.deadline(within).location();
    core.repository.publish(&held, descriptor, until).await?;
    core.directory
        .published
        .fetch_max(revision, Ordering::AcqRel);
    let counted = count(actors.active, actors.reserved);
    core.directory.counted.store(counted, Ordering::Release);
    Ok(())
}

/// Reads the list of nodes once and keeps the mesh connected to them.
///
/// # Errors
/// The store did not answer; the last complete list stays (RL-243).
pub(crate) async fn refresh(core: &Core) -> Result<(), Error> {
    let until = core
        .deadline(core.settings.lease.renew_timeout())
        .location();
    let nodes = core.repository.discover(&core.identity.mesh, until).await?;
    let mut peers = Vec::new();
    for node in &nodes {
        let descriptor = &node.descriptor().row.descriptor;
        if descriptor.routing_id != core.identity.rid {
            peers.push(PeerIntent::discovered(DiscoveredNode {
                node: descriptor.routing_id.clone(),
                endpoint: descriptor.endpoint.clone(),
                generation: descriptor.lifecycle_generation,
                security_identity: descriptor.security_identity.clone(),
                object_role: descriptor.object_role,
                // Channels come with a later part; a host of objects is needed anyway (TR-73).
                server_channels: 0,
            }));
        }
    }
    core.directory.replace(nodes);
    if let Some(mesh) = core.mesh.get() {
        mesh.set_peers(peers);
    }
    Ok(())
}

/// Looks at the directory once per interval, until the host is gone (RL-301).
pub(crate) async fn keep_watching(core: Weak<Core>) {
    loop {
        let Some((interval, capacity)) = core.upgrade().map(|core| {
            let interval = core.settings.all.polling_interval;
            (interval, Arc::clone(&core.capacity))
        }) else {
            return;
        };
        // A host that has become full, or has room again, says so at once (RL-83).
        let _crossed = tokio::time::timeout(interval, capacity.crossed()).await;
        drop(capacity);
        let Some(core) = core.upgrade() else { return };
        look(&core).await;
    }
}

/// Publishes what is not published yet, and reads the list of nodes.
pub(crate) async fn look(core: &Arc<Core>) {
    let state = core.state.get();
    if core.admits()
        && (!core.directory.is_published(&core.capacity) || state == HostState::Preparing)
    {
        enter(core, state).await;
    }
    // Here since this is what a host does when nothing else happens.
    core.tasks.reap();
    let read = refresh(core).await;
    if read.is_ok() {
        end_those_of_the_gone(core);
    }
    match read {
        Ok(()) if core.directory.recovered() => {
            // RL-167: the store has recovered; what was believed may be old.
            core.routes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
            tracing::info!(target: "spotlane::runtime::directory", "zlink.runtime.location.store_changed");
        }
        Ok(()) => {}
        Err(error) => keep_list(core, &error),
    }
}

/// EX-310: the address is published before the host says that it serves.
async fn enter(core: &Core, state: HostState) {
    let within = core.settings.lease.renew_timeout();
    let mut entered = publish(core, within).await;
    if entered.is_ok() && state == HostState::Preparing && core.state.advance(HostState::Serving) {
        entered = publish(core, within).await;
    }
    if let Err(error) = entered {
        tracing::warn!(target: "spotlane::runtime::directory", %error, "the descriptor was not published");
    }
}

/// RL-302, RL-243: the last complete list serves for the grace time, then there is none.
fn keep_list(core: &Core, error: &Error) {
    metrics::counter!("zlink.location.store.errors", "operation" => "discover").increment(1);
    if core.directory.failing_for(core.clock.elapsed()) > core.settings.all.store_failure_grace {
        core.directory.replace(Vec::new());
    }
    tracing::warn!(target: "spotlane::runtime::directory", %error, "the list of nodes was not read");
}
