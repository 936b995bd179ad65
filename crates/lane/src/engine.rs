//! The engine of one host: its workers, its ready set and its end.

use std::fmt;
use std::future::{Future, poll_fn};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::host::AnyLane;
use crate::kind::{GateUse, Kind};
use crate::lane::Lane;
use crate::limits::LaneLimits;
use crate::owner::Owner;
use crate::ready::ReadySet;
use crate::stats::Stats;
use crate::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use crate::time::Clock;
use crate::worker::Worker;

const SERVING: u8 = 0;
const STOPPING: u8 = 1;
const STOPPED: u8 = 2;

/// Runs the lanes of one host on a fixed number of workers (EX-28).
///
/// Every worker is one task of the given runtime. Lanes have no task, thread or timer of their own, and
/// an engine without work does not run at all (EX-70).
///
/// A handler that blocks its thread, instead of waiting, keeps one worker and one thread of the runtime;
/// all other gates go on as long as there is another of each.
pub struct Engine {
    shared: Arc<Shared>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

pub(crate) struct Shared {
    pub(crate) ready: ReadySet,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    pub(crate) registry: Registry,
    lane_ids: AtomicU64,
    phase: AtomicU8,
}

impl Shared {
    pub(crate) fn new(workers: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            ready: ReadySet::new(workers),
            clock,
            stats: Stats::default(),
            registry: Registry::default(),
            lane_ids: AtomicU64::new(0),
            phase: AtomicU8::new(SERVING),
        }
    }

    pub(crate) fn next_lane_id(&self) -> u64 {
        self.lane_ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.phase.load(Ordering::SeqCst) != SERVING
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == STOPPED
    }

    /// Drops a value of the application; a panic in its drop is caught and counted.
    pub(crate) fn guard_drop<T>(&self, value: T) {
        self.guard(|| drop(value));
    }

    /// Does what may drop values of the application.
    pub(crate) fn guard(&self, act: impl FnOnce()) {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        if done.is_err() {
            self.stats.panicked();
        }
    }

    pub(crate) fn stop(&self) {
        self.phase.store(STOPPED, Ordering::SeqCst);
        for job in self.ready.close() {
            self.guard(|| job.lost());
        }
    }
}

impl Engine {
    /// Starts the workers as tasks of `runtime`. At most 64; more are not started.
    pub fn start(runtime: &Handle, workers: NonZeroUsize, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Shared::new(workers.get(), clock));
        if runtime.metrics().num_workers() > 1 {
            let runtime = runtime.clone();
            let nudge = move || drop(runtime.spawn(async {}));
            shared.ready.set_nudge(Box::new(nudge));
        }
        let mut tasks = JoinSet::new();
        for index in 0..shared.ready.workers() {
            let mut worker = Worker::new(Arc::clone(&shared), index);
            tasks.spawn_on(poll_fn(move |cx| worker.poll(cx)), runtime);
        }
        Self {
            shared,
            tasks: tokio::sync::Mutex::new(tasks),
        }
    }

    /// Registers a kind of lane.
    pub fn kind<O: Owner>(&self, limits: LaneLimits, gate: GateUse) -> Kind<O> {
        Kind::new(Arc::clone(&self.shared), limits, gate)
    }

    /// What the engine counted so far.
    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// The first half of [`Engine::shutdown`] (EX-306): from the call on every submit is refused with `ShuttingDown`; what
    /// was accepted goes on until it has ended or `grace` is over. Owners stay, and `last` goes on taking work, so that it
    /// can be told of the end while the others are still there (RL-221).
    ///
    /// # Cancel safety
    /// As [`Engine::shutdown`].
    pub async fn drain<O: Owner>(&self, last: Option<&Lane<O>>, grace: impl Future<Output = ()>) {
        // The pointer must not live across the wait, so that the future can be sent.
        let lanes = {
            let last = last.map(|lane| Arc::as_ptr(&lane.core).cast::<()>());
            self.stop_taking(|lane| last != Some(Arc::as_ptr(lane).cast::<()>()))
        };
        until_quiet(&lanes, grace).await;
    }

    /// Ends the engine (EX-306). From the call on every submit is refused with `ShuttingDown`; what was
    /// accepted goes on until it has ended or `grace` is over. Then the rest ends with `ShuttingDown`,
    /// once each, and the workers end.
    ///
    /// # Cancel safety
    /// Dropped in the middle, submits stay refused and accepted work goes on; call it again to finish.
    pub async fn shutdown(&self, grace: impl Future<Output = ()>) {
        let lanes = self.stop_taking(|_| true);
        until_quiet(&lanes, grace).await;
        drop(lanes);
        for lane in self.shared.registry.all() {
            lane.abort();
        }
        self.shared.stop();
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
    }

    /// Closes those of the lanes, and gives them.
    fn stop_taking(&self, which: impl Fn(&Arc<dyn AnyLane>) -> bool) -> Vec<Arc<dyn AnyLane>> {
        self.shared.phase.fetch_max(STOPPING, Ordering::SeqCst);
        let mut lanes = self.shared.registry.all();
        lanes.retain(which);
        for lane in &lanes {
            // One that a move holds is closed when it is given back.
            lane.close().ok();
        }
        lanes
    }
}

/// Waits until nothing is left in these lanes, or `grace` is over.
async fn until_quiet(lanes: &[Arc<dyn AnyLane>], grace: impl Future<Output = ()>) {
    let quiet = async {
        for lane in lanes {
            if let Some(quiet) = Arc::clone(lane).quiet() {
                // A lane that ended while we waited is quiet too.
                drop(quiet.await);
            }
        }
    };
    let (mut quiet, mut grace) = (pin!(quiet), pin!(grace));
    poll_fn(|cx| {
        if quiet.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        grace.as_mut().poll(cx)
    })
    .await;
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.phase.fetch_max(STOPPING, Ordering::SeqCst);
        for lane in self.shared.registry.all() {
            lane.abort();
        }
        // The tasks end with their `JoinSet`; nothing of the engine is left behind.
        self.shared.stop();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("ready", &self.shared.ready)
            .finish_non_exhaustive()
    }
}

/// All lanes of the engine, so that its end reaches those that wait somewhere. Sharded, since every
/// lane that is made or dropped comes by.
#[derive(Default)]
pub(crate) struct Registry {
    shards: [Mutex<RegistryShard>; 4],
    next: AtomicU64,
}

#[derive(Default)]
struct RegistryShard {
    lanes: Vec<Option<Weak<dyn AnyLane>>>,
    free: Vec<usize>,
}

impl Default for Mutex<RegistryShard> {
    fn default() -> Self {
        Self::new(RegistryShard::default())
    }
}

impl Registry {
    pub(crate) fn add(&self, lane: Weak<dyn AnyLane>) -> u64 {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % 4;
        let Some(shard) = self.shards.get(usize::try_from(at).unwrap_or(0)) else {
            return u64::MAX;
        };
        let mut shard = shard.lock();
        let slot = if let Some(slot) = shard.free.pop() {
            if let Some(place) = shard.lanes.get_mut(slot) {
                *place = Some(lane);
            }
            slot
        } else {
            shard.lanes.push(Some(lane));
            shard.lanes.len() - 1
        };
        (slot as u64) * 4 + at
    }

    pub(crate) fn remove(&self, key: u64) {
        if key == u64::MAX {
            return;
        }
        let (Ok(at), Ok(slot)) = (usize::try_from(key % 4), usize::try_from(key / 4)) else {
            return;
        };
        let Some(shard) = self.shards.get(at) else {
            return;
        };
        let mut shard = shard.lock();
        if let Some(place) = shard.lanes.get_mut(slot) {
            let lane = place.take();
            shard.free.push(slot);
            drop(shard);
            drop(lane);
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<dyn AnyLane>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(
                shard
                    .lock()
                    .lanes
                    .iter()
                    .flatten()
                    .filter_map(Weak::upgrade),
            );
        }
        all
    }
}
