//! What a message costs once everything is warm. Alone in its program, since it counts allocations.

use std::alloc::System;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spotlane_lane::{
    ActorDelivery, Engine, GateUse, HandlerError, KeepGate, Lane, LaneLimits, Monotonic, Owner,
    Turn,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Counter(Arc<AtomicU64>);

impl Owner for Counter {
    type Policy = ActorDelivery;
    type Waits = KeepGate;
    type Item = u64;
    type Reply = ();

    async fn handle(turn: &mut Turn<'_, Self>, add: u64) -> Result<(), HandlerError> {
        turn.state().0.fetch_add(add, Ordering::Relaxed);
        Ok(())
    }
}

async fn send(lanes: &[Lane<Counter>], rounds: u64) {
    for _ in 0..rounds {
        for lane in lanes {
            assert!(lane.submit(1).await.is_ok());
        }
        tokio::task::yield_now().await;
    }
    for lane in lanes {
        while lane.application_usage().items > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// EX-392: a local one-way message in its steady state allocates nothing and reads the clock at most
/// once; short handlers share a reading.
#[tokio::test]
async fn a_message_allocates_nothing_and_shares_a_reading_of_the_clock() {
    const ROUNDS: u64 = 100;
    let (handled, readings) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counting = Arc::clone(&readings);
    let clock = move || {
        counting.fetch_add(1, Ordering::Relaxed);
        Monotonic::from_origin(Duration::ZERO)
    };
    let runtime = tokio::runtime::Handle::current();
    let engine = Engine::start(&runtime, NonZeroUsize::MIN, Arc::new(clock));
    let kind = engine.kind(LaneLimits::DEFAULT, GateUse::Own);
    let lanes: Vec<Lane<Counter>> = (0..10)
        .map(|_| kind.lane(Counter(Arc::clone(&handled))))
        .collect();
    send(&lanes, ROUNDS).await;

    let (before, read_before) = (Region::new(COUNTING), readings.load(Ordering::Relaxed));
    send(&lanes, ROUNDS).await;
    let change = before.change();
    let read = readings.load(Ordering::Relaxed) - read_before;

    let messages = ROUNDS * lanes.len() as u64;
    assert_eq!(handled.load(Ordering::Relaxed), 2 * messages);
    assert_eq!(change.allocations + change.reallocations, 0, "{change:?}");
    assert!(
        read <= messages / 4,
        "{read} readings for {messages} messages"
    );
    engine.shutdown(std::future::ready(())).await;
}
