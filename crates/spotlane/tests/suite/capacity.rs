//! How many Actors a host takes, and what a host that is emptied or ends does with those that are on their way to it.

use std::time::Duration;

use spotlane::prelude::*;
use spotlane::{RelocateMode, RelocateOutcome, Shutdown};
use tokio::task::JoinSet;

use crate::app::{Counter, Shared, Stores, add, builder, host, settings, text};
use crate::hostile::{repository, until};
use crate::two_hosts::acquainted;

async fn limited(node: &str, stores: &Stores, limit: u32, weight: u32) -> Host {
    let mut settings = settings();
    settings.actor_limit = limit;
    settings.placement_weight = weight;
    let host = builder(node, stores, &Shared::default()).settings(settings);
    host.start().await.unwrap()
}

/// RL-83, RL-313: the limit is kept, the error names value and bound, and an Actor that ends makes room.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_host_takes_no_more_actors() {
    let stores = Stores::new();
    let a = limited("a", &stores, 2, 100).await;
    let first = a.actors().create::<Counter>("c-0").await.unwrap();
    a.actors().create::<Counter>("c-1").await.unwrap();
    let error = a.actors().create::<Counter>("c-2").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let says = error.to_string();
    assert!(says.contains("it has 2 actors, at most 2"), "{says}");
    // What the node counts of itself stands in the directory.
    let counted = async {
        loop {
            let nodes = repository(&stores);
            let nodes = nodes.discover(a.mesh_name(), until()).await.unwrap();
            let slots = nodes[0].descriptor().row.descriptor.capacity.actors;
            if (slots.active, slots.reserved, slots.limit) == (2, 0, 2) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let soon = Duration::from_secs(20);
    tokio::time::timeout(soon, counted).await.unwrap();
    assert!(a.actors().destroy(first.actor().unwrap()).await.unwrap());
    a.actors().create::<Counter>("c-2").await.unwrap();
    assert_eq!(a.status().actors, 2);
}

/// TR-75, TR-77, RL-313: a count that changes is told to the peers, and costs no link: a request that waits meanwhile is
/// answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_count_costs_no_link() {
    let (stores, at_a) = (Stores::new(), Shared::default());
    let mut three = settings();
    three.actor_limit = 3;
    let a = builder("a", &stores, &at_a).settings(three);
    let a = a.start().await.unwrap();
    a.actors().create::<Counter>("c-0").await.unwrap();
    let b = limited("b", &stores, 0, 0).await;
    acquainted(&[&a, &b]).await;
    let asker = b.actor("c-0");
    let waiting = tokio::spawn(async move { asker.request("wait", ()).await });
    at_a.began.notified().await;
    for id in ["c-1", "c-2"] {
        a.actors().create::<Counter>(id).await.unwrap();
    }
    let told = async {
        loop {
            let nodes = repository(&stores);
            let nodes = nodes.discover(a.mesh_name(), until()).await.unwrap();
            let mut nodes = nodes.iter().map(|node| &node.descriptor().row.descriptor);
            if nodes.any(|node| node.capacity.actors.active == 3) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let soon = Duration::from_secs(20);
    tokio::time::timeout(soon, told).await.unwrap();
    // Behind the update on the same connection, so it has been judged.
    assert_eq!(add(&b, "c-1", 1).await.unwrap(), "1");
    assert_eq!(add(&a, "c-2", 1).await.unwrap(), "1");
    at_a.gate.notify_one();
    waiting.await.unwrap().unwrap();
}

/// RL-83, RL-237: creators that race for the last room of a node: one gets it, the others are placed elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn creations_that_find_a_node_full_go_to_another() {
    let stores = Stores::new();
    let a = limited("a", &stores, 1, 10_000).await;
    let b = limited("b", &stores, 0, 1).await;
    let x = limited("x", &stores, 0, 0).await;
    acquainted(&[&a, &b, &x]).await;
    let mut made = JoinSet::new();
    for n in 0..10 {
        let creator = if n % 2 == 0 { x.clone() } else { a.clone() };
        made.spawn(async move {
            let id = format!("c-{n}");
            creator.actors().create::<Counter>(id).await.unwrap()
        });
    }
    for made in made.join_all().await {
        assert!(made.is_created());
    }
    assert_eq!((a.status().actors, b.status().actors), (1, 9));
}

/// RL-147, RL-189, TGT-6: two Actors that move to the last room of a node: one comes, the other stays and serves.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_a_full_host_is_refused() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    for id in ["c-0", "c-1", "c-2"] {
        a.actors().create::<Counter>(id).await.unwrap();
    }
    let b = limited("b", &stores, 1, 100).await;
    acquainted(&[&a, &b]).await;
    let to = b.node_id();
    let moved = tokio::join!(a.relocate("c-0", to), a.relocate("c-1", to));
    let (stayed, error) = match moved {
        (Ok(()), Err(error)) => ("c-1", error),
        (Err(error), Ok(())) => ("c-0", error),
        other => panic!("{other:?}"),
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(text(&b, stayed, "place").await.unwrap(), "a");
    assert_eq!(add(&a, stayed, 1).await.unwrap(), "1");
    crate::players::until(|| b.status().actors >= 1).await;
    // Once the directory says so, nobody is asked any more.
    loop {
        let error = a.relocate("c-2", to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        if error.to_string().contains("it has 1 actors, at most 1") {
            break;
        }
    }
    assert_eq!((a.status().actors, b.status().actors), (2, 1));
}

/// RL-185, RL-192, RL-227: a creation and a move here that were let in before a host is emptied are moved with the rest.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_its_way_is_not_left_behind_in_a_drain() {
    let stores = Stores::new();
    let (b, _) = host("b", &stores).await;
    b.actors().create::<Counter>("c").await.unwrap();
    let (a, at_a) = host("a", &stores).await;
    acquainted(&[&a, &b]).await;
    // One is being created at `a`, and one is being restored there.
    at_a.hold_restore
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let (mover, target) = (b.clone(), a.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    at_a.began.notified().await;
    let creator = a.clone();
    let created = tokio::spawn(async move {
        let mut n = 0;
        loop {
            n += 1;
            let call = creator.actors().create::<Counter>(format!("d-{n}"));
            let made = call.request("wait at a").await.unwrap();
            let actor = made.actor().unwrap().clone();
            if actor.node() == creator.node_id() {
                return actor;
            }
        }
    });
    at_a.began.notified().await;
    let drained = tokio::spawn({
        let a = a.clone();
        async move { a.drain(RelocateMode::PlannedMaintenance, None).await }
    });
    crate::players::until(|| a.state() == HostState::Relocating).await;
    at_a.hold_restore
        .store(false, std::sync::atomic::Ordering::SeqCst);
    let release = async {
        loop {
            at_a.gate.notify_one();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = release => {}
        made = async { (moved.await.unwrap(), created.await.unwrap()) } => {
            made.0.unwrap();
            let drained = drained.await.unwrap().unwrap();
            assert_eq!(drained.outcome, RelocateOutcome::Relocated);
            assert_eq!(a.status().actors, 0);
            for id in ["c", made.1.id().as_str()] {
                assert_eq!(text(&b, id, "place").await.unwrap(), "b");
            }
        }
    }
    assert_eq!(a.shutdown(None).await, Shutdown::Stopped);
}
