//! The ready set: which gates have runnable work (EX-70). State, not a message, and never polled.
//!
//! Every worker has a run queue of its own. A gate enters the queue of the worker that served it last
//! (EX-75: lanes are handed over between workers, preferring the last one), a worker without work
//! takes the oldest gate of another worker's queue. Within a queue the service order is the order of
//! entering. The queues are lock-free: under a lock, a submitter that loses its processor would stop
//! every worker.
//!
//! Why no wake-up is lost: a worker that goes to sleep first marks itself idle and then looks into
//! every queue again; a gate enters a queue first and its submitter looks for idle workers then. With a
//! sequentially consistent fence between the two steps on both sides, at least one of them sees the
//! other.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use crate::sync::{AtomicU64, Ordering, RunQueue, fence};
use crate::worker::Worker;

/// Something a worker can run: a gate with runnable work, or a suspended turn whose operation woke.
pub(crate) trait Runnable: Any + Send + Sync {
    /// Runs until there is nothing left to do here, or until others should have their turn.
    fn run(self: Arc<Self>, worker: &mut Worker);
}

/// More workers than bits in the idle mask would need a second word; no host of ours has so many.
pub(crate) const WORKERS_MAX: usize = 63;
/// In the idle mask: the engine has stopped and nobody will look into the queues again.
const CLOSED: u64 = 1 << 63;

pub(crate) struct ReadySet {
    queues: Box<[Queue]>,
    /// Bit `n` is set while worker `n` sleeps and nobody has undertaken to wake it.
    idle: AtomicU64,
}

/// Two cache lines apart, so that the queues of two workers do not share one.
#[repr(align(128))]
struct Queue {
    jobs: RunQueue,
    /// A worker is one task and a task has one waker; set before the worker first sleeps.
    waker: OnceLock<Waker>,
}

impl ReadySet {
    pub(crate) fn new(workers: usize) -> Self {
        let workers = workers.clamp(1, WORKERS_MAX);
        let queues = (0..workers)
            .map(|_| Queue {
                jobs: RunQueue::default(),
                waker: OnceLock::new(),
            })
            .collect();
        Self {
            queues,
            idle: AtomicU64::new(0),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.queues.len()
    }

    /// Enters a gate. The caller has made sure that it is not in the set already and holds no lock.
    pub(crate) fn push(&self, worker: usize, job: Arc<dyn Runnable>) {
        let at = if worker < self.queues.len() {
            worker
        } else {
            worker % self.queues.len()
        };
        if let Some(queue) = self.queues.get(at) {
            queue.jobs.push(job);
        }
        fence(Ordering::SeqCst);
        self.wake_one(at);
    }

    /// Wakes a sleeping worker, the preferred one if it sleeps. Nothing to do when nobody sleeps: a
    /// worker that is awake looks here before it goes to sleep.
    fn wake_one(&self, prefer: usize) {
        let mut mask = self.idle.load(Ordering::SeqCst);
        while mask != 0 {
            if mask & CLOSED != 0 {
                // Entered beside the end of the engine. Left here, the gate and its engine would keep
                // each other alive.
                drop(self.drain());
                return;
            }
            let at = if mask & (1 << prefer) != 0 {
                prefer
            } else {
                mask.trailing_zeros() as usize
            };
            let bit = 1u64 << at;
            let before = self.idle.fetch_and(!bit, Ordering::SeqCst);
            if before & bit != 0 {
                if let Some(waker) = self.queues.get(at).and_then(|queue| queue.waker.get()) {
                    waker.wake_by_ref();
                }
                return;
            }
            mask = before & !bit;
        }
    }

    /// The gate that entered first among those of this worker, else among those of another one.
    pub(crate) fn pop(&self, worker: usize) -> Option<Arc<dyn Runnable>> {
        let of = self.queues.len();
        let order = (0..of).map(|step| {
            if worker + step < of {
                worker + step
            } else {
                worker + step - of
            }
        });
        // Looking is much cheaper than popping from an empty queue.
        order
            .filter_map(|at| self.queues.get(at))
            .filter(|queue| !queue.jobs.is_empty())
            .find_map(|queue| queue.jobs.pop())
    }

    /// Marks a worker as sleeping. True when it may really sleep; false when work arrived meanwhile.
    pub(crate) fn try_sleep(&self, worker: usize, waker: &Waker) -> bool {
        let Some(own) = self.queues.get(worker) else {
            return true;
        };
        let known = own.waker.get_or_init(|| waker.clone());
        debug_assert!(known.will_wake(waker), "a worker stays with its task");
        let bit = 1u64 << worker;
        self.idle.fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let empty = self.queues.iter().all(|queue| queue.jobs.is_empty());
        if !empty {
            // Whether or not somebody took the bit: this worker is awake and will look again.
            self.idle.fetch_and(!bit, Ordering::SeqCst);
        }
        empty
    }

    /// Wakes everybody and takes nothing in any more, for the end of the engine.
    pub(crate) fn wake_all(&self) {
        self.idle.store(CLOSED, Ordering::SeqCst);
        for queue in &self.queues {
            if let Some(waker) = queue.waker.get() {
                waker.wake_by_ref();
            }
        }
    }

    /// Takes out everything, for the end of the engine.
    pub(crate) fn drain(&self) -> Vec<Arc<dyn Runnable>> {
        let mut all = Vec::new();
        for queue in &self.queues {
            all.extend(std::iter::from_fn(|| queue.jobs.pop()));
        }
        all
    }
}

impl fmt::Debug for ReadySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadySet")
            .field("workers", &self.queues.len())
            .finish_non_exhaustive()
    }
}
