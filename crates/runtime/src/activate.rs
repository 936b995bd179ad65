//! A reserved Actor becomes ready on this node: factory, decision, commit, opening (RL-84 to RL-86).

use std::sync::Arc;

use spotlane_lane::Backlog;
use spotlane_location::LocationError;
use spotlane_location::authority::{ActiveObject, Authority, ReservedObject, TerminalRecord};
use spotlane_location::directory::Candidate;
use spotlane_store::Recovery;
use spotlane_types::id::{ActorId, PacketName};
use spotlane_types::kind::ActorAuthorityState;
use spotlane_wire::authority::{AuthorityObject, AuthorityPayload};
use spotlane_wire::reference::ActorRef as WireActorRef;
use tokio::sync::oneshot;

use crate::actor::{ActorRef, Decision};
use crate::capacity::{Capacity, Full, NoRoom};
use crate::cell::{Cell, Work};
use crate::clock::{Deadline, backoff};
use crate::core::Core;
use crate::create::tenure_of;
use crate::creations::Terminals;
use crate::error::Error;
use crate::payload::Payload;
use crate::placement;
use crate::slots::{Live, Slot, Unit};

/// Shows that the row says that this host is the owner; only its commit makes one (EX-187).
pub(crate) struct RowCommitted(());

/// How an activation ended.
#[derive(Debug)]
pub(crate) enum Activated {
    Created {
        actor: ActorRef,
        reply: Option<Payload>,
    },
    Rejected {
        reply: Option<Payload>,
    },
    /// This node has no room for it (RL-83); nothing was made.
    Full(Full),
}

/// The packet name under which a creation request travels.
#[expect(clippy::expect_used, reason = "a constant")]
pub(crate) fn request_name() -> PacketName {
    PacketName::new("$create").expect("legal")
}

/// Runs the factory and makes the Actor ready, or gives the reservation back (RL-85). When it returns, the Actor is there for
/// everybody (EX-368).
///
/// # Errors
/// What went wrong; the row is missing again then, unless the store did not answer.
pub(crate) async fn activate(
    core: &Arc<Core>,
    node: &Candidate,
    reserved: ReservedObject,
    request: Option<Payload>,
    terminals: Option<&Terminals>,
    deadline: &Deadline,
) -> Result<Activated, Error> {
    let give_back = |terminal| abort(core, node, &reserved, terminal);
    let _room = match Capacity::take(core) {
        Ok(room) => room,
        Err(NoRoom::Full(full)) => {
            give_back(None).await;
            return Ok(Activated::Full(full));
        }
        Err(NoRoom::NotServing(error)) => {
            give_back(None).await;
            return Err(error);
        }
    };
    // RL-314: a permit is waited for; none free fails nothing.
    let _permit = core
        .activations
        .acquire()
        .await
        .map_err(|_| Error::shutting_down())?;
    // RL-85: what fails before the callback leaves no record.
    let staged = match stage(core, &reserved) {
        Ok(staged) => staged,
        Err(error) => {
            give_back(None).await;
            return Err(error);
        }
    };
    let Decision { accepted, reply } = match staged.decide(request, deadline).await {
        Ok(decision) => decision,
        Err(error) => {
            drop(staged);
            give_back(terminals.and_then(|terminals| terminals.failed(&error))).await;
            return Err(error);
        }
    };
    if !accepted {
        drop(staged);
        give_back(terminals.and_then(|terminals| terminals.rejected(reply.as_ref()))).await;
        return Ok(Activated::Rejected { reply });
    }
    let actor = staged.live.unit.reference.clone();
    let named = WireActorRef {
        actor_id: actor.id.clone(),
        object_generation: actor.generation,
    };
    let terminal = terminals.and_then(|terminals| terminals.created(named, reply.as_ref()));
    let committed = staged.commit(core, node, &reserved, terminal, deadline);
    if let Err(error) = committed.await {
        give_back(terminals.and_then(|terminals| terminals.failed(&error))).await;
        return Err(error);
    }
    placement::came();
    Ok(Activated::Created { actor, reply })
}

/// The reservation goes and its capacity with it. What cannot be given back now is released by whoever meets it after
/// this host's lease (ST-74).
async fn abort(
    core: &Core,
    node: &Candidate,
    reserved: &ReservedObject,
    terminal: Option<TerminalRecord>,
) {
    let Ok(held) = core.held() else { return };
    let until = core.deadline(core.settings.all.default_request_timeout);
    let aborted = core
        .repository
        .abort(&held, node, reserved, terminal, until.location())
        .await;
    if let Err(error) = aborted {
        tracing::warn!(target: "spotlane::runtime::placement", %error, "a reservation was not given back");
    }
}

/// An Actor that is there and must not run yet.
struct Staged {
    live: Arc<Live>,
    backlog: Backlog<Cell, RowCommitted>,
}

fn stage(core: &Arc<Core>, reserved: &ReservedObject) -> Result<Staged, Error> {
    let name = &reserved.row().allocation.stable_type;
    let actor_type = core.types.get(name);
    let actor_type = actor_type
        .ok_or_else(|| Error::not_found(format!("actor type {name} is not registered here")))?;
    let AuthorityObject::Actor { actor } = &reserved.payload().object else {
        return Err(Error::internal("the reserved object is no actor"));
    };
    let id: ActorId = actor.actor_id.clone();
    let reference = ActorRef {
        id,
        generation: reserved.row().object_generation,
        mesh: core.identity.mesh.clone(),
        node: core.identity.rid.clone(),
    };
    let actor = actor_type.make()?;
    let tenure = tenure_of(reserved);
    let unit = Arc::new(Unit::new(core, Arc::clone(actor_type), reference, tenure));
    let cell = Cell {
        actor,
        unit: Arc::clone(&unit),
    };
    let backlog = core.cells.stage::<RowCommitted>(cell);
    let lane = backlog.lane().ok_or_else(Error::shutting_down)?;
    Ok(Staged {
        live: Live::new(unit, lane, None),
        backlog,
    })
}

impl Staged {
    /// Asks the new Actor (RL-43).
    async fn decide(
        &self,
        request: Option<Payload>,
        deadline: &Deadline,
    ) -> Result<Decision, Error> {
        let (decided, decision) = oneshot::channel();
        let run = self
            .backlog
            .run_lifecycle(Work::Create { request, decided });
        let left = deadline.left().unwrap_or_default();
        tokio::time::timeout(left, run)
            .await
            .map_err(|_| Error::deadline("on_create did not end in time"))??;
        let gone = |_| Error::internal("on_create ended without a decision");
        decision.await.map_err(gone)?
    }

    /// Commit, route, timers, opening: in this order. The slot is the placeholder that stands while the store is asked, and
    /// exactly it is settled afterwards (EX-361). A message that arrives between commit and opening waits in the
    /// lane (EX-110).
    async fn commit(
        self,
        core: &Arc<Core>,
        node: &Candidate,
        reserved: &ReservedObject,
        terminal: Option<TerminalRecord>,
        deadline: &Deadline,
    ) -> Result<(), Error> {
        let live = self.live;
        let unit = Arc::clone(&live.unit);
        let mut payload = reserved.payload().clone();
        if let AuthorityObject::Actor { actor } = &mut payload.object {
            actor.state = ActorAuthorityState::Ready;
        }
        let slot = Slot::Live(Arc::clone(&live));
        let generation = unit.reference.generation;
        let placed = core.slots.change(unit.id(), |found| match found {
            // RL-86: command 49 came twice, and the other one is ahead.
            Some(Slot::Live(other)) if other.unit.reference.generation == generation => {
                (Some(Slot::Live(other)), false)
            }
            _ => (Some(slot), true),
        });
        if !placed {
            return Err(Error::unavailable("the actor is being created already"));
        }
        let committed = commit_row(core, node, reserved, &payload, terminal, deadline);
        match committed.await {
            Ok(row) => live.set_row(row),
            Err(error) => {
                core.slots.remove_live(&live);
                return Err(error);
            }
        }
        start_timers(core, &live);
        drop(self.backlog.open(RowCommitted(()), None));
        Ok(())
    }
}

/// The row becomes active. When an answer is lost, the store is asked until it says what has happened (ST-72): the deadline
/// ends the wait of the creator, not the attempt (RL-81).
async fn commit_row(
    core: &Core,
    node: &Candidate,
    reserved: &ReservedObject,
    payload: &AuthorityPayload,
    terminal: Option<TerminalRecord>,
    deadline: &Deadline,
) -> Result<ActiveObject, Error> {
    let ours = reserved.row().object_generation;
    let (mut until, mut attempt) = (deadline.location(), 0);
    let mut held = core.held()?;
    loop {
        let terminal = terminal.clone();
        let committed = core
            .repository
            .commit(&held, node, reserved, payload, terminal, until);
        let error = match committed.await {
            Ok(row) => return Ok(row),
            Err(error) => error,
        };
        let again = matches!(error, LocationError::Indeterminate { .. })
            || (error.recovery() == Recovery::Retry && deadline.left().is_some());
        if !again && !matches!(error, LocationError::Conflict { .. }) {
            return Err(error.into());
        }
        loop {
            until = core
                .deadline(core.settings.lease.renew_timeout())
                .location();
            match core.repository.read(reserved.object(), until).await {
                Ok(Authority::Active(row))
                    if row.row().object_generation == ours && row.is_owned_by(held.lease()) =>
                {
                    return Ok(row);
                }
                // Nothing has happened: once more.
                Ok(Authority::Reserved(found))
                    if again && found.row().object_generation == ours =>
                {
                    break;
                }
                Ok(_) => return Err(error.into()),
                Err(unread) => {
                    tracing::debug!(target: "spotlane::runtime::placement", error = %unread, "a commit is not settled");
                }
            }
            tokio::time::sleep(backoff(attempt, crate::random::u64())).await;
            attempt = attempt.saturating_add(1);
        }
        held = core.held()?;
    }
}

/// EX-230: the timers that the type declares.
fn start_timers(core: &Core, live: &Live) {
    for (name, settings) in &live.unit.actor_type.timers {
        live.unit.start_timer(core, &live.lane, name, *settings);
    }
}
