//! Turns, gates, the two ways of waiting, and what is selected next.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use std::future::Future;
use std::time::Duration;

use spotlane_lane::{
    AskError, FifoLimits, GateUse, LaneLimits, SpotCoordinator, SpotMode, TimerTarget, TurnKind,
};
use support::{Bench, Scripted, Step, running, settle};

/// EX-9, EX-28: nothing runs on the submitting task, not even for an idle lane.
#[tokio::test]
async fn nothing_runs_at_the_call_site() {
    let bench = Bench::new();
    let actor = bench.actor();
    actor.enqueue(Step::Note("a")).unwrap();
    assert_eq!(bench.log.text(), "");
    settle().await;
    assert_eq!(bench.log.text(), "a");
}

/// EX-5, EX-60: acceptance order is run order.
#[tokio::test]
async fn items_of_one_lane_run_in_the_order_of_acceptance() {
    let bench = Bench::new();
    let actor = bench.actor();
    for name in ["a", "b", "c", "d"] {
        actor.enqueue(Step::Note(name)).unwrap();
    }
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "a b c d");
}

/// EX-2, EX-3, EX-13, EX-30, EX-76: a handler that waits keeps its gate; other gates go on.
#[tokio::test]
async fn a_waiting_handler_keeps_its_gate_and_no_other() {
    let bench = Bench::new();
    let (first, second) = (bench.actor(), bench.actor());
    let (wait, release) = Step::wait("w");
    first.enqueue(wait).unwrap();
    first.enqueue(Step::Note("behind")).unwrap();
    settle().await;
    second.enqueue(Step::Note("other")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "w( other");
    release.send(()).unwrap();
    first.await_quiescence().await;
    assert_eq!(bench.log.text(), "w( other )w behind");
}

/// EX-7: every acquisition of a gate has a number of its own.
#[tokio::test]
async fn fencing_numbers_are_not_reused() {
    let bench = Bench::new();
    let actor = bench.actor();
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.extend(actor.ask(Step::Note("n")).await.unwrap().fences);
    }
    let other = bench.actor();
    seen.extend(other.ask(Step::Note("n")).await.unwrap().fences);
    for (at, fence) in seen.iter().enumerate() {
        assert!(!seen[..at].contains(fence), "{fence:?} was given out twice");
    }
}

/// EX-12, XO-7: a failing and a panicking handler end their own item with a clear error, and nothing else.
#[tokio::test]
async fn a_failure_ends_one_item_only() {
    let bench = Bench::new();
    let actor = bench.actor();
    let failed = actor.ask(Step::Fail("no such door")).await;
    assert!(matches!(failed, Err(AskError::Failed(error)) if error.to_string() == "no such door"));
    let panicked = actor.ask(Step::Panic("a broken hinge")).await;
    assert!(matches!(panicked, Err(AskError::Panicked { message }) if message == "a broken hinge"));
    assert!(actor.ask(Step::Note("still here")).await.is_ok());
    assert_eq!(bench.engine.stats().handlers_failed(), 1);
    assert_eq!(bench.engine.stats().handlers_panicked(), 1);
    assert_eq!(actor.application_usage().items, 0);
}

/// EX-3: a handler that never returns holds its own gate and no worker.
#[tokio::test]
async fn a_handler_that_never_returns_blocks_only_its_owner() {
    let bench = Bench::new();
    let (stuck, free) = (bench.actor(), bench.actor());
    stuck.enqueue(Step::Never("stuck")).unwrap();
    stuck.enqueue(Step::Note("behind")).unwrap();
    for _ in 0..3 {
        assert!(free.ask(Step::Note("free")).await.is_ok());
    }
    assert_eq!(bench.log.text(), "stuck free free free");
}

/// EX-31, EX-4, EX-7, EX-42, EX-43, EX-153: a yield lets others run and resumes in a new turn at the back.
#[tokio::test]
async fn a_yield_resumes_at_the_back_in_a_new_turn() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let (yielding, release) = Step::yielding("y");
    let answer = {
        let spot = spot.clone();
        tokio::spawn(async move { spot.ask(yielding).await })
    };
    settle().await;
    let (wait, go) = Step::wait("w");
    spot.enqueue(wait).unwrap();
    spot.enqueue(Step::Note("b")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "y( w(", "the gate was free for w");
    assert_eq!(
        spot.application_usage().items,
        3,
        "a suspended item keeps its reservation"
    );
    release.send(()).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "y( w(", "the resume waits for its turn");
    go.send(()).unwrap();
    let said = answer.await.unwrap().unwrap();
    assert_eq!(bench.log.text(), "y( w( )w b )y");
    assert_ne!(said.fences[0], said.fences[1]);
    spot.await_quiescence().await;
    assert_eq!(spot.application_usage().items, 0);
    assert_eq!(
        spot.application_usage().accepted,
        3,
        "the resume took no count of its own"
    );
}

/// EX-31: what is ready at once releases nothing.
#[tokio::test]
async fn a_yield_for_a_ready_result_keeps_the_turn() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let said = spot.ask(Step::YieldReady("r")).await.unwrap();
    assert_eq!(said.fences[0], said.fences[1]);
}

/// EX-11, EX-32, EX-18: a member that yields gives up the Spot's gate and keeps its claim.
#[tokio::test]
async fn a_yielding_member_keeps_its_claim() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let (one, two) = (bench.member_of(&spot), bench.member_of(&spot));
    let (yielding, release) = Step::yielding("one");
    one.enqueue(yielding).unwrap();
    one.enqueue(Step::Note("next-of-one")).unwrap();
    settle().await;
    two.enqueue(Step::Note("two")).unwrap();
    spot.enqueue(Step::Note("spot")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "one( two spot");
    release.send(()).unwrap();
    one.await_quiescence().await;
    assert_eq!(bench.log.text(), "one( two spot )one next-of-one");
}

/// EX-33, EX-34, EX-46: where Yield is not offered it is refused and nothing is given up.
#[tokio::test]
async fn a_refused_yield_leaves_no_trace() {
    let bench = Bench::new();
    let own = bench.spot(GateUse::Own);
    let (yielding, release) = Step::yielding("y");
    own.enqueue(yielding).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "y( y:invalidOperation");
    assert!(release.is_closed(), "the operation was not kept");
    bench.log.clear();
    // Inside lifecycle work of a gate that otherwise offers it (XO-2).
    let shared = bench.spot(GateUse::Shared);
    let (yielding, _release) = Step::yielding("l");
    shared.enqueue_lifecycle(yielding).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "l( l:invalidOperation");
}

/// EX-4: a handler that abandons a yielded wait ends in a turn like any other.
#[tokio::test]
async fn an_abandoned_yield_still_ends_in_a_turn() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    assert!(spot.ask(Step::AbandonYield("gone")).await.is_ok());
    assert!(spot.ask(Step::Note("after")).await.is_ok());
    spot.await_quiescence().await;
    assert_eq!(spot.application_usage().items, 0);
}

/// EX-35: a one-way message to oneself is legal and goes to the back.
#[tokio::test]
async fn a_message_to_oneself_goes_to_the_back() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    spot.enqueue(Step::TellSpot("a", spot.clone(), "self"))
        .unwrap();
    spot.enqueue(Step::Note("b")).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "a b self");
}

/// EX-17, EX-18, EX-14, EX-23: under `SpotWide` no two turns overlap, and tickets decide the order.
#[tokio::test]
async fn members_and_spot_share_one_gate() {
    let bench = Bench::with_workers(2);
    let spot = bench.spot(GateUse::Shared);
    let (one, two) = (bench.member_of(&spot), bench.member_of(&spot));
    let release = running(&one, "one").await;
    two.enqueue(Step::Note("two")).unwrap();
    spot.enqueue(Step::Note("spot")).unwrap();
    two.enqueue(Step::Note("two-again")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "one(");
    assert_eq!(
        spot.application_usage().items,
        3,
        "one ticket per Actor, and the Spot's item"
    );
    release.send(()).unwrap();
    two.await_quiescence().await;
    assert_eq!(bench.log.text(), "one( )one two spot two-again");
    spot.await_quiescence().await;
    assert_eq!(spot.application_usage().items, 0);
}

/// EX-3, EX-16, EX-19, EX-14: under `PerActor` the gates are independent.
#[tokio::test]
async fn per_actor_gates_do_not_wait_for_each_other() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Own);
    let (one, two) = (bench.actor(), bench.actor());
    let release = running(&one, "one").await;
    two.enqueue(Step::Note("two")).unwrap();
    spot.enqueue(Step::Note("spot")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "one( two spot");
    release.send(()).unwrap();
    one.await_quiescence().await;
}

/// EX-1, EX-6, EX-15, EX-24, EX-25, EX-26, EX-27, EX-20, EX-21, EX-240: the coordinator decides queue and gate.
#[tokio::test]
async fn the_coordinator_decides_where_work_waits() {
    let bench = Bench::new();
    let timers = bench.kind(LaneLimits::DEFAULT, GateUse::Own);
    let owner = || Scripted::new(&bench.log, &bench.clock);
    let wide: SpotCoordinator<_, _, u32> = SpotCoordinator::new(
        SpotMode::SpotWide,
        bench.spot(SpotMode::SpotWide.gate_use()),
        timers.clone(),
    );
    let actor = bench.actor();
    assert!(wide.admit(7, actor.clone()).unwrap().is_none());
    assert!(wide.execute_actor(&8, Step::Note("x"), 0).is_err());
    let (wait, release) = Step::wait("spot");
    wide.execute_spot(wait, 0).unwrap();
    settle().await;
    wide.execute_actor(&7, Step::Note("member"), 0).unwrap();
    wide.execute_lifecycle(Step::Note("join")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "spot(");
    assert!(wide.release(&7).is_err(), "its ticket is queued");
    release.send(()).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "spot( )spot join member");
    assert!(matches!(
        wide.execute_timer("t", owner),
        TimerTarget::Spot(_)
    ));
    assert!(wide.release(&7).unwrap().is_some());
    assert!(
        actor.ask(Step::Note("alone")).await.is_ok(),
        "the lane survives"
    );

    let single: SpotCoordinator<_, _, u32> = SpotCoordinator::new(
        SpotMode::PerActor,
        bench.spot(SpotMode::PerActor.gate_use()),
        timers.clone(),
    );
    let TimerTarget::Timer(first) = single.execute_timer("t", owner) else {
        panic!("a lane per name")
    };
    let TimerTarget::Timer(again) = single.execute_timer("t", owner) else {
        panic!("a lane per name")
    };
    let (wait, release) = Step::wait("tick");
    first.enqueue(wait).unwrap();
    again.enqueue(Step::Note("same-lane")).unwrap();
    settle().await;
    assert!(!bench.log.text().contains("same-lane"));
    release.send(()).unwrap();
    first.await_quiescence().await;

    let instance: SpotCoordinator<_, _, u32> = SpotCoordinator::new(
        SpotMode::Instance,
        bench.spot(SpotMode::Instance.gate_use()),
        timers,
    );
    assert!(
        instance.admit(1, bench.actor()).is_err(),
        "instance spots have no members"
    );
    instance.close();
    assert!(instance.execute_spot(Step::Note("late"), 0).is_err());
}

/// EX-61, EX-62, EX-67, EX-68, EX-64: lifecycle first, eight in a row, then one application turn.
#[tokio::test]
async fn lifecycle_turns_leave_room_for_application_turns() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.lifecycle_burst_limit(2);
    let spot = bench.spot_with(limits, GateUse::Own);
    for name in ["A1", "A2", "A3"] {
        spot.enqueue(Step::Note(name)).unwrap();
    }
    for name in ["L1", "L2", "L3", "L4", "L5"] {
        spot.enqueue_lifecycle(Step::Note(name)).unwrap();
    }
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "L1 L2 A1 L3 L4 A2 L5 A3");
}

/// EX-61, EX-68: an application turn ends the count, also one that the driver had in hand when lifecycle work came.
#[tokio::test]
async fn an_item_in_hand_ends_the_count() {
    let bench = Bench::new();
    let spot = bench.spot_with(LaneLimits::DEFAULT.lifecycle_burst_limit(2), GateUse::Own);
    let (first, end_first) = Step::wait("A1");
    let (third, end_third) = Step::wait("A3");
    for step in [first, Step::Note("A2"), third, Step::Note("A4")] {
        spot.enqueue(step).unwrap();
    }
    settle().await;
    spot.enqueue_lifecycle(Step::Note("L1")).unwrap();
    end_first.send(()).unwrap();
    settle().await;
    for name in ["L2", "L3"] {
        spot.enqueue_lifecycle(Step::Note(name)).unwrap();
    }
    end_third.send(()).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "A1( )A1 L1 A2 A3( )A3 L2 L3 A4");
}

/// EX-69: debt without application work waits; it is paid by the next application turn.
#[tokio::test]
async fn debt_is_kept_until_application_work_comes() {
    let bench = Bench::new();
    let spot = bench.spot_with(LaneLimits::DEFAULT.lifecycle_burst_limit(2), GateUse::Own);
    for name in ["L1", "L2", "L3"] {
        spot.enqueue_lifecycle(Step::Note(name)).unwrap();
    }
    spot.await_quiescence().await;
    let (wait, release) = Step::wait("L4");
    spot.enqueue_lifecycle(wait).unwrap();
    settle().await;
    spot.enqueue(Step::Note("A1")).unwrap();
    spot.enqueue_lifecycle(Step::Note("L5")).unwrap();
    release.send(()).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "L1 L2 L3 L4( )L4 A1 L5");
}

/// EX-63, EX-66: count and debt belong to the pair of each object.
#[tokio::test]
async fn debt_of_one_object_is_not_paid_by_another() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.lifecycle_burst_limit(1);
    let (one, two) = (bench.actor_with(limits), bench.actor_with(limits));
    for (actor, names) in [(&one, ["a", "b", "x"]), (&two, ["c", "d", "y"])] {
        actor.enqueue_lifecycle(Step::Note(names[0])).unwrap();
        actor.enqueue_lifecycle(Step::Note(names[1])).unwrap();
        actor.enqueue(Step::Note(names[2])).unwrap();
    }
    one.await_quiescence().await;
    two.await_quiescence().await;
    assert_eq!(bench.log.text(), "a x b c y d");
}

/// EX-65, EX-66, EX-73, EX-70: the budget is checked after a handler; then the gate goes to the back.
#[tokio::test]
async fn a_slice_ends_after_the_handler_that_used_it_up() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.owner_time_budget(Duration::from_millis(10));
    let (long, short) = (bench.actor_with(limits), bench.actor_with(limits));
    let six = Duration::from_millis(6);
    for name in ["l1", "l2", "l3", "l4"] {
        long.enqueue(Step::Take(name, six)).unwrap();
    }
    short.enqueue(Step::Note("s1")).unwrap();
    long.await_quiescence().await;
    short.await_quiescence().await;
    assert_eq!(bench.log.text(), "l1 l2 s1 l3 l4");
}

/// EX-65, EX-66: what the items of members take counts for the slice of the gate they run in.
#[tokio::test]
async fn items_of_members_use_up_the_slice_of_their_gate() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let six = Duration::from_millis(6);
    let members: Vec<_> = ["m1", "m2", "m3", "m4"]
        .into_iter()
        .map(|name| {
            let member = bench.member_of(&spot);
            member.enqueue(Step::Take(name, six)).unwrap();
            member
        })
        .collect();
    let short = bench.actor();
    short.enqueue(Step::Note("s1")).unwrap();
    for member in &members {
        member.await_quiescence().await;
    }
    short.await_quiescence().await;
    assert_eq!(bench.log.text(), "m1 m2 s1 m3 m4");
}

/// EX-45, EX-71: a deferred barrier runs right after its handler, before what was queued earlier.
#[tokio::test]
async fn a_deferred_barrier_comes_before_queued_work() {
    let bench = Bench::new();
    let actor = bench.actor();
    actor
        .enqueue(Step::Defer("a", Box::new(Step::Note("barrier"))))
        .unwrap();
    actor.enqueue(Step::Note("b")).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "a barrier b");
}

/// EX-45: a failing handler takes its barriers back; a request behind one's own barrier is refused.
#[tokio::test]
async fn a_failing_handler_discards_its_barriers() {
    let bench = Bench::new();
    let (actor, target) = (bench.actor(), bench.actor());
    actor
        .enqueue(Step::DeferThenFail("f", Box::new(Step::Note("barrier"))))
        .unwrap();
    actor.enqueue(Step::Note("b")).unwrap();
    actor.await_quiescence().await;
    assert_eq!(bench.log.text(), "f b");
    bench.log.clear();
    let barrier = Box::new(Step::Note("join"));
    actor
        .enqueue(Step::DeferThenAsk("d", barrier, target.clone()))
        .unwrap();
    actor.await_quiescence().await;
    target.await_quiescence().await;
    assert_eq!(bench.log.text(), "d:invalidOperation join");
}

/// EX-71, EX-10: barriers run in the order of their registration, and lifecycle goes on after them.
#[tokio::test]
async fn barriers_run_in_order_of_registration() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Own);
    let release = running(&spot, "now").await;
    spot.enqueue(Step::Note("a")).unwrap();
    spot.enqueue_lifecycle(Step::Note("l")).unwrap();
    spot.enqueue_barrier_next(Step::Note("b1")).unwrap();
    spot.enqueue_barrier_next(Step::Note("b2")).unwrap();
    release.send(()).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "now( )now b1 b2 l a");
    assert_eq!(spot.lifecycle_usage().items, 0);
}

/// EX-74, EX-77, EX-112, EX-180: closing refuses new work and finishes what was accepted.
#[tokio::test]
async fn closing_finishes_what_was_accepted() {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT.application(FifoLimits::new(2, 1 << 20));
    let actor = bench.actor_with(limits);
    actor.enqueue(Step::Note("a")).unwrap();
    actor.enqueue(Step::Note("b")).unwrap();
    let waiting = {
        let actor = actor.clone();
        tokio::spawn(async move { actor.submit(Step::Note("never")).await.is_err() })
    };
    tokio::task::yield_now().await;
    actor.close();
    assert!(actor.enqueue(Step::Note("late")).is_err());
    assert!(matches!(
        actor.ask(Step::Note("late")).await,
        Err(AskError::Refused(_))
    ));
    actor.await_quiescence().await;
    assert!(bench.log.text().starts_with("a b"));
    let _ = waiting.await.unwrap();
}

/// EX-105, EX-306, EX-300: shutdown refuses, lets accepted work run to the grace, then ends the rest once.
#[tokio::test]
async fn shutdown_ends_every_accepted_item_once() {
    let bench = Bench::new();
    let (stuck, fine) = (bench.actor(), bench.actor());
    let spot = bench.spot(GateUse::Shared);
    let mut answers = Vec::new();
    let (yielding, _never) = Step::yielding("suspended");
    answers.push(tokio::spawn({
        let spot = spot.clone();
        async move { spot.ask(yielding).await }
    }));
    for step in [Step::Never("stuck"), Step::Note("queued")] {
        let stuck = stuck.clone();
        answers.push(tokio::spawn(async move { stuck.ask(step).await }));
    }
    settle().await;
    let last = tokio::spawn({
        let fine = fine.clone();
        async move { fine.ask(Step::Note("last")).await }
    });
    tokio::task::yield_now().await;
    bench.engine.shutdown(settle()).await;
    assert!(matches!(
        fine.ask(Step::Note("late")).await,
        Err(AskError::Refused(spotlane_lane::Refusal::ShuttingDown))
    ));
    for answer in answers {
        assert!(matches!(answer.await.unwrap(), Err(AskError::ShuttingDown)));
    }
    assert!(last.await.unwrap().is_ok());
    assert!(!bench.log.text().contains("queued"));
}

/// EX-2, EX-30: the kind of a turn says what it was started for.
#[tokio::test]
async fn a_turn_knows_what_it_is_for() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Own);
    assert_eq!(
        spot.ask(Step::Note("a")).await.unwrap().kind,
        TurnKind::Application
    );
    assert_eq!(
        spot.ask_lifecycle(Step::Note("l")).await.unwrap().kind,
        TurnKind::Lifecycle
    );
}

/// EX-71: a barrier that is held closes the application FIFO until its terminal; lifecycle goes on.
#[tokio::test]
async fn a_held_barrier_closes_the_application_fifo_only() {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Own);
    let (release, held) = tokio::sync::oneshot::channel();
    spot.enqueue(Step::Note("a")).unwrap();
    spot.enqueue_barrier_next(Step::HoldBarrier("barrier", held))
        .unwrap();
    settle().await;
    spot.enqueue_lifecycle(Step::Note("l")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "barrier l");
    release.send(()).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "barrier l a");
}

/// EX-36, EX-268: a cycle through another object is not detected; the caller's timeout ends it.
#[tokio::test(start_paused = true)]
async fn an_indirect_cycle_ends_with_the_timeout() {
    let bench = Bench::new();
    let (one, two) = (bench.actor(), bench.actor());
    let (wait, release) = Step::wait("two-busy");
    two.enqueue(wait).unwrap();
    one.enqueue(Step::AskActor("one", two.clone())).unwrap();
    two.enqueue(Step::AskActor("two", one.clone())).unwrap();
    settle().await;
    let outcome = one
        .ask_within(Step::Note("x"), Duration::from_secs(1))
        .await;
    assert!(matches!(outcome, Err(AskError::DeadlineExceeded)));
    release.send(()).unwrap();
    bench.engine.shutdown(settle()).await;
}

/// An item that looks at its lane when it is dropped.
struct Nosy(Option<spotlane_lane::Lane<Quiet>>);
struct Quiet;

impl Drop for Nosy {
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            let _usage = (lane.application_usage(), lane.lifecycle_usage());
        }
    }
}

impl spotlane_lane::Owner for Quiet {
    type Policy = spotlane_lane::Spot;
    type Waits = spotlane_lane::Yielding;
    type Item = Nosy;
    type Reply = Nosy;
    async fn handle(
        turn: &mut spotlane_lane::Turn<'_, Self>,
        item: Nosy,
    ) -> Result<Nosy, spotlane_lane::HandlerError> {
        if turn.yield_for(tokio::task::yield_now()).await.is_err() {
            return std::future::pending().await;
        }
        Ok(item)
    }
}

/// T-EXE-86, EX-360, EX-170: values of the application are dropped with no lock held, on every path.
#[tokio::test]
async fn nothing_of_the_application_is_dropped_under_a_lock() {
    let bench = Bench::new();
    let kind = bench.engine.kind(
        LaneLimits::DEFAULT.application(FifoLimits::new(4, 1 << 20)),
        GateUse::Shared,
    );
    let lane = kind.lane(Quiet);
    let nosy = || Nosy(Some(lane.clone()));
    // Handled, cancelled while queued, refused, waiting and given up, captured, and stopped.
    lane.submit(nosy()).await.unwrap();
    lane.await_quiescence().await;
    {
        let ask = lane.ask(nosy());
        let mut ask = std::pin::pin!(ask);
        std::future::poll_fn(|cx| {
            assert!(ask.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
    for _ in 0..3 {
        lane.enqueue(nosy()).unwrap();
    }
    drop(lane.enqueue(nosy()).unwrap_err());
    let waiting = tokio::spawn({
        let (lane, item) = (lane.clone(), nosy());
        async move { drop(lane.submit(item).await) }
    });
    tokio::task::yield_now().await;
    waiting.abort();
    lane.await_quiescence().await;
    let guard = lane.request_seal().await.unwrap();
    lane.enqueue(nosy()).unwrap();
    drop(guard.into_handoff());
    let stopped = kind.lane(Quiet);
    stopped
        .enqueue_lifecycle(Nosy(Some(stopped.clone())))
        .unwrap();
    stopped.enqueue(Nosy(Some(stopped.clone()))).unwrap();
    settle().await;
    bench.engine.shutdown(std::future::ready(())).await;
}

/// EX-306: an engine that is dropped leaves no caller waiting.
#[tokio::test]
async fn a_dropped_engine_leaves_nobody_waiting() {
    let bench = Bench::new();
    let actor = bench.actor();
    let mut calls = Vec::new();
    for step in [Step::Never("stuck"), Step::Note("queued")] {
        let actor = actor.clone();
        calls.push(tokio::spawn(async move { actor.ask(step).await }));
    }
    let late = tokio::spawn({
        let actor = actor.clone();
        async move { actor.ask_lifecycle(Step::Note("life")).await }
    });
    settle().await;
    drop(bench.engine);
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(AskError::ShuttingDown)));
    }
    assert!(matches!(
        late.await.unwrap(),
        Ok(_) | Err(AskError::ShuttingDown)
    ));
    assert!(actor.enqueue(Step::Note("late")).is_err());
}
