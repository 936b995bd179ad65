//! Locks and atomics, or those of a model checker under `cfg(loom)` and `cfg(shuttle)`.
//!
//! `Arc` is always the one of `std`: the engine stores trait objects behind it, and neither checker
//! can turn its own `Arc<T>` into an `Arc<dyn Trait>`. What the models look for are lost wake-ups,
//! double starts and broken hand-overs, and those happen in locks and atomics.

#[cfg(not(any(loom, shuttle)))]
use std::sync::atomic;

#[cfg(loom)]
use loom::sync::atomic;

#[cfg(all(shuttle, not(loom)))]
use shuttle::sync::atomic;

pub(crate) use atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(any(loom, shuttle))]
pub(crate) use checked::Mutex;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use spinning::Mutex;

/// No lock of this crate is held while code of an application runs (EX-360), so all of them are held for
/// some dozen instructions and a panic cannot leave half a change behind: nothing is poisoned.
#[cfg(not(any(loom, shuttle)))]
mod spinning {
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};

    use spin::mutex::{SpinMutex, SpinMutexGuard};

    /// How often a lock is looked at before its thread lets others run: its holder may be one of them.
    const LOOKS: u32 = 128;

    /// EX-364, EX-369: a state of this crate has one short lock for an owner, and nothing can wait while it is held: the
    /// guard stays on its thread, so a future that keeps one across an await cannot be run by an engine or a runtime of
    /// several threads. Waiting for a lock with a gate in hand is allowed, and short.
    #[derive(Debug)]
    pub(crate) struct MutexGuard<'a, T> {
        guard: SpinMutexGuard<'a, T>,
        stays: PhantomData<*const ()>,
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }

    /// A mutex that is taken by one atomic operation and given back by a plain store (EX-391), where the
    /// one of `std` needs an atomic operation for that as well. `docs/decisions/lane-locks.md` has the price.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(SpinMutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }

        #[inline]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            #[cfg(test)]
            super::tests::count();
            let guard = match self.0.try_lock() {
                Some(guard) => guard,
                None => self.wait(),
            };
            MutexGuard {
                guard,
                stays: PhantomData,
            }
        }

        #[cold]
        #[inline(never)]
        fn wait(&self) -> SpinMutexGuard<'_, T> {
            loop {
                for _ in 0..LOOKS {
                    if !self.0.is_locked()
                        && let Some(guard) = self.0.try_lock()
                    {
                        return guard;
                    }
                    std::hint::spin_loop();
                }
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(any(loom, shuttle))]
mod checked {
    #[cfg(loom)]
    use loom::sync as imp;
    #[cfg(all(shuttle, not(loom)))]
    use shuttle::sync as imp;

    pub(crate) use imp::MutexGuard;

    /// As the mutex of the product, known to the model checker.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(imp::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(imp::Mutex::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            match self.0.into_inner() {
                Ok(value) => value,
                Err(poisoned) => poisoned.into_inner(),
            }
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }
}

/// What a message costs in locks, counted on the one thread of a runtime.
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    use crate::{
        ActorDelivery, Engine, GateUse, HandlerError, KeepGate, Lane, LaneLimits, Monotonic, Owner,
        Turn,
    };

    thread_local! {
        static TAKEN: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn count() {
        TAKEN.set(TAKEN.get() + 1);
    }

    fn taken() -> u64 {
        TAKEN.replace(0)
    }

    /// EX-364, EX-369: this does not compile for a guard that may leave its thread, since either impl would do then.
    #[test]
    fn a_guard_cannot_be_kept_across_an_await() {
        trait StaysOnItsThread<Marker> {
            fn checked() {}
        }
        impl<T: ?Sized> StaysOnItsThread<()> for T {}
        struct MayBeSent;
        impl<T: ?Sized + Send> StaysOnItsThread<MayBeSent> for T {}
        <super::spinning::MutexGuard<'static, u8> as StaysOnItsThread<_>>::checked();
        <spotlane_gate::Front<'static, u8, u8> as StaysOnItsThread<_>>::checked();
    }

    struct Quiet;

    impl Owner for Quiet {
        type Policy = ActorDelivery;
        type Waits = KeepGate;
        type Item = ();
        type Reply = ();

        async fn handle(_: &mut Turn<'_, Self>, (): ()) -> Result<(), HandlerError> {
            Ok(())
        }
    }

    async fn served(lane: &Lane<Quiet>) {
        while lane.application_usage().items > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// EX-391: an item that has a slice of its own takes the lock of its lane once, when it is submitted. Its slice takes that of
    /// the worker's queue, which its gate has entered, and none to begin or to end.
    #[tokio::test]
    async fn an_item_takes_the_lock_of_its_lane_once() {
        const LANES: u64 = 50;
        let clock = Arc::new(|| Monotonic::ORIGIN);
        let runtime = tokio::runtime::Handle::current();
        let engine = Engine::start(&runtime, NonZeroUsize::MIN, clock);
        let kind = engine.kind(LaneLimits::DEFAULT, GateUse::Own);
        let lanes: Vec<_> = (0..LANES).map(|_| kind.lane(Quiet)).collect();
        // The worker has its first poll, and a carrier.
        burst(&lanes[0], 1).await;

        taken();
        for lane in &lanes {
            assert!(lane.enqueue(()).is_ok());
        }
        assert_eq!(taken(), 2 * LANES);
        tokio::task::yield_now().await;
        let run = taken();
        for lane in &lanes {
            served(lane).await;
        }
        // Besides: the worker begins, finds no more, looks once more, and sleeps.
        assert!(run <= LANES + 8, "{run} locks for {LANES} slices");
        engine.shutdown(std::future::ready(())).await;
    }

    /// The locks of submitting `count` items, and those of running them.
    async fn burst(lane: &Lane<Quiet>, count: u64) -> (u64, u64) {
        taken();
        for _ in 0..count {
            assert!(lane.enqueue(()).is_ok());
        }
        let submitted = taken();
        tokio::task::yield_now().await;
        let run = taken();
        served(lane).await;
        (submitted, run)
    }

    /// EX-391: an item takes one lock to be submitted, and the driver owns what it took out: a burst of a hundred
    /// costs it hardly more locks than one item.
    #[tokio::test]
    async fn a_burst_takes_no_lock_for_each_of_its_items() {
        let clock = Arc::new(|| Monotonic::ORIGIN);
        let runtime = tokio::runtime::Handle::current();
        let engine = Engine::start(&runtime, NonZeroUsize::MIN, clock);
        let lane = engine.kind(LaneLimits::DEFAULT, GateUse::Own).lane(Quiet);
        // The worker has its first poll, and a carrier.
        burst(&lane, 1).await;
        served(&lane).await;

        let (submitted, run) = burst(&lane, 1).await;
        // The gate enters the queue of its worker as well.
        assert_eq!(submitted, 2);
        let (many, run_many) = burst(&lane, 100).await;
        assert_eq!(many, 101);
        // After a burst the worker looks once more before it sleeps.
        assert!(run_many <= run + 4, "{run_many} locks, {run} for one item");
        engine.shutdown(std::future::ready(())).await;
    }
}
