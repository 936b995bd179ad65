//! What goes out on a link.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use spotlane_mesh_proto::link::{
    Awaits, Gate, GateBuffer, LinkEvent, NotSubmitted as Refusal, Outcome, class_of, question_of,
};
use spotlane_mesh_proto::pending::{NotTaken, SubmitId};
use spotlane_mesh_proto::zmp::{Sequence, Size};
use spotlane_types::generation::NodeGeneration;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::{Record, RecordRef};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::waiting::{End, Seen};
use super::{LinkCore, State};
use crate::error::{NotAnswered, NotSubmitted, Refused, RequestError, SendError};
use crate::out::{Done, Flush, Full, NotQueued, Room, Segment};
use crate::tracked::Tracked;

/// Whether the caller has named the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It named the peer; the link was looked up.
    ToPeer,
    /// It named this link, with this run of the peer (TR-93).
    Pinned(NodeGeneration),
}

/// Whether the caller wants to know what becomes of a record.
#[derive(Debug)]
pub(crate) enum Charge {
    Untracked,
    Tracked,
}

/// A request that was taken; as a future it gives its end.
///
/// Cancel safety: dropped early, the request is given up. If it was sent, the peer may act on it all
/// the same.
pub struct Asked {
    core: Arc<LinkCore>,
    sequence: Sequence,
    timeout: Duration,
    ended: bool,
    /// It was asked by the task that polls it next, which will be woken.
    fresh: bool,
}

impl Future for Asked {
    type Output = Result<Reply, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if mem::take(&mut self.fresh) {
            return Poll::Pending;
        }
        let mut state = self.core.lock();
        let seen = state.waiting.see(self.sequence, cx.waker());
        drop(state);
        let end = match seen {
            Seen::Ended(end) => end,
            Seen::Open(_old) => return Poll::Pending,
        };
        self.ended = true;
        let outcome = match end {
            Some(End::Reply(reply)) => return Poll::Ready(Ok(reply)),
            Some(End::Other(outcome)) => outcome,
            // It was polled again behind its end.
            None => Outcome::LinkEnded,
        };
        let timeout = self.timeout;
        Poll::Ready(match outcome {
            Outcome::Reply(reply) => Ok(*reply),
            Outcome::PeerError(errno) => Err(RequestError::PeerError { errno }),
            Outcome::BrokenReply => Err(RequestError::BrokenReply),
            Outcome::TimedOut => Err(RequestError::TimedOut { timeout }),
            Outcome::RunEnded => Err(RequestError::RunEnded),
            // Whatever else ends it, the reply is not known.
            _ => Err(RequestError::LinkEnded),
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // The id names this request alone, so a cancel that comes too late changes nothing.
        if !self.ended {
            let id = SubmitId::new(self.sequence.get());
            self.core.apply(LinkEvent::Cancel(id));
            let left = self.core.lock().waiting.close(self.sequence);
            drop(left);
        }
    }
}

/// Why a request was not sent.
enum Unsent {
    Refused(NotSubmitted),
    /// There was no room for so long.
    Late(Duration),
}

impl Unsent {
    /// With the record, which goes back to the caller.
    fn with(self, record: Record) -> SendError {
        match self {
            Self::Refused(why) => SendError::Refused(Refused::new(record, why)),
            Self::Late(waited) => SendError::DeadlineExceeded {
                record: Box::new(record),
                waited,
            },
        }
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("sequence", &self.sequence)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl LinkCore {
    fn check(&self, how: How) -> Result<(), NotSubmitted> {
        if self.node.is_stopping() {
            return Err(NotSubmitted::Shutdown);
        }
        match how {
            How::ToPeer => Ok(()),
            How::Pinned(run) if self.run() == Some(run) => Ok(()),
            How::Pinned(_) => Err(NotSubmitted::OtherConnection),
        }
    }

    pub(crate) fn submit_tracked(
        &self,
        record: RecordRef<'_>,
        how: How,
    ) -> Result<Tracked, NotSubmitted> {
        let tracked = self.submit(record, how, Charge::Tracked)?;
        // A tracked submit that was taken has its receiver.
        Ok(tracked.unwrap_or_else(|| Tracked::new(0, oneshot::channel().1)))
    }

    /// Waits until there may be room.
    pub(crate) async fn room(&self) {
        self.application.room().await;
    }

    /// Queues the record, if there is room and nobody who waits for it; nearly always that is so.
    pub(crate) fn send_now(&self, record: RecordRef<'_>, how: How) -> bool {
        !self.application.is_waited_for() && self.submit(record, how, Charge::Untracked).is_ok()
    }

    /// Queues the record in its turn, for which it waits.
    pub(crate) async fn send(
        &self,
        record: Record,
        how: How,
        within: Option<Duration>,
    ) -> Result<(), SendError> {
        let most = self.node.config.send_timeout;
        let waited = within.map_or(most, |within| within.min(most));
        let submit = || self.submit(record.by_ref(), how, Charge::Untracked);
        match timeout_at(Instant::now() + waited, self.in_turn(submit)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(why)) => Err(SendError::Refused(Refused::new(record, why))),
            Err(_) => Err(SendError::DeadlineExceeded {
                record: Box::new(record),
                waited,
            }),
        }
    }

    /// Submits when there is room for it, in the order in which the callers came (TR-51).
    async fn in_turn<T>(
        &self,
        mut submit: impl FnMut() -> Result<T, NotSubmitted>,
    ) -> Result<T, NotSubmitted> {
        let _turn = self.application.turn().await;
        loop {
            match submit() {
                Err(NotSubmitted::Full { .. }) => self.application.room().await,
                done => return done,
            }
        }
    }

    /// Waits for room, sends the request, waits for its end.
    pub(crate) async fn request(
        self: &Arc<Self>,
        record: Record,
        how: How,
        timeout: Duration,
    ) -> Result<Reply, RequestError> {
        match self.ask_in_time(record.by_ref(), how, timeout).await {
            Ok(asked) => {
                drop(record);
                asked.await
            }
            Err(unsent) => Err(RequestError::NotSent(unsent.with(record))),
        }
    }

    /// Waits for room and sends the request. What it gives has to be polled at once, by the same task.
    async fn ask_in_time(
        self: &Arc<Self>,
        record: RecordRef<'_>,
        how: How,
        timeout: Duration,
    ) -> Result<Asked, Unsent> {
        if !self.application.is_waited_for() {
            // The waker is there before the reply, so the caller need not look before it was woken.
            let here = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            match self.ask_from(record, how, timeout, Some(here)) {
                Err(NotSubmitted::Full { .. }) => {}
                done => return done.map_err(Unsent::Refused),
            }
        }
        let (start, waited) = (Instant::now(), timeout.min(self.node.config.send_timeout));
        let ask = || {
            // EX-268: each stage gets what is left.
            let left = timeout.saturating_sub(start.elapsed());
            self.ask(record, how, left)
        };
        match timeout_at(start + waited, self.in_turn(ask)).await {
            Ok(done) => done.map_err(Unsent::Refused),
            Err(_) => Err(Unsent::Late(waited)),
        }
    }

    /// Queues a record of class one-way or relocation.
    pub(crate) fn submit(
        &self,
        record: RecordRef<'_>,
        how: How,
        charge: Charge,
    ) -> Result<Option<Tracked>, NotSubmitted> {
        self.check(how)?;
        let mut tracked = None;
        let done = |size: Size| match charge {
            Charge::Untracked => None,
            Charge::Tracked => {
                let (tell, written) = oneshot::channel();
                tracked = Some(Tracked::new(size.charge, written));
                Some(Done(tell))
            }
        };
        let pass = |gate: Gate, buffer: &mut GateBuffer, queue: &mut Segment| {
            gate.one_way(record, buffer, queue)
        };
        let act = (self.application).pass(Room::Bounded, Flush::Soon, done, pass);
        let act = act.map_err(|why| not_queued(how, why))?;
        self.application.act(act);
        Ok(tracked)
    }

    /// Queues a chunk.
    pub(crate) fn submit_bulk(
        &self,
        record: RecordRef<'_>,
        run: NodeGeneration,
    ) -> Result<Tracked, NotSubmitted> {
        let how = How::Pinned(run);
        self.check(how)?;
        let mut state = self.lock();
        let sent = state.link.send(SubmitId::new(u64::MAX), record, None, None);
        let parts = sent.map_err(|why| refusal(how, why))?;
        let (tell, written) = oneshot::channel();
        self.application.push_bulk(&parts, Done(tell));
        Ok(Tracked::new(parts.charge(), written))
    }

    /// Queues a request and enters it into the table of those that wait: encoded once, by the caller, for a
    /// peer that was found in constant time, under one lock and in one call to the transport (EX-380). The
    /// entry is there before a byte can leave (EX-272), and no task is started for it (EX-390).
    pub(crate) fn ask(
        self: &Arc<Self>,
        record: RecordRef<'_>,
        how: How,
        timeout: Duration,
    ) -> Result<Asked, NotSubmitted> {
        self.ask_from(record, how, timeout, None)
    }

    /// As [`Self::ask`]; with the waker of a caller that waits at once.
    fn ask_from(
        self: &Arc<Self>,
        record: RecordRef<'_>,
        how: How,
        timeout: Duration,
        here: Option<Waker>,
    ) -> Result<Asked, NotSubmitted> {
        self.check(how)?;
        let fresh = here.is_some();
        let Some(question) = question_of(record) else {
            return Err(NotSubmitted::Misused(class_of(record)));
        };
        let deadline = self.node.clock().now().after(timeout);
        let awaits = Awaits {
            correlation: question.correlation,
            kind: question.kind,
            deadline,
        };
        let mut state = self.lock();
        let State {
            link,
            waiting,
            armed,
            ..
        } = &mut *state;
        let id = link.next_id();
        // Nobody else waits, so nobody else is about to send: go at once, and without another task
        // (EX-389).
        let flush = if link.pending() == 0 {
            Flush::Now
        } else {
            Flush::Soon
        };
        let write = |queue: &mut Segment| link.send_to(id, record, Some(awaits), queue);
        let act = (self.application).write(Room::Bounded, flush, |_| None, write);
        let act = act.map_err(|why| not_queued(how, why))?;
        // Both tables count the same requests, so the sequence is that of the id.
        let sequence = waiting.open(here);
        let early = armed.is_none_or(|armed| deadline < armed);
        drop(state);
        if early {
            self.alarm.notify_one();
        }
        self.application.act(act);
        Ok(Asked {
            core: Arc::clone(self),
            sequence,
            timeout,
            ended: false,
            fresh,
        })
    }

    /// Queues the answer to a request of the peer.
    pub(crate) fn answer(
        self: &Arc<Self>,
        sequence: Sequence,
        reply: Reply,
    ) -> Result<(), NotAnswered> {
        let flush = if self.unanswered.load(Ordering::Relaxed) <= 1 {
            Flush::Now
        } else {
            Flush::Soon
        };
        let pass = |gate: Gate, buffer: &mut GateBuffer, queue: &mut Segment| {
            gate.reply(sequence, &reply, buffer, queue)
        };
        let why = match self.completion.pass(Room::Always, flush, |_| None, pass) {
            Ok(act) => {
                self.completion.act(act);
                return Ok(());
            }
            Err(why) => not_queued(How::ToPeer, why),
        };
        let reply = Box::new(reply);
        Err(NotAnswered { reply, why })
    }

    /// A request of the peer has been answered, or never will be.
    pub(crate) fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives a record that was not taken back to its caller.
#[inline]
pub(crate) fn refused<T>(taken: Result<T, NotSubmitted>, record: Record) -> Result<T, Refused> {
    match taken {
        Ok(taken) => Ok(taken),
        Err(why) => {
            // Moved here alone: a record is large.
            Err(Refused::new(record, why))
        }
    }
}

fn not_queued(how: How, why: NotQueued<Refusal>) -> NotSubmitted {
    match (why, how) {
        (NotQueued::Full(Full { charge, max }), _) => NotSubmitted::Full { charge, max },
        (NotQueued::Refused(why), _) => refusal(how, why),
        (NotQueued::Closed | NotQueued::Shut, How::ToPeer) => NotSubmitted::NotConnected,
        (NotQueued::Closed | NotQueued::Shut, How::Pinned(_)) => NotSubmitted::OtherConnection,
    }
}

fn refusal(how: How, refusal: Refusal) -> NotSubmitted {
    match (refusal, how) {
        (Refusal::TooLarge { bytes, max }, _) => NotSubmitted::TooLarge { bytes, max },
        (Refusal::Encode(error), _) => NotSubmitted::Encode(error),
        (Refusal::Misused(class), _) => NotSubmitted::Misused(class),
        (Refusal::NotTaken(NotTaken::Full { max }), _) => NotSubmitted::TooManyRequests { max },
        (Refusal::OtherConnection, _) | (_, How::Pinned(_)) => NotSubmitted::OtherConnection,
        // A link that is not used any more, or over: the peer has none, or will have another one.
        (_, How::ToPeer) => NotSubmitted::NotConnected,
    }
}
