//! Which stage leads to which, by which event.

use std::collections::BTreeSet;

use super::*;
use crate::unit::sample::{rid, source_route};
use spotlane_types::count::Correlation;

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

fn event(unit: &Unit, dice: &mut Dice) -> (&'static str, TargetEvent<String>) {
    let key = || {
        Box::new(PrewarmKey {
            peer: rid("node-a"),
            actor: source_route(),
            correlation: Correlation::new(1).unwrap(),
        })
    };
    match dice.roll(20) {
        0 | 1 => ("40", unit.prepare(1)),
        2 => {
            let mut other = unit.prepare.clone();
            other.payload_checksum_crc32c ^= 1;
            let event = TargetEvent::Prepare {
                connection: connection(1),
                prepare: Box::new(other),
                local: LocalCheck::Fits,
            };
            ("40 with other contents", event)
        }
        3 | 4 => ("52", unit.chunk(1, 0)),
        5 => ("31", unit.relay(1, "a")),
        6 => ("34 that fits none", unit.cutover_of(1, &[])),
        7 => ("34 that fits one", unit.cutover_of(1, &["a"])),
        8 => ("row names source", read_source()),
        9 => ("row names target", read_target()),
        10 => ("row gone", TargetEvent::AuthorityRead(RowRead::Absent)),
        11 | 12 => ("restored", TargetEvent::Restored(Ok(()))),
        13 => (
            "restore failed",
            TargetEvent::Restored(Err(RestoreFailure::Failed)),
        ),
        14 => ("applied", applied()),
        15 => ("commit unknown", answered(CommitAnswer::Unknown)),
        16 => ("28", TargetEvent::JoinRequested(key())),
        17 => {
            let decision = JoinDecision::Refused;
            let key = key();
            ("join refused", TargetEvent::JoinDecided { key, decision })
        }
        18 => ("tenure ended", TargetEvent::TenureEnded),
        _ => ("shutdown", TargetEvent::Shutdown),
    }
}

/// RL-96, TGT-34: the owner change is the only way to an open target.
#[test]
fn the_reachable_graph_is_the_one_in_the_snapshot() {
    let mut edges = BTreeSet::new();
    let mut dice = Dice(1);
    for _ in 0..6000 {
        let mut unit = Unit::with(Vec::new());
        let mut now = 0;
        for _ in 0..40 {
            let before = unit.target.stage();
            let name = if dice.roll(8) == 0 {
                now += [1, 1000, 5000, 200_000][dice.roll(4)];
                unit.step(now, TargetEvent::ConnectionLost(connection(1)));
                unit.time(now);
                "time"
            } else {
                let (name, event) = event(&unit, &mut dice);
                unit.step(now, event);
                name
            };
            let after = unit.target.stage();
            if before != after {
                edges.insert(format!("{before:?} -- {name} --> {after:?}"));
            }
        }
    }
    let edges: Vec<String> = edges.into_iter().collect();
    for edge in edges.iter().filter(|edge| edge.ends_with("TargetOpen")) {
        let proven = edge.contains("-- applied -->") || edge.contains("-- row names target -->");
        assert!(proven, "{edge}");
    }
    insta::assert_snapshot!(edges.join("\n"));
}
