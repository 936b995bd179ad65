//! The behavior vectors of the public contract, as far as the two machines show them.

use serde_json::Value;

use crate::settings::RelocationSettings;
use crate::source::SourceStage;
use crate::target::{LifecycleStep, RestoreFailure};
use crate::unit::sample::join;
use crate::vocabulary::BehaviorEvent;
use crate::world::{Owner, Store, World};

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/behavior/relocation-behavior-v1.json"
);

fn vectors() -> Option<Value> {
    let text = std::fs::read_to_string(VECTORS).ok()?;
    Some(serde_json::from_str(&text).expect("the vectors are JSON"))
}

fn names() -> Vec<&'static str> {
    let mut world = World::new(RelocationSettings::default());
    world.queue("saved");
    world.request();
    world.settle();
    world
        .trace
        .seen()
        .iter()
        .map(|event| event.name())
        .collect()
}

#[test]
fn the_vocabulary_is_that_of_the_vectors() {
    let Some(vectors) = vectors() else { return };
    let theirs: Vec<&str> = vectors["eventVocabulary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let ours: Vec<&str> = BehaviorEvent::ALL
        .iter()
        .map(|event| event.name())
        .collect();
    assert_eq!(ours, theirs);
}

/// RL-65, RL-66, RL-67, RL-68, RL-69, RL-71, RL-74
#[test]
fn the_common_lifecycle_keeps_the_required_order() {
    let Some(vectors) = vectors() else { return };
    let seen = names();
    let place = |name: &str| seen.iter().position(|event| *event == name);
    // D-33: `authorityCompleted` is written by the driver and waits for nobody.
    let elsewhere = ["authorityCompleted"];
    let common = &vectors["commonLifecycle"];
    for name in common["requiredEvents"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let times = seen.iter().filter(|event| **event == name).count();
        let expected = usize::from(!elsewhere.contains(&name));
        assert_eq!(times, expected, "{name} in {seen:?}");
    }
    for pair in common["requiredOrder"].as_array().unwrap() {
        let (before, after) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        if !elsewhere.contains(&after) {
            assert!(
                place(before) < place(after),
                "{before} before {after}: {seen:?}"
            );
        }
    }
}

/// RL-60: the counts of a host move of an Actor.
#[test]
fn a_host_move_of_an_actor_shows_nothing_of_a_join() {
    let Some(vectors) = vectors() else { return };
    let seen = names();
    let profiles = vectors["profiles"].as_array().unwrap();
    let profile = profiles
        .iter()
        .find(|profile| profile["name"] == "actorHostHandoff")
        .unwrap();
    for name in profile["forbiddenEvents"].as_array().unwrap() {
        assert!(!seen.contains(&name.as_str().unwrap()), "{name}");
    }
}

/// What the vectors expect of one named case, as far as `keys` name it.
fn case(list: &str, name: &str) -> Option<Value> {
    let vectors = vectors()?;
    let cases = vectors[list].as_array().unwrap();
    let found = cases.iter().find(|case| case["name"] == name);
    Some(found.expect("the case is there").clone())
}

fn number(value: usize) -> Value {
    Value::from(value)
}

fn times(world: &World, event: BehaviorEvent) -> usize {
    world
        .trace
        .seen()
        .iter()
        .filter(|seen| **seen == event)
        .count()
}

/// Runs until the payload is on its way.
fn on_its_way(world: &mut World) {
    world.request();
    while world.source.stage() != SourceStage::TargetRestoring {
        assert!(world.step(0) || world.wait());
    }
}

/// RL-127, RL-261: what was accepted before the seal is delivered once, at the target.
#[test]
fn an_accepted_request_is_delivered_once() {
    let Some(case) = case("trafficScenarios", "accepted-in-flight-request") else {
        return;
    };
    let mut world = World::new(RelocationSettings::default());
    world.queue("operation-A");
    world.request();
    world.settle();
    assert_eq!(number(world.ran_at_target.len()), case["deliveryCount"]);
    assert!(world.ran_at_source.is_empty());
    let delivered = serde_json::to_value(&world.ran_at_target).unwrap();
    assert_eq!(delivered, case["deliveredOperationIds"]);
}

/// RL-151: a message at the old address after the commit is followed once, and not submitted anew.
#[test]
fn a_message_at_the_old_address_is_followed_once() {
    let Some(case) = case("trafficScenarios", "message-follow-request") else {
        return;
    };
    let mut world = World::new(RelocationSettings::default());
    world.request();
    while world.source.stage() != SourceStage::Ended
        && world.source.stage() != SourceStage::AwaitCommit
    {
        assert!(world.step(0) || world.wait());
    }
    world.send("operation-C");
    world.settle();
    assert_eq!(world.ran_at_target, ["operation-C"]);
    assert_eq!(number(world.ran_at_target.len()), case["deliveryCount"]);
    assert_eq!(number(0), case["duplicateCount"]);
}

/// SRC-9, RL-28: an abort before the commit gives the held traffic back to the source, once.
#[test]
fn an_abort_before_the_commit_restores_the_source() {
    let Some(case) = case("terminalScenarios", "precommit-abort") else {
        return;
    };
    let mut world = World::new(RelocationSettings::default());
    world.restore = Err(RestoreFailure::Failed);
    on_its_way(&mut world);
    world.send("held");
    world.settle();
    let (source, target) = (&world.ran_at_source, &world.ran_at_target);
    assert_eq!(
        number(target.len()),
        case["targetApplicationExecutionCount"]
    );
    assert_eq!(
        number(source.len()),
        case["restoredSourceTrafficDeliveryCount"]
    );
    assert_eq!(
        case["sourceAuthorityRetained"],
        world.owner == Owner::Source
    );
    assert_eq!(number(world.results.len()), case["settlementCount"]);
    assert_eq!(number(world.releases), case["cleanupCount"]);
}

/// TGT-24, RL-238: an answer that is lost and found again is one commit with one delivery, result and release.
#[test]
fn a_repeated_success_has_one_effect() {
    let Some(case) = case("terminalScenarios", "duplicate-success-terminal") else {
        return;
    };
    let mut world = World::new(RelocationSettings::default());
    world.queue("once");
    world.store = Store::LosesAnswers;
    world.request();
    world.settle();
    assert_eq!(number(world.ran_at_target.len()), case["deliveryCount"]);
    assert_eq!(number(world.results.len()), case["settlementCount"]);
    assert_eq!(number(world.releases), case["cleanupCount"]);
    assert_eq!(times(&world, BehaviorEvent::OwnershipCommitted), 1);
}

/// SRC-27, RL-239: once the boundary is crossed nothing returns to the source, whatever the target does.
#[test]
fn a_failure_of_the_target_after_the_boundary_does_not_return() {
    let Some(case) = case("terminalScenarios", "postcommit-target-failure") else {
        return;
    };
    let mut world = World::new(RelocationSettings::default());
    on_its_way(&mut world);
    world.send("held");
    while !world.boundary {
        assert!(world.step(0) || world.wait());
    }
    world.cut();
    world.store = Store::Down;
    world.settle();
    assert_eq!(
        number(world.ran_at_source.len()),
        case["sourceRollbackCount"]
    );
    assert_eq!(
        number(world.ran_at_source.len()),
        case["sourceAdmissionResumeCount"]
    );
    assert_eq!(number(world.results.len()), case["settlementCount"]);
    assert_eq!(number(world.releases), case["cleanupCount"]);
    assert!(world.ran_at_target.is_empty());
}

/// RL-60, RL-110: how often state is captured and restored by policy. That a disabled type does not move at all is a test
/// of the source; a factory belongs to the driver.
#[test]
fn a_preserved_state_is_captured_and_restored_once() {
    let Some(case) = case("statePolicies", "PreserveStateWith") else {
        return;
    };
    let mut world = World::new(RelocationSettings::default());
    world.queue("pending");
    world.request();
    world.settle();
    let captured = times(&world, BehaviorEvent::SourceStateCaptured);
    let restored = times(&world, BehaviorEvent::TargetStateRestored);
    assert_eq!(number(captured), case["applicationStateCaptureCount"]);
    assert_eq!(number(restored), case["applicationStateRestoreCount"]);
    assert_eq!(
        case["sourceAuthorityRetained"],
        world.owner == Owner::Source
    );
    assert_eq!(
        case["frameworkPendingWorkTransferred"],
        world.ran_at_target == ["pending"]
    );
}

/// RL-57, RL-70, RL-146, RL-360: the Join of an Actor, with its milestones and how often each callback runs.
#[test]
fn a_join_of_an_actor_tells_both_sides_before_its_work_goes_on() {
    let Some(profile) = case("profiles", "actorJoin") else {
        return;
    };
    let mut world = World::new(RelocationSettings::default());
    world.join = Some(join());
    world.queue("saved");
    world.request();
    world.settle();
    let seen: Vec<&str> = world
        .trace
        .seen()
        .iter()
        .map(|event| event.name())
        .collect();
    let all = |list: &str| profile[list].as_array().unwrap().clone();
    for name in all("requiredEvents") {
        let times = seen.iter().filter(|seen| name == **seen).count();
        assert_eq!(times, 1, "{name} in {seen:?}");
    }
    for name in all("forbiddenEvents") {
        assert!(!seen.iter().any(|seen| name == *seen), "{name} in {seen:?}");
    }
    for pair in all("additionalOrder") {
        let place = |name: &Value| seen.iter().position(|seen| name == *seen);
        assert!(place(&pair[0]) < place(&pair[1]), "{pair} in {seen:?}");
    }
    let counts = &profile["callbackCounts"];
    let ran = |step: fn(&LifecycleStep) -> bool| {
        number(world.lifecycle.iter().filter(|ran| step(ran)).count())
    };
    let joined = ran(|step| matches!(step, LifecycleStep::Joined(_)));
    assert_eq!(joined, counts["targetMembershipJoin"]);
    // The one record that tells the former owner (command 29).
    let left = times(&world, BehaviorEvent::SourceMembershipLeaveSubmitted);
    assert_eq!(number(left), counts["sourceMembershipLeave"]);
    let closed = times(&world, BehaviorEvent::SourceClosingCompleted);
    assert_eq!(number(closed), counts["sourceClosing"]);
    assert_eq!(world.ran_at_target, ["saved"], "the Join itself is no work");
}

/// What shows a case of the file: a test by name, in a file of this workspace.
struct Shown {
    case: &'static str,
    file: &'static str,
    test: &'static str,
}

const fn shown(case: &'static str, file: &'static str, test: &'static str) -> Shown {
    Shown { case, file, test }
}

const HERE: &str = "crates/relocation/src/tests/behavior.rs";
const SESSION_MOVES: &str = "crates/session/tests/moves.rs";
const HOST_MOVES: &str = "crates/spotlane/tests/suite/moves.rs";
const HOST_JOURNEYS: &str = "crates/spotlane/tests/suite/journeys.rs";

/// Every named case that the product can run, and the test that runs it.
#[rustfmt::skip]
const SHOWN: [Shown; 24] = [
    shown("actorJoin", HERE, "a_join_of_an_actor_tells_both_sides_before_its_work_goes_on"),
    shown("actorHostHandoff", HERE, "a_host_move_of_an_actor_shows_nothing_of_a_join"),
    shown("accepted-in-flight-request", HERE, "an_accepted_request_is_delivered_once"),
    shown("message-follow-request", HERE, "a_message_at_the_old_address_is_followed_once"),
    shown("precommit-abort", HERE, "an_abort_before_the_commit_restores_the_source"),
    shown("duplicate-success-terminal", HERE, "a_repeated_success_has_one_effect"),
    shown("postcommit-target-failure", HERE, "a_failure_of_the_target_after_the_boundary_does_not_return"),
    shown("PreserveStateWith", HERE, "a_preserved_state_is_captured_and_restored_once"),
    shown("RecreateOnRelocation", "crates/sim/tests/behavior.rs", "each_policy_captures_makes_and_restores_as_often_as_it_says"),
    shown("DisableRelocation", HOST_MOVES, "a_disabled_type_does_not_move"),
    shown("message-follow-delayed-notice-next-call", HOST_MOVES, "an_old_route_is_followed"),
    shown("target-lifecycle-callback-bound-session-push", HOST_JOURNEYS, "a_push_of_the_completion_reaches_the_client_once"),
    shown("bound-actor-round-trip-with-delayed-route-notice", HOST_JOURNEYS, "a_bound_actor_joins_there_and_back"),
    shown("target-bound-session-push-before-route-convergence", SESSION_MOVES, "pushes_of_the_source_pass_and_pushes_of_the_target_wait"),
    shown("session-or-binding-closed", SESSION_MOVES, "t_ses_03_without_route_update_the_session_closes_and_nothing_held_is_delivered"),
    shown("late-terminal-does-not-cross-successor-relocation-fence", SESSION_MOVES, "t_ses_04_a_late_or_repeated_update_changes_nothing"),
    shown("exact-source-tenure-removes-matching-cache-once", "crates/relocation/src/notice/tests.rs", "only_an_entry_of_exactly_the_old_tenure_is_removed"),
    shown("aba-source-tenure-does-not-remove-current-cache", "crates/location/src/cache.rs", "only_the_exact_tenure_is_removed"),
    shown("duplicate-target-attempt-reuses-existing-progress", "crates/sim/tests/behavior.rs", "a_repeated_attempt_uses_the_existing_progress"),
    shown("same-target-attempt-key-with-different-fingerprint-is-rejected", "crates/relocation/src/target/tests/restore.rs", "t_rel_09_other_contents_under_one_identity_are_a_conflict"),
    shown("stale-owner", "crates/relocation/src/target/tests/commit.rs", "t_rel_18_another_owner_ends_the_unit_and_runs_nothing"),
    shown("aba-generation", "crates/relocation/src/target/tests/restore.rs", "a_row_that_is_not_the_sources_ends_the_move"),
    shown("operation-timeout", "crates/relocation/src/source/tests/before.rs", "t_rel_30_silence_abort_shutdown_and_cancel_never_restore"),
    shown("runtime-shutdown", "crates/relocation/src/source/tests/before.rs", "t_rel_30_silence_abort_shutdown_and_cancel_never_restore"),
];

/// The cases about Spots, which come with them.
const SPOTS: [&str; 3] = ["perActorUserSpot", "spotWideUserSpot", "instanceSpot"];

/// A case that is added to the file has to be entered above: run by a test that is there, or listed as one about Spots.
#[test]
fn every_case_is_run_or_waits_for_spots() {
    let Some(vectors) = vectors() else { return };
    let lists = [
        "profiles",
        "trafficScenarios",
        "journeyScenarios",
        "routeCacheCompareAndRemoveScenarios",
        "idempotencyScenarios",
        "terminalScenarios",
        "statePolicies",
    ];
    let mut open: Vec<&str> = SPOTS.to_vec();
    open.extend(SHOWN.iter().map(|shown| shown.case));
    for case in lists
        .iter()
        .flat_map(|list| vectors[list].as_array().unwrap())
    {
        let name = case["name"].as_str().unwrap();
        let known = open.iter().position(|known| *known == name);
        open.swap_remove(known.unwrap_or_else(|| panic!("nothing runs {name}")));
    }
    assert_eq!(open, [""; 0], "the file has no such case");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for Shown { case, file, test } in SHOWN {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(
            text.contains(&format!("fn {test}()")),
            "{case}: {file} has no {test}"
        );
    }
}
