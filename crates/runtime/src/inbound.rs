//! What comes in from other nodes, and where it goes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use foldhash::fast::RandomState;
use spotlane_lane::{JobPermit, JobPermits, JobSource, Refusal};
use spotlane_mesh::{
    ActorMessage, Burst, Flow, Inbound, PeerEvent, PeerLink, Received, ReplyHandle,
};
use spotlane_session::Peer;
use spotlane_types::count::{Correlation, HopCount, ReplyRouteId};
use spotlane_types::id::{ActorId, NodeRid, OperationId, PacketName};
use spotlane_types::kind::{FailureCode, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::command::message::{BoundSessionTail, BoundSessionTailView};
use spotlane_wire::command::reply::{Reply, ReplyOutcome, ReplyTail};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{ActorRef, ActorRefView, ActorRouteFence, ActorRouteFenceView};
use spotlane_wire::view::{MetadataView, PayloadView, Viewed as _};

use crate::cell::{NOT_ADMITTED, Work};
use crate::control;
use crate::core::Core;
use crate::drops::{self, Reason};
use crate::error::Error;
use crate::message::{Message, Origin, Outcome, PeerOrigin, ReplyTo, Route};
use crate::payload::Payload;
use crate::relocation;
use crate::session;
use crate::slots::{Live, Slot};

/// Takes the records of all peers.
pub(crate) struct Dispatcher {
    core: Weak<Core>,
    /// One source of jobs for each peer (EX-123). A leaf lock.
    ingress: Mutex<HashMap<NodeRid, Ingress, RandomState>>,
}

/// Where the permits of a peer come from.
struct Ingress {
    source: JobSource,
    /// The connection whose next record waits for a permit.
    waits: Option<PeerLink>,
}

/// Resumes a connection with the very return of the permit that its next record waits for: no task in between has to get its
/// turn first, behind which everything else on the connection would wait too (EX-389).
struct Resume(PeerLink);

/// What resumes a connection when it is woken.
pub(crate) fn resumes(link: &PeerLink) -> Waker {
    Waker::from(Arc::new(Resume(link.clone())))
}

impl Wake for Resume {
    fn wake(self: Arc<Self>) {
        self.0.resume();
    }
}

impl Dispatcher {
    pub(crate) fn new(core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::downgrade(core),
            ingress: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeRid, Ingress, RandomState>> {
        self.ingress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// EX-120: a permit before the record is taken; `None` when the record has to wait for one. Its connection is resumed
    /// when there is one, which is kept for it.
    fn permit(&self, core: &Core, link: &PeerLink) -> Option<JobPermit> {
        let mut ingress = self.lock();
        let entry = ingress
            .entry(link.peer().clone())
            .or_insert_with(|| Ingress::new(core));
        if entry.waits.is_none()
            && let Some(permit) = entry.source.try_reserve()
        {
            return Some(permit);
        }
        let mut before = None;
        if entry.waits.as_ref().is_some_and(|waits| waits != link) {
            // TR-87: what waited on the connection before it is gone, and a permit that came for that goes back (EX-130).
            before = Some(std::mem::replace(entry, Ingress::new(core)));
        }
        let resumes = resumes(link);
        let polled = entry
            .source
            .poll_reserve(&mut Context::from_waker(&resumes));
        let permit = match polled {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        };
        entry.waits = permit.is_none().then(|| link.clone());
        drop(ingress);
        drop(before);
        permit
    }

    /// EX-384, I1: permits for a burst, as many as are free. `None` when there is none: its first message says so, and one
    /// that was waited for goes first.
    fn permits(&self, core: &Core, link: &PeerLink, records: usize) -> Option<JobPermits> {
        let mut ingress = self.lock();
        let entry = ingress
            .entry(link.peer().clone())
            .or_insert_with(|| Ingress::new(core));
        let most = u32::try_from(records).unwrap_or(BURST_PERMITS_MAX);
        entry.source.try_reserve_up_to(most.min(BURST_PERMITS_MAX))
    }

    /// What waits on a connection that is over is gone (TR-87).
    fn lost(&self, link: &PeerLink) {
        let mut ingress = self.lock();
        let gone = ingress.remove(link.peer());
        drop(ingress);
        drop(gone);
    }
}

impl Ingress {
    fn new(core: &Core) -> Self {
        Self {
            source: core.jobs.source(),
            waits: None,
        }
    }
}

/// EX-384, I1
const BURST_PERMITS_MAX: u32 = 64;

/// The dispatcher as the mesh owns it.
pub(crate) struct Inlet(pub(crate) Arc<Dispatcher>);

impl Inbound for Inlet {
    fn on_record(&self, received: Received) -> Flow {
        let Received {
            from,
            record,
            reply,
        } = received;
        match Intake::new(&self.0, &from, 0) {
            Some(mut intake) => intake.take(record, reply),
            None => Flow::Continue,
        }
    }

    fn on_message(
        &self,
        from: &PeerLink,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        Intake::new(&self.0, from, 0)?.take_message(message, reply)
    }

    fn on_burst<'a>(&'a self, from: &'a PeerLink, records: usize) -> Option<Box<dyn Burst + 'a>> {
        Some(Box::new(Intake::new(&self.0, from, records)?))
    }

    fn on_peer(&self, link: &PeerLink, event: PeerEvent) {
        if matches!(event, PeerEvent::Lost { .. }) {
            // Also when the host has ended: who waits for a permit keeps its connection.
            self.0.lost(link);
        }
        let Some(core) = self.0.core.upgrade() else {
            return;
        };
        if let PeerEvent::Lost { reason } = &event {
            tracing::info!(target: "spotlane::runtime::mesh", %reason, "zlink.runtime.mesh_node.peer_changed");
        } else {
            tracing::info!(target: "spotlane::runtime::mesh", "zlink.runtime.mesh_node.peer_changed");
        }
        control::peer_changed(&core, link, &event);
    }
}

/// What the host says of itself, looked up once for all records that are handed up together (EX-370).
struct Judged {
    /// EX-105: it has not begun to end.
    takes_messages: bool,
    /// EX-107: it may start something.
    admits: bool,
}

impl Judged {
    fn now(core: &Core) -> Self {
        Self {
            takes_messages: core.must_take_messages().is_ok(),
            admits: core.admits(),
        }
    }
}

/// Takes records of one connection that are handed up together: what all of them need is looked up and reserved once.
struct Intake<'a> {
    core: Arc<Core>,
    dispatcher: &'a Arc<Dispatcher>,
    link: &'a PeerLink,
    judged: Judged,
    /// How many records may still come; 0 for one that comes by itself.
    burst: usize,
    /// EX-384, I1: for the messages of a burst. Reserved for the first of them, and given back before anything else.
    permits: Option<JobPermits>,
    /// Whose message came last: mostly more of them follow. What has changed since is found out by its lane, which gives the
    /// message back.
    last: Option<Arc<Live>>,
}

/// What the two commands of a message have in common.
struct Seen<'m, 'a> {
    operation: OperationId,
    hops: HopCount,
    source: Option<&'m ActorRefView<'a>>,
    target: &'m ActorRouteFenceView<'a>,
    tail: Option<&'m BoundSessionTailView<'a>>,
    metadata: Option<&'m MetadataView<'a>>,
    payload: &'m PayloadView<'a>,
}

impl<'m, 'a> Seen<'m, 'a> {
    /// With what the answer of a request repeats.
    #[inline]
    fn of(message: &'m ActorMessage<'a>) -> (Self, Option<Correlation>) {
        macro_rules! seen {
            ($view:ident) => {
                Self {
                    operation: $view.operation,
                    hops: $view.message_follow_hop_count,
                    source: $view.source_actor.as_ref(),
                    target: &$view.target_actor,
                    tail: $view.bound_session_tail.as_ref(),
                    metadata: $view.metadata.as_ref(),
                    payload: &$view.payload,
                }
            };
        }
        match message {
            ActorMessage::Send(view) => (seen!(view), None),
            ActorMessage::Request(view) => (seen!(view), Some(view.correlation)),
        }
    }
}

/// Whether an ordinary message, of no session, is for this Actor in this run of the host (RL-169).
fn is_for(core: &Core, live: &Live, seen: &Seen<'_, '_>) -> bool {
    let target = seen.target;
    seen.tail.is_none()
        && target.actor.actor_id.as_bytes() == live.unit.id().as_bytes()
        && target.target_node_rid.as_bytes() == core.identity.rid.as_bytes()
        && target.target_node_generation == core.identity.generation
        && core.lease.is_of(target.expected_owner_lease_generation)
        && !session::is_followed_name(seen.payload.packet_name.as_bytes())
}

impl Burst for Intake<'_> {
    fn on_record(&mut self, record: Record, reply: Option<ReplyHandle>) -> Flow {
        self.take(record, reply)
    }

    fn on_message(
        &mut self,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        self.take_message(message, reply)
    }
}

impl<'a> Intake<'a> {
    /// `None` when the host is gone.
    fn new(dispatcher: &'a Arc<Dispatcher>, link: &'a PeerLink, burst: usize) -> Option<Self> {
        let core = dispatcher.core.upgrade()?;
        Some(Self {
            judged: Judged::now(&core),
            core,
            dispatcher,
            link,
            burst,
            permits: None,
            last: None,
        })
    }

    /// Takes a message from where it was read into the place that it has in the queue of its Actor, and copies nothing in
    /// between (EX-384). `None` when there is no permit: it stays with the mesh, as a record.
    #[inline]
    fn take_message(
        &mut self,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        let permit = self.permit()?;
        let (seen, correlation) = Seen::of(message);
        let reply = match (correlation, reply) {
            (None, _) => ReplyTo::NOBODY,
            (Some(correlation), Some(handle)) => self.answer(handle, correlation),
            // TR-66: the mesh gives a way back with each request.
            (Some(_), None) => return Some(Flow::Continue),
        };
        let message = self.message(&seen, reply);
        let Some(live) = self
            .last
            .take_if(|last| self.judged.takes_messages && is_for(&self.core, last, &seen))
        else {
            let fence = ActorRouteFence::from_view(seen.target);
            return Some(self.place(fence, message, Some(permit)));
        };
        Some(match self.enqueue(&live, message, Some(permit)) {
            Taken::Yes => {
                self.last = Some(live);
                Flow::Continue
            }
            Taken::Waits => Flow::Pause,
            Taken::No(message) => {
                let fence = ActorRouteFence::from_view(seen.target);
                self.place(fence, message, None)
            }
        })
    }

    #[inline]
    fn answer(&self, handle: ReplyHandle, correlation: Correlation) -> ReplyTo {
        ReplyTo::mesh(MeshAnswer {
            core: Arc::downgrade(&self.core),
            handle,
            correlation,
        })
    }

    #[inline]
    fn message(&self, seen: &Seen<'_, '_>, reply: ReplyTo) -> Box<Message> {
        let from = Origin::Peer(PeerOrigin {
            node: self.link.peer().clone(),
            node_generation: self.link.node_generation(),
            actor: seen.source.map(ActorRef::from_view),
            operation: seen.operation,
            hops: seen.hops,
        });
        let (name, payload) = Payload::from_view(seen.payload);
        let metadata = seen.metadata.map(MetadataView::to_frame);
        let tail = seen
            .tail
            .map(|tail| Box::new(BoundSessionTail::from_view(tail)));
        Message::boxed(name, payload, metadata, from, reply, tail)
    }

    #[inline]
    fn take(&mut self, record: Record, reply: Option<ReplyHandle>) -> Flow {
        match record {
            // EX-128: what takes a permit is known by its command, before it is received. Replies have ended their
            // requests in the mesh; the other answers (30, 33, 43, 46, 53) are control and pass without one.
            Record::ActorSend(_) | Record::ActorRequest(_) => {
                let Some(permit) = self.permit() else {
                    return Flow::Later(Box::new(Received {
                        from: self.link.clone(),
                        record,
                        reply,
                    }));
                };
                match self.unpack(record, reply) {
                    Some((fence, message)) => self.place(fence, message, Some(permit)),
                    None => Flow::Continue,
                }
            }
            // EX-136, RL-129: what a move brings passes the limit as well, and its permit goes back when it was handed over.
            Record::RelocationPrepare(_)
            | Record::RelocationState(_)
            | Record::RelocationData(_)
            | Record::RelocationCutover(_) => {
                let permit = self.permit();
                (self.last, self.permits) = (None, None);
                let received = Received {
                    from: self.link.clone(),
                    record,
                    reply,
                };
                if permit.is_none() {
                    return Flow::Later(Box::new(received));
                }
                control::take(&self.core, received)
            }
            _ => {
                (self.last, self.permits) = (None, None);
                self.burst = self.burst.saturating_sub(1);
                let received = Received {
                    from: self.link.clone(),
                    record,
                    reply,
                };
                control::take(&self.core, received)
            }
        }
    }

    /// EX-120: a permit before the record is taken; `None` when the record has to wait for one.
    #[inline]
    fn permit(&mut self) -> Option<JobPermit> {
        if self.permits.is_none() && self.burst > 1 {
            self.permits = self.dispatcher.permits(&self.core, self.link, self.burst);
        }
        self.burst = self.burst.saturating_sub(1);
        let reserved = self.permits.as_mut().and_then(JobPermits::take);
        reserved.or_else(|| {
            self.permits = None;
            self.dispatcher.permit(&self.core, self.link)
        })
    }

    /// A received message, apart from its address.
    #[inline]
    fn unpack(
        &self,
        record: Record,
        reply: Option<ReplyHandle>,
    ) -> Option<(ActorRouteFence, Box<Message>)> {
        let (fence, operation, hops, actor, tail, metadata, payload, reply) = match record {
            Record::ActorSend(it) => (
                it.target_actor,
                it.operation,
                it.message_follow_hop_count,
                it.source_actor,
                it.bound_session_tail,
                it.metadata,
                it.payload,
                ReplyTo::NOBODY,
            ),
            Record::ActorRequest(it) => (
                it.target_actor,
                it.operation,
                it.message_follow_hop_count,
                it.source_actor,
                it.bound_session_tail,
                it.metadata,
                it.payload,
                self.answer(reply?, it.correlation),
            ),
            _ => return None,
        };
        let (name, payload) = Payload::from_wire(payload);
        let from = Origin::Peer(PeerOrigin {
            node: self.link.peer().clone(),
            node_generation: self.link.node_generation(),
            actor,
            operation,
            hops,
        });
        let tail = tail.map(Box::new);
        let message = Message::boxed(name, payload, metadata, from, reply, tail);
        Some((fence, message))
    }

    /// Puts a message into the queue of its Actor, or answers why not. The head decides; nothing is decoded (EX-323).
    fn place(
        &mut self,
        fence: ActorRouteFence,
        message: Box<Message>,
        permit: Option<JobPermit>,
    ) -> Flow {
        let core = Arc::clone(&self.core);
        if !self.judged.takes_messages {
            refuse(message, core.gone());
            return Flow::Continue;
        }
        if !is_for_this_run(&core, &fence) {
            refuse_stale(message);
            return Flow::Continue;
        }
        if session::is_followed(&message.name) {
            (self.last, self.permits) = (None, None);
            session::take_followed(&core, fence, message);
            return Flow::Continue;
        }
        let (mut permit, mut message) = (permit, message);
        let id = &fence.actor.actor_id;
        // Again when the slot changed hands in between (RL-170); each change ends the one before it.
        for _ in 0..CHANGES_MAX {
            message = match core.slots.get(id) {
                Some(slot) if !takes(&slot, &mut message) => {
                    refuse(
                        message,
                        Error::unavailable("the session is not bound to the actor"),
                    );
                    return Flow::Continue;
                }
                Some(Slot::Live(live)) => match self.enqueue(&live, message, permit.take()) {
                    Taken::Yes => {
                        self.last = Some(live);
                        return Flow::Continue;
                    }
                    Taken::Waits => return Flow::Pause,
                    Taken::No(message) => message,
                },
                // EX-131: what is held holds no permit.
                Some(Slot::Arriving(unit)) => match unit.hold(message) {
                    Ok(()) => return Flow::Continue,
                    Err(message) => message,
                },
                Some(Slot::Leaving(unit)) => match unit.hold(message) {
                    Ok(()) => return Flow::Continue,
                    Err(message) => message,
                },
                Some(Slot::Follow) => match relocation::forward(&core, id, message, Some(&fence)) {
                    Ok(()) => return Flow::Continue,
                    Err(message) => message,
                },
                None => break,
            };
        }
        refuse_stale(message);
        Flow::Continue
    }

    fn enqueue(&self, live: &Arc<Live>, message: Box<Message>, permit: Option<JobPermit>) -> Taken {
        let core = &self.core;
        if !self.judged.admits {
            refuse(message, Error::unavailable(NOT_ADMITTED));
            return Taken::Yes;
        }
        let bytes = message.payload_bytes();
        let work = Work::Message(message);
        let (reason, work) = match permit {
            Some(permit) => match live.lane.enqueue_job(permit, work, bytes) {
                Ok(()) => return Taken::Yes,
                // EX-102: who waits for room holds no permit.
                Err(refused) => (refused.reason().clone(), refused.into_item().0),
            },
            None => match live.lane.enqueue_with_payload_bytes(work, bytes) {
                Ok(()) => return Taken::Yes,
                Err(refused) => (refused.reason().clone(), refused.into_item()),
            },
        };
        let Work::Message(message) = work else {
            return Taken::Yes;
        };
        if reason.is_full() {
            wait_for_room(core, Arc::clone(live), message, Some(self.link.clone()));
            return Taken::Waits;
        }
        if matches!(reason, Refusal::Ended) {
            return Taken::No(message);
        }
        refuse(message, Error::from(&reason));
        Taken::Yes
    }
}

/// Whether a message may come in: of no session, or of the one that is bound (SB-33). What was judged is an ordinary
/// message from then on.
fn takes(slot: &Slot, message: &mut Message) -> bool {
    let Some(tail) = &message.tail else {
        return true;
    };
    let peer = match &message.from {
        // SB-34: a hop speaks for the session owner.
        Origin::Peer(peer) if peer.hops > HopCount::MIN => None,
        Origin::Peer(peer) => Some(Peer {
            node_rid: peer.node.clone(),
            node_generation: peer.node_generation,
        }),
        Origin::Local { .. } | Origin::Frozen { .. } => None,
    };
    let takes = match slot {
        Slot::Live(live) => live.unit.session.takes(peer.as_ref(), tail),
        Slot::Leaving(unit) => unit.session().takes(peer.as_ref(), tail),
        // No session is told of a place before the Actor has come there; only a hop may have been.
        Slot::Arriving(_) => peer.is_none(),
        // The new owner judges.
        Slot::Follow => return true,
    };
    if takes {
        message.tail = None;
    }
    takes
}

/// How often a slot may change hands while one message looks for its place.
const CHANGES_MAX: usize = 8;

/// What became of a message that was offered to a lane.
enum Taken {
    Yes,
    /// It waits for room, and its connection with it.
    Waits,
    /// The lane has ended; something else stands in its place, or will.
    No(Box<Message>),
}

/// Finds the place of a message that a driver gave back. It is a transfer, which no limit refuses, so those of one sender stay
/// in order (EX-98).
pub(crate) fn redispatch(core: &Arc<Core>, id: &ActorId, message: Box<Message>) {
    let mut message = message;
    for _ in 0..CHANGES_MAX {
        message = match core.slots.get(id) {
            Some(Slot::Live(live)) => {
                let bytes = message.payload_bytes();
                let Err(refused) = live.lane.transfer(Work::Message(message), bytes) else {
                    return;
                };
                let Work::Message(message) = refused.into_item() else {
                    return;
                };
                message
            }
            Some(Slot::Arriving(unit)) => match unit.hold(message) {
                Ok(()) => return,
                Err(message) => message,
            },
            Some(Slot::Leaving(unit)) => match unit.hold(message) {
                Ok(()) => return,
                Err(message) => message,
            },
            Some(Slot::Follow) => match relocation::forward(core, id, message, None) {
                Ok(()) => return,
                Err(message) => message,
            },
            None => break,
        };
    }
    refuse_stale(message);
}

/// RL-169: the receiving owner checks itself, not the incarnation.
fn is_for_this_run(core: &Core, fence: &ActorRouteFence) -> bool {
    fence.target_node_rid == core.identity.rid
        && fence.target_node_generation == core.identity.generation
        && core.lease.is_of(fence.expected_owner_lease_generation)
}

/// The connection pauses, so the order of its messages stays; the sender is held back by TCP.
fn wait_for_room(core: &Arc<Core>, live: Arc<Live>, message: Box<Message>, link: Option<PeerLink>) {
    let (mut source, task) = (core.jobs.source(), Arc::clone(core));
    core.tasks.spawn(async move {
        let bytes = message.payload_bytes();
        let work = Work::Message(message);
        if let Err(refused) = live.lane.submit_job(&mut source, work, bytes).await {
            let (reason, work) = (refused.reason().clone(), refused.into_item());
            match (reason, work) {
                // RL-170: the Actor left while the message stood in line; it is looked for where it is now.
                (Refusal::Ended, Work::Message(message)) => {
                    redispatch(&task, live.unit.id(), message);
                }
                (reason, Work::Message(message)) => refuse(message, Error::from(&reason)),
                (
                    _,
                    Work::Create { .. }
                    | Work::Join(_)
                    | Work::JoinCompleted(_)
                    | Work::Tick(_)
                    | Work::Disconnected(_),
                ) => {}
            }
        }
        if let Some(link) = link {
            link.resume();
        }
    });
}

pub(crate) fn refuse(message: Box<Message>, error: Error) {
    let Message { name, reply, .. } = *message;
    if !reply.is_wanted() {
        drops::record(Reason::of(error.kind()), 1, &error);
    }
    reply.answer(&name, Err(error));
}

/// RL-153, RL-169: the sender's route is old; its next call looks again.
pub(crate) fn refuse_stale(message: Box<Message>) {
    let mut message = message;
    match message.reply.take() {
        Some(Route::Mesh(answer)) => answer.stale(),
        Some(Route::Remote(answer)) => answer.stale(),
        // A caller of this host has no route that could be old: its object is gone from here (RL-153).
        Some(Route::Local(caller)) => {
            let gone = Error::unavailable("the object left this host and nothing leads to it");
            drop(caller.send(Err(gone)));
        }
        None => drops::record(Reason::StaleTarget, 1, &"nothing leads to it"),
    }
}

/// The way back over the connection of a request.
pub(crate) struct MeshAnswer {
    core: Weak<Core>,
    handle: ReplyHandle,
    correlation: Correlation,
}

impl MeshAnswer {
    /// As [`Answer::answer`](crate::message::Answer::answer), and so on.
    pub(crate) fn answer(self, name: Option<&PacketName>, outcome: Outcome) {
        let wire = |payload: Payload| payload.into_wire(name.cloned().unwrap_or_else(reply_name));
        let (result, code, payload) = match outcome.and_then(wire) {
            Ok(payload) => (TerminalResult::Ok, FailureCode::None, Some(payload)),
            Err(error) => {
                let (result, code) = error.kind().to_wire();
                (result, code, None)
            }
        };
        send_reply(
            self.handle,
            self.correlation,
            result,
            code,
            ReplyTail::None,
            payload,
        );
    }

    pub(crate) fn stale(self) {
        let code = FailureCode::ActorLocationStale;
        let result = code.terminal_result().unwrap_or(TerminalResult::Conflict);
        send_reply(
            self.handle,
            self.correlation,
            result,
            code,
            ReplyTail::None,
            None,
        );
    }

    pub(crate) fn gone(self) {
        let gone = self.core.upgrade();
        let gone = gone.map_or_else(Error::shutting_down, |core| core.gone());
        self.answer(None, Err(gone));
    }

    pub(crate) fn route(&self) -> ReplyRouteId {
        // The correlation is what its source calls it, on one connection and for its whole run.
        ReplyRouteId::new(self.correlation.get()).unwrap_or(ReplyRouteId::MIN)
    }
}

#[expect(clippy::expect_used, reason = "a constant")]
pub(crate) fn reply_name() -> PacketName {
    PacketName::new("$reply").expect("legal")
}

/// Answers a request; a link that is gone takes its requests with it (TR-61).
pub(crate) fn send_reply(
    handle: ReplyHandle,
    correlation: Correlation,
    terminal_result: TerminalResult,
    failure_code: FailureCode,
    tail: ReplyTail,
    payload: Option<ApplicationPayload>,
) {
    let reply = Reply {
        correlation,
        outcome: ReplyOutcome {
            terminal_result,
            failure_code,
            tail,
        },
        payload,
    };
    if let Err(error) = handle.answer(reply) {
        tracing::debug!(target: "spotlane::runtime::dispatch", %error, "a reply was not sent");
    }
}

/// Answers a request with an error.
pub(crate) fn send_error(handle: ReplyHandle, correlation: Correlation, error: &Error) {
    let (result, code) = error.kind().to_wire();
    send_reply(handle, correlation, result, code, ReplyTail::None, None);
}
