//! How lanes end, close and open beside other things that go on.

#![expect(clippy::disallowed_methods, reason = "tests own the tasks they spawn")]

mod support;

use std::sync::Arc;

use spotlane_lane::{
    ActorDelivery, AskError, Engine, GateUse, HandlerError, KeepGate, LaneLimits, LanePolicy,
    Monotonic, Owner, Refusal, SealError, Session, Spot, Turn, WaitsUnder, Yielding,
};

use support::{Bench, Scripted, Step, running, settle};

/// EX-170, EX-171, EX-172, EX-176, EX-181, EX-182, EX-183, EX-184, EX-185, EX-186, EX-187: what does
/// compile. The other half, what must not, stands beside each policy as a doc test.
#[test]
fn three_policies_share_one_lane_type_and_two_of_them_yield() {
    fn policy<P: LanePolicy>() {}
    fn yields<P: LanePolicy>()
    where
        Yielding: WaitsUnder<P>,
    {
    }
    fn keeps<P: LanePolicy>()
    where
        KeepGate: WaitsUnder<P>,
    {
    }
    policy::<Spot>();
    policy::<Session>();
    policy::<ActorDelivery>();
    yields::<Spot>();
    yields::<ActorDelivery>();
    keeps::<Session>();
}

/// EX-207, EX-208, EX-210, EX-212: a member may be opened before its Spot; its work runs when the
/// Spot's dispatch opens, behind the Spot's backlog.
#[tokio::test]
async fn work_of_a_member_that_opens_before_its_spot_is_not_lost() {
    let bench = Bench::new();
    let spots = bench.kind::<Spot>(LaneLimits::DEFAULT, GateUse::Shared);
    let actors = bench.kind::<ActorDelivery>(LaneLimits::DEFAULT, GateUse::Shared);
    let mut spot = spots.stage::<()>(Scripted::new(&bench.log, &bench.clock));
    let mut member = actors.stage::<()>(Scripted::new(&bench.log, &bench.clock));
    let bound = member
        .lane()
        .zip(spot.lane())
        .map(|(member, spot)| member.bind(&spot));
    assert_eq!(bound, Some(Ok(())));
    spot.push_saved(spotlane_lane::Fifo::Application, Step::Note("spot"), 0);
    member.push_saved(spotlane_lane::Fifo::Application, Step::Note("member"), 0);
    let member = member.open((), None);
    settle().await;
    assert_eq!(bench.log.text(), "");
    let spot = spot.open((), None);
    settle().await;
    assert_eq!(bench.log.text(), "spot member");
    drop((spot, member));
}

/// EX-74, EX-112, EX-174: a lane that closes withdraws the seal that was only requested.
#[tokio::test]
async fn a_close_withdraws_a_requested_seal() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Own);
    let release = running(&spot, "a").await;
    let lane = spot.clone();
    let request = tokio::task::spawn(async move { lane.request_seal().await.err() });
    settle().await;
    assert_eq!(spot.try_close(), Ok(()));
    assert_eq!(request.await.ok(), Some(Some(SealError::Ended)));
    assert!(release.send(()).is_ok());
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "a( )a");
    assert!(spot.enqueue(Step::Note("b")).is_err());
}

/// EX-306, EX-174: the end of the host ends who waits for a seal.
#[tokio::test]
async fn the_end_of_the_host_ends_a_requested_seal() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Own);
    assert!(spot.enqueue(Step::Never("a")).is_ok());
    settle().await;
    let request = tokio::task::spawn(async move { spot.request_seal().await.err() });
    settle().await;
    bench.engine.shutdown(std::future::ready(())).await;
    assert_eq!(request.await.ok(), Some(Some(SealError::Ended)));
}

/// EX-306, EX-307: a host that drains refuses work for all lanes but the last one, whose owner can be told of the end while
/// the other owners are still there.
#[tokio::test]
async fn the_last_lane_is_told_before_the_others_go() {
    let bench = Bench::new();
    let (member, last) = (bench.spot(GateUse::Own), bench.spot(GateUse::Own));
    assert!(member.enqueue(Step::Note("accepted")).is_ok());
    bench
        .engine
        .drain(Some(&last), std::future::pending())
        .await;
    let refused = member.enqueue(Step::Note("late")).err();
    assert_eq!(
        refused.map(|refused| refused.reason().clone()),
        Some(Refusal::ShuttingDown)
    );
    assert!(last.ask_lifecycle(Step::Note("closing")).await.is_ok());
    bench.engine.shutdown(std::future::ready(())).await;
    let ended = last.enqueue_lifecycle(Step::Note("ended")).err();
    assert_eq!(
        ended.map(|refused| refused.reason().clone()),
        Some(Refusal::ShuttingDown)
    );
    assert_eq!(bench.log.text(), "accepted closing");
}

/// EX-113: a lane that is being moved cannot be closed, and can be again once it is restored.
#[tokio::test]
async fn a_sealed_lane_is_not_closed() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Own);
    let guard = spot.request_seal().await;
    assert_eq!(spot.try_close(), Err(Refusal::Sealed));
    drop(guard);
    assert!(spot.enqueue(Step::Note("a")).is_ok());
    assert_eq!(spot.try_close(), Ok(()));
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "a");
}

/// EX-94, EX-112: a member whose Spot went away without it ends; its callers do not wait for ever.
#[tokio::test]
async fn a_member_that_was_left_behind_ends() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let member = bench.member_of(&spot);
    let guard = spot.request_seal().await;
    let asked = member.clone();
    let ask = tokio::task::spawn(async move { asked.ask(Step::Note("a")).await });
    settle().await;
    if let Ok(guard) = guard {
        drop(guard.into_handoff().moved());
    }
    assert!(matches!(ask.await, Ok(Err(AskError::Unavailable))));
    let late = tokio::task::spawn(async move { member.ask(Step::Note("b")).await });
    assert!(matches!(late.await, Ok(Err(_))));
    assert_eq!(bench.log.text(), "");
}

/// A value whose drop panics once.
struct Bomb(bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        let armed = std::mem::take(&mut self.0);
        assert!(!armed, "a value that panics when it is dropped");
    }
}

struct Careless;

impl Owner for Careless {
    type Policy = ActorDelivery;
    type Waits = KeepGate;
    type Item = (Bomb, Bomb);
    type Reply = Bomb;

    async fn handle(turn: &mut Turn<'_, Self>, item: (Bomb, Bomb)) -> Result<Bomb, HandlerError> {
        let (mut used, reply) = item;
        used.0 = false;
        drop(turn.lane());
        Ok(reply)
    }
}

/// EX-12, EX-94, EX-306: values that panic when they are dropped are counted, and harm neither the
/// items behind them nor the end of the host.
#[tokio::test]
async fn values_that_panic_when_they_are_dropped_harm_nothing() {
    let clock = Arc::new(|| Monotonic::ORIGIN);
    let runtime = tokio::runtime::Handle::current();
    let engine = Engine::start(&runtime, std::num::NonZeroUsize::MIN, clock);
    let lane = engine
        .kind(LaneLimits::DEFAULT, GateUse::Own)
        .lane(Careless);
    for _ in 0..3 {
        assert!(lane.enqueue((Bomb(true), Bomb(true))).is_ok());
    }
    let answer = lane.ask((Bomb(true), Bomb(false))).await;
    assert!(answer.is_ok());
    assert_eq!(engine.stats().handlers_panicked(), 3);
    assert_eq!(engine.stats().carriers_lost(), 0);
    for _ in 0..3 {
        assert!(lane.enqueue((Bomb(true), Bomb(false))).is_ok());
    }
    engine.shutdown(std::future::ready(())).await;
    assert_eq!(engine.stats().handlers_panicked(), 6);
}
