//! The stages of a target, and what they share.

use core::time::Duration;

use spotlane_types::kind::FailureCode;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::RelocationPrepare;

use super::backlog::Backlog;
use super::commit::Committing;
use super::effect::{TargetEffect, TargetIgnored};
use super::memory::ReserveMemory;
use super::open::{Committed, TargetOpen};
use super::prewarm::Prewarmed;
use super::records;
use super::relay::RelayReady;
use super::restore::TargetRestoring;
use super::tombstone::{Epitaph, Tombstones};
use crate::diagnostic::Diagnostic;
use crate::identity::{ConnectionId, OfMove, RelocationIdentity};
use crate::saved::JoinData;
use crate::settings::RelocationSettings;
use crate::unit::Binding;

/// The name of a stage, as the contract has it (R§11, RL section 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL section 15")]
pub enum TargetStage {
    /// Nothing of the object is here.
    Absent,
    /// A join is being approved, or was.
    Prewarmed,
    /// The temporary queue is there; the payload comes, or is being restored.
    TargetRestoring,
    /// The ready reply was sent; the relay comes.
    RelayReady,
    /// The whole relay before the boundary is here; the owner change is asked for.
    CutoverReceived,
    /// The wait was over without it; the owner change is asked for.
    CutoverFallback,
    /// Whether the owner change happened is not known.
    StoreRetry,
    /// This node is owner; dispatch is closed.
    OwnerCommitted,
    /// Dispatch is open.
    TargetOpen,
    /// The move ended without this node as owner.
    TargetRemoved,
}

/// One stage with its data.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stage<M> {
    /// [`TargetStage::Absent`].
    Absent,
    /// [`TargetStage::Prewarmed`].
    Prewarmed(Box<Prewarmed<M>>),
    /// [`TargetStage::TargetRestoring`].
    TargetRestoring(Box<TargetRestoring<M>>),
    /// [`TargetStage::RelayReady`].
    RelayReady(Box<RelayReady<M>>),
    /// [`TargetStage::CutoverReceived`].
    CutoverReceived(Box<Committing<M>>),
    /// [`TargetStage::CutoverFallback`].
    CutoverFallback(Box<Committing<M>>),
    /// [`TargetStage::StoreRetry`].
    StoreRetry(Box<Committing<M>>),
    /// [`TargetStage::OwnerCommitted`].
    OwnerCommitted(Box<Committed>),
    /// [`TargetStage::TargetOpen`].
    TargetOpen(Box<TargetOpen>),
    /// [`TargetStage::TargetRemoved`].
    TargetRemoved,
}

impl<M> Stage<M> {
    /// Its name.
    pub const fn name(&self) -> TargetStage {
        match self {
            Self::Absent => TargetStage::Absent,
            Self::Prewarmed(_) => TargetStage::Prewarmed,
            Self::TargetRestoring(_) => TargetStage::TargetRestoring,
            Self::RelayReady(_) => TargetStage::RelayReady,
            Self::CutoverReceived(_) => TargetStage::CutoverReceived,
            Self::CutoverFallback(_) => TargetStage::CutoverFallback,
            Self::StoreRetry(_) => TargetStage::StoreRetry,
            Self::OwnerCommitted(_) => TargetStage::OwnerCommitted,
            Self::TargetOpen(_) => TargetStage::TargetOpen,
            Self::TargetRemoved => TargetStage::TargetRemoved,
        }
    }
}

/// What a stage has at hand while it acts. Only the machine makes one.
#[derive(Debug)]
pub struct Context<'a, M> {
    pub(super) now: Monotonic,
    pub(super) settings: &'a RelocationSettings,
    pub(super) reserve: ReserveMemory,
    pub(super) tombstones: &'a mut Tombstones,
    pub(super) out: &'a mut Vec<TargetEffect<M>>,
}

impl<M> Context<'_, M> {
    pub(super) fn push(&mut self, effect: TargetEffect<M>) {
        self.out.push(effect);
    }

    pub(super) fn enter(&mut self, stage: TargetStage) {
        self.out.push(TargetEffect::Entered(stage));
    }

    pub(super) fn ignore(&mut self, reason: TargetIgnored) {
        self.out.push(TargetEffect::Ignored(reason));
    }

    pub(super) fn diagnose(&mut self, diagnostic: Diagnostic) {
        self.out.push(TargetEffect::Diagnose(diagnostic));
    }

    /// How long an identity is remembered (RL-353).
    fn memory(&self) -> Monotonic {
        let twice: Duration = self.settings.restore_validity().saturating_mul(2);
        self.now.after(twice)
    }

    pub(super) fn bury(&mut self, unit: &Unit, epitaph: Epitaph) {
        let identity = unit.identity.clone();
        let (until, open) = match epitaph {
            Epitaph::Failed(_) | Epitaph::Removed => (self.memory(), unit.connections.clone()),
            // RL-362, RL-150: what is relayed late follows the object, so nothing is remembered once Follow leads nowhere. A
            // connection between two nodes stays for as long as they run: tied to it, every move would be kept for ever.
            Epitaph::MovedOn => {
                let follows = self.now.after(self.settings.follow_duration());
                (self.memory().max(follows), Vec::new())
            }
        };
        self.tombstones.bury(identity, epitaph, until, open);
    }
}

/// What every stage of a unit carries from its command 40 on.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) identity: RelocationIdentity,
    pub(super) prepare: Box<RelocationPrepare>,
    /// The connection of the latest identical command 40 (RL-136).
    pub(super) connection: ConnectionId,
    /// All connections that something of this move came on and that are open.
    pub(super) connections: Vec<ConnectionId>,
    /// When it all has to be over (RL-354).
    pub(super) valid_until: Monotonic,
    /// The client sessions of its Actors (RL-357).
    pub(super) bindings: Vec<Binding>,
    /// The Join, if it is one (RL-360).
    pub(super) join: Option<JoinData>,
}

impl Unit {
    pub(super) fn new(
        connection: ConnectionId,
        prepare: Box<RelocationPrepare>,
        valid_until: Monotonic,
    ) -> Self {
        Self {
            identity: prepare.identity(),
            prepare,
            connection,
            connections: vec![connection],
            valid_until,
            bindings: Vec::new(),
            join: None,
        }
    }

    /// Whether a command belongs to this move.
    pub(super) fn owns(&self, command: &impl OfMove) -> bool {
        command.identity() == self.identity && *command.object() == self.prepare.object
    }

    /// Remembers that something of this move came on a connection.
    pub(super) fn seen(&mut self, connection: ConnectionId) {
        if !self.connections.contains(&connection) {
            self.connections.push(connection);
        }
    }

    pub(super) fn connection_lost(&mut self, lost: ConnectionId) {
        self.connections.retain(|open| *open != lost);
    }

    /// Cleans up and says so: the explicit failure before the ready reply (RL-353).
    pub(super) fn refuse<M>(
        self,
        backlog: Backlog<M>,
        code: FailureCode,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        cx.enter(TargetStage::TargetRemoved);
        cx.push(TargetEffect::Remove {
            arrivals: backlog.into_direct(),
        });
        cx.bury(&self, Epitaph::Failed(code));
        cx.push(TargetEffect::Send {
            connection: self.connection,
            record: records::failed(&self.prepare, code),
        });
        Stage::TargetRemoved
    }

    /// RL-239: ends after the ready reply without ownership. Nothing is sent to anybody.
    pub(super) fn remove<M>(self, backlog: Backlog<M>, cx: &mut Context<'_, M>) -> Stage<M> {
        cx.enter(TargetStage::TargetRemoved);
        cx.diagnose(Diagnostic::LocationUpdateFailed);
        cx.push(TargetEffect::Remove {
            arrivals: backlog.into_direct(),
        });
        cx.bury(&self, Epitaph::Removed);
        Stage::TargetRemoved
    }

    /// Answers a command 40 that came after the ready reply (TGT-7, RL-353).
    pub(super) fn prepared_again<M>(
        &mut self,
        connection: ConnectionId,
        prepare: &RelocationPrepare,
        cx: &mut Context<'_, M>,
    ) {
        if *prepare == *self.prepare {
            self.connection = connection;
            self.seen(connection);
            let record = records::ready(&self.prepare);
            cx.push(TargetEffect::Send { connection, record });
        } else if self.owns(prepare) || prepare.identity() == self.identity {
            cx.diagnose(Diagnostic::ConflictingPrepare);
        } else {
            cx.ignore(TargetIgnored::ForeignIdentity);
        }
    }
}

/// The earliest of several deadlines.
pub(super) fn earliest(
    deadlines: impl IntoIterator<Item = Option<Monotonic>>,
) -> Option<Monotonic> {
    deadlines.into_iter().flatten().min()
}
