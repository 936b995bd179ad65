//! Sealing, giving back, handing on, and opening a backlog.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use spotlane_lane::{
    ActorDelivery, AskError, Captured, Fifo, GateUse, JobQueue, JobQueueSettings, LaneLimits,
    Owner, Refusal, Saved, SealError, SealGuard, Spot,
};
use support::{Bench, Scripted, Step, running, settle};

fn names<'a, O: Owner<Item = Step>>(
    captured: impl Iterator<Item = Captured<'a, O>>,
) -> Vec<&'static str> {
    let name = |captured| match captured {
        Captured::Item {
            item: Step::Note(name),
            ..
        } => *name,
        Captured::Tick(_) => "tick",
        _ => "other",
    };
    captured.map(name).collect()
}

fn saved_names<O: Owner<Item = Step>>(saved: &[Saved<O>]) -> Vec<&'static str> {
    let name = |saved: &Saved<O>| match saved {
        Saved::Item {
            item: Step::Note(name),
            ..
        } => *name,
        _ => "other",
    };
    saved.iter().map(name).collect()
}

async fn sealed(bench: &Bench) -> (support::SpotLane, SealGuard<Scripted<Spot>>) {
    let spot = bench.spot(GateUse::Shared);
    let guard = spot.request_seal().await.unwrap();
    (spot, guard)
}

/// EX-109, EX-200, EX-201, EX-202, EX-204, EX-205: the running turn ends, the rest is fixed, arrivals are held
/// behind it, and a restore brings all of it back in order.
#[tokio::test]
async fn a_seal_waits_for_the_turn_and_a_restore_keeps_the_order() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let (wait, release) = Step::wait("running");
    spot.enqueue(wait).unwrap();
    spot.enqueue(Step::Note("a")).unwrap();
    spot.enqueue(Step::Note("b")).unwrap();
    settle().await;
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { spot.request_seal().await }
    });
    settle().await;
    assert!(matches!(
        spot.request_seal().await,
        Err(SealError::AlreadyMoving)
    ));
    spot.enqueue(Step::Note("c")).unwrap();
    release.send(()).unwrap();
    let mut guard = request.await.unwrap().unwrap();
    assert_eq!(
        bench.log.text(),
        "running( )running",
        "no turn starts after the running one"
    );
    spot.enqueue(Step::Note("held")).unwrap();
    let refused = spot.enqueue_lifecycle(Step::Note("join")).unwrap_err();
    assert_eq!(*refused.reason(), Refusal::Sealed);
    settle().await;
    assert_eq!(names(guard.captured()), ["a", "b", "c"]);
    assert_eq!(guard.state().unwrap().count, 1);
    guard.restore(None);
    spot.enqueue(Step::Note("after")).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "running( )running a b c held after");
    assert_eq!(spot.application_usage().items, 0);
}

/// EX-202, EX-44, EX-173: a suspended turn is waited for, with dispatch open.
#[tokio::test]
async fn a_seal_waits_for_suspended_turns() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let (yielding, release) = Step::yielding("y");
    spot.enqueue(yielding).unwrap();
    settle().await;
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { spot.request_seal().await }
    });
    settle().await;
    spot.enqueue(Step::Note("still open")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "y( still open");
    assert!(!request.is_finished());
    release.send(()).unwrap();
    let guard = request.await.unwrap().unwrap();
    assert_eq!(bench.log.text(), "y( still open )y");
    drop(guard);
}

/// EX-174: a request that is withdrawn changes nothing; a dropped guard gives the Spot back.
#[tokio::test]
async fn a_withdrawn_request_changes_nothing() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let release = running(&spot, "w").await;
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { drop(spot.request_seal().await) }
    });
    settle().await;
    request.abort();
    settle().await;
    release.send(()).unwrap();
    spot.enqueue(Step::Note("a")).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "w( )w a");
    let guard = spot.request_seal().await.unwrap();
    spot.enqueue(Step::Note("b")).unwrap();
    drop(guard);
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "w( )w a b");
}

/// EX-206, EX-113, EX-112: after the boundary nothing runs here; what is held is sent on, in order.
#[tokio::test]
async fn a_handed_on_spot_never_runs_again() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let (wait, release) = Step::wait("w");
    spot.enqueue(wait).unwrap();
    let call = tokio::spawn({
        let spot = spot.clone();
        async move { spot.ask(Step::Note("asked")).await }
    });
    settle().await;
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { spot.request_seal().await }
    });
    settle().await;
    release.send(()).unwrap();
    let guard = request.await.unwrap().unwrap();
    spot.enqueue(Step::Note("h1")).unwrap();
    let mut handoff = guard.into_handoff();
    spot.enqueue(Step::Note("h2")).unwrap();
    let saved = handoff.take_saved();
    assert_eq!(saved_names(&saved), ["asked"]);
    let Some(Saved::Item {
        caller: Some(caller),
        ..
    }) = saved.into_iter().next()
    else {
        panic!("the caller moves with its item")
    };
    assert_eq!(saved_names(&handoff.take_held()), ["h1", "h2"]);
    spot.enqueue(Step::Note("h3")).unwrap();
    let (held, state) = handoff.moved();
    assert_eq!(saved_names(&held), ["h3"]);
    assert_eq!(state.unwrap().count, 1);
    assert!(spot.enqueue(Step::Note("late")).is_err());
    assert!(spot.request_seal().await.is_err());
    caller.answer(Err(AskError::Unavailable));
    assert!(matches!(call.await.unwrap(), Err(AskError::Unavailable)));
    assert_eq!(bench.log.text(), "w( )w");
}

/// EX-177, EX-204, EX-205: members are covered by the Spot's seal; a ticket is not captured, the item
/// behind it is, and a restore puts it where it was.
#[tokio::test]
async fn members_are_covered_by_the_seal_of_their_spot() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let (one, two) = (bench.member_of(&spot), bench.member_of(&spot));
    let release = running(&spot, "w").await;
    one.enqueue(Step::Note("one-a")).unwrap();
    one.enqueue(Step::Note("one-b")).unwrap();
    spot.enqueue(Step::Note("spot")).unwrap();
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { spot.request_seal().await }
    });
    settle().await;
    release.send(()).unwrap();
    let guard = request.await.unwrap().unwrap();
    let (covered, idle) = (guard.cover(&one).unwrap(), guard.cover(&two).unwrap());
    assert!(matches!(
        guard.cover(&bench.actor()),
        Err(SealError::NotAMember)
    ));
    one.enqueue(Step::Note("one-held")).unwrap();
    two.enqueue(Step::Note("two-held")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "w( )w");
    assert_eq!(names(guard.captured()), ["spot"]);
    assert_eq!(names(covered.captured()), ["one-a", "one-b"]);
    assert_eq!(names(idle.captured()), Vec::<&str>::new());
    covered.restore(None);
    idle.restore(None);
    settle().await;
    assert_eq!(
        bench.log.text(),
        "w( )w",
        "nothing runs before the Spot is restored too"
    );
    guard.restore(None);
    one.await_quiescence().await;
    two.await_quiescence().await;
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "w( )w one-a spot two-held one-b one-held");
}

struct OwnerCommitted;

/// EX-207, EX-208, EX-209, EX-210, EX-211, EX-212, EX-108: the order that both forms give: saved, then relay, then what came directly, then live
/// work; lifecycle callbacks run before, with application dispatch closed.
#[tokio::test]
async fn a_backlog_opens_in_order_before_live_work() {
    let bench = Bench::new();
    let kind = bench.kind::<Spot>(LaneLimits::DEFAULT, GateUse::Shared);
    let mut backlog = kind.stage::<OwnerCommitted>(Scripted::new(&bench.log, &bench.clock));
    let lane = backlog.lane().unwrap();
    lane.enqueue(Step::Note("direct")).unwrap();
    backlog.push_saved(Fifo::Application, Step::Note("saved"), 0);
    backlog.push_saved(Fifo::Lifecycle, Step::Note("leave"), 0);
    backlog.push_relay(Step::Note("partial"), 0);
    backlog.clear_relay();
    backlog.push_relay(Step::Note("relayed"), 0);
    settle().await;
    assert_eq!(bench.log.text(), "");
    assert_eq!(
        *lane
            .enqueue_lifecycle(Step::Note("join"))
            .unwrap_err()
            .reason(),
        Refusal::Sealed
    );
    backlog.run_lifecycle(Step::Note("restored")).await.unwrap();
    settle().await;
    assert_eq!(
        bench.log.text(),
        "restored",
        "dispatch is closed for application work"
    );
    let open = backlog.open(OwnerCommitted, None).unwrap();
    open.enqueue(Step::Note("live")).unwrap();
    open.await_quiescence().await;
    assert_eq!(bench.log.text(), "restored leave saved relayed direct live");
    assert_eq!(open.application_usage().items, 0);
}

/// EX-215: a removed unit runs nothing and releases everything once.
#[tokio::test]
async fn a_removed_backlog_runs_nothing() {
    let bench = Bench::new();
    let kind = bench.kind::<ActorDelivery>(LaneLimits::DEFAULT, GateUse::Own);
    let mut backlog = kind.stage::<OwnerCommitted>(Scripted::new(&bench.log, &bench.clock));
    let lane = backlog.lane().unwrap();
    backlog.push_saved(Fifo::Application, Step::Note("saved"), 0);
    let call = tokio::spawn({
        let lane = lane.clone();
        async move { lane.ask(Step::Note("direct")).await }
    });
    settle().await;
    drop(backlog);
    assert!(matches!(call.await.unwrap(), Err(AskError::Unavailable)));
    assert!(lane.enqueue(Step::Note("late")).is_err());
    settle().await;
    assert_eq!(bench.log.text(), "");
}

/// EX-131, EX-132, EX-136, EX-213, EX-214: held records keep no permit, a backlog of any length drains
/// with one, and live work does not get in between.
#[tokio::test]
async fn one_permit_drains_a_backlog() {
    let bench = Bench::new();
    let jobs = JobQueue::new(JobQueueSettings::manual(1).unwrap());
    let mut source = jobs.source();
    let kind = bench.kind::<Spot>(LaneLimits::DEFAULT, GateUse::Shared);
    let mut backlog = kind.stage::<OwnerCommitted>(Scripted::new(&bench.log, &bench.clock));
    for name in ["s1", "s2"] {
        backlog.push_saved(Fifo::Application, Step::Note(name), 0);
    }
    let (wait, release) = Step::wait("s3");
    backlog.push_saved(Fifo::Application, wait, 0);
    let lane = backlog.lane().unwrap();
    let permit = source.reserve().await;
    lane.enqueue_job(permit, Step::Note("direct"), 0).unwrap();
    assert_eq!(jobs.status().queued, 0, "returned at the hand-over");
    let permit = source.reserve().await;
    let lane = backlog.open(OwnerCommitted, Some(permit)).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "s1 s2 s3(");
    assert!(
        source.try_reserve().is_none(),
        "it was passed on to the next item"
    );
    release.send(()).unwrap();
    lane.await_quiescence().await;
    assert_eq!(bench.log.text(), "s1 s2 s3( )s3 direct");
    assert!(source.try_reserve().is_some());
}

/// EX-132: at capture all permits go back except one, which the unit keeps to its end.
#[tokio::test]
async fn a_sealed_unit_keeps_one_permit() {
    let bench = Bench::new();
    let jobs = JobQueue::new(JobQueueSettings::manual(4).unwrap());
    let mut source = jobs.source();
    let spot = bench.spot(GateUse::Shared);
    let release = running(&spot, "w").await;
    for _ in 0..3 {
        spot.enqueue_job(source.reserve().await, Step::Note("n"), 0)
            .unwrap();
    }
    assert_eq!(jobs.status().queued, 3);
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { spot.request_seal().await }
    });
    settle().await;
    release.send(()).unwrap();
    let guard = request.await.unwrap().unwrap();
    assert_eq!(jobs.status().queued, 1);
    guard.restore(None);
    spot.await_quiescence().await;
    assert_eq!((jobs.status().reserved, jobs.status().queued), (0, 0));
    assert_eq!(bench.log.text(), "w( )w n n n");
    let (_, guard) = sealed(&bench).await;
    drop(guard);
}

/// EX-101: who waits for room when the seal falls is diverted to the hold queue, in order.
#[tokio::test]
async fn waiters_are_diverted_by_a_seal() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.application(spotlane_lane::FifoLimits::new(1, 1 << 20));
    let spot = bench.spot_with(limits, GateUse::Shared);
    let release = running(&spot, "w").await;
    let mut waiting = Vec::new();
    for name in ["x", "y"] {
        let spot = spot.clone();
        waiting.push(tokio::spawn(
            async move { spot.submit(Step::Note(name)).await },
        ));
        settle().await;
    }
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { spot.request_seal().await }
    });
    settle().await;
    release.send(()).unwrap();
    let guard = request.await.unwrap().unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    spot.enqueue(Step::Note("z")).unwrap();
    guard.restore(None);
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "w( )w x y z");
}
