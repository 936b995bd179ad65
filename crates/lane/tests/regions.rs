//! Calls from the wrong region: handles that know no turn and were moved into one (EX-154).

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use std::time::Duration;

use spotlane_lane::{AskError, GateUse, Lane, Owner};
use support::{Bench, Outside, Said, Step, running, settle};

/// A call that waits for ever fails a test after this time, and not by itself.
const PATIENCE: Duration = Duration::from_secs(20);

fn ask<O: Owner<Item = Step, Reply = Said>>(lane: &Lane<O>, name: &'static str) -> Outside {
    let lane = lane.clone();
    Box::pin(async move { lane.ask(Step::Note(name)).await })
}

async fn in_time<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, call).await.unwrap()
}

/// T-EXE-41, EX-37, EX-154, EX-365: a handler that waits for its own lane is told at once, whatever handle it has.
#[tokio::test]
async fn a_moved_handle_does_not_wait_for_its_own_turn() {
    let bench = Bench::new();
    let actor = bench.actor();
    let call = ask(&actor, "never");
    in_time(actor.ask(Step::Outside("own", call)))
        .await
        .unwrap();
    let lifecycle = {
        let actor = actor.clone();
        Box::pin(async move { actor.ask_lifecycle(Step::Note("never")).await })
    };
    in_time(actor.ask(Step::Outside("lifecycle", lifecycle)))
        .await
        .unwrap();
    // The timeout around the call polls it with the same waker.
    let within = {
        let actor = actor.clone();
        Box::pin(async move { actor.ask_within(Step::Note("never"), PATIENCE * 2).await })
    };
    in_time(actor.ask(Step::Outside("within", within)))
        .await
        .unwrap();
    assert_eq!(
        bench.log.text(),
        "own:invalidOperation lifecycle:invalidOperation within:invalidOperation"
    );
    // EX-35: nothing was submitted.
    assert_eq!(actor.application_usage().accepted, 3);
    assert_eq!(actor.lifecycle_usage().accepted, 0);
}

/// EX-154: the turn is recognized after it waited, and by every worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_waited_is_still_its_own() {
    let bench = Bench::with_workers(2);
    let actor = bench.actor();
    let (release, wait) = tokio::sync::oneshot::channel::<()>();
    let call = ask(&actor, "never");
    let late: Outside = Box::pin(async move {
        wait.await.unwrap();
        call.await
    });
    let asked = {
        let actor = actor.clone();
        tokio::task::spawn(async move { actor.ask(Step::Outside("own", late)).await })
    };
    // Other turns run in between, in the carrier that this one left behind.
    in_time(bench.actor().ask(Step::Note("other")))
        .await
        .unwrap();
    release.send(()).unwrap();
    in_time(asked).await.unwrap().unwrap();
    assert!(bench.log.text().ends_with("own:invalidOperation"));
}

/// EX-40, EX-154: a call to somebody else, and one that comes from outside of any turn, are answered; so is one to an
/// owner whose turn has just run in the same carrier.
#[tokio::test]
async fn a_call_to_another_lane_is_answered() {
    let bench = Bench::new();
    let (first, second) = (bench.actor(), bench.actor());
    in_time(second.ask(Step::Note("warm"))).await.unwrap();
    let call = ask(&second, "asked");
    in_time(first.ask(Step::Outside("other", call)))
        .await
        .unwrap();
    let release = running(&second, "w").await;
    let call = ask(&second, "behind");
    let waits = tokio::task::spawn({
        let first = first.clone();
        async move { first.ask(Step::Outside("parked", call)).await }
    });
    settle().await;
    release.send(()).unwrap();
    in_time(waits).await.unwrap().unwrap();
    assert_eq!(
        bench.log.text(),
        "warm asked other:answered w( )w behind parked:answered"
    );
}

/// EX-38, EX-154: a Spot that keeps its gate is refused and one that yields is answered, also when the call
/// was made with a handle that knows nothing of the turn.
#[tokio::test]
async fn a_spot_may_wait_for_itself_when_it_yields() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    in_time(spot.ask(Step::Outside("kept", ask(&spot, "never"))))
        .await
        .unwrap();
    in_time(spot.ask(Step::YieldOutside("given", ask(&spot, "asked"))))
        .await
        .unwrap();
    // What is there at once gives nothing up, and the gate is kept again.
    let (kept, ready) = (ask(&spot, "never"), Step::YieldReady("ready"));
    in_time(spot.ask(ready)).await.unwrap();
    in_time(spot.ask(Step::Outside("again", kept)))
        .await
        .unwrap();
    assert_eq!(
        bench.log.text(),
        "kept:invalidOperation asked given:answered ready again:invalidOperation"
    );
}

/// EX-154, EX-366: what a handler started elsewhere runs outside of its turn and is answered after it.
#[tokio::test]
async fn what_a_handler_started_elsewhere_may_wait_for_it() {
    let bench = Bench::new();
    let actor = bench.actor();
    let (sender, answer) = tokio::sync::oneshot::channel();
    let call = ask(&actor, "asked");
    let starts: Outside = Box::pin(async move {
        tokio::task::spawn(async move { sender.send(call.await).ok() });
        Err(AskError::Unavailable)
    });
    in_time(actor.ask(Step::Outside("starts", starts)))
        .await
        .unwrap();
    assert!(in_time(answer).await.unwrap().is_ok());
    assert_eq!(bench.log.text(), "starts:unavailable asked");
}

/// EX-154: whoever is about to wait for a lane in another way can ask first.
#[tokio::test]
async fn a_lane_knows_who_runs_in_its_turn() {
    let bench = Bench::new();
    let (actor, other) = (bench.actor(), bench.actor());
    assert!(!actor.runs_caller().await);
    let (sender, seen) = tokio::sync::oneshot::channel();
    let looks: Outside = Box::pin({
        let (actor, other) = (actor.clone(), other.clone());
        async move {
            let both = (actor.runs_caller().await, other.runs_caller().await);
            sender.send(both).ok();
            Err(AskError::Unavailable)
        }
    });
    in_time(actor.ask(Step::Outside("looks", looks)))
        .await
        .unwrap();
    assert_eq!(in_time(seen).await, Ok((true, false)));
}
