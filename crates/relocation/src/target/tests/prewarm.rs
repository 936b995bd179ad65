//! Joins that are prepared before they move.

use super::*;
use crate::unit::sample::{rid, source_route};
use spotlane_types::count::Correlation;

fn key(number: u64) -> Box<PrewarmKey> {
    Box::new(PrewarmKey {
        peer: rid("node-a"),
        actor: source_route(),
        correlation: Correlation::new(number).unwrap(),
    })
}

fn decided(number: u64, decision: JoinDecision) -> TargetEvent<String> {
    TargetEvent::JoinDecided {
        key: key(number),
        decision,
    }
}

/// TGT-1, TGT-5, RL-361: the move adopts the queue with what is in it.
#[test]
fn a_prepared_queue_is_adopted_by_its_move() {
    let mut unit = Unit::with(Vec::new());
    assert_eq!(
        unit.step(0, TargetEvent::JoinRequested(key(1))),
        ["Entered(Prewarmed)", "RegisterQueue", "AdmitJoin"]
    );
    assert_eq!(unit.step(1, direct("early")), NOTHING);
    assert_eq!(
        unit.step(2, decided(1, JoinDecision::Accepted)),
        ["AcceptJoin"]
    );
    assert_eq!(
        unit.step(3, unit.prepare(1)),
        ["Entered(TargetRestoring)", "ReadAuthority"]
    );
    unit.step(4, read_source());
    unit.step(4, unit.chunk(1, 0));
    unit.step(5, TargetEvent::Restored(Ok(())));
    unit.step(6, unit.cutover_of(1, &[]));
    assert_eq!(unit.step(7, applied())[2], "Merge [\"direct early\"]");
}

/// TGT-3, RL-139, T-REL-32
#[test]
fn t_rel_32_a_new_join_aborts_the_one_that_waits() {
    let mut unit = Unit::with(Vec::new());
    unit.step(0, TargetEvent::JoinRequested(key(1)));
    assert_eq!(
        unit.step(1, TargetEvent::JoinRequested(key(1))),
        ["Ignored(Repeated)"]
    );
    unit.step(1, direct("early"));
    assert_eq!(
        unit.step(2, TargetEvent::JoinRequested(key(2))),
        [
            "Remove [\"early\"]",
            "Entered(Prewarmed)",
            "RegisterQueue",
            "AdmitJoin"
        ]
    );
    assert_eq!(
        unit.step(3, decided(1, JoinDecision::Accepted)),
        ["Ignored(OtherJoin)"]
    );
}

/// TGT-2
#[test]
fn a_refused_join_leaves_nothing() {
    let mut unit = Unit::with(Vec::new());
    unit.step(0, TargetEvent::JoinRequested(key(1)));
    assert_eq!(
        unit.step(1, decided(1, JoinDecision::Refused)),
        ["Remove []", "Entered(Absent)"]
    );
    assert!(unit.target.is_idle());
}

/// TGT-4, RL-145
#[test]
fn a_prepared_queue_that_nobody_uses_goes_after_five_seconds() {
    let mut unit = Unit::with(Vec::new());
    unit.step(0, TargetEvent::JoinRequested(key(1)));
    unit.step(1000, decided(1, JoinDecision::Accepted));
    assert_eq!(unit.time(5999), NOTHING);
    assert_eq!(unit.time(6000), ["Remove []", "Entered(Absent)"]);
}

/// RL-139: a unit on its way does not give way to a join.
#[test]
fn a_join_for_a_moving_actor_is_refused() {
    let mut unit = Unit::ready(Vec::new());
    assert_eq!(
        unit.step(11, TargetEvent::JoinRequested(key(1))),
        ["RefuseJoin"]
    );
}
