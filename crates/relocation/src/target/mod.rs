//! The target of a move: one machine for one object, from nothing here to served here.
//!
//! | stage | what happens | ends by |
//! |---|---|---|
//! | `Absent` | commands of unknown moves are discarded (TGT-37) | 28 (TGT-1), 40 (TGT-5) |
//! | `Prewarmed` | a Join is approved; the temporary queue is there | 40 (TGT-5), time (TGT-4), refusal (TGT-2) |
//! | `TargetRestoring` | chunks, checksum, row, factory, restore; arrivals wait | restored: 30 (TGT-14); any failure: 53 (TGT-8, TGT-11, TGT-13, TGT-15, TGT-35, TGT-36) |
//! | `RelayReady` | relayed records come | verified 34 (TGT-18), the wait is over (TGT-21), validity (TGT-26) |
//! | `CutoverReceived` | the owner change is sent | applied (TGT-23), not known (TGT-24), validity |
//! | `CutoverFallback` | the same, with `cutover_timeout` | the same |
//! | `StoreRetry` | read, then the same change again | owner (TGT-23), another owner (TGT-25), validity (TGT-26) |
//! | `OwnerCommitted` | merged and routed; callbacks with dispatch closed | the last callback: open, 44 (TGT-27, TGT-29) |
//! | `TargetOpen` | late relay goes behind; late 34 warns (TGT-30, TGT-31) | the tenure ends |
//! | `TargetRemoved` | everything is gone; the identity is remembered (TGT-32, RL-353) | time |
//!
//! The owner change is asked for here and nowhere else (RL-20). Its answer alone makes the proof
//! [`OwnerCommitted`], without which no backlog can be merged.

mod assembly;
mod backlog;
mod commit;
mod effect;
mod event;
mod memory;
mod open;
mod prewarm;
mod records;
mod relay;
mod restore;
mod span;
mod stage;
#[cfg(test)]
mod tests;
mod tombstone;

use spotlane_types::kind::RelocationRole;
use spotlane_types::machine::Machine;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::{
    RelocationCutover, RelocationData, RelocationPrepare, RelocationState,
};

pub use backlog::{Backlog, BacklogItem};
pub use commit::{Committing, OwnerCommitted};
pub use effect::{
    CommitOrder, LifecycleStep, RestoreOrder, TargetEffect, TargetIgnored, TargetPoint,
};
pub use event::{
    CommitAnswer, JoinDecision, LifecycleOutcome, LocalCheck, PrewarmKey, RestoreFailure,
    TargetEvent,
};
pub use memory::{ReserveMemory, StreamMemory};
pub use open::{Committed, TargetOpen};
pub use prewarm::Prewarmed;
pub use relay::RelayReady;
pub use restore::TargetRestoring;
pub use stage::{Context, Stage, TargetStage};

use crate::diagnostic::Diagnostic;
use crate::identity::{ConnectionId, OfMove};
use crate::settings::RelocationSettings;
use stage::earliest;
use tombstone::{Epitaph, Tombstones};

/// The machine of one object at a node that it may come to.
///
/// `M` is what the host queues when a message arrives here directly; the machine only keeps it in its
/// place.
#[derive(Debug)]
pub struct Target<M> {
    settings: RelocationSettings,
    reserve: ReserveMemory,
    stage: Stage<M>,
    tombstones: Tombstones,
}

impl<M> Target<M> {
    /// Nothing of the object is here. Payloads are put together on the heap.
    pub fn new(settings: RelocationSettings) -> Self {
        Self::with_memory(settings, |_| None)
    }

    /// As [`Self::new`], with memory of the host for the payloads that it has some for.
    pub fn with_memory(settings: RelocationSettings, reserve: ReserveMemory) -> Self {
        Self {
            settings,
            reserve,
            stage: Stage::Absent,
            tombstones: Tombstones::default(),
        }
    }

    /// The stage it is in.
    pub const fn stage(&self) -> TargetStage {
        self.stage.name()
    }

    /// Whether nothing is left to remember, so that the machine can be dropped.
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Absent) && self.tombstones.is_empty()
    }

    /// Runs the stage, which is taken out meanwhile.
    fn step(
        &mut self,
        now: Monotonic,
        out: &mut Vec<TargetEffect<M>>,
        act: impl FnOnce(Stage<M>, &mut Context<'_, M>) -> Stage<M>,
    ) {
        let stage = core::mem::replace(&mut self.stage, Stage::Absent);
        let mut context = Context {
            now,
            settings: &self.settings,
            reserve: self.reserve,
            tombstones: &mut self.tombstones,
            out,
        };
        self.stage = act(stage, &mut context);
    }
}

impl<M> Machine for Target<M> {
    type Event = TargetEvent<M>;
    type Effect = TargetEffect<M>;

    fn on_event(&mut self, now: Monotonic, event: TargetEvent<M>, out: &mut Vec<TargetEffect<M>>) {
        self.step(now, out, |stage, cx| match event {
            TargetEvent::JoinRequested(key) => join_requested(stage, key, cx),
            TargetEvent::JoinDecided { key, decision } => join_decided(stage, key, decision, cx),
            TargetEvent::Prepare {
                connection,
                prepare,
                local,
            } => prepared(stage, connection, prepare, local, cx),
            TargetEvent::Chunk { connection, chunk } => chunk_came(stage, connection, &chunk, cx),
            TargetEvent::Relay { connection, relay } => relayed(stage, connection, *relay, cx),
            TargetEvent::Cutover {
                connection,
                cutover,
            } => cut_over(stage, connection, &cutover, cx),
            TargetEvent::ConnectionLost(lost) => connection_lost(stage, lost, cx),
            TargetEvent::Arrived(message) => arrived(stage, message, cx),
            TargetEvent::AuthorityRead(read) => match stage {
                Stage::TargetRestoring(stage) => stage.row(read, cx),
                Stage::CutoverReceived(stage)
                | Stage::CutoverFallback(stage)
                | Stage::StoreRetry(stage) => stage.row(read, cx),
                stage @ (Stage::Absent
                | Stage::Prewarmed(_)
                | Stage::RelayReady(_)
                | Stage::OwnerCommitted(_)
                | Stage::TargetOpen(_)
                | Stage::TargetRemoved) => late(stage, cx),
            },
            TargetEvent::Restored(restored) => match stage {
                Stage::TargetRestoring(stage) => stage.restored(restored, cx),
                stage @ (Stage::Absent
                | Stage::Prewarmed(_)
                | Stage::RelayReady(_)
                | Stage::CutoverReceived(_)
                | Stage::CutoverFallback(_)
                | Stage::StoreRetry(_)
                | Stage::OwnerCommitted(_)
                | Stage::TargetOpen(_)
                | Stage::TargetRemoved) => late(stage, cx),
            },
            TargetEvent::CommitAnswered(answer) => match stage {
                Stage::CutoverReceived(stage)
                | Stage::CutoverFallback(stage)
                | Stage::StoreRetry(stage) => stage.answered(answer, cx),
                // TGT-32: an answer for a unit that has ended revives nothing.
                stage @ (Stage::Absent
                | Stage::Prewarmed(_)
                | Stage::TargetRestoring(_)
                | Stage::RelayReady(_)
                | Stage::OwnerCommitted(_)
                | Stage::TargetOpen(_)
                | Stage::TargetRemoved) => late(stage, cx),
            },
            TargetEvent::LifecycleEnded(outcome) => match stage {
                Stage::OwnerCommitted(stage) => stage.lifecycle_ended(outcome, cx),
                stage @ (Stage::Absent
                | Stage::Prewarmed(_)
                | Stage::TargetRestoring(_)
                | Stage::RelayReady(_)
                | Stage::CutoverReceived(_)
                | Stage::CutoverFallback(_)
                | Stage::StoreRetry(_)
                | Stage::TargetOpen(_)
                | Stage::TargetRemoved) => late(stage, cx),
            },
            TargetEvent::TenureEnded => tenure_ended(stage, cx),
            TargetEvent::Shutdown => shut_down(stage, cx),
        });
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let of_stage = match &self.stage {
            Stage::Prewarmed(stage) => Some(stage.deadline()),
            Stage::TargetRestoring(stage) => stage.deadline(),
            Stage::RelayReady(stage) => stage.deadline(),
            Stage::CutoverReceived(stage)
            | Stage::CutoverFallback(stage)
            | Stage::StoreRetry(stage) => stage.deadline(),
            Stage::OwnerCommitted(stage) => stage.deadline(),
            Stage::TargetOpen(stage) => stage.deadline(),
            Stage::Absent | Stage::TargetRemoved => None,
        };
        earliest([of_stage, self.tombstones.deadline()])
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Vec<TargetEffect<M>>) {
        self.tombstones.on_deadline(now);
        self.step(now, out, |stage, cx| match stage {
            Stage::Prewarmed(stage) => stage.on_deadline(cx),
            Stage::TargetRestoring(stage) => stage.on_deadline(cx),
            Stage::RelayReady(stage) => stage.on_deadline(cx),
            Stage::CutoverReceived(stage)
            | Stage::CutoverFallback(stage)
            | Stage::StoreRetry(stage) => stage.on_deadline(cx),
            Stage::OwnerCommitted(stage) => stage.on_deadline(cx),
            Stage::TargetOpen(stage) => stage.on_deadline(cx),
            Stage::TargetRemoved if cx.tombstones.is_empty() => {
                cx.enter(TargetStage::Absent);
                Stage::Absent
            }
            stage @ (Stage::Absent | Stage::TargetRemoved) => stage,
        });
    }
}

fn late<M>(stage: Stage<M>, cx: &mut Context<'_, M>) -> Stage<M> {
    cx.ignore(TargetIgnored::LateAnswer);
    stage
}

/// WR-51: only the source sends these; anything else is reported and changes nothing.
fn from_source<M>(command: &impl OfMove, cx: &mut Context<'_, M>) -> bool {
    let right = command.role() == RelocationRole::Source;
    if !right {
        cx.diagnose(Diagnostic::WrongRole);
    }
    right
}

fn join_requested<M>(stage: Stage<M>, key: Box<PrewarmKey>, cx: &mut Context<'_, M>) -> Stage<M> {
    match stage {
        Stage::Absent | Stage::TargetRemoved => Prewarmed::begin(key, cx),
        Stage::Prewarmed(stage) => stage.asked_again(key, cx),
        // RL-139 is about waiting prepares; a unit on its way is not given up for a request.
        stage @ (Stage::TargetRestoring(_)
        | Stage::RelayReady(_)
        | Stage::CutoverReceived(_)
        | Stage::CutoverFallback(_)
        | Stage::StoreRetry(_)
        | Stage::OwnerCommitted(_)
        | Stage::TargetOpen(_)) => {
            cx.push(TargetEffect::RefuseJoin(key));
            stage
        }
    }
}

fn join_decided<M>(
    stage: Stage<M>,
    key: Box<PrewarmKey>,
    decision: JoinDecision,
    cx: &mut Context<'_, M>,
) -> Stage<M> {
    match stage {
        Stage::Prewarmed(stage) => stage.decided(key, decision, cx),
        stage @ (Stage::Absent
        | Stage::TargetRestoring(_)
        | Stage::RelayReady(_)
        | Stage::CutoverReceived(_)
        | Stage::CutoverFallback(_)
        | Stage::StoreRetry(_)
        | Stage::OwnerCommitted(_)
        | Stage::TargetOpen(_)
        | Stage::TargetRemoved) => late(stage, cx),
    }
}

fn prepared<M>(
    stage: Stage<M>,
    connection: ConnectionId,
    prepare: Box<RelocationPrepare>,
    local: LocalCheck,
    cx: &mut Context<'_, M>,
) -> Stage<M> {
    if !from_source(&*prepare, cx) {
        return stage;
    }
    match stage {
        Stage::TargetRestoring(stage) => stage.prepared_again(connection, &prepare, cx),
        Stage::RelayReady(mut stage) => {
            stage.unit.prepared_again(connection, &prepare, cx);
            Stage::RelayReady(stage)
        }
        Stage::CutoverReceived(mut stage)
        | Stage::CutoverFallback(mut stage)
        | Stage::StoreRetry(mut stage) => {
            stage.unit.prepared_again(connection, &prepare, cx);
            stage.stay()
        }
        Stage::OwnerCommitted(mut stage) => {
            stage.unit.prepared_again(connection, &prepare, cx);
            Stage::OwnerCommitted(stage)
        }
        Stage::TargetOpen(mut stage) => {
            stage.unit.prepared_again(connection, &prepare, cx);
            Stage::TargetOpen(stage)
        }
        Stage::Prewarmed(stage) if stage.fits(&prepare) => {
            let adopted = Some(stage.backlog);
            TargetRestoring::begin(connection, prepare, local, adopted, cx)
        }
        stage @ (Stage::Absent | Stage::Prewarmed(_) | Stage::TargetRemoved) => {
            prepared_anew(stage, connection, prepare, local, cx)
        }
    }
}

/// A command 40 where no unit is: a new one, unless its identity has ended here before (RL-353).
fn prepared_anew<M>(
    stage: Stage<M>,
    connection: ConnectionId,
    prepare: Box<RelocationPrepare>,
    local: LocalCheck,
    cx: &mut Context<'_, M>,
) -> Stage<M> {
    match cx.tombstones.find(&prepare.identity()) {
        Some(Epitaph::Failed(code)) => {
            let record = records::failed(&prepare, code);
            cx.push(TargetEffect::Send { connection, record });
            stage
        }
        Some(Epitaph::Removed | Epitaph::MovedOn) => {
            cx.ignore(TargetIgnored::Terminal);
            stage
        }
        None => {
            // RL-139: a waiting prepare gives way to another identity.
            if let Stage::Prewarmed(prewarmed) = stage {
                prewarmed.drop_all(cx);
            }
            TargetRestoring::begin(connection, prepare, local, None, cx)
        }
    }
}

fn chunk_came<M>(
    stage: Stage<M>,
    connection: ConnectionId,
    chunk: &RelocationState,
    cx: &mut Context<'_, M>,
) -> Stage<M> {
    if !from_source(chunk, cx) {
        return stage;
    }
    match stage {
        Stage::TargetRestoring(stage) => stage.chunk(connection, chunk, cx),
        stage @ (Stage::RelayReady(_)
        | Stage::CutoverReceived(_)
        | Stage::CutoverFallback(_)
        | Stage::StoreRetry(_)
        | Stage::OwnerCommitted(_)
        | Stage::TargetOpen(_)) => {
            cx.ignore(TargetIgnored::Repeated);
            stage
        }
        stage @ (Stage::Absent | Stage::Prewarmed(_) | Stage::TargetRemoved) => {
            unknown(chunk, cx);
            stage
        }
    }
}

/// TGT-32, TGT-37: discarded, and counted by whoever counts what is ignored.
fn unknown<M>(command: &impl OfMove, cx: &mut Context<'_, M>) {
    let reason = match cx.tombstones.find(&command.identity()) {
        Some(_) => TargetIgnored::Terminal,
        None => TargetIgnored::UnknownIdentity,
    };
    cx.ignore(reason);
}

fn relayed<M>(
    stage: Stage<M>,
    connection: ConnectionId,
    relay: RelocationData,
    cx: &mut Context<'_, M>,
) -> Stage<M> {
    if !from_source(&relay, cx) {
        return stage;
    }
    // RL-362: the object was here in this move and has moved on.
    if cx.tombstones.find(&relay.identity()) == Some(Epitaph::MovedOn) {
        cx.push(TargetEffect::Forward(relay.record));
        return stage;
    }
    match stage {
        Stage::RelayReady(mut stage) => {
            stage.relay(connection, relay, cx);
            Stage::RelayReady(stage)
        }
        Stage::CutoverReceived(mut stage)
        | Stage::CutoverFallback(mut stage)
        | Stage::StoreRetry(mut stage) => {
            stage.relay(connection, relay, cx);
            stage.stay()
        }
        Stage::OwnerCommitted(mut stage) => {
            stage.relay(connection, relay, cx);
            Stage::OwnerCommitted(stage)
        }
        Stage::TargetOpen(mut stage) => {
            stage.relay(connection, relay, cx);
            Stage::TargetOpen(stage)
        }
        Stage::TargetRestoring(stage) => {
            early(&stage.unit, &relay, cx);
            Stage::TargetRestoring(stage)
        }
        stage @ (Stage::Absent | Stage::Prewarmed(_) | Stage::TargetRemoved) => {
            unknown(&relay, cx);
            stage
        }
    }
}

fn early<M>(unit: &stage::Unit, command: &impl OfMove, cx: &mut Context<'_, M>) {
    let ours = unit.owns(command);
    cx.ignore(if ours {
        TargetIgnored::Early
    } else {
        TargetIgnored::ForeignIdentity
    });
}

fn cut_over<M>(
    stage: Stage<M>,
    connection: ConnectionId,
    cutover: &RelocationCutover,
    cx: &mut Context<'_, M>,
) -> Stage<M> {
    if !from_source(cutover, cx) {
        return stage;
    }
    match stage {
        Stage::RelayReady(stage) => stage.cut_over(connection, cutover, cx),
        Stage::CutoverReceived(mut stage)
        | Stage::CutoverFallback(mut stage)
        | Stage::StoreRetry(mut stage) => {
            if stage.unit.owns(cutover) {
                stage.late_cutover(connection, cx);
            } else {
                cx.ignore(TargetIgnored::ForeignIdentity);
            }
            stage.stay()
        }
        Stage::OwnerCommitted(mut stage) => {
            if stage.unit.owns(cutover) {
                stage.late_cutover(connection, cx);
            } else {
                cx.ignore(TargetIgnored::ForeignIdentity);
            }
            Stage::OwnerCommitted(stage)
        }
        Stage::TargetOpen(mut stage) => {
            if stage.unit.owns(cutover) {
                stage.late_cutover(connection, cx);
            } else {
                cx.ignore(TargetIgnored::ForeignIdentity);
            }
            Stage::TargetOpen(stage)
        }
        Stage::TargetRestoring(stage) => {
            early(&stage.unit, cutover, cx);
            Stage::TargetRestoring(stage)
        }
        stage @ (Stage::Absent | Stage::Prewarmed(_) | Stage::TargetRemoved) => {
            unknown(cutover, cx);
            stage
        }
    }
}

fn connection_lost<M>(
    mut stage: Stage<M>,
    lost: ConnectionId,
    cx: &mut Context<'_, M>,
) -> Stage<M> {
    cx.tombstones.connection_lost(lost);
    match &mut stage {
        Stage::TargetRestoring(stage) => stage.unit.connection_lost(lost),
        Stage::RelayReady(stage) => stage.unit.connection_lost(lost),
        Stage::CutoverReceived(stage)
        | Stage::CutoverFallback(stage)
        | Stage::StoreRetry(stage) => stage.unit.connection_lost(lost),
        Stage::OwnerCommitted(stage) => stage.unit.connection_lost(lost),
        Stage::TargetOpen(stage) => stage.unit.connection_lost(lost),
        Stage::Absent | Stage::Prewarmed(_) | Stage::TargetRemoved => {}
    }
    stage
}

/// TGT-16: in the temporary queue, and to no handler.
fn arrived<M>(mut stage: Stage<M>, message: M, cx: &mut Context<'_, M>) -> Stage<M> {
    match &mut stage {
        Stage::Prewarmed(stage) => stage.backlog.push_direct(message),
        Stage::TargetRestoring(stage) => stage.backlog.push_direct(message),
        Stage::RelayReady(stage) => stage.backlog.push_direct(message),
        Stage::CutoverReceived(stage)
        | Stage::CutoverFallback(stage)
        | Stage::StoreRetry(stage) => stage.backlog.push_direct(message),
        Stage::Absent | Stage::OwnerCommitted(_) | Stage::TargetOpen(_) | Stage::TargetRemoved => {
            cx.push(TargetEffect::GiveBack(message));
        }
    }
    stage
}

/// RL-362: what is still relayed for this move follows the object.
fn tenure_ended<M>(stage: Stage<M>, cx: &mut Context<'_, M>) -> Stage<M> {
    match stage {
        Stage::TargetOpen(stage) => stage.tenure_ended(cx),
        stage @ (Stage::Absent
        | Stage::Prewarmed(_)
        | Stage::TargetRestoring(_)
        | Stage::RelayReady(_)
        | Stage::CutoverReceived(_)
        | Stage::CutoverFallback(_)
        | Stage::StoreRetry(_)
        | Stage::OwnerCommitted(_)
        | Stage::TargetRemoved) => {
            cx.ignore(TargetIgnored::NoDifference);
            stage
        }
    }
}

/// TGT-36: only before the ready reply; after it the move goes on to its own end.
fn shut_down<M>(stage: Stage<M>, cx: &mut Context<'_, M>) -> Stage<M> {
    match stage {
        Stage::TargetRestoring(stage) => stage.shut_down(cx),
        Stage::Prewarmed(stage) => {
            stage.drop_all(cx);
            cx.enter(TargetStage::Absent);
            Stage::Absent
        }
        stage @ (Stage::RelayReady(_)
        | Stage::CutoverReceived(_)
        | Stage::CutoverFallback(_)
        | Stage::StoreRetry(_)
        | Stage::OwnerCommitted(_)) => {
            cx.ignore(TargetIgnored::MoveGoesOn);
            stage
        }
        stage @ (Stage::Absent | Stage::TargetOpen(_) | Stage::TargetRemoved) => {
            cx.ignore(TargetIgnored::NoDifference);
            stage
        }
    }
}
