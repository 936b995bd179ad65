//! Hosts for tests: a lease, a published node and a repository each, with time that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use spotlane_location::authority::{
    ActiveObject, Authority, PreparedTarget, Reservation, ReservedObject,
};
use spotlane_location::directory::Candidate;
use spotlane_location::lease::{HeldLease, LeaseKeeper, LeaseSettings};
use spotlane_location::record::{
    ActivationConcurrency, ChannelWeights, DescriptorName, MeshNodeDescriptor, NodeCapacity,
    PendingCreation, WeightSetting,
};
use spotlane_location::{LocationError, Monotonic, Repository, Timing};
use spotlane_store::{
    BoxedStore, ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider,
    StoreTime, WriteOutcome, WriteRequest,
};
use spotlane_store_memory::{ManualClock, MemoryStore};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::ApplicationVersion;
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{
    Endpoint, MeshName, NodeRid, OwnerId, SecurityIdentity, SpotId, StableType,
};
use spotlane_types::kind::{AuthorityOperationKind, ObjectRole, RuntimeState, SpotAuthorityState};
use spotlane_types::time::UnixMillis;
use spotlane_wire::authority::{AuthorityObject, AuthorityPayload, SpotAuthorityIdentity};

/// A monotonic clock that is moved by hand; a pause moves it too, so that every wait ends.
#[derive(Clone, Debug)]
pub(crate) struct HandTime {
    now: Arc<AtomicU64>,
    /// What a pause adds, in milliseconds.
    step: u64,
}

impl HandTime {
    pub(crate) fn new(step: u64) -> Self {
        let now = Arc::default();
        Self { now, step }
    }

    pub(crate) fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap();
        self.now.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Timing for HandTime {
    fn now(&self) -> Monotonic {
        Monotonic::from_origin(Duration::from_millis(self.now.load(Ordering::SeqCst)))
    }

    async fn pause(&self, _: u32) {
        self.advance(Duration::from_millis(self.step));
        tokio::task::yield_now().await;
    }
}

pub(crate) fn store_clock() -> ManualClock {
    ManualClock::new(StoreTime::from_unix_millis(1_700_000_000_000))
}

pub(crate) fn memory() -> (BoxedStore, ManualClock) {
    let clock = store_clock();
    (BoxedStore::new(MemoryStore::new(clock.clone())), clock)
}

pub(crate) fn mesh() -> MeshName {
    MeshName::new("main").unwrap()
}

pub(crate) fn spot(id: &str) -> AuthorityKey {
    AuthorityKey::Spot(SpotId::new(id).unwrap())
}

/// One host with one node.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) time: HandTime,
    pub(crate) held: HeldLease,
    pub(crate) keeper: LeaseKeeper<BoxedStore, HandTime>,
    pub(crate) repository: Repository<BoxedStore, HandTime>,
    pub(crate) node: MeshNodeDescriptor,
}

pub(crate) fn descriptor(name: &str, held: &HeldLease, revision: u64) -> MeshNodeDescriptor {
    MeshNodeDescriptor {
        mesh_name: mesh(),
        routing_id: NodeRid::new(name.as_bytes()).unwrap(),
        lifecycle_generation: NodeGeneration::new(1).unwrap(),
        descriptor_revision: DescriptorRevision::new(revision).unwrap(),
        endpoint: Endpoint::new("tcp://node:5000").unwrap(),
        entry_spot_id: None,
        channel_weights: ChannelWeights::default(),
        application_version: ApplicationVersion::new(1).unwrap(),
        object_capabilities: Vec::new(),
        object_role: ObjectRole::Server,
        placement_weight: WeightSetting::new(100).unwrap(),
        capacity: NodeCapacity::default(),
        activation_concurrency: ActivationConcurrency::default(),
        maintenance_wave: None,
        state: RuntimeState::Serving,
        security_identity: SecurityIdentity::new("identity").unwrap(),
        owner_id: held.lease().owner().clone(),
        lease_generation: held.lease().generation(),
        updated_at_epoch_ms: UnixMillis::new(1).unwrap(),
    }
}

impl Host {
    /// `set_up` writes lease and descriptor without faults; `store` is what the host works with afterwards.
    pub(crate) async fn start(name: &str, set_up: &BoxedStore, store: BoxedStore) -> Self {
        Self::start_with(
            name,
            set_up,
            store,
            HandTime::new(1),
            LeaseSettings::default(),
        )
        .await
    }

    pub(crate) async fn start_with(
        name: &str,
        set_up: &BoxedStore,
        store: BoxedStore,
        time: HandTime,
        settings: LeaseSettings,
    ) -> Self {
        let owner = OwnerId::new(name).unwrap();
        let first = LeaseKeeper::new(set_up.clone(), time.clone(), owner.clone(), settings);
        let held = first.claim().await.unwrap();
        let node = descriptor(name, &held, 1);
        let repository = Repository::new(set_up.clone(), time.clone());
        let until = time.now().after(Duration::from_secs(5));
        repository
            .publish(&held, node.clone(), until)
            .await
            .unwrap();
        Self {
            keeper: LeaseKeeper::new(store.clone(), time.clone(), owner, settings),
            repository: Repository::new(store, time.clone()),
            time,
            held,
            node,
        }
    }

    pub(crate) fn until(&self) -> Monotonic {
        self.time.now().after(Duration::from_secs(5))
    }

    pub(crate) fn name(&self) -> DescriptorName {
        DescriptorName {
            mesh_name: self.node.mesh_name.clone(),
            routing_id: self.node.routing_id.clone(),
        }
    }

    pub(crate) async fn candidate(&self) -> Candidate {
        let found = self.repository.candidate(&self.name(), self.until()).await;
        found.unwrap().unwrap()
    }

    pub(crate) fn payload(&self, id: &str, state: SpotAuthorityState) -> AuthorityPayload {
        let closing = state == SpotAuthorityState::Closing;
        AuthorityPayload {
            operation_kind: if closing {
                AuthorityOperationKind::Close
            } else {
                AuthorityOperationKind::Steady
            },
            object: AuthorityObject::Spot {
                spot: SpotAuthorityIdentity::User {
                    spot_id: SpotId::new(id).unwrap(),
                    spot_type: StableType::new("game").unwrap(),
                    state,
                },
            },
            owner_id: self.held.lease().owner().clone(),
            owner_lease_generation: self.held.lease().generation(),
            owner_mesh_name: self.node.mesh_name.clone(),
            owner_node_rid: self.node.routing_id.clone(),
            owner_node_generation: self.node.lifecycle_generation,
            relocation_state: None,
            activation_recovery_state: None,
        }
    }

    pub(crate) async fn reserve_on(
        &self,
        to: &Self,
        id: &str,
    ) -> Result<ReservedObject, LocationError> {
        let elsewhere = self.held.lease() != to.held.lease();
        let pending = elsewhere.then(|| {
            let reservation = format!("by {}", self.held.lease().owner());
            PendingCreation::inline(reservation.parse().unwrap(), b"request").unwrap()
        });
        let reservation = Reservation::new(to.payload(id, SpotAuthorityState::Creating), pending);
        let candidate = to.candidate().await;
        self.repository
            .reserve(&self.held, &candidate, reservation, self.until())
            .await
    }

    pub(crate) async fn commit(
        &self,
        id: &str,
        reserved: &ReservedObject,
    ) -> Result<ActiveObject, LocationError> {
        let candidate = self.candidate().await;
        let payload = self.payload(id, SpotAuthorityState::Ready);
        self.repository
            .commit(
                &self.held,
                &candidate,
                reserved,
                &payload,
                None,
                self.until(),
            )
            .await
    }

    pub(crate) async fn create(&self, id: &str) -> ActiveObject {
        let reserved = self.reserve_on(self, id).await.unwrap();
        self.commit(id, &reserved).await.unwrap()
    }

    pub(crate) fn prepared(&self, id: &str) -> PreparedTarget {
        let payload = self.payload(id, SpotAuthorityState::Ready);
        PreparedTarget::new(self.held.clone(), payload).unwrap()
    }

    pub(crate) async fn read(&self, id: &str) -> Authority {
        self.repository.read(&spot(id), self.until()).await.unwrap()
    }

    pub(crate) async fn active(&self, id: &str) -> ActiveObject {
        match self.read(id).await {
            Authority::Active(active) => active,
            other => panic!("{id} is {other:?}"),
        }
    }
}

/// Every record of a store.
pub(crate) async fn everything(store: &impl StoreProvider) -> Vec<spotlane_store::Row> {
    let prefix = spotlane_store::KeyPrefix::new("").unwrap();
    let request = ScanRequest::first(prefix, 1_000).unwrap();
    store
        .scan(request)
        .await
        .unwrap()
        .page()
        .unwrap()
        .into_rows()
}

/// Counts what reaches a store.
#[derive(Clone, Default)]
pub(crate) struct Counts(Arc<[AtomicUsize; 2]>);

impl Counts {
    pub(crate) fn over(&self, store: &BoxedStore) -> BoxedStore {
        BoxedStore::new(Counting(store.clone(), self.clone()))
    }

    pub(crate) fn reset(&self) {
        self.0
            .iter()
            .for_each(|count| count.store(0, Ordering::SeqCst));
    }

    pub(crate) fn reads(&self) -> usize {
        self.0[0].load(Ordering::SeqCst)
    }

    pub(crate) fn writes(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }
}

struct Counting(BoxedStore, Counts);

impl StoreProvider for Counting {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.1.0[0].fetch_add(1, Ordering::SeqCst);
        self.0.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        self.1.0[1].fetch_add(1, Ordering::SeqCst);
        self.0.write(request).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.0.scan(request).await
    }
}
