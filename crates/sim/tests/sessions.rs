//! A bound client while its Actor moves: nothing goes wrong, or one thing does at every single step.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use std::time::Duration;

use spotlane_sim::faults::{Climate, Fault, Outage, Spark};
use spotlane_sim::invariants::Violation;
use spotlane_sim::network::HostIndex;
use spotlane_sim::observation::{Answer, Ending, Kind, Observation, Origin, SessionSight, Verdict};
use spotlane_sim::scenario::{SENDER, SOURCE, Scenario, TARGET};
use spotlane_sim::trace::Keep;
use spotlane_sim::world::{Options, Outcome, World};

/// There and back, with a client that never stops.
fn bound(seed: u64) -> Scenario {
    Scenario::new(seed).unwrap().and_back().with_client()
}

fn run(scenario: Scenario, what: &str) -> Outcome {
    let options = Options {
        mutant: None,
        keep: Keep::Lines,
    };
    let outcome = World::new(scenario.plan(), options).unwrap().run().unwrap();
    let violations: Vec<String> = outcome
        .violations
        .iter()
        .map(Violation::to_string)
        .collect();
    assert!(violations.is_empty(), "{what}: {violations:?}");
    outcome
}

fn sights(outcome: &Outcome) -> impl Iterator<Item = &SessionSight> {
    outcome.seen.iter().filter_map(|(_, seen)| match seen {
        Observation::Session(sight) => Some(sight),
        _ => None,
    })
}

fn endings(outcome: &Outcome) -> Vec<Ending> {
    sights(outcome)
        .filter_map(|sight| match sight {
            SessionSight::Closed { ending, .. } => Some(*ending),
            _ => None,
        })
        .collect()
}

fn rough(seed: u64, fault: Fault, at: Duration) -> Scenario {
    bound(seed).climate(Climate::Process).fault(at, fault)
}

/// T-SES-01, T-SES-02, SES-1, SES-3, SES-4: the connection stays, every message is handled once and in order, every
/// request replied to, and what the session held went on.
#[test]
fn a_client_does_not_notice_that_its_actor_moves() {
    let mut held = 0;
    for seed in 0..10 {
        let outcome = run(bound(seed), &format!("seed {seed}"));
        assert_eq!(outcome.oracle.moves().count(), 2);
        assert!(outcome.oracle.moves().all(|(_, facts)| facts.succeeded));
        assert_eq!(
            endings(&outcome),
            [Ending::Client],
            "it goes when it is done"
        );
        let of_client = outcome
            .oracle
            .messages()
            .filter(|(_, facts)| matches!(facts.origin, Origin::Session(_)));
        let mut messages = 0;
        for (message, facts) in of_client {
            assert_eq!(facts.ended, 1, "seed {seed}, {message:?}: {facts:?}");
            if facts.kind == Kind::Request {
                assert_eq!(facts.settled, [Answer::Reply], "seed {seed}, {message:?}");
            }
            messages += 1;
        }
        assert!(messages > 300, "seed {seed}: {messages} messages");
        let commits = sights(&outcome).filter(|sight| {
            matches!(sight, SessionSight::RouteSent { verdict, .. } if *verdict == Verdict::Commit)
        });
        assert_eq!(commits.count(), 2, "seed {seed}: one for each move");
        held += outcome.oracle.book().held();
    }
    assert!(held > 20, "only {held} messages were held");
}

/// T-SES-05, SES-5, SB-82: a move that fails gives the seal back, and what was held goes to the source.
#[test]
fn a_move_that_fails_gives_the_seal_back() {
    let actor = spotlane_sim::scenario::ACTOR;
    for seed in 0..10 {
        let fault = Fault::RestoreFails { actor, times: 2 };
        let scenario = bound(seed)
            .climate(Climate::Clumsy)
            .fault(Duration::ZERO, fault);
        let outcome = run(scenario, &format!("seed {seed}"));
        let aborts = sights(&outcome).filter(|sight| {
            matches!(sight, SessionSight::RouteSent { verdict, .. } if *verdict == Verdict::Abort)
        });
        assert_eq!(aborts.count(), 1, "seed {seed}");
        assert_eq!(endings(&outcome), [Ending::Client], "seed {seed}");
    }
}

/// SB-83, SB-88, SB-91, T-SES-06: whatever step source or target dies at, the session keeps its promises; it lives on or
/// is closed, and holds nothing.
#[test]
fn source_and_target_of_a_bound_actor_may_die_at_every_step() {
    for host in [SOURCE, TARGET] {
        at_every_step(host, Spark::Die);
    }
}

/// SES-6, SES-7: a connection that is gone for longer than a seal lasts.
#[test]
fn a_bound_actor_may_lose_its_connections_at_every_step() {
    let outage = Outage {
        noticed_here: Duration::from_millis(1),
        noticed_there: Duration::from_millis(2),
        back_after: Duration::from_millis(900),
    };
    for host in [SOURCE, TARGET] {
        at_every_step(host, Spark::Cut(outage));
    }
}

fn at_every_step(host: HostIndex, spark: Spark) {
    let calm = run(bound(1), "without a fault");
    for step in 1..=calm.steps[host.0] {
        let fault = Fault::AfterSteps {
            at: host,
            steps: step,
            spark,
        };
        let what = format!("{spark:?} of {host:?} at step {step}");
        run(rough(1, fault, Duration::ZERO), &what);
    }
}

/// SB-91, SB-84: the session owner, or its way to the source or the target, is gone at any moment around the moves.
#[test]
fn the_session_owner_may_go_at_any_moment() {
    let outage = Outage {
        noticed_here: Duration::from_millis(1),
        noticed_there: Duration::from_millis(1),
        back_after: Duration::from_millis(40),
    };
    let cut = |peer| Fault::Cut {
        a: SENDER,
        b: peer,
        outage,
    };
    let faults = [Fault::Crash { at: SENDER }, cut(SOURCE), cut(TARGET)];
    for fault in faults {
        for tenth in 500..640 {
            let at = Duration::from_micros(tenth * 100);
            let what = format!("{fault:?} at {at:?}");
            let outcome = run(rough(2, fault.clone(), at), &what);
            assert!(
                outcome.servers[0].is_some(),
                "{what}: nobody serves the Actor"
            );
        }
    }
}
