//! The owner change, its settlement, and what comes after it.

use super::*;

/// TGT-22, TGT-23, TGT-27, RL-69, RL-343, RL-344, T-REL-22
#[test]
fn t_rel_22_saved_work_then_relay_then_the_rest_then_open() {
    let mut unit = Unit::ready(vec![note("s1"), ask("s2")]);
    unit.step(11, direct("d1"));
    unit.relay_all(12, 1, &["r1", "r2"]);
    unit.step(13, direct("d2"));
    unit.step(14, unit.cutover_of(1, &["r1", "r2"]));
    assert_eq!(
        unit.step(20, applied()),
        [
            "Entered(OwnerCommitted)",
            "S2",
            "Merge [\"saved s1\", \"saved s2\", \"relay r1\", \"relay r2\", \
             \"direct d1\", \"direct d2\"]",
            "Open",
            "Entered(TargetOpen)",
            "S3",
            "RecordActivated"
        ]
    );
    assert_eq!(unit.step(21, direct("d3")), ["GiveBack(\"d3\")"]);
}

/// TGT-24, RL-238, RL-17, T-REL-19
#[test]
fn t_rel_19_an_unknown_answer_is_read_first_and_converges() {
    for answer in [CommitAnswer::Unknown, CommitAnswer::NotApplied] {
        let mut unit = Unit::committing(Vec::new(), &[]);
        assert_eq!(
            unit.step(21, answered(answer)),
            ["Entered(StoreRetry)", "ReadAuthority"]
        );
        assert_eq!(
            unit.step(22, read_target())[..2],
            ["Entered(OwnerCommitted)", "S2"]
        );
    }
}

/// TGT-24
#[test]
fn a_row_that_is_as_it_was_gets_the_same_change_again() {
    let mut unit = Unit::committing(Vec::new(), &[]);
    unit.step(21, answered(CommitAnswer::Unknown));
    assert_eq!(unit.step(22, read_source()), NOTHING);
    assert_eq!(unit.time(27), ["Commit"]);
    assert_eq!(
        unit.step(28, answered(CommitAnswer::Unknown)),
        ["ReadAuthority"]
    );
    assert_eq!(
        unit.step(29, TargetEvent::AuthorityRead(RowRead::Unreadable)),
        NOTHING
    );
    assert_eq!(unit.time(39), ["ReadAuthority"]);
    assert_eq!(unit.target.stage(), TargetStage::StoreRetry);
}

/// TGT-25, T-REL-18, RL-239
#[test]
fn t_rel_18_another_owner_ends_the_unit_and_runs_nothing() {
    let mut row = row_of_target(9, RelocationPhase::Committed);
    row.owner.owner_id = "owner-x".parse().unwrap();
    for read in [RowRead::Row(Box::new(row)), RowRead::Absent] {
        let mut unit = Unit::committing(vec![note("s")], &["r"]);
        unit.step(21, direct("d"));
        unit.step(22, answered(CommitAnswer::NotApplied));
        assert_eq!(
            unit.step(23, TargetEvent::AuthorityRead(read)),
            [
                "Entered(TargetRemoved)",
                "Diagnose(LocationUpdateFailed)",
                "Remove [\"d\"]"
            ]
        );
    }
}

/// RL-356: another move of the same target is not this one.
#[test]
fn a_row_of_this_node_with_another_relocation_id_is_no_success() {
    let mut unit = Unit::committing(Vec::new(), &[]);
    unit.step(21, answered(CommitAnswer::Unknown));
    let row = row_of_target(9, RelocationPhase::Committed);
    let read = TargetEvent::AuthorityRead(RowRead::Row(Box::new(row)));
    assert_eq!(unit.step(22, read)[0], "Entered(TargetRemoved)");
}

/// TGT-26, T-REL-20, RL-323
#[test]
fn t_rel_20_validity_ends_without_a_route_update() {
    let mut unit = Unit::committing(
        vec![binding_record(identity(1).relocation, &binding(1)).unwrap()],
        &[],
    );
    unit.step(21, answered(CommitAnswer::Unknown));
    let removed = [
        "Entered(TargetRemoved)",
        "Diagnose(LocationUpdateFailed)",
        "Remove []",
    ];
    assert_eq!(unit.time(30_000), removed);
    let mut relaying = Unit::ready(Vec::new());
    assert_eq!(relaying.time(30_000), removed);
}

/// TGT-32, T-REL-21, T-IDM-03
#[test]
fn t_rel_21_a_late_answer_revives_nothing() {
    let mut unit = Unit::committing(Vec::new(), &[]);
    unit.time(30_000);
    assert_eq!(unit.step(30_001, applied()), ["Ignored(LateAnswer)"]);
    assert_eq!(unit.step(30_002, read_target()), ["Ignored(LateAnswer)"]);
    assert_eq!(unit.step(30_003, unit.prepare(1)), ["Ignored(Terminal)"]);
    assert_eq!(unit.target.stage(), TargetStage::TargetRemoved);
}

/// TGT-33, RL-286
#[test]
fn past_the_own_lease_nothing_is_written_and_the_unit_waits() {
    let mut unit = Unit::committing(Vec::new(), &[]);
    assert_eq!(
        unit.step(21, answered(CommitAnswer::NotTried)),
        ["Entered(StoreRetry)"]
    );
    assert_eq!(unit.time(26), ["ReadAuthority"]);
    unit.step(27, read_source());
    assert_eq!(unit.time(37), ["Commit"]);
}

/// TGT-29, RL-357, WR-53, T-SAF-07
#[test]
fn each_binding_gets_one_route_update_right_after_the_opening() {
    let relocation = identity(1).relocation;
    let mut unit = Unit::committing(
        vec![
            binding_record(relocation, &binding(7)).unwrap(),
            note("work"),
        ],
        &[],
    );
    let effects = unit.step(30, applied());
    assert_eq!(
        effects[2..],
        [
            "Merge [\"saved work\"]",
            "Open",
            "Entered(TargetOpen)",
            "S3",
            "node 44 #7 commit",
            "RecordActivated"
        ]
    );
}

/// RL-360, RL-70, RL-146, TGT-28
#[test]
fn a_join_runs_its_callbacks_before_the_first_item_and_announces_the_leave() {
    let source = note("x").source;
    let mut unit = Unit::committing(vec![join_record(source, &join()), note("work")], &[]);
    assert_eq!(
        unit.step(30, applied()),
        [
            "Entered(OwnerCommitted)",
            "S2",
            "Merge [\"saved work\"]",
            "Run Joined"
        ]
    );
    let ended = TargetEvent::LifecycleEnded;
    assert_eq!(unit.step(31, ended(LifecycleOutcome::Failed)), NOTHING);
    assert_eq!(unit.time(36), ["Run Joined"]);
    assert_eq!(
        unit.step(37, ended(LifecycleOutcome::Done)),
        ["node 29", "Run JoinCompleted"]
    );
    assert_eq!(
        unit.step(38, ended(LifecycleOutcome::Done)),
        ["Open", "Entered(TargetOpen)", "S3", "RecordActivated"]
    );
}

/// RL-261, T-REL-24
#[test]
fn t_rel_24_a_saved_request_keeps_its_identity_and_reply_route() {
    let mut unit = Unit::committing(vec![ask("question")], &[]);
    let mut out = Vec::new();
    unit.target.on_event(at(30), applied(), &mut out);
    let merged = out.into_iter().find_map(|effect| match effect {
        TargetEffect::Merge(items) => Some(items),
        _ => None,
    });
    let Some([BacklogItem::Saved(entry)]) = merged.as_deref() else {
        panic!("{merged:?}");
    };
    assert_eq!(entry.record, ask("question"));
}

/// RL-261, T-REL-24: so does one that was relayed, before the boundary or behind it, and a message that nobody waits for gets
/// no way for an answer.
#[test]
fn t_rel_24_a_relayed_request_keeps_its_identity_and_reply_route() {
    let mut unit = Unit::ready(Vec::new());
    let relay = |unit: &Unit, record: FrozenRecord| {
        let TargetEvent::Relay {
            mut relay,
            connection,
        } = unit.relay(1, "")
        else {
            panic!("it is one");
        };
        *relay.record = record;
        TargetEvent::Relay { connection, relay }
    };
    let mut boundary = Boundary::default();
    for record in [ask("before"), note("nobody")] {
        boundary.push(&record).unwrap();
        unit.step(15, relay(&unit, record));
    }
    unit.step(20, unit.cutover(1, &boundary));
    unit.step(21, relay(&unit, ask("behind")));
    let mut out = Vec::new();
    unit.target.on_event(at(30), applied(), &mut out);
    unit.target
        .on_event(at(31), relay(&unit, ask("late")), &mut out);
    let relayed = out.into_iter().flat_map(|effect| match effect {
        TargetEffect::Merge(items) => items,
        TargetEffect::Deliver(record) => vec![BacklogItem::Relay(record)],
        _ => Vec::new(),
    });
    let relayed: Vec<_> = relayed.collect();
    let expected = [ask("before"), note("nobody"), ask("behind"), ask("late")];
    let routes = expected
        .each_ref()
        .map(|record| record.reply_route.is_some());
    assert_eq!(routes, [true, false, true, true]);
    assert_eq!(relayed, expected.map(Box::new).map(BacklogItem::Relay));
}

/// RL-129, T-REL-23: the whole backlog is handed over in order; no permit is asked for here.
#[test]
fn t_rel_23_a_backlog_of_any_length_is_merged_in_order() {
    let texts: Vec<String> = (0..5000).map(|number| format!("{number:04}")).collect();
    let mut unit = Unit::ready(Vec::new());
    let batch: Vec<&str> = texts.iter().map(String::as_str).collect();
    unit.relay_all(11, 1, &batch);
    unit.step(12, unit.cutover_of(1, &batch));
    let merge = unit.step(13, applied()).remove(2);
    let expected: Vec<String> = texts.iter().map(|text| format!("relay {text}")).collect();
    assert_eq!(merge, format!("Merge {expected:?}"));
}
