//! Messages to Actors of other nodes: commands 24 and 25, and what their replies mean.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use spotlane_location::cache::Tenure;
use spotlane_mesh::{NotSubmitted, Refused, RequestError, SendError};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{HopCount, ReplyRouteId};
use spotlane_types::id::{ActorId, NodeRid, PacketName};
use spotlane_types::kind::FailureCode;
use spotlane_wire::Record;
use spotlane_wire::command::message::{ActorRequest, ActorSend};
use spotlane_wire::command::reply::{Reply, ReplyTail};
use spotlane_wire::reference::{ActorRef, ActorRouteFence};
use tokio::sync::oneshot;

use crate::calls::{Caller, Sent};
use crate::clock::Deadline;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::message::Outcome;
use crate::payload::Payload;
use crate::relocation::{self, CallKey, Registered};
use crate::resolve::connected;

/// The fence of a message: the tenure that its sender believes in.
///
/// # Errors
/// The tenure is not that of an Actor.
pub(crate) fn fence(tenure: &Tenure) -> Result<ActorRouteFence, Error> {
    let AuthorityKey::Actor(id) = &tenure.object else {
        return Err(Error::invalid("the object is a spot"));
    };
    Ok(fence_of(id, tenure))
}

#[inline]
pub(crate) fn fence_of(id: &ActorId, tenure: &Tenure) -> ActorRouteFence {
    ActorRouteFence {
        actor: ActorRef {
            actor_id: id.clone(),
            object_generation: tenure.object_generation,
        },
        target_node_rid: tenure.node_rid.clone(),
        target_node_generation: tenure.node_generation,
        expected_authority_owner_generation: tenure.authority_owner_generation,
        expected_owner_lease_generation: tenure.owner_lease_generation,
    }
}

#[inline]
fn send_record(
    core: &Core,
    caller: &Caller,
    target: ActorRouteFence,
    name: PacketName,
    payload: Payload,
) -> Result<ActorSend, Error> {
    Ok(ActorSend {
        operation: core.ids.operation(),
        message_follow_hop_count: HopCount::MIN,
        source_actor: caller.reference(),
        target_actor: target,
        bound_session_tail: None,
        metadata: None,
        payload: payload.into_wire(name)?,
    })
}

/// Sends a one-way message that finds a connection with room; any other keeps its payload.
///
/// # Errors
/// The message cannot be sent at all.
#[inline]
pub(crate) fn send_now(
    core: &Core,
    caller: &Caller,
    target: ActorRouteFence,
    name: &PacketName,
    payload: &mut Payload,
) -> Result<Sent, Error> {
    let send = send_record(core, caller, target, name.clone(), payload.take())?;
    let node = &send.target_actor.target_node_rid;
    match core.mesh()?.submit_ref(node, &send) {
        Ok(()) => Ok(Sent::Yes),
        Err(why) if may_wait(&why) => {
            payload.put_back(send.payload);
            Ok(Sent::No)
        }
        Err(why) => Err(refused(send.into(), why)),
    }
}

/// Sends a one-way message to its owner. The target is fixed here: nothing is sent again elsewhere (EX-265, RL-156).
pub(crate) async fn send(
    core: &Core,
    caller: &Caller,
    tenure: Tenure,
    name: PacketName,
    payload: Payload,
    deadline: &Deadline,
) -> Result<(), Error> {
    let send = send_record(core, caller, fence(&tenure)?, name, payload)?;
    submit(core, &tenure.node_rid, send.into(), deadline).await
}

/// Sends a one-way record, waiting for the connection and for room.
pub(crate) async fn submit(
    core: &Core,
    node: &NodeRid,
    mut record: Record,
    deadline: &Deadline,
) -> Result<(), Error> {
    loop {
        connected(core, node, deadline).await?;
        let left = deadline.left();
        match core.mesh()?.send(node, record, left).await {
            Ok(()) => return Ok(()),
            Err(error) if is_not_connected(&error) => record = *error.into_record(),
            Err(error) => return Err(send_error(error)),
        }
    }
}

/// Sends a request to its owner and waits for the one answer.
pub(crate) async fn request(
    core: &Arc<Core>,
    caller: &Caller,
    tenure: Tenure,
    name: PacketName,
    payload: Payload,
    deadline: &Deadline,
) -> Outcome {
    let _place = core.pending.place(deadline).await?;
    let (request, key) = request_record(core, caller, fence(&tenure)?, name, payload)?;
    match tracked(core, &tenure.node_rid, request.into(), key, deadline).await? {
        Ended::Here(reply) => answered(core, &tenure, reply),
        Ended::Relayed(outcome) => outcome,
    }
}

/// What the owner said. RL-167: when it was no owner, the next call looks again; this one is never sent elsewhere (RL-156).
fn answered(core: &Core, tenure: &Tenure, reply: Reply) -> Outcome {
    if is_stale(&reply) {
        core.forget_route(tenure);
    }
    outcome(reply)
}

#[inline]
fn request_record(
    core: &Core,
    caller: &Caller,
    target: ActorRouteFence,
    name: PacketName,
    payload: Payload,
) -> Result<(ActorRequest, CallKey), Error> {
    let (operation, correlation) = core.ids.request();
    let request = ActorRequest {
        correlation,
        operation,
        message_follow_hop_count: HopCount::MIN,
        source_actor: caller.reference(),
        target_actor: target,
        bound_session_tail: None,
        metadata: None,
        payload: payload.into_wire(name)?,
    };
    Ok((request, (operation, ReplyRouteId::new(correlation.get())?)))
}

/// A request that is on its way, with nothing to wait for but its answer.
pub(crate) struct Asked {
    reply: spotlane_mesh::Asked,
    /// The answer may come from elsewhere, when the Actor moves (RL-265).
    relayed: Option<oneshot::Receiver<Outcome>>,
    core: Arc<Core>,
    key: CallKey,
    /// Whom the caller believes to be the owner.
    target: ActorRouteFence,
}

impl Asked {
    /// How it ended: whatever came first (EX-269).
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Poll::Ready(reply) = Pin::new(&mut self.reply).poll(cx) {
            return Poll::Ready(match reply {
                Ok(reply) => {
                    if is_stale(&reply) {
                        // RL-167: the next call looks again; this one is never sent elsewhere (RL-156).
                        self.core.forget_route(&relocation::tenure_of(&self.target));
                    }
                    outcome(reply)
                }
                Err(error) => Err(request_error(error)),
            });
        }
        match self
            .relayed
            .as_mut()
            .map(|relayed| Pin::new(relayed).poll(cx))
        {
            Some(Poll::Ready(Ok(outcome))) => return Poll::Ready(outcome),
            Some(Poll::Ready(Err(_))) => self.relayed = None,
            Some(Poll::Pending) | None => {}
        }
        Poll::Pending
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.core.pending.take(&self.key));
        self.core.pending.leave();
    }
}

/// As [`request`] where nothing has to be waited for but the answer: a place in the table is free and the connection has
/// room. `None` otherwise, and the payload is where it was. The mesh keeps the time, so no timer is started for the call (EX-390).
///
/// # Errors
/// The message cannot be sent at all.
pub(crate) fn ask_now(
    core: &Arc<Core>,
    caller: &Caller,
    target: ActorRouteFence,
    name: &PacketName,
    payload: &mut Payload,
    timeout: Duration,
) -> Result<Option<Asked>, Error> {
    let Some(place) = core.pending.try_place() else {
        return Ok(None);
    };
    let (request, key) = request_record(core, caller, target, name.clone(), payload.take())?;
    let (sender, relayed) = oneshot::channel();
    // EX-272: before it is sent.
    let mesh = core.mesh()?;
    core.pending.register(key, sender);
    let node = &request.target_actor.target_node_rid;
    let reply = match mesh.ask_ref(node, &request, timeout) {
        Ok(asked) => asked,
        Err(why) => {
            drop(core.pending.take(&key));
            if may_wait(&why) {
                payload.put_back(request.payload);
                return Ok(None);
            }
            return Err(refused(request.into(), why));
        }
    };
    // From here on it is given back by what is returned, and so is the place among the calls.
    place.keep();
    Ok(Some(Asked {
        reply,
        relayed: Some(relayed),
        core: Arc::clone(core),
        key,
        target: request.target_actor,
    }))
}

/// Whether a message only found no room or no connection.
const fn may_wait(why: &NotSubmitted) -> bool {
    matches!(
        why,
        NotSubmitted::Full { .. }
            | NotSubmitted::TooManyRequests { .. }
            | NotSubmitted::NotConnected
    )
}

fn refused(record: Record, why: NotSubmitted) -> Error {
    send_error(SendError::Refused(Refused {
        record: Box::new(record),
        why,
    }))
}

/// Where the end of a request came from.
pub(crate) enum Ended {
    /// On the connection of the request.
    Here(Reply),
    /// By command 33, since its Actor moved (RL-265).
    Relayed(Outcome),
}

/// What an application request has come to.
pub(crate) fn outcome_of(ended: Ended) -> Outcome {
    match ended {
        Ended::Here(reply) => outcome(reply),
        Ended::Relayed(outcome) => outcome,
    }
}

/// As [`exchange`] for a request whose Actor may move while it waits: then the answer comes from its new owner, and
/// whichever is first ends the call (EX-269). Registered before it is sent (EX-272). Needs no place in the table of its own:
/// a forwarded request is no operation of this host (RL-151), and everybody else has taken one.
pub(crate) async fn tracked(
    core: &Core,
    node: &NodeRid,
    record: Record,
    key: CallKey,
    deadline: &Deadline,
) -> Result<Ended, Error> {
    let (sender, relayed) = oneshot::channel();
    core.pending.register(key, sender);
    let _registered = Registered {
        pending: &core.pending,
        key,
    };
    tokio::select! {
        biased;
        reply = exchange_apart(core, node, record, deadline) => reply.map(Ended::Here),
        Ok(outcome) = relayed => Ok(Ended::Relayed(outcome)),
    }
}

/// Sends a record of class request, waiting for a place in the table (EX-273) and for the connection, and gives its reply.
pub(crate) async fn exchange(
    core: &Core,
    node: &NodeRid,
    record: Record,
    deadline: &Deadline,
) -> Result<Reply, Error> {
    let _place = core.pending.place(deadline).await?;
    exchange_apart(core, node, record, deadline).await
}

async fn exchange_apart(
    core: &Core,
    node: &NodeRid,
    mut record: Record,
    deadline: &Deadline,
) -> Result<Reply, Error> {
    loop {
        connected(core, node, deadline).await?;
        let left = deadline.left();
        let left = left.ok_or_else(|| Error::deadline("no answer came in time"))?;
        match core.mesh()?.request(node, record, left).await {
            Ok(reply) => return Ok(reply),
            Err(RequestError::NotSent(error)) if is_not_connected(&error) => {
                record = *error.into_record();
            }
            Err(error) => return Err(request_error(error)),
        }
    }
}

fn is_not_connected(error: &SendError) -> bool {
    matches!(error, SendError::Refused(refused) if refused.why == NotSubmitted::NotConnected)
}

fn is_stale(reply: &Reply) -> bool {
    matches!(
        reply.outcome.failure_code,
        FailureCode::ActorLocationStale | FailureCode::SpotMoving
    )
}

/// What a reply to an application request says.
pub(crate) fn outcome(reply: Reply) -> Outcome {
    match failure(&reply) {
        Some(error) => Err(error),
        None => Ok(reply
            .payload
            .map_or_else(Payload::empty, |payload| Payload::from_wire(payload).1)),
    }
}

pub(crate) fn failure(reply: &Reply) -> Option<Error> {
    Error::from_reply(reply.outcome.terminal_result, reply.outcome.failure_code)
}

/// Takes the tail of a reply apart from its failure.
///
/// # Errors
/// The operation failed.
pub(crate) fn tail(reply: Reply) -> Result<(ReplyTail, Option<Payload>), Error> {
    match failure(&reply) {
        Some(error) => Err(error),
        None => Ok((
            reply.outcome.tail,
            reply.payload.map(|payload| Payload::from_wire(payload).1),
        )),
    }
}

/// EX-357: errors of the mesh become public kinds here and nowhere else.
fn send_error(error: SendError) -> Error {
    let kind = match &error {
        SendError::DeadlineExceeded { .. } => ErrorKind::DeadlineExceeded,
        SendError::Refused(refused) => match &refused.why {
            NotSubmitted::Shutdown => ErrorKind::ShuttingDown,
            NotSubmitted::TooLarge { .. } => ErrorKind::InvalidOperation,
            NotSubmitted::Encode(_) | NotSubmitted::Misused(_) => ErrorKind::InternalFailure,
            _ => ErrorKind::Unavailable,
        },
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string()).with_source(error)
}

pub(crate) fn request_error(error: RequestError) -> Error {
    let kind = match error {
        RequestError::NotSent(error) => return send_error(error),
        RequestError::TimedOut { .. } => ErrorKind::DeadlineExceeded,
        RequestError::PeerError { .. } | RequestError::BrokenReply => ErrorKind::ProtocolError,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string()).with_source(error)
}
