//! Room, waiting for room, and what a refusal leaves behind.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use std::time::Duration;

use spotlane_lane::{AskError, Connection, Fifo, FifoLimits, GateUse, LaneLimits, Refusal};
use support::{ActorLane, Bench, Client, Step, running, settle};

fn two_items() -> LaneLimits {
    LaneLimits::DEFAULT
        .application(FifoLimits::new(2, 1 << 20))
        .lifecycle(FifoLimits::new(1, 1 << 20))
}

async fn full(bench: &Bench) -> (ActorLane, support::Release) {
    let actor = bench.actor_with(two_items());
    let (wait, release) = Step::wait("first");
    actor.enqueue(wait).unwrap();
    actor.enqueue(Step::Note("second")).unwrap();
    settle().await;
    (actor, release)
}

/// EX-90, EX-95, EX-96, EX-97, EX-100, EX-352: a full FIFO refuses with its limit and gives the item back.
#[tokio::test]
async fn a_full_fifo_refuses_with_its_limit() {
    let bench = Bench::new();
    let (actor, release) = full(&bench).await;
    let before = actor.application_usage();
    let refused = actor.enqueue(Step::Note("third")).unwrap_err();
    let expected = Refusal::ItemsFull {
        fifo: Fifo::Application,
        used: 2,
        items_max: 2,
    };
    assert_eq!(*refused.reason(), expected);
    assert_eq!(
        refused.to_string(),
        "the application fifo holds 2 items, the limit is 2"
    );
    assert!(matches!(refused.into_item(), Step::Note("third")));
    assert_eq!(actor.application_usage(), before);
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first second");
}

/// EX-98: transfers are accounted above the limit, in their order and before who waits for room; submits wait until usage is
/// below it again.
#[tokio::test]
async fn transfers_into_a_full_fifo_keep_their_order() {
    let bench = Bench::new();
    let (actor, release) = full(&bench).await;
    let waiter = actor.clone();
    let waits = tokio::spawn(async move { waiter.submit(Step::Note("waits")).await });
    settle().await;
    for note in ["one", "two", "three"] {
        actor.transfer(Step::Note(note), 7).unwrap();
    }
    assert_eq!(actor.application_usage().items, 5);
    settle().await;
    assert!(!waits.is_finished());
    release.send(()).unwrap();
    waits.await.unwrap().unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first second one two three waits");
    actor.close();
    let refused = actor.transfer(Step::Note("late"), 0).unwrap_err();
    assert!(matches!(refused.into_item(), Step::Note("late")));
}

/// EX-60, EX-64: the two FIFOs share no count and no admission state.
#[tokio::test]
async fn a_full_application_fifo_does_not_stop_lifecycle_work() {
    let bench = Bench::new();
    let (actor, release) = full(&bench).await;
    actor.enqueue_lifecycle(Step::Note("life")).unwrap();
    let refused = actor.enqueue_lifecycle(Step::Note("more")).unwrap_err();
    assert!(matches!(
        refused.reason(),
        Refusal::ItemsFull {
            fifo: Fifo::Lifecycle,
            ..
        }
    ));
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first life second");
}

/// EX-100, EX-101, EX-112: who waits for room is served in order and not overtaken.
#[tokio::test]
async fn waiters_are_served_in_order() {
    let bench = Bench::new();
    let (actor, release) = full(&bench).await;
    let mut waiting = Vec::new();
    for name in ["third", "fourth", "fifth"] {
        let actor = actor.clone();
        waiting.push(tokio::spawn(
            async move { actor.submit(Step::Note(name)).await },
        ));
        tokio::task::yield_now().await;
    }
    let refused = actor.enqueue(Step::Note("pushy")).unwrap_err();
    assert!(matches!(
        refused.reason(),
        Refusal::Queueing { waiting: 3, .. }
    ));
    release.send(()).unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first second third fourth fifth");
    assert!(actor.enqueue(Step::Note("open again")).is_ok());
    actor.await_quiescence().await;
}

/// EX-101: lifecycle waiters too.
#[tokio::test]
async fn lifecycle_waiters_are_served() {
    let bench = Bench::new();
    let (actor, release) = full(&bench).await;
    actor.enqueue_lifecycle(Step::Note("l1")).unwrap();
    let waiting = tokio::spawn({
        let actor = actor.clone();
        async move { actor.submit_lifecycle(Step::Note("l2")).await }
    });
    settle().await;
    release.send(()).unwrap();
    waiting.await.unwrap().unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first l1 l2 second");
}

/// EX-100, EX-260, EX-266: deadline first, so nothing is left behind and nothing is accepted later.
#[tokio::test(start_paused = true)]
async fn a_deadline_leaves_nothing_behind() {
    let bench = Bench::new();
    let (actor, release) = full(&bench).await;
    let refused = actor
        .submit_within(Step::Note("late"), 0, Duration::from_secs(1))
        .await;
    assert_eq!(*refused.unwrap_err().reason(), Refusal::DeadlineExceeded);
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first second");
    assert!(
        actor
            .submit_within(Step::Note("now"), 0, Duration::from_secs(1))
            .await
            .is_ok()
    );
    actor.await_quiescence().await;
}

/// EX-301, EX-304: a dropped wait gives its place back; who stands behind moves up.
#[tokio::test]
async fn a_dropped_wait_gives_its_place_back() {
    let bench = Bench::new();
    let (actor, release) = full(&bench).await;
    let gone = tokio::spawn({
        let actor = actor.clone();
        async move { actor.submit(Step::Note("gone")).await }
    });
    settle().await;
    let stays = tokio::spawn({
        let actor = actor.clone();
        async move { actor.submit(Step::Note("stays")).await }
    });
    settle().await;
    gone.abort();
    settle().await;
    release.send(()).unwrap();
    stays.await.unwrap().unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first second stays");
}

/// EX-301, EX-330: an item whose caller gave up before its handler ends without it, and is released.
#[tokio::test]
async fn a_cancelled_item_does_not_run() {
    let bench = Bench::new();
    let actor = bench.actor();
    let (wait, release) = Step::wait("first");
    actor.enqueue(wait).unwrap();
    let call = tokio::spawn({
        let actor = actor.clone();
        async move { actor.ask(Step::Note("cancelled")).await }
    });
    settle().await;
    call.abort();
    settle().await;
    assert_eq!(actor.application_usage().items, 2);
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "first( )first");
    assert_eq!(actor.application_usage().items, 0);
    assert_eq!(bench.engine.stats().items_cancelled(), 1);
}

/// EX-261, EX-269, EX-300: a timeout ends the wait, not a handler that began.
#[tokio::test(start_paused = true)]
async fn a_timeout_does_not_stop_the_handler() {
    let bench = Bench::new();
    let actor = bench.actor();
    let (wait, release) = Step::wait("slow");
    let outcome = actor.ask_within(wait, Duration::from_millis(5)).await;
    assert!(matches!(outcome, Err(AskError::DeadlineExceeded)));
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "slow( )slow");
}

/// EX-103: an item larger than the limit is accepted when its FIFO holds nothing.
#[tokio::test]
async fn an_oversized_item_is_accepted_alone() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.application(FifoLimits::new(10, 1000));
    let actor = bench.actor_with(limits);
    let (wait, release) = Step::wait("small");
    actor.enqueue(wait).unwrap();
    let refused = actor
        .enqueue_with_payload_bytes(Step::Note("big"), 5000)
        .unwrap_err();
    assert!(matches!(
        refused.reason(),
        Refusal::BytesFull {
            charge: 5256,
            bytes_max: 1000,
            ..
        }
    ));
    release.send(()).unwrap();
    actor.await_quiescence().await;
    actor
        .enqueue_with_payload_bytes(refused.into_item(), 5000)
        .unwrap();
    assert_eq!(actor.application_usage().bytes, 5256);
    actor.await_quiescence().await;
    assert_eq!(actor.application_usage().bytes, 0);
    assert_eq!(bench.log.text(), "small( )small big");
}

/// EX-98: tickets are transfers; they lift usage above the limit, and submits wait until it is below.
#[tokio::test]
async fn transfers_are_never_refused() {
    let bench = Bench::new();
    let spot = bench.spot_with(two_items(), GateUse::Shared);
    let release = running(&spot, "spot").await;
    let members: Vec<ActorLane> = (0..3).map(|_| bench.member_of(&spot)).collect();
    for member in &members {
        member.enqueue(Step::Note("member")).unwrap();
    }
    assert_eq!(spot.application_usage().items, 4);
    let refused = spot.enqueue(Step::Note("x")).unwrap_err();
    assert!(matches!(
        refused.reason(),
        Refusal::ItemsFull {
            used: 4,
            items_max: 2,
            ..
        }
    ));
    release.send(()).unwrap();
    spot.await_quiescence().await;
    assert_eq!(spot.application_usage().items, 0);
    assert_eq!(bench.log.text(), "spot( )spot member member member");
}

/// EX-171, EX-172, EX-175, EX-176, EX-111, EX-22: a closing session discards new packets and finishes the rest.
#[tokio::test]
async fn a_closing_session_takes_no_new_packets() {
    let bench = Bench::new();
    let kind = bench.engine.kind(LaneLimits::DEFAULT, GateUse::Own);
    let session = kind.lane(Client(bench.log.clone()));
    assert_eq!(session.connection(), Connection::Open);
    session.enqueue("packet").unwrap();
    let closing = session.begin_closing();
    assert_eq!(session.connection(), Connection::Closing);
    let refused = session.enqueue("late").unwrap_err();
    assert_eq!(*refused.reason(), Refusal::ConnectionClosing);
    assert_eq!(bench.engine.stats().packets_discarded(), 1);
    session.enqueue_lifecycle("final").unwrap();
    session.await_quiescence().await;
    assert_eq!(bench.log.text(), "final packet");
    closing.closed();
    assert_eq!(session.connection(), Connection::Closed);
    assert!(session.enqueue_lifecycle("too late").is_err());
}

/// EX-363: from however many threads: the limit, the sequence and what is queued always agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capacity_sequence_and_append_change_together() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.application(FifoLimits::new(100, 1 << 20));
    let actor = bench.actor_with(limits);
    let release = running(&actor, "first").await;
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let actor = actor.clone();
            std::thread::spawn(move || {
                let offers = (0..50).map(|_| actor.enqueue(Step::Note("n")).is_ok());
                offers.filter(|accepted| *accepted).count()
            })
        })
        .collect();
    let accepted: usize = threads.into_iter().map(|one| one.join().unwrap()).sum();
    assert_eq!(accepted, 99, "one hundred with the first");
    let usage = actor.application_usage();
    assert_eq!((usage.items, usage.accepted), (100, 100));
    release.send(()).unwrap();
    actor.await_quiescence().await;
    let ran = bench.log.all().iter().filter(|line| *line == "n").count();
    assert_eq!(ran, 99);
}

/// EX-369: with the gate in hand a turn may wait for guarded state, its own too; that wait ends, since nobody waits for a
/// gate with such a lock in hand.
#[tokio::test]
async fn a_turn_may_ask_for_guarded_state() {
    let bench = Bench::new();
    let actor = bench.actor();
    let inside = {
        let actor = actor.clone();
        Box::pin(async move {
            assert_eq!(actor.application_usage().items, 1);
            actor.enqueue(Step::Note("next")).unwrap();
            Err(AskError::InvalidOperation(
                spotlane_lane::InvalidOperation::OwnClaim,
            ))
        })
    };
    actor.enqueue(Step::Outside("inside", inside)).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "inside:invalidOperation next");
}
