//! The reference vectors of serial execution, run in place when they are there.
//!
//! They belong to somebody else and are not part of this project. Without them the tests say so and
//! pass; where they are looked for is `SPOTLANE_BEHAVIOR`, else a folder beside the checkout.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the lint's setting"
)]

mod support;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use spotlane_lane::{FifoLimits, GateUse, LaneLimits, Refusal};
use support::{Bench, Step, settle};

fn vectors() -> Option<Value> {
    let folder = std::env::var_os("SPOTLANE_BEHAVIOR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/behavior"),
        PathBuf::from,
    );
    let file = folder.join("serial-execution-v1.json");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("SKIPPED: no reference vectors at {}", file.display());
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn limits(vectors: &Value) -> LaneLimits {
    let limits = &vectors["limits"];
    let fifo = |name: &str| {
        let fifo = &limits[name];
        FifoLimits::new(
            number(&fifo["messageCapacity"]),
            number(&fifo["byteCapacity"]),
        )
    };
    LaneLimits::DEFAULT
        .application(fifo("application"))
        .lifecycle(fifo("lifecycle"))
        .fixed_work_byte_cost(number(&limits["fixedWorkByteCost"]))
        .lifecycle_burst_limit(u8::try_from(number(&limits["lifecycleBurstLimit"])).unwrap())
        .owner_time_budget(Duration::from_millis(number(
            &limits["ownerTimeBudgetMilliseconds"],
        )))
}

/// T-EXE-01, EX-90, EX-91, EX-92: the defaults are the published ones.
#[test]
fn default_limits_are_the_published_ones() {
    let Some(vectors) = vectors() else { return };
    assert_eq!(limits(&vectors), LaneLimits::DEFAULT);
}

/// T-EXE-01, T-EXE-02, EX-93, EX-94, EX-96: exact borders, running work included; a refusal preserves all.
#[tokio::test]
async fn borders_of_admission() {
    let Some(vectors) = vectors() else { return };
    for scenario in vectors["accountingScenarios"].as_array().unwrap() {
        let bench = Bench::new();
        let spot = bench.spot_with(limits(&vectors), GateUse::Own);
        let bytes = number(&scenario["retainedPayloadBytesPerWork"]);
        let count = number(&scenario["acceptedWorkCount"]);
        let application = scenario["lane"] == "application";
        let enqueue = |step| {
            if application {
                spot.enqueue_with_payload_bytes(step, bytes)
            } else {
                spot.enqueue_lifecycle_with_payload_bytes(step, bytes)
            }
        };
        let usage = || {
            if application {
                spot.application_usage()
            } else {
                spot.lifecycle_usage()
            }
        };
        let (wait, release) = Step::wait("running");
        enqueue(wait).unwrap();
        // The first item runs and keeps its reservation.
        settle().await;
        assert_eq!(bench.log.text(), "running(");
        for _ in 1..count {
            enqueue(Step::Note("n")).unwrap();
        }
        let before = usage();
        assert_eq!(before.items, count);
        let refused = enqueue(Step::Note("one too many")).unwrap_err();
        assert_eq!(scenario["nextAdmission"], "capacityExceeded");
        assert!(refused.reason().is_full(), "{scenario}");
        match refused.reason() {
            Refusal::ItemsFull {
                used, items_max, ..
            } => assert_eq!(used, items_max),
            Refusal::BytesFull {
                used, bytes_max, ..
            } => assert!(used <= bytes_max),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            usage(),
            before,
            "a refusal preserves count, bytes and sequence"
        );
        release.send(()).unwrap();
        spot.await_quiescence().await;
        assert_eq!(usage().items, 0, "released after the terminal");
        enqueue(Step::Note("room again")).unwrap();
        assert_eq!(usage().accepted, count + 1);
    }
}

/// T-EXE-03, EX-62: the published order of selection.
#[tokio::test]
async fn order_of_selection() {
    let Some(vectors) = vectors() else { return };
    for scenario in vectors["arbitrationScenarios"].as_array().unwrap() {
        let bench = Bench::new();
        let spot = bench.spot_with(limits(&vectors), GateUse::Own);
        let names = |key: &str| -> Vec<&'static str> {
            let names = scenario[key].as_array().unwrap();
            names
                .iter()
                .map(|name| &*name.as_str().unwrap().to_owned().leak())
                .collect()
        };
        for name in names("applicationInput") {
            spot.enqueue(Step::Note(name)).unwrap();
        }
        for name in names("lifecycleInput") {
            spot.enqueue_lifecycle(Step::Note(name)).unwrap();
        }
        spot.await_quiescence().await;
        assert_eq!(bench.log.all(), names("expectedSelection"));
    }
}

/// T-EXE-04, EX-37, EX-38, EX-39, EX-40: what an object may ask its own surroundings.
#[tokio::test]
async fn calls_into_the_own_surroundings() {
    let Some(vectors) = vectors() else { return };
    for row in vectors["sameOwnerCalls"].as_array().unwrap() {
        let target = row["target"].as_str().unwrap();
        for yields in [false, true] {
            let expected = row[if yields { "yield" } else { "async" }]
                .as_str()
                .unwrap();
            assert_eq!(
                call(target, yields).await,
                expected,
                "{target}, yield: {yields}"
            );
        }
    }
    assert_eq!(
        vectors["dispatchInvariants"]["resumeAfterYieldUsesNewTurn"],
        true
    );
}

/// Makes the call of one row and says, in the words of the file, what happened.
async fn call(target: &str, yields: bool) -> &'static str {
    let bench = Bench::new();
    let spot = bench.spot(GateUse::Shared);
    let (one, two) = (bench.member_of(&spot), bench.member_of(&spot));
    let stranger = bench.actor();
    let step = |actor: &support::ActorLane| {
        if yields {
            Step::YieldAskActor("call", actor.clone())
        } else {
            Step::AskActor("call", actor.clone())
        }
    };
    let said = match target {
        "selfActor" => one.ask(step(&one)).await,
        "differentMemberActorOnSameSpot" => one.ask(step(&two)).await,
        "differentOwner" => one.ask(step(&stranger)).await,
        "sameSpot" => {
            let call = if yields {
                Step::YieldAskSpot("call", spot.clone())
            } else {
                Step::AskSpot("call", spot.clone())
            };
            spot.ask(call).await
        }
        other => panic!("an unknown row: {other}"),
    };
    let new_turn = {
        let fences = said.unwrap().fences;
        fences.first() != fences.last()
    };
    let asked = bench.log.all().iter().any(|entry| entry == "asked");
    let refused = bench.log.text().contains("call:invalidOperation");
    match (refused, asked, new_turn) {
        // EX-35: refused before submission, so the target never heard of it.
        (true, false, false) => "invalidOperation",
        (false, true, true) => "resumeOnNewTurn",
        (false, true, false) => "awaitWithoutGateRelease",
        other => panic!("{other:?}: {}", bench.log.text()),
    }
}
