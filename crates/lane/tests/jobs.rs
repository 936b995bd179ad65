//! The Application Job Queue.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use spotlane_lane::{
    FifoLimits, JobQueue, JobQueueError, JobQueueProfile, JobQueueSettings, LaneLimits, Pressure,
};
use support::{Bench, Step, running, settle};

fn queue(jobs: u64) -> JobQueue {
    JobQueue::new(JobQueueSettings::manual(jobs).unwrap())
}

/// EX-99, EX-120, EX-121, EX-122, EX-124: in use from the reservation to the first instruction of the handler.
#[tokio::test]
async fn a_permit_is_returned_at_the_first_instruction() {
    let bench = Bench::new();
    let jobs = queue(2);
    let mut source = jobs.source();
    let actor = bench.actor();
    let (wait, release) = Step::wait("w");
    let permit = source.reserve().await;
    assert_eq!((jobs.status().reserved, jobs.status().queued), (1, 0));
    actor.enqueue_job(permit, wait, 10).unwrap();
    assert_eq!((jobs.status().reserved, jobs.status().queued), (0, 1));
    settle().await;
    assert_eq!(bench.log.text(), "w(");
    assert_eq!(
        (jobs.status().reserved, jobs.status().queued),
        (0, 0),
        "the handler has started"
    );
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(jobs.status().peak, 1);
}

/// EX-123, EX-125, EX-384: permits for a burst are as many as are free, never before somebody who waits, and each of them goes
/// back once, taken or not.
#[tokio::test]
async fn permits_of_a_burst_are_those_that_are_free() {
    let jobs = queue(5);
    let mut source = jobs.source();
    let mut burst = source.try_reserve_up_to(64).unwrap();
    assert_eq!((jobs.status().reserved, jobs.status().waits), (5, 0));
    assert!(jobs.source().try_reserve_up_to(1).is_none(), "none is free");
    let taken = [burst.take().unwrap(), burst.take().unwrap()];
    let waiting = tokio::spawn({
        let mut source = jobs.source();
        async move { source.reserve().await }
    });
    settle().await;
    assert_eq!(jobs.status().waiters, 1);
    drop(burst);
    let waited = waiting.await.unwrap();
    assert_eq!(
        jobs.status().reserved,
        3,
        "two of the burst, and the one that waited"
    );
    let mut rest = source.try_reserve_up_to(1).unwrap();
    assert!(rest.take().is_some() && rest.take().is_none());
    drop((taken, waited, rest));
    assert_eq!((jobs.status().reserved, jobs.status().peak), (0, 5));
}

/// EX-123, EX-130: a returned permit goes to the oldest source; nobody passes, nothing is refused.
#[tokio::test]
async fn the_oldest_source_is_served_first() {
    let jobs = queue(1);
    let held = jobs.source().reserve().await;
    let mut tasks = Vec::new();
    let log = support::Log::default();
    for name in ["one", "two", "three"] {
        let (mut source, log) = (jobs.source(), log.clone());
        tasks.push(tokio::spawn(async move {
            let permit = source.reserve().await;
            log.note(name);
            drop(permit);
        }));
        tokio::task::yield_now().await;
    }
    assert_eq!(jobs.status().waiters, 3);
    assert!(
        jobs.source().try_reserve().is_none(),
        "a new attempt never passes a waiter"
    );
    drop(held);
    assert!(
        jobs.source().try_reserve().is_none(),
        "it was handed over, not freed"
    );
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.text(), "one two three");
    assert_eq!((jobs.status().reserved, jobs.status().waits), (0, 3));
}

/// EX-125: a source that goes away while it waits, or with a permit in its hand, loses none.
#[tokio::test]
async fn permits_of_gone_sources_are_not_lost() {
    let jobs = queue(1);
    let held = jobs.source().reserve().await;
    let wait = |mut source: spotlane_lane::JobSource| {
        tokio::spawn(async move { drop(source.reserve().await) })
    };
    let (gone, stays) = (wait(jobs.source()), wait(jobs.source()));
    settle().await;
    gone.abort();
    settle().await;
    drop(held);
    stays.await.unwrap();
    // Handed over, but dropped before it was looked at.
    let held = jobs.source().reserve().await;
    let handed = wait(jobs.source());
    tokio::task::yield_now().await;
    drop(held);
    handed.abort();
    settle().await;
    assert_eq!(jobs.status().reserved, 0);
    assert!(jobs.source().try_reserve().is_some());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// EX-123, EX-125: who has nobody that waits for a permit keeps its place, hears of what it is handed in the same moment and
/// from nobody in between, and loses nothing of it.
#[tokio::test]
async fn a_source_that_looks_again_keeps_its_place_and_what_it_was_handed() {
    let jobs = queue(1);
    let held = jobs.source().reserve().await;
    let (woken, mut first, mut second) = (Arc::new(Woken::default()), jobs.source(), jobs.source());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    assert!(first.poll_reserve(&mut cx).is_pending());
    assert!(first.poll_reserve(&mut cx).is_pending(), "once in line");
    assert!(
        second
            .poll_reserve(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert_eq!((jobs.status().waiters, jobs.status().waits), (2, 2));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    drop(held);
    assert_eq!(
        woken.0.load(Ordering::SeqCst),
        1,
        "with the permit's return"
    );
    assert_eq!((jobs.status().waiters, jobs.status().reserved), (1, 1));
    // It has one already, which comes first.
    assert!(first.try_reserve().is_none() && first.try_reserve_up_to(64).is_none());
    let Poll::Ready(permit) = first.poll_reserve(&mut cx) else {
        panic!("it was handed over");
    };
    drop(permit);
    // Handed to the second, which goes away without a look at it.
    assert_eq!(jobs.status().reserved, 1);
    drop(second);
    assert_eq!(jobs.status().reserved, 0);
    let held = first.try_reserve().unwrap();
    assert!(first.poll_reserve(&mut cx).is_pending());
    drop(first);
    assert_eq!(jobs.status().waiters, 0, "it left the line");
    drop(held);
    assert_eq!(jobs.status().reserved, 0);
}

/// EX-125: items that end before their handler return their permit, once.
#[tokio::test]
async fn early_terminals_return_the_permit_once() {
    let bench = Bench::new();
    let jobs = queue(4);
    let mut source = jobs.source();
    let actor = bench.actor();
    actor.enqueue(Step::Never("stuck")).unwrap();
    settle().await;
    for _ in 0..3 {
        let permit = source.reserve().await;
        actor.enqueue_job(permit, Step::Note("n"), 0).unwrap();
    }
    assert_eq!(jobs.status().queued, 3);
    bench.engine.shutdown(std::future::ready(())).await;
    assert_eq!(jobs.status().queued, 0);
    let refused = actor
        .enqueue_job(source.reserve().await, Step::Note("late"), 0)
        .unwrap_err();
    assert_eq!(
        jobs.status().reserved,
        1,
        "a refusal gives the permit back with the item"
    );
    drop(refused);
    assert_eq!(jobs.status().reserved, 0);
}

/// EX-102, EX-127, EX-129: local work waits for room without a permit and takes it last.
#[tokio::test]
async fn a_waiting_operation_holds_no_permit() {
    let bench = Bench::new();
    let jobs = queue(1);
    let limits = LaneLimits::DEFAULT.application(FifoLimits::new(1, 1 << 20));
    let actor = bench.actor_with(limits);
    let (wait, release) = Step::wait("w");
    actor.submit_job(&mut jobs.source(), wait, 0).await.unwrap();
    settle().await;
    let mut waiting = Vec::new();
    for name in ["a", "b"] {
        let (actor, mut source) = (actor.clone(), jobs.source());
        let job = async move { actor.submit_job(&mut source, Step::Note(name), 0).await };
        waiting.push(tokio::spawn(job));
        settle().await;
    }
    assert_eq!(
        jobs.status().reserved,
        0,
        "the room is missing, so the permit stays free"
    );
    release.send(()).unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "w( )w a b");
    assert_eq!((jobs.status().reserved, jobs.status().queued), (0, 0));
}

/// EX-150, EX-151, EX-152, EX-64: lifecycle work and control never wait behind application permits.
#[tokio::test]
async fn control_work_goes_on_without_a_free_permit() {
    let bench = Bench::new();
    let jobs = queue(1);
    let actor = bench.actor();
    let release = running(&actor, "first").await;
    let permit = jobs.source().reserve().await;
    actor.enqueue_job(permit, Step::Note("job"), 0).unwrap();
    assert!(jobs.source().try_reserve().is_none());
    actor.enqueue_lifecycle(Step::Note("control")).unwrap();
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first control job");
}

/// EX-133: the limit is checked before anything starts.
#[test]
fn limits_outside_the_range_are_no_settings() {
    let out_of_range = |jobs| JobQueueSettings::manual(jobs).unwrap_err();
    assert_eq!(out_of_range(0), JobQueueError::LimitOutOfRange { jobs: 0 });
    assert_eq!(
        out_of_range(1 << 31),
        JobQueueError::LimitOutOfRange { jobs: 1 << 31 }
    );
    let processors = NonZeroU32::new(2).unwrap();
    let balanced = JobQueueSettings::profile(JobQueueProfile::default(), processors).unwrap();
    assert_eq!(JobQueue::new(balanced).status().limit, 256);
    let many = NonZeroU32::new(u32::MAX).unwrap();
    assert!(JobQueueSettings::profile(JobQueueProfile::Throughput, many).is_err());
    assert!(balanced.thresholds(60, 60).is_err());
    assert!(balanced.thresholds(101, 60).is_err());
}

/// EX-134, EX-135, EX-155: pressure changes at the thresholds only, and an epoch begins without a change.
#[tokio::test]
async fn pressure_has_two_thresholds() {
    let settings = JobQueueSettings::manual(10)
        .unwrap()
        .thresholds(80, 60)
        .unwrap();
    let jobs = JobQueue::new(settings);
    let mut source = jobs.source();
    let signal = jobs.pressure();
    let mut held = Vec::new();
    for used in 1..=8 {
        held.push(source.reserve().await);
        let expected = if used < 8 {
            Pressure::Running
        } else {
            Pressure::Paused
        };
        assert_eq!(jobs.status().pressure, expected, "{used} in use");
    }
    assert_eq!(*signal.borrow(), Pressure::Paused);
    held.pop();
    assert_eq!(jobs.status().pressure, Pressure::Paused, "7 is in between");
    held.pop();
    assert_eq!(
        jobs.status().pressure,
        Pressure::Running,
        "6 is the lower threshold"
    );
    assert_eq!(jobs.status().transitions, 2);
    jobs.reset_epoch();
    let status = jobs.status();
    assert_eq!(
        (status.reserved, status.peak, status.transitions),
        (6, 6, 0)
    );
}
