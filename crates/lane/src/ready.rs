//! The ready set: which gates have runnable work (EX-70). State, not a message, and never polled.
//!
//! Every worker has a run queue of its own. A gate enters the queue of the worker that was polled last
//! on the submitter's thread, so that it is run near the caches that filled it, and otherwise that of
//! the worker that served it last (EX-75). Within a queue the service order is the order of entering.
//! `docs/decisions/lane-locality.md` says why.
//!
//! A worker takes gates of another one only when that one asked for help: it is being polled, so
//! whatever waits behind it may have to wait for a whole handler (EX-3). Asking sets a bit in one word
//! and calls a sleeper. Who finds no gate of its own looks at that word, lets the other tasks of its
//! thread run, which may bring gates of its own, and takes half of what waits there if they did not.
//!
//! What holds: **while a gate waits behind a handler, no worker sleeps**, or one is about to look.
//!
//! - Whether a worker sleeps stands under the lock of its queue, so a gate that enters finds either a
//!   worker that will look or one that it has to wake.
//! - Who sets a bit looks for sleepers after it; who goes to sleep says so before it looks at the bits.
//!   One of them comes second and sees the other.
//! - A bit that is set calls nobody again, since the one who was called has yet to look. So a called
//!   worker that begins a handler, of its own or of another worker, while bits are left calls the next
//!   sleeper first: its own handler may never end.
//! - A worker begins no handler with gates in its queue that it did not offer.
//!
//! A worker that was woken must also get a thread, and the thread that woke it may be kept by a
//! handler. The runtime keeps the task that was woken last for the thread that woke it, out of reach of
//! the others, and a task that let others run until that thread comes to rest. See [`ReadySet::nudge`]
//! and [`Stranded`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use spotlane_gate::AnyHeld;

use crate::core::Core;
use crate::driven::Hold;
use crate::here::{self, Stranded};
use crate::owner::Owner;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::worker::Worker;

/// A turn that a worker can go on with: a parked one that woke, or a suspended one whose operation woke.
pub(crate) trait Runnable: Send + Sync {
    /// Runs until there is nothing left to do here, or until others should have their turn.
    fn run(self: Arc<Self>, worker: &mut Worker);
}

/// What a gate in the ready set can do without its type being known.
pub(crate) struct Doings {
    /// As [`Runnable::run`].
    pub(crate) run: fn(AnyHeld, &mut Worker),
    /// Nobody will run it: the ready set has been closed.
    pub(crate) lost: fn(AnyHeld),
}

/// What stands in the ready set: a gate that was taken, or a turn that waited and goes on. Whoever takes it out runs it or
/// says that it is [`Job::lost`].
#[must_use]
pub(crate) enum Job {
    Gate(AnyHeld, &'static Doings),
    Turn(Arc<dyn Runnable>),
}

impl Job {
    /// A free gate that was taken: whoever takes it out of the set holds it.
    #[inline]
    pub(crate) fn gate<O: Owner>(held: Hold<O>) -> Self {
        Self::Gate(held.into_any(), Core::<O>::DOINGS)
    }

    /// A turn that waited: parked with its gate, or suspended without it.
    pub(crate) fn turn(turn: Arc<dyn Runnable>) -> Self {
        Self::Turn(turn)
    }

    pub(crate) fn run(self, worker: &mut Worker) {
        match self {
            Self::Gate(held, doings) => (doings.run)(held, worker),
            Self::Turn(turn) => turn.run(worker),
        }
    }

    /// Nobody will run it: its lane ends.
    pub(crate) fn lost(self) {
        if let Self::Gate(held, doings) = self {
            (doings.lost)(held);
        }
    }

    /// The gate, if it is one and its lane is of this type; otherwise all of it comes back.
    #[inline]
    pub(crate) fn into_gate<O: Owner>(self) -> Result<Hold<O>, Self> {
        match self {
            Self::Gate(held, doings) => held.downcast().map_err(|held| Self::Gate(held, doings)),
            Self::Turn(_) => Err(self),
        }
    }
}

/// More workers than bits in the word of help would need a second one; no host of ours has so many.
pub(crate) const WORKERS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    /// Nobody has undertaken to wake the worker.
    Asleep,
    /// It was woken, or paused: it will be polled and look into its queue.
    Coming,
    /// As `Coming`; it was called to help, or found on its way to sleep that others want help.
    Called,
    /// It is being polled: a handler may keep it from its queue.
    Polled,
    /// As `Polled`; what waits behind its gate was offered to the others.
    Offered,
    /// The engine has stopped and nobody will look into the queue again.
    Closed,
}

pub(crate) struct ReadySet {
    queues: Box<[Queue]>,
    /// Bit `n` is set while worker `n` may have gates that others should take.
    help: AtomicU64,
    /// See [`ReadySet::nudge`].
    nudge: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Two cache lines apart, so that the queues of two workers do not share one.
#[repr(align(128))]
struct Queue {
    /// Innermost lock: nothing else is locked, run, woken or dropped under it.
    local: Mutex<Local>,
    /// A worker is one task and a task has one waker; set before the worker first sleeps.
    waker: OnceLock<Waker>,
}

struct Local {
    jobs: VecDeque<Job>,
    attention: Attention,
}

impl ReadySet {
    pub(crate) fn new(workers: usize) -> Self {
        let queue = || Queue {
            local: Mutex::new(Local {
                jobs: VecDeque::new(),
                attention: Attention::Coming,
            }),
            waker: OnceLock::new(),
        };
        Self {
            queues: (0..workers.clamp(1, WORKERS_MAX))
                .map(|_| queue())
                .collect(),
            help: AtomicU64::new(0),
            nudge: OnceLock::new(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.queues.len()
    }

    /// Enters a gate. The caller has made sure that it is not in the set already and holds no lock.
    #[inline]
    pub(crate) fn push(&self, worker: usize, job: Job) {
        let at = here::worker(self.address()).unwrap_or(worker);
        let at = if at < self.queues.len() {
            at
        } else {
            at % self.queues.len()
        };
        let Some(queue) = self.queues.get(at) else {
            return;
        };
        let mut local = queue.local.lock();
        match local.attention {
            Attention::Coming | Attention::Called => local.jobs.push_back(job),
            Attention::Asleep => {
                local.jobs.push_back(job);
                local.attention = Attention::Coming;
                drop(local);
                queue.wake();
                if here::woken(self.address(), at) {
                    self.nudge();
                }
            }
            Attention::Polled | Attention::Offered => {
                local.jobs.push_back(job);
                drop(local);
                self.ask_for_help(at);
            }
            Attention::Closed => {
                // Left here, the gate and its engine would keep each other alive.
                drop(local);
                job.lost();
            }
        }
    }

    /// Lets others take gates of this worker, and calls one of them if one sleeps.
    fn ask_for_help(&self, worker: usize) {
        let bit = 1u64 << worker;
        if self.help.load(Ordering::SeqCst) & bit != 0
            || self.help.fetch_or(bit, Ordering::SeqCst) & bit != 0
        {
            // Whoever was called, or is awake, sees the bit before it sleeps or begins a handler.
            return;
        }
        self.call(worker);
    }

    /// Wakes a sleeper, so that it looks whom it can help.
    fn call(&self, caller: usize) {
        for (_, other) in self.others(caller) {
            let mut local = other.local.lock();
            if local.attention == Attention::Asleep {
                local.attention = Attention::Called;
                drop(local);
                other.wake();
                self.nudge();
                return;
            }
        }
    }

    /// A worker that was called begins a handler. Who still wants help is left to the next sleeper.
    #[cold]
    fn pass_call_on(&self, worker: usize) {
        if self.help.load(Ordering::SeqCst) & !(1 << worker) != 0 {
            self.call(worker);
        }
    }

    /// What [`ReadySet::nudge`] does; nothing if the runtime has one thread.
    pub(crate) fn set_nudge(&self, nudge: Box<dyn Fn() + Send + Sync>) {
        self.nudge.get_or_init(|| nudge);
    }

    /// Makes sure that another thread may take the worker that was just woken on this one, which may be
    /// kept by a handler for any time. The runtime holds the task that was woken last for the thread
    /// that woke it and lets the others take the rest, so one more task is started, which does nothing.
    /// It has to be a new one: a task that waits to be polled is not woken again.
    fn nudge(&self) {
        if let Some(nudge) = self.nudge.get() {
            nudge();
        }
    }

    /// The other queues, the next one first.
    fn others(&self, worker: usize) -> impl Iterator<Item = (usize, &Queue)> {
        let (before, after) = self.queues.split_at(worker.min(self.queues.len()));
        let after = after.iter().enumerate().skip(1);
        let after = after.map(move |(step, queue)| (worker + step, queue));
        after.chain(before.iter().enumerate())
    }

    /// The poll of a worker begins, on this thread.
    pub(crate) fn enter(&self, worker: usize, waker: &Waker) {
        if let Some(own) = self.queues.get(worker) {
            let known = own.waker.get_or_init(|| waker.clone());
            debug_assert!(known.will_wake(waker), "a worker stays with its task");
        }
        match here::enter(self.address(), worker, waker) {
            Stranded::Nobody => {}
            Stranded::Woken => self.nudge(),
            Stranded::Deferred(other) => {
                if self.nudge.get().is_some() {
                    other.wake();
                    self.nudge();
                }
            }
        }
    }

    /// The poll of a worker is over.
    #[expect(clippy::unused_self, reason = "the other half of `enter`")]
    pub(crate) fn leave(&self) {
        here::leave();
    }

    /// The worker goes on with a gate it had in hand.
    pub(crate) fn go_on(&self, worker: usize) {
        self.go_on_with(worker, &mut VecDeque::new());
    }

    /// As [`ReadySet::go_on`], with more gates for its queue.
    fn go_on_with(&self, worker: usize, more: &mut VecDeque<Job>) {
        let Some(own) = self.queues.get(worker) else {
            return;
        };
        let mut local = own.local.lock();
        if local.attention == Attention::Closed {
            drop(local);
            more.drain(..).for_each(Job::lost);
            return;
        }
        local.jobs.append(more);
        let offer = !local.jobs.is_empty();
        local.attention = if offer {
            Attention::Offered
        } else {
            Attention::Polled
        };
        drop(local);
        if offer {
            // EX-3: as in `pop`.
            self.ask_for_help(worker);
        }
    }

    /// The poll is over and the worker has made sure that another one follows, in which it looks after
    /// others if it `helps`.
    pub(crate) fn pause(&self, worker: usize, helps: bool) {
        if let Some(own) = self.queues.get(worker) {
            let mut local = own.local.lock();
            local.attention = match local.attention {
                Attention::Closed => Attention::Closed,
                // Called meanwhile: that stands.
                Attention::Called => Attention::Called,
                _ if helps => Attention::Called,
                _ => Attention::Coming,
            };
        }
    }

    /// The gate that entered first among those of this worker. Without any the worker counts as
    /// sleeping from here on.
    #[inline]
    pub(crate) fn pop(&self, worker: usize) -> Option<Job> {
        let own = self.queues.get(worker)?;
        let mut local = own.local.lock();
        if let Some(job) = local.jobs.pop_front() {
            let called = local.attention == Attention::Called;
            let offer = local.attention != Attention::Offered && !local.jobs.is_empty();
            local.attention = if offer || local.attention == Attention::Offered {
                Attention::Offered
            } else {
                Attention::Polled
            };
            drop(local);
            if offer {
                // EX-3: what waits behind this gate must not wait for its handler while others sleep.
                self.ask_for_help(worker);
            }
            if called {
                self.pass_call_on(worker);
            }
            return Some(job);
        }
        if local.attention == Attention::Closed {
            return None;
        }
        local.attention = Attention::Asleep;
        None
    }

    /// Whether another worker asked for help. To be asked by one without gates of its own, before it
    /// really sleeps.
    #[inline]
    pub(crate) fn is_help_wanted(&self, worker: usize) -> bool {
        let bit = 1u64 << worker;
        let asked = self.help.load(Ordering::SeqCst);
        if asked & bit != 0 {
            // Nothing waits here any more, and what comes from now on finds that this worker sleeps.
            self.help.fetch_and(!bit, Ordering::SeqCst);
        }
        asked & !bit != 0
    }

    /// Takes gates of a worker that asked for help: the first half of its queue, so that two workers
    /// that are both short of work meet once in a while and not for every gate. One is returned, the
    /// rest enters the own queue by way of `spare`, which is empty before and afterwards.
    #[cold]
    pub(crate) fn help_others(&self, worker: usize, spare: &mut VecDeque<Job>) -> Option<Job> {
        let asked = self.help.load(Ordering::SeqCst);
        for (at, other) in self.others(worker) {
            if asked & (1 << at) == 0 {
                continue;
            }
            let mut local = other.local.lock();
            let half = local.jobs.len().div_ceil(2);
            spare.extend(local.jobs.drain(..half));
            let more = !local.jobs.is_empty();
            drop(local);
            if !more {
                self.helped(at);
            }
            if let Some(job) = spare.pop_front() {
                // Neither these nor what entered its own queue meanwhile must wait for the first one.
                self.go_on_with(worker, spare);
                self.pass_call_on(worker);
                return Some(job);
            }
        }
        None
    }

    /// Takes the bit back when the queue is empty; a gate that enters meanwhile sets it again.
    fn helped(&self, worker: usize) {
        let bit = 1u64 << worker;
        self.help.fetch_and(!bit, Ordering::SeqCst);
        let more = self
            .queues
            .get(worker)
            .is_some_and(|queue| !queue.local.lock().jobs.is_empty());
        if more {
            self.help.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Takes out everything, takes nothing in any more, and wakes everybody, for the end of the engine.
    #[must_use]
    pub(crate) fn close(&self) -> Vec<Job> {
        let mut all = Vec::new();
        for queue in &self.queues {
            let mut local = queue.local.lock();
            local.attention = Attention::Closed;
            all.extend(std::mem::take(&mut local.jobs));
            drop(local);
            queue.wake();
        }
        all
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Queue {
    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl fmt::Debug for ReadySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadySet")
            .field("workers", &self.queues.len())
            .finish_non_exhaustive()
    }
}
