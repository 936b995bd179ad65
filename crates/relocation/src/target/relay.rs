//! Ready for the relay: until cutover, or the end of the wait (TGT-14, TGT-17 to TGT-21).

use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::{RelocationCutover, RelocationData};

use super::backlog::Backlog;
use super::commit::{Cause, Committing};
use super::effect::{TargetEffect, TargetIgnored};
use super::records;
use super::span::{Closing, Spans};
use super::stage::{Context, Stage, TargetStage, Unit, earliest};
use crate::diagnostic::Diagnostic;
use crate::identity::ConnectionId;

/// The ready reply was sent; the relay before the boundary comes.
#[derive(Debug)]
pub struct RelayReady<M> {
    pub(super) unit: Unit,
    pub(super) backlog: Backlog<M>,
    spans: Spans,
    cutover_until: Monotonic,
}

impl<M> RelayReady<M> {
    /// RL-67: everything is restored and owned here. RL-355: the wait starts with the first ready reply; nothing starts it again.
    pub(super) fn begin(unit: Unit, backlog: Backlog<M>, cx: &mut Context<'_, M>) -> Stage<M> {
        cx.enter(TargetStage::RelayReady);
        cx.push(TargetEffect::Send {
            connection: unit.connection,
            record: records::ready(&unit.prepare),
        });
        Stage::RelayReady(Box::new(Self {
            unit,
            backlog,
            spans: Spans::new(),
            cutover_until: cx.now.after(cx.settings.cutover_wait()),
        }))
    }

    pub(super) fn relay(
        &mut self,
        connection: ConnectionId,
        relay: RelocationData,
        cx: &mut Context<'_, M>,
    ) {
        if !self.unit.owns(&relay) {
            cx.ignore(TargetIgnored::ForeignIdentity);
            return;
        }
        self.unit.seen(connection);
        if !self.spans.push(connection, *relay.record) {
            cx.diagnose(Diagnostic::RecordNotEncodable);
        }
    }

    pub(super) fn cut_over(
        mut self: Box<Self>,
        connection: ConnectionId,
        cutover: &RelocationCutover,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        if !self.unit.owns(cutover) {
            cx.ignore(TargetIgnored::ForeignIdentity);
            return Stage::RelayReady(self);
        }
        // TGT-26, RL-354: the validity covers the owner change.
        if self.unit.valid_until <= cx.now {
            return self.unit.remove(self.backlog, cx);
        }
        self.unit.seen(connection);
        let forget = cx.now.after(cx.settings.restore_validity());
        match self.spans.close(connection, cutover, forget) {
            // TGT-18
            Closing::Closed(records, late) => {
                self.backlog.close_relay(records);
                cx.enter(TargetStage::CutoverReceived);
                Committing::begin(self.unit, self.backlog, late, Cause::Received, cx)
            }
            // TGT-19: no cutover; the wait goes on.
            Closing::Mismatch => {
                cx.diagnose(Diagnostic::CutoverBoundaryMismatch);
                Stage::RelayReady(self)
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        earliest([Some(self.cutover_until), Some(self.unit.valid_until)])
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        // TGT-26; RL-355: if validity ends first, there is no fallback.
        if self.unit.valid_until <= cx.now {
            return self.unit.remove(self.backlog, cx);
        }
        if self.cutover_until > cx.now {
            return Stage::RelayReady(self);
        }
        // TGT-21
        cx.enter(TargetStage::CutoverFallback);
        cx.diagnose(Diagnostic::CutoverTimeout);
        let until = cx.now.after(cx.settings.cutover_wait());
        let forget = cx.now.after(cx.settings.restore_validity());
        let (records, late) = self.spans.give_up(self.unit.connection, until, forget);
        self.backlog.close_relay(records);
        Committing::begin(self.unit, self.backlog, late, Cause::Fallback, cx)
    }
}
