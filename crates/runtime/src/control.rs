//! Control records of other nodes: handled at once or by a task of their own, never behind handlers (EX-151,
//! EX-152).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use spotlane_location::authority::{Authority, CreationOperation, TerminalRecord};
use spotlane_location::cache::Tenure;
use spotlane_mesh::{PeerEvent, PeerLink, Received, ReplyHandle};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::Correlation;
use spotlane_types::kind::{FailureCode, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::command::creation::ActorCreate;
use spotlane_wire::command::follow::{FollowRoute, MessageFollow};
use spotlane_wire::command::membership::{ActorDestroy, ActorLookup};
use spotlane_wire::command::reply::{ActorCreateTail, ActorLookupReply, ReplyTail};
use spotlane_wire::creation::{ActorCreateTerminal, CreationOperationTerminal};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::ActorRef as WireActorRef;

use crate::activate::{self, Activated};
use crate::core::{Core, actor_key};
use crate::destroy;
use crate::error::Error;
use crate::inbound::{send_error, send_reply};
use crate::payload::Payload;
use crate::{relocation, session};

/// Takes one control record.
pub(crate) fn take(core: &Arc<Core>, received: Received) {
    let Received {
        from: link,
        record,
        reply,
    } = received;
    let Some(record) = relocation::take(core, &link, record) else {
        return;
    };
    let Some((record, reply)) = session::take(core, &link, record, reply) else {
        return;
    };
    match (record, reply) {
        (Record::ActorCreate(create), Some(handle)) => {
            let core = Arc::clone(core);
            let task = Arc::clone(&core);
            core.tasks
                .spawn(async move { created(&task, create, handle).await });
        }
        (Record::ActorDestroy(destroy), Some(handle)) => {
            let task = Arc::clone(core);
            core.tasks
                .spawn(async move { destroyed(&task, destroy, handle).await });
        }
        (Record::ActorLookup(lookup), Some(handle)) => {
            let task = Arc::clone(core);
            core.tasks
                .spawn(async move { looked_up(&task, lookup, handle).await });
        }
        (Record::MessageFollow(notice), _) => moved(core, &link, &notice),
        (record, Some(handle)) => not_served(&record, handle),
        (record, None) => {
            tracing::trace!(target: "spotlane::runtime::dispatch", command = record.name(), "zlink.dispatch_error");
        }
    }
}

/// A peer has come or gone.
pub(crate) fn peer_changed(core: &Arc<Core>, link: &PeerLink, event: &PeerEvent) {
    relocation::peer_changed(core, link, event);
}

/// A request that no part of this host serves.
fn not_served(record: &Record, handle: ReplyHandle) {
    let correlation = match record {
        Record::NodeRequest(request) => request.correlation,
        Record::ChannelRequest(request) => request.correlation,
        Record::SpotRequest(request) => request.correlation,
        Record::ActorJoin(join) => join.correlation,
        Record::UserSpotCreate(create) => create.correlation,
        Record::UserSpotClose(close) => close.correlation,
        // Without an answer it ends by its own timeout.
        _ => return,
    };
    let error = Error::not_found("this host serves no such request");
    send_error(handle, correlation, &error);
}

/// RL-161: a notice about a former route removes exactly that route and nothing else.
fn moved(core: &Core, link: &PeerLink, notice: &MessageFollow) {
    let FollowRoute::Actor { actor: source } = &notice.route.source else {
        return;
    };
    let FollowRoute::Actor { actor: target } = &notice.route.target else {
        tracing::debug!(target: "spotlane::runtime::follow", "a notice names two objects");
        return;
    };
    // RL-161: both name one object, and the hop that says so is the one it was sent to.
    if source.actor != target.actor || source.target_node_rid != *link.peer() {
        tracing::debug!(target: "spotlane::runtime::follow", "a notice does not fit its sender");
        return;
    }
    let tenure = Tenure {
        object: AuthorityKey::Actor(source.actor.actor_id.clone()),
        object_generation: source.actor.object_generation,
        node_rid: source.target_node_rid.clone(),
        node_generation: source.target_node_generation,
        authority_owner_generation: source.expected_authority_owner_generation,
        owner_lease_generation: source.expected_owner_lease_generation,
    };
    let mut routes = core.routes.lock().unwrap_or_else(PoisonError::into_inner);
    routes.remove_exact(&tenure);
}

async fn destroyed(core: &Arc<Core>, destroy: ActorDestroy, handle: ReplyHandle) {
    let ActorDestroy { correlation, actor } = destroy;
    let done = destroy::asked(core, &actor.actor.actor_id, actor.actor.object_generation).await;
    let (result, failure) = match done {
        Ok(Some(true)) => (TerminalResult::Ok, FailureCode::None),
        // WR-58
        Ok(Some(false) | None) => (TerminalResult::NotFound, FailureCode::ActorRouteNotFound),
        Err(error) => error.kind().to_wire(),
    };
    send_reply(handle, correlation, result, failure, ReplyTail::None, None);
}

/// WR-58: answered for peers that ask; our own look-up reads the store.
async fn looked_up(core: &Arc<Core>, lookup: ActorLookup, handle: ReplyHandle) {
    let correlation = lookup.correlation;
    match find_for_peer(core, &lookup).await {
        Ok(tail) => send_reply(
            handle,
            correlation,
            TerminalResult::Ok,
            FailureCode::None,
            ReplyTail::ActorLookup(tail),
            None,
        ),
        Err(error) => send_error(handle, correlation, &error),
    }
}

async fn find_for_peer(core: &Core, lookup: &ActorLookup) -> Result<ActorLookupReply, Error> {
    let until = core
        .deadline(core.settings.all.default_request_timeout)
        .location();
    let Authority::Active(active) = core
        .repository
        .read(&actor_key(&lookup.actor_id), until)
        .await?
    else {
        return Err(Error::not_found("no such actor"));
    };
    let spotlane_wire::authority::AuthorityObject::Actor { actor } = &active.payload().object
    else {
        return Err(Error::not_found("no such actor"));
    };
    let row = active.row();
    Ok(ActorLookupReply {
        actor: WireActorRef {
            actor_id: actor.actor_id.clone(),
            object_generation: row.object_generation,
        },
        spot_id: actor.current_spot.spot_id.clone(),
        spot_generation: actor.current_spot.object_generation,
        membership_epoch: spotlane_types::generation::MembershipEpoch::new(
            row.authority_owner_generation.get(),
        )?,
        authority_owner_generation: row.authority_owner_generation,
    })
}

/// Command 49: the reservation is ours; run it (RL-84).
async fn created(core: &Arc<Core>, create: ActorCreate, handle: ReplyHandle) {
    let correlation: Correlation = create.correlation;
    match run_creation(core, &create).await {
        Ok((creation, payload)) => send_reply(
            handle,
            correlation,
            TerminalResult::Ok,
            FailureCode::None,
            ReplyTail::ActorCreate(ActorCreateTail { creation }),
            payload,
        ),
        Err(error) => send_error(handle, correlation, &error),
    }
}

async fn run_creation(
    core: &Arc<Core>,
    create: &ActorCreate,
) -> Result<(ActorCreateTerminal, Option<ApplicationPayload>), Error> {
    core.must_take_objects()?;
    let now = core.clock.unix().get();
    let left = create.deadline_unix_ms.get().saturating_sub(now);
    let deadline = core.deadline(Duration::from_millis(left));
    let key = actor_key(&create.actor_id);
    let reserved = match core.repository.read(&key, deadline.location()).await? {
        Authority::Reserved(reserved) => reserved,
        // A repeat of an operation that has ended (RL-86): the row says how.
        Authority::Active(active)
            if active.row().object_generation == create.reservation.object_generation =>
        {
            let actor = WireActorRef {
                actor_id: create.actor_id.clone(),
                object_generation: active.row().object_generation,
            };
            return Ok((ActorCreateTerminal::Created { actor }, None));
        }
        Authority::Active(_) | Authority::Missing => {
            return Err(Error::unavailable("the reservation is gone"));
        }
    };
    let row = reserved.row();
    let pending = row.pending_creation.as_ref();
    let ours =
        pending.is_some_and(|pending| pending.reservation_id == create.reservation.reservation_id);
    if !ours || row.object_generation != create.reservation.object_generation {
        return Err(Error::unavailable("the reservation is another's"));
    }
    // RL-84: a request that is not what the row says runs no factory.
    let request = pending.and_then(spotlane_location::record::PendingCreation::request);
    let request = request.ok_or_else(|| Error::internal("the stored request is damaged"))?;
    let request = decode_request(&request)?;
    let until = deadline.location();
    let node = core
        .repository
        .candidate(&core.identity.descriptor_name(), until)
        .await?;
    let node = node.ok_or_else(|| Error::unavailable("this node is not in the directory"))?;
    let actor = WireActorRef {
        actor_id: create.actor_id.clone(),
        object_generation: row.object_generation,
    };
    let terminal = terminal_record(create, &actor, deadline.left().unwrap_or_default())?;
    let done = activate::activate(core, &node, reserved, request, Some(terminal), &deadline);
    let (creation, reply) = match done.await? {
        Activated::Created { reply, .. } => (ActorCreateTerminal::Created { actor }, reply),
        Activated::Rejected { reply } => (ActorCreateTerminal::Rejected {}, reply),
    };
    let reply = reply
        .map(|reply| reply.into_wire(activate::request_name()))
        .transpose()?;
    Ok((creation, reply))
}

fn decode_request(bytes: &bytes::Bytes) -> Result<Option<Payload>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let payload: ApplicationPayload = spotlane_wire::decode(bytes)
        .map_err(|error| Error::internal("the stored request is damaged").with_source(error))?;
    Ok(Some(Payload::from_wire(payload).1))
}

/// RL-87: kept five minutes past the deadline, for a repeat of the same operation.
fn terminal_record(
    create: &ActorCreate,
    actor: &WireActorRef,
    until_deadline: Duration,
) -> Result<TerminalRecord, Error> {
    let terminal = CreationOperationTerminal {
        terminal_result: TerminalResult::Ok,
        failure_code: FailureCode::None,
        creation: Some(ActorCreateTerminal::Created {
            actor: actor.clone(),
        }),
        application_payload: None,
    };
    let broken = |error: spotlane_wire::EncodeError| {
        Error::internal("a creation terminal cannot be encoded").with_source(error)
    };
    let bytes = spotlane_wire::encode(&terminal).map_err(broken)?;
    let operation = CreationOperation {
        source: create.source_node_rid.clone(),
        source_generation: create.source_node_generation,
        operation: create.operation,
    };
    TerminalRecord::new(operation, bytes, until_deadline)
        .map_err(|error| Error::internal("a creation terminal cannot be stored").with_source(error))
}
