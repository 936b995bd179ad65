//! Creations that other nodes ask for: command 49, its one run, and the record that answers a repeat (RL-84 to RL-87).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spotlane_location::authority::{Authority, CreationOperation, ReservedObject, TerminalRecord};
use spotlane_location::record::PendingCreation;
use spotlane_mesh::ReplyHandle;
use spotlane_types::id::ReservationId;
use spotlane_types::kind::{FailureCode, TerminalResult};
use spotlane_wire::command::creation::ActorCreate;
use spotlane_wire::command::reply::{ActorCreateTail, ReplyTail};
use spotlane_wire::creation::{ActorCreateTerminal, CreationOperationTerminal};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::ActorRef as WireActorRef;
use tokio::sync::Notify;

use crate::activate::{self, Activated};
use crate::clock::Deadline;
use crate::core::{Core, actor_key};
use crate::error::Error;
use crate::inbound::send_reply;
use crate::payload::Payload;

/// The creations of other nodes that run here now: each reservation once.
#[derive(Debug, Default)]
pub(crate) struct Creations {
    /// A leaf lock.
    running: Mutex<HashSet<ReservationId>>,
    ended: Notify,
}

/// One creation that runs here; another command 49 for it waits for its end.
struct Running<'a> {
    creations: &'a Creations,
    reservation: &'a ReservationId,
}

impl Creations {
    fn running(&self) -> MutexGuard<'_, HashSet<ReservationId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// RL-86: a repeat that comes while the first one runs waits for its result.
    async fn begin<'a>(&'a self, reservation: &'a ReservationId) -> Running<'a> {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.running().insert(reservation.clone()) {
                return Running {
                    creations: self,
                    reservation,
                };
            }
            ended.await;
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.creations.running().remove(self.reservation);
        self.creations.ended.notify_waiters();
    }
}

/// Command 49: the reservation is ours; run it (RL-84).
pub(crate) async fn created(core: &Arc<Core>, create: ActorCreate, handle: ReplyHandle) {
    let correlation = create.correlation;
    let ended = match run(core, &create).await {
        Ok(ended) => ended,
        Err(error) => failed(&error),
    };
    let CreationOperationTerminal {
        terminal_result,
        failure_code,
        creation,
        application_payload,
    } = ended;
    let tail = creation.map_or(ReplyTail::None, |creation| {
        ReplyTail::ActorCreate(Box::new(ActorCreateTail { creation }))
    });
    // RL-87: encoded anew for the connection of this command.
    send_reply(
        handle,
        correlation,
        terminal_result,
        failure_code,
        tail,
        application_payload,
    );
}

fn failed(error: &Error) -> CreationOperationTerminal {
    let (terminal_result, failure_code) = error.kind().to_wire();
    CreationOperationTerminal {
        terminal_result,
        failure_code,
        creation: None,
        application_payload: None,
    }
}

fn ok(
    creation: ActorCreateTerminal,
    application_payload: Option<ApplicationPayload>,
) -> CreationOperationTerminal {
    CreationOperationTerminal {
        terminal_result: TerminalResult::Ok,
        failure_code: FailureCode::None,
        creation: Some(creation),
        application_payload,
    }
}

async fn run(core: &Arc<Core>, create: &ActorCreate) -> Result<CreationOperationTerminal, Error> {
    let now = core.clock.unix().get();
    let left = create.deadline_unix_ms.get().saturating_sub(now);
    let deadline = core.deadline(Duration::from_millis(left));
    let begun = core.creations.begin(&create.reservation.reservation_id);
    let late = |_| Error::deadline("the first run of the creation did not end in time");
    let left = deadline.left().unwrap_or_default();
    let _running = tokio::time::timeout(left, begun).await.map_err(late)?;
    let terminals = Terminals {
        operation: CreationOperation {
            source: create.source_node_rid.clone(),
            source_generation: create.source_node_generation,
            operation: create.operation,
        },
        deadline,
    };
    let key = actor_key(&create.actor_id);
    match core.repository.read(&key, deadline.location()).await? {
        Authority::Reserved(reserved) if is_ours(&reserved, create) => {
            first_run(core, create, reserved, &terminals).await
        }
        other => repeated(core, create, &other, &terminals).await,
    }
}

fn is_ours(reserved: &ReservedObject, create: &ActorCreate) -> bool {
    let row = reserved.row();
    let pending = row.pending_creation.as_ref();
    row.object_generation == create.reservation.object_generation
        && pending
            .is_some_and(|pending| pending.reservation_id == create.reservation.reservation_id)
}

async fn first_run(
    core: &Arc<Core>,
    create: &ActorCreate,
    reserved: ReservedObject,
    terminals: &Terminals,
) -> Result<CreationOperationTerminal, Error> {
    // RL-84: a request that is not what the row says runs no factory.
    let pending = reserved.row().pending_creation.as_ref();
    let request = pending.and_then(PendingCreation::request);
    let request = request.ok_or_else(|| Error::internal("the stored request is damaged"))?;
    let request = decode_request(&request)?;
    let until = terminals.deadline.location();
    let name = core.identity.descriptor_name();
    let node = core.repository.candidate(&name, until).await?;
    let node = node.ok_or_else(|| Error::unavailable("this node is not in the directory"))?;
    let actor = WireActorRef {
        actor_id: create.actor_id.clone(),
        object_generation: reserved.row().object_generation,
    };
    let deadline = &terminals.deadline;
    let done = activate::activate(core, &node, reserved, request, Some(terminals), deadline);
    let (creation, reply) = match done.await? {
        Activated::Created { reply, .. } => (ActorCreateTerminal::Created { actor }, reply),
        Activated::Rejected { reply } => (ActorCreateTerminal::Rejected {}, reply),
        // RL-83: the creator asks another node.
        Activated::Full(full) => {
            tracing::debug!(target: "spotlane::runtime::placement", %full, "a creation was not taken");
            return Ok(not_taken());
        }
    };
    let reply = reply.map(|reply| reply.into_wire(activate::request_name()));
    Ok(ok(creation, reply.transpose()?))
}

/// Nothing was made and nobody was asked: the creator looks for a node anew (RL-237).
fn not_taken() -> CreationOperationTerminal {
    let failure_code = FailureCode::WorkerQueueFull;
    CreationOperationTerminal {
        terminal_result: failure_code
            .terminal_result()
            .unwrap_or(TerminalResult::Busy),
        failure_code,
        creation: None,
        application_payload: None,
    }
}

/// RL-86, RL-87: a repeat of an operation that has ended is answered by what it left; the row says the rest.
async fn repeated(
    core: &Core,
    create: &ActorCreate,
    found: &Authority,
    terminals: &Terminals,
) -> Result<CreationOperationTerminal, Error> {
    let until = terminals.deadline.location();
    let left = core
        .repository
        .creation_result(&terminals.operation, until)
        .await?;
    if let Some(bytes) = left {
        return spotlane_wire::decode(&bytes).map_err(|error| {
            Error::internal("the stored end of a creation is damaged").with_source(error)
        });
    }
    match found {
        Authority::Active(active)
            if active.row().object_generation == create.reservation.object_generation =>
        {
            let actor = WireActorRef {
                actor_id: create.actor_id.clone(),
                object_generation: active.row().object_generation,
            };
            Ok(ok(ActorCreateTerminal::Created { actor }, None))
        }
        Authority::Reserved(_) => Err(Error::unavailable("the reservation is another's")),
        Authority::Active(_) => Err(Error::unavailable("the reservation is gone")),
        // RL-85: it was given back before the callback, which leaves no record.
        Authority::Missing => Ok(not_taken()),
    }
}

fn decode_request(bytes: &bytes::Bytes) -> Result<Option<Payload>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let payload: ApplicationPayload = spotlane_wire::decode(bytes)
        .map_err(|error| Error::internal("the stored request is damaged").with_source(error))?;
    Ok(Some(Payload::from_wire(payload).1))
}

/// Writes the end of a creation down, in the batch that ends it, for a repeat of the same operation: kept five minutes past
/// its deadline (RL-85, RL-87).
pub(crate) struct Terminals {
    operation: CreationOperation,
    deadline: Deadline,
}

impl Terminals {
    pub(crate) fn created(
        &self,
        actor: WireActorRef,
        reply: Option<&Payload>,
    ) -> Option<TerminalRecord> {
        self.answered(ActorCreateTerminal::Created { actor }, reply)
    }

    pub(crate) fn rejected(&self, reply: Option<&Payload>) -> Option<TerminalRecord> {
        self.answered(ActorCreateTerminal::Rejected {}, reply)
    }

    pub(crate) fn failed(&self, error: &Error) -> Option<TerminalRecord> {
        self.record(&failed(error))
    }

    fn answered(
        &self,
        creation: ActorCreateTerminal,
        reply: Option<&Payload>,
    ) -> Option<TerminalRecord> {
        let reply = reply
            .cloned()
            .map(|reply| reply.into_wire(activate::request_name()));
        match reply.transpose() {
            Ok(reply) => self.record(&ok(creation, reply)),
            Err(error) => self.record(&failed(&error)),
        }
    }

    /// What does not fit the store is not kept (RL-87): a repeat is answered by the row then.
    fn record(&self, terminal: &CreationOperationTerminal) -> Option<TerminalRecord> {
        let left = self.deadline.left().unwrap_or_default();
        let record = spotlane_wire::encode(terminal)
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                let record = TerminalRecord::new(self.operation.clone(), bytes, left);
                record.map_err(|error| error.to_string())
            });
        record
            .inspect_err(|error| {
                tracing::warn!(target: "spotlane::runtime::placement", error, "the end of a creation was not kept");
            })
            .ok()
    }
}
