//! What came in and is not handed up yet, in order.
//!
//! One task at a time hands up: the reader of the Application lane mostly, the task of the link
//! otherwise. Who finds another one at it leaves what it has in the queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spotlane_mesh_proto::link::{EndReason, LinkEffect};
use spotlane_mesh_proto::zmp::{Lane, Sequence};
use spotlane_wire::Record;
use tokio::sync::Notify;

use super::LinkCore;
use super::turn::TURN_RECORDS;
use crate::error::LostReason;
use crate::inbound::{Diagnostic, Flow, PeerLink, Received, ReplyHandle};

/// The queue between the machine and the host.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// A resume came; kept apart so that handing up needs no lock.
    resumed: AtomicBool,
    /// Wakes the reader: go on handing up, then reading.
    pub(super) go: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Item>,
    /// Of the payloads in the queue.
    bytes: usize,
    draining: bool,
    paused: bool,
    /// The end is in the queue or behind: nothing waits for the host any more.
    over: bool,
}

/// Something to be handed up or carried out.
#[derive(Debug)]
pub(super) enum Item {
    Effect(LinkEffect),
    Record(Box<Received>),
}

impl Item {
    const fn is_record(&self) -> bool {
        matches!(
            self,
            Self::Record(_) | Self::Effect(LinkEffect::Deliver { .. })
        )
    }
}

impl Item {
    /// What it weighs in the queue: its payload, and something for the rest of it.
    fn bytes(&self) -> usize {
        const FRAME: usize = 256;
        let record = match self {
            Self::Record(received) => &received.record,
            Self::Effect(LinkEffect::Deliver { record, .. }) => record,
            Self::Effect(_) => return 0,
        };
        let payload = record.payload().map_or(0, |it| it.payload.as_bytes().len());
        payload.saturating_add(FRAME)
    }
}

/// Whether a record may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    Taken,
    /// The host gave it back and has resumed already: it is the first in the queue.
    Again,
    /// The host wants no more for now.
    Paused,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, item: Item) {
        let mut state = self.lock();
        if matches!(item, Item::Effect(LinkEffect::Ended(_))) {
            state.over = true;
            if state.paused {
                // TR-87: the end does not wait for the host, and what it has not received is lost with
                // the connection, as what is still on the wire.
                state.queue.retain(|item| !item.is_record());
                state.bytes = 0;
                state.paused = false;
            }
        }
        state.bytes = state.bytes.saturating_add(item.bytes());
        state.queue.push_back(item);
    }

    /// The bytes that wait for the host.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Whether the reader has to wait: records are left that the host does not take yet.
    pub(super) fn is_paused(&self) -> bool {
        self.lock().paused
    }

    /// Takes the right to hand up.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.lock();
        !std::mem::replace(&mut state.draining, true)
    }

    /// The next item for the one that hands up; without one the right goes back.
    fn next(&self) -> Option<Item> {
        let mut state = self.lock();
        let paused = state.paused;
        let item = state
            .queue
            .pop_front_if(|item| !(paused && item.is_record()));
        match &item {
            Some(item) => state.bytes = state.bytes.saturating_sub(item.bytes()),
            None => state.draining = false,
        }
        item
    }

    /// As [`Self::next`], but the right stays with the caller.
    fn next_kept(&self) -> Option<Item> {
        let mut state = self.lock();
        let paused = state.paused;
        let item = state
            .queue
            .pop_front_if(|item| !(paused && item.is_record()));
        if let Some(item) = &item {
            state.bytes = state.bytes.saturating_sub(item.bytes());
        }
        item
    }

    /// Takes a pause of the host, unless its resume was faster.
    fn pause(&self, back: Option<Box<Received>>) -> Offered {
        let mut state = self.lock();
        if state.over {
            // TR-87: as above; nobody would have to resume.
            drop(state);
            drop(back);
            return Offered::Taken;
        }
        let again = if back.is_some() {
            Offered::Again
        } else {
            Offered::Taken
        };
        if let Some(received) = back {
            let item = Item::Record(received);
            state.bytes = state.bytes.saturating_add(item.bytes());
            state.queue.push_front(item);
        }
        if self.resumed.swap(false, Ordering::AcqRel) {
            return again;
        }
        state.paused = true;
        Offered::Paused
    }

    fn resume(&self) {
        let mut state = self.lock();
        self.resumed.store(true, Ordering::Release);
        if state.paused {
            state.paused = false;
            self.resumed.store(false, Ordering::Release);
            drop(state);
            self.go.notify_one();
        }
    }
}

impl LinkCore {
    /// The host goes on.
    pub(crate) fn resume(&self) {
        self.inbox.resume();
        if self.tells_flow.load(Ordering::Acquire) {
            self.tell_flow();
            // The reader may be reading on, so the task of the link hands up.
            self.alarm.notify_one();
        }
    }

    /// Hands up and carries out what is queued, unless another task does.
    pub(super) async fn drain(self: &Arc<Self>) {
        if self.inbox.begin() {
            self.finish_drain().await;
        }
    }

    /// As [`Self::drain`], for a task that has the right already and gives it back.
    pub(super) async fn finish_drain(self: &Arc<Self>) {
        let mut turn = 0_u32;
        while let Some(item) = self.inbox.next() {
            self.handle(item).await;
            turn = turn.saturating_add(1);
            if turn.is_multiple_of(TURN_RECORDS) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// As [`Self::drain`], for a task that hands up already and goes on to.
    pub(super) async fn drain_kept(self: &Arc<Self>) {
        while let Some(item) = self.inbox.next_kept() {
            self.handle(item).await;
        }
    }

    async fn handle(self: &Arc<Self>, item: Item) {
        match item {
            Item::Record(received) => {
                self.offer(*received);
            }
            Item::Effect(LinkEffect::Deliver { record, answer, .. }) => {
                if let Some(from) = self.peer_link() {
                    self.offer_record(from, *record, answer);
                }
            }
            Item::Effect(effect) => self.carry_out(effect).await,
        }
    }

    /// Offers one record to the host.
    #[inline]
    pub(super) fn offer_record(
        self: &Arc<Self>,
        from: PeerLink,
        record: Record,
        answer: Option<Sequence>,
    ) -> Offered {
        let reply = self.reply_handle(&from, answer);
        self.offer(Received {
            from,
            record,
            reply,
        })
    }

    /// The way back for a record that came with the sequence of a request.
    #[inline]
    pub(super) fn reply_handle(
        self: &Arc<Self>,
        from: &PeerLink,
        answer: Option<Sequence>,
    ) -> Option<ReplyHandle> {
        answer.map(|sequence| {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
            ReplyHandle::new(Arc::clone(self), from.node_generation(), sequence)
        })
    }

    #[inline]
    fn offer(&self, received: Received) -> Offered {
        self.offer_by(|| self.node.inbound.on_record(received))
    }

    /// Hands a record up by a call, and does what the host says about it.
    #[inline]
    pub(super) fn offer_by(&self, hand_up: impl FnOnce() -> Flow) -> Offered {
        self.inbox.resumed.store(false, Ordering::Relaxed);
        let offered = match hand_up() {
            Flow::Continue => return Offered::Taken,
            Flow::Pause => self.inbox.pause(None),
            Flow::Later(received) => self.inbox.pause(Some(received)),
        };
        if offered == Offered::Paused {
            self.tell_flow();
        }
        offered
    }

    /// Does what concerns the host, the node or other links.
    async fn carry_out(self: &Arc<Self>, effect: LinkEffect) {
        match effect {
            LinkEffect::Open(lane) => self.open(lane),
            LinkEffect::PairReady(token) => {
                self.token.set(token).ok();
                if self.node.on_ready(self).is_err() {
                    self.end_by(LostReason::TooManyLinks);
                }
            }
            LinkEffect::Admitted(descriptor) => {
                let descriptor = Arc::from(descriptor);
                self.describe_peer(Some(Arc::clone(&descriptor)));
                let run = descriptor.lifecycle_generation.get();
                self.run.store(run, Ordering::Release);
                self.node.on_admitted(self, descriptor).await;
            }
            LinkEffect::Updated(descriptor) => {
                let descriptor = Arc::from(descriptor);
                self.describe_peer(Some(Arc::clone(&descriptor)));
                self.node.on_updated(self, descriptor).await;
            }
            LinkEffect::RunEnded => {
                self.describe_peer(None);
                self.node.on_lost(self, LostReason::RunEnded).await;
                self.run.store(0, Ordering::Release);
            }
            LinkEffect::AnswerOnKeeper => self.node.answer_on_keeper(self),
            LinkEffect::Ended(reason) => self.end(reason).await,
            LinkEffect::Write(..)
            | LinkEffect::Close(_)
            | LinkEffect::PeerFlow(_)
            | LinkEffect::Responsive
            | LinkEffect::RefusedByPeer(_)
            | LinkEffect::Deliver { .. }
            | LinkEffect::Completed { .. }
            | LinkEffect::NotSubmitted { .. }
            | LinkEffect::NotAnswered { .. }
            | LinkEffect::Ignored(_) => {}
        }
    }

    async fn end(self: &Arc<Self>, reason: EndReason) {
        let cause = self.cause.get().cloned();
        let reason = cause.unwrap_or(LostReason::Ended(reason));
        for lane in Lane::ALL {
            self.lane(lane).close();
        }
        self.node.on_ended(self, &reason).await;
        self.node.inbound.on_diagnostic(Diagnostic::LinkEnded {
            peer: self.token().map(|token| token.peer().clone()),
            side: self.side,
            reason: reason.clone(),
        });
        self.run.store(0, Ordering::Release);
        self.node.link_count.fetch_sub(1, Ordering::Relaxed);
        self.ended.send_replace(Some(reason));
        // A reader that waits for the host has nothing to wait for any more, nor has the task of the link.
        self.inbox.go.notify_one();
        self.alarm.notify_one();
    }
}
