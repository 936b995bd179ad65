//! Requests whose answer may come from elsewhere: their object moved while they waited (RL-260 to RL-269).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use spotlane_mesh::PeerLink;
use spotlane_types::count::ReplyRouteId;
use spotlane_types::generation::{NodeGeneration, OwnerLeaseGeneration};
use spotlane_types::id::{NodeRid, OperationId, OwnerId, PacketName, RelocationId};
use spotlane_types::kind::{FailureCode, ReplyRelayAckStatus, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::command::reply::{ReplyRelay, ReplyRelayAck, ReplyRelayContext};
use spotlane_wire::frozen::FrozenSource;
use spotlane_wire::reference::{RelocationCoordinatorFence, RequestSourceFence};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

use super::replies::{Delivery, Ticket};
use crate::clock::Deadline;
use crate::core::Core;
use crate::error::Error;
use crate::message::{Answer, Outcome};
use crate::payload::Payload;

/// What names a request for the run of its source: both, and both words of the operation (RL-260).
pub(crate) type CallKey = (OperationId, ReplyRouteId);

/// EX-273: how many requests to other nodes may wait for their answers; more wait for a place first.
const OPERATIONS_MAX: usize = 4096;

/// The calls of this host that a relayed reply may end, and the relayed replies that wait for their confirmation.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The places of the table, given in the order in which they were asked for.
    places: Semaphore,
    /// One slot per call, taken once (EX-270). Leaf locks, several of them: callers on two threads would meet at one.
    calls: [Mutex<Calls>; CALL_SHARDS],
    /// Replies of ours that were relayed and not confirmed. A leaf lock.
    relayed: Mutex<HashMap<CallKey, Relayed>>,
    /// Says that the last of them has ended.
    settled: Notify,
}

type Calls = HashMap<CallKey, oneshot::Sender<Outcome>, RandomState>;

const CALL_SHARDS: usize = 16;

/// A reply that was relayed: what its confirmation has to say (RL-266), and who waits for that.
#[derive(Debug)]
struct Relayed {
    relocation: RelocationId,
    coordinator: RelocationCoordinatorFence,
    source: RequestSourceFence,
    confirmed: Arc<Notify>,
}

/// The place of one request in the table (EX-273).
#[derive(Debug)]
pub(crate) struct TablePlace<'a> {
    permit: SemaphorePermit<'a>,
}

impl TablePlace<'_> {
    /// Keeps the place beyond this value: [`Pending::leave`] gives it back.
    pub(crate) fn keep(self) {
        self.permit.forget();
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            places: Semaphore::new(OPERATIONS_MAX),
            calls: Default::default(),
            relayed: Mutex::default(),
            settled: Notify::new(),
        }
    }
}

impl Pending {
    /// A place in the table, waited for within the deadline of the request and before it is sent (EX-273).
    ///
    /// # Errors
    /// `DeadlineExceeded`: none was free in time, and nothing was sent.
    pub(crate) async fn place(&self, deadline: &Deadline) -> Result<TablePlace<'_>, Error> {
        if let Some(place) = self.try_place() {
            return Ok(place);
        }
        let left = deadline.left().unwrap_or_default();
        let place = tokio::time::timeout(left, self.places.acquire()).await;
        match place {
            Ok(Ok(permit)) => Ok(TablePlace { permit }),
            Ok(Err(_)) => Err(Error::shutting_down()),
            Err(_) => Err(Error::deadline(format!(
                "{OPERATIONS_MAX} requests wait for their answers, at most {OPERATIONS_MAX} may; the request was not sent"
            ))),
        }
    }

    /// A place in the table if one is free and nobody waits for it.
    pub(crate) fn try_place(&self) -> Option<TablePlace<'_>> {
        let permit = self.places.try_acquire().ok()?;
        Some(TablePlace { permit })
    }

    /// Gives back a place that was [kept](TablePlace::keep).
    pub(crate) fn leave(&self) {
        self.places.add_permits(1);
    }

    /// How many requests have a place.
    pub(crate) fn len(&self) -> usize {
        OPERATIONS_MAX.saturating_sub(self.places.available_permits())
    }

    /// Waits until every reply that was relayed is confirmed, or its caller is gone (RL-267).
    pub(crate) async fn all_confirmed(&self) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if self.relayed().is_empty() {
                return;
            }
            settled.await;
        }
    }

    /// The part of the table that a call is in. Operations are numbered, so neighbours are in different parts.
    fn calls(&self, key: &CallKey) -> MutexGuard<'_, Calls> {
        let [first, ..] = &self.calls;
        let shard = usize::try_from(key.0.low() / 2).unwrap_or(0) % CALL_SHARDS;
        let calls = self.calls.get(shard).unwrap_or(first);
        calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call before it is sent (EX-272).
    pub(crate) fn register(&self, key: CallKey, sender: oneshot::Sender<Outcome>) {
        let mut calls = self.calls(&key);
        // Callers that gave up are noticed here; nobody else tells.
        if calls.len() >= SWEEP_FROM && calls.len().is_power_of_two() {
            calls.retain(|_, sender| !sender.is_closed());
        }
        let old = calls.insert(key, sender);
        drop(calls);
        drop(old);
    }

    /// Takes a call out: only the taker ends it (EX-270).
    pub(crate) fn take(&self, key: &CallKey) -> Option<oneshot::Sender<Outcome>> {
        self.calls(key).remove(key)
    }

    fn relayed(&self) -> MutexGuard<'_, HashMap<CallKey, Relayed>> {
        self.relayed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From how many calls of one part on those that nobody waits for are looked for.
const SWEEP_FROM: usize = 1024 / CALL_SHARDS;

/// Takes a registered call out when its caller ends otherwise.
pub(crate) struct Registered<'a> {
    pub(crate) pending: &'a Pending,
    pub(crate) key: CallKey,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        drop(self.pending.take(&self.key));
    }
}

/// The node behind a frozen source.
pub(crate) fn node_of(
    source: &FrozenSource,
) -> (&NodeRid, NodeGeneration, &OwnerId, OwnerLeaseGeneration) {
    let (FrozenSource::Node {
        source_node_rid,
        source_node_generation,
        source_owner_id,
        source_owner_lease_generation,
    }
    | FrozenSource::Spot {
        source_node_rid,
        source_node_generation,
        source_owner_id,
        source_owner_lease_generation,
        ..
    }
    | FrozenSource::Actor {
        source_node_rid,
        source_node_generation,
        source_owner_id,
        source_owner_lease_generation,
        ..
    }
    | FrozenSource::BoundSession {
        source_node_rid,
        source_node_generation,
        source_owner_id,
        source_owner_lease_generation,
        ..
    }) = source;
    (
        source_node_rid,
        *source_node_generation,
        source_owner_id,
        *source_owner_lease_generation,
    )
}

/// The way back to the caller of a request that came with a moved object.
pub(crate) struct RelayAnswer {
    pub(crate) core: Arc<Core>,
    pub(crate) source: FrozenSource,
    pub(crate) key: CallKey,
    /// Why it is relayed, and which request it is.
    pub(crate) context: ReplyRelayContext,
    /// Its place among the answers that are awaited.
    pub(crate) ticket: Option<Ticket>,
}

impl Answer for RelayAnswer {
    fn answer(self: Box<Self>, name: Option<&PacketName>, outcome: Outcome) {
        let Self {
            core,
            source,
            key,
            context,
            ticket,
        } = *self;
        let kept = outcome.clone();
        let delivery = ticket.map(|ticket| ticket.answered(relay_of(key, &context, name, kept)));
        end(&core, &source, key, &context, name, outcome, delivery);
    }

    fn stale(self: Box<Self>) {
        self.answer(None, Err(Error::unavailable("the actor has moved on")));
    }

    fn gone(self: Box<Self>) {
        let gone = self.core.gone();
        self.answer(None, Err(gone));
    }

    fn route(&self) -> ReplyRouteId {
        self.key.1
    }
}

/// Ends a request at its source: here, or by command 33 on its reply route (RL-265).
pub(crate) fn end_call(
    core: &Arc<Core>,
    source: &FrozenSource,
    key: CallKey,
    context: &ReplyRelayContext,
    outcome: Outcome,
) {
    end(core, source, key, context, None, outcome, None);
}

fn end(
    core: &Arc<Core>,
    source: &FrozenSource,
    key: CallKey,
    context: &ReplyRelayContext,
    name: Option<&PacketName>,
    outcome: Outcome,
    delivery: Option<Delivery>,
) {
    let (rid, generation, owner, lease) = node_of(source);
    if *rid == core.identity.rid && generation == core.identity.generation {
        if let Some(sender) = core.pending.take(&key) {
            // A caller that went away does not want it.
            drop(sender.send(outcome));
        }
        return;
    }
    let relay = relay_of(key, context, name, outcome);
    let ReplyRelayContext::MaintenanceRelocation {
        relocation,
        coordinator,
        ..
    } = context
    else {
        return;
    };
    let confirmed = Arc::new(Notify::new());
    let waiting = Relayed {
        relocation: *relocation,
        coordinator: coordinator.clone(),
        source: RequestSourceFence {
            source_owner_id: owner.clone(),
            source_owner_lease_generation: lease,
            source_node_rid: rid.clone(),
            source_node_generation: generation,
        },
        confirmed: Arc::clone(&confirmed),
    };
    core.pending.relayed().insert(key, waiting);
    let (task, rid, owner) = (Arc::clone(core), rid.clone(), owner.clone());
    core.tasks.spawn(async move {
        relay_until_confirmed(&task, &rid, (&owner, lease), relay, &confirmed).await;
        drop(delivery);
        let mut relayed = task.pending.relayed();
        relayed.remove(&key);
        if relayed.is_empty() {
            task.pending.settled.notify_waiters();
        }
    });
}

/// Command 33 with what a request has come to.
fn relay_of(
    key: CallKey,
    context: &ReplyRelayContext,
    name: Option<&PacketName>,
    outcome: Outcome,
) -> ReplyRelay {
    let wire = |payload: Payload| {
        payload.into_wire(name.cloned().unwrap_or_else(crate::inbound::reply_name))
    };
    let (terminal_result, failure_code, payload) = match outcome.and_then(wire) {
        Ok(payload) => (TerminalResult::Ok, FailureCode::None, Some(payload)),
        Err(error) => {
            let (result, failure) = error.kind().to_wire();
            (result, failure, None)
        }
    };
    ReplyRelay {
        operation: key.0,
        reply_route_id: key.1,
        context: context.clone(),
        terminal_result,
        failure_code,
        payload,
    }
}

/// RL-265: repeated until it is confirmed, or its source's lease has ended.
async fn relay_until_confirmed(
    core: &Core,
    rid: &NodeRid,
    source: (&OwnerId, OwnerLeaseGeneration),
    relay: ReplyRelay,
    confirmed: &Notify,
) {
    let mut wait = Duration::from_millis(250);
    loop {
        let sent = core
            .mesh()
            .ok()
            .map(|mesh| mesh.submit(rid, Record::from(relay.clone())));
        if let Some(Err(error)) = sent {
            tracing::debug!(target: "spotlane::runtime::relocation", %error, "a relayed reply was not sent");
        }
        if tokio::time::timeout(wait, confirmed.notified())
            .await
            .is_ok()
        {
            return;
        }
        let (owner, lease) = source;
        let lives = core
            .directory
            .nodes()
            .iter()
            .any(|node| node.lease().is_of(owner, lease));
        if !lives {
            return;
        }
        wait = wait.saturating_mul(2).min(Duration::from_secs(5));
    }
}

/// Command 33: the answer to a call of this host (RL-266, RL-268).
pub(crate) fn take_relay(core: &Core, link: &PeerLink, relay: ReplyRelay) {
    let ReplyRelayContext::MaintenanceRelocation {
        relocation,
        coordinator,
        ..
    } = relay.context
    else {
        return;
    };
    let key = (relay.operation, relay.reply_route_id);
    let status = match core.pending.take(&key) {
        Some(sender) => {
            let outcome = match Error::from_reply(relay.terminal_result, relay.failure_code) {
                Some(error) => Err(error),
                None => Ok(relay
                    .payload
                    .map_or_else(Payload::empty, |payload| Payload::from_wire(payload).1)),
            };
            drop(sender.send(outcome));
            ReplyRelayAckStatus::TerminalReceived
        }
        None => ReplyRelayAckStatus::AlreadyTerminal,
    };
    let Some(held) = core.lease.held() else {
        return;
    };
    let ack = ReplyRelayAck {
        relocation,
        coordinator,
        operation: key.0,
        reply_route_id: key.1,
        request_source: RequestSourceFence {
            source_owner_id: core.identity.owner.clone(),
            source_owner_lease_generation: held.lease().generation(),
            source_node_rid: core.identity.rid.clone(),
            source_node_generation: core.identity.generation,
        },
        status,
    };
    if let Err(error) = link.submit(Record::from(ack)) {
        tracing::debug!(target: "spotlane::runtime::relocation", %error, "a confirmation was not sent");
    }
}

/// Command 46: the source has its answer. It counts only when the node of the request says so and everything is what it was
/// (RL-266).
pub(crate) fn take_confirmation(core: &Core, link: &PeerLink, ack: &ReplyRelayAck) {
    let fits = |relayed: &Relayed| {
        relayed.relocation == ack.relocation
            && relayed.coordinator == ack.coordinator
            && relayed.source == ack.request_source
            && *link.peer() == relayed.source.source_node_rid
            && link.node_generation() == relayed.source.source_node_generation
    };
    let relayed = core.pending.relayed();
    let found = relayed.get(&(ack.operation, ack.reply_route_id));
    if let Some(relayed) = found.filter(|relayed| fits(relayed)) {
        relayed.confirmed.notify_one();
    }
}
