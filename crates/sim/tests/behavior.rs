//! The behavior vectors of the public contract, shown by whole worlds.
//!
//! What a world without sessions, Spots and a runtime cannot show is listed in [`ELSEWHERE`] with the place that
//! shows it or will; a case of the file that is neither shown here nor listed fails the test.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use spotlane_relocation::vocabulary::BehaviorEvent;
use spotlane_sim::faults::{Climate, Fault, Outage, Spark};
use spotlane_sim::network::HostIndex;
use spotlane_sim::observation::{Answer, Kind, MessageId, Observation, Place, Step};
use spotlane_sim::oracle::MessageFacts;
use spotlane_sim::scenario::{ACTOR, SOURCE, Scenario, TARGET};
use spotlane_sim::trace::Keep;
use spotlane_sim::vocabulary;
use spotlane_sim::workload::Policy;
use spotlane_sim::world::{Options, Outcome, World};
use spotlane_types::id::RelocationId;

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/behavior/relocation-behavior-v1.json"
);

/// The cases that worlds show, by the test below that does.
const SHOWN: [&str; 11] = [
    "commonLifecycle",
    "actorHostHandoff",
    "accepted-in-flight-request",
    "message-follow-request",
    "duplicate-target-attempt-reuses-existing-progress",
    "precommit-abort",
    "postcommit-target-failure",
    "duplicate-success-terminal",
    "DisableRelocation",
    "RecreateOnRelocation",
    "PreserveStateWith",
];

/// The cases that need more than a world has, and what shows them instead.
const ELSEWHERE: [(&str, &str); 19] = [
    (
        "boundSessionRoute",
        "needs session owners: spotlane-session",
    ),
    ("actorJoin", "needs Spots with members: spotlane-runtime"),
    ("perActorUserSpot", "needs Spots: spotlane-runtime"),
    ("spotWideUserSpot", "needs Spots: spotlane-runtime"),
    ("instanceSpot", "needs Spots: spotlane-runtime"),
    (
        "target-lifecycle-callback-bound-session-push",
        "needs session owners: spotlane-session",
    ),
    (
        "target-bound-session-push-before-route-convergence",
        "needs session owners: spotlane-session",
    ),
    (
        "message-follow-delayed-notice-next-call",
        "the order with a session route: spotlane-session",
    ),
    (
        "bound-actor-round-trip-with-delayed-route-notice",
        "needs session owners: spotlane-session",
    ),
    (
        "exact-source-tenure-removes-matching-cache-once",
        "spotlane-location cache, spotlane-relocation notice",
    ),
    (
        "aba-source-tenure-does-not-remove-current-cache",
        "spotlane-location cache, spotlane-relocation notice",
    ),
    (
        "same-target-attempt-key-with-different-fingerprint-is-rejected",
        "spotlane-relocation target",
    ),
    (
        "late-terminal-does-not-cross-successor-relocation-fence",
        "needs session owners: spotlane-session",
    ),
    ("stale-owner", "spotlane-relocation target"),
    ("aba-generation", "spotlane-relocation target"),
    (
        "session-or-binding-closed",
        "needs session owners: spotlane-session",
    ),
    (
        "operation-timeout",
        "every-step and store worlds: invariants moves-settle and one-terminal",
    ),
    (
        "runtime-shutdown",
        "needs a host that drains: spotlane-runtime",
    ),
    (
        "identityAndAuthority",
        "shown together with commonLifecycle",
    ),
];

/// Orders of the file that this contract does not keep, and why.
const OTHERWISE: [(&str, &str, &str); 2] = [
    (
        "sourceCleanupCompleted",
        "authorityCompleted",
        "D-33: completed waits for nobody",
    ),
    (
        "authorityCompleted",
        "relocationTerminalDelivered",
        "RL-210: the result comes at the cutover",
    ),
];

fn vectors() -> Option<Value> {
    let text = std::fs::read_to_string(VECTORS).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn run(scenario: Scenario) -> Outcome {
    let options = Options {
        mutant: None,
        keep: Keep::Lines,
    };
    let outcome = World::new(scenario.plan(), options).unwrap().run().unwrap();
    assert_eq!(outcome.violations, []);
    outcome
}

fn first_move() -> RelocationId {
    RelocationId::new(0xA0, 1).unwrap()
}

fn events(outcome: &Outcome) -> Vec<(Duration, BehaviorEvent)> {
    vocabulary::of_move(&outcome.seen, first_move())
}

fn names(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect()
}

fn place(events: &[(Duration, BehaviorEvent)], name: &str) -> Option<usize> {
    events.iter().position(|(_, event)| event.name() == name)
}

fn assert_orders(events: &[(Duration, BehaviorEvent)], orders: &Value) {
    for pair in orders.as_array().unwrap() {
        let [before, after] = names(pair)[..] else {
            continue;
        };
        if OTHERWISE
            .iter()
            .any(|(a, b, _)| (*a, *b) == (before, after))
        {
            continue;
        }
        let (before_at, after_at) = (place(events, before), place(events, after));
        assert!(
            before_at.is_some() && before_at < after_at,
            "{before} then {after}: {events:?}"
        );
    }
}

fn steps(outcome: &Outcome, wanted: Step) -> usize {
    let is = |seen: &Observation| {
        matches!(seen, Observation::Step { relocation, step, .. }
            if *relocation == first_move() && *step == wanted)
    };
    outcome.seen.iter().filter(|(_, seen)| is(seen)).count()
}

fn started_at(outcome: &Outcome, host: HostIndex) -> usize {
    let is = |seen: &Observation| matches!(seen, Observation::Started { at, .. } if *at == host);
    outcome.seen.iter().filter(|(_, seen)| is(seen)).count()
}

/// Whether a message was taken in at a place.
fn was_at(outcome: &Outcome, message: MessageId, host: HostIndex, wanted: Place) -> bool {
    outcome.seen.iter().any(|(_, seen)| {
        *seen
            == Observation::Accepted {
                message,
                at: host,
                place: wanted,
            }
    })
}

/// One delivery, one reply, one settlement, nothing lost, nothing doubled, the original operation.
fn assert_once(facts: &MessageFacts) {
    assert_eq!(facts.started.len(), 1, "{facts:?}");
    assert_eq!(facts.answers, [Answer::Reply], "{facts:?}");
    assert_eq!(facts.settled, [Answer::Reply], "{facts:?}");
    assert!(facts.losses.is_empty(), "{facts:?}");
}

#[test]
fn every_case_of_the_file_is_shown_or_listed() {
    let Some(vectors) = vectors() else { return };
    let mut cases = BTreeSet::from(["commonLifecycle".to_owned()]);
    for list in [
        "optionalBranches",
        "profiles",
        "trafficScenarios",
        "journeyScenarios",
        "routeCacheCompareAndRemoveScenarios",
        "idempotencyScenarios",
        "terminalScenarios",
        "statePolicies",
    ] {
        for case in vectors[list].as_array().unwrap() {
            cases.insert(case["name"].as_str().unwrap().to_owned());
        }
    }
    for case in cases {
        let listed = ELSEWHERE.iter().find(|(name, _)| *name == case);
        match listed {
            Some((name, place)) => println!("not shown here: {name} ({place})"),
            None => assert!(
                SHOWN.contains(&case.as_str()),
                "{case} is neither shown nor listed"
            ),
        }
    }
    for (before, after, why) in OTHERWISE {
        println!("not this order: {before}, {after} ({why})");
    }
}

/// RL-65, RL-66, RL-67, RL-68, RL-69, RL-71, RL-3
#[test]
fn the_common_lifecycle_happens_in_order_and_only_the_owner_admits() {
    let Some(vectors) = vectors() else { return };
    let common = &vectors["commonLifecycle"];
    for seed in 0..20 {
        let outcome = run(Scenario::new(seed).unwrap());
        let events = events(&outcome);
        for name in names(&common["requiredEvents"]) {
            let times = events
                .iter()
                .filter(|(_, event)| event.name() == name)
                .count();
            assert_eq!(times, 1, "{name}");
        }
        assert_orders(&events, &common["requiredOrder"]);
        let at = |name: &str| events[place(&events, name).unwrap()].0;
        let (sealed, opened) = (at("sourceAdmissionSealed"), at("targetDispatchActivated"));
        for (when, seen) in &outcome.seen {
            if let Observation::Started { at, .. } = seen {
                // RL-73: the source until the seal, then nobody, then the target.
                assert!(*at != SOURCE || *when <= sealed, "the source at {when:?}");
                assert!(*at != TARGET || *when >= opened, "the target at {when:?}");
            }
        }
        let (before, after) = outcome.rows[ACTOR.0];
        let (before, after) = (before.unwrap(), after.unwrap());
        assert_eq!(before.object_generation, after.object_generation);
        assert!(after.generation.is_after(before.generation));
    }
}

/// T-PRF-02, RL-60: a host move of an Actor.
#[test]
fn a_host_move_of_an_actor_shows_its_events_and_no_others() {
    let Some(vectors) = vectors() else { return };
    let profiles = vectors["profiles"].as_array().unwrap();
    let profile = profiles
        .iter()
        .find(|one| one["name"] == "actorHostHandoff")
        .unwrap();
    let outcome = run(Scenario::new(1).unwrap());
    let events = events(&outcome);
    for name in names(&profile["requiredEvents"]) {
        assert!(place(&events, name).is_some(), "{name}");
    }
    for name in names(&profile["forbiddenEvents"]) {
        assert_eq!(place(&events, name), None, "{name}");
    }
    assert_orders(&events, &profile["additionalOrder"]);
}

/// RL-261, T-REL-24: a request that was accepted before the seal is handled and answered once, at the target.
#[test]
fn an_accepted_request_moves_with_its_object() {
    let mut found = 0;
    for seed in 0..20 {
        let outcome = run(Scenario::new(seed).unwrap());
        for (message, facts) in outcome.oracle.messages() {
            let saved = was_at(&outcome, message, TARGET, Place::Saved);
            if facts.kind == Kind::Request && saved {
                assert_once(facts);
                assert_eq!(facts.started, [TARGET]);
                found += 1;
            }
        }
    }
    assert!(found > 0, "no request was in the queue at the seal");
}

/// RL-151, RL-269: a request at the old address is forwarded once and handled once, never at the source.
#[test]
fn a_request_at_the_old_address_is_followed() {
    let mut found = 0;
    for seed in 0..20 {
        let outcome = run(Scenario::new(seed).unwrap());
        for (message, facts) in outcome.oracle.messages() {
            let forwarded = outcome.seen.iter().filter(|(_, seen)| {
                matches!(seen, Observation::Forwarded { message: one, .. } if *one == message)
            });
            if facts.kind == Kind::Request && forwarded.count() == 1 {
                assert_once(facts);
                assert_eq!(facts.started, [TARGET]);
                found += 1;
            }
        }
    }
    assert!(found > 0, "no request came to the old address");
}

/// T-IDM-01, RL-108: however often command 40 is sent, there is one queue, one factory, and the restores of the policy.
#[test]
fn a_repeated_attempt_uses_the_existing_progress() {
    let outage = Outage {
        noticed_here: Duration::from_millis(1),
        noticed_there: Duration::from_millis(1),
        back_after: Duration::from_millis(15),
    };
    for (policy, restores) in [(Policy::Preserve, 1), (Policy::Recreate, 0)] {
        for step in 1..40 {
            let fault = Fault::AfterSteps {
                at: SOURCE,
                steps: step,
                spark: Spark::Cut(outage),
            };
            let scenario = Scenario::new(step).unwrap().policy(policy);
            let outcome = run(scenario
                .climate(Climate::Network)
                .fault(Duration::ZERO, fault));
            let counts = [Step::TemporaryQueue, Step::Factory, Step::StateRestored]
                .map(|wanted| steps(&outcome, wanted));
            assert_eq!(counts, [1, 1, restores], "cut at step {step}");
        }
    }
}

/// T-REL-30: an explicit failure before the boundary: nothing runs at the target, and what was held runs at the source.
#[test]
fn an_abort_before_the_commit_gives_everything_back() {
    for seed in 0..10 {
        let fault = Fault::RestoreFails {
            actor: ACTOR,
            times: 2,
        };
        let scenario = Scenario::new(seed).unwrap().climate(Climate::Clumsy);
        let outcome = run(scenario.fault(Duration::ZERO, fault));
        assert_eq!(started_at(&outcome, TARGET), 0);
        assert_eq!(outcome.servers, [Some(SOURCE)]);
        assert_eq!(steps(&outcome, Step::Committed), 0);
        let held = outcome.oracle.messages().filter(|(message, facts)| {
            assert_eq!(facts.started, [SOURCE]);
            was_at(&outcome, *message, SOURCE, Place::Hold)
        });
        assert!(held.count() > 0, "nothing was held");
    }
}

/// TGT-34, RL-236: the target dies after the commit. The source is not opened again.
#[test]
fn a_target_that_dies_after_the_commit_is_not_replaced() {
    let calm = run(Scenario::new(4).unwrap());
    let mut found = 0;
    for step in 1..=calm.steps[TARGET.0] {
        let fault = Fault::AfterSteps {
            at: TARGET,
            steps: step,
            spark: Spark::Die,
        };
        let scenario = Scenario::new(4).unwrap().climate(Climate::Process);
        let outcome = run(scenario.fault(Duration::ZERO, fault));
        if steps(&outcome, Step::Committed) == 1 {
            assert_eq!(outcome.servers, [None], "step {step}");
            assert_eq!(outcome.rows[0].1.unwrap().owner, TARGET, "step {step}");
            found += 1;
        }
    }
    assert!(found > 0, "the target never died after the commit");
}

/// One success, however often the cutover comes.
#[test]
fn a_success_is_delivered_once() {
    let outcome = run(Scenario::new(2).unwrap());
    let finished = outcome
        .seen
        .iter()
        .filter(|(_, seen)| matches!(seen, Observation::MoveFinished { result: Ok(()), .. }));
    assert_eq!(finished.count(), 1);
    assert_eq!(steps(&outcome, Step::Committed), 1);
    assert_eq!(steps(&outcome, Step::CleanedUp), 1);
}

/// T-POL-01, T-POL-02, T-POL-03
#[test]
fn each_policy_captures_makes_and_restores_as_often_as_it_says() {
    let Some(vectors) = vectors() else { return };
    for (policy, name) in [
        (Policy::Disable, "DisableRelocation"),
        (Policy::Recreate, "RecreateOnRelocation"),
        (Policy::Preserve, "PreserveStateWith"),
    ] {
        let policies = vectors["statePolicies"].as_array().unwrap();
        let case = policies.iter().find(|one| one["name"] == name).unwrap();
        let outcome = run(Scenario::new(3).unwrap().policy(policy));
        let count = |field: &str| usize::try_from(case[field].as_u64().unwrap()).unwrap();
        let expected = [
            count("targetFactoryInvocationCount"),
            count("applicationStateCaptureCount"),
            count("applicationStateRestoreCount"),
        ];
        let counted = [Step::Factory, Step::StateCaptured, Step::StateRestored]
            .map(|wanted| steps(&outcome, wanted));
        assert_eq!(counted, expected, "{name}");
        let accepted = case["relocationAccepted"].as_bool().unwrap();
        assert_eq!(
            outcome.servers,
            [Some(if accepted { TARGET } else { SOURCE })]
        );
    }
}
