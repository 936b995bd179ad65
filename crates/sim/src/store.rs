//! The way of a host to the Location Store: the real provider in memory, its fault wrapper, and a network in between.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spotlane_location::{Monotonic, Timing};
use spotlane_store::{
    ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider, StoreTime,
    WriteOutcome, WriteRequest,
};
use spotlane_store_memory::{FaultControl, FaultStore, MemoryStore};

use crate::executor::{Handle, Owner};
use crate::random::Random;

/// The store's time at the start of a world, in milliseconds since 1970.
pub const STORE_EPOCH: u64 = 1_700_000_000_000;

/// The store of a world, by its virtual time.
pub fn memory(handle: &Handle) -> MemoryStore {
    let handle = handle.clone();
    MemoryStore::new(move || {
        let millis = u64::try_from(handle.now().as_millis()).unwrap_or(u64::MAX);
        StoreTime::from_unix_millis(STORE_EPOCH.saturating_add(millis))
    })
}

/// How long one way to the store takes now.
#[derive(Debug)]
struct Weather {
    random: Random,
    /// The least and the greatest time of one way, in microseconds.
    usual: (u64, u64),
    /// How many ways of a hundred take much longer.
    late_percent: u64,
    /// How long those take at most, in microseconds.
    late: u64,
}

/// A provider behind a network with virtual time.
///
/// A write that has left goes on when its sender dies, so a crash finds out nothing about it.
#[derive(Clone, Debug)]
pub struct RemoteStore {
    store: FaultStore<MemoryStore>,
    control: FaultControl,
    handle: Handle,
    /// Protects the draws of this way. It is a leaf.
    weather: Arc<Mutex<Weather>>,
}

impl RemoteStore {
    /// The way of one host to the store.
    pub fn new(store: MemoryStore, handle: Handle, random: Random) -> Self {
        let control = FaultControl::new();
        Self {
            store: FaultStore::new(store, control.clone()),
            control,
            handle,
            weather: Arc::new(Mutex::new(Weather {
                random,
                usual: (150, 600),
                late_percent: 0,
                late: 0,
            })),
        }
    }

    /// The faults of this way.
    pub const fn control(&self) -> &FaultControl {
        &self.control
    }

    /// Lets some answers be late from now on; 0 percent ends it.
    pub fn late(&self, percent: u64, at_most: Duration) {
        let mut weather = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        weather.late_percent = percent;
        weather.late = u64::try_from(at_most.as_micros()).unwrap_or(u64::MAX);
    }

    async fn way(&self) {
        let by = {
            let mut weather = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
            let (low, high) = weather.usual;
            let percent = weather.late_percent;
            let late = weather.late;
            if weather.random.percent(percent) {
                weather.random.micros(high, late.max(high))
            } else {
                weather.random.micros(low, high)
            }
        };
        self.handle.sleep(by).await;
    }
}

impl StoreProvider for RemoteStore {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.way().await;
        let answer = self.store.read(key).await;
        self.way().await;
        answer
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        let (answered, answer) = tokio::sync::oneshot::channel();
        let way = self.clone();
        self.handle.spawn(Owner::Store, async move {
            way.way().await;
            let answer = way.store.write(request).await;
            way.way().await;
            // Nobody listens when the sender has died.
            answered.send(answer).ok();
        });
        let lost = || StoreError::indeterminate("the way to the store is gone");
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.way().await;
        let answer = self.store.scan(request).await;
        self.way().await;
        answer
    }
}

/// The clock of one host for the repository: every host counts from an origin of its own.
#[derive(Clone, Debug)]
pub struct HostTime {
    handle: Handle,
    offset: Duration,
    /// Protects the draws of pauses. It is a leaf.
    random: Arc<Mutex<Random>>,
}

impl HostTime {
    /// The clock of a host that is `offset` ahead of the world's.
    pub fn new(handle: Handle, offset: Duration, random: Random) -> Self {
        Self {
            handle,
            offset,
            random: Arc::new(Mutex::new(random)),
        }
    }
}

impl Timing for HostTime {
    fn now(&self) -> Monotonic {
        Monotonic::from_origin(self.handle.now().saturating_add(self.offset))
    }

    async fn pause(&self, attempt: u32) {
        let most = 500_u64 << attempt.min(6);
        let by = {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            random.micros(most / 2, most)
        };
        self.handle.sleep(by).await;
    }
}
