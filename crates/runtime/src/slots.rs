//! What this host knows of each Actor id: the living Actor, or what stands in its place during and after a move.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use foldhash::fast::RandomState;
use spotlane_lane::{Lane, TimerHandle, TimerSettings};
use spotlane_location::authority::ActiveObject;
use spotlane_location::cache::Tenure;
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::ActorId;
use spotlane_wire::relocation::PendingTimerTick;
use tokio::sync::Notify;

use crate::actor::ActorRef;
use crate::capacity::Capacity;
use crate::cell::Cell;
use crate::core::Core;
use crate::registry::ActorType;
use crate::relocation::{SourceUnit, TargetUnit};
use crate::session::ActorSession;

/// One activation of an Actor on this host: who it is and in which tenure. Never changes.
pub(crate) struct Unit {
    core: Weak<Core>,
    pub(crate) actor_type: Arc<ActorType>,
    pub(crate) reference: ActorRef,
    /// Changed once, when an arriving Actor's owner change is confirmed. A leaf lock.
    tenure: Mutex<Tenure>,
    /// The timers that run for it, by name. A leaf lock.
    timers: Mutex<HashMap<Arc<str>, TimerHandle>>,
    /// The session that is bound to it.
    pub(crate) session: ActorSession,
    /// The periods of timers that came with queued ticks. A leaf lock.
    periods: Mutex<HashMap<Arc<str>, Duration>>,
}

impl Unit {
    pub(crate) fn new(
        core: &Arc<Core>,
        actor_type: Arc<ActorType>,
        reference: ActorRef,
        tenure: Tenure,
    ) -> Self {
        Self {
            core: Arc::downgrade(core),
            session: ActorSession::new(&reference.id, &tenure),
            actor_type,
            reference,
            tenure: Mutex::new(tenure),
            timers: Mutex::new(HashMap::new()),
            periods: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn tenure(&self) -> Tenure {
        self.tenure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The owner change that made this host the owner.
    pub(crate) fn owned_since(&self, generation: AuthorityOwnerGeneration) {
        let mut tenure = self.tenure.lock().unwrap_or_else(PoisonError::into_inner);
        tenure.authority_owner_generation = generation;
        drop(tenure);
        self.session.owned_since(generation);
    }

    pub(crate) fn core(&self) -> Option<Arc<Core>> {
        self.core.upgrade()
    }

    pub(crate) fn id(&self) -> &ActorId {
        &self.reference.id
    }

    /// Starts a timer; the same name again starts it anew (EX-232).
    pub(crate) fn start_timer(
        &self,
        core: &Core,
        lane: &Lane<Cell>,
        name: &Arc<str>,
        settings: TimerSettings,
    ) {
        let handle = core.timers.register(lane, Arc::clone(name), settings);
        // EX-243: no tick is queued past the admission deadline.
        handle.admit_until(Some(core.lease.timers_until()));
        self.keep_timer(Arc::clone(name), handle);
    }

    pub(crate) fn keep_timer(&self, name: Arc<str>, handle: TimerHandle) {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        timers.insert(name, handle);
    }

    pub(crate) fn cancel_timer(&self, name: &str) -> bool {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = timers.remove(name);
        drop(timers);
        handle.inspect(TimerHandle::cancel).is_some()
    }

    /// The period of the timer that a tick belongs to, as it was restored; zero when it is unknown.
    pub(crate) fn period_of(&self, tick: &PendingTimerTick) -> Duration {
        let periods = self.periods.lock().unwrap_or_else(PoisonError::into_inner);
        periods
            .get(tick.timer_name.as_str())
            .copied()
            .unwrap_or_default()
    }

    /// Remembers the periods of timers that were restored with queued ticks.
    pub(crate) fn keep_periods(&self, all: impl Iterator<Item = (Arc<str>, Duration)>) {
        self.periods
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(all);
    }

    /// Ends every timer: the Actor ends or has moved.
    pub(crate) fn cancel_timers(&self) {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *timers);
        drop(timers);
        all.values().for_each(TimerHandle::cancel);
    }

    /// EX-243: no tick is queued past the admission deadline.
    pub(crate) fn admit_timers_until(&self, until: spotlane_lane::Monotonic) {
        let timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<TimerHandle> = timers.values().cloned().collect();
        drop(timers);
        for timer in all {
            timer.admit_until(Some(until));
        }
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit")
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}

/// Nobody ends or moves the Actor.
const FREE: u8 = 0;
/// Somebody ends or moves it, or it has gone.
const LEAVING: u8 = 1;
/// A handler has recorded a Join that has not ended (RL-141).
const JOINING: u8 = 2;

/// A living Actor: its lane, and the row that makes this host its owner.
pub(crate) struct Live {
    pub(crate) unit: Arc<Unit>,
    pub(crate) lane: Lane<Cell>,
    /// The row as it was last read or written by this host. A leaf lock; `None` until the creation is committed.
    row: Mutex<Option<ActiveObject>>,
    /// Who has the right to end or move the Actor (RL-140: one at a time).
    right: AtomicU8,
    /// Says that a Join has given the right back.
    freed: Notify,
    /// The right to change the row: held from the restore of an arriving Actor until the row says that it is open here, by
    /// whoever writes into it after that, and by a move away from its first read to its end.
    pub(crate) book: Arc<tokio::sync::Mutex<()>>,
}

impl Live {
    pub(crate) fn new(unit: Arc<Unit>, lane: Lane<Cell>, row: Option<ActiveObject>) -> Arc<Self> {
        Arc::new(Self {
            unit,
            lane,
            row: Mutex::new(row),
            right: AtomicU8::new(FREE),
            freed: Notify::new(),
            book: Arc::new(tokio::sync::Mutex::new(())),
        })
    }

    /// Takes the right to end or move the Actor; `false` when somebody else has it.
    pub(crate) fn begin_end(&self) -> bool {
        self.take_right(LEAVING).is_ok()
    }

    /// As [`Self::begin_end`], for a Join that waits for the end of its handler.
    pub(crate) fn begin_join(&self) -> bool {
        self.take_right(JOINING).is_ok()
    }

    /// As [`Self::begin_end`], but waits for a Join that came first to end (RL-148).
    pub(crate) async fn begin_end_after_join(&self) -> bool {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            match self.take_right(LEAVING) {
                Ok(_) => return true,
                Err(JOINING) => freed.await,
                Err(_) => return false,
            }
        }
    }

    fn take_right(&self, to: u8) -> Result<u8, u8> {
        self.right
            .compare_exchange(FREE, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Gives the right back: the move was withdrawn.
    pub(crate) fn stay(&self) {
        self.right.store(FREE, Ordering::Release);
    }

    /// A Join has ended; the Actor lives here still, or has gone.
    pub(crate) fn end_join(&self, lives_here: bool) {
        let right = if lives_here { FREE } else { LEAVING };
        self.right.store(right, Ordering::Release);
        self.freed.notify_waiters();
    }

    /// Whether it is what stands under its id, before the boundary of any move.
    pub(crate) fn is_in(self: &Arc<Self>, slots: &Slots) -> bool {
        slots
            .live(self.unit.id())
            .is_some_and(|found| Arc::ptr_eq(&found, self))
    }

    pub(crate) fn row(&self) -> Option<ActiveObject> {
        self.row
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The Actor has gone.
    pub(crate) fn forget_row(&self) {
        *self.row.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn set_row(&self, row: ActiveObject) {
        *self.row.lock().unwrap_or_else(PoisonError::into_inner) = Some(row);
    }
}

/// What stands under an Actor id.
#[derive(Clone)]
pub(crate) enum Slot {
    /// The Actor lives here.
    Live(Arc<Live>),
    /// It is coming: its temporary queue (RL-170).
    Arriving(Arc<TargetUnit>),
    /// It is past the boundary of a move away, and the commit has not been seen.
    Leaving(Arc<SourceUnit>),
    /// It has moved: forward for a while, along the one route that the book has (RL-151).
    Follow,
}

/// All slots of a host, in shards, so that lanes of different Actors do not meet at one lock.
pub(crate) struct Slots {
    shards: Box<[RwLock<HashMap<ActorId, Slot, RandomState>>]>,
    hasher: RandomState,
    capacity: Arc<Capacity>,
}

const SHARDS: usize = 64;

impl Slots {
    pub(crate) fn new(capacity: Arc<Capacity>) -> Self {
        Self {
            capacity,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::default(),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is a shard")]
    fn shard(&self, id: &ActorId) -> &RwLock<HashMap<ActorId, Slot, RandomState>> {
        let hash = usize::try_from(self.hasher.hash_one(id) % 0xFFFF_FFFF).unwrap_or(0);
        &self.shards[hash % SHARDS]
    }

    pub(crate) fn get(&self, id: &ActorId) -> Option<Slot> {
        let shard = self
            .shard(id)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        shard.get(id).cloned()
    }

    /// Whether anything stands under an id.
    pub(crate) fn has(&self, id: &ActorId) -> bool {
        let shard = self
            .shard(id)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        shard.contains_key(id)
    }

    pub(crate) fn live(&self, id: &ActorId) -> Option<Arc<Live>> {
        match self.get(id) {
            Some(Slot::Live(live)) => Some(live),
            _ => None,
        }
    }

    /// Decides about one slot in one exclusive step (RL-170): what is there goes in, what shall be there comes out, and
    /// the result is handed back. `decide` must not wait, call out or drop values of the application.
    pub(crate) fn change<R>(
        &self,
        id: &ActorId,
        decide: impl FnOnce(Option<Slot>) -> (Option<Slot>, R),
    ) -> R {
        let mut shard = self
            .shard(id)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let (slot, result) = decide(shard.get(id).cloned());
        let is_live = |slot: &Option<Slot>| matches!(slot, Some(Slot::Live(_)));
        let lives = is_live(&slot);
        let old = match slot {
            Some(slot) => shard.insert(id.clone(), slot),
            None => shard.remove(id),
        };
        match (is_live(&old), lives) {
            (false, true) => self.capacity.came(),
            (true, false) => self.capacity.left(),
            _ => {}
        }
        drop(shard);
        drop(old);
        result
    }

    /// Removes a living Actor if it is still this one.
    pub(crate) fn remove_live(&self, live: &Arc<Live>) -> bool {
        self.change(live.unit.id(), |slot| match slot {
            Some(Slot::Live(found)) if Arc::ptr_eq(&found, live) => (None, true),
            other => (other, false),
        })
    }

    /// Every living Actor.
    pub(crate) fn all_live(&self) -> Vec<Arc<Live>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(shard.values().filter_map(|slot| match slot {
                Slot::Live(live) => Some(Arc::clone(live)),
                Slot::Arriving(_) | Slot::Leaving(_) | Slot::Follow => None,
            }));
        }
        all
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}
