//! The task of one connection: bytes, frames, permits, timers, and the end.
//!
//! One task, which holds a few hundred bytes while nothing happens, and goes on while a callback waits (EX-153). It never runs a callback (ST-139):
//! packets go to the session's lane, under a permit of the host that is taken before they are (ST-140).

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use spotlane_lane::{JobPermit, JobSource, Lane};
use spotlane_session::SessionEvent;
use spotlane_stream_io::{Clock, Io};
use spotlane_stream_proto::bound::FRAMES_PER_PASS;
use spotlane_stream_proto::server::{Inbound, ServerConnection, ServerEffect, ServerEvent};
use spotlane_stream_proto::{
    Carrier, CarrierError, CloseReason, Control, Frame, Machine as _, Step, encode,
};
use spotlane_types::time::Monotonic;
use tokio::time::Sleep;

use crate::handler::SessionHandler;
use crate::seat::{Seat, Work};
use crate::session::Session;

/// Bytes that wait for the socket before nothing more is put behind them. A client that does not read
/// is not read from either, so that what it asks for does not pile up.
const OUTPUT_HIGH: usize = 65_536;

type Wait = Pin<Box<dyn Future<Output = Waited> + Send>>;

/// What a wait brings back.
pub(crate) enum Waited {
    /// Work that needed no permit was accepted.
    Accepted,
    /// The packet was accepted; the source of permits is free again.
    Source(JobSource),
    /// A permit for the packet that waits in the buffer.
    Permit(JobSource, JobPermit),
}

/// A connection with its session.
pub(crate) struct Connection<H: SessionHandler> {
    pub(crate) io: Io,
    pub(crate) carrier: Carrier,
    pub(crate) machine: ServerConnection,
    pub(crate) session: Session,
    pub(crate) lane: Lane<Box<Seat<H>>>,
    pub(crate) clock: Clock,
    /// Where permits come from; away while something waits with it.
    pub(crate) source: Option<JobSource>,
    /// The permit for the next packet.
    pub(crate) permit: Option<JobPermit>,
    pub(crate) output: BytesMut,
    /// A wait for room or a permit; nothing is read meanwhile.
    pub(crate) waiting: Option<Wait>,
    /// What goes to the lane after that.
    pub(crate) next: VecDeque<Work>,
    pub(crate) inbound: InboundState,
    pub(crate) ending: Ending,
    pub(crate) sleep: Pin<Box<Sleep>>,
}

/// How far the end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is open.
    No,
    /// What is queued is written, then the outbound half ends.
    Writing,
    /// The outbound half has ended; what the client still sends is thrown away until it ends too, so
    /// that the last frame is not lost to a reset.
    Lingering,
    /// The transport is gone; the session takes leave.
    Gone(CloseReason),
}

/// Whether packets of the client are dispatched (EX-175). Everything of a session reaches its lane
/// through this task, in order, so that the lane itself closes only behind the last callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboundState {
    Dispatched,
    /// The replaced callback is the last application turn: packets are counted and dropped (EX-111).
    Discarded,
}

impl<H: SessionHandler> Connection<H> {
    /// Serves the connection until nothing of its session is left.
    pub(crate) async fn serve(mut self) -> CloseReason {
        self.next.push_back(Work::Connected);
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let mut frames = FRAMES_PER_PASS;
        loop {
            let mut progress = self.signals(cx);
            progress |= self.submit(cx);
            progress |= self.write(cx);
            progress |= self.read(cx, &mut frames);
            // ST-151: behind what has come. A task that is late itself would else take a client for silent whose answer
            // lies in the socket.
            if !progress || frames == 0 {
                progress |= self.deadlines();
            }
            if let Ending::Gone(reason) = self.ending
                && self.took_leave()
            {
                return Poll::Ready(reason);
            }
            if progress && frames == 0 {
                // ST-141: the others get their turn.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !progress && self.arm(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn took_leave(&self) -> bool {
        let actors = self.session.dispatch();
        self.waiting.is_none()
            && self.next.is_empty()
            && actors.is_none_or(crate::actors::SessionActors::is_over)
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let actors = self.session.dispatch();
        let actors = actors.and_then(crate::actors::SessionActors::next_deadline);
        self.machine.next_deadline().into_iter().chain(actors).min()
    }

    fn arm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.next_deadline() else {
            return Poll::Pending;
        };
        let deadline = self.clock.instant(deadline);
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx)
    }

    fn deadlines(&mut self) -> bool {
        let now = self.clock.now();
        let mut progress = false;
        if self.machine.next_deadline().is_some_and(|due| due <= now) {
            let mut out = Vec::new();
            self.machine.on_deadline(now, &mut out);
            self.carry_out(out);
            progress = true;
        }
        if let Some(actors) = self.session.dispatch()
            && actors.next_deadline().is_some_and(|due| due <= now)
        {
            actors.on_deadline();
            progress = true;
        }
        progress
    }

    fn signals(&mut self, cx: &mut Context<'_>) -> bool {
        let asked = self.session.inner.signal.take(cx.waker());
        let mut progress = false;
        if let Some(actor_id) = asked.replaced {
            // SB-53: behind what was accepted, and nothing of the client after it.
            self.next.push_back(Work::Replaced(actor_id));
            self.inbound = InboundState::Discarded;
            progress = true;
        }
        if let Some(close) = asked.close {
            self.event(ServerEvent::Close(close));
            progress = true;
        }
        if asked.look {
            progress = true;
        }
        progress
    }

    /// Brings work into the lane, in order: at once where there is room, else by waiting.
    fn submit(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(waiting) = &mut self.waiting {
            let Poll::Ready(waited) = waiting.as_mut().poll(cx) else {
                return false;
            };
            self.waiting = None;
            match waited {
                Waited::Accepted => {}
                Waited::Source(source) => {
                    self.source = Some(source);
                    self.event(ServerEvent::ReadingResumed);
                }
                Waited::Permit(source, permit) => {
                    self.source = Some(source);
                    self.permit = Some(permit);
                    self.event(ServerEvent::ReadingResumed);
                }
            }
            return true;
        }
        let Some(work) = self.next.pop_front() else {
            return false;
        };
        if let Err(refused) = self.lane.enqueue(work)
            && refused.reason().is_full()
        {
            let (lane, work) = (self.lane.clone(), refused.into_item());
            self.waiting = Some(Box::pin(async move {
                // Refused for good only when the host stops, which ends every callback (EX-306).
                drop(lane.submit(work).await);
                Waited::Accepted
            }));
        }
        true
    }

    fn event(&mut self, event: ServerEvent) {
        let mut out = Vec::new();
        self.machine.on_event(self.clock.now(), event, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, effects: Vec<ServerEffect>) {
        for effect in effects {
            match effect {
                // Taken from the machine where the frame was (see `dispatch`).
                ServerEffect::Dispatch(_) | ServerEffect::Ignored => {}
                ServerEffect::Write(control) => self.put(&control.into()),
                ServerEffect::Unexpected => self.session.inner.stats.count_unexpected(),
                ServerEffect::FinishWriting(closing) => {
                    self.session.inner.outbox.close();
                    while let Some(bytes) = self.session.inner.outbox.take(std::task::Waker::noop())
                    {
                        self.carrier.put(&bytes, || None, &mut self.output);
                    }
                    if let Some(closing) = closing {
                        self.put(&Control::SessionClosing(closing).into());
                    }
                    self.carrier.put_close(|| None, &mut self.output);
                    self.ending = Ending::Writing;
                }
                ServerEffect::CloseTransport(reason) => self.gone(reason),
            }
        }
    }

    fn put(&mut self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        if encode(frame, None, &mut bytes).is_ok() {
            self.carrier.put(&bytes, || None, &mut self.output);
        }
    }

    /// The transport is gone: the actors are told, then the application, last (ST-144, ST-159). Whatever completes later
    /// finds a closed outbox and a session that is over (ST-156).
    fn gone(&mut self, reason: CloseReason) {
        self.ending = Ending::Gone(reason);
        self.output = BytesMut::new();
        self.session.inner.outbox.close();
        self.session.inner.outbox.clear();
        if let Some(actors) = self.session.dispatch() {
            actors.on(SessionEvent::ConnectionLost);
        }
        self.next.push_back(Work::Disconnected(reason));
    }

    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        if matches!(self.ending, Ending::Gone(_)) {
            return false;
        }
        let mut progress = false;
        while self.ending == Ending::No && self.output.len() < OUTPUT_HIGH {
            let Some(bytes) = self.session.inner.outbox.take(cx.waker()) else {
                break;
            };
            self.carrier.put(&bytes, || None, &mut self.output);
            progress = true;
        }
        if self.ending != Ending::Lingering {
            let before = self.output.len();
            match self.io.poll_write_all(cx, &mut self.output) {
                Poll::Ready(Err(error)) => {
                    self.failed(&error);
                    return true;
                }
                Poll::Ready(Ok(())) if self.ending == Ending::Writing => {
                    match self.io.poll_shutdown(cx) {
                        Poll::Pending => {}
                        Poll::Ready(_) => {
                            self.ending = Ending::Lingering;
                            return true;
                        }
                    }
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            if self.output.len() < before {
                progress = true;
            }
        }
        progress
    }

    fn failed(&mut self, error: &std::io::Error) {
        if self.ending == Ending::No {
            self.next.push_back(Work::Error(error.to_string()));
        }
        self.event(ServerEvent::TransportFailed);
    }

    fn read(&mut self, cx: &mut Context<'_>, frames: &mut usize) -> bool {
        match self.ending {
            Ending::Gone(_) | Ending::Writing => false,
            Ending::Lingering => {
                let mut thrown_away = BytesMut::new();
                match self.io.poll_read(cx, &mut thrown_away) {
                    Poll::Ready(Ok(1..)) => true,
                    Poll::Ready(_) => {
                        self.event(ServerEvent::Flushed);
                        true
                    }
                    Poll::Pending => false,
                }
            }
            Ending::No if self.is_held() || *frames == 0 => false,
            Ending::No => self.read_open(cx, frames),
        }
    }

    /// Whether nothing is read for now.
    fn is_held(&self) -> bool {
        // What waits for the lane goes first, and a client that does not read has to wait itself.
        self.waiting.is_some() || !self.next.is_empty() || self.output.len() >= OUTPUT_HIGH
    }

    fn read_open(&mut self, cx: &mut Context<'_>, frames: &mut usize) -> bool {
        match self.carrier.advance(|| None, &mut self.output) {
            Ok(Step::Control) => {
                *frames -= 1;
                match self.carrier.take() {
                    Ok(Some(frame)) => self.event(ServerEvent::Received(frame)),
                    Ok(None) => {}
                    Err(error) => self.broken(error),
                }
            }
            Ok(Step::Packet) => {
                *frames -= 1;
                self.packet();
            }
            Ok(Step::End) => self.event(ServerEvent::EndOfStream),
            Err(error) => self.broken(error),
            Ok(Step::Read) => match self.io.poll_read(cx, self.carrier.input()) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0)) => self.event(ServerEvent::EndOfStream),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => self.failed(&error),
            },
        }
        true
    }

    fn broken(&mut self, error: CarrierError) {
        self.next.push_back(Work::Error(error.to_string()));
        match error {
            CarrierError::Decode(error) => self.event(ServerEvent::Undecodable(error)),
            _ => self.event(ServerEvent::BadCarrier),
        }
    }

    /// Takes a packet: its permit first, then the packet, then its place in the lane (EX-120, EX-121).
    fn packet(&mut self) {
        if self.inbound == InboundState::Discarded {
            if self.take_packet().is_some() {
                self.session.inner.stats.count_discarded();
            }
            return;
        }
        let permit = self.permit.take();
        let permit = permit.or_else(|| self.source.as_mut().and_then(JobSource::try_reserve));
        let Some(permit) = permit else {
            return self.wait_for_permit();
        };
        let Some(inbound) = self.take_packet() else {
            return;
        };
        let bytes = charge(&inbound);
        if let Err(refused) = self.lane.enqueue_job(permit, Work::Packet(inbound), bytes) {
            if !refused.reason().is_full() {
                // The host stops.
                return self.session.inner.stats.count_discarded();
            }
            let (work, permit) = refused.into_item();
            // EX-127: who waits for room holds no permit.
            drop(permit);
            self.wait_for_room(work, bytes);
        }
    }

    /// Takes the frame; `None` when it is none for the application.
    fn take_packet(&mut self) -> Option<Inbound> {
        let frame = match self.carrier.take() {
            Ok(frame) => frame?,
            Err(error) => {
                self.broken(error);
                return None;
            }
        };
        let mut out = Vec::new();
        self.machine
            .on_event(self.clock.now(), ServerEvent::Received(frame), &mut out);
        let at = out
            .iter()
            .position(|effect| matches!(effect, ServerEffect::Dispatch(_)));
        let dispatched = at.map(|at| out.remove(at));
        self.carry_out(out);
        match dispatched {
            Some(ServerEffect::Dispatch(inbound)) => Some(inbound),
            _ => None,
        }
    }

    fn wait_for_permit(&mut self) {
        let Some(mut source) = self.source.take() else {
            return;
        };
        self.event(ServerEvent::ReadingPaused);
        self.waiting = Some(Box::pin(async move {
            let permit = source.reserve().await;
            Waited::Permit(source, permit)
        }));
    }

    fn wait_for_room(&mut self, work: Work, bytes: u64) {
        let Some(mut source) = self.source.take() else {
            return;
        };
        self.event(ServerEvent::ReadingPaused);
        let lane = self.lane.clone();
        self.waiting = Some(Box::pin(async move {
            // Refused for good only when the host stops.
            drop(lane.submit_job(&mut source, work, bytes).await);
            Waited::Source(source)
        }));
    }
}

/// EX-93: the bytes that a waiting packet retains.
fn charge(inbound: &Inbound) -> u64 {
    u64::try_from(inbound.payload.bytes.len()).unwrap_or(u64::MAX)
}

impl<H: SessionHandler> Drop for Connection<H> {
    fn drop(&mut self) {
        // The task ended or was cut off: nobody waits for a queue that is written no more.
        self.session.inner.outbox.close();
        // What was accepted runs to its end (EX-175).
        self.lane.connection_lost();
    }
}
