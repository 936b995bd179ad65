//! A target that is prepared while a Join is approved (TGT-1 to TGT-4, RL-361).

use spotlane_types::count::ReceiveChunkLimit;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::RelocationPrepare;
use spotlane_wire::relocation::RelocationObject;

use super::backlog::Backlog;
use super::effect::{TargetEffect, TargetIgnored};
use super::event::{JoinDecision, PrewarmKey};
use super::stage::{Context, Stage, TargetStage};
use crate::settings::PREWARM_VALIDITY;

/// The temporary queue is there before the move is.
#[derive(Debug)]
pub struct Prewarmed<M> {
    key: Box<PrewarmKey>,
    until: Monotonic,
    pub(super) backlog: Backlog<M>,
}

impl<M> Prewarmed<M> {
    /// TGT-1: registers the queue and asks the Spot.
    pub(super) fn begin(key: Box<PrewarmKey>, cx: &mut Context<'_, M>) -> Stage<M> {
        cx.enter(TargetStage::Prewarmed);
        cx.push(TargetEffect::RegisterQueue);
        cx.push(TargetEffect::AdmitJoin(key.clone()));
        Stage::Prewarmed(Box::new(Self {
            key,
            until: cx.now.after(PREWARM_VALIDITY),
            backlog: Backlog::default(),
        }))
    }

    /// The same request again uses what is there; any other one takes its place (RL-139, TGT-3).
    pub(super) fn asked_again(
        self: Box<Self>,
        key: Box<PrewarmKey>,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        if *key == *self.key {
            cx.ignore(TargetIgnored::Repeated);
            return Stage::Prewarmed(self);
        }
        self.drop_all(cx);
        Self::begin(key, cx)
    }

    pub(super) fn decided(
        mut self: Box<Self>,
        key: Box<PrewarmKey>,
        decision: JoinDecision,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        if *key != *self.key {
            cx.ignore(TargetIgnored::OtherJoin);
            return Stage::Prewarmed(self);
        }
        match decision {
            JoinDecision::Accepted => {
                self.until = cx.now.after(PREWARM_VALIDITY);
                let bytes = cx.settings.chunk_limit().get();
                let chunk_limit = ReceiveChunkLimit::new(bytes).unwrap_or(ReceiveChunkLimit::MAX);
                cx.push(TargetEffect::AcceptJoin { key, chunk_limit });
                Stage::Prewarmed(self)
            }
            // TGT-2
            JoinDecision::Refused => {
                self.drop_all(cx);
                cx.enter(TargetStage::Absent);
                Stage::Absent
            }
        }
    }

    /// Whether a command 40 is the one that this was prepared for.
    pub(super) fn fits(&self, prepare: &RelocationPrepare) -> bool {
        let RelocationObject::Actor { actor, .. } = &prepare.object else {
            return false;
        };
        *actor == self.key.actor.actor && prepare.source_node_rid == self.key.peer
    }

    pub(super) const fn deadline(&self) -> Monotonic {
        self.until
    }

    /// TGT-4, RL-145: prepared and never used.
    pub(super) fn on_deadline(self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        if self.until > cx.now {
            return Stage::Prewarmed(self);
        }
        self.drop_all(cx);
        cx.enter(TargetStage::Absent);
        Stage::Absent
    }

    pub(super) fn drop_all(self: Box<Self>, cx: &mut Context<'_, M>) {
        cx.push(TargetEffect::Remove {
            arrivals: self.backlog.into_direct(),
        });
    }
}
