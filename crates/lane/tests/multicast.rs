//! Multicast to lanes of this host: permits one by one, a fixed set, one payload.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use std::future::pending;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spotlane_lane::{
    ActorDelivery, FifoLimits, GateUse, HandlerError, JobQueue, JobQueueSettings, KeepGate, Lane,
    LaneLimits, Multicast, MulticastSlots, Owner, Share, Turn,
};
use support::{Bench, Log, settle};
use tokio::sync::Semaphore;

/// What all targets share: notes when it is released and how often an item was made of it.
struct News {
    log: Log,
    made: Arc<AtomicUsize>,
}

impl Drop for News {
    fn drop(&mut self) {
        self.log.note("released");
    }
}

/// Takes a pass for every item, notes it, and fails if its name says so.
struct Reader {
    name: &'static str,
    log: Log,
    passes: Arc<Semaphore>,
}

impl Owner for Reader {
    type Policy = ActorDelivery;
    type Waits = KeepGate;
    type Item = Share<News>;
    type Reply = ();

    async fn handle(turn: &mut Turn<'_, Self>, news: Share<News>) -> Result<(), HandlerError> {
        let reader = turn.state();
        let (name, log) = (reader.name, reader.log.clone());
        let passes = Arc::clone(&reader.passes);
        log.note(format!("{name}("));
        passes.acquire().await.unwrap().forget();
        assert!(news.made.load(Ordering::SeqCst) > 0);
        drop(news);
        if name == "bad" {
            return Err(HandlerError::new("it does not like the news"));
        }
        log.note(format!("){name}"));
        Ok(())
    }
}

struct World {
    bench: Bench,
    jobs: JobQueue,
    slots: MulticastSlots,
    passes: Arc<Semaphore>,
    made: Arc<AtomicUsize>,
}

impl World {
    fn new(jobs: u64) -> Self {
        Self {
            bench: Bench::new(),
            jobs: JobQueue::new(JobQueueSettings::manual(jobs).unwrap()),
            slots: MulticastSlots::new(NonZeroU32::MIN).unwrap(),
            passes: Arc::new(Semaphore::new(0)),
            made: Arc::new(AtomicUsize::new(0)),
        }
    }

    fn reader(&self, name: &'static str, items_max: u64) -> Lane<Reader> {
        let limits = LaneLimits::DEFAULT.application(FifoLimits::new(items_max, 1 << 20));
        let kind = self.bench.engine.kind(limits, GateUse::Own);
        kind.lane(Reader {
            name,
            log: self.bench.log.clone(),
            passes: Arc::clone(&self.passes),
        })
    }

    fn news(&self, targets: &[&Lane<Reader>]) -> Multicast<Reader, News> {
        let news = News {
            log: self.bench.log.clone(),
            made: Arc::clone(&self.made),
        };
        let targets: Vec<_> = targets.iter().map(|target| (*target).clone()).collect();
        Multicast::new(targets, news, 100, |share| {
            share.made.fetch_add(1, Ordering::SeqCst);
            share
        })
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}

/// T-EXE-35, EX-126: with one permit a target has nothing, not even an item, before the one in front of it has begun.
#[tokio::test]
async fn permits_are_taken_one_by_one() {
    let world = World::new(1);
    let busy: Vec<_> = ["a", "b", "c"].map(|name| world.reader(name, 9)).into();
    // Every target has a handler that waits, so what is delivered stays queued.
    let first = world
        .slots
        .start(world.news(&[&busy[0], &busy[1], &busy[2]]))
        .await;
    let mut source = world.jobs.source();
    let delivered = first.deliver(&mut source, pending::<()>).await;
    settle().await;
    assert_eq!(world.bench.log.text(), "a( b( c(");
    assert_eq!(delivered.report().accepted, 3);

    let second = world
        .slots
        .start(world.news(&[&busy[0], &busy[1], &busy[2]]))
        .await;
    let jobs = world.jobs.clone();
    let deliver = tokio::spawn(async move {
        let mut source = jobs.source();
        second.deliver(&mut source, pending::<()>).await
    });
    for target in 0..3 {
        settle().await;
        assert_eq!(
            world.made(),
            3 + target + 1,
            "one more item than handlers that began"
        );
        assert_eq!(world.jobs.status().queued, 1);
        assert_eq!(busy[target].application_usage().bytes, 2 * (100 + 256));
        if let Some(next) = busy.get(target + 1) {
            assert_eq!(next.application_usage().items, 1);
        }
        // This one's first handler ends, its second one begins and gives the permit back.
        world.passes.add_permits(1);
    }
    let again = deliver.await.unwrap();
    world.passes.add_permits(9);
    assert_eq!(
        delivered.ended().await.failed + again.ended().await.failed,
        0
    );
    assert_eq!(world.jobs.status().queued, 0);
}

/// EX-278: the set is what it was at the start, each target is tried once, and what becomes of one is no result of the
/// multicast and harms no other.
#[tokio::test]
async fn failures_of_targets_are_recorded_and_nothing_else() {
    let world = World::new(9);
    let (ended, full) = (world.reader("ended", 9), world.reader("full", 1));
    let (bad, good) = (world.reader("bad", 9), world.reader("good", 9));
    world.passes.add_permits(9);
    ended.close();
    let first = world.slots.start(world.news(&[&full])).await;
    let taken = Arc::clone(&world.passes);
    let taken = taken.acquire_many_owned(9).await.unwrap();
    let delivered_first = first.deliver(&mut world.jobs.source(), pending::<()>).await;
    settle().await;

    let started = world
        .slots
        .start(world.news(&[&ended, &full, &bad, &good]))
        .await;
    let late = world.reader("late", 9);
    // Room that does not come in time: the send timeout of one target.
    let delivered = started
        .deliver(&mut world.jobs.source(), || std::future::ready(()))
        .await;
    let report = delivered.report();
    assert_eq!((report.accepted, report.refused), (2, 2));
    assert_eq!(
        full.application_usage().accepted,
        1,
        "nothing is left behind"
    );
    drop(taken);
    assert_eq!(delivered_first.ended().await.failed, 0);
    assert_eq!(delivered.ended().await.failed, 1);
    assert_eq!(late.application_usage().accepted, 0);
    let text = world.bench.log.text();
    assert!(text.contains("bad(") && text.contains(")good"), "{text}");
}

/// EX-278: without targets a multicast completes when it started, as any other.
#[tokio::test]
async fn a_multicast_to_nobody_completes() {
    let world = World::new(1);
    let started = world.slots.start(world.news(&[])).await;
    let delivered = started
        .deliver(&mut world.jobs.source(), pending::<()>)
        .await;
    let report = delivered.ended().await;
    assert_eq!((report.accepted, report.refused, report.failed), (0, 0, 0));
    assert_eq!(world.bench.log.text(), "released");
}

/// EX-305: cancelled while it waits for its slot, a multicast tried nothing and the slot is free for the next; once slot and
/// start are fixed, the caller's part is over.
#[tokio::test]
async fn a_multicast_is_cancelled_before_its_start_only() {
    let world = World::new(9);
    world.passes.add_permits(9);
    let target = world.reader("a", 9);
    let first = world.slots.start(world.news(&[&target])).await;
    assert_eq!(world.slots.in_use(), 1);
    let (slots, news) = (world.slots.clone(), world.news(&[&target]));
    let waits = tokio::spawn(async move { slots.start(news).await });
    settle().await;
    assert!(!waits.is_finished());
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    let delivered = first.deliver(&mut world.jobs.source(), pending::<()>).await;
    assert_eq!(delivered.ended().await.accepted, 1);
    assert_eq!((world.slots.in_use(), world.made()), (0, 1));
    let third = world.slots.start(world.news(&[])).await;
    drop(third);
    assert_eq!(world.slots.in_use(), 0);
}

/// EX-326: one payload, and it goes once, after the last target has ended and its reply was tried.
#[tokio::test]
async fn the_payload_goes_after_the_last_target() {
    let world = World::new(9);
    let (one, two) = (world.reader("one", 9), world.reader("two", 9));
    let started = world.slots.start(world.news(&[&one, &two])).await;
    let delivered = started
        .deliver(&mut world.jobs.source(), pending::<()>)
        .await;
    let ended = tokio::spawn(delivered.ended());
    settle().await;
    world.passes.add_permits(1);
    settle().await;
    assert_eq!(world.bench.log.text(), "one( two( )one");
    assert!(!ended.is_finished());
    world.passes.add_permits(1);
    assert_eq!(ended.await.unwrap().failed, 0);
    assert_eq!(world.bench.log.text(), "one( two( )one )two released");
}

/// EX-300, EX-326: what was accepted runs, although nobody waits for its end any more.
#[tokio::test]
async fn accepted_targets_run_without_their_multicast() {
    let world = World::new(9);
    let target = world.reader("a", 9);
    let first = world.slots.start(world.news(&[&target])).await;
    let first = first.deliver(&mut world.jobs.source(), pending::<()>).await;
    let second = world.slots.start(world.news(&[&target])).await;
    let second = second
        .deliver(&mut world.jobs.source(), pending::<()>)
        .await;
    settle().await;
    drop((first, second));
    world.passes.add_permits(2);
    target.await_quiescence().await;
    assert_eq!(world.bench.log.text(), "a( released )a a( released )a");
    assert_eq!(world.bench.engine.stats().items_cancelled(), 0);
}
