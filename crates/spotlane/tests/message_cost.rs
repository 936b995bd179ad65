//! What a message between two hosts takes from the allocator: counted, because a rate says nothing on a loaded machine.
//! A program of its own, so that nothing else of the tests is counted.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the setting"
)]
#![expect(
    clippy::unused_async,
    reason = "handlers are async whether or not they wait"
)]

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spotlane::memory::{MemoryRelocation, MemoryStore};
use spotlane::prelude::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::Notify;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PATIENCE: Duration = Duration::from_mins(1);
const MESSAGES: u64 = 20_000;
/// A one-way message: itself in the queue of its Actor, and the future of its handler. The rest is what many messages share:
/// the buffers of the sockets, the bursts.
const PER_SEND: f64 = 2.5;
/// A request: besides those, where its answer may come from when the Actor moves.
const PER_REQUEST: f64 = 4.5;

#[derive(Default)]
struct Arrived {
    count: AtomicU64,
    all: Notify,
}

struct Echo(Arc<Arrived>);

impl Echo {
    async fn echo(&mut self, _: &mut Context, payload: Payload) -> Payload {
        payload
    }

    async fn count(&mut self, _: &mut Context, _: Payload) {
        if self.0.count.fetch_add(1, Ordering::SeqCst) + 1 == MESSAGES {
            self.0.all.notify_one();
        }
    }
}

impl Actor for Echo {
    const TYPE: &'static str = "echo";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("echo", Self::echo)
            .send("count", Self::count);
    }
}

async fn sends(actor: &ActorHandle, arrived: &Arrived, payload: &Bytes) {
    arrived.count.store(0, Ordering::SeqCst);
    for _ in 0..MESSAGES {
        actor.send("count", payload.clone()).await.unwrap();
    }
    let all = arrived.all.notified();
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

async fn requests(actor: &ActorHandle, payload: &Bytes) {
    for _ in 0..MESSAGES {
        let answer = actor.request("echo", payload.clone()).await.unwrap();
        assert_eq!(answer.len(), payload.len());
    }
}

/// How many allocations a message takes in some run of it.
fn per_message(region: &Region<'_, System>) -> f64 {
    let change = region.change();
    let all = change.allocations + change.reallocations;
    f64::from(u32::try_from(all).unwrap()) / f64::from(u32::try_from(MESSAGES).unwrap())
}

/// EX-380, EX-388, EX-390, EX-395: between mesh and handler a message costs one allocation for its place in the queue and one
/// for its handler, and no task, timer, channel or copy of the payload.
#[tokio::test]
async fn a_message_takes_two_allocations() {
    let location = MemoryStore::new(spotlane::store_time);
    let relocation = MemoryRelocation::new(spotlane::store_time);
    let host = |name| {
        Host::builder()
            .mesh("cost")
            .node_id(name)
            .listen("tcp://127.0.0.1:0")
            .location_store(location.clone())
            .relocation_store(relocation.clone())
    };
    let arrived = Arc::new(Arrived::default());
    let counted = Arc::clone(&arrived);
    let far = host("a").actor(Policy::disable(), move || Echo(Arc::clone(&counted)));
    let far = far.start().await.unwrap();
    far.actors().create::<Echo>("e").submit().await.unwrap();
    let near = host("b").start().await.unwrap();
    near.wait_for_peers(1, PATIENCE).await.unwrap();
    let (actor, payload) = (near.actor("e"), Bytes::from(vec![1; 1024]));

    // The first round brings the route, and the memory that is used again.
    sends(&actor, &arrived, &payload).await;
    let region = Region::new(ALLOCATOR);
    sends(&actor, &arrived, &payload).await;
    let sent = per_message(&region);
    requests(&actor, &payload).await;
    let region = Region::new(ALLOCATOR);
    requests(&actor, &payload).await;
    let asked = per_message(&region);
    assert!(sent <= PER_SEND, "{sent} allocations a one-way message");
    assert!(asked <= PER_REQUEST, "{asked} allocations a request");
}
