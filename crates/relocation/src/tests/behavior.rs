//! The behavior vectors of the public contract, as far as the two machines show them.

use serde_json::Value;

use crate::settings::RelocationSettings;
use crate::source::SourceStage;
use crate::target::RestoreFailure;
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

/// Every named case of the file, and who shows it. A case that is added to the file has to be entered here.
#[test]
fn every_case_has_a_place() {
    let Some(vectors) = vectors() else { return };
    let here = [
        "accepted-in-flight-request",
        "message-follow-request",
        "precommit-abort",
        "duplicate-success-terminal",
        "postcommit-target-failure",
        "PreserveStateWith",
        "actorHostHandoff",
    ];
    // The machines of sessions, of routes and of requests, and the driver: by their own tests.
    let elsewhere = [
        // Sessions: `crates/session`.
        "session-or-binding-closed",
        "late-terminal-does-not-cross-successor-relocation-fence",
        "target-bound-session-push-before-route-convergence",
        // Route cache: `location::cache` (RL-160, RL-161).
        "exact-source-tenure-removes-matching-cache-once",
        "aba-source-tenure-does-not-remove-current-cache",
        // Target machine: t_rel_09, t_rel_18, t_rel_20.
        "duplicate-target-attempt-reuses-existing-progress",
        "same-target-attempt-key-with-different-fingerprint-is-rejected",
        "stale-owner",
        "aba-generation",
        // Source machine: t_rel_30 (silence, shutdown), and the refusal of a type that does not move.
        "operation-timeout",
        "runtime-shutdown",
        "DisableRelocation",
        // Runtime: `an_old_route_is_followed`.
        "message-follow-delayed-notice-next-call",
        "RecreateOnRelocation",
    ];
    // With joins of Actors and with Spots.
    let later = [
        "actorJoin",
        "perActorUserSpot",
        "spotWideUserSpot",
        "instanceSpot",
        "target-lifecycle-callback-bound-session-push",
        "bound-actor-round-trip-with-delayed-route-notice",
    ];
    let lists = [
        "profiles",
        "trafficScenarios",
        "journeyScenarios",
        "routeCacheCompareAndRemoveScenarios",
        "idempotencyScenarios",
        "terminalScenarios",
        "statePolicies",
    ];
    let known = [&here[..], &elsewhere, &later].concat();
    let mut seen = 0;
    for case in lists
        .iter()
        .flat_map(|list| vectors[list].as_array().unwrap())
    {
        let name = case["name"].as_str().unwrap();
        assert!(known.contains(&name), "{name} has no place");
        seen += 1;
    }
    assert_eq!(seen, known.len());
}
