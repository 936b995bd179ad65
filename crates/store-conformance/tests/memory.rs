//! The stores in memory pass the suite, bare and behind faults that do not happen.

#![expect(clippy::unwrap_used, reason = "a test file")]

use std::time::Duration;

use spotlane_store::{BoxedStore, StoreProvider, StoreTime};
use spotlane_store_conformance::{
    LossyNetwork, MemorySubject, Subject, check_relocation, check_store,
};
use spotlane_store_memory::{
    Fault, FaultControl, FaultStore, ManualClock, MemoryRelocation, MemoryStore,
};

fn clock() -> ManualClock {
    ManualClock::new(StoreTime::from_unix_millis(1_000))
}

/// ST-20, ST-40.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes() {
    let clock = clock();
    let subject = MemorySubject::new(MemoryStore::new(clock.clone()), move |by| clock.advance(by));
    check_store(&subject).await.unwrap();
}

/// ST-40: the object-safe form keeps every promise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boxed_memory_passes() {
    let clock = clock();
    let store = BoxedStore::new(MemoryStore::new(clock.clone()));
    check_store(&MemorySubject::new(store, move |by| clock.advance(by)))
        .await
        .unwrap();
}

/// ST-92.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_relocation_passes() {
    let clock = clock();
    let store = MemoryRelocation::new(clock.clone());
    check_relocation(&MemorySubject::new(store, move |by| clock.advance(by)))
        .await
        .unwrap();
}

/// ST-21, ST-92: the wrapper at zero faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faultless_relocation_passes() {
    let clock = clock();
    let store = FaultStore::new(MemoryRelocation::new(clock.clone()), FaultControl::new());
    check_relocation(&MemorySubject::new(store, move |by| clock.advance(by)))
        .await
        .unwrap();
}

/// Memory behind faults: none of them happens but those that the suite asks for.
struct Faulty {
    store: MemoryStore,
    clock: ManualClock,
    control: FaultControl,
    network: Losses,
}

struct Losses(FaultControl);

impl LossyNetwork for Losses {
    fn lose_next_answer(&self) {
        self.0.next(Fault::LoseAnswer).unwrap();
    }

    fn lose_next_request(&self) {
        self.0.next(Fault::LoseRequest).unwrap();
    }
}

impl Subject for Faulty {
    type Provider = FaultStore<MemoryStore>;

    fn node(&self) -> Self::Provider {
        FaultStore::new(self.store.clone(), FaultControl::new())
    }

    async fn pass(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn lossy(&self) -> Option<(Self::Provider, &dyn LossyNetwork)> {
        Some((
            FaultStore::new(self.store.clone(), self.control.clone()),
            &self.network,
        ))
    }
}

/// ST-7, ST-21, ST-40.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_behind_faults_passes() {
    let (clock, control) = (clock(), FaultControl::new());
    let store = MemoryStore::new(clock.clone());
    let network = Losses(control.clone());
    check_store(&Faulty {
        store,
        clock,
        control,
        network,
    })
    .await
    .unwrap();
}

/// ST-21: a node that is cut off touches nothing; the others do not notice.
#[tokio::test]
async fn a_node_is_cut_off_alone() {
    let store = MemoryStore::new(clock());
    let (control, key) = (
        FaultControl::new(),
        spotlane_store::StoreKey::new("key").unwrap(),
    );
    let cut = FaultStore::new(store.clone(), control.clone());
    let other = FaultStore::new(store, FaultControl::new());
    control.cut_off();
    let error = cut.read(&key).await.unwrap_err();
    assert_eq!(error.recovery(), spotlane_store::Recovery::Retry);
    assert!(other.read(&key).await.unwrap().found().is_none());
    control.heal();
    assert!(cut.read(&key).await.is_ok());
}
