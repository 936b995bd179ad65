//! Moves that meet what they should not: each ends with a named outcome, and nothing hangs or is lost.

use std::pin::Pin;
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::{RelocateMode, RelocateOutcome, Shutdown};
use spotlane_store_memory::{FaultControl, FaultStore};
use tokio::task::JoinSet;

use crate::app::{Counter, Shared, Stores, add, builder, host, settings, text};
use crate::transfer::{bytes, numbers, send_notes, started, wired, wired_apart};
use crate::two_hosts::{acquainted, connect};

/// What answers within this long does not hang.
const SOON: Duration = Duration::from_secs(20);

/// Boxed, because a call with everything that it may do is large.
fn soon<'a, T: 'a>(
    future: impl Future<Output = T> + Send + 'a,
) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(async { tokio::time::timeout(SOON, future).await.expect("it hangs") })
}

/// Two hosts with `c` on the first.
async fn pair() -> (Host, Host) {
    let stores = Stores::new();
    let shared = Shared::default();
    started(
        builder("a", &stores, &shared),
        builder("b", &stores, &shared),
    )
    .await
}

/// An Actor that was placed on a given host.
async fn one_at(host: &Host) -> String {
    for n in 0..64 {
        let id = format!("d-{n}");
        let made = host.actors().create::<Counter>(&id).await.unwrap();
        if made.actor().unwrap().node() == host.node_id() {
            return id;
        }
    }
    panic!("none of 64 was placed here");
}

/// RL-189: a node that is none, and this very node.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_has_to_be_a_node() {
    let (a, _b) = pair().await;
    add(&a, "c", 1).await.unwrap();
    let nobody = spotlane::id::NodeRid::new(b"nobody").unwrap();
    let error = soon(a.relocate("c", &nobody)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("not in the mesh"), "{error}");
    soon(a.relocate("c", a.node_id())).await.unwrap();
    assert_eq!(add(&a, "c", 1).await.unwrap(), "2");
    assert_eq!(text(&a, "c", "place").await.unwrap(), "a");
    let error = soon(a.relocate("nothing", &nobody)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// RL-189: a node that does not know the type, or moves it another way.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_has_to_serve_the_type() {
    let stores = Stores::new();
    let shared = Shared::default();
    let bare = Host::builder()
        .mesh("test")
        .node_id("b")
        .location_store(stores.location.clone())
        .settings(settings());
    let (a, b) = started(builder("a", &stores, &shared), bare).await;
    let error = soon(a.relocate("c", b.node_id())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("does not serve"), "{error}");
    let other = Host::builder()
        .mesh("test")
        .node_id("c")
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::recreate(), move || Counter::new(&Shared::default()))
        .settings(settings());
    let c = other.start().await.unwrap();
    acquainted(&[&a, &b, &c]).await;
    let error = soon(a.relocate("c", c.node_id())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
}

/// RL-140: moves of one object that are asked for at the same time, from both hosts: one of them happens, the others are
/// told why not, and it never is nowhere or twice.
#[tokio::test(flavor = "multi_thread")]
async fn one_object_moves_once_at_a_time() {
    let (a, b) = pair().await;
    for round in 0..10 {
        let mut moves = JoinSet::new();
        for n in 0..6 {
            let (from, to) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
            let (from, to) = (from.clone(), to.node_id().clone());
            moves.spawn(async move { from.relocate("c", &to).await });
        }
        let mut done = 0;
        for moved in soon(moves.join_all()).await {
            match moved {
                Ok(()) => done += 1,
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unavailable),
                    "{error:?}"
                ),
            }
        }
        assert!(done >= 1, "round {round}");
        let total = soon(add(&a, "c", 1)).await.unwrap();
        assert_eq!(total, (round + 1).to_string());
        assert_eq!(a.status().actors + b.status().actors, 1);
    }
}

/// SRC-12, RL-352, RL-235: a target that ends in the middle of the transfer. The operation ends with its deadline, callers
/// are told, nothing hangs, and the source does not open by itself what it cannot know to be shut elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_gone_ends_the_move_at_its_deadline() {
    let mut short = settings();
    short.relocation_restore_validity = Duration::from_millis(1500);
    let ((a, _at_a), (b, at_b), wire) = wired_apart(short).await;
    let other = one_at(&a).await;
    wire.stop_after(bytes(500_000));
    let (mover, target) = (a.clone(), b.node_id().clone());
    let within = Duration::from_secs(4);
    let moved = tokio::spawn(async move { mover.relocate_within("c", &target, within).await });
    wire.stopped().await;
    let asked = tokio::spawn({
        let a = a.clone();
        async move { add(&a, "c", 1).await }
    });
    at_b.kill();
    let error = soon(moved).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    let error = soon(asked).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::DeadlineExceeded
        ),
        "{error:?}"
    );
    // The source lives on and serves others.
    assert_eq!(soon(add(&a, &other, 1)).await.unwrap(), "1");
}

/// SRC-12: the queue to the target is full and nothing leaves it: the move ends at its deadline all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_does_not_stop_the_clock_of_a_move() {
    let (a, b, wire) = wired(settings()).await;
    let other = one_at(&b).await;
    add(&a, &other, 0).await.unwrap();
    wire.stop_after(0);
    let note = "x".repeat(200_000);
    loop {
        let sent = a.actor(&other).send("note", note.clone());
        let sent = sent.timeout(Duration::from_millis(50)).await;
        if let Err(error) = sent {
            assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
            break;
        }
    }
    let within = Duration::from_millis(300);
    let moved = a.relocate_within("c", b.node_id(), within);
    let error = soon(moved).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
    wire.go_on();
}

/// RL-238: the store stands still for three seconds in the middle of a move; it goes on when the store does, and what was
/// sent meanwhile is handled once and in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stands_still_delays_the_move() {
    let stores = Stores::new();
    let shared = Shared::default();
    let faults = [FaultControl::new(), FaultControl::new()];
    let at = |name, faults: &FaultControl| {
        let location = FaultStore::new(stores.location.clone(), faults.clone());
        builder(name, &stores, &shared).location_store(location)
    };
    let (a, b) = started(at("a", &faults[0]), at("b", &faults[1])).await;
    add(&a, "c", 1).await.unwrap();
    for still in &faults {
        still.delay_every(Duration::from_secs(3));
    }
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    send_notes(&a).await;
    for still in &faults {
        still.delay_every(Duration::ZERO);
    }
    soon(moved).await.unwrap().unwrap();
    let log = soon(text(&a, "c", "log")).await.unwrap();
    assert_eq!(numbers(&log), (0..100).collect::<Vec<_>>());
    assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
}

/// RL-222, SRC-26: a shutdown of the source in the middle of a move lets the move end, or ends it by a name.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_of_the_source_during_a_move_ends_both() {
    let (a, b, wire) = wired(settings()).await;
    wire.stop_after(bytes(500_000));
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    wire.stopped().await;
    let stopping = tokio::spawn({
        let a = a.clone();
        async move { a.shutdown(Some(Duration::from_secs(5))).await }
    });
    crate::players::until(|| a.state() != HostState::Serving).await;
    wire.go_on();
    let stopped = soon(stopping).await.unwrap();
    assert!(matches!(
        stopped,
        Shutdown::Stopped | Shutdown::ForceStopped(_)
    ));
    match soon(moved).await.unwrap() {
        Ok(()) => assert_eq!(soon(text(&b, "c", "place")).await.unwrap(), "b"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ShuttingDown, "{error:?}");
            let error = soon(text(&b, "c", "place")).await.unwrap_err();
            assert!(
                matches!(
                    error.kind(),
                    ErrorKind::Unavailable | ErrorKind::NotFound | ErrorKind::DeadlineExceeded
                ),
                "{error:?}"
            );
        }
    }
    assert_eq!(a.status().actors, 0);
}

/// TGT-5, RL-222: a shutdown of the target in the middle of a move: the Actor is at one of the two, or told to be gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_of_the_target_during_a_move_ends_both() {
    let mut short = settings();
    short.relocation_restore_validity = Duration::from_millis(1500);
    let (a, b, wire) = wired(short).await;
    wire.stop_after(bytes(500_000));
    let (mover, target) = (a.clone(), b.node_id().clone());
    let within = Duration::from_secs(5);
    let moved = tokio::spawn(async move { mover.relocate_within("c", &target, within).await });
    wire.stopped().await;
    let stopping = tokio::spawn({
        let b = b.clone();
        async move { b.shutdown(Some(Duration::from_secs(1))).await }
    });
    crate::players::until(|| b.state() != HostState::Serving).await;
    wire.go_on();
    let _stopped: Shutdown = soon(stopping).await.unwrap();
    let moved = soon(moved).await.unwrap();
    let asked = soon(
        a.actor("c")
            .request("place", ())
            .timeout(Duration::from_secs(5))
            .reply::<String>(),
    )
    .await;
    match (&moved, &asked) {
        (Err(_), Ok(place)) => assert_eq!(place, "a"),
        (_, Err(error)) => assert!(
            matches!(
                error.kind(),
                ErrorKind::Unavailable | ErrorKind::NotFound | ErrorKind::DeadlineExceeded
            ),
            "{moved:?} {error:?}"
        ),
        (Ok(()), Ok(_)) => panic!("the target is gone, and {asked:?} answers"),
    }
}

/// RL-194, RL-210: ten thousand Actors leave a host, and each answers afterwards with what it had.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_ten_thousand_actors_is_emptied() {
    const ACTORS: usize = 10_000;
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let mut made = JoinSet::new();
    for worker in 0..16 {
        let a = a.clone();
        made.spawn(async move {
            for n in (worker..ACTORS).step_by(16) {
                let id = format!("c-{n}");
                a.actors().create::<Counter>(&id).await.unwrap();
                a.actor(&id).send("note", n.to_string()).await.unwrap();
            }
        });
    }
    made.join_all().await;
    let (b, _) = host("b", &stores).await;
    let (c, _) = host("c", &stores).await;
    connect(&[&a, &b, &c]).await;
    let within = Some(Duration::from_mins(2));
    let done = a
        .drain(RelocateMode::PlannedMaintenance, within)
        .await
        .unwrap();
    assert_eq!(done.outcome, RelocateOutcome::Relocated);
    // Each has left; the last of them open at their targets a little later.
    assert_eq!(a.status().actors, 0);
    crate::players::until(|| b.status().actors + c.status().actors >= ACTORS).await;
    for n in (0..ACTORS).step_by(97) {
        let log = text(&b, &format!("c-{n}"), "log").await.unwrap();
        assert_eq!(log, n.to_string());
    }
}
