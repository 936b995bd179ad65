//! One link as its driver sees it: the machine behind a lock, two lanes, what comes in.
//!
//! Locks, outermost first: the table of the node, the machine of a link, its inbox, a lane. No host code
//! runs under any of them, and none is held across an await.

mod inbox;
mod lane;
mod submit;
mod turn;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;

use spotlane_mesh_proto::Machine as _;
use spotlane_mesh_proto::admission::Side;
use spotlane_mesh_proto::link::{ConnectionToken, Gates, Link, LinkEffect, LinkEvent};
use spotlane_mesh_proto::peers::LinkId;
use spotlane_mesh_proto::zmp::{Edition, FlowState, Lane, PairId, Sequence};
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::NodeRid;
use spotlane_types::time::Monotonic;
use spotlane_wire::descriptor::RouteMeshAdmission;
use tokio::sync::{Notify, watch};

use crate::config::Address;
use crate::error::LostReason;
use crate::inbound::PeerLink;
use crate::lock::{Mutex, MutexGuard};
use crate::node::Node;
use crate::out::LaneOut;
use inbox::{Inbox, Item};
pub use submit::Asked;
pub(crate) use submit::{Charge, How, refused};
use waiting::{End, Waiting};

/// A link with its sockets.
#[derive(Debug)]
pub(crate) struct LinkCore {
    pub(crate) id: LinkId,
    pub(crate) side: Side,
    pub(crate) intent: PairId,
    pub(crate) node: Arc<Node>,
    /// Where a dialled link goes.
    pub(crate) address: Option<Address>,
    state: Mutex<State>,
    application: LaneOut,
    completion: LaneOut,
    inbox: Inbox,
    /// Wakes the task that keeps the deadlines and what API calls leave behind.
    alarm: Notify,
    token: OnceLock<ConnectionToken>,
    /// The run that is admitted; 0 for none.
    run: AtomicU64,
    descriptor: std::sync::Mutex<Option<Arc<RouteMeshAdmission>>>,
    /// Why we end it, when that is not for the machine to say.
    cause: OnceLock<LostReason>,
    /// Requests of the peer that have no answer yet.
    unanswered: AtomicU64,
    /// The peer is told when our host pauses: it speaks E2.
    tells_flow: AtomicBool,
    ended: watch::Sender<Option<LostReason>>,
}

#[derive(Debug)]
struct State {
    link: Link,
    /// Who waits for a reply, by the sequence of the request, which is also its id.
    waiting: Waiting,
    effects: Vec<LinkEffect>,
    /// What the deadlines task sleeps until.
    armed: Option<Monotonic>,
    /// What the peer was told of our host.
    flow: FlowState,
    /// What the lanes let pass.
    gates: Gates,
}

/// What a call leaves to be done when the lock of the machine is gone.
#[derive(Debug, Default)]
struct After {
    woken: Vec<Waker>,
    wrote: [bool; 2],
    close: [bool; 2],
    left: bool,
    stalled: bool,
}

/// What a link is started with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) id: LinkId,
    pub(crate) side: Side,
    pub(crate) intent: PairId,
    pub(crate) node: Arc<Node>,
    pub(crate) address: Option<Address>,
}

impl LinkCore {
    /// Takes a fresh machine and what it asks for.
    pub(crate) fn start(start: Start, link: Link, effects: Vec<LinkEffect>) -> Arc<Self> {
        let bounds = start.node.config.bounds;
        let core = Arc::new(Self {
            id: start.id,
            side: start.side,
            intent: start.intent,
            node: start.node,
            address: start.address,
            state: Mutex::new(State {
                link,
                waiting: Waiting::default(),
                effects: Vec::new(),
                armed: None,
                flow: FlowState::Running,
                gates: Gates::default(),
            }),
            application: LaneOut::new(bounds.send_charge_max),
            // TR-50
            completion: LaneOut::new(bounds.send_charge_max.max(256 * 1024)),
            inbox: Inbox::default(),
            alarm: Notify::new(),
            token: OnceLock::new(),
            run: AtomicU64::new(0),
            descriptor: std::sync::Mutex::default(),
            cause: OnceLock::new(),
            unanswered: AtomicU64::new(0),
            tells_flow: AtomicBool::new(false),
            ended: watch::Sender::new(None),
        });
        core.node.link_count.fetch_add(1, Ordering::Relaxed);
        core.with(|state, _| state.effects.extend(effects));
        let task = Arc::clone(&core);
        core.node.spawn(async move { task.keep().await });
        core
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) const fn lane(&self, lane: Lane) -> &LaneOut {
        match lane {
            Lane::Application => &self.application,
            Lane::Completion => &self.completion,
        }
    }

    /// The pair; `None` before it is ready.
    pub(crate) fn token(&self) -> Option<&ConnectionToken> {
        self.token.get()
    }

    /// The run of the peer that is admitted here.
    pub(crate) fn run(&self) -> Option<NodeGeneration> {
        NodeGeneration::new(self.run.load(Ordering::Acquire)).ok()
    }

    pub(crate) fn peer_link(self: &Arc<Self>) -> Option<PeerLink> {
        let run = self.run()?;
        self.token()?;
        Some(PeerLink::new(Arc::clone(self), run))
    }

    pub(crate) fn descriptor(&self) -> Option<Arc<RouteMeshAdmission>> {
        let descriptor = self.descriptor.lock();
        descriptor.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn describe_peer(&self, descriptor: Option<Arc<RouteMeshAdmission>>) {
        let place = self.descriptor.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = descriptor;
    }

    /// The peer; that of the token, which every link that is handed out has.
    pub(crate) fn peer(&self) -> &NodeRid {
        let own = &self.node.config.identity.rid;
        self.token().map_or(own, ConnectionToken::peer)
    }

    /// Closes both lanes without the machine: the node is over.
    pub(crate) fn close(&self) {
        for lane in Lane::ALL {
            self.lane(lane).close();
        }
    }

    /// Takes nothing more, writes what is queued, and says so to the peer, which then ends the link.
    ///
    /// The Application lane is finished alone: the peer sees its end behind the last record, while an
    /// end of the other lane could overtake records (TR-58).
    pub(crate) async fn finish(&self) {
        // Whoever was first has the better reason.
        self.cause.set(LostReason::Shutdown).ok();
        if self.token().is_none() {
            // There is nobody yet who could close it.
            return self.end_by(LostReason::Shutdown);
        }
        self.application.drained().await;
        self.completion.drained().await;
        self.application.finish();
        self.ended().await;
    }

    /// Waits for the end.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn ended(&self) -> LostReason {
        let mut ended = self.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        // The sender lives as long as `self`.
        let reason = reason.ok().and_then(|reason| reason.clone());
        reason.unwrap_or(LostReason::Shutdown)
    }

    /// Gives the machine an event and carries out what it asks for. What concerns the host or other
    /// links is left to the tasks of the link.
    pub(crate) fn apply(&self, event: LinkEvent) {
        self.with(|state, now| state.link.on_event(now, event, &mut state.effects));
    }

    /// Ends the link for a reason that the machine does not know.
    pub(crate) fn end_by(&self, cause: LostReason) {
        // The first cause is the one that ends it.
        self.cause.set(cause).ok();
        self.apply(LinkEvent::Shutdown);
    }

    /// Tells the peer what the host has made of it, if it has changed (TR-46). The state is looked at
    /// under the lock of the machine, so that the last one told is the one that holds.
    fn tell_flow(&self) {
        if !self.tells_flow.load(Ordering::Acquire) {
            return;
        }
        self.with(|state, now| {
            let flow = if self.inbox.is_paused() {
                FlowState::Paused
            } else {
                FlowState::Running
            };
            if std::mem::replace(&mut state.flow, flow) != flow {
                let event = LinkEvent::Flow(flow);
                state.link.on_event(now, event, &mut state.effects);
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, Monotonic) -> T) -> T {
        let now = self.node.clock().now();
        let mut after = After::default();
        let result = {
            let mut state = self.lock();
            let result = act(&mut state, now);
            if !state.effects.is_empty() {
                self.route(&mut state, &mut after);
            }
            Self::rearm(&state, now, &mut after);
            self.set_gates(&mut state);
            result
        };
        self.after(after);
        result
    }

    /// Tells the lanes what they may carry by themselves, under the lock of the machine: after an event
    /// that closes a gate nothing passes any more.
    fn set_gates(&self, state: &mut State) {
        let gates = state.link.gates();
        if std::mem::replace(&mut state.gates, gates) != gates {
            self.application.set_gate(gates.one_way);
            self.completion.set_gate(gates.replies);
        }
    }

    /// Wakes the deadlines task when something is due before it would look.
    fn rearm(state: &State, now: Monotonic, after: &mut After) {
        let next = state.link.next_deadline();
        let late = match (next, state.armed) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(next), Some(armed)) => next < armed && armed > now,
        };
        after.left |= late;
    }

    fn route(&self, state: &mut State, after: &mut After) {
        let mut effects = std::mem::take(&mut state.effects);
        for effect in effects.drain(..) {
            match effect {
                LinkEffect::Write(lane, parts) => {
                    after.wrote[lane_index(lane)] = true;
                    after.stalled |= self.lane(lane).push_control(&parts).is_err();
                }
                LinkEffect::Close(lane) => after.close[lane_index(lane)] = true,
                // TR-46: what the peer does not take is what the Application lane carries.
                LinkEffect::PeerFlow(flow) => self.application.set_flow(flow),
                LinkEffect::Completed { id, outcome } => {
                    let sequence = Sequence::new(id.get());
                    let woken = sequence.and_then(|it| state.waiting.end(it, End::Other(outcome)));
                    after.woken.extend(woken);
                }
                LinkEffect::PairReady(_) => {
                    let tells = state.link.edition() == Edition::E2;
                    self.tells_flow.store(tells, Ordering::Release);
                    after.left = true;
                    self.inbox.push(Item::Effect(effect));
                }
                LinkEffect::Open(_)
                | LinkEffect::Admitted(_)
                | LinkEffect::Updated(_)
                | LinkEffect::RunEnded
                | LinkEffect::Deliver { .. }
                | LinkEffect::AnswerOnKeeper
                | LinkEffect::Ended(_) => {
                    after.left = true;
                    self.inbox.push(Item::Effect(effect));
                }
                // Submits and answers go the direct way, where the caller is told.
                LinkEffect::NotSubmitted { .. }
                | LinkEffect::NotAnswered { .. }
                | LinkEffect::Responsive
                | LinkEffect::RefusedByPeer(_)
                | LinkEffect::Ignored(_) => {}
            }
        }
        state.effects = effects;
    }

    fn after(&self, after: After) {
        for waker in after.woken {
            waker.wake();
        }
        for lane in Lane::ALL {
            if after.close[lane_index(lane)] {
                self.lane(lane).close();
            } else if after.wrote[lane_index(lane)] {
                self.lane(lane).flush_now();
            }
        }
        if after.stalled {
            self.end_by(LostReason::Stalled);
        }
        if after.left {
            self.alarm.notify_one();
        }
    }

    /// The task of a link: keeps its deadlines, and carries out what was left to it. One timer serves all
    /// of them, and no record sets it (EX-387, EX-390).
    async fn keep(self: Arc<Self>) {
        loop {
            self.drain().await;
            // Not before the end is carried out: another task may be at it, and has the right to hand up meanwhile.
            if self.ended.borrow().is_some() {
                return;
            }
            let next = {
                let mut state = self.lock();
                state.armed = state.link.next_deadline();
                state.armed
            };
            let alarm = self.alarm.notified();
            let Some(next) = next else {
                alarm.await;
                continue;
            };
            let wait = tokio::time::timeout(self.node.clock().until(next), alarm);
            if wait.await.is_err() {
                self.with(|state, now| {
                    state.armed = None;
                    state.link.on_deadline(now, &mut state.effects);
                });
            }
        }
    }
}

const fn lane_index(lane: Lane) -> usize {
    match lane {
        Lane::Application => 0,
        Lane::Completion => 1,
    }
}
