//! The one task of a client: attempts, bytes, timers, calls.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use spotlane_stream_io::{Clock, Io};
use spotlane_stream_proto::bound::FRAMES_PER_PASS;
use spotlane_stream_proto::connector::{
    AttemptError, CallId, ConnectError, Connector, ConnectorEffect, ConnectorEvent,
    ConnectorSettings, ConnectorState, LinkGeneration, RequestError,
};
use spotlane_stream_proto::ws::Mask;
use spotlane_stream_proto::{Carrier, CarrierError, Machine as _, Payload, Step};
use tokio::sync::{oneshot, watch};
use tokio::time::Sleep;

use crate::calls::{Call, Calls};
use crate::client::Status;
use crate::dial::{Dialer, Ready};
use crate::inbox::{Incoming, Shelf};
use crate::reconnects::{Progress, ReconnectOutcome, Reconnects};

/// Bytes that wait for the socket before no more calls are taken.
const OUTPUT_HIGH: usize = 65_536;

/// How long what was written may take to go out when the connection is closed.
const CLOSE_FLUSH: Duration = Duration::from_secs(1);

/// Everything the task shares.
pub(crate) struct Outside {
    pub(crate) calls: Arc<Calls>,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) reconnects: Arc<Reconnects>,
}

impl Drop for Outside {
    fn drop(&mut self) {
        // A client that is closed or cut off takes no calls, and nothing more comes.
        self.calls.close();
        self.shelf.close();
    }
}

type Dialing = Pin<Box<dyn Future<Output = Result<Ready, AttemptError>> + Send>>;

/// What is to be told when a call ended.
enum Waiting {
    Connect(oneshot::Sender<Result<(), ConnectError>>),
    Send(oneshot::Sender<Result<(), RequestError>>),
    Request(oneshot::Sender<Result<Payload, RequestError>>),
}

struct Link {
    generation: LinkGeneration,
    io: Io,
    carrier: Carrier,
    output: BytesMut,
}

pub(crate) struct Task {
    machine: Connector,
    dialer: Arc<Dialer>,
    outside: Outside,
    clock: Clock,
    link: Option<Link>,
    dialing: Option<(LinkGeneration, Dialing)>,
    /// A connection that is closed and still writes what it has.
    leaving: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waiting: BTreeMap<CallId, Waiting>,
    closing: Vec<oneshot::Sender<()>>,
    sleep: Pin<Box<Sleep>>,
    progress: Progress,
}

impl Drop for Task {
    fn drop(&mut self) {
        let counts = &self.outside.reconnects;
        self.progress.abandoned(ReconnectOutcome::Shutdown, counts);
    }
}

impl Task {
    pub(crate) fn new(settings: ConnectorSettings, dialer: Arc<Dialer>, outside: Outside) -> Self {
        Self {
            machine: Connector::new(settings),
            dialer,
            outside,
            clock: Clock::start(),
            link: None,
            dialing: None,
            leaving: None,
            waiting: BTreeMap::new(),
            closing: Vec::new(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            progress: Progress::default(),
        }
    }

    /// Runs until the client is closed. What waits for it ends with it, also when it is cut off.
    pub(crate) async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut frames = FRAMES_PER_PASS;
        loop {
            let mut progress = self.calls(cx);
            progress |= self.dialing(cx);
            progress |= self.write(cx);
            progress |= self.read(cx, &mut frames);
            // ST-170: behind what has come. A task that is late itself would else take a server for silent whose answer
            // lies in the socket.
            if !progress || frames == 0 {
                progress |= self.deadline();
            }
            if let Some(leaving) = &mut self.leaving
                && leaving.as_mut().poll(cx).is_ready()
            {
                self.leaving = None;
                progress = true;
            }
            let closed = self.machine.state() == ConnectorState::Closed;
            if closed && self.leaving.is_none() {
                return Poll::Ready(());
            }
            if progress && frames == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !progress && self.arm(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn arm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.machine.next_deadline() else {
            return Poll::Pending;
        };
        let deadline = self.clock.instant(deadline);
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx)
    }

    fn deadline(&mut self) -> bool {
        let now = self.clock.now();
        if self.machine.next_deadline().is_none_or(|due| due > now) {
            return false;
        }
        let mut out = Vec::new();
        self.machine.on_deadline(now, &mut out);
        self.carry_out(out);
        true
    }

    fn event(&mut self, event: ConnectorEvent) {
        let mut out = Vec::new();
        self.machine.on_event(self.clock.now(), event, &mut out);
        self.carry_out(out);
    }

    fn calls(&mut self, cx: &mut Context<'_>) -> bool {
        if self
            .link
            .as_ref()
            .is_some_and(|link| link.output.len() >= OUTPUT_HIGH)
        {
            return false;
        }
        let Some(call) = self.outside.calls.take(cx.waker()) else {
            return false;
        };
        match call {
            Call::Connect(ended) => {
                let call = self.outside.calls.fresh();
                self.progress.requested();
                self.waiting.insert(call, Waiting::Connect(ended));
                self.event(ConnectorEvent::Connect(call));
            }
            Call::Close(ended) => {
                self.closing.push(ended);
                self.event(ConnectorEvent::Close);
            }
            Call::Send {
                name,
                payload,
                extras,
                ended,
            } => {
                let call = self.outside.calls.fresh();
                self.waiting.insert(call, Waiting::Send(ended));
                self.event(ConnectorEvent::Send {
                    call,
                    name,
                    payload,
                    extras,
                });
            }
            Call::Request {
                call,
                name,
                payload,
                extras,
                timeout,
                ended,
            } => {
                self.waiting.insert(call, Waiting::Request(ended));
                self.event(ConnectorEvent::Request {
                    call,
                    name,
                    payload,
                    extras,
                    timeout,
                });
            }
            Call::Forgotten(call) => {
                if self.waiting.remove(&call).is_some() {
                    self.event(ConnectorEvent::Forgotten(call));
                }
            }
        }
        true
    }

    fn dialing(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((link, dialing)) = &mut self.dialing else {
            return false;
        };
        let Poll::Ready(dialed) = dialing.as_mut().poll(cx) else {
            return false;
        };
        let generation = *link;
        self.dialing = None;
        let result = match dialed {
            Ok(Ready { io, carrier }) => {
                self.link = Some(Link {
                    generation,
                    io,
                    carrier,
                    output: BytesMut::new(),
                });
                Ok(())
            }
            Err(error) => Err(error),
        };
        self.progress
            .attempted(result.as_ref().copied(), &self.outside.reconnects);
        self.event(ConnectorEvent::Attempted {
            link: generation,
            result,
        });
        true
    }

    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        let before = link.output.len();
        match link.io.poll_write_all(cx, &mut link.output) {
            Poll::Ready(Err(_)) => {
                let generation = link.generation;
                self.event(ConnectorEvent::Lost(generation));
                true
            }
            Poll::Ready(Ok(())) | Poll::Pending => link.output.len() < before,
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, frames: &mut usize) -> bool {
        let Some(link) = self.link.as_mut().filter(|_| *frames > 0) else {
            return false;
        };
        let generation = link.generation;
        let random = &self.dialer.random;
        let mask = || Some(random.mask());
        let step = link.carrier.advance(mask, &mut link.output);
        let event = match step {
            Ok(Step::Control | Step::Packet) => {
                *frames -= 1;
                match link.carrier.take() {
                    Ok(Some(frame)) => ConnectorEvent::Received {
                        link: generation,
                        frame,
                    },
                    Ok(None) => return true,
                    Err(error) => broken(generation, error),
                }
            }
            Ok(Step::End) => ConnectorEvent::Lost(generation),
            Err(error) => broken(generation, error),
            Ok(Step::Read) => match link.io.poll_read(cx, link.carrier.input()) {
                Poll::Pending => return false,
                Poll::Ready(Ok(1..)) => return true,
                Poll::Ready(Ok(0) | Err(_)) => ConnectorEvent::Lost(generation),
            },
        };
        self.event(event);
        true
    }

    fn carry_out(&mut self, effects: Vec<ConnectorEffect>) {
        for effect in effects {
            match effect {
                ConnectorEffect::Attempt(link) => {
                    let dialing = Box::pin(Arc::clone(&self.dialer).dial());
                    self.progress.attempt();
                    self.dialing = Some((link, dialing));
                }
                ConnectorEffect::Abandon(link) => {
                    if self
                        .dialing
                        .as_ref()
                        .is_some_and(|(dialing, _)| *dialing == link)
                    {
                        self.dialing = None;
                        let outcome = match self.machine.state() {
                            ConnectorState::Closed => ReconnectOutcome::Shutdown,
                            _ => ReconnectOutcome::Cancelled,
                        };
                        self.progress.abandoned(outcome, &self.outside.reconnects);
                    }
                }
                ConnectorEffect::Write(bytes) => {
                    if let Some(link) = &mut self.link {
                        let random = &self.dialer.random;
                        let mask = || Some(random.mask());
                        link.carrier.put(&bytes, mask, &mut link.output);
                    }
                }
                ConnectorEffect::CloseLink(generation) => self.close_link(generation),
                ConnectorEffect::ConnectEnded { call, result } => {
                    if let Some(Waiting::Connect(ended)) = self.waiting.remove(&call) {
                        drop(ended.send(result));
                    }
                }
                ConnectorEffect::SendEnded { call, result } => {
                    if let Some(Waiting::Send(ended)) = self.waiting.remove(&call) {
                        drop(ended.send(result));
                    }
                }
                ConnectorEffect::RequestEnded { call, result } => {
                    if let Some(Waiting::Request(ended)) = self.waiting.remove(&call) {
                        drop(ended.send(result));
                    }
                }
                ConnectorEffect::Deliver(push) => self.outside.shelf.put(Incoming::Push(push)),
                ConnectorEffect::State(state) => {
                    let close_reason = self.machine.close_reason();
                    self.outside.status.send_replace(Status {
                        state,
                        close_reason,
                    });
                    self.outside.shelf.put(Incoming::State(state));
                }
                ConnectorEffect::Disconnected(reason) => {
                    self.progress.lost();
                    self.outside.shelf.put(Incoming::Disconnected(reason));
                }
                ConnectorEffect::Stray(error) => self.outside.shelf.put(Incoming::Error(error)),
                ConnectorEffect::Ignored => {}
            }
        }
    }

    /// What was written goes out, for a bounded time, beside whatever comes next.
    fn close_link(&mut self, generation: LinkGeneration) {
        let ours = |link: &mut Link| link.generation == generation;
        let Some(mut link) = self.link.take_if(ours) else {
            return;
        };
        let random = &self.dialer.random;
        let mask = || -> Option<Mask> { Some(random.mask()) };
        link.carrier.put_close(mask, &mut link.output);
        let flush = async move {
            let Link {
                mut io, mut output, ..
            } = link;
            if poll_fn(|cx| io.poll_write_all(cx, &mut output))
                .await
                .is_ok()
            {
                // The peer may be gone.
                drop(poll_fn(|cx| io.poll_shutdown(cx)).await);
            }
        };
        self.leaving = Some(Box::pin(async {
            drop(tokio::time::timeout(CLOSE_FLUSH, flush).await);
        }));
    }
}

fn broken(link: LinkGeneration, error: CarrierError) -> ConnectorEvent {
    match error {
        CarrierError::Decode(error) => ConnectorEvent::Undecodable { link, error },
        _ => ConnectorEvent::Lost(link),
    }
}
