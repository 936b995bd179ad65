//! Moves from end to end, with one thing going wrong.

use crate::diagnostic::Diagnostic;
use crate::settings::RelocationSettings;
use crate::source::{SourceEffect, SourceStage};
use crate::target::{RestoreFailure, TargetStage};
use crate::world::{Owner, Store, World};

fn world() -> World {
    World::new(RelocationSettings::default())
}

/// Steps until the source is in a stage.
fn until(world: &mut World, stage: SourceStage) {
    for _ in 0..200 {
        if world.source.stage() == stage {
            return;
        }
        assert!(world.step(0) || world.wait(), "never reached {stage:?}");
    }
    panic!("never reached {stage:?}: {:?}", world.stages);
}

/// T-REL-01, RL-20, RL-96, RL-351
#[test]
fn t_rel_01_a_move_without_faults_keeps_every_message_in_order() {
    let mut world = world();
    world.queue("1");
    world.queue("2");
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    world.send("3");
    world.send("4");
    until(&mut world, SourceStage::AwaitCommit);
    world.send("5");
    world.settle_now();
    world.send("6");
    world.settle();
    assert_eq!(world.ran_at_target, ["1", "2", "3", "4", "5", "6"]);
    assert!(world.ran_at_source.is_empty());
    assert_eq!(world.results, ["Ok(())"]);
    assert_eq!(world.releases, 1);
    assert_eq!(world.diagnostics, []);
    assert_eq!(world.source.stage(), SourceStage::Ended);
    assert_eq!(world.target.stage(), TargetStage::TargetOpen);
}

/// T-REL-04, RL-127
#[test]
fn t_rel_04_saved_work_comes_once_and_not_by_relay() {
    let mut world = world();
    for text in ["1", "2", "3"] {
        world.queue(text);
    }
    world.tick = Some("alarm");
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    world.send("4");
    until(&mut world, SourceStage::CutoverSubmitted);
    // The batch comes again, and still has nothing of the payload in it.
    world.cut();
    world.connect();
    world.settle();
    assert_eq!(world.ran_at_target, ["1", "2", "3", "alarm", "4"]);
    assert!(world.relayed.len() >= 2, "{:?}", world.relayed);
    assert!(world.relayed.iter().all(|text| text == "4"));
}

/// T-REL-05, RL-128: a move of many chunks with relayed records and a cutover has one reply, the ready one.
#[test]
fn t_rel_05_one_reply_for_a_whole_move() {
    let mut world = world();
    world.state = 200_000;
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    for text in ["1", "2", "3"] {
        world.send(text);
    }
    world.settle();
    assert_eq!(world.ran_at_target, ["1", "2", "3"]);
    assert!(world.chunks > 5 && world.relayed.len() == 3);
    assert_eq!(world.replies, 1);
}

/// Whether an effect of the source changes who owns the object: a new effect has to be judged here. The sessions' machine
/// has no way to a store at all: its crate knows none.
const fn changes_the_owner(effect: &SourceEffect) -> bool {
    match effect {
        SourceEffect::Entered(_)
        | SourceEffect::AwaitBudget
        | SourceEffect::RefuseBinds
        | SourceEffect::AllowBinds
        | SourceEffect::SendToSession { .. }
        | SourceEffect::RequestSeal
        | SourceEffect::WithdrawSeal
        | SourceEffect::Capture(_)
        | SourceEffect::Send { .. }
        | SourceEffect::AwaitChunk { .. }
        | SourceEffect::DrainHold
        | SourceEffect::SubmitCutover { .. }
        | SourceEffect::ReturnPermit
        | SourceEffect::ReadAuthority
        | SourceEffect::RestoreQueue { .. }
        // It takes back early progress of its own unit, which has no owner in it (RL-28).
        | SourceEffect::FixAbort
        | SourceEffect::Reopen
        | SourceEffect::ReleasePayload
        | SourceEffect::FollowTo { .. }
        | SourceEffect::Forward(_)
        | SourceEffect::RemoveFollow
        | SourceEffect::EndRequests(_)
        | SourceEffect::Dropped { .. }
        | SourceEffect::CleanUp(_)
        | SourceEffect::Finished(_)
        | SourceEffect::Refused(_)
        | SourceEffect::Reached(_)
        | SourceEffect::Diagnose(_)
        | SourceEffect::Ignored(_) => false,
    }
}

/// T-REL-17, RL-20: without the target's change the row names the source for ever, whatever else happens: a failed restore, a
/// cut, the end of every deadline.
#[test]
fn t_rel_17_nobody_but_the_target_changes_the_owner() {
    assert!(!changes_the_owner(&SourceEffect::ReadAuthority));
    for (restore, cut) in [
        (Err(RestoreFailure::Failed), false),
        (Ok(()), false),
        (Ok(()), true),
    ] {
        let mut world = world();
        world.restore = restore;
        world.commits = false;
        world.queue("1");
        world.request();
        until(&mut world, SourceStage::TargetRestoring);
        world.send("2");
        if cut {
            until(&mut world, SourceStage::CutoverSubmitted);
            world.cut();
        }
        world.settle();
        assert_eq!(world.owner, Owner::Source);
        assert!(world.ran_at_target.is_empty());
    }
    let mut world = world();
    world.request();
    world.settle();
    assert_ne!(
        world.owner,
        Owner::Source,
        "the order was all that was missing"
    );
}

/// T-REL-30, SRC-9, T-SAF-03
#[test]
fn t_rel_30_an_explicit_failure_gives_everything_back_in_order() {
    let mut world = world();
    world.queue("1");
    world.restore = Err(RestoreFailure::Failed);
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    world.send("2");
    world.send("3");
    world.settle();
    assert_eq!(world.ran_at_source, ["1", "2", "3"]);
    assert!(world.ran_at_target.is_empty());
    assert_eq!(world.results, ["Err(Target(RequestFailed))"]);
    assert_eq!(world.source.stage(), SourceStage::SourceRunning);
    world.send("4");
    assert_eq!(world.ran_at_source.last().unwrap(), "4");
}

/// T-REL-13, RL-134
#[test]
fn t_rel_13_a_cut_behind_the_boundary_is_repaired_by_the_batch() {
    let mut world = world();
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    for text in ["1", "2", "3"] {
        world.send(text);
    }
    until(&mut world, SourceStage::CutoverSubmitted);
    world.cut();
    world.connect();
    world.settle();
    assert_eq!(world.ran_at_target, ["1", "2", "3"]);
    assert_eq!(world.diagnostics, []);
}

/// T-REL-33, TGT-21, RL-320: without a retransmission the target goes on, and says so.
#[test]
fn t_rel_33_a_lost_cutover_is_a_named_fallback() {
    let mut world = world();
    world.queue("1");
    world.request();
    until(&mut world, SourceStage::CutoverSubmitted);
    world.cut();
    world.settle();
    assert_eq!(world.ran_at_target, ["1"]);
    assert_eq!(world.diagnostics, [Diagnostic::CutoverTimeout]);
    assert_eq!(world.source.stage(), SourceStage::Ended);
}

/// RL-240, T-REC-01: the submit failed, the connection never came back, the commit is read.
#[test]
fn a_failed_submit_ends_well_when_the_target_commits() {
    let mut world = world();
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    world.send("1");
    until(&mut world, SourceStage::RelayReady);
    world.cut();
    world.send("2");
    world.settle();
    assert!(
        world
            .stages
            .iter()
            .any(|(source, _)| *source == SourceStage::Reconciling)
    );
    assert_eq!(world.source.stage(), SourceStage::Ended);
    assert_eq!(
        world.owner,
        Owner::Target(spotlane_types::kind::RelocationPhase::Activated)
    );
}

/// T-REL-19, RL-238
#[test]
fn t_rel_19_a_lost_answer_converges_to_one_owner() {
    let mut world = world();
    world.queue("1");
    world.store = Store::LosesAnswers;
    world.request();
    world.settle();
    assert_eq!(world.ran_at_target, ["1"]);
    assert_eq!(
        world.owner,
        Owner::Target(spotlane_types::kind::RelocationPhase::Activated)
    );
    assert_eq!(world.diagnostics, []);
    assert_eq!(world.source.stage(), SourceStage::Ended);
}

/// T-REL-20, SRC-23, SRC-27: the store never takes the change.
#[test]
fn t_rel_20_without_a_commit_the_target_goes_and_the_source_stays_shut() {
    let mut world = world();
    world.queue("1");
    world.store = Store::LosesWrites;
    world.request();
    world.settle();
    assert!(world.ran().is_empty());
    assert_eq!(world.source.stage(), SourceStage::Unavailable);
    assert!(
        world
            .diagnostics
            .contains(&Diagnostic::LocationUpdateFailed)
    );
    assert_eq!(world.owner, Owner::Source);
}

/// SRC-12, SRC-30, T-SAF-06: the ready reply is lost, the target commits after its wait.
#[test]
fn a_lost_ready_reply_costs_the_hold_nothing() {
    let mut world = world();
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    world.send("1");
    for _ in 0..200 {
        if world.target.stage() == TargetStage::RelayReady {
            break;
        }
        world.step(0);
    }
    world.cut();
    world.settle();
    assert_eq!(world.forwarded, ["1"]);
    assert_eq!(world.ran_at_target, ["1"]);
    assert_eq!(world.results, ["Err(DeadlineExceeded)"]);
}

/// SRC-11, RL-136
#[test]
fn a_cut_before_the_ready_reply_is_repaired_by_the_same_command() {
    let mut world = world();
    world.state = 200_000;
    world.queue("1");
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    for _ in 0..5 {
        world.step(0);
    }
    world.cut();
    world.connect();
    world.settle();
    assert_eq!(world.ran_at_target, ["1"]);
    assert_eq!(world.diagnostics, []);
}

/// T-REL-12, RL-131: the payload is far above the budget.
#[test]
fn t_rel_12_a_payload_above_the_budget_goes_through() {
    let settings = RelocationSettings::builder()
        .in_flight_budget(2000)
        .build()
        .unwrap();
    let mut world = World::new(settings);
    world.state = 100_000;
    world.request();
    world.settle();
    assert_eq!(world.target.stage(), TargetStage::TargetOpen);
    assert!(world.chunks >= 100_000 / 2000, "{} chunks", world.chunks);
}

/// T-REL-25, RL-128, RL-194, RL-317: what a move sends is 40, 52, 31, 34 one way and 30 or 53 back; the
/// settings have no cap on units, records or bytes. The world panics on any other command.
#[test]
fn t_rel_25_no_acknowledgement_and_no_cap_exist() {
    let mut world = world();
    for number in 0..3000 {
        world.queue(&number.to_string());
    }
    world.request();
    until(&mut world, SourceStage::TargetRestoring);
    for number in 3000..6000 {
        world.send(&number.to_string());
    }
    world.settle();
    assert_eq!(world.ran_at_target.len(), 6000);
}
