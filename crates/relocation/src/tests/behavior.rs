//! The behavior vectors of the public contract, as far as the two machines show them.

use serde_json::Value;

use crate::settings::RelocationSettings;
use crate::vocabulary::BehaviorEvent;
use crate::world::World;

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
