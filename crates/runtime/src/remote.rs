//! Messages to Actors of other nodes: commands 24 and 25, and what their replies mean.

use std::sync::Arc;

use spotlane_location::cache::Route;
use spotlane_mesh::{NotSubmitted, RequestError, SendError};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::HopCount;
use spotlane_types::id::{ActorId, PacketName};
use spotlane_types::kind::FailureCode;
use spotlane_wire::Record;
use spotlane_wire::command::message::{ActorRequest, ActorSend};
use spotlane_wire::command::reply::{Reply, ReplyTail};
use spotlane_wire::reference::{ActorRef, ActorRouteFence};

use crate::calls::Caller;
use crate::clock::Deadline;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::message::Outcome;
use crate::payload::Payload;
use crate::resolve::connected;

/// The fence of a message: the tenure that its sender believes in.
///
/// # Errors
/// The route is not that of an Actor.
pub(crate) fn fence(route: &Route) -> Result<ActorRouteFence, Error> {
    let tenure = &route.tenure;
    let AuthorityKey::Actor(id) = &tenure.object else {
        return Err(Error::invalid("the object is a spot"));
    };
    Ok(fence_of(id, tenure))
}

pub(crate) fn fence_of(id: &ActorId, tenure: &spotlane_location::cache::Tenure) -> ActorRouteFence {
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

/// Sends a one-way message to its owner. The target is fixed here: nothing is sent again elsewhere (EX-265, RL-156).
pub(crate) async fn send(
    core: &Core,
    caller: &Caller,
    route: Route,
    name: PacketName,
    payload: Payload,
    deadline: &Deadline,
) -> Result<(), Error> {
    let mut record = Record::from(ActorSend {
        operation: core.ids.operation(),
        message_follow_hop_count: HopCount::MIN,
        source_actor: caller.reference(),
        target_actor: fence(&route)?,
        bound_session_tail: None,
        metadata: None,
        payload: payload.into_wire(name)?,
    });
    let node = &route.tenure.node_rid;
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
    route: Route,
    name: PacketName,
    payload: Payload,
    deadline: &Deadline,
) -> Outcome {
    let operation = core.ids.operation();
    let correlation = core.ids.correlation();
    let record = Record::from(ActorRequest {
        correlation,
        operation,
        message_follow_hop_count: HopCount::MIN,
        source_actor: caller.reference(),
        target_actor: fence(&route)?,
        bound_session_tail: None,
        metadata: None,
        payload: payload.into_wire(name)?,
    });
    let reply = exchange(core, &route.tenure.node_rid, record, deadline).await?;
    if is_stale(&reply) {
        // RL-167: the next call looks again; this one is never sent elsewhere (RL-156).
        core.forget_route(&route.tenure);
    }
    outcome(reply)
}

/// Sends a record of class request, waiting for the connection, and gives its reply.
pub(crate) async fn exchange(
    core: &Core,
    node: &spotlane_types::id::NodeRid,
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

fn request_error(error: RequestError) -> Error {
    let kind = match error {
        RequestError::NotSent(error) => return send_error(error),
        RequestError::TimedOut { .. } => ErrorKind::DeadlineExceeded,
        RequestError::PeerError { .. } | RequestError::BrokenReply => ErrorKind::ProtocolError,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string()).with_source(error)
}
