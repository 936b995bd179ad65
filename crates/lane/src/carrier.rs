//! A carrier holds the turn that a worker runs. It is the only thing of the engine that is boxed as a
//! future, and it is made once and used for millions of turns.
//!
//! The body of a carrier is a loop that takes gates out of the ready set and drives them. Handlers are
//! polled inside it, where they were made, so a handler that ends without waiting costs no allocation.
//! When a handler waits, the whole carrier waits with it and is put aside, together with the gate
//! (parked, EX-30) or without it (suspended, EX-31); the worker goes on with another carrier.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use crate::engine::Shared;
use crate::host::{GateHost, GateTurn, TicketHolder};
use crate::ready::{Job, Runnable};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering};

/// What the body of a carrier tells the worker when its poll returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// At rest: no gate in hand, and the ready set was empty.
    Empty = 0,
    /// Between two turns, with the gate in hand: the other tasks of this thread come first.
    Pause = 1,
    /// At rest: the worker finds the next step in [`Seat::exit`].
    Exit = 2,
    /// A handler waits and keeps its gate.
    Waiting = 3,
    /// A handler yielded; its gate is given up after this poll.
    Suspended = 4,
    /// The operation of a suspended handler has its result.
    Decided = 5,
    /// A suspended handler was given a gate again.
    Granted = 6,
}

impl Mode {
    fn of(value: u8) -> Self {
        match value {
            0 => Self::Empty,
            1 => Self::Pause,
            2 => Self::Exit,
            4 => Self::Suspended,
            5 => Self::Decided,
            6 => Self::Granted,
            _ => Self::Waiting,
        }
    }
}

/// What a worker has to do after a carrier came to rest.
pub(crate) enum Exit {
    /// A gate of another kind, or something else that only the worker can run.
    Run(Job),
    /// A gate that was never let go: what ran in it elsewhere is over.
    Continue(Arc<dyn GateHost>),
    /// A parked turn woke, or a suspended one got its gate back: poll its carrier.
    Poll(Box<dyn AnyCarrier>),
    /// A ticket of a member was selected: run the member's item, then go on with the gate (EX-23).
    Ticket(Arc<dyn TicketHolder>, GateTurn),
}

/// Who polls: told by the waker that a poll brings along, without anything that is "current" (EX-8, EX-154).
///
/// A future that a handler awaits is polled with the waker of the carrier that the handler runs in, whoever made the
/// future and wherever its handles come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polled(pub(crate) usize);

impl Polled {
    /// No carrier.
    pub(crate) const BY_NOBODY: Self = Self(0);

    pub(crate) fn by(waker: &Waker) -> Self {
        Self(waker.data().addr())
    }
}

/// What the body of a carrier and the worker share.
pub(crate) struct Seat {
    mode: AtomicU8,
    worker: AtomicUsize,
    /// Whose polls come from this carrier; see [`Polled`].
    polled: OnceLock<Polled>,
    /// The fencing number of a suspended turn, then of the turn it resumes in (EX-7).
    fence: AtomicU64,
    /// Items handled since the worker asked, without those that bring nothing.
    items: AtomicU32,
    /// Whether the inbox holds something; without it the body looks into the ready set itself.
    loaded: AtomicBool,
    exit: Mutex<Option<Exit>>,
    /// The gate of the turn that waits; set when a handler's poll returned pending.
    gate: Mutex<Option<Arc<dyn GateHost>>>,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self {
            mode: AtomicU8::new(Mode::Empty as u8),
            worker: AtomicUsize::new(0),
            polled: OnceLock::new(),
            fence: AtomicU64::new(0),
            items: AtomicU32::new(0),
            loaded: AtomicBool::new(false),
            exit: Mutex::new(None),
            gate: Mutex::new(None),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Acquire))
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Release);
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker.load(Ordering::Relaxed)
    }

    pub(crate) fn set_worker(&self, worker: usize) {
        self.worker.store(worker, Ordering::Relaxed);
    }

    pub(crate) fn polled(&self) -> Polled {
        self.polled.get().copied().unwrap_or(Polled::BY_NOBODY)
    }

    pub(crate) fn fence(&self) -> u64 {
        self.fence.load(Ordering::Relaxed)
    }

    pub(crate) fn set_fence(&self, number: u64) {
        self.fence.store(number, Ordering::Relaxed);
    }

    /// Worker and carrier never run at once, so plain loads and stores are enough.
    #[inline]
    pub(crate) fn count_items(&self, more: u32) {
        let items = self.items.load(Ordering::Relaxed).saturating_add(more);
        self.items.store(items, Ordering::Relaxed);
    }

    pub(crate) fn take_items(&self) -> u32 {
        let items = self.items.load(Ordering::Relaxed);
        self.items.store(0, Ordering::Relaxed);
        items
    }

    pub(crate) fn take_loaded(&self) -> bool {
        let loaded = self.loaded.load(Ordering::Relaxed);
        if loaded {
            self.loaded.store(false, Ordering::Relaxed);
        }
        loaded
    }

    pub(crate) fn leave(&self, exit: Exit) {
        *self.exit.lock() = Some(exit);
    }

    pub(crate) fn take_exit(&self) -> Option<Exit> {
        self.exit.lock().take()
    }

    pub(crate) fn set_gate(&self, gate: Arc<dyn GateHost>) {
        *self.gate.lock() = Some(gate);
    }

    pub(crate) fn take_gate(&self) -> Option<Arc<dyn GateHost>> {
        self.gate.lock().take()
    }
}

/// A carrier whose owner type is not known.
pub(crate) trait AnyCarrier: Any + Send {
    fn seat(&self) -> &Arc<Seat>;
    fn wakeup(&self) -> &Arc<Wakeup>;
    /// Polls the body once. Returns when the carrier is at rest or its handler waits.
    fn poll(&mut self) -> Poll<()>;
}

pub(crate) struct Carrier<B> {
    body: Pin<Box<dyn Future<Output = ()> + Send>>,
    seat: Arc<Seat>,
    wakeup: Arc<Wakeup>,
    waker: Waker,
    /// How the worker hands the first gate to the body; typed by the owner.
    inbox: Arc<Mutex<Option<B>>>,
}

impl<B: Send + 'static> Carrier<B> {
    pub(crate) fn new<F>(seat: Arc<Seat>, inbox: Arc<Mutex<Option<B>>>, body: F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let wakeup = Arc::new(Wakeup::new());
        let waker = Waker::from(Arc::clone(&wakeup));
        seat.polled.get_or_init(|| Polled::by(&waker));
        Self {
            body: Box::pin(body),
            seat,
            wakeup,
            waker,
            inbox,
        }
    }

    /// Gives a carrier at rest something to begin with.
    pub(crate) fn load(&self, load: B) {
        *self.inbox.lock() = Some(load);
        self.seat.loaded.store(true, Ordering::Relaxed);
    }
}

impl<B> Drop for Carrier<B> {
    fn drop(&mut self) {
        // Wakers of the handler may live on elsewhere; they have nothing to wake any more.
        self.wakeup.cancel();
    }
}

impl<B: Send + 'static> AnyCarrier for Carrier<B> {
    fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    fn poll(&mut self) -> Poll<()> {
        // tokio's cooperative budget belongs to a tokio task. A worker runs turns of many owners in
        // one task and bounds them itself, so the budget would only make their waits look endless.
        let body = pin!(tokio::task::coop::unconstrained(self.body.as_mut()));
        body.poll(&mut Context::from_waker(&self.waker))
    }
}

impl fmt::Debug for dyn AnyCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier")
            .field("mode", &self.seat().mode())
            .finish_non_exhaustive()
    }
}

const POLLED: u8 = 0;
const NOTIFIED: u8 = 1;
const WAITING: u8 = 2;

/// What enters the ready set of which engine, and the worker it should preferably go to.
type Target = (usize, Arc<Shared>, Arc<dyn Runnable>);

/// The waker behind a carrier: puts the gate, or the suspended turn, into the ready set, once.
pub(crate) struct Wakeup {
    state: AtomicU8,
    target: Mutex<Option<Target>>,
}

impl Wakeup {
    fn new() -> Self {
        Self {
            state: AtomicU8::new(POLLED),
            target: Mutex::new(None),
        }
    }

    /// A poll begins: wakes are remembered, not acted on.
    pub(crate) fn begin(&self) {
        // Whoever wakes for something that the poll does not see yet does so after it.
        self.state.store(POLLED, Ordering::Release);
    }

    /// The carrier was put aside where `target` finds it; from now on a wake enters `target` into the
    /// ready set. A wake that came during the poll does so at once, so none is lost.
    pub(crate) fn end(&self, worker: usize, shared: Arc<Shared>, target: Arc<dyn Runnable>) {
        *self.target.lock() = Some((worker, shared, target));
        let waits =
            self.state
                .compare_exchange(POLLED, WAITING, Ordering::SeqCst, Ordering::SeqCst);
        if waits.is_err() {
            self.fire();
        }
    }

    /// The carrier is finished with: forgets where it would have been.
    pub(crate) fn cancel(&self) {
        self.state.store(POLLED, Ordering::SeqCst);
        let target = self.target.lock().take();
        drop(target);
    }

    fn fire(&self) {
        let target = self.target.lock().take();
        if let Some((worker, shared, target)) = target {
            shared.ready.push(worker, Job::turn(target));
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::SeqCst) == WAITING {
            self.fire();
        }
    }
}
