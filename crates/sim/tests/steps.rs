//! A fault at every single step of the drivers of source and target.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use std::time::Duration;

use spotlane_relocation::target::TargetStage;
use spotlane_sim::faults::{Climate, Fault, Outage, Spark};
use spotlane_sim::invariants::Violation;
use spotlane_sim::network::HostIndex;
use spotlane_sim::observation::Observation;
use spotlane_sim::scenario::{SOURCE, Scenario, TARGET};
use spotlane_sim::trace::Keep;
use spotlane_sim::world::{Options, Outcome, World};
use spotlane_types::id::RelocationId;

const SEEDS: u64 = 2;

/// There and back.
fn round_trip(seed: u64) -> Scenario {
    Scenario::new(seed).unwrap().and_back()
}

/// There.
fn one_way(seed: u64) -> Scenario {
    Scenario::new(seed).unwrap()
}

fn run(scenario: Scenario) -> Outcome {
    let options = Options {
        mutant: None,
        keep: Keep::Lines,
    };
    let world = World::new(scenario.plan(), options).unwrap();
    world.run().unwrap()
}

fn assert_whole(outcome: &Outcome, what: &str) {
    let violations: Vec<String> = outcome
        .violations
        .iter()
        .map(Violation::to_string)
        .collect();
    assert!(violations.is_empty(), "{what}: {violations:?}");
}

/// Runs the scenario once for every step of a host, with this spark at it.
fn at_every_step(
    scenario: fn(u64) -> Scenario,
    host: HostIndex,
    spark: Spark,
    check: impl Fn(&Outcome, &str),
) {
    for seed in 0..SEEDS {
        let calm = run(scenario(seed));
        assert_whole(&calm, &format!("seed {seed} without a fault"));
        let steps = calm.steps[host.0];
        assert!(steps > 20, "the moves are too small to show anything");
        for step in 1..=steps {
            let fault = Fault::AfterSteps {
                at: host,
                steps: step,
                spark,
            };
            let broken = scenario(seed)
                .climate(Climate::Process)
                .fault(Duration::ZERO, fault);
            let what = format!("seed {seed}, {spark:?} of {host:?} at step {step}");
            let outcome = run(broken);
            assert_whole(&outcome, &what);
            check(&outcome, &what);
        }
    }
}

/// Whether a host's part of a move came as far as this.
fn saw(outcome: &Outcome, wanted: &Observation) -> bool {
    outcome.seen.iter().any(|(_, seen)| seen == wanted)
}

/// What the source had crossed when it died goes on without it: a target that has answered commits after its wait and
/// serves. RL-236, SRC-29, RL-355
#[test]
fn the_source_may_die_at_every_step() {
    at_every_step(one_way, SOURCE, Spark::Die, |outcome, what| {
        let ready = |stage| Observation::Target {
            relocation: RelocationId::new(0xA0, 1).unwrap(),
            at: TARGET,
            stage,
        };
        if saw(outcome, &ready(TargetStage::RelayReady)) {
            assert_eq!(outcome.servers, [Some(TARGET)], "{what}");
        }
    });
}

/// A process that dies on the way back, as the target of the second move, is one of these. RL-236, TGT-34
#[test]
fn either_side_of_a_round_trip_may_die_at_every_step() {
    for host in [SOURCE, TARGET] {
        at_every_step(round_trip, host, Spark::Die, |_, _| {});
    }
}

/// RL-236, TGT-34
#[test]
fn the_target_may_die_at_every_step() {
    at_every_step(one_way, TARGET, Spark::Die, |_, _| {});
}

/// A process that stands still past the cutover wait, but not past its lease, comes back into a move that has gone on
/// without it. RL-354, RL-355
#[test]
fn source_and_target_may_stand_still_at_every_step() {
    for host in [SOURCE, TARGET] {
        let spark = Spark::Pause(Duration::from_millis(150));
        at_every_step(round_trip, host, spark, |_, _| {});
    }
}

/// A connection that is back within the cutover wait costs no move: payload and batch are sent again. RL-134, RL-136
#[test]
fn a_short_cut_at_every_step_loses_no_move() {
    let outage = Outage {
        noticed_here: Duration::from_millis(1),
        noticed_there: Duration::from_millis(2),
        back_after: Duration::from_millis(20),
    };
    for host in [SOURCE, TARGET] {
        at_every_step(round_trip, host, Spark::Cut(outage), |outcome, what| {
            for (relocation, facts) in outcome.oracle.moves() {
                assert!(facts.succeeded, "{what}: {relocation} {facts:?}");
            }
        });
    }
}

/// One that is back only after the wait: the target goes on without the cutover, and nobody has two owners. RL-355
#[test]
fn a_long_cut_at_every_step_never_makes_two_owners() {
    let outage = Outage {
        noticed_here: Duration::from_millis(1),
        noticed_there: Duration::from_millis(1),
        back_after: Duration::from_millis(300),
    };
    for host in [SOURCE, TARGET] {
        at_every_step(round_trip, host, Spark::Cut(outage), |_, _| {});
    }
}
