//! Actors end: close admission, finish what was accepted, release the row (RL-97).

use std::sync::Arc;

use spotlane_location::authority::Authority;
use spotlane_types::generation::ObjectGeneration;
use spotlane_types::id::ActorId;
use spotlane_types::kind::{FailureCode, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::command::membership::ActorDestroy;

use crate::actor::ActorRef;
use crate::calls::must_not_run_the_caller;
use crate::clock::Deadline;
use crate::core::{Core, actor_key};
use crate::error::Error;
use crate::slots::{Live, Slot};
use crate::{placement, remote, resolve};

/// Destroys exactly this incarnation, wherever it is; `false` when it is gone (RL-97).
pub(crate) async fn destroy(
    core: &Arc<Core>,
    actor: &ActorRef,
    deadline: &Deadline,
) -> Result<bool, Error> {
    core.must_take_messages()?;
    if let Some(live) = core.slots.live(&actor.id) {
        return here(core, live, actor.generation).await;
    }
    let key = actor_key(&actor.id);
    let active = match core.repository.read(&key, deadline.location()).await? {
        Authority::Missing => return Ok(false),
        Authority::Reserved(_) => return Err(Error::unavailable("the actor is being created")),
        Authority::Active(active) => active,
    };
    must_be(active.row().object_generation, actor.generation)?;
    let tenure = match resolve::find(core, &actor.id, deadline).await? {
        resolve::Place::Here(live) => return here(core, live, actor.generation).await,
        resolve::Place::Moving(_) => return Err(Error::unavailable("the actor is being moved")),
        resolve::Place::There(tenure) => tenure,
    };
    let correlation = core.ids.correlation();
    let actor = remote::fence(&tenure)?;
    let record = Record::from(ActorDestroy { correlation, actor });
    let reply = remote::exchange(core, &tenure.node_rid, record, deadline).await?;
    core.forget_route(&tenure);
    // WR-58: `ok` is destroyed; this code is gone.
    let gone = reply.outcome.failure_code == FailureCode::ActorRouteNotFound
        && reply.outcome.terminal_result == TerminalResult::NotFound;
    if gone {
        return Ok(false);
    }
    remote::failure(&reply).map_or(Ok(true), Err)
}

fn must_be(found: ObjectGeneration, named: ObjectGeneration) -> Result<(), Error> {
    if found == named {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the reference names incarnation {named}, the actor is {found}"
    )))
}

/// Destroys an Actor of this host. The work goes on when the caller gives up.
pub(crate) async fn here(
    core: &Arc<Core>,
    live: Arc<Live>,
    generation: ObjectGeneration,
) -> Result<bool, Error> {
    must_be(live.unit.reference.generation, generation)?;
    must_not_run_the_caller(&live, "an actor cannot wait for its own end").await?;
    if !live.begin_end() {
        return Err(Error::unavailable("the actor is being moved or destroyed"));
    }
    let (sender, done) = tokio::sync::oneshot::channel();
    let task = Arc::clone(core);
    core.tasks.spawn(async move {
        // A caller that went away does not want it.
        drop(sender.send(end(&task, &live).await));
    });
    done.await.unwrap_or_else(|_| Err(Error::shutting_down()))
}

async fn end(core: &Arc<Core>, live: &Arc<Live>) -> Result<bool, Error> {
    live.unit.cancel_timers();
    live.lane.close();
    live.lane.await_quiescence().await;
    let deadline = core.deadline(core.settings.all.default_request_timeout);
    release(core, live, &deadline).await?;
    core.slots.remove_live(live);
    let tenure = live.unit.tenure().authority_owner_generation;
    core.moves.tenure_ended(live.unit.id(), tenure);
    placement::went();
    Ok(true)
}

/// RL-14: the row goes, if it is still ours.
pub(crate) async fn release(core: &Core, live: &Live, deadline: &Deadline) -> Result<(), Error> {
    let left = deadline.left().unwrap_or_default();
    let _book = tokio::time::timeout(left, live.book.lock())
        .await
        .map_err(|_| Error::deadline("the row of the actor was being written all the time"))?;
    let Some(row) = live.row() else { return Ok(()) };
    let held = core.held()?;
    Ok(core
        .repository
        .delete(&held, &row, deadline.location())
        .await?)
}

/// Command 27: the same at the owner. `None` when the Actor is not here.
pub(crate) async fn asked(
    core: &Arc<Core>,
    id: &ActorId,
    generation: ObjectGeneration,
) -> Result<Option<bool>, Error> {
    match core.slots.get(id) {
        Some(Slot::Live(live)) => here(core, live, generation).await.map(Some),
        // EX-113
        Some(_) => Err(Error::unavailable("the actor is being moved")),
        None => Ok(None),
    }
}
