//! One-way work for an object that is being activated.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use std::convert::Infallible;
use std::future::{pending, ready};

use spotlane_lane::{
    ActivationError, FifoLimits, HandlerError, LaneLimits, Pending, Refusal, activation,
};
use support::{ActorLane, Bench, Scripted, Step, settle};
use tokio::sync::oneshot;

type Actor = Scripted<spotlane_lane::ActorDelivery>;
type Made = Result<ActorLane, Infallible>;

fn offer(pending: &Pending<Actor>, name: &'static str) {
    pending.offer(Step::Note(name), 0).unwrap();
}

fn refusal(pending: &Pending<Actor>) -> Refusal {
    let refused = pending.offer(Step::Note("late"), 0).unwrap_err();
    refused.reason().clone()
}

/// What was held runs first and in order; what is offered later goes behind it.
#[tokio::test]
async fn held_work_runs_before_what_comes_later() {
    let bench = Bench::new();
    let (pending, activation) = activation::<Actor>(LaneLimits::DEFAULT);
    offer(&pending, "a");
    let (object, make) = oneshot::channel();
    let run = tokio::spawn(activation.run(make, std::future::pending(), std::future::pending()));
    settle().await;
    offer(&pending, "b");
    assert!(object.send(bench.actor()).is_ok());
    let actor = run.await.unwrap().unwrap();
    offer(&pending, "c");
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "a b c");
    assert_eq!(format!("{pending:?}"), "Pending(\"open\")");
}

/// EX-308: at the deadline the activation ends, what it held is dropped there, once, and nothing of it runs when the object
/// comes after all.
#[tokio::test]
async fn a_deadline_drops_what_was_held() {
    let bench = Bench::new();
    let (pending, activation) = activation::<Actor>(LaneLimits::DEFAULT);
    let (step, held) = Step::wait("held");
    pending.offer(step, 10).unwrap();
    let (expire, deadline) = oneshot::channel::<()>();
    let (object, make) = oneshot::channel::<ActorLane>();
    let deadline = async move { drop(deadline.await) };
    let run = tokio::spawn(activation.run(make, deadline, std::future::pending()));
    settle().await;
    assert!(!held.is_closed());
    expire.send(()).unwrap();
    let error = run.await.unwrap().unwrap_err();
    assert!(matches!(
        error,
        ActivationError::DeadlineExceeded { dropped: 1 }
    ));
    assert!(held.is_closed(), "dropped with the activation");
    assert!(object.send(bench.actor()).is_err());
    assert_eq!(refusal(&pending), Refusal::DeadlineExceeded);
    assert_eq!(bench.log.text(), "");
}

/// EX-308: whichever of drain and deadline is earlier ends it, and the object that is there in the same moment is late.
#[tokio::test]
async fn the_earlier_of_drain_and_deadline_ends_it() {
    let bench = Bench::new();
    let (pending, activation) = activation::<Actor>(LaneLimits::DEFAULT);
    offer(&pending, "a");
    offer(&pending, "b");
    let make = ready::<Made>(Ok(bench.actor()));
    let error = activation
        .run(make, ready(()), ready(()))
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        ActivationError::ShuttingDown { dropped: 2 }
    ));
    assert_eq!(refusal(&pending), Refusal::ShuttingDown);

    let (pending, activation) = spotlane_lane::activation::<Actor>(LaneLimits::DEFAULT);
    let make = ready::<Made>(Ok(bench.actor()));
    let drain = std::future::pending();
    let error = activation.run(make, ready(()), drain).await.unwrap_err();
    assert!(matches!(
        error,
        ActivationError::DeadlineExceeded { dropped: 0 }
    ));
    assert_eq!(refusal(&pending), Refusal::DeadlineExceeded);
    assert_eq!(bench.log.text(), "");
}

/// EX-308: an activation that fails, or that nobody runs to its end, drops what it held and refuses what comes.
#[tokio::test]
async fn a_failed_or_abandoned_activation_ends() {
    let (held_by, activation) = activation::<Actor>(LaneLimits::DEFAULT);
    offer(&held_by, "a");
    let make = ready(Err::<ActorLane, _>(HandlerError::new("no factory")));
    let error = activation
        .run(make, pending(), pending())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the object was not activated, 1 held items were dropped"
    );
    assert_eq!(refusal(&held_by), Refusal::Ended);

    let (abandoned, activation) = spotlane_lane::activation::<Actor>(LaneLimits::DEFAULT);
    let (step, held) = Step::wait("held");
    abandoned.offer(step, 0).unwrap();
    let run = tokio::spawn(activation.run(pending::<Made>(), pending(), pending()));
    settle().await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    assert!(held.is_closed());
    assert_eq!(refusal(&abandoned), Refusal::Ended);
}

/// EX-90, EX-96: as much is held as the FIFO of the object would take; what is refused comes back.
#[tokio::test]
async fn what_is_held_has_the_bound_of_the_lane() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.application(FifoLimits::new(2, 1 << 20));
    let (pending, activation) = activation::<Actor>(limits);
    offer(&pending, "a");
    offer(&pending, "b");
    assert!(refusal(&pending).is_full());
    let actor = bench.actor_with(limits);
    let make = ready::<Made>(Ok(actor.clone()));
    let never = std::future::pending;
    activation.run(make, never(), never()).await.unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "a b");
}
