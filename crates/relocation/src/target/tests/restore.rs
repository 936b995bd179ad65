//! From command 40 to the ready reply.

use super::*;

/// TGT-5, TGT-14, RL-66, RL-67, RL-359, T-REL-15
#[test]
fn t_rel_15_the_queue_comes_first_and_nothing_is_recorded_before_the_restore() {
    let mut unit = Unit::with(Vec::new());
    assert_eq!(
        unit.step(0, unit.prepare(1)),
        ["Entered(TargetRestoring)", "RegisterQueue", "ReadAuthority"]
    );
    // TGT-16: from the receive step on, before row and chunks.
    assert_eq!(unit.step(1, direct("early")), NOTHING);
    assert_eq!(unit.step(2, read_source()), NOTHING);
    assert_eq!(unit.step(3, unit.chunk(1, 0)), ["Restore 1"]);
    assert_eq!(
        unit.step(4, TargetEvent::Restored(Ok(()))),
        ["Entered(RelayReady)", "@1 30"]
    );
}

/// TGT-6, WR-56
#[test]
fn what_this_node_cannot_take_is_refused_with_its_code() {
    for (local, code) in [
        (LocalCheck::NotThisRun, "routeNotConnected"),
        (LocalCheck::LeasePast, "routeNotConnected"),
        (LocalCheck::ShuttingDown, "routeNotConnected"),
        (LocalCheck::NotServed, "requestTargetNotFound"),
    ] {
        let mut unit = Unit::with(Vec::new());
        let event = TargetEvent::Prepare {
            connection: connection(1),
            prepare: Box::new(unit.prepare.clone()),
            local,
        };
        assert_eq!(
            unit.step(0, event),
            [
                "Entered(TargetRemoved)".to_owned(),
                "Remove []".to_owned(),
                format!("@1 53 {code}")
            ]
        );
    }
}

/// WR-51
#[test]
fn the_coordinator_role_is_a_protocol_error_without_effect() {
    let mut unit = Unit::with(Vec::new());
    let mut prepare = unit.prepare.clone();
    prepare.initiator_role = RelocationRole::Coordinator;
    let event = TargetEvent::Prepare {
        connection: connection(1),
        prepare: Box::new(prepare),
        local: LocalCheck::Fits,
    };
    assert_eq!(unit.step(0, event), ["Diagnose(WrongRole)"]);
    assert_eq!(unit.target.stage(), TargetStage::Absent);
}

/// TGT-7, RL-108, T-REL-09, T-IDM-01
#[test]
fn t_rel_09_an_identical_command_40_uses_what_is_there() {
    let mut unit = Unit::with(Vec::new());
    unit.step(0, unit.prepare(1));
    assert_eq!(unit.step(1, unit.prepare(1)), ["Ignored(Repeated)"]);
    unit.step(2, read_source());
    unit.step(3, unit.chunk(1, 0));
    assert_eq!(unit.step(4, unit.prepare(1)), ["Ignored(Repeated)"]);
    unit.step(5, TargetEvent::Restored(Ok(())));
    // The ready reply again, and nothing else; the wait is not restarted (RL-355).
    let deadline = unit.target.next_deadline();
    assert_eq!(unit.step(6, unit.prepare(2)), ["@2 30"]);
    assert_eq!(unit.target.next_deadline(), deadline);
}

/// TGT-8, T-REL-09, T-IDM-02, T-SAF-02
#[test]
fn t_rel_09_other_contents_under_one_identity_are_a_conflict() {
    let mut unit = Unit::with(Vec::new());
    unit.step(0, unit.prepare(1));
    let mut other = unit.prepare.clone();
    other.payload_checksum_crc32c ^= 1;
    let conflict = |other: &RelocationPrepare| TargetEvent::Prepare {
        connection: connection(1),
        prepare: Box::new(other.clone()),
        local: LocalCheck::Fits,
    };
    assert_eq!(
        unit.step(1, conflict(&other)),
        ["Entered(TargetRemoved)", "Remove []", "@1 53 spotMoving"]
    );
    // RL-353: after the ready reply it is an error without effect.
    let mut unit = Unit::ready(Vec::new());
    assert_eq!(
        unit.step(11, conflict(&other)),
        ["Diagnose(ConflictingPrepare)"]
    );
    assert_eq!(unit.target.stage(), TargetStage::RelayReady);
}

/// TGT-9, T-REL-08, RL-5
#[test]
fn t_rel_08_a_foreign_identity_is_linked_to_nothing() {
    let mut unit = Unit::with(Vec::new());
    unit.step(0, unit.prepare(1));
    let foreign = prepare_for(2, &unit.payload);
    let event = TargetEvent::Prepare {
        connection: connection(1),
        prepare: Box::new(foreign.clone()),
        local: LocalCheck::Fits,
    };
    assert_eq!(unit.step(1, event), ["Ignored(ForeignIdentity)"]);
    let mut other = Unit::with(Vec::new());
    other.prepare = foreign;
    assert_eq!(
        unit.step(2, other.chunk(1, 0)),
        ["Ignored(ForeignIdentity)"]
    );
    assert_eq!(unit.step(3, unit.chunk(2, 0)), ["Ignored(OtherConnection)"]);
    unit.step(4, read_source());
    assert_eq!(unit.step(5, unit.chunk(1, 0)), ["Restore 1"]);
}

/// TGT-11, T-REL-10, RL-359
#[test]
fn t_rel_10_a_checksum_mismatch_restores_nothing() {
    let mut unit = Unit::with(Vec::new());
    unit.prepare.payload_checksum_crc32c ^= 1;
    unit.step(0, unit.prepare(1));
    unit.step(0, read_source());
    unit.step(0, direct("waits"));
    assert_eq!(
        unit.step(1, unit.chunk(1, 0)),
        [
            "Entered(TargetRemoved)",
            "Remove [\"waits\"]",
            "@1 53 relocationDataLost"
        ]
    );
}

/// TGT-10, TGT-12, RL-132, T-REL-06
#[test]
fn t_rel_06_one_chunk_and_many_chunks_behave_alike() {
    let state = Bytes::from(vec![3; 5000]);
    let mut traces = Vec::new();
    for chunk in [1 << 20, 700, 1] {
        let chunk = chunk.max(2);
        let mut unit = Unit::of(payload(Some(state.clone()), vec![note("saved")], chunk));
        let mut trace = unit.step(0, unit.prepare(1));
        trace.extend(unit.step(0, read_source()));
        for ordinal in 0..u32::try_from(unit.payload.chunks().len()).unwrap() {
            trace.extend(unit.step(0, unit.chunk(1, ordinal)));
        }
        trace.extend(unit.step(1, TargetEvent::Restored(Ok(()))));
        trace.extend(unit.step(2, unit.cutover_of(1, &[])));
        trace.extend(unit.step(3, applied()));
        traces.push(trace);
    }
    assert_eq!(traces[0], traces[1]);
    assert_eq!(traces[0], traces[2]);
}

/// What each failure of a payload in chunks of `chunk` bytes leads to: a damaged byte, one byte too many, a chunk left out, a
/// restore that fails twice, and the end of the validity.
fn failures(chunk: u32) -> [Vec<String>; 5] {
    let begun = |damage: u32| {
        let state = Some(Bytes::from(vec![3; 5000]));
        let mut unit = Unit::of(payload(state, vec![note("saved")], chunk));
        unit.prepare.payload_checksum_crc32c ^= damage;
        unit.step(0, unit.prepare(1));
        unit.step(0, read_source());
        unit.step(0, direct("direct"));
        unit
    };
    let last = |unit: &Unit| u32::try_from(unit.payload.chunks().len()).unwrap() - 1;
    let up_to = |unit: &mut Unit, end: u32| {
        let effects = (0..end).map(|ordinal| unit.step(0, unit.chunk(1, ordinal)));
        effects.last().unwrap_or_default()
    };
    let mut unit = begun(1);
    let end = last(&unit);
    let damaged = up_to(&mut unit, end + 1);
    let mut unit = begun(0);
    up_to(&mut unit, end);
    let mut bytes = unit.payload.chunks().last().unwrap().to_vec();
    bytes.push(0);
    let surplus = unit.step(0, unit.chunk_with(1, end, bytes.into()));
    let mut unit = begun(0);
    up_to(&mut unit, end);
    let gap = unit.step(0, unit.chunk_with(1, end + 1, Bytes::from_static(b"x")));
    let mut unit = begun(0);
    up_to(&mut unit, end + 1);
    let fails = || TargetEvent::Restored(Err(RestoreFailure::Failed));
    let restore = [unit.step(1, fails()), unit.step(2, fails())].concat();
    let mut unit = begun(0);
    up_to(&mut unit, end + 1);
    let time = unit.time(30_000);
    [damaged, surplus, gap, restore, time]
}

/// TGT-11, TGT-13, TGT-15, TGT-36, T-REL-06: one chunk and many chunks also fail alike.
#[test]
fn t_rel_06_one_chunk_and_many_chunks_fail_alike() {
    let one = failures(1 << 20);
    for failure in &one {
        let refused = failure.iter().filter(|effect| effect.contains(" 53 "));
        assert_eq!(refused.count(), 1, "{failure:?}");
    }
    assert_eq!(one, failures(700));
}

/// WR-52, TGT-36
#[test]
fn a_repeated_chunk_is_harmless_and_a_different_one_is_not() {
    let many = || Unit::of(payload(Some(vec![3; 100].into()), Vec::new(), 64));
    let mut unit = many();
    unit.step(0, unit.prepare(1));
    unit.step(0, unit.chunk(1, 0));
    assert_eq!(unit.step(1, unit.chunk(1, 0)), ["Ignored(Repeated)"]);
    let other = unit.chunk_with(1, 0, Bytes::from_static(&[0; 64]));
    let broken = [
        "Entered(TargetRemoved)",
        "Remove []",
        "@1 53 relocationDataLost",
    ];
    assert_eq!(unit.step(2, other), broken);

    let mut gap = many();
    gap.step(0, gap.prepare(1));
    assert_eq!(gap.step(1, gap.chunk(1, 1)), broken);

    let mut surplus = many();
    surplus.step(0, surplus.prepare(1));
    let last = u32::try_from(surplus.payload.chunks().len() - 1).unwrap();
    for ordinal in 0..last {
        surplus.step(1, surplus.chunk(1, ordinal));
    }
    let long = surplus.chunk_with(1, last, vec![1; 500].into());
    assert_eq!(surplus.step(2, long), broken);

    let mut empty = many();
    empty.step(0, empty.prepare(1));
    let none = empty.chunk_with(1, 0, Bytes::new());
    assert_eq!(empty.step(1, none), broken);

    let mut nothing = many();
    nothing.prepare.payload_chunk_count = RelocationChunkCount::new(0).unwrap();
    assert_eq!(nothing.step(0, nothing.prepare(1)), broken);
}

/// RL-136
#[test]
fn after_a_reconnect_the_chunks_that_are_here_are_not_needed_again() {
    let mut unit = Unit::of(payload(Some(vec![3; 100].into()), Vec::new(), 64));
    unit.step(0, unit.prepare(1));
    unit.step(0, read_source());
    unit.step(0, unit.chunk(1, 0));
    assert_eq!(unit.step(1, unit.prepare(2)), ["Ignored(Repeated)"]);
    assert_eq!(unit.step(2, unit.chunk(1, 1)), ["Ignored(OtherConnection)"]);
    assert_eq!(unit.step(2, unit.chunk(2, 0)), ["Ignored(Repeated)"]);
    let count = u32::try_from(unit.payload.chunks().len()).unwrap();
    let mut last = Vec::new();
    for ordinal in 1..count {
        last = unit.step(3, unit.chunk(2, ordinal));
    }
    assert_eq!(last, ["Restore 1"]);
    assert_eq!(
        unit.step(4, TargetEvent::Restored(Ok(()))),
        ["Entered(RelayReady)", "@2 30"]
    );
}

/// TGT-13, RL-119
#[test]
fn a_failed_restore_is_tried_once_more() {
    let mut unit = Unit::assembled(Vec::new());
    let failed = || TargetEvent::Restored(Err(RestoreFailure::Failed));
    assert_eq!(unit.step(1, failed()), ["Restore 1"]);
    assert_eq!(
        unit.step(2, failed()),
        ["Entered(TargetRemoved)", "Remove []", "@1 53 requestFailed"]
    );
    let mut unit = Unit::assembled(Vec::new());
    let not_served = TargetEvent::Restored(Err(RestoreFailure::NotServed));
    assert_eq!(
        unit.step(1, not_served).last().unwrap(),
        "@1 53 requestTargetNotFound"
    );
}

/// TGT-35, WR-56
#[test]
fn a_row_that_is_not_the_sources_ends_the_move() {
    let refused = |read: RowRead| {
        let mut unit = Unit::with(Vec::new());
        unit.step(0, unit.prepare(1));
        unit.step(1, TargetEvent::AuthorityRead(read))
            .pop()
            .unwrap()
    };
    assert_eq!(refused(RowRead::Absent), "@1 53 actorLocationStale");
    let mut row = row_of_source();
    row.store_version = "v9".parse().unwrap();
    assert_eq!(
        refused(RowRead::Row(Box::new(row))),
        "@1 53 actorLocationStale"
    );
    let mut row = row_of_source();
    row.object_generation = spotlane_types::generation::ObjectGeneration::new(32).unwrap();
    assert_eq!(
        refused(RowRead::Row(Box::new(row))),
        "@1 53 spotGenerationStale"
    );
}

/// TGT-35
#[test]
fn an_unreadable_row_is_read_again_and_nothing_is_restored_meanwhile() {
    let mut unit = Unit::with(Vec::new());
    unit.step(0, unit.prepare(1));
    assert_eq!(unit.step(0, unit.chunk(1, 0)), NOTHING);
    assert_eq!(
        unit.step(1, TargetEvent::AuthorityRead(RowRead::Unreadable)),
        NOTHING
    );
    assert_eq!(unit.time(6), ["ReadAuthority"]);
    assert_eq!(unit.step(7, read_source()), ["Restore 1"]);
}

/// TGT-15, RL-354
#[test]
fn validity_ends_a_restore_and_a_ready_reply_needs_room_for_the_wait() {
    let mut unit = Unit::assembled(Vec::new());
    assert_eq!(unit.time(29_999), NOTHING);
    assert_eq!(
        unit.time(30_000),
        [
            "Entered(TargetRemoved)",
            "Remove []",
            "@1 53 workerTimedOut"
        ]
    );
    let mut unit = Unit::assembled(Vec::new());
    assert_eq!(
        unit.step(29_001, TargetEvent::Restored(Ok(())))
            .last()
            .unwrap(),
        "@1 53 workerTimedOut"
    );
}

/// TGT-36
#[test]
fn a_shutdown_refuses_before_the_ready_reply_and_not_after_it() {
    let mut unit = Unit::assembled(Vec::new());
    assert_eq!(
        unit.step(1, TargetEvent::Shutdown).last().unwrap(),
        "@1 53 routeNotConnected"
    );
    let mut unit = Unit::ready(Vec::new());
    assert_eq!(
        unit.step(11, TargetEvent::Shutdown),
        ["Ignored(MoveGoesOn)"]
    );
}

/// RL-353, TGT-32, TGT-37, T-SAF-01
#[test]
fn a_terminal_identity_answers_the_same_and_is_forgotten_in_time() {
    let mut unit = Unit::assembled(Vec::new());
    let failed = || TargetEvent::Restored(Err(RestoreFailure::Failed));
    unit.step(1, failed());
    unit.step(2, failed());
    assert_eq!(unit.step(3, unit.prepare(1)), ["@1 53 requestFailed"]);
    assert_eq!(unit.step(4, unit.chunk(1, 0)), ["Ignored(Terminal)"]);
    assert_eq!(unit.step(4, unit.relay(1, "a")), ["Ignored(Terminal)"]);
    assert_eq!(unit.step(4, unit.cutover_of(1, &[])), ["Ignored(Terminal)"]);
    assert_eq!(
        unit.step(5, TargetEvent::Restored(Ok(()))),
        ["Ignored(LateAnswer)"]
    );
    // Twice the validity, and no connection that is older.
    assert_eq!(unit.time(60_002), NOTHING);
    assert!(!unit.target.is_idle());
    unit.step(60_003, TargetEvent::ConnectionLost(connection(1)));
    assert_eq!(unit.target.next_deadline(), Some(at(60_002)));
    assert_eq!(unit.time(60_004), ["Entered(Absent)"]);
    assert!(unit.target.is_idle());
    assert_eq!(
        unit.step(60_005, unit.chunk(1, 0)),
        ["Ignored(UnknownIdentity)"]
    );
}
