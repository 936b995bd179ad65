//! Faults for tests, around any provider and not inside one (ST-21).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spotlane_store::{
    BlobOutcome, BlobReference, DeleteOutcome, PutOutcome, ReadOutcome, RelocationProvider,
    RenewOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider, StoreValue, Ttl,
    WriteOutcome, WriteRequest,
};
use tokio::sync::watch;

/// Most faults that wait for their operation.
pub const FAULTS_QUEUED_MAX: usize = 1_024;

/// What goes wrong with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: this operation is spared.
    None,
    /// It reaches the provider only after this time.
    Delay(Duration),
    /// It never reaches the provider, and the caller knows: transient.
    FailBefore,
    /// It never reaches the provider, and the caller does not know: indeterminate when it writes.
    LoseRequest,
    /// It happens, but its answer is lost: indeterminate when it writes.
    LoseAnswer,
}

/// The faults of one node. A clone steers the same node.
///
/// Each node has its own [`FaultStore`] around a clone of the shared provider, so one can be cut off alone.
#[derive(Clone, Debug)]
pub struct FaultControl(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Protects the plan. It is a leaf: nothing is locked and nothing awaited while it is held.
    plan: Mutex<Plan>,
    reachable: watch::Sender<Reach>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Connected,
    CutOff,
}

#[derive(Debug, Default)]
struct Plan {
    queued: VecDeque<Fault>,
    every_delay: Duration,
    scan_delay: Duration,
}

impl Default for FaultControl {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultControl {
    /// No faults.
    pub fn new() -> Self {
        let (reachable, _) = watch::channel(Reach::Connected);
        Self(Arc::new(Shared {
            plan: Mutex::default(),
            reachable,
        }))
    }

    /// Lets the fault happen to the next operation that has none yet; they are used up in order.
    ///
    /// # Errors
    /// Gives the fault back when [`FAULTS_QUEUED_MAX`] wait already.
    pub fn next(&self, fault: Fault) -> Result<(), Fault> {
        let mut plan = self.plan();
        if plan.queued.len() >= FAULTS_QUEUED_MAX {
            return Err(fault);
        }
        plan.queued.push_back(fault);
        Ok(())
    }

    /// Delays every operation from now on; zero ends it.
    pub fn delay_every(&self, by: Duration) {
        self.plan().every_delay = by;
    }

    /// Delays every page of a scan from now on; zero ends it.
    pub fn slow_scan(&self, by: Duration) {
        self.plan().scan_delay = by;
    }

    /// Cuts the node off: what starts now is transient, and what is under way loses its answer.
    pub fn cut_off(&self) {
        self.0.reachable.send_replace(Reach::CutOff);
    }

    /// Connects the node again.
    pub fn heal(&self) {
        self.0.reachable.send_replace(Reach::Connected);
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one operation of the provider under the plan.
    async fn run<T>(
        &self,
        kind: Kind,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut reachable = self.0.reachable.subscribe();
        if *reachable.borrow_and_update() == Reach::CutOff {
            return Err(StoreError::transient("injected: the node is cut off"));
        }
        let (fault, mut delay) = {
            let mut plan = self.plan();
            (
                plan.queued.pop_front().unwrap_or(Fault::None),
                plan.every_delay,
            )
        };
        if kind == Kind::Scan {
            delay += self.plan().scan_delay;
        }
        match fault {
            Fault::None | Fault::LoseAnswer => {}
            Fault::Delay(by) => delay += by,
            Fault::FailBefore => {
                return Err(StoreError::transient("injected: failed before the commit"));
            }
            Fault::LoseRequest => return Err(kind.unanswered("injected: the request was lost")),
        }
        let work = async {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            operation.await
        };
        let cut = reachable.wait_for(|reach| *reach == Reach::CutOff);
        let answer = tokio::select! {
            biased;
            // The sender lives in `self`, so this branch ends only by a real cut.
            _ = cut => return Err(kind.unanswered("injected: the node was cut off meanwhile")),
            answer = work => answer,
        };
        if fault == Fault::LoseAnswer {
            return Err(kind.unanswered("injected: the answer was lost"));
        }
        answer
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Scan,
    Write,
}

impl Kind {
    /// ST-7: an unanswered write may have happened; an unanswered read changed nothing.
    fn unanswered(self, message: &'static str) -> StoreError {
        match self {
            Self::Read | Self::Scan => StoreError::transient(message),
            Self::Write => StoreError::indeterminate(message),
        }
    }
}

/// Any provider of either SPI, seen from one node through its [`FaultControl`] (ST-21).
#[derive(Clone)]
pub struct FaultStore<P> {
    provider: P,
    control: FaultControl,
}

impl<P> FaultStore<P> {
    /// Puts faults around a provider.
    pub fn new(provider: P, control: FaultControl) -> Self {
        Self { provider, control }
    }
}

impl<P> fmt::Debug for FaultStore<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore")
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

impl<P: StoreProvider> StoreProvider for FaultStore<P> {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.control.run(Kind::Read, self.provider.read(key)).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        self.control
            .run(Kind::Write, self.provider.write(request))
            .await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.control
            .run(Kind::Scan, self.provider.scan(request))
            .await
    }
}

impl<P: RelocationProvider> RelocationProvider for FaultStore<P> {
    async fn put(
        &self,
        reference: &BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Result<PutOutcome, StoreError> {
        self.control
            .run(Kind::Write, self.provider.put(reference, value, ttl))
            .await
    }

    async fn get(&self, reference: &BlobReference) -> Result<BlobOutcome, StoreError> {
        self.control
            .run(Kind::Read, self.provider.get(reference))
            .await
    }

    async fn renew(&self, reference: &BlobReference, ttl: Ttl) -> Result<RenewOutcome, StoreError> {
        self.control
            .run(Kind::Write, self.provider.renew(reference, ttl))
            .await
    }

    async fn delete(&self, reference: &BlobReference) -> Result<DeleteOutcome, StoreError> {
        self.control
            .run(Kind::Write, self.provider.delete(reference))
            .await
    }
}
