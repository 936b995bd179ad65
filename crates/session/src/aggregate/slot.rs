//! What a session stores about one Actor.

use std::collections::VecDeque;

use spotlane_types::count::SessionSequence;
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::MeshName;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::session::{
    BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute, SessionRelocationSeal,
};
use spotlane_wire::reference::ActorRef;

use crate::bound::{EARLY_CONTROLS_MAX, EARLY_PUSHES_MAX};
use crate::effect::BoundActor;
use crate::event::{BindCall, RelayMessage};
use crate::identity::{ActorRoute, BindingToken, CallId, Peer};

/// The stages of one Actor in a session. No slot: not bound.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a slot is bound nearly all the time, and a relay follows no pointer to it"
)]
pub(super) enum Slot {
    /// A bind waits for its answer.
    Binding(Box<Binding>),
    /// In force.
    Bound(Bound),
    /// In force, and held while the Actor moves.
    Sealed(Box<Sealed>),
}

/// A bind that waits for its answer.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) asked: BindCall,
    /// SB-50: only a successful bind ends what was bound before.
    pub(super) previous: Option<Bound>,
    /// SB-25: binds of one Actor run one after the other.
    pub(super) waiting: VecDeque<BindCall>,
    /// What came about the new binding before its answer.
    pub(super) early: Early,
}

/// Records about a binding that came before the answer to its bind, in order.
///
/// The answer takes the other lane of the connection. They were sent behind it, so they are judged behind it (SB-23).
#[derive(Debug, Default)]
pub(super) struct Early {
    records: VecDeque<EarlyRecord>,
    pushes: usize,
}

#[derive(Debug)]
pub(super) enum EarlyRecord {
    Push(BoundSessionSend),
    Seal(SessionRelocationSeal),
    Route {
        mesh_name: MeshName,
        update: SessionRelocationRoute,
    },
    Replaced {
        peer: Peer,
        replaced: BoundSessionReplaced,
    },
}

impl Early {
    /// Keeps a record; one too many comes back.
    pub(super) fn keep(&mut self, record: EarlyRecord) -> Option<EarlyRecord> {
        let is_push = matches!(record, EarlyRecord::Push(_));
        let controls = self.records.len().saturating_sub(self.pushes);
        let fits = if is_push {
            self.pushes < EARLY_PUSHES_MAX
        } else {
            controls < EARLY_CONTROLS_MAX
        };
        if !fits {
            return Some(record);
        }
        self.pushes = self.pushes.saturating_add(usize::from(is_push));
        self.records.push_back(record);
        None
    }

    pub(super) fn into_records(self) -> VecDeque<EarlyRecord> {
        self.records
    }
}

/// A binding in force.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) actor: ActorRef,
    pub(super) route: ActorRoute,
    pub(super) generation: BindingGeneration,
    /// The disconnect notice that is under way.
    pub(super) notice: Option<Notice>,
    /// The route update that ended the last move, against repetitions (SES-7).
    pub(super) last_move: Option<Box<SessionRelocationRoute>>,
}

/// A disconnect notice that waits for its end (SB-62: one per binding, whoever asked).
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) deadline: Monotonic,
    pub(super) calls: Vec<CallId>,
    /// Binds of the Actor that wait until the old binding is gone.
    pub(super) binds: VecDeque<BindCall>,
}

/// A binding whose Actor moves.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) bound: Bound,
    pub(super) seal: SessionRelocationSeal,
    pub(super) deadline: Monotonic,
    /// SB-86: without count or byte limit. What limits it is the time of the seal, and what the session
    /// may have in flight: its host-wide permits and the back-pressure of its connection.
    pub(super) held: VecDeque<Held>,
}

/// What waits for the end of a seal, in order (SES-3).
#[derive(Debug)]
pub(super) enum Held {
    Relay {
        call: CallId,
        sequence: SessionSequence,
        message: RelayMessage,
    },
    /// RL-350: a push of the tenure that the route update is yet to announce.
    Push(BoundSessionSend),
}

impl Slot {
    /// The binding in force.
    pub(super) const fn current(&self) -> Option<&Bound> {
        match self {
            Self::Binding(binding) => binding.previous.as_ref(),
            Self::Bound(bound) => Some(bound),
            Self::Sealed(sealed) => Some(&sealed.bound),
        }
    }

    pub(super) const fn current_mut(&mut self) -> Option<&mut Bound> {
        match self {
            Self::Binding(binding) => binding.previous.as_mut(),
            Self::Bound(bound) => Some(bound),
            Self::Sealed(sealed) => Some(&mut sealed.bound),
        }
    }

    /// When something of this Actor is due.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let notice = self.current().and_then(|bound| bound.notice.as_ref());
        let notice = notice.map(|notice| notice.deadline);
        let seal = match self {
            Self::Sealed(sealed) => Some(sealed.deadline),
            Self::Binding(_) | Self::Bound(_) => None,
        };
        notice.into_iter().chain(seal).min()
    }
}

impl Bound {
    /// What the application gets.
    pub(super) fn view(&self) -> BoundActor {
        BoundActor {
            token: BindingToken::new(self.actor.actor_id.clone(), self.generation),
            actor: self.actor.clone(),
            route: self.route.clone(),
        }
    }
}
