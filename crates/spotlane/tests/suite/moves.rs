//! Actors that move between hosts while messages keep coming.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::{BlockReason, RelocateMode, RelocateOutcome, Shutdown};
use spotlane_store_memory::{FaultControl, FaultStore};

use crate::app::{self, Counter, Shared, Stores, add, builder, host, text};
use crate::two_hosts::{acquainted, connect, move_behind_a_handler};

/// Two hosts, and a counter `c` that lives on the first.
async fn pair() -> (Host, Shared, Host, Shared) {
    let stores = Stores::new();
    let (a, at_a) = host("a", &stores).await;
    a.actors().create::<Counter>("c").await.unwrap();
    let (b, at_b) = host("b", &stores).await;
    acquainted(&[&a, &b]).await;
    (a, at_a, b, at_b)
}

/// Where `c` is, once the row says that it is open there (RL-365).
async fn find(host: &Host) -> ActorRef {
    loop {
        if let Some(found) = host.actors().find("c").await.unwrap() {
            return found;
        }
    }
}

/// RL-60, RL-112, RL-124, RL-210: state moves, and both hosts reach the Actor at its new node.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_moves_with_its_state() {
    let (a, _, b, _) = pair().await;
    add(&a, "c", 41).await.unwrap();
    a.relocate("c", b.node_id()).await.unwrap();
    // It is not served here any more, whether or not the target has opened it.
    assert_eq!(a.status().actors, 0);
    assert_eq!(text(&a, "c", "place").await.unwrap(), "b");
    assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
    assert_eq!(add(&b, "c", 1).await.unwrap(), "42");
    assert_eq!(text(&a, "c", "log").await.unwrap(), "41,1");
    let found = find(&a).await;
    assert_eq!(found.node(), b.node_id());
    assert_eq!((a.status().actors, b.status().actors), (0, 1));
}

/// RL-3: the incarnation survives moves, there and back and there again.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_moves_to_and_fro() {
    let (a, _, b, _) = pair().await;
    let before = a.actors().find("c").await.unwrap().unwrap();
    for round in 0..4 {
        add(&a, "c", 1).await.unwrap();
        let (from, to) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        crate::players::until(|| from.status().actors > 0).await;
        from.relocate("c", to.node_id()).await.unwrap();
    }
    assert_eq!(text(&b, "c", "log").await.unwrap(), "1,1,1,1");
    let after = find(&b).await;
    assert_eq!(after.generation(), before.generation());
    assert_eq!(after.node(), a.node_id());
}

/// EX-204, RL-127, RL-261: what was accepted and had not started is handled at the target, and its callers get their one
/// answer from there, from wherever they asked.
#[tokio::test(flavor = "multi_thread")]
async fn accepted_work_moves_and_is_answered() {
    let (a, at_a, b, _) = pair().await;
    let blocker = a.actor("c");
    let blocked = tokio::spawn(async move { blocker.request("wait", ()).await });
    at_a.began.notified().await;
    let mut asked = Vec::new();
    for n in 0..20 {
        let from = if n % 2 == 0 { a.clone() } else { b.clone() };
        asked.push(tokio::spawn(async move { add(&from, "c", 1).await }));
    }
    a.actor("c").send("note", "sent").await.unwrap();
    crate::players::until(|| a.status().jobs.queued >= 21).await;
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    at_a.gate.notify_one();
    moved.await.unwrap().unwrap();
    blocked.await.unwrap().unwrap();
    let mut totals = Vec::new();
    for asked in asked {
        totals.push(asked.await.unwrap().unwrap().parse::<i64>().unwrap());
    }
    totals.sort_unstable();
    assert_eq!(totals, (1..=20).collect::<Vec<_>>());
    let log = text(&b, "c", "log").await.unwrap();
    assert_eq!(log.matches("sent").count(), 1);
    assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
}

/// RL-137, RL-151, RL-212: messages that keep coming during many moves are neither lost nor doubled nor reordered.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_while_it_moves() {
    let (a, _, b, _) = pair().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut senders = Vec::new();
    for (name, from) in [("a", a.clone()), ("b", b.clone())] {
        let stop = Arc::clone(&stop);
        // Each has a route before the moves begin.
        add(&from, "c", 0).await.unwrap();
        senders.push(tokio::spawn(async move {
            let mut sent = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let tag = format!("{name}{}", sent.len());
                from.actor("c").request("note2", tag.clone()).await.unwrap();
                sent.push(tag);
            }
            (name, sent)
        }));
    }
    for round in 0..10 {
        let (from, to) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        crate::players::until(|| from.status().actors > 0).await;
        from.relocate("c", to.node_id()).await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let log = |log: String| log.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut all = Vec::new();
    for sender in senders {
        all.push(sender.await.unwrap());
    }
    let log = log(text(&a, "c", "log").await.unwrap());
    for (name, sent) in all {
        let of: Vec<String> = log
            .iter()
            .filter(|tag| tag.starts_with(name))
            .cloned()
            .collect();
        assert_eq!(of, sent);
        assert!(!sent.is_empty());
    }
}

/// EX-245, RL-79: a timer goes on at the target with its indices; the handler asserts that none is skipped or repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_moves_with_its_indices() {
    let (a, at_a, b, at_b) = pair().await;
    a.actor("c").request("start", ()).await.unwrap();
    for _ in 0..3 {
        at_a.ticked.notified().await;
    }
    a.relocate("c", b.node_id()).await.unwrap();
    for _ in 0..3 {
        at_b.ticked.notified().await;
    }
    assert_eq!(text(&a, "c", "stop").await.unwrap(), "true");
    assert_eq!(b.status().handlers_panicked, 0);
}

/// RL-110, RL-113: an Actor whose type does not move stays, and nothing was touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_type_does_not_move() {
    let stores = Stores::new();
    let start = |name: &'static str| {
        let shared = Shared::default();
        Host::builder()
            .mesh("test")
            .node_id(name)
            .location_store(stores.location.clone())
            .actor(Policy::disable(), move || Counter::new(&shared))
            .settings(app::settings())
            .start()
    };
    let a = start("a").await.unwrap();
    a.actors().create::<Counter>("c").await.unwrap();
    let b = start("b").await.unwrap();
    connect(&[&a, &b]).await;
    let refused = a.relocate("c", b.node_id()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    assert_eq!(add(&a, "c", 1).await.unwrap(), "1");
}

/// RL-119, SRC-6: an adapter that fails fails the move; the Actor goes on where it was, with what it had accepted.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_capture_leaves_everything_as_it_was() {
    let (a, at_a, b, _) = pair().await;
    at_a.refuse_capture.store(true, Ordering::SeqCst);
    let failed = a.relocate("c", b.node_id()).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::InternalFailure);
    assert_eq!(add(&b, "c", 2).await.unwrap(), "2");
    assert_eq!(text(&a, "c", "place").await.unwrap(), "a");
    at_a.refuse_capture.store(false, Ordering::SeqCst);
    a.relocate("c", b.node_id()).await.unwrap();
    assert_eq!(text(&a, "c", "place").await.unwrap(), "b");
}

/// RL-119, TGT-13, SRC-9: a restore that fails twice is told by 53; the source opens again with its timers.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_restore_gives_the_actor_back() {
    let (a, at_a, b, at_b) = pair().await;
    a.actor("c").request("start", ()).await.unwrap();
    at_a.ticked.notified().await;
    at_b.refuse_restore.store(true, Ordering::SeqCst);
    let failed = a.relocate("c", b.node_id()).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::InternalFailure);
    assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
    for _ in 0..3 {
        at_a.ticked.notified().await;
    }
    assert_eq!(a.status().handlers_panicked, 0);
    assert_eq!(b.status().actors, 0);
}

/// SRC-4, EX-202: a handler that does not end withdraws the move at its deadline, and dispatch was open all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_handler_is_waited_for_until_the_deadline() {
    let (a, at_a, b, _) = pair().await;
    let blocker = a.actor("c");
    let blocked = tokio::spawn(async move { blocker.request("wait", ()).await });
    at_a.began.notified().await;
    let late = a
        .relocate_within("c", b.node_id(), Duration::from_millis(50))
        .await
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
    at_a.gate.notify_one();
    blocked.await.unwrap().unwrap();
    assert_eq!(text(&a, "c", "place").await.unwrap(), "a");
    a.relocate("c", b.node_id()).await.unwrap();
    assert_eq!(text(&a, "c", "place").await.unwrap(), "b");
}

/// RL-151, RL-157, RL-160, RL-161, EX-106, EX-370: a third host with an old route is followed once and told; its next message goes
/// straight to the new owner.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_route_is_followed() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    a.actors().create::<Counter>("c").await.unwrap();
    let (b, _) = host("b", &stores).await;
    let (c, _) = host("c", &stores).await;
    acquainted(&[&a, &b, &c]).await;
    assert_eq!(add(&c, "c", 1).await.unwrap(), "1");
    a.relocate("c", b.node_id()).await.unwrap();
    assert_eq!(add(&c, "c", 1).await.unwrap(), "2");
    assert_eq!(text(&c, "c", "place").await.unwrap(), "b");
    assert_eq!(a.status().moving, 1);
}

/// RL-150, RL-151, WR-30: a handler is told whether its message came directly, was passed on or came with the Actor, since only
/// messages of one way keep their order.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_knows_the_way_of_its_message() {
    let stores = Stores::new();
    let (a, at_a) = host("a", &stores).await;
    a.actors().create::<Counter>("c").await.unwrap();
    let (b, _) = host("b", &stores).await;
    let (c, _) = host("c", &stores).await;
    acquainted(&[&a, &b, &c]).await;
    assert_eq!(text(&c, "c", "way").await.unwrap(), "Some(Direct)");
    let blocker = a.actor("c");
    let blocked = tokio::spawn(async move { blocker.request("wait", ()).await });
    at_a.began.notified().await;
    let asker = a.clone();
    let queued = tokio::spawn(async move { text(&asker, "c", "way").await });
    crate::players::until(|| a.status().jobs.queued == 1).await;
    move_behind_a_handler(&a, &b, &at_a).await;
    blocked.await.unwrap().unwrap();
    assert_eq!(queued.await.unwrap().unwrap(), "Some(Moved)");
    // RL-137: what comes before the source has seen the commit still goes with the move.
    let seen = async { while text(&a, "c", "way").await.unwrap() == "Some(Moved)" {} };
    tokio::time::timeout(Duration::from_secs(30), seen)
        .await
        .unwrap();
    assert_eq!(text(&c, "c", "way").await.unwrap(), "Some(Followed)");
    assert_eq!(text(&b, "c", "way").await.unwrap(), "Some(Direct)");
}

/// RL-132, WR-54: a state of many chunks arrives whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_state_moves_in_chunks() {
    let (a, _, b, _) = pair().await;
    let long = "x".repeat(3_000_000);
    a.actor("c").request("note2", long.clone()).await.unwrap();
    a.relocate("c", b.node_id()).await.unwrap();
    assert_eq!(text(&b, "c", "log").await.unwrap(), long);
}

/// RL-183, RL-188, RL-192, RL-194, RL-210, RL-216: a host is emptied, its Actors answer from the others, and the result
/// stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_emptied() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    for n in 0..20 {
        a.actors()
            .create::<Counter>(format!("c-{n}"))
            .await
            .unwrap();
        add(&a, &format!("c-{n}"), n).await.unwrap();
    }
    let (b, _) = host("b", &stores).await;
    let (c, _) = host("c", &stores).await;
    connect(&[&a, &b, &c]).await;
    let done = a
        .drain(RelocateMode::PlannedMaintenance, None)
        .await
        .unwrap();
    assert_eq!(done.outcome, RelocateOutcome::Relocated);
    assert_eq!(a.state(), HostState::Relocated);
    for n in 0..20 {
        let id = format!("c-{n}");
        assert_eq!(text(&b, &id, "log").await.unwrap(), n.to_string());
        assert_ne!(text(&a, &id, "place").await.unwrap(), "a");
    }
    assert_eq!(b.status().actors + c.status().actors, 20);
    let again = a
        .drain(RelocateMode::PlannedMaintenance, None)
        .await
        .unwrap();
    assert_eq!(again, done);
    let refused = a.actors().create::<Counter>("new").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ShuttingDown);
    assert_eq!(a.shutdown(None).await, Shutdown::Stopped);
    assert_eq!(add(&b, "c-7", 1).await.unwrap(), "8");
}

/// RL-180, RL-187, RL-190, RL-211, RL-212: what blocks is named, and the host serves on.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_host_serves_on() {
    let (alone, _) = host("a", &Stores::new()).await;
    alone.actors().create::<Counter>("c").await.unwrap();
    let short = Some(Duration::from_millis(100));
    let done = alone
        .drain(RelocateMode::PlannedMaintenance, short)
        .await
        .unwrap();
    let reason = BlockReason::TargetUnavailable;
    assert_eq!(done.outcome, RelocateOutcome::Blocked(reason));
    assert_eq!(alone.state(), HostState::Serving);
    assert_eq!(add(&alone, "c", 1).await.unwrap(), "1");
    let target_version = done.target_version;
    let update = RelocateMode::RollingUpdate { target_version };
    let wrong = alone.drain(update, short).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidOperation);
    let (a, _, b, at_b) = pair().await;
    at_b.refuse_restore.store(true, Ordering::SeqCst);
    let done = a
        .drain(RelocateMode::PlannedMaintenance, None)
        .await
        .unwrap();
    let reason = BlockReason::StateIncompatible;
    assert_eq!(done.outcome, RelocateOutcome::Blocked(reason));
    assert_eq!(a.state(), HostState::Serving);
    assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
}

/// RL-90, RL-365: who looks while an Actor is between two owners waits, and is never told that there is none.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_that_moves_is_never_missing() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    a.actors().create::<Counter>("c").await.unwrap();
    let control = FaultControl::new();
    let slow = FaultStore::new(stores.location.clone(), control.clone());
    let b = builder("b", &stores, &Shared::default()).location_store(slow);
    let b = b.start().await.unwrap();
    connect(&[&a, &b]).await;
    // Each write of the target takes its time, so the row stands between two owners for a while.
    control.delay_every(Duration::from_millis(20));
    a.relocate("c", b.node_id()).await.unwrap();
    let moved = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            let found = a.actors().find("c").await.unwrap();
            if found.expect("it only moves").node() == b.node_id() {
                return;
            }
        }
    });
    moved.await.unwrap();
    assert_eq!(text(&a, "c", "place").await.unwrap(), "b");
}
