//! Owner: callbacks with dispatch closed, then open (TGT-27 to TGT-31, RL-69, RL-70).

use core::time::Duration;
use std::collections::VecDeque;

use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::RelocationData;

use super::commit::OwnerCommitted;
use super::effect::{LifecycleStep, TargetEffect, TargetIgnored, TargetPoint};
use super::event::LifecycleOutcome;
use super::records;
use super::span::{Late, Released};
use super::stage::{Context, Stage, TargetStage, Unit, earliest};
use super::tombstone::Epitaph;
use crate::diagnostic::Diagnostic;
use crate::identity::ConnectionId;
use crate::settings::READ_WAIT_MIN;
use crate::unit::UnitKind;

/// This node is owner; the lanes have the backlog and do not run it yet.
#[derive(Debug)]
pub struct Committed {
    pub(super) unit: Unit,
    late: Late,
    tenure: AuthorityOwnerGeneration,
    proof: OwnerCommitted,
    s2: Monotonic,
    steps: VecDeque<LifecycleStep>,
    turn: Turn,
    wait: Duration,
}

/// Whether a callback runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Running,
    /// It failed and is run again at this time (TGT-28).
    AgainAt(Monotonic),
}

impl Committed {
    pub(super) fn begin<M>(
        unit: Unit,
        late: Late,
        tenure: AuthorityOwnerGeneration,
        proof: OwnerCommitted,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        let mut steps = VecDeque::new();
        if let Some(join) = &unit.join {
            steps.push_back(LifecycleStep::Joined(Box::new(join.clone())));
            steps.push_back(LifecycleStep::JoinCompleted(Box::new(join.clone())));
        }
        if UnitKind::of(&unit.prepare.object) == UnitKind::UserSpot {
            steps.push_back(LifecycleStep::RelocationReadyCompleted);
        }
        let committed = Box::new(Self {
            unit,
            late,
            tenure,
            proof,
            s2: cx.now,
            steps,
            turn: Turn::Running,
            wait: READ_WAIT_MIN,
        });
        committed.run_next(cx)
    }

    /// Runs the next callback; after the last one dispatch opens.
    fn run_next<M>(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        if let Some(step) = self.steps.front() {
            self.turn = Turn::Running;
            cx.push(TargetEffect::RunLifecycle(step.clone()));
            return Stage::OwnerCommitted(self);
        }
        self.open(cx)
    }

    pub(super) fn lifecycle_ended<M>(
        mut self: Box<Self>,
        outcome: LifecycleOutcome,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        if self.turn != Turn::Running {
            cx.ignore(TargetIgnored::LateAnswer);
            return Stage::OwnerCommitted(self);
        }
        match outcome {
            LifecycleOutcome::Done => {
                // RL-70: the former owner's callback is announced before the Join completes.
                if let Some(LifecycleStep::Joined(join)) = self.steps.pop_front()
                    && let Some(record) = records::left(&join, self.tenure)
                {
                    cx.push(TargetEffect::SendToNode {
                        node_rid: self.unit.prepare.source_node_rid.clone(),
                        node_generation: self.unit.prepare.source_node_generation,
                        record,
                    });
                }
                self.wait = READ_WAIT_MIN;
                self.run_next(cx)
            }
            // TGT-28, RL-77: on the same node, with admission closed; it never rolls back.
            LifecycleOutcome::Failed => {
                self.turn = Turn::AgainAt(cx.now.after(self.wait));
                let longer = self.wait.saturating_mul(2);
                self.wait = longer.min(cx.settings.polling_interval());
                Stage::OwnerCommitted(self)
            }
        }
    }

    /// S3, and right after it what others wait for (RL-72, D-14).
    fn open<M>(self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        let this = *self;
        cx.push(TargetEffect::Open(this.proof));
        cx.enter(TargetStage::TargetOpen);
        let resume = cx.now.since(this.s2);
        cx.push(TargetEffect::Reached(TargetPoint::S3 { resume }));
        // TGT-29: one for each binding, and not repeated.
        for binding in &this.unit.bindings {
            let owner = &binding.session_owner;
            cx.push(TargetEffect::SendToNode {
                node_rid: owner.node_rid.clone(),
                node_generation: owner.node_generation,
                record: records::route(&this.unit.prepare, binding, this.tenure),
            });
        }
        cx.push(TargetEffect::RecordActivated);
        Stage::TargetOpen(Box::new(TargetOpen {
            unit: this.unit,
            late: this.late,
        }))
    }

    pub(super) fn relay<M>(
        &mut self,
        connection: ConnectionId,
        relay: RelocationData,
        cx: &mut Context<'_, M>,
    ) {
        late_relay(&mut self.unit, &mut self.late, connection, relay, cx);
    }

    pub(super) fn late_cutover<M>(&mut self, connection: ConnectionId, cx: &mut Context<'_, M>) {
        late_cutover(&mut self.unit, &mut self.late, connection, cx);
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let again = match self.turn {
            Turn::AgainAt(at) => Some(at),
            Turn::Running => None,
        };
        earliest([again, self.late.deadline()])
    }

    pub(super) fn on_deadline<M>(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        deliver(self.late.on_deadline(cx.now), cx);
        match self.turn {
            Turn::AgainAt(at) if at <= cx.now => self.run_next(cx),
            Turn::AgainAt(_) | Turn::Running => Stage::OwnerCommitted(self),
        }
    }
}

/// Dispatch is open. What the source still relays goes behind what the lanes have (RL-362).
#[derive(Debug)]
pub struct TargetOpen {
    pub(super) unit: Unit,
    late: Late,
}

impl TargetOpen {
    pub(super) fn relay<M>(
        &mut self,
        connection: ConnectionId,
        relay: RelocationData,
        cx: &mut Context<'_, M>,
    ) {
        late_relay(&mut self.unit, &mut self.late, connection, relay, cx);
    }

    pub(super) fn late_cutover<M>(&mut self, connection: ConnectionId, cx: &mut Context<'_, M>) {
        late_cutover(&mut self.unit, &mut self.late, connection, cx);
    }

    /// RL-362: the object has moved on, and what still waited for a cutover follows it.
    pub(super) fn tenure_ended<M>(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        cx.bury(&self.unit, Epitaph::MovedOn);
        cx.enter(TargetStage::Absent);
        let released = self.late.end();
        for _ in 0..released.repeated {
            cx.ignore(TargetIgnored::AlreadyRelayed);
        }
        for record in released.records {
            cx.push(TargetEffect::Forward(Box::new(record)));
        }
        Stage::Absent
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.late.deadline()
    }

    pub(super) fn on_deadline<M>(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        deliver(self.late.on_deadline(cx.now), cx);
        Stage::TargetOpen(self)
    }
}

fn late_relay<M>(
    unit: &mut Unit,
    late: &mut Late,
    connection: ConnectionId,
    relay: RelocationData,
    cx: &mut Context<'_, M>,
) {
    if !unit.owns(&relay) {
        cx.ignore(TargetIgnored::ForeignIdentity);
        return;
    }
    unit.seen(connection);
    let until = cx.now.after(cx.settings.cutover_wait());
    deliver(late.push(connection, *relay.record, until), cx);
}

fn late_cutover<M>(
    unit: &mut Unit,
    late: &mut Late,
    connection: ConnectionId,
    cx: &mut Context<'_, M>,
) {
    cx.diagnose(Diagnostic::LateCutover);
    unit.seen(connection);
    deliver(late.close(connection), cx);
}

fn deliver<M>(released: Released, cx: &mut Context<'_, M>) {
    for _ in 0..released.repeated {
        cx.ignore(TargetIgnored::AlreadyRelayed);
    }
    for record in released.records {
        cx.push(TargetEffect::Deliver(Box::new(record)));
    }
}
