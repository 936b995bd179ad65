//! Which stage leads to which, by which event.

use std::collections::BTreeSet;

use super::*;
use crate::unit::{EarlyProgress, UnitPolicy};

/// A small generator, so that the walk is the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }
}

/// The events that lead on, by their numbers in [`events`].
fn likely(stage: SourceStage, dice: &mut Dice) -> usize {
    let numbers: &[usize] = match stage {
        SourceStage::SourceRunning => &[0],
        SourceStage::Waiting => &[1, 2, 3, 4],
        SourceStage::SourcePaused => &[5, 12, 19],
        SourceStage::TargetRestoring => &[9, 13],
        SourceStage::RelayReady => &[8],
        SourceStage::CutoverSubmitted => &[14, 15],
        SourceStage::Reconciling => &[9, 10, 16, 17, 18],
        SourceStage::AwaitCommit
        | SourceStage::Unavailable
        | SourceStage::FollowOnly
        | SourceStage::Ended => &[7, 11, 12, 16, 17, 18, 20],
    };
    numbers[dice.roll(numbers.len())]
}

fn events(unit: &Unit, dice: &mut Dice) -> (&'static str, SourceEvent) {
    let mut requested = plan(1);
    if dice.roll(4) == 0 {
        requested.policy = UnitPolicy::Disabled;
    }
    if dice.roll(4) == 0 {
        requested.early_progress = EarlyProgress::Recorded;
    }
    requested.deadline = at(1_000_000_000);
    let roll = if dice.roll(2) == 0 {
        likely(unit.source.stage(), dice)
    } else {
        dice.roll(23)
    };
    match roll {
        0 => (
            "move requested",
            SourceEvent::MoveRequested(Box::new(requested)),
        ),
        1 => ("budget open", SourceEvent::BudgetOpen),
        2 => ("binds refused", SourceEvent::BindsRefused(vec![binding(1)])),
        3 => ("43", SourceEvent::BindingSealed(sealed(&binding(1)))),
        4 => ("safe point", SourceEvent::SafePoint),
        5 if unit.order.is_some() => ("captured", SourceEvent::Captured(Ok(unit.payload(10)))),
        5 | 6 => (
            "capture failed",
            SourceEvent::Captured(Err(CaptureFailure::Adapter)),
        ),
        7 => ("arrived", arrived("a")),
        8 => ("hold drained", SourceEvent::HoldDrained),
        9 => ("30", ready()),
        10 => ("53", failed()),
        11 => (
            "connection lost",
            SourceEvent::ConnectionLost(connection(1)),
        ),
        12 => (
            "connection ready",
            SourceEvent::ConnectionReady(connection(1)),
        ),
        13 => ("chunk open", SourceEvent::ChunkOpen),
        14 => (
            "submitted",
            SourceEvent::CutoverSubmitted(SubmitOutcome::Submitted),
        ),
        15 => (
            "submit failed",
            SourceEvent::CutoverSubmitted(SubmitOutcome::FailedOrUnknown),
        ),
        16 => ("row names source", read_source()),
        17 => ("row names target", read_target(RelocationPhase::Activated)),
        18 => ("row gone", SourceEvent::AuthorityRead(RowRead::Absent)),
        19 => ("abort fixed", SourceEvent::AbortFixed),
        20 => ("cleaned up", SourceEvent::CleanedUp(CleanUpOutcome::Done)),
        21 => ("aborted", SourceEvent::OperationAborted),
        _ => ("shutdown", SourceEvent::Shutdown),
    }
}

/// SRC-1, SRC-27, SRC-29: no edge leads back from behind the boundary.
#[test]
fn the_reachable_graph_is_the_one_in_the_snapshot() {
    let mut edges = BTreeSet::new();
    let mut dice = Dice(1);
    for _ in 0..6000 {
        let mut unit = Unit::new();
        let mut now = 0;
        for _ in 0..40 {
            let before = unit.source.stage();
            let name = if dice.roll(6) == 0 {
                now += [1, 1000, 40_000, 2_000_000_000][dice.roll(4)];
                unit.time(now);
                "time"
            } else {
                let (name, event) = events(&unit, &mut dice);
                unit.step(now, event);
                name
            };
            let after = unit.source.stage();
            if before != after {
                edges.insert(format!("{before:?} -- {name} --> {after:?}"));
            }
        }
    }
    let behind = [
        "RelayReady",
        "CutoverSubmitted",
        "AwaitCommit",
        "Unavailable",
        "FollowOnly",
    ];
    for edge in &edges {
        let back = behind.iter().any(|stage| edge.starts_with(stage));
        assert!(!(back && edge.ends_with("SourceRunning")), "{edge}");
    }
    let edges: Vec<String> = edges.into_iter().collect();
    insta::assert_snapshot!(edges.join("\n"));
}
