//! Payload in, object restored and closed (TGT-5 to TGT-16, TGT-35, TGT-36).

use bytes::Bytes;
use spotlane_types::count::ParticipantId;
use spotlane_types::kind::FailureCode;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::{RelocationPrepare, RelocationState};
use spotlane_wire::relocation::{SavedWorkEntry, TimerRegistration};

use super::assembly::{Assembly, Contents, Taken, contents};
use super::backlog::Backlog;
use super::effect::{RestoreOrder, TargetEffect, TargetIgnored};
use super::event::{LocalCheck, RestoreFailure};
use super::relay::RelayReady;
use super::stage::{Context, Stage, TargetStage, Unit, earliest};
use crate::identity::{ConnectionId, OfMove, RowRead, object_generation};
use crate::saved::{binding_of, join_of};
use crate::settings::READ_WAIT_MIN;

/// The temporary queue is registered; the payload comes, or is being restored.
#[derive(Debug)]
pub struct TargetRestoring<M> {
    pub(super) unit: Unit,
    pub(super) backlog: Backlog<M>,
    progress: Progress,
    row: RowCheck,
}

/// How far the payload has got.
#[derive(Debug)]
enum Progress {
    /// Chunks are coming.
    Assembling(Box<Assembly>),
    /// The stream is whole; the row has not been read.
    Assembled(States),
    /// Instances are being made and restored.
    Restoring(States, Attempt),
    /// Restored, timers staged.
    Restored,
}

/// What instances are made of.
#[derive(Debug)]
struct States {
    states: Vec<(ParticipantId, Option<Bytes>)>,
    timers: Vec<TimerRegistration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    First,
    Second,
}

/// Whether the authority row was compared with the source's fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowCheck {
    Reading,
    Again(Monotonic),
    Equal,
}

impl<M> TargetRestoring<M> {
    /// TGT-5, TGT-6: in the receive step queue and assembly come into being; the row is read after.
    pub(super) fn begin(
        connection: ConnectionId,
        prepare: Box<RelocationPrepare>,
        local: LocalCheck,
        adopted: Option<Backlog<M>>,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        let unit = Unit::new(
            connection,
            prepare,
            cx.now.after(cx.settings.restore_validity()),
        );
        let empty = unit.prepare.payload_total_length.get() == 0
            || unit.prepare.payload_chunk_count.get() == 0;
        let failure = local.failure();
        // RL-359: a stream has at least one chunk of at least one byte.
        let failure = failure.or_else(|| empty.then_some(FailureCode::RelocationDataLost));
        if let Some(code) = failure {
            return unit.refuse(adopted.unwrap_or_default(), code, cx);
        }
        cx.enter(TargetStage::TargetRestoring);
        // R§4.3, RL-66: the queue is there before the instance is looked up, and before any chunk.
        if adopted.is_none() {
            cx.push(TargetEffect::RegisterQueue);
        }
        cx.push(TargetEffect::ReadAuthority);
        let assembly = Assembly::new(&unit.prepare, cx.reserve);
        Stage::TargetRestoring(Box::new(Self {
            unit,
            backlog: adopted.unwrap_or_default(),
            progress: Progress::Assembling(Box::new(assembly)),
            row: RowCheck::Reading,
        }))
    }

    fn refuse(self: Box<Self>, code: FailureCode, cx: &mut Context<'_, M>) -> Stage<M> {
        self.unit.refuse(self.backlog, code, cx)
    }

    /// Another command 40 before the ready reply.
    pub(super) fn prepared_again(
        mut self: Box<Self>,
        connection: ConnectionId,
        prepare: &RelocationPrepare,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        if prepare.identity() != self.unit.identity {
            cx.ignore(TargetIgnored::ForeignIdentity);
            return Stage::TargetRestoring(self);
        }
        if *prepare != *self.unit.prepare {
            // TGT-8: neither used nor overwritten; the unit ends.
            return self.refuse(FailureCode::SpotMoving, cx);
        }
        // RL-136: chunks count from the connection of the latest one. What has come stays (RL-108).
        self.unit.connection = connection;
        self.unit.seen(connection);
        cx.ignore(TargetIgnored::Repeated);
        Stage::TargetRestoring(self)
    }

    pub(super) fn chunk(
        mut self: Box<Self>,
        connection: ConnectionId,
        chunk: &RelocationState,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        // TGT-9: linked to nothing.
        if !self.unit.owns(chunk) {
            cx.ignore(TargetIgnored::ForeignIdentity);
            return Stage::TargetRestoring(self);
        }
        if connection != self.unit.connection {
            cx.ignore(TargetIgnored::OtherConnection);
            return Stage::TargetRestoring(self);
        }
        let Progress::Assembling(assembly) = &mut self.progress else {
            cx.ignore(TargetIgnored::Repeated);
            return Stage::TargetRestoring(self);
        };
        let bytes = chunk.chunk_data.as_bytes();
        match assembly.push(&self.unit.prepare, chunk.chunk_ordinal, bytes) {
            Taken::More => {}
            Taken::Repeated => cx.ignore(TargetIgnored::Repeated),
            // TGT-11, TGT-36: nothing of it is used, and nothing is repaired.
            Taken::Broken => return self.refuse(FailureCode::RelocationDataLost, cx),
            Taken::Whole(stream) => match contents(&self.unit.prepare, &stream) {
                Ok(contents) => {
                    self.stage_work(contents);
                    self.restore_when_known(cx);
                }
                Err(code) => return self.refuse(code, cx),
            },
        }
        Stage::TargetRestoring(self)
    }

    /// Takes out what the framework added and fixes the saved-work span (TGT-12, RL-357, RL-360).
    fn stage_work(&mut self, contents: Contents) {
        let relocation = self.unit.identity.relocation;
        let mut work: Vec<SavedWorkEntry> = Vec::with_capacity(contents.work.len());
        for entry in contents.work {
            if let Some(binding) = binding_of(relocation, &entry.record) {
                self.unit.bindings.push(binding);
            } else if let Some(join) = join_of(&entry.record) {
                self.unit.join = Some(join);
            } else {
                work.push(entry);
            }
        }
        self.backlog.stage(work, contents.ticks);
        self.progress = Progress::Assembled(States {
            states: contents.states,
            timers: contents.timers,
        });
    }

    /// The type of an Actor comes from the row (RL-144), so nothing is made before it was read.
    fn restore_when_known(&mut self, cx: &mut Context<'_, M>) {
        if self.row != RowCheck::Equal {
            return;
        }
        match core::mem::replace(&mut self.progress, Progress::Restored) {
            Progress::Assembled(states) => self.restore(states, Attempt::First, cx),
            other @ (Progress::Assembling(_) | Progress::Restoring(..) | Progress::Restored) => {
                self.progress = other;
            }
        }
    }

    fn restore(&mut self, states: States, attempt: Attempt, cx: &mut Context<'_, M>) {
        cx.push(TargetEffect::Restore(Box::new(RestoreOrder {
            object: self.unit.prepare.object.clone(),
            application_version: self.unit.prepare.application_version,
            states: states.states.clone(),
            timers: states.timers.clone(),
            bindings: self.unit.bindings.clone(),
        })));
        self.progress = Progress::Restoring(states, attempt);
    }

    /// TGT-35: the row is what the source says, or the move is stale.
    pub(super) fn row(mut self: Box<Self>, read: RowRead, cx: &mut Context<'_, M>) -> Stage<M> {
        if self.row != RowCheck::Reading {
            cx.ignore(TargetIgnored::LateAnswer);
            return Stage::TargetRestoring(self);
        }
        let prepare = &self.unit.prepare;
        match read {
            RowRead::Unreadable => self.row = RowCheck::Again(cx.now.after(READ_WAIT_MIN)),
            RowRead::Absent => return self.refuse(FailureCode::ActorLocationStale, cx),
            RowRead::Row(row) if row.object_generation != object_generation(&prepare.object) => {
                return self.refuse(FailureCode::SpotGenerationStale, cx);
            }
            RowRead::Row(row) if !row.is_first_read(&prepare.coordinator) => {
                return self.refuse(FailureCode::ActorLocationStale, cx);
            }
            RowRead::Row(_) => {
                self.row = RowCheck::Equal;
                self.restore_when_known(cx);
            }
        }
        Stage::TargetRestoring(self)
    }

    /// TGT-13, TGT-14.
    pub(super) fn restored(
        mut self: Box<Self>,
        restored: Result<(), RestoreFailure>,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        let progress = core::mem::replace(&mut self.progress, Progress::Restored);
        let Progress::Restoring(states, attempt) = progress else {
            self.progress = progress;
            cx.ignore(TargetIgnored::LateAnswer);
            return Stage::TargetRestoring(self);
        };
        match (restored, attempt) {
            (Ok(()), Attempt::First | Attempt::Second) => self.ready(cx),
            (Err(RestoreFailure::Failed), Attempt::First) => {
                self.restore(states, Attempt::Second, cx);
                Stage::TargetRestoring(self)
            }
            (Err(RestoreFailure::Failed), Attempt::Second) => {
                self.refuse(FailureCode::RequestFailed, cx)
            }
            (Err(RestoreFailure::NotServed), Attempt::First | Attempt::Second) => {
                self.refuse(FailureCode::RequestTargetNotFound, cx)
            }
        }
    }

    fn ready(self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        // RL-354: a ready reply that leaves no room for the cutover wait would promise too much.
        let left = self.unit.valid_until.since(cx.now);
        if left < cx.settings.cutover_wait() {
            return self.refuse(FailureCode::WorkerTimedOut, cx);
        }
        RelayReady::begin(self.unit, self.backlog, cx)
    }

    pub(super) fn shut_down(self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        self.refuse(FailureCode::RouteNotConnected, cx)
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let read = match self.row {
            RowCheck::Again(at) => Some(at),
            RowCheck::Reading | RowCheck::Equal => None,
        };
        earliest([Some(self.unit.valid_until), read])
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        // TGT-15
        if self.unit.valid_until <= cx.now {
            return self.refuse(FailureCode::WorkerTimedOut, cx);
        }
        if let RowCheck::Again(at) = self.row
            && at <= cx.now
        {
            self.row = RowCheck::Reading;
            cx.push(TargetEffect::ReadAuthority);
        }
        Stage::TargetRestoring(self)
    }
}
