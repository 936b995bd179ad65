//! Random moves: any order of answers, cuts at any step, lost answers of the store.

use proptest::prelude::*;
use spotlane_types::kind::RelocationPhase;

use crate::settings::RelocationSettings;
use crate::source::SourceStage;
use crate::target::{RestoreFailure, TargetStage};
use crate::world::{Owner, Store, World};

#[derive(Clone, Debug)]
enum Act {
    /// Take one of the open tasks.
    Step(usize),
    /// A message to the old address.
    Send,
    /// A message to the target.
    Direct,
    /// Time passes.
    Wait,
    Cut,
    Connect,
    Store(Store),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0..4_usize).prop_map(Act::Step),
        4 => Just(Act::Send),
        1 => Just(Act::Direct),
        1 => Just(Act::Wait),
        1 => Just(Act::Cut),
        2 => Just(Act::Connect),
        1 => prop_oneof![
            Just(Store::Answers),
            Just(Store::LosesAnswers),
            Just(Store::LosesWrites),
            Just(Store::Down)
        ]
        .prop_map(Act::Store),
    ]
}

struct Run {
    world: World,
    sent: usize,
    direct: usize,
    cuts: usize,
}

/// Plays a script; `cuts` says how many cuts are allowed. Messages are numbered in the order of sending.
fn play(script: &[Act], restores: bool, cuts: usize) -> Run {
    let mut world = World::new(RelocationSettings::default());
    if !restores {
        world.restore = Err(RestoreFailure::Failed);
    }
    let mut run = Run {
        world,
        sent: 0,
        direct: 0,
        cuts: 0,
    };
    for _ in 0..3 {
        run.world.queue(&format!("m{:03}", run.sent));
        run.sent += 1;
    }
    run.world.request();
    for act in script {
        match act {
            Act::Step(index) => {
                run.world.step(*index);
            }
            Act::Send => {
                run.world.send(&format!("m{:03}", run.sent));
                run.sent += 1;
            }
            Act::Direct => {
                run.direct += 1;
                run.world.send_to_target(&format!("d{:03}", run.direct));
            }
            // What a source waits for in these stages comes from its own host, at once.
            Act::Wait
                if matches!(
                    run.world.source.stage(),
                    SourceStage::RelayReady | SourceStage::CutoverSubmitted
                ) => {}
            Act::Wait if !run.world.may_wait() => {}
            Act::Wait => {
                run.world.wait();
            }
            Act::Cut if run.cuts < cuts => {
                run.cuts += 1;
                run.world.cut();
            }
            Act::Cut => {}
            Act::Connect => run.world.connect(),
            Act::Store(store) => run.world.store = *store,
        }
    }
    run
}

/// The world becomes healthy and comes to rest.
fn heal(run: &mut Run) {
    run.world.store = Store::Answers;
    run.world.connect();
    run.world.settle();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// RL-20, RL-73, RL-352, SRC-27: whatever happens, there is one owner, every result comes once and
    /// everything is released. The world checks after every step.
    #[test]
    fn one_owner_and_one_result_whatever_happens(
        script in prop::collection::vec(act(), 0..120),
        restores in any::<bool>(),
    ) {
        let mut run = play(&script, restores, 1);
        heal(&mut run);
        let source = run.world.source.stage();
        prop_assert!(
            matches!(
                source,
                SourceStage::SourceRunning | SourceStage::Ended | SourceStage::Unavailable
            ),
            "{:?}", run.world.stages
        );
        prop_assert_eq!(run.world.results.len(), 1);
        prop_assert_eq!(run.world.releases, usize::from(source != SourceStage::SourceRunning
            || run.world.stages.iter().any(|(source, _)| *source == SourceStage::SourcePaused)));
        if source == SourceStage::SourceRunning {
            prop_assert_eq!(run.world.owner, Owner::Source);
        }
        if source == SourceStage::Ended {
            // OP-10: an owner change that was on its way at the end of validity may still apply; the
            // object is then unavailable.
            let late = run.world.owner == Owner::Target(RelocationPhase::Committed);
            let stage = run.world.target.stage();
            let expected = if late { TargetStage::TargetRemoved } else { TargetStage::TargetOpen };
            prop_assert!(stage == expected || (late && stage == TargetStage::Absent));
        }
    }

    /// RL-20, RL-73, RL-109, RL-352: however often the connection breaks.
    #[test]
    fn many_cuts_make_neither_two_owners_nor_two_runs(
        script in prop::collection::vec(act(), 0..150),
    ) {
        let mut run = play(&script, true, usize::MAX);
        heal(&mut run);
        prop_assert_eq!(run.world.results.len(), 1);
        let source = run.world.source.stage();
        let rests = matches!(
            source,
            SourceStage::SourceRunning | SourceStage::Ended | SourceStage::Unavailable
        );
        prop_assert!(rests, "{:?}", run.world.stages);
    }

    /// RL-127, RL-137, T-REL-02: without a cut nothing is lost and the order of sending is kept.
    #[test]
    fn without_a_cut_every_message_runs_once_and_in_order(
        script in prop::collection::vec(act(), 0..120),
        restores in any::<bool>(),
    ) {
        let calm: Vec<Act> = script
            .into_iter()
            .filter(|act| !matches!(act, Act::Wait | Act::Direct | Act::Store(_)))
            .collect();
        let mut run = play(&calm, restores, 0);
        heal(&mut run);
        // What ran at the source before S0 came before everything that ran at the target.
        let mut ran = run.world.ran_at_source.clone();
        ran.extend(run.world.ran_at_target.clone());
        let expected: Vec<String> = (0..run.sent).map(|number| format!("m{number:03}")).collect();
        prop_assert_eq!(&ran, &expected);
        prop_assert!(restores || run.world.ran_at_target.is_empty());
    }

    /// RL-134, RL-135, RL-109: one cut that is repaired at once loses nothing from before the boundary
    /// and doubles nothing.
    #[test]
    fn a_cut_that_is_repaired_at_once_loses_nothing_that_was_held(
        before in prop::collection::vec(act(), 0..60),
        after in prop::collection::vec(act(), 0..60),
    ) {
        let calm = |script: Vec<Act>| -> Vec<Act> {
            script
                .into_iter()
                .filter(|act| matches!(act, Act::Step(_) | Act::Send))
                .collect()
        };
        let mut script = calm(before);
        let sent_before = 3 + script.iter().filter(|act| matches!(act, Act::Send)).count();
        script.extend([Act::Cut, Act::Connect]);
        let after: Vec<Act> = calm(after)
            .into_iter()
            .filter(|act| matches!(act, Act::Step(_)))
            .collect();
        script.extend(after);
        let mut run = play(&script, true, 1);
        let boundary_before_cut = run.world.boundary;
        heal(&mut run);
        // Behind the boundary a record on a connection that breaks is lost (RL-135); before it, none is.
        let ran = run.world.ran();
        let saved = (0..3).map(|number| format!("m{number:03}"));
        for text in saved {
            prop_assert_eq!(ran.get(text.as_str()), Some(&1));
        }
        if !boundary_before_cut {
            prop_assert_eq!(ran.len(), sent_before);
        }
    }
}
