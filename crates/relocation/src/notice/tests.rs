//! The suppression vectors of the public contract, and the rules beside them.

use std::collections::BTreeMap;

use serde_json::Value;
use spotlane_types::count::HopCount;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_wire::reference::{ActorRef, ActorRouteFence, SpotRef, SpotRouteFence};

use super::*;
use crate::unit::sample::{at, rid, source_route};

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/behavior/message-follow-suppression-v1.json"
);

/// The published vectors, where they are at hand.
fn vectors() -> Option<Value> {
    let text = std::fs::read_to_string(VECTORS).ok()?;
    Some(serde_json::from_str(&text).expect("the vectors are JSON"))
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn route(json: &Value) -> FollowRoute {
    let id = json["logicalObjectId"].as_str().unwrap();
    let object_generation = ObjectGeneration::new(number(&json["objectGeneration"])).unwrap();
    let target_node_rid = rid(json["targetNodeRid"].as_str().unwrap());
    let target_node_generation =
        NodeGeneration::new(number(&json["targetNodeGeneration"])).unwrap();
    let owner = AuthorityOwnerGeneration::new(number(&json["authorityOwnerGeneration"])).unwrap();
    let lease = OwnerLeaseGeneration::new(number(&json["ownerLeaseGeneration"])).unwrap();
    if json["objectKind"] == "actor" {
        return FollowRoute::Actor {
            actor: ActorRouteFence {
                actor: ActorRef {
                    actor_id: id.parse().unwrap(),
                    object_generation,
                },
                target_node_rid,
                target_node_generation,
                expected_authority_owner_generation: owner,
                expected_owner_lease_generation: lease,
            },
        };
    }
    FollowRoute::Spot {
        spot: SpotRouteFence {
            spot: SpotRef {
                spot_id: id.parse().unwrap(),
                object_generation,
            },
            target_node_rid,
            target_node_generation,
            expected_authority_owner_generation: owner,
            expected_owner_lease_generation: lease,
        },
    }
}

fn key(vectors: &Value, name: &Value) -> (FollowRoute, FollowRoute) {
    let key = &vectors["keys"][name.as_str().unwrap()];
    (route(&key["sourceRoute"]), route(&key["targetRoute"]))
}

fn state_name(state: MarkerState) -> &'static str {
    match state {
        MarkerState::Idle => "idle",
        MarkerState::InFlight => "inFlight",
        MarkerState::SentUntilExpiry => "sentUntilExpiry",
    }
}

fn settled_name(settled: Settled) -> &'static str {
    match settled {
        Settled::Applied => "applied",
        Settled::IgnoredStaleClaim => "ignoredStaleClaim",
    }
}

/// RL-162, RL-163, T-SUP-01, T-SUP-02, T-SUP-03, T-SUP-04, T-SUP-06
#[test]
fn every_scenario_of_the_vectors_holds() {
    let Some(vectors) = vectors() else { return };
    let mut steps = 0;
    for scenario in vectors["scenarios"].as_array().unwrap() {
        let mut registry = NoticeRegistry::default();
        let mut claims: BTreeMap<String, Claim> = BTreeMap::new();
        for step in scenario["operations"].as_array().unwrap() {
            let (source, target) = key(&vectors, &step["key"]);
            let mut shown = (source.clone(), target.clone());
            let claim = step["claim"].as_str().unwrap_or_default();
            let result = match step["kind"].as_str().unwrap() {
                "begin" => match registry.begin(&source, &target) {
                    Begin::Granted(granted) => {
                        claims.insert(claim.to_owned(), granted);
                        "granted"
                    }
                    Begin::Suppressed => "suppressed",
                },
                "markSent" => settled_name(registry.mark_sent(&claims[claim])),
                "abort" => settled_name(registry.abort(&claims[claim])),
                "expireRoute" => {
                    registry.expire_route(&source, &target);
                    "removed"
                }
                "retainRoute" => {
                    registry.retain_route(&source, &target);
                    "retained"
                }
                "replaceRoute" => {
                    shown = key(&vectors, &step["replacement"]);
                    registry.expire_route(&source, &target);
                    registry.retain_route(&shown.0, &shown.1);
                    "replaced"
                }
                other => panic!("unknown step {other}"),
            };
            let state = state_name(registry.state(&shown.0, &shown.1));
            let name = &scenario["name"];
            assert_eq!(step["result"], result, "{name}: {step}");
            assert_eq!(step["state"], state, "{name}: {step}");
            steps += 1;
        }
    }
    assert_eq!(steps, 25);
}

/// RL-163, T-SUP-05
#[test]
fn a_route_that_differs_in_one_field_has_a_marker_of_its_own() {
    let Some(vectors) = vectors() else { return };
    let mutations = vectors["independentKeyMutations"].as_array().unwrap();
    assert_eq!(mutations.len(), 11);
    for mutation in mutations {
        let mut registry = NoticeRegistry::default();
        let (source, target) = key(&vectors, &Value::from("base"));
        assert!(matches!(
            registry.begin(&source, &target),
            Begin::Granted(_)
        ));
        let mut changed = vectors["keys"]["base"].clone();
        for path in mutation["paths"].as_array().unwrap() {
            let (side, field) = path.as_str().unwrap().split_once('.').unwrap();
            changed[side][field] = mutation["replacement"].clone();
        }
        let source = route(&changed["sourceRoute"]);
        let target = route(&changed["targetRoute"]);
        assert!(
            matches!(registry.begin(&source, &target), Begin::Granted(_)),
            "{mutation}"
        );
    }
}

fn tenure_of(owner: u64) -> FollowRoute {
    let mut fence = source_route();
    fence.expected_authority_owner_generation = AuthorityOwnerGeneration::new(owner).unwrap();
    FollowRoute::Actor { actor: fence }
}

fn command(source: FollowRoute, target: FollowRoute) -> FollowNotice {
    let hop = Hop {
        source,
        target,
        hops: HopCount::new(1).unwrap(),
        until: at(1),
    };
    let queued = Queued {
        messages: u64::MAX,
        bytes: 7,
    };
    let operation = OperationId::new(1, 2).unwrap();
    let Some(Record::MessageFollow(command)) = notice(&hop, queued, operation, None) else {
        panic!("no notice");
    };
    command.route
}

/// RL-160
#[test]
fn a_notice_says_what_the_hop_was_and_saturates_its_counts() {
    let notice = command(tenure_of(41), tenure_of(42));
    assert_eq!(notice.queued_messages, u32::MAX);
    assert_eq!(notice.queued_bytes, 7);
    assert_eq!(notice.original_reply_route_id, 0);
}

/// RL-161: the two cases of the behavior vectors, `ownerA#0` and `ownerA#2`.
#[test]
fn only_an_entry_of_exactly_the_old_tenure_is_removed() {
    let notice = command(tenure_of(41), tenure_of(42));
    assert_eq!(judge(&notice, Some(&tenure_of(41))), NoticeJudgment::Remove);
    assert_eq!(judge(&notice, Some(&tenure_of(43))), NoticeJudgment::Keep);
    assert_eq!(judge(&notice, None), NoticeJudgment::Keep);
    let spot = FollowRoute::Spot {
        spot: SpotRouteFence {
            spot: SpotRef {
                spot_id: "player".parse().unwrap(),
                object_generation: ObjectGeneration::new(31).unwrap(),
            },
            target_node_rid: rid("node-b"),
            target_node_generation: NodeGeneration::new(3).unwrap(),
            expected_authority_owner_generation: AuthorityOwnerGeneration::new(42).unwrap(),
            expected_owner_lease_generation: OwnerLeaseGeneration::new(52).unwrap(),
        },
    };
    let foreign = command(tenure_of(41), spot);
    assert_eq!(
        judge(&foreign, Some(&tenure_of(41))),
        NoticeJudgment::Violation
    );
}
