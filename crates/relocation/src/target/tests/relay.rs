//! Relay, cutover, fallback, retransmission.

use super::*;

/// TGT-17, TGT-18, RL-68, T-REL-16
#[test]
fn t_rel_16_no_owner_change_before_cutover_or_the_end_of_the_wait() {
    let mut unit = Unit::ready(Vec::new());
    assert_eq!(unit.relay_all(11, 1, &["a", "b"]), NOTHING);
    assert_eq!(
        unit.step(12, unit.cutover_of(1, &["a", "b"])),
        ["Entered(CutoverReceived)", "Commit"]
    );
    let mut unit = Unit::ready(Vec::new());
    assert_eq!(unit.time(1009), NOTHING);
    assert_eq!(
        unit.time(1010),
        [
            "Entered(CutoverFallback)",
            "Diagnose(CutoverTimeout)",
            "Commit"
        ]
    );
}

/// TGT-26, RL-354, RL-355: the validity covers the owner change. A cutover that the driver comes to when it is over, since its
/// process stood still, asks the store for nothing.
#[test]
fn a_cutover_past_the_validity_changes_no_owner() {
    let mut unit = Unit::ready(Vec::new());
    unit.step(15, direct("direct"));
    let effects = unit.step(30_000, unit.cutover_of(1, &[]));
    assert_eq!(
        effects,
        [
            "Entered(TargetRemoved)",
            "Diagnose(LocationUpdateFailed)",
            "Remove [\"direct\"]"
        ]
    );
    let mut unit = Unit::ready(Vec::new());
    let effects = unit.step(29_999, unit.cutover_of(1, &[]));
    assert_eq!(effects[0], "Entered(CutoverReceived)");
}

/// TGT-19, RL-324
#[test]
fn a_cutover_that_does_not_fit_is_none() {
    let mut unit = Unit::ready(Vec::new());
    unit.relay_all(11, 1, &["a"]);
    let mismatch = ["Diagnose(CutoverBoundaryMismatch)"];
    assert_eq!(unit.step(12, unit.cutover_of(1, &["a", "b"])), mismatch);
    assert_eq!(unit.step(12, unit.cutover_of(1, &["b"])), mismatch);
    assert_eq!(unit.target.stage(), TargetStage::RelayReady);
    assert_eq!(
        unit.step(13, unit.cutover_of(1, &["a"])),
        ["Entered(CutoverReceived)", "Commit"]
    );
}

/// TGT-20, RL-134, RL-135, T-REL-13
#[test]
fn t_rel_13_a_repeated_batch_replaces_the_partial_one_as_a_whole() {
    let mut unit = Unit::ready(vec![note("saved")]);
    unit.relay_all(11, 1, &["a", "b"]);
    unit.relay_all(12, 2, &["a", "b", "c"]);
    unit.step(13, unit.cutover_of(2, &["a", "b", "c"]));
    let effects = unit.step(14, applied());
    assert_eq!(
        effects[2],
        "Merge [\"saved saved\", \"relay a\", \"relay b\", \"relay c\"]"
    );
}

/// RL-135: both spans are prefixes of one batch.
#[test]
fn at_the_end_of_the_wait_the_longer_span_is_used() {
    for (first, second, merged) in [
        (
            &["a", "b"][..],
            &["a"][..],
            "Merge [\"relay a\", \"relay b\"]",
        ),
        (&["a"], &["a", "b"], "Merge [\"relay a\", \"relay b\"]"),
    ] {
        let mut unit = Unit::ready(Vec::new());
        unit.relay_all(11, 1, first);
        unit.relay_all(12, 2, second);
        unit.time(1010);
        assert_eq!(unit.step(1011, applied())[2], merged);
    }
}

/// RL-135, RL-109: what the shorter span has is here already, whether it is completed or not.
#[test]
fn the_shorter_span_is_never_run_beside_the_longer_one() {
    let mut unit = Unit::ready(Vec::new());
    unit.relay_all(11, 1, &["a", "b"]);
    unit.relay_all(12, 2, &["a"]);
    unit.time(1010);
    unit.step(1011, applied());
    assert_eq!(unit.time(2010), ["Ignored(AlreadyRelayed)"]);

    let mut unit = Unit::ready(Vec::new());
    unit.relay_all(11, 1, &["a", "b"]);
    unit.relay_all(12, 2, &["a"]);
    unit.time(1010);
    unit.step(1011, applied());
    unit.relay_all(1012, 2, &["b", "c"]);
    assert_eq!(
        unit.step(1013, unit.cutover_of(2, &["a", "b", "c"])),
        [
            "Diagnose(LateCutover)",
            "Ignored(AlreadyRelayed)",
            "Ignored(AlreadyRelayed)",
            "Deliver c"
        ]
    );

    let mut unit = Unit::ready(Vec::new());
    unit.relay_all(11, 1, &["a"]);
    unit.relay_all(12, 2, &["a", "b"]);
    unit.time(1010);
    assert_eq!(
        unit.step(1011, applied())[2],
        "Merge [\"relay a\", \"relay b\"]"
    );
    assert_eq!(unit.time(5000), NOTHING);
}

/// RL-135
#[test]
fn a_third_connection_takes_the_place_of_the_shorter_span() {
    let mut unit = Unit::ready(Vec::new());
    unit.relay_all(11, 1, &["a", "b"]);
    unit.relay_all(12, 2, &["a"]);
    unit.relay_all(13, 3, &["a", "b", "c"]);
    unit.step(14, unit.cutover_of(3, &["a", "b", "c"]));
    assert_eq!(
        unit.step(15, applied())[2],
        "Merge [\"relay a\", \"relay b\", \"relay c\"]"
    );
}

/// TGT-30, RL-321, T-REL-27
#[test]
fn t_rel_27_a_late_or_repeated_cutover_only_warns() {
    let mut unit = Unit::committing(Vec::new(), &["a"]);
    let late = ["Diagnose(LateCutover)"];
    assert_eq!(unit.step(21, unit.cutover_of(1, &["a"])), late);
    unit.step(30, applied());
    assert_eq!(unit.step(31, unit.cutover_of(1, &["a"])), late);

    let mut fallback = Unit::ready(Vec::new());
    fallback.relay_all(11, 1, &["a"]);
    fallback.time(1010);
    assert_eq!(fallback.step(1011, fallback.cutover_of(1, &["a"])), late);
    assert_eq!(fallback.target.stage(), TargetStage::CutoverFallback);
}

/// TGT-31: on the same connection, behind what is here.
#[test]
fn a_record_behind_the_boundary_is_appended() {
    let mut unit = Unit::committing(Vec::new(), &["a"]);
    assert_eq!(unit.step(21, direct("direct")), NOTHING);
    assert_eq!(unit.relay_all(22, 1, &["late"]), NOTHING);
    assert_eq!(
        unit.step(30, applied())[2],
        "Merge [\"relay a\", \"direct direct\", \"relay late\"]"
    );
    assert_eq!(unit.relay_all(31, 1, &["later"]), ["Deliver later"]);
}

/// RL-109: a batch that was taken comes again.
#[test]
fn a_repeated_batch_after_the_cutover_is_dropped_by_position() {
    let mut unit = Unit::open(&["a", "b"]);
    assert_eq!(unit.relay_all(40, 2, &["a", "b"]), NOTHING);
    assert_eq!(
        unit.step(41, unit.cutover_of(2, &["a", "b"])),
        [
            "Diagnose(LateCutover)",
            "Ignored(AlreadyRelayed)",
            "Ignored(AlreadyRelayed)"
        ]
    );
    assert_eq!(unit.relay_all(42, 2, &["new"]), ["Deliver new"]);
}

/// RL-109: after a fallback that had the first k.
#[test]
fn after_a_fallback_a_repeated_batch_gives_what_was_missing() {
    let mut unit = Unit::ready(Vec::new());
    unit.relay_all(11, 1, &["a"]);
    unit.time(1010);
    // Still of the batch, on the connection of the span.
    unit.relay_all(1011, 1, &["b"]);
    unit.step(1012, applied());
    assert_eq!(unit.relay_all(1020, 2, &["a", "b", "c"]), NOTHING);
    assert_eq!(
        unit.step(1021, unit.cutover_of(2, &["a", "b", "c"])),
        [
            "Diagnose(LateCutover)",
            "Ignored(AlreadyRelayed)",
            "Ignored(AlreadyRelayed)",
            "Deliver c"
        ]
    );
}

/// RL-109: the repetition is slower than the wait, but goes on.
#[test]
fn a_slow_repetition_of_the_batch_is_told_to_its_end() {
    let mut unit = Unit::open(&["a", "b", "c"]);
    unit.relay_all(40, 2, &["a"]);
    assert_eq!(unit.time(1040), ["Ignored(AlreadyRelayed)"]);
    assert_eq!(
        unit.relay_all(1041, 2, &["b", "c", "new"]),
        [
            "Ignored(AlreadyRelayed)",
            "Ignored(AlreadyRelayed)",
            "Deliver new"
        ]
    );
}

/// RL-109, TGT-31: nothing had come when the wait was over; the batch comes late, and then again.
#[test]
fn a_batch_that_comes_late_as_a_whole_is_appended_once() {
    let mut unit = Unit::ready(Vec::new());
    unit.time(1010);
    unit.step(1011, applied());
    assert_eq!(
        unit.relay_all(1012, 1, &["a", "b"]),
        ["Deliver a", "Deliver b"]
    );
    unit.step(1013, unit.cutover_of(1, &["a", "b"]));
    unit.relay_all(1014, 2, &["a"]);
    assert_eq!(unit.time(2014), ["Ignored(AlreadyRelayed)"]);
}

/// RL-109: without a cutover within the wait they are new.
#[test]
fn records_of_a_new_connection_without_a_cutover_are_appended_after_the_wait() {
    let mut unit = Unit::open(&["a"]);
    assert_eq!(unit.relay_all(40, 2, &["x", "y"]), NOTHING);
    assert_eq!(unit.target.next_deadline(), Some(at(1040)));
    assert_eq!(unit.time(1040), ["Deliver x", "Deliver y"]);
    assert_eq!(unit.relay_all(1041, 2, &["z"]), ["Deliver z"]);
}

/// RL-109, R§3: a batch that comes again and breaks off is told from new records by its operations.
#[test]
fn a_repeated_batch_that_breaks_off_is_not_run_again() {
    let mut unit = Unit::open(&["a", "b", "c"]);
    assert_eq!(unit.relay_all(40, 2, &["a", "b"]), NOTHING);
    unit.step(41, TargetEvent::ConnectionLost(connection(2)));
    assert_eq!(
        unit.time(1040),
        ["Ignored(AlreadyRelayed)", "Ignored(AlreadyRelayed)"]
    );
    // What an id may be forgotten after is far behind every window.
    assert_eq!(unit.target.next_deadline(), Some(at(30_020)));
    assert_eq!(unit.time(30_020), NOTHING);
    assert_eq!(unit.target.next_deadline(), None);
}

/// RL-355: the wait counts from the first ready reply, whatever comes.
#[test]
fn nothing_restarts_the_wait() {
    let mut unit = Unit::ready(Vec::new());
    unit.step(500, unit.prepare(2));
    unit.relay_all(900, 2, &["a"]);
    unit.step(950, TargetEvent::ConnectionLost(connection(2)));
    assert_eq!(unit.target.next_deadline(), Some(at(1010)));
}

/// RL-362, RL-137
#[test]
fn what_is_relayed_after_the_object_moved_on_follows_it() {
    let mut unit = Unit::open(&["a"]);
    assert_eq!(unit.step(50, TargetEvent::TenureEnded), ["Entered(Absent)"]);
    assert_eq!(unit.relay_all(51, 1, &["late"]), ["Forward late"]);
    assert_eq!(unit.step(52, unit.prepare(1)), ["Ignored(Terminal)"]);
}

/// RL-362, RL-150: it is forgotten in time, though its connection stays, which it does for as long as both nodes run
#[test]
fn an_object_that_moved_on_is_forgotten_while_its_connection_stays() {
    let mut unit = Unit::open(&["a"]);
    unit.step(50, TargetEvent::TenureEnded);
    assert_eq!(unit.target.next_deadline(), Some(at(60_050)));
    assert_eq!(unit.time(60_049), NOTHING);
    assert_eq!(unit.relay_all(60_049, 1, &["late"]), ["Forward late"]);
    assert_eq!(unit.time(60_050), NOTHING);
    assert!(unit.target.is_idle());
    assert_eq!(
        unit.relay_all(60_051, 1, &["too late"]),
        ["Ignored(UnknownIdentity)"]
    );
}

/// RL-362, RL-109: what came on a new connection and still waited for a cutover follows it too.
#[test]
fn what_waits_for_a_cutover_follows_the_object_that_moves_on() {
    let mut unit = Unit::open(&["a"]);
    assert_eq!(unit.relay_all(30, 2, &["late", "later"]), NOTHING);
    assert_eq!(
        unit.step(50, TargetEvent::TenureEnded),
        ["Entered(Absent)", "Forward late", "Forward later"]
    );
    assert_eq!(unit.relay_all(51, 2, &["last"]), ["Forward last"]);
}

/// RL-362, RL-109: a batch that came again, and broke off before its cutover, is not sent on twice.
#[test]
fn a_repeated_batch_does_not_follow_the_object_that_moves_on() {
    let mut unit = Unit::open(&["a", "b"]);
    assert_eq!(unit.relay_all(30, 2, &["a"]), NOTHING);
    assert_eq!(
        unit.step(50, TargetEvent::TenureEnded),
        ["Entered(Absent)", "Ignored(AlreadyRelayed)"]
    );
}

/// RL-362, RL-109: so is one that comes again when the object has moved on already.
#[test]
fn a_batch_that_comes_again_behind_the_object_is_not_sent_on() {
    let mut unit = Unit::open(&["a", "b"]);
    unit.step(50, TargetEvent::TenureEnded);
    assert_eq!(unit.relay_all(60, 2, &["a", "b"]), NOTHING);
    assert_eq!(
        unit.step(61, unit.cutover_of(2, &["a", "b"])),
        [
            "Ignored(AlreadyRelayed)",
            "Ignored(AlreadyRelayed)",
            "Ignored(Terminal)"
        ]
    );
    assert_eq!(unit.relay_all(62, 2, &["new"]), ["Forward new"]);
}

/// RL-362, RL-109: without its cutover the wait decides, as it does for an owner.
#[test]
fn what_comes_behind_the_object_waits_for_its_cutover() {
    let mut unit = Unit::open(&["a"]);
    unit.step(50, TargetEvent::TenureEnded);
    assert_eq!(unit.relay_all(60, 2, &["a", "new"]), NOTHING);
    assert_eq!(unit.target.next_deadline(), Some(at(1060)));
    assert_eq!(unit.time(1060), ["Ignored(AlreadyRelayed)", "Forward new"]);
}

/// TGT-31
#[test]
fn a_record_before_the_ready_reply_is_early() {
    let mut unit = Unit::assembled(Vec::new());
    assert_eq!(unit.relay_all(1, 1, &["a"]), ["Ignored(Early)"]);
    assert_eq!(unit.step(1, unit.cutover_of(1, &["a"])), ["Ignored(Early)"]);
}

/// WR-50, T-REL-11
#[test]
fn t_rel_11_an_empty_batch_is_closed_by_count_and_checksum_zero() {
    let mut unit = Unit::ready(Vec::new());
    let cutover = unit.cutover_of(1, &[]);
    let TargetEvent::Cutover {
        cutover: record, ..
    } = &cutover
    else {
        panic!("no cutover");
    };
    assert_eq!(record.boundary_record_count, BoundaryRecordCount::MIN);
    assert_eq!(record.boundary_checksum_crc32c, 0);
    assert_eq!(
        unit.step(11, cutover),
        ["Entered(CutoverReceived)", "Commit"]
    );
}
