//! Up to the boundary.

use super::*;
use crate::unit::{EarlyProgress, UnitPolicy};

const NOTHING: [&str; 0] = [];

/// SRC-1, RL-113, RL-140
#[test]
fn a_move_that_may_not_begin_is_refused_and_touches_nothing() {
    let mut unit = Unit::new();
    let mut disabled = plan(1);
    disabled.policy = UnitPolicy::Disabled;
    let effects = unit.step(0, SourceEvent::MoveRequested(Box::new(disabled)));
    assert_eq!(effects, ["Refused(Disabled)"]);
    let late = unit.step(10_000, SourceEvent::MoveRequested(Box::new(plan(1))));
    assert_eq!(late, ["Refused(DeadlineExceeded)"]);
    assert_eq!(unit.source.stage(), SourceStage::SourceRunning);

    let mut moving = Unit::paused(Vec::new());
    let effects = moving.step(1, SourceEvent::MoveRequested(Box::new(plan(2))));
    assert_eq!(effects, ["Refused(AlreadyMoving)"]);
}

/// SRC-2, SRC-5, RL-125, RL-358, RL-341
#[test]
fn budget_then_bindings_then_safe_point_then_s0() {
    let mut unit = Unit::new();
    let bindings = vec![binding(1), binding(2)];
    assert_eq!(
        unit.step(0, SourceEvent::MoveRequested(Box::new(plan(1)))),
        ["Entered(Waiting)", "AwaitBudget"]
    );
    assert_eq!(unit.step(1, SourceEvent::BudgetOpen), ["RefuseBinds"]);
    assert_eq!(
        unit.step(2, SourceEvent::BindsRefused(bindings.clone())),
        ["session 42 #1", "session 42 #2"]
    );
    assert_eq!(
        unit.step(3, SourceEvent::BindingSealed(sealed(&bindings[1]))),
        NOTHING
    );
    assert_eq!(
        unit.step(4, SourceEvent::BindingSealed(sealed(&bindings[0]))),
        ["RequestSeal"]
    );
    assert_eq!(
        unit.step(5, SourceEvent::SafePoint),
        ["Entered(SourcePaused)", "S0", "Capture"]
    );
}

/// SRC-3, T-REL-12
#[test]
fn t_rel_12_a_unit_that_waits_for_budget_goes_on_and_is_not_measured() {
    let mut unit = Unit::new();
    unit.step(0, SourceEvent::MoveRequested(Box::new(plan(1))));
    assert_eq!(unit.step(900, arrived("a")), ["Ignored(NotHeld)"]);
    assert_eq!(unit.source.stage(), SourceStage::Waiting);
    assert_eq!(unit.step(2000, SourceEvent::BudgetOpen), ["RefuseBinds"]);
    assert_eq!(
        unit.step(2000, SourceEvent::BindsRefused(Vec::new())),
        ["RequestSeal"]
    );
    assert_eq!(
        unit.step(2500, SourceEvent::SafePoint),
        ["Entered(SourcePaused)", "S0", "Capture"]
    );
    let payload = unit.payload(10);
    unit.step(2600, SourceEvent::Captured(Ok(payload)));
    unit.step(2600, SourceEvent::ChunkOpen);
    unit.step(2700, ready());
    unit.step(2700, SourceEvent::HoldDrained);
    let effects = unit.step(
        2800,
        SourceEvent::CutoverSubmitted(SubmitOutcome::Submitted),
    );
    assert!(effects.contains(&"S1 Met".to_owned()), "{effects:?}");
}

/// SRC-4, RL-358, T-SAF-09
#[test]
fn an_unanswered_seal_fails_the_operation_and_is_given_back() {
    let mut unit = Unit::new();
    unit.step(0, SourceEvent::MoveRequested(Box::new(plan(1))));
    unit.step(0, SourceEvent::BudgetOpen);
    unit.step(0, SourceEvent::BindsRefused(vec![binding(1), binding(2)]));
    unit.step(1, SourceEvent::BindingSealed(sealed(&binding(2))));
    assert_eq!(unit.source.next_deadline(), Some(at(3000)));
    assert_eq!(unit.time(2999), NOTHING);
    assert_eq!(
        unit.time(3000),
        [
            "session 44 #1 abort",
            "session 44 #2 abort",
            "AllowBinds",
            "Entered(SourceRunning)",
            "Finished(Err(NotSealed))"
        ]
    );
}

/// RL-358
#[test]
fn a_binding_that_ends_is_not_waited_for_and_its_seal_is_given_back_all_the_same() {
    let mut unit = Unit::new();
    unit.step(0, SourceEvent::MoveRequested(Box::new(plan(1))));
    unit.step(0, SourceEvent::BudgetOpen);
    unit.step(0, SourceEvent::BindsRefused(vec![binding(1)]));
    let name = BindingName {
        actor_id: binding(1).actor.actor.actor_id,
        session_rid: binding(1).session_rid,
        binding_generation: binding(1).binding_generation,
    };
    assert_eq!(
        unit.step(1, SourceEvent::BindingEnded(name)),
        ["RequestSeal"]
    );
    assert_eq!(
        unit.step(2, SourceEvent::Shutdown),
        [
            "WithdrawSeal",
            "session 44 #1 abort",
            "AllowBinds",
            "Entered(SourceRunning)",
            "Finished(Err(ShuttingDown))"
        ]
    );
    let again = unit.step(3, SourceEvent::MoveRequested(Box::new(plan(2))));
    assert_eq!(again, ["Refused(ShuttingDown)"]);
}

/// SRC-4
#[test]
fn a_seal_of_another_move_or_binding_is_ignored() {
    let mut unit = Unit::new();
    unit.step(0, SourceEvent::MoveRequested(Box::new(plan(1))));
    unit.step(0, SourceEvent::BudgetOpen);
    unit.step(0, SourceEvent::BindsRefused(vec![binding(1)]));
    let mut foreign = sealed(&binding(1));
    foreign.relocation = identity(2).relocation;
    assert_eq!(
        unit.step(1, SourceEvent::BindingSealed(foreign)),
        ["Ignored(ForeignSeal)"]
    );
    assert_eq!(
        unit.step(1, SourceEvent::BindingSealed(sealed(&binding(2)))),
        ["Ignored(ForeignSeal)"]
    );
}

/// SRC-4, SRC-10
#[test]
fn waiting_ends_with_the_deadline_of_the_operation_and_not_with_a_waiter() {
    let mut unit = Unit::new();
    unit.step(0, SourceEvent::MoveRequested(Box::new(plan(1))));
    assert_eq!(
        unit.step(1, SourceEvent::WaiterCancelled),
        ["Ignored(Waiter)"]
    );
    assert_eq!(
        unit.time(10_000),
        ["Entered(SourceRunning)", "Finished(Err(DeadlineExceeded))"]
    );
}

/// SRC-6, RL-119
#[test]
fn a_failed_capture_restores_before_anything_was_sent() {
    let mut unit = Unit::paused(vec![binding(1)]);
    assert_eq!(unit.step(1, arrived("a")), NOTHING);
    assert_eq!(
        unit.step(2, SourceEvent::Captured(Err(CaptureFailure::Adapter))),
        [
            "RestoreQueue [\"a\"]",
            "session 44 #1 abort",
            "ReleasePayload",
            "AllowBinds",
            "Reopen",
            "Entered(SourceRunning)",
            "Finished(Err(Capture(Adapter)))"
        ]
    );
}

/// SRC-6
#[test]
fn before_command_40_abort_and_deadline_restore() {
    let mut unit = Unit::paused(Vec::new());
    let effects = unit.step(1, SourceEvent::OperationAborted);
    assert_eq!(effects.last().unwrap(), "Finished(Err(Aborted))");
    let late = unit.step(2, SourceEvent::Captured(Err(CaptureFailure::Adapter)));
    assert_eq!(late, ["Ignored(LateAnswer)"]);

    let mut unit = Unit::paused(Vec::new());
    unit.step(1, SourceEvent::ConnectionLost(connection(1)));
    let payload = unit.payload(10);
    assert_eq!(unit.step(2, SourceEvent::Captured(Ok(payload))), NOTHING);
    let effects = unit.time(10_000);
    assert_eq!(effects.last().unwrap(), "Finished(Err(DeadlineExceeded))");
    assert_eq!(unit.source.stage(), SourceStage::SourceRunning);
}

/// SRC-4, SRC-6: a driver that was busy for longer than its operation may last, with a large capture say, finds its deadline
/// over when it comes back. Nothing is sealed, stopped or sent any more, since command 40 would leave unknown what comes of
/// the move: the source has its object back at once.
#[test]
fn past_the_deadline_nothing_begins_any_more() {
    let over = "Finished(Err(DeadlineExceeded))".to_owned();
    let steps = || {
        [
            SourceEvent::BudgetOpen,
            SourceEvent::BindsRefused(vec![binding(1)]),
            SourceEvent::BindingSealed(sealed(&binding(1))),
            SourceEvent::SafePoint,
        ]
    };
    for late in 0..steps().len() {
        let mut unit = Unit::new();
        unit.step(0, SourceEvent::MoveRequested(Box::new(plan(1))));
        for (place, event) in steps().into_iter().enumerate().take(late + 1) {
            let effects = unit.step(if place == late { 10_000 } else { 1 }, event);
            if place == late {
                assert!(effects.contains(&over), "{place}: {effects:?}");
                let last = effects.last().unwrap();
                assert!(last.starts_with("Ignored"), "{place}: {effects:?}");
            }
        }
        assert_eq!(unit.source.stage(), SourceStage::SourceRunning);
    }
    for connected in [true, false] {
        let mut unit = Unit::paused(vec![binding(1)]);
        unit.step(1, arrived("held"));
        let payload = unit.payload(10);
        let effects = if connected {
            unit.step(10_000, SourceEvent::Captured(Ok(payload)))
        } else {
            unit.step(1, SourceEvent::ConnectionLost(connection(1)));
            unit.step(2, SourceEvent::Captured(Ok(payload)));
            unit.step(10_000, SourceEvent::ConnectionReady(connection(2)))
        };
        let back = [
            "RestoreQueue [\"held\"]",
            "session 44 #1 abort",
            "ReleasePayload",
            "AllowBinds",
            "Reopen",
            "Entered(SourceRunning)",
            &over,
        ];
        assert_eq!(effects, back, "{connected}");
    }
}

/// SRC-7, RL-131, RL-132
#[test]
fn command_40_then_one_chunk_for_each_grant() {
    let mut unit = Unit::paused(Vec::new());
    let payload = unit.payload(100_000);
    assert_eq!(payload.chunks().len(), 4);
    assert_eq!(
        unit.step(1, SourceEvent::Captured(Ok(payload))),
        ["Entered(TargetRestoring)", "@1 40", "AwaitChunk"]
    );
    for ordinal in 0..3 {
        assert_eq!(
            unit.step(2, SourceEvent::ChunkOpen),
            [format!("@1 52#{ordinal}"), "AwaitChunk".to_owned()]
        );
    }
    assert_eq!(unit.step(2, SourceEvent::ChunkOpen), ["@1 52#3"]);
    assert_eq!(
        unit.step(2, SourceEvent::ChunkOpen),
        ["Ignored(LateAnswer)"]
    );
}

/// SRC-8, SRC-13, RL-126, T-REL-03
#[test]
fn t_rel_03_nothing_held_is_relayed_before_the_ready_reply() {
    let mut unit = Unit::restoring(Vec::new());
    for text in ["a", "b"] {
        assert_eq!(unit.step(1, arrived(text)), NOTHING);
    }
    assert_eq!(
        unit.step(2, ready()),
        ["Entered(RelayReady)", "@1 31 a", "@1 31 b", "DrainHold"]
    );
}

/// SRC-9, T-REL-31, RL-28
#[test]
fn t_rel_31_an_abort_is_told_to_sessions_after_the_queue_is_back() {
    let mut unit = Unit::restoring(vec![binding(1)]);
    unit.step(1, arrived("a"));
    assert_eq!(
        unit.step(2, failed()),
        [
            "RestoreQueue [\"a\"]",
            "session 44 #1 abort",
            "ReleasePayload",
            "AllowBinds",
            "Reopen",
            "Entered(SourceRunning)",
            "Finished(Err(Target(RequestFailed)))"
        ]
    );
    // SRC-32
    assert_eq!(unit.step(3, ready()), ["Ignored(ForeignReply)"]);
}

/// RL-28, RL-198: an abort that stands in the store is fixed there before anybody is told.
#[test]
fn an_early_recorded_move_is_undone_before_the_sessions_are_told() {
    let mut unit = Unit::new();
    let mut recorded = plan(1);
    recorded.early_progress = EarlyProgress::Recorded;
    unit.step(0, SourceEvent::MoveRequested(Box::new(recorded)));
    unit.step(0, SourceEvent::BudgetOpen);
    unit.step(0, SourceEvent::BindsRefused(vec![binding(1)]));
    unit.step(0, SourceEvent::BindingSealed(sealed(&binding(1))));
    unit.step(0, SourceEvent::SafePoint);
    unit.send();
    assert_eq!(unit.step(1, failed()), ["RestoreQueue []", "FixAbort"]);
    assert_eq!(unit.source.stage(), SourceStage::SourcePaused);
    assert_eq!(unit.step(2, arrived("late")), NOTHING);
    assert_eq!(
        unit.step(3, SourceEvent::AbortFixed),
        [
            "RestoreQueue [\"late\"]",
            "session 44 #1 abort",
            "ReleasePayload",
            "AllowBinds",
            "Reopen",
            "Entered(SourceRunning)",
            "Finished(Err(Target(RequestFailed)))"
        ]
    );
}

/// RL-352, RL-5, WR-51
#[test]
fn only_a_reply_to_this_command_40_counts() {
    let mut unit = Unit::restoring(Vec::new());
    let foreign = SourceEvent::Ready(Box::new(ready_command(2)));
    assert_eq!(unit.step(1, foreign), ["Ignored(ForeignReply)"]);
    let mut other_target = ready_command(1);
    other_target.target.target_owner_id = "owner-x".parse().unwrap();
    let other_target = SourceEvent::Ready(Box::new(other_target));
    assert_eq!(unit.step(1, other_target), ["Ignored(ForeignReply)"]);
    let mut wrong_role = ready_command(1);
    wrong_role.sender_role = RelocationRole::Coordinator;
    let wrong_role = SourceEvent::Ready(Box::new(wrong_role));
    assert_eq!(unit.step(1, wrong_role), ["Diagnose(WrongRole)"]);
    let foreign = failed_command(2, FailureCode::SpotMoving);
    let foreign = SourceEvent::Failed(Box::new(foreign));
    assert_eq!(unit.step(1, foreign), ["Ignored(ForeignReply)"]);
    assert_eq!(unit.source.stage(), SourceStage::TargetRestoring);
}

/// SRC-11, RL-136
#[test]
fn a_lost_connection_before_the_reply_repeats_command_40_and_all_chunks() {
    let mut unit = Unit::restoring(Vec::new());
    assert_eq!(
        unit.step(1, SourceEvent::ConnectionLost(connection(1))),
        NOTHING
    );
    assert_eq!(
        unit.step(2, SourceEvent::ConnectionReady(connection(2))),
        ["@2 40", "AwaitChunk"]
    );
    assert_eq!(unit.step(2, SourceEvent::ChunkOpen), ["@2 52#0"]);
    let late = unit.step(3, SourceEvent::ConnectionLost(connection(1)));
    assert_eq!(late, ["Ignored(OtherConnection)"]);
}

/// SRC-10, SRC-12, RL-352, T-REL-30
#[test]
fn t_rel_30_silence_abort_shutdown_and_cancel_never_restore() {
    let mut unit = Unit::restoring(Vec::new());
    assert_eq!(
        unit.step(1, SourceEvent::OperationAborted),
        ["Ignored(PastAbort)"]
    );
    assert_eq!(unit.step(1, SourceEvent::Shutdown), ["Ignored(MoveGoesOn)"]);
    assert_eq!(
        unit.step(1, SourceEvent::WaiterCancelled),
        ["Ignored(Waiter)"]
    );
    assert_eq!(
        unit.time(10_000),
        [
            "Entered(Reconciling)",
            "Finished(Err(DeadlineExceeded))",
            "ReadAuthority"
        ]
    );
    assert_eq!(unit.step(10_001, read_source()), NOTHING);
    assert_eq!(unit.source.stage(), SourceStage::Reconciling);
}

/// SRC-30, T-SAF-04
#[test]
fn a_ready_reply_after_the_deadline_is_the_boundary_all_the_same() {
    let mut unit = Unit::restoring(Vec::new());
    unit.step(1, arrived("a"));
    unit.time(10_000);
    assert_eq!(
        unit.step(10_001, ready()),
        ["Entered(RelayReady)", "@1 31 a", "DrainHold"]
    );
}

/// SRC-30, SRC-18: the reply may come late on a connection that has been replaced since; the batch takes the new one.
#[test]
fn a_late_ready_reply_finds_the_connection_that_is_there_by_then() {
    let mut unit = Unit::restoring(Vec::new());
    unit.step(1, arrived("a"));
    unit.time(10_000);
    let second = SourceEvent::ConnectionReady(connection(2));
    assert_eq!(unit.step(10_001, second), [""; 0]);
    let first = SourceEvent::ConnectionLost(connection(1));
    assert_eq!(unit.step(10_002, first), ["Ignored(OtherConnection)"]);
    assert_eq!(
        unit.step(10_003, ready()),
        ["Entered(RelayReady)", "@2 31 a", "DrainHold"]
    );
}

/// SRC-31, T-SAF-04
#[test]
fn an_explicit_failure_after_the_deadline_restores_and_the_result_stays() {
    let mut unit = Unit::restoring(Vec::new());
    unit.time(10_000);
    assert_eq!(
        unit.step(10_001, failed()),
        [
            "RestoreQueue []",
            "ReleasePayload",
            "AllowBinds",
            "Reopen",
            "Entered(SourceRunning)"
        ]
    );
}

/// SRC-21, RL-356, T-SAF-06: the ready reply was lost, and the target went on without a cutover.
#[test]
fn a_commit_without_a_ready_reply_is_followed_and_the_hold_goes_along() {
    let mut unit = Unit::restoring(Vec::new());
    unit.step(1, arrived("a"));
    unit.time(10_000);
    assert_eq!(
        unit.step(10_001, read_target(RelocationPhase::Committed)),
        [
            "ReleasePayload",
            "Entered(FollowOnly)",
            "FollowTo",
            "Forward a",
            "DrainHold"
        ]
    );
}

/// SRC-21: what the lanes hold is asked for before the instance is disposed of with them.
#[test]
fn the_lanes_are_drained_before_the_clean_up_takes_them() {
    let mut unit = Unit::restoring(Vec::new());
    unit.step(1, arrived("a"));
    unit.time(10_000);
    assert_eq!(
        unit.step(10_001, read_target(RelocationPhase::Activated)),
        [
            "ReleasePayload",
            "Entered(FollowOnly)",
            "FollowTo",
            "Forward a",
            "DrainHold",
            "CleanUp(None)"
        ]
    );
    // SRC-22: the same for an object that has ended.
    let mut unit = Unit::restoring(Vec::new());
    unit.time(10_000);
    assert_eq!(
        unit.step(10_001, SourceEvent::AuthorityRead(RowRead::Absent)),
        [
            "DrainHold",
            "EndRequests 1",
            "ReleasePayload",
            "CleanUp(None)",
            "Entered(Ended)"
        ]
    );
}

/// SRC-23, RL-241: pending are the saved requests and those in the hold.
#[test]
fn an_unknown_ready_reply_ends_at_the_limit_with_every_request_answered() {
    let mut unit = Unit::restoring(Vec::new());
    unit.step(1, arrived("one-way"));
    unit.step(1, SourceEvent::Arrived(Box::new(ask("held"))));
    unit.time(10_000);
    unit.step(10_001, read_source());
    assert_eq!(unit.time(40_000), ["ReadAuthority"]);
    assert_eq!(
        unit.step(40_001, SourceEvent::AuthorityRead(RowRead::Unreadable)),
        [
            "EndRequests 2",
            "Dropped { records: 1 }",
            "ReleasePayload",
            "Entered(Unavailable)",
            "DrainHold"
        ]
    );
    // No way back any more.
    assert_eq!(unit.step(40_002, failed()), ["Ignored(ForeignReply)"]);
}
