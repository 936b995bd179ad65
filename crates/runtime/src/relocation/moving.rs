//! Asking for a move: from an id and a node to a plan and its driver (SRC-1, SRC-2).

use std::sync::Arc;

use spotlane_location::authority::{ActiveObject, Authority};
use spotlane_location::directory::Candidate;
use spotlane_relocation::identity::{RelocationIdentity, SourceFence};
use spotlane_relocation::saved::JoinData;
use spotlane_relocation::source::MoveFailure;
use spotlane_relocation::unit::{EarlyProgress, MovePlan, UnitPolicy};
use spotlane_types::count::ApplicationVersion;
use spotlane_types::generation::TargetAttemptGeneration;
use spotlane_types::id::{ActorId, NodeRid, OperationId, RelocationId, StableType};
use spotlane_types::kind::{RelocationPolicyKind, RuntimeState, StatefulObjectKind};
use spotlane_types::time::Monotonic;
use spotlane_wire::reference::{
    ActorRef, RelocationCoordinatorFence, RelocationTargetFence, SpotMembership, SpotRef,
};
use spotlane_wire::relocation::RelocationObject;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::{rows, source};
use crate::calls::must_not_run_the_caller;
use crate::clock::Deadline;
use crate::core::{Core, actor_key};
use crate::error::{Error, ErrorKind};
use crate::resolve::connected;
use crate::slots::{Live, Slot};
use crate::state::HostState;

/// A move that was begun: resolves when its cutover has left, or when it has failed.
#[derive(Debug)]
pub(crate) struct Relocating {
    finished: oneshot::Receiver<Result<(), MoveFailure>>,
}

impl Relocating {
    /// # Errors
    /// The Actor is where it was; after `Unavailable` with a boundary behind it, it is where the store says.
    pub(crate) async fn done(self) -> Result<(), Error> {
        match self.finished.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(failed(failure)),
            Err(_) => Err(Error::shutting_down()),
        }
    }
}

/// Moves an Actor of this host to a node, and waits until its dispatch here has ended for good (RL-210).
///
/// # Errors
/// By kind: `NotFound` and `Unavailable` before anything has happened; afterwards as the machine says (RL-211).
pub(crate) async fn relocate(
    core: &Arc<Core>,
    id: &ActorId,
    target: &NodeRid,
    deadline: Deadline,
) -> Result<(), Error> {
    relocate_to(
        core,
        id,
        target,
        core.settings.all.application_version,
        deadline,
    )
    .await
}

/// As [`relocate`], to a node of the given application version.
pub(super) async fn relocate_to(
    core: &Arc<Core>,
    id: &ActorId,
    target: &NodeRid,
    version: ApplicationVersion,
    deadline: Deadline,
) -> Result<(), Error> {
    let Some(moving) = begin(core, id, target, version, deadline).await? else {
        return Ok(());
    };
    moving.done().await
}

/// A node that a unit of this type may go to: version first, then weight (RL-189).
pub(crate) fn pick_target(
    core: &Core,
    stable_type: &StableType,
    version: ApplicationVersion,
) -> Option<NodeRid> {
    let wave = core.settings.all.maintenance_wave.as_ref();
    let picked = crate::create::pick_among(core, stable_type, |node| {
        node.routing_id != core.identity.rid
            && node.application_version == version
            && (wave.is_none() || node.maintenance_wave.as_ref() != wave)
    });
    picked.map(|node| node.descriptor().row.descriptor.routing_id.clone())
}

/// Begins a move; `None` when the Actor is there already.
async fn begin(
    core: &Arc<Core>,
    id: &ActorId,
    target: &NodeRid,
    version: ApplicationVersion,
    deadline: Deadline,
) -> Result<Option<Relocating>, Error> {
    let live = match core.slots.get(id) {
        Some(Slot::Live(live)) => live,
        Some(_) => return Err(Error::unavailable(format!("actor {id} is being moved"))),
        None => return Err(Error::not_found(format!("actor {id} does not live here"))),
    };
    if *target == core.identity.rid {
        return Ok(None);
    }
    must_not_run_the_caller(&live, "an actor cannot wait for its own move").await?;
    let candidate = candidate(core, &live, target, version, &deadline).await?;
    // RL-140: one at a time; RL-148: a Join that came first goes first.
    let left = deadline.left().unwrap_or_default();
    let began = tokio::time::timeout(left, live.begin_end_after_join()).await;
    match began {
        Ok(true) => {}
        Ok(false) => {
            return Err(Error::unavailable(format!(
                "actor {id} is being moved or destroyed"
            )));
        }
        Err(_) => return Err(Error::deadline("a join of the actor did not end in time")),
    }
    let right = Right(Some(&live));
    let (plan, book) = plan(core, &live, &candidate, version, &deadline).await?;
    right.hand_on();
    Ok(Some(Relocating {
        finished: source::start(core, live, target.clone(), plan, book, None),
    }))
}

/// Begins the move of a Join, which has the right to move the Actor and keeps it; `None` when the Actor is there already
/// (RL-59).
pub(crate) async fn begin_join(
    core: &Arc<Core>,
    live: &Arc<Live>,
    target: &NodeRid,
    operation: OperationId,
    deadline: Deadline,
) -> Result<Option<Relocating>, Error> {
    if *target == core.identity.rid {
        return Ok(None);
    }
    let version = core.settings.all.application_version;
    let candidate = candidate(core, live, target, version, &deadline).await?;
    let (plan, book) = plan(core, live, &candidate, version, &deadline).await?;
    let RelocationObject::Actor { actor, .. } = &plan.object else {
        return Err(Error::internal("the plan of an actor is of an actor"));
    };
    let join = JoinData {
        actor: actor.clone(),
        previous: Some(membership(core.identity.entry_spot.clone())),
        current: membership(crate::create::entry_spot_of(
            &candidate.descriptor().row.descriptor,
        )?),
        operation,
    };
    let live = Arc::clone(live);
    let finished = source::start(core, live, target.clone(), plan, book, Some(join));
    Ok(Some(Relocating { finished }))
}

const fn membership(spot: SpotRef) -> SpotMembership {
    SpotMembership { spot }
}

/// What has to hold before an Actor of this host moves to a node.
async fn candidate(
    core: &Core,
    live: &Live,
    target: &NodeRid,
    version: ApplicationVersion,
    deadline: &Deadline,
) -> Result<Candidate, Error> {
    if !matches!(core.state.get(), HostState::Serving | HostState::Relocating) {
        return Err(Error::shutting_down());
    }
    if live.unit.actor_type.policy == RelocationPolicyKind::Disabled {
        // RL-110, RL-113
        return Err(Error::rejected(format!(
            "actors of type {} do not move",
            live.unit.actor_type.name
        )));
    }
    let candidate = usable(core, live, target, version)?;
    connected(core, target, deadline).await?;
    Ok(candidate)
}

/// The right to move an Actor, until its driver has it: given back when the caller goes away meanwhile (SRC-10).
struct Right<'a>(Option<&'a Live>);

impl Right<'_> {
    /// The driver has it from here on.
    fn hand_on(mut self) {
        self.0 = None;
    }
}

impl Drop for Right<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.0 {
            live.stay();
        }
    }
}

/// RL-189: version, role and state, type, room. What the node counts is a hint; it decides for itself (TGT-5).
fn usable(
    core: &Core,
    live: &Live,
    target: &NodeRid,
    version: ApplicationVersion,
) -> Result<Candidate, Error> {
    let no = |why: &str| Error::unavailable(format!("node {target} is no target: {why}"));
    let node = core
        .directory
        .node(target)
        .ok_or_else(|| no("it is not in the mesh"))?;
    let descriptor = &node.descriptor().row.descriptor;
    if descriptor.state != RuntimeState::Serving {
        return Err(no("it is not serving"));
    }
    if descriptor.application_version != version {
        return Err(no("its application version differs"));
    }
    let serves = descriptor.object_capabilities.iter().any(|found| {
        found.object_kind == StatefulObjectKind::Actor
            && found.stable_type == live.unit.actor_type.name
            && found.policy == live.unit.actor_type.policy
    });
    if !serves {
        return Err(no("it does not serve the type with the same policy"));
    }
    match crate::create::full(core, descriptor) {
        Some(full) => Err(no(&full.to_string())),
        None => Ok(node),
    }
}

/// Fixes identity and fences (SRC-2, RL-5, RL-28). The id is the move's own and never that of an operation (RL-6).
async fn plan(
    core: &Core,
    live: &Live,
    target: &Candidate,
    application_version: ApplicationVersion,
    deadline: &Deadline,
) -> Result<(Box<MovePlan>, OwnedMutexGuard<()>), Error> {
    let (active, book) = first_read(core, live, deadline).await?;
    let held = core.held()?;
    let row = active.row();
    let node = &target.descriptor().row.descriptor;
    let link = core.mesh()?.link(&node.routing_id);
    let link = link.ok_or_else(|| Error::unavailable("the target is not connected any more"))?;
    let version = rows::version(&active);
    let version = version.ok_or_else(|| Error::internal("a row version is too long"))?;
    let plan = MovePlan {
        identity: RelocationIdentity {
            relocation: RelocationId::new(crate::random::positive(), crate::random::u64())?,
            attempt: TargetAttemptGeneration::new(crate::random::positive())?,
            coordinator: RelocationCoordinatorFence {
                coordinator_owner_id: core.identity.owner.clone(),
                coordinator_lease_generation: held.lease().generation(),
                coordinator_node_rid: core.identity.rid.clone(),
                coordinator_node_generation: core.identity.generation,
                expected_authority_store_version: version,
            },
        },
        object: RelocationObject::Actor {
            actor: ActorRef {
                actor_id: live.unit.id().clone(),
                object_generation: row.object_generation,
            },
            expected_authority_owner_generation: row.authority_owner_generation,
        },
        source: SourceFence {
            node_rid: core.identity.rid.clone(),
            node_generation: core.identity.generation,
            authority_owner_generation: row.authority_owner_generation,
        },
        target: RelocationTargetFence {
            target_node_rid: node.routing_id.clone(),
            target_node_generation: node.lifecycle_generation,
            target_owner_id: node.owner_id.clone(),
            target_owner_lease_generation: node.lease_generation,
        },
        application_version,
        policy: UnitPolicy::Movable,
        early_progress: EarlyProgress::None,
        receive_chunk_limit: None,
        connection: core.moves.links.id(&link),
        deadline: Monotonic::from_origin(deadline.at()),
    };
    Ok((Box::new(plan), book))
}

/// The row as the commit will compare it, and the right to change it, so that it stays so.
async fn first_read(
    core: &Core,
    live: &Live,
    deadline: &Deadline,
) -> Result<(ActiveObject, OwnedMutexGuard<()>), Error> {
    // An Actor that has just come opens first. What became of its last move is still open perhaps; that gates nothing
    // (RL-26).
    let left = deadline.left().unwrap_or_default();
    let book = tokio::time::timeout(left, Arc::clone(&live.book).lock_owned())
        .await
        .map_err(|_| Error::deadline("the actor has not settled here in time"))?;
    let key = actor_key(live.unit.id());
    let Authority::Active(active) = core.repository.read(&key, deadline.location()).await? else {
        return Err(Error::unavailable("the row of the actor is gone"));
    };
    if !core
        .held()
        .is_ok_and(|held| active.is_owned_by(held.lease()))
    {
        return Err(Error::unavailable("the row names another owner"));
    }
    live.set_row(active.clone());
    Ok((active, book))
}

fn failed(failure: MoveFailure) -> Error {
    let kind = match failure {
        MoveFailure::Disabled => ErrorKind::Rejected,
        MoveFailure::AlreadyMoving | MoveFailure::NotSealed | MoveFailure::Aborted => {
            ErrorKind::Unavailable
        }
        MoveFailure::DeadlineExceeded => ErrorKind::DeadlineExceeded,
        MoveFailure::ShuttingDown => ErrorKind::ShuttingDown,
        MoveFailure::Capture(_) => ErrorKind::InternalFailure,
        MoveFailure::Target(code) => {
            let result = code.terminal_result();
            let result = result.unwrap_or(spotlane_types::kind::TerminalResult::InternalError);
            ErrorKind::from_wire(result, code).unwrap_or(ErrorKind::InternalFailure)
        }
    };
    Error::new(kind, failure.to_string()).with_source(failure)
}
