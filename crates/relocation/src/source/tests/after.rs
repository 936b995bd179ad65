//! From the boundary on.

use super::*;

const NOTHING: [&str; 0] = [];

/// SRC-14, SRC-15, SRC-16, RL-133, RL-137, RL-342, T-REL-02
#[test]
fn t_rel_02_relaying_goes_on_without_an_empty_queue() {
    let mut unit = Unit::relaying(&["a"]);
    assert_eq!(unit.step(11, arrived("b")), ["@1 31 b"]);
    assert_eq!(
        unit.step(12, SourceEvent::HoldDrained),
        ["Entered(CutoverSubmitted)", "@1 submit 34 of 2"]
    );
    assert_eq!(unit.step(13, arrived("c")), ["@1 31 c"]);
    assert_eq!(
        unit.step(14, SourceEvent::CutoverSubmitted(SubmitOutcome::Submitted)),
        [
            "Entered(AwaitCommit)",
            "ReturnPermit",
            "S1 Met",
            "Finished(Ok(()))",
            "ReadAuthority"
        ]
    );
    assert_eq!(unit.step(15, arrived("d")), ["@1 31 d"]);
}

/// RL-325, OP-8
#[test]
fn a_long_interruption_is_a_warning_without_effect() {
    let mut unit = Unit::restoring(vec![binding(1)]);
    unit.step(1600, ready());
    unit.step(1600, SourceEvent::HoldDrained);
    let effects = unit.step(
        1600,
        SourceEvent::CutoverSubmitted(SubmitOutcome::Submitted),
    );
    assert_eq!(
        effects,
        [
            "Entered(AwaitCommit)",
            "ReturnPermit",
            "S1 Exceeded",
            "Diagnose(SealHalfUsed)",
            "Finished(Ok(()))",
            "ReadAuthority"
        ]
    );
}

/// SRC-18, RL-134, RL-135
#[test]
fn a_new_connection_inside_the_window_gets_the_whole_batch_first() {
    let mut unit = Unit::settling(&["a", "b"], SubmitOutcome::Submitted);
    unit.step(100, SourceEvent::ConnectionLost(connection(1)));
    assert_eq!(unit.step(101, arrived("late")), NOTHING);
    assert_eq!(
        unit.step(200, SourceEvent::ConnectionReady(connection(2))),
        ["@2 31 a", "@2 31 b", "@2 34 of 2", "@2 31 late"]
    );
    assert_eq!(unit.step(201, arrived("later")), ["@2 31 later"]);
}

/// SRC-19, RL-133, T-REL-14
#[test]
fn t_rel_14_the_end_of_the_window_releases_once_and_nothing_is_resent_after() {
    let mut unit = Unit::settling(&["a"], SubmitOutcome::Submitted);
    unit.step(31, read_source());
    assert!(!unit.time(1029).contains(&"ReleasePayload".to_owned()));
    let effects = unit.time(1030);
    assert!(
        effects.contains(&"ReleasePayload".to_owned()),
        "{effects:?}"
    );
    assert!(!unit.time(5000).contains(&"ReleasePayload".to_owned()));
    unit.step(5001, SourceEvent::ConnectionLost(connection(1)));
    unit.step(5002, arrived("late"));
    assert_eq!(
        unit.step(5003, SourceEvent::ConnectionReady(connection(2))),
        ["@2 31 late"]
    );
}

/// SRC-18, SRC-19, T-REL-14: the window is over with its time, whether or not the driver has got round to it.
#[test]
fn t_rel_14_a_connection_behind_the_window_gets_no_batch() {
    for (now, resent) in [(1029, 2), (1030, 0)] {
        let mut unit = Unit::settling(&["a"], SubmitOutcome::Submitted);
        unit.step(31, SourceEvent::ConnectionLost(connection(1)));
        unit.step(32, arrived("b"));
        let effects = unit.step(now, SourceEvent::ConnectionReady(connection(2)));
        assert_eq!(effects.len(), resent + 1, "{effects:?}");
        assert_eq!(effects.last().unwrap(), "@2 31 b");
    }
}

/// SRC-17, SRC-27
#[test]
fn a_failed_submit_ends_dispatch_like_one_that_succeeded() {
    let mut unit = Unit::relaying(&["a"]);
    unit.step(12, SourceEvent::ConnectionLost(connection(1)));
    assert_eq!(
        unit.step(13, SourceEvent::HoldDrained),
        ["Entered(CutoverSubmitted)", "@1 submit 34 of 1"]
    );
    assert_eq!(
        unit.step(
            14,
            SourceEvent::CutoverSubmitted(SubmitOutcome::FailedOrUnknown)
        ),
        [
            "Entered(Reconciling)",
            "ReturnPermit",
            "S1 Met",
            "Finished(Ok(()))",
            "ReadAuthority"
        ]
    );
    assert_eq!(unit.step(15, failed()), ["Ignored(ForeignReply)"]);
    assert_eq!(
        unit.step(16, SourceEvent::OperationAborted),
        ["Ignored(PastAbort)"]
    );
    assert_eq!(
        unit.step(17, SourceEvent::ConnectionReady(connection(2))),
        ["@2 31 a", "@2 34 of 1"]
    );
}

/// SRC-15, RL-135: the connection came back while the cutover was with the transport.
#[test]
fn a_connection_that_changed_during_the_submit_gets_the_batch_when_the_submit_ends() {
    let mut unit = Unit::relaying(&["a"]);
    unit.step(12, SourceEvent::HoldDrained);
    unit.step(13, SourceEvent::ConnectionLost(connection(1)));
    assert_eq!(unit.step(14, arrived("late")), NOTHING);
    assert_eq!(
        unit.step(15, SourceEvent::ConnectionReady(connection(2))),
        NOTHING
    );
    let effects = unit.step(
        16,
        SourceEvent::CutoverSubmitted(SubmitOutcome::FailedOrUnknown),
    );
    assert_eq!(
        effects[5..],
        ["@2 31 a", "@2 34 of 1", "@2 31 late"],
        "{effects:?}"
    );
}

/// SRC-20, SRC-21, RL-150
#[test]
fn a_commit_turns_relaying_into_following() {
    let mut unit = Unit::settling(&["a"], SubmitOutcome::Submitted);
    assert_eq!(
        unit.step(40, read_target(RelocationPhase::Committed)),
        ["Entered(FollowOnly)", "FollowTo"]
    );
    assert_eq!(unit.step(41, arrived("b")), ["Forward b"]);
}

/// RL-138, RL-71, SRC-21, SRC-25, RL-345
#[test]
fn clean_up_waits_for_the_target_and_the_route_for_its_time() {
    let mut unit = Unit::settling(&[], SubmitOutcome::Submitted);
    unit.step(40, read_target(RelocationPhase::Committed));
    assert_eq!(unit.source.next_deadline(), Some(at(45)));
    assert_eq!(unit.time(45), ["ReadAuthority"]);
    assert_eq!(
        unit.step(46, read_target(RelocationPhase::Activated)),
        ["CleanUp(None)"]
    );
    assert_eq!(
        unit.step(47, SourceEvent::CleanedUp(CleanUpOutcome::CallbackFailed)),
        ["Diagnose(OnClosingFailed)"]
    );
    assert_eq!(unit.time(1030), ["ReleasePayload"]);
    assert_eq!(unit.source.next_deadline(), Some(at(30_040)));
    assert_eq!(unit.time(30_040), ["RemoveFollow", "S4", "Entered(Ended)"]);
    let mut request = unit.step(30_041, SourceEvent::Arrived(Box::new(ask("x"))));
    request.extend(unit.step(30_042, arrived("y")));
    assert_eq!(request, ["EndRequests 1", "Dropped { records: 1 }"]);
}

/// RL-356, T-SAF-05
#[test]
fn a_row_that_has_moved_on_shows_the_commit_too() {
    let mut unit = Unit::settling(&[], SubmitOutcome::Submitted);
    let mut row = row_of_target(9, RelocationPhase::Committed);
    row.authority_owner_generation =
        spotlane_types::generation::AuthorityOwnerGeneration::new(43).unwrap();
    let read = SourceEvent::AuthorityRead(RowRead::Row(Box::new(row)));
    assert_eq!(
        unit.step(40, read),
        ["Entered(FollowOnly)", "FollowTo", "CleanUp(None)"]
    );
}

/// SRC-22
#[test]
fn an_object_that_has_ended_ends_what_waits_for_it() {
    for read in [RowRead::Absent, {
        let mut row = row_of_source();
        row.object_generation = spotlane_types::generation::ObjectGeneration::new(32).unwrap();
        RowRead::Row(Box::new(row))
    }] {
        let mut unit = Unit::settling(&[], SubmitOutcome::FailedOrUnknown);
        assert_eq!(
            unit.step(40, SourceEvent::AuthorityRead(read)),
            [
                "EndRequests 1",
                "ReleasePayload",
                "CleanUp(None)",
                "Entered(Ended)"
            ]
        );
    }
}

/// SRC-23, SRC-24, RL-240, RL-241, RL-245, T-REC-02, T-REC-03, T-REC-04
#[test]
fn at_the_limit_one_last_read_decides_and_sweeps_go_on() {
    let mut unit = Unit::settling(&["a"], SubmitOutcome::FailedOrUnknown);
    unit.step(31, read_source());
    unit.step(32, SourceEvent::ConnectionLost(connection(1)));
    unit.step(33, SourceEvent::Arrived(Box::new(ask("late"))));
    unit.time(1030);
    unit.step(1031, SourceEvent::AuthorityRead(RowRead::Unreadable));
    assert_eq!(unit.time(30_030), ["ReadAuthority"]);
    assert_eq!(
        unit.step(30_031, read_source()),
        ["EndRequests 2", "Entered(Unavailable)"]
    );
    assert_eq!(
        unit.step(30_032, SourceEvent::Arrived(Box::new(ask("x")))),
        ["EndRequests 1"]
    );
    assert_eq!(unit.time(31_031), ["ReadAuthority"]);
    assert_eq!(unit.step(31_032, read_source()), NOTHING);
    assert_eq!(unit.time(32_032), ["ReadAuthority"]);
    assert_eq!(
        unit.step(32_033, read_target(RelocationPhase::Activated)),
        ["Entered(FollowOnly)", "FollowTo", "CleanUp(None)"]
    );
}

/// RL-240, T-REC-01: the backlog goes to the target when the commit is seen.
#[test]
fn a_commit_seen_in_time_takes_the_backlog_along() {
    let mut unit = Unit::settling(&["a"], SubmitOutcome::FailedOrUnknown);
    unit.step(31, SourceEvent::ConnectionLost(connection(1)));
    unit.step(32, arrived("late"));
    assert_eq!(
        unit.step(40, read_target(RelocationPhase::Activated)),
        [
            "Entered(FollowOnly)",
            "FollowTo",
            "Forward late",
            "CleanUp(None)"
        ]
    );
}

/// RL-241
#[test]
fn without_message_follow_the_last_read_happens_at_once() {
    let settings = RelocationSettings::builder()
        .follow_duration(core::time::Duration::ZERO)
        .build()
        .unwrap();
    let mut unit = Unit::with(settings);
    unit.pause(Vec::new());
    unit.send();
    unit.step(10, ready());
    unit.step(20, SourceEvent::HoldDrained);
    unit.step(
        30,
        SourceEvent::CutoverSubmitted(SubmitOutcome::FailedOrUnknown),
    );
    assert_eq!(unit.source.next_deadline(), Some(at(30)));
    assert_eq!(unit.time(30), NOTHING);
    assert_eq!(unit.step(31, read_source()), ["ReadAuthority"]);
    assert_eq!(
        unit.step(32, read_target(RelocationPhase::Activated)),
        ["Entered(FollowOnly)", "S4", "CleanUp(None)"]
    );
}

/// SRC-26
#[test]
fn a_shutdown_after_the_owner_change_only_cleans_up() {
    let mut unit = Unit::settling(&["a"], SubmitOutcome::Submitted);
    unit.step(40, read_target(RelocationPhase::Committed));
    assert_eq!(
        unit.step(50, SourceEvent::Shutdown),
        [
            "RemoveFollow",
            "ReleasePayload",
            "CleanUp(None)",
            "Entered(Ended)"
        ]
    );
    let mut unit = Unit::settling(&["a"], SubmitOutcome::Submitted);
    assert_eq!(
        unit.step(50, SourceEvent::Shutdown),
        ["ReleasePayload", "CleanUp(None)", "Entered(Ended)"]
    );
    // SRC-28
    assert_eq!(
        unit.step(51, SourceEvent::CleanedUp(CleanUpOutcome::CallbackFailed)),
        ["Diagnose(OnClosingFailed)"]
    );
}

/// RL-128, T-REL-05: nothing but 30 and 53 is taken as a reply, and there is no other event for one.
#[test]
fn t_rel_05_after_the_boundary_no_reply_is_awaited() {
    let mut unit = Unit::relaying(&[]);
    assert_eq!(unit.step(11, ready()), ["Ignored(ForeignReply)"]);
    unit.step(12, SourceEvent::HoldDrained);
    assert_eq!(unit.source.next_deadline(), None);
    assert_eq!(unit.step(13, ready()), ["Ignored(ForeignReply)"]);
}

/// OP-2: command 29 is a hint to read at once.
#[test]
fn a_hint_brings_the_next_read_forward() {
    let mut unit = Unit::settling(&[], SubmitOutcome::Submitted);
    unit.step(31, read_source());
    assert_eq!(unit.step(32, SourceEvent::CommitHint), ["ReadAuthority"]);
    assert_eq!(unit.step(33, SourceEvent::CommitHint), NOTHING);
    assert_eq!(unit.step(34, read_source()), ["ReadAuthority"]);
}
