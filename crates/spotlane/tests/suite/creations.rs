//! Creations on another node whose answer is lost on the way.

use std::time::Duration;

use spotlane::prelude::*;
use spotlane_store_memory::{Fault, FaultControl, FaultStore};

use crate::app::{Counter, Shared, Stores, builder, settings, text};
use crate::proxy::{Proxy, Way, Wire};
use crate::two_hosts::acquainted;

/// A creator `b` that takes nothing, a target `a`, and a wire that steers what goes from `a` to `b`.
async fn apart() -> (Host, Shared, Host, Wire) {
    let (stores, wire, at_a) = (Stores::new(), Wire::new(), Shared::default());
    let before_a = Proxy::start(&wire, Way::Out).await;
    let before_b = Proxy::start(&wire, Way::In).await;
    let a = builder("a", &stores, &at_a)
        .listen(before_a.listen())
        .advertise(before_a.advertise());
    let mut none = settings();
    none.placement_weight = 0;
    let b = builder("b", &stores, &Shared::default())
        .listen(before_b.listen())
        .advertise(before_b.advertise())
        .settings(none);
    let (a, b) = (a.start().await.unwrap(), b.start().await.unwrap());
    acquainted(&[&a, &b]).await;
    (a, at_a, b, wire)
}

/// Creates `c` from `b` with a request, and loses the answer of `a` on the way.
async fn create_and_lose(request: &'static str) -> (Result<Creation, Error>, Host, Host) {
    let (a, at_a, b, wire) = apart().await;
    wire.stop_after(0);
    let creator = b.clone();
    let made = tokio::spawn(async move {
        creator
            .actors()
            .create::<Counter>("c")
            .request(request)
            .await
    });
    at_a.decided.notified().await;
    // The answer, if it has left already, is in a buffer that is thrown away.
    wire.cut_now();
    wire.go_on();
    let made = tokio::time::timeout(Duration::from_secs(20), made);
    (made.await.unwrap().unwrap(), a, b)
}

/// RL-85, RL-86, RL-87, RL-89: the same operation again is answered by what the first one left: with the answer of the Actor.
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_is_lost_is_answered_again() {
    let (made, a, _b) = create_and_lose("hello").await;
    let Creation::Created {
        actor,
        reply: Some(reply),
    } = made.unwrap()
    else {
        panic!("the answer of the actor is lost");
    };
    assert_eq!(reply.as_bytes(), "welcome");
    assert_eq!(actor.node(), a.node_id());
    assert_eq!(a.status().actors, 1);
}

/// RL-85, RL-87: so is a refusal, which leaves no row.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_is_lost_is_told_again() {
    let (made, a, b) = create_and_lose("reject").await;
    let Creation::Rejected { reply: Some(reply) } = made.unwrap() else {
        panic!("the refusal is lost");
    };
    assert_eq!(reply.as_bytes(), "not you");
    assert_eq!(a.status().actors, 0);
    assert_eq!(b.actors().find("c").await.unwrap(), None);
    // RL-88: another operation shares nothing with it. The connection was cut, and is perhaps being made again.
    acquainted(&[&a, &b]).await;
    assert!(
        b.actors()
            .create::<Counter>("c")
            .await
            .unwrap()
            .is_created()
    );
}

/// RL-85, RL-87: and a failure, with its kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_is_lost_is_told_again() {
    let (made, a, b) = create_and_lose("fail").await;
    assert_eq!(made.unwrap_err().kind(), ErrorKind::InternalFailure);
    assert_eq!(a.status().actors, 0);
    assert_eq!(b.actors().find("c").await.unwrap(), None);
}

/// ST-72, RL-81: a commit whose answer is lost, at a store that is silent for longer than the creator waits: the creator is
/// told that its time is over, and the Actor is there once the store says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_not_known_in_time_is_settled_later() {
    let (stores, at_a, faults) = (Stores::new(), Shared::default(), FaultControl::new());
    let mut quiet = settings();
    // Nobody else asks the store meanwhile.
    quiet.polling_interval = Duration::from_mins(1);
    let a = builder("a", &stores, &at_a)
        .location_store(FaultStore::new(stores.location.clone(), faults.clone()))
        .settings(quiet);
    let a = a.start().await.unwrap();
    let creator = a.clone();
    let made = tokio::spawn(async move {
        let call = creator.actors().create::<Counter>("c").request("wait at a");
        call.timeout(Duration::from_secs(1)).await
    });
    at_a.began.notified().await;
    // Each is followed by a wait, so that the creator's time is over before the last one.
    for _ in 0..100 {
        faults.next(Fault::LoseAnswer).unwrap();
    }
    at_a.gate.notify_one();
    let error = made.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    let there = async {
        loop {
            // The store is silent for as long as there are faults.
            if let Ok(log) = text(&a, "c", "log").await {
                break log;
            }
        }
    };
    let there = tokio::time::timeout(Duration::from_mins(1), there).await;
    assert_eq!(there.unwrap(), "");
    assert_eq!(a.status().actors, 1);
}
