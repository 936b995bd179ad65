//! How far a target has got after its commit (RL-24 to RL-26).
//!
//! The phases before the commit are book-keeping that nobody decides by, and this crate writes none of them for a single
//! object (RL-28): so the version that the source first read is the one that the commit compares.

use spotlane_store::StoreProvider;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{NodeRid, RelocationId};
use spotlane_types::kind::{AuthorityOperationKind, RelocationPhase, SpotAuthorityState};
use spotlane_types::time::Monotonic;
use spotlane_wire::authority::{
    AuthorityObject, AuthorityPayload, InstanceAuthorityIdentity, SpotAuthorityIdentity,
};

use crate::authority::{self, ActiveObject};
use crate::error::LocationError;
use crate::lease::{HeldLease, LiveLease};
use crate::repository::Repository;
use crate::time::Timing;

/// A step of the target after its commit, in this order; any may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-25 and RL-26")]
pub enum MoveStep {
    /// The lifecycle callbacks run.
    Activating,
    /// Dispatch is open; the source watches for it (RL-138).
    Activated,
    /// Route updates are sent.
    Cleaning,
    /// Nothing is left to do; the relocation state leaves the row (RL-365).
    Completed,
}

impl MoveStep {
    fn phase(self) -> RelocationPhase {
        match self {
            Self::Activating => RelocationPhase::Activating,
            Self::Activated => RelocationPhase::Activated,
            Self::Cleaning => RelocationPhase::Cleaning,
            Self::Completed => RelocationPhase::Completed,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Activating => 1,
            Self::Activated => 2,
            Self::Cleaning => 3,
            Self::Completed => 4,
        }
    }
}

/// How many steps a row in this phase has behind it; `None` before the commit.
fn steps_done(phase: RelocationPhase) -> Option<u8> {
    match phase {
        RelocationPhase::None
        | RelocationPhase::Preparing
        | RelocationPhase::Captured
        | RelocationPhase::Prepared
        | RelocationPhase::Aborted => None,
        RelocationPhase::Committed => Some(0),
        RelocationPhase::Activating => Some(MoveStep::Activating.number()),
        RelocationPhase::Activated => Some(MoveStep::Activated.number()),
        RelocationPhase::Cleaning => Some(MoveStep::Cleaning.number()),
        RelocationPhase::Completed => Some(MoveStep::Completed.number()),
    }
}

/// What the row says after a step; `None` when it says so already.
fn after(
    payload: &AuthorityPayload,
    step: MoveStep,
) -> Result<Option<AuthorityPayload>, LocationError> {
    let Some(state) = &payload.relocation_state else {
        return match step {
            MoveStep::Completed => Ok(None),
            MoveStep::Activating | MoveStep::Activated | MoveStep::Cleaning => {
                Err(LocationError::Call {
                    rule: "the row of a moved object has a relocation state until the move is completed",
                })
            }
        };
    };
    let done = steps_done(state.phase).ok_or(LocationError::Call {
        rule: "a step after the commit follows a commit",
    })?;
    if done == step.number() {
        return Ok(None);
    }
    // WR-63: no step backwards.
    if done > step.number() {
        return Err(LocationError::Call {
            rule: "a move takes no step backwards",
        });
    }
    let mut next = payload.clone();
    if step == MoveStep::Completed {
        next.relocation_state = None;
        next.operation_kind = AuthorityOperationKind::Steady;
        next.object = ready(next.object);
    } else if let Some(state) = &mut next.relocation_state {
        state.phase = step.phase();
    }
    Ok(Some(next))
}

/// WR-62: a Spot is relocating exactly while its row has a relocation state.
fn ready(object: AuthorityObject) -> AuthorityObject {
    let AuthorityObject::Spot { spot } = object else {
        return object;
    };
    let spot = match spot {
        SpotAuthorityIdentity::User {
            spot_id, spot_type, ..
        } => SpotAuthorityIdentity::User {
            spot_id,
            spot_type,
            state: SpotAuthorityState::Ready,
        },
        SpotAuthorityIdentity::Instance {
            instance:
                InstanceAuthorityIdentity::Relocating {
                    instance_type,
                    spot_id,
                },
        } => SpotAuthorityIdentity::Instance {
            instance: InstanceAuthorityIdentity::Ready {
                instance_type,
                spot_id,
            },
        },
        other @ (SpotAuthorityIdentity::Entry { .. } | SpotAuthorityIdentity::Instance { .. }) => {
            other
        }
    };
    AuthorityObject::Spot { spot }
}

impl ActiveObject {
    /// At a target: whether the row names this host, this run of its node and this move, which alone is success (RL-356).
    pub fn is_taken_by(
        &self,
        lease: &LiveLease,
        node: &NodeRid,
        run: NodeGeneration,
        relocation: RelocationId,
    ) -> bool {
        let allocation = &self.row().allocation;
        let state = self.payload().relocation_state.as_ref();
        self.is_owned_by(lease)
            && allocation.descriptor.routing_id == *node
            && allocation.descriptor_lifecycle_generation == run
            && state.is_some_and(|state| {
                state.relocation == relocation && steps_done(state.phase).is_some()
            })
    }
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// Writes a step of the move down, by the target and by nobody else (RL-25, RL-26). A step that is there already is
    /// not written again.
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve); `FixCall` for a step backwards, or when the row
    /// tells of no commit.
    pub async fn advance_move(
        &self,
        held: &HeldLease,
        active: &ActiveObject,
        step: MoveStep,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let payload = match after(active.payload(), step)? {
            Some(payload) => payload,
            None if active.is_owned_by(held.lease()) => return Ok(active.clone()),
            None => return Err(LocationError::stale(crate::Stale::NotOwner)),
        };
        let change = authority::preserve(active, held, &payload)?;
        Self::active(active.object(), self.run(&mut effort, change).await?)
    }
}
