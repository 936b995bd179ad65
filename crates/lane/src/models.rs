//! Models for loom and shuttle: small worlds in which every interleaving, or many random ones, are tried.
//!
//! `cargo xtask loom` explores exhaustively up to two preemptions, and then runs the same worlds,
//! larger, on random schedules; its long form looks further.

use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::activation::{ActivationError, activation};
use crate::engine::Shared;
use crate::error::HandlerError;
use crate::jobs::{JobQueue, JobQueueSettings};
use crate::kind::{GateUse, Kind};
use crate::lane::Lane;
use crate::limits::{FifoLimits, LaneLimits};
use crate::multicast::{Multicast, MulticastSlots};
use crate::owner::Owner;
use crate::policy::{Spot, Yielding};
use crate::seal::Captured;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::time::Monotonic;
use crate::turn::Turn;
use crate::worker::Worker;

#[cfg(loom)]
use loom::{future::block_on, thread};
#[cfg(all(shuttle, not(loom)))]
use shuttle::{future::block_on, thread};

/// How many items the larger worlds hold.
#[cfg(loom)]
const MANY: usize = 2;
#[cfg(not(loom))]
const MANY: usize = 8;

fn explore(world: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(bound("SPOTLANE_MODEL_PREEMPTIONS", 2));
        builder.check(world);
    }
    #[cfg(all(shuttle, not(loom)))]
    shuttle::check_random(world, bound("SPOTLANE_MODEL_SCHEDULES", 2000));
}

fn bound(setting: &str, short: usize) -> usize {
    let set = std::env::var(setting);
    set.map_or(short, |text| text.parse().unwrap_or(short))
}

/// A flag that a handler can wait for.
#[derive(Default)]
struct Bell(Mutex<(bool, Option<Waker>)>);

impl Default for Mutex<(bool, Option<Waker>)> {
    fn default() -> Self {
        Self::new((false, None))
    }
}

impl Bell {
    fn ring(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

enum Item {
    Count(usize),
    Wait(Arc<Bell>),
    Yield(Arc<Bell>),
    /// Keeps the thread until somebody rings.
    Block(Arc<Bell>),
    Ring(Arc<Bell>),
    /// Has another lane ring the first bell, keeps the thread until it did, and rings the second one.
    #[cfg(not(loom))]
    Send(Lane<Witness>, Arc<Bell>, Arc<Bell>),
}

/// Notices overlapping turns and order.
struct Witness {
    inside: Arc<AtomicUsize>,
    handled: Arc<AtomicU64>,
    seen: Vec<usize>,
}

impl Owner for Witness {
    type Policy = Spot;
    type Waits = Yielding;
    type Item = Item;
    type Reply = ();

    async fn handle(turn: &mut Turn<'_, Self>, item: Item) -> Result<(), HandlerError> {
        let inside = Arc::clone(&turn.state().inside);
        assert_eq!(
            inside.fetch_add(1, Ordering::SeqCst),
            0,
            "two turns overlap"
        );
        match item {
            Item::Count(number) => turn.state().seen.push(number),
            Item::Wait(bell) => bell.wait().await,
            Item::Block(bell) => block_on(bell.wait()),
            Item::Ring(bell) => bell.ring(),
            #[cfg(not(loom))]
            Item::Send(other, done, next) => {
                submit(&other, Item::Ring(Arc::clone(&done)));
                block_on(done.wait());
                next.ring();
            }
            Item::Yield(bell) => {
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(turn.yield_for(bell.wait()).await.is_ok());
                assert_eq!(
                    inside.fetch_add(1, Ordering::SeqCst),
                    0,
                    "two turns overlap"
                );
            }
        }
        inside.fetch_sub(1, Ordering::SeqCst);
        turn.state().handled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

struct World {
    shared: Arc<Shared>,
    lane: Lane<Witness>,
    handled: Arc<AtomicU64>,
}

impl World {
    fn new(workers: usize, limits: LaneLimits) -> Self {
        let clock = || Monotonic::ORIGIN;
        let shared = Arc::new(Shared::new(workers, Arc::new(clock)));
        let handled = Arc::new(AtomicU64::new(0));
        let lane = Self::lane_of(&shared, &handled, limits);
        Self {
            shared,
            lane,
            handled,
        }
    }

    fn lane_of(
        shared: &Arc<Shared>,
        handled: &Arc<AtomicU64>,
        limits: LaneLimits,
    ) -> Lane<Witness> {
        Kind::new(Arc::clone(shared), limits, GateUse::Shared).lane(Witness {
            inside: Arc::new(AtomicUsize::new(0)),
            handled: Arc::clone(handled),
            seen: Vec::new(),
        })
    }

    /// Another lane with a gate of its own, which enters the queue of worker `index`.
    fn lane_at(&self, index: u64) -> Lane<Witness> {
        let workers = self.shared.ready.workers() as u64;
        loop {
            // A lane prefers the worker of its number until one has served it.
            let lane = Self::lane_of(&self.shared, &self.handled, LaneLimits::DEFAULT);
            if lane.core.id % workers == index {
                return lane;
            }
        }
    }

    /// Runs worker `index` until `items` were handled by anybody; then stops the others.
    fn work(&self, index: usize, items: u64) {
        let mut worker = Worker::new(Arc::clone(&self.shared), index);
        block_on(poll_fn(|cx| {
            if self.handled.load(Ordering::SeqCst) >= items {
                return Poll::Ready(());
            }
            if worker.poll(cx).is_ready() || self.handled.load(Ordering::SeqCst) >= items {
                return Poll::Ready(());
            }
            Poll::Pending
        }));
        self.shared.stop();
    }

    fn clone(&self) -> Self {
        let (shared, handled) = (Arc::clone(&self.shared), Arc::clone(&self.handled));
        Self {
            shared,
            lane: self.lane.clone(),
            handled,
        }
    }
}

fn submit(lane: &Lane<Witness>, item: Item) {
    assert!(lane.enqueue(item).is_ok());
}

/// T-EXE-22, EX-70, EX-72: a submit that meets a worker on its way to sleep is not lost.
#[test]
fn a_submit_wakes_a_worker_that_falls_asleep() {
    explore(|| {
        let world = World::new(1, LaneLimits::DEFAULT);
        let other = world.clone();
        let submitter = thread::spawn(move || submit(&other.lane, Item::Count(1)));
        world.work(0, 1);
        drop(submitter.join());
    });
}

/// T-EXE-23, EX-3, EX-72: two submitters, one gate, one driver.
#[test]
fn two_submitters_start_one_driver() {
    explore(|| {
        let world = World::new(1, LaneLimits::DEFAULT);
        let other = world.clone();
        let submitter = thread::spawn(move || {
            for number in 0..MANY / 2 {
                submit(&other.lane, Item::Count(number));
            }
        });
        for number in 0..MANY - MANY / 2 {
            submit(&world.lane, Item::Count(100 + number));
        }
        world.work(0, MANY as u64);
        drop(submitter.join());
    });
}

/// EX-3, EX-75: two workers never hold one gate at once.
#[test]
fn two_workers_never_share_a_gate() {
    explore(|| {
        let world = World::new(2, LaneLimits::DEFAULT);
        let other = world.clone();
        let second = thread::spawn(move || other.work(1, MANY as u64));
        for number in 0..MANY {
            submit(&world.lane, Item::Count(number));
        }
        world.work(0, MANY as u64);
        drop(second.join());
    });
}

/// EX-3, EX-70: a gate that enters behind a handler which keeps its thread is taken by the worker that
/// sleeps, or falls asleep. Without that nobody rings and the model checker finds a deadlock, as it does
/// when [`ReadySet::push`] or [`ReadySet::pop`] asks nobody for help.
///
/// [`ReadySet::push`]: crate::ready::ReadySet::push
/// [`ReadySet::pop`]: crate::ready::ReadySet::pop
#[test]
fn a_gate_behind_a_blocking_handler_is_taken() {
    explore(|| {
        let world = World::new(2, LaneLimits::DEFAULT);
        let (second, ringing) = (world.clone(), world.lane_at(0));
        let bell = Arc::new(Bell::default());
        submit(&world.lane, Item::Block(Arc::clone(&bell)));
        let helper = thread::spawn(move || second.work(1, 2));
        // Both gates enter the queue of the first worker, this one at any time of its poll.
        let submitter = thread::spawn(move || submit(&ringing, Item::Ring(bell)));
        world.work(0, 2);
        drop(submitter.join());
        drop(helper.join());
        assert_eq!(world.handled.load(Ordering::SeqCst), 2);
    });
}

/// EX-3, EX-70: a helper that takes a gate whose handler keeps its thread as well calls the next one
/// for the rest: the last of three gates in one queue runs while two workers are kept. A deadlock when
/// `help_others` passes no call on.
#[cfg(not(loom))]
#[test]
fn a_helper_that_blocks_passes_the_call_on() {
    explore(|| {
        let world = World::new(3, LaneLimits::DEFAULT);
        let (second, third) = (world.clone(), world.clone());
        let (blocked, ringing) = (world.lane_at(0), world.lane_at(0));
        let (one, two) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        submit(&world.lane, Item::Block(Arc::clone(&one)));
        submit(&blocked, Item::Block(Arc::clone(&two)));
        submit(&ringing, Item::Ring(one));
        submit(&ringing, Item::Ring(two));
        let helpers = [
            thread::spawn(move || second.work(1, 4)),
            thread::spawn(move || third.work(2, 4)),
        ];
        world.work(0, 4);
        for helper in helpers {
            drop(helper.join());
        }
        assert_eq!(world.handled.load(Ordering::SeqCst), 4);
    });
}

/// EX-3, EX-70: a worker that was called and finds a gate of its own first, whose handler keeps its
/// thread, leaves the call to the next one. A deadlock when `pop` passes no call on.
#[cfg(not(loom))]
#[test]
fn a_called_worker_with_a_gate_of_its_own_passes_the_call_on() {
    explore(|| {
        let world = World::new(3, LaneLimits::DEFAULT);
        let (second, third) = (world.clone(), world.clone());
        let (blocked, ringing) = (world.lane_at(1), world.lane_at(0));
        let (one, two) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let helpers = [
            thread::spawn(move || second.work(1, 4)),
            thread::spawn(move || third.work(2, 4)),
        ];
        submit(&world.lane, Item::Block(Arc::clone(&one)));
        let ring = (Arc::clone(&one), Arc::clone(&two));
        submit(&ringing, Item::Ring(ring.0));
        submit(&ringing, Item::Ring(ring.1));
        let submitter = thread::spawn(move || submit(&blocked, Item::Block(two)));
        world.work(0, 4);
        drop(submitter.join());
        for helper in helpers {
            drop(helper.join());
        }
        assert_eq!(world.handled.load(Ordering::SeqCst), 4);
    });
}

/// EX-3, EX-70: a gate that a helper's own handler enters, and then waits for with its thread, goes to
/// another worker. A deadlock when `help_others` does not `go_on`: the helper's queue would look as if
/// it were about to be read.
#[cfg(not(loom))]
#[test]
fn what_a_helping_handler_enters_is_offered() {
    explore(|| {
        let world = World::new(3, LaneLimits::DEFAULT);
        let (second, third) = (world.clone(), world.clone());
        // In a model nobody runs near its submitter, so the last gate is sent to the helper's queue.
        let (helped, last) = (world.lane_at(0), world.lane_at(1));
        let (one, two) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        submit(&world.lane, Item::Block(Arc::clone(&one)));
        submit(&helped, Item::Send(last, Arc::clone(&two), one));
        let helpers = [
            thread::spawn(move || second.work(1, 3)),
            thread::spawn(move || third.work(2, 3)),
        ];
        world.work(0, 3);
        for helper in helpers {
            drop(helper.join());
        }
        assert_eq!(world.handled.load(Ordering::SeqCst), 3);
    });
}

/// EX-30, EX-76: a wake that comes while the turn is being parked is not lost.
#[test]
fn a_parked_turn_wakes_up() {
    explore(|| {
        let world = World::new(1, LaneLimits::DEFAULT);
        let bell = Arc::new(Bell::default());
        submit(&world.lane, Item::Wait(Arc::clone(&bell)));
        let ringer = thread::spawn(move || bell.ring());
        world.work(0, 1);
        drop(ringer.join());
    });
}

/// EX-31, EX-7: a result that comes while the gate is being given up resumes exactly once.
#[test]
fn a_suspended_turn_resumes_once() {
    explore(|| {
        let world = World::new(1, LaneLimits::DEFAULT);
        let bell = Arc::new(Bell::default());
        submit(&world.lane, Item::Yield(Arc::clone(&bell)));
        submit(&world.lane, Item::Count(1));
        let ringer = thread::spawn(move || bell.ring());
        world.work(0, 2);
        drop(ringer.join());
        assert_eq!(world.handled.load(Ordering::SeqCst), 2);
    });
}

/// T-EXE-53, T-EXE-58, EX-201, EX-212: an arrival that meets the seal is captured or held, once.
#[test]
fn an_arrival_that_meets_the_seal_lands_once() {
    explore(|| {
        let world = World::new(1, LaneLimits::DEFAULT);
        let other = world.clone();
        let submitter = thread::spawn(move || {
            submit(&other.lane, Item::Count(1));
            submit(&other.lane, Item::Count(2));
        });
        let mut worker = Worker::new(Arc::clone(&world.shared), 0);
        let mut request = Box::pin(world.lane.request_seal());
        let guard = block_on(poll_fn(|cx| {
            drop(worker.poll(cx));
            request.as_mut().poll(cx)
        }));
        drop(request);
        drop(submitter.join());
        let Ok(mut guard) = guard else { return };
        let mut seen: Vec<usize> = guard
            .state()
            .map(|witness| witness.seen.clone())
            .unwrap_or_default();
        for captured in guard.captured() {
            if let Captured::Item {
                item: Item::Count(number),
                ..
            } = captured
            {
                seen.push(*number);
            }
        }
        let mut handoff = guard.into_handoff();
        let held = handoff
            .take_held()
            .into_iter()
            .filter_map(|saved| match saved {
                crate::seal::Saved::Item {
                    item: Item::Count(number),
                    ..
                } => Some(number),
                _ => None,
            });
        seen.extend(held);
        assert_eq!(seen, [1, 2]);
    });
}

/// T-EXE-57, EX-205, EX-212: a restore meets arrivals without losing or reordering any.
#[test]
fn a_restore_meets_arrivals() {
    explore(|| {
        let world = World::new(1, LaneLimits::DEFAULT);
        let guard = block_on(world.lane.request_seal());
        submit(&world.lane, Item::Count(0));
        let other = world.clone();
        let submitter = thread::spawn(move || submit(&other.lane, Item::Count(1)));
        if let Ok(guard) = guard {
            guard.restore(None);
        }
        world.work(0, 2);
        drop(submitter.join());
        let mut inner = world.lane.core.lock();
        if let (_, Some(driven)) = inner.both() {
            let owner = driven.owner.as_ref();
            assert!(owner.is_some_and(|owner| owner.seen == [0, 1]));
        }
    });
}

/// T-EXE-31, EX-123, EX-125: a permit that is returned while its next holder gives up is not lost.
#[test]
fn a_permit_is_handed_over_or_free() {
    explore(|| {
        let Ok(settings) = JobQueueSettings::manual(1) else {
            return;
        };
        let jobs = JobQueue::new(settings);
        let (mut first, mut second) = (jobs.source(), jobs.source());
        let Some(held) = first.try_reserve() else {
            return;
        };
        let waiter = thread::spawn(move || {
            let mut wait = Box::pin(second.reserve());
            let mut polls = 0;
            // Waits for a moment and gives up.
            block_on(poll_fn(|cx| {
                polls += 1;
                if wait.as_mut().poll(cx).is_ready() || polls > 1 {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }));
        });
        drop(held);
        drop(waiter.join());
        let status = jobs.status();
        assert_eq!((status.reserved, status.queued, status.waiters), (0, 0, 0));
    });
}

/// EX-308: an offer that meets the end of an activation is refused or dropped with it, once.
#[test]
fn an_offer_that_meets_the_end_is_not_kept() {
    explore(|| {
        let (pending, activation) = activation::<Witness>(LaneLimits::DEFAULT);
        let bell = Arc::new(Bell::default());
        let rung = Arc::clone(&bell);
        let offers = pending.clone();
        let sender = thread::spawn(move || {
            let one = offers.offer(Item::Ring(Arc::clone(&rung)), 0).is_ok();
            let two = offers.offer(Item::Ring(rung), 0).is_ok();
            usize::from(one) + usize::from(two)
        });
        let make = std::future::pending::<Result<Lane<Witness>, ()>>();
        let (deadline, drain) = (std::future::ready(()), std::future::pending());
        let ended = block_on(activation.run(make, deadline, drain));
        let accepted = sender.join().unwrap_or_default();
        let Err(ActivationError::DeadlineExceeded { dropped }) = ended else {
            unreachable!("nothing else is ready");
        };
        assert_eq!(dropped, accepted);
        assert_eq!(Arc::strong_count(&bell), 1, "nothing keeps an item");
        assert!(pending.offer(Item::Count(0), 0).is_err());
    });
}

/// EX-308: offers that meet the opening run once and in order, held or not.
#[test]
fn offers_that_meet_the_opening_keep_their_order() {
    explore(|| {
        let world = World::new(1, LaneLimits::DEFAULT);
        let (pending, activation) = activation::<Witness>(LaneLimits::DEFAULT);
        let sender = thread::spawn(move || {
            assert!(pending.offer(Item::Count(1), 0).is_ok());
            assert!(pending.offer(Item::Count(2), 0).is_ok());
        });
        let make = std::future::ready(Ok::<_, ()>(world.lane.clone()));
        let never = std::future::pending;
        assert!(block_on(activation.run(make, never(), never())).is_ok());
        drop(sender.join());
        world.work(0, 2);
        let mut inner = world.lane.core.lock();
        if let (_, Some(driven)) = inner.both() {
            let owner = driven.owner.as_ref();
            assert!(owner.is_some_and(|owner| owner.seen == [1, 2]));
        }
    });
}

/// EX-305: a slot that comes free while its next multicast is cancelled starts it, with all its targets, or is free.
#[test]
fn a_cancelled_multicast_starts_as_a_whole_or_not() {
    explore(|| {
        let (Ok(settings), Ok(slots)) = (
            JobQueueSettings::manual(1),
            MulticastSlots::new(NonZeroU32::MIN),
        ) else {
            return;
        };
        let world = World::new(1, LaneLimits::DEFAULT);
        let jobs = JobQueue::new(settings);
        let nobody = Multicast::<Witness, ()>::new([], (), 0, |_| Item::Count(0));
        let first = block_on(slots.start(nobody));
        let targets = [world.lane_at(0), world.lane_at(0)];
        let all = Multicast::new(targets.clone(), (), 0, |_| Item::Count(1));
        let (waiting, mut source) = (slots.clone(), jobs.source());
        let caller = thread::spawn(move || {
            let mut start = Box::pin(waiting.start(all));
            let mut polls = 0;
            // Waits for a moment and gives up.
            let started = block_on(poll_fn(|cx| {
                polls += 1;
                match start.as_mut().poll(cx) {
                    Poll::Ready(started) => Poll::Ready(Some(started)),
                    Poll::Pending if polls > 1 => Poll::Ready(None),
                    Poll::Pending => {
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            }));
            drop(start);
            started
        });
        drop(first);
        let started = caller.join().ok().flatten();
        let expected = usize::from(started.is_some()) * 2;
        let tried = || -> u64 {
            let usages = targets.iter().map(Lane::application_usage);
            usages.map(|usage| usage.accepted).sum()
        };
        assert_eq!(tried(), 0, "nothing is tried by the caller");
        if let Some(started) = started {
            let workers = world.clone();
            let worker = thread::spawn(move || workers.work(0, 2));
            let deliver = started.deliver(&mut source, std::future::pending::<()>);
            assert_eq!(block_on(deliver).report().accepted, expected);
            drop(worker.join());
        }
        assert_eq!(tried(), expected as u64);
        assert_eq!((slots.in_use(), jobs.status().reserved), (0, 0));
    });
}

/// T-EXE-26, EX-101, EX-301: room that meets a dropped wait goes to nobody or to the next in line.
#[test]
fn a_dropped_wait_meets_its_room() {
    explore(|| {
        let limits = LaneLimits::DEFAULT.application(FifoLimits::new(1, 1 << 20));
        let world = World::new(1, limits);
        submit(&world.lane, Item::Count(0));
        let other = world.clone();
        let waiter = thread::spawn(move || {
            let mut wait = Box::pin(other.lane.submit(Item::Count(1)));
            let mut polls = 0;
            block_on(poll_fn(|cx| {
                polls += 1;
                if wait.as_mut().poll(cx).is_ready() || polls > 1 {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }));
        });
        world.work(0, 1);
        drop(waiter.join());
        let inner = world.lane.core.lock();
        assert!(inner.ext.as_ref().is_none_or(|ext| ext.waiters.is_empty()));
    });
}
