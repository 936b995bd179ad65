//! Control records of other nodes: handled at once or by a task of their own, never behind handlers (EX-151,
//! EX-152).

use std::sync::{Arc, PoisonError};

use spotlane_location::authority::Authority;
use spotlane_mesh::{Flow, PeerEvent, PeerLink, Received, ReplyHandle};
use spotlane_relocation::notice::{self, NoticeJudgment};
use spotlane_types::count::Correlation;
use spotlane_types::generation::MembershipEpoch;
use spotlane_types::kind::{FailureCode, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::command::follow::{FollowRoute, MessageFollow};
use spotlane_wire::command::membership::{ActorDestroy, ActorJoin, ActorLookup};
use spotlane_wire::command::reply::{ActorJoinReply, ActorJoinTail, ActorLookupReply, ReplyTail};
use spotlane_wire::reference::ActorRef as WireActorRef;

use crate::core::{Core, actor_key};
use crate::error::Error;
use crate::inbound::{send_error, send_reply};
use crate::relocation::Taken;
use crate::{creations, destroy, relocation, session};

/// Takes one control record, and says whether its connection may go on.
pub(crate) fn take(core: &Arc<Core>, received: Received) -> Flow {
    let Received {
        from: link,
        record,
        reply,
    } = received;
    let record = match relocation::take(core, &link, record) {
        Taken::Not(record) => record,
        Taken::Yes(flow) => return flow,
    };
    if let Some((record, reply)) = session::take(core, &link, *record, reply) {
        operation(core, &link, record, reply);
    }
    Flow::Continue
}

/// Takes a record about Actors and routes.
fn operation(core: &Arc<Core>, link: &PeerLink, record: Record, reply: Option<ReplyHandle>) {
    match (record, reply) {
        (Record::ActorCreate(create), Some(handle)) => {
            begin(
                core,
                link,
                handle,
                create.correlation,
                |core, handle| async move {
                    creations::created(&core, *create, handle).await;
                },
            );
        }
        (Record::ActorDestroy(destroy), Some(handle)) => {
            begin(
                core,
                link,
                handle,
                destroy.correlation,
                |core, handle| async move {
                    destroyed(&core, destroy, handle).await;
                },
            );
        }
        (Record::ActorLookup(lookup), Some(handle)) => {
            begin(
                core,
                link,
                handle,
                lookup.correlation,
                |core, handle| async move {
                    looked_up(&core, lookup, handle).await;
                },
            );
        }
        (Record::ActorJoin(join), Some(handle)) if join.entry => entry_is_open(&join, handle),
        (Record::MessageFollow(notice), _) => moved(core, link, &notice),
        (record, Some(handle)) => not_served(&record, handle),
        (record, None) => {
            tracing::trace!(target: "spotlane::runtime::dispatch", command = record.name(), "zlink.dispatch_error");
        }
    }
}

/// Begins an operation in a task of its own, as long as its node has not too many under way.
fn begin<F: Future<Output = ()> + Send + 'static>(
    core: &Arc<Core>,
    link: &PeerLink,
    handle: ReplyHandle,
    correlation: Correlation,
    run: impl FnOnce(Arc<Core>, ReplyHandle) -> F,
) {
    match core.operations.begin(link.peer()) {
        Ok(operation) => {
            let running = run(Arc::clone(core), handle);
            core.tasks.spawn(async move {
                running.await;
                drop(operation);
            });
        }
        Err(error) => send_error(handle, correlation, &error),
    }
}

/// A peer has come or gone.
pub(crate) fn peer_changed(core: &Arc<Core>, link: &PeerLink, event: &PeerEvent) {
    relocation::peer_changed(core, link, event);
}

/// WR-58: an Entry Spot has no approval; whoever asks is told so, and nothing is prepared.
fn entry_is_open(join: &ActorJoin, handle: ReplyHandle) {
    let owner = join.actor.expected_authority_owner_generation.get();
    let accepted = MembershipEpoch::new(owner).map(|membership_epoch| {
        ReplyTail::ActorJoin(Box::new(ActorJoinTail {
            join: ActorJoinReply::Accepted {
                spot: join.target_spot.spot.clone(),
                membership_epoch,
                receive_chunk_limit_bytes: None,
            },
        }))
    });
    let (result, code) = (TerminalResult::Ok, FailureCode::None);
    match accepted {
        Ok(tail) => send_reply(handle, join.correlation, result, code, tail, None),
        Err(error) => send_error(handle, join.correlation, &Error::from(error)),
    }
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
    // RL-161: the hop that says so is the one the message was sent to.
    if source.target_node_rid != *link.peer() {
        tracing::debug!(target: "spotlane::runtime::follow", "a notice does not fit its sender");
        return;
    }
    if let FollowRoute::Actor { actor: target } = &notice.route.target
        && target.actor == source.actor
    {
        core.sessions.followed(source, target);
    }
    let tenure = relocation::tenure_of(source);
    let cached = core.cached_route(&tenure.object);
    let cached = cached.and_then(|tenure| relocation::route_of(&tenure));
    match notice::judge(&notice.route, cached.as_ref()) {
        NoticeJudgment::Remove => {
            let mut routes = core.routes.lock().unwrap_or_else(PoisonError::into_inner);
            routes.remove_exact(&tenure);
        }
        NoticeJudgment::Keep => {}
        NoticeJudgment::Violation => {
            tracing::debug!(target: "spotlane::runtime::follow", "a notice names two objects");
        }
    }
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
            ReplyTail::ActorLookup(Box::new(tail)),
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
        membership_epoch: MembershipEpoch::new(row.authority_owner_generation.get())?,
        authority_owner_generation: row.authority_owner_generation,
    })
}
