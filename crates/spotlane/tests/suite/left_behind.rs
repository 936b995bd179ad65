//! What a move must not leave behind: messages that stood in line, and the right to move.

use std::task::{Context, Waker};
use std::time::Duration;

use spotlane::{FifoLimits, Host, JobLimit, LaneLimits};
use spotlane_store_memory::{FaultControl, FaultStore};

use crate::app::{Counter, Shared, Stores, builder, host, settings, text};
use crate::two_hosts::acquainted;

/// How long anything may take before it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something that happens without a sign.
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !done() {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

/// Waits until every permit is back: an item gives up its own behind its terminal (EX-73), so a caller may hear of the end
/// first.
pub(crate) async fn no_job_is_left(host: &Host) {
    until("every permit is back", || {
        let jobs = host.status().jobs;
        (jobs.reserved, jobs.queued, jobs.waiters) == (0, 0, 0)
    })
    .await;
}

/// RL-170, EX-102, EX-362: a one-way message that stands in line for room and a permit while its Actor moves away is handled at
/// the new owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_line_follows_its_actor() {
    let stores = Stores::new();
    let mut tight = settings();
    tight.job_limit = JobLimit::Manual(2);
    tight.lane_limits = LaneLimits::DEFAULT.application(FifoLimits::new(2, 1 << 20));
    let at_a = Shared::default();
    let a = builder("a", &stores, &at_a)
        .settings(tight)
        .start()
        .await
        .unwrap();
    for id in ["c", "d"] {
        a.actors().create::<Counter>(id).await.unwrap();
    }
    let (b, _) = host("b", &stores).await;
    acquainted(&[&a, &b]).await;
    let mut waiting = Vec::new();
    for id in ["c", "d"] {
        let blocker = a.actor(id);
        waiting.push(tokio::spawn(
            async move { blocker.request("wait", ()).await },
        ));
        at_a.began.notified().await;
    }
    // The first fills the lane, the second one waits for room.
    b.actor("c").send("note", "n0").await.unwrap();
    b.actor("c").send("note", "n1").await.unwrap();
    until("the second has come", || a.status().jobs.peak == 2).await;
    // The last permit: from here on the second one waits for a permit too.
    a.actor("d").send("note", "x").await.unwrap();
    until("no permit is left", || a.status().jobs.queued == 2).await;
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    at_a.gate.notify_one();
    // The reply of the target stands behind the message in line, on the same ordered connection: while every permit of this
    // host is taken, nothing of that connection is received (EX-120), and the move goes on when one is free again.
    until("the move has begun", || a.status().moving == 1).await;
    at_a.gate.notify_one();
    moved.await.unwrap().unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    let all = tokio::time::timeout(PATIENCE, async {
        while text(&b, "c", "log").await.unwrap() != "n0,n1" {}
    });
    assert!(all.await.is_ok(), "{}", text(&b, "c", "log").await.unwrap());
    assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
    no_job_is_left(&a).await;
}

/// EX-120, EX-389: the connection of a record that waits for a permit goes on with the very return of one. No task stands in
/// between, which would have to get its turn among all others first, while everything behind the record waits, control
/// too.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_waits_for_a_permit_costs_no_task() {
    let stores = Stores::new();
    let mut tight = settings();
    tight.job_limit = JobLimit::Manual(1);
    let at_a = Shared::default();
    let a = builder("a", &stores, &at_a).settings(tight);
    let a = a.start().await.unwrap();
    a.actors().create::<Counter>("c").await.unwrap();
    let (b, _) = host("b", &stores).await;
    acquainted(&[&a, &b]).await;
    let blocker = a.actor("c");
    let waiting = tokio::spawn(async move { blocker.request("wait", ()).await });
    at_a.began.notified().await;
    b.actor("c").send("note", "first").await.unwrap();
    until("no permit is left", || a.status().jobs.queued == 1).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for text in ["second", "third"] {
        b.actor("c").send("note", text).await.unwrap();
    }
    until("the second waits", || a.status().jobs.waiters == 1).await;
    until("nothing was started for it", || tasks() <= before).await;
    at_a.gate.notify_one();
    waiting.await.unwrap().unwrap();
    let all = tokio::time::timeout(PATIENCE, async {
        while text(&a, "c", "log").await.unwrap() != "first,second,third" {}
    });
    assert!(all.await.is_ok(), "{}", text(&a, "c", "log").await.unwrap());
    no_job_is_left(&a).await;
}

/// EX-128, EX-152: answers and control are no jobs: a request to another node ends while every permit of its host is
/// taken and every handler waits.
#[tokio::test(flavor = "multi_thread")]
async fn answers_come_while_no_permit_is_left() {
    let stores = Stores::new();
    let mut tight = settings();
    tight.job_limit = JobLimit::Manual(1);
    let at_a = Shared::default();
    let a = builder("a", &stores, &at_a)
        .settings(tight)
        .start()
        .await
        .unwrap();
    a.actors().create::<Counter>("d").await.unwrap();
    let (b, _) = host("b", &stores).await;
    acquainted(&[&a, &b]).await;
    // Placement is free to choose; one of them is on the other host.
    let mut there = None;
    for number in 0..100 {
        let id = format!("e{number}");
        b.actors().create::<Counter>(&id).await.unwrap();
        if text(&b, &id, "place").await.unwrap() == "b" {
            there = Some(id);
            break;
        }
    }
    let there = there.unwrap();
    let blocker = a.actor("d");
    let waiting = tokio::spawn(async move { blocker.request("wait", ()).await });
    at_a.began.notified().await;
    a.actor("d").send("note", "x").await.unwrap();
    until("no permit is left", || a.status().jobs.queued == 1).await;
    assert_eq!(text(&a, &there, "place").await.unwrap(), "b");
    assert_eq!(a.status().jobs.queued, 1, "still none");
    at_a.gate.notify_one();
    waiting.await.unwrap().unwrap();
}

/// SRC-10: a caller that goes away while its move is being planned leaves an Actor that can move.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_move_leaves_an_actor_that_can_move() {
    let stores = Stores::new();
    let control = FaultControl::new();
    let slow = FaultStore::new(stores.location.clone(), control.clone());
    let a = builder("a", &stores, &Shared::default())
        .location_store(slow)
        .start()
        .await
        .unwrap();
    a.actors().create::<Counter>("c").await.unwrap();
    let (b, _) = host("b", &stores).await;
    acquainted(&[&a, &b]).await;
    control.delay_every(Duration::from_millis(20));
    let mut dropped = Box::pin(a.relocate("c", b.node_id()));
    // Polled once and no more: it waits for the store, and has not begun.
    let once = &mut Context::from_waker(Waker::noop());
    assert!(dropped.as_mut().poll(once).is_pending());
    drop(dropped);
    a.relocate("c", b.node_id()).await.unwrap();
    assert_eq!(text(&a, "c", "place").await.unwrap(), "b");
}
