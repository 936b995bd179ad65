//! The server's end of one connection: what is dispatched, answered, and when it ends.
//!
//! | stage | event | next |
//! |---|---|---|
//! | `Open` | Send, Request | `Open`: dispatched |
//! | `Open` | ping | `Open`: answered at once (ST-119) |
//! | `Open` | bad bytes, bad control (ST-120), silence (ST-151), drain, close | `Closing` |
//! | `Open` | end of the stream | `Closing`: what is queued is written |
//! | `Open` | failure of the transport | `Closed` |
//! | `Closing` | anything received | `Closing`: nothing is dispatched |
//! | `Closing` | flushed, or 1,000 ms (ST-155) | `Closed` |

use core::time::Duration;

use spotlane_types::time::Monotonic;

use crate::bound::{
    CLOSE_FLUSH_TIMEOUT, SERVER_HEARTBEAT_TIMEOUT, SERVER_IDLE_TIMEOUT, SERVER_PING_INTERVAL,
};
use crate::control::{CloseReason, Control, SessionClosing};
use crate::error::{ControlFault, DecodeError};
use crate::frame::{Extras, Frame, Payload, Sequence};
use crate::machine::Machine;
use crate::name::Name;

/// The times of a server node (ST-154).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-151 and ST-155")]
pub struct ServerTimes {
    /// From one ping to the next.
    pub ping_interval: Duration,
    /// How long a pong is waited for.
    pub heartbeat_timeout: Duration,
    /// How long a client may be idle; `None` for as long as it likes.
    pub idle_timeout: Option<Duration>,
    /// How long the last frames may take.
    pub flush_timeout: Duration,
}

impl Default for ServerTimes {
    fn default() -> Self {
        Self {
            ping_interval: SERVER_PING_INTERVAL,
            heartbeat_timeout: SERVER_HEARTBEAT_TIMEOUT,
            idle_timeout: Some(SERVER_IDLE_TIMEOUT),
            flush_timeout: CLOSE_FLUSH_TIMEOUT,
        }
    }
}

/// A packet for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the parts of a packet")]
pub struct Inbound {
    /// What it is.
    pub name: Name,
    /// Its request, when it is answered.
    pub sequence: Option<Sequence>,
    /// Its payload.
    pub payload: Payload,
    /// What else it carries.
    pub extras: Extras,
}

/// Why a server closes a connection (section 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 12 of the stream contract"
)]
pub enum ServerClose {
    /// The host drains or shuts down: the client is told.
    Drain,
    /// The handler, a replacement or a seal timeout asks for it: the client is told nothing.
    Application,
}

/// What can happen to a connection of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 9 of the stream contract"
)]
pub enum ServerEvent {
    /// A frame was taken.
    Received(Frame),
    /// The bytes are no frame.
    Undecodable(DecodeError),
    /// The carrier broke its own protocol, for example by a text message (ST-130).
    BadCarrier,
    /// Nothing more is read for want of a permit (ST-140).
    ReadingPaused,
    /// It is read again.
    ReadingResumed,
    /// The server closes.
    Close(ServerClose),
    /// The client ended the stream.
    EndOfStream,
    /// The transport failed.
    TransportFailed,
    /// Everything that was queued at the close is written.
    Flushed,
}

/// What the driver of a connection does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 9 of the stream contract"
)]
pub enum ServerEffect {
    /// Hand it to the session.
    Dispatch(Inbound),
    /// Write it, before anything that waits for a handler.
    Write(Control),
    /// Stop reading, write what is queued, then this, then report the flush.
    FinishWriting(Option<SessionClosing>),
    /// Close the transport; the session ends for this reason.
    CloseTransport(CloseReason),
    /// ST-146: counted and nothing else.
    Unexpected,
    /// The connection is closing or closed, and the event changed nothing.
    Ignored,
}

/// One connection at its server.
#[derive(Debug)]
pub struct ServerConnection {
    times: ServerTimes,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Open(Clocks),
    Closing {
        reason: CloseReason,
        until: Monotonic,
    },
    Closed,
}

#[derive(Debug)]
struct Clocks {
    next_ping: Monotonic,
    /// When the ping that is not answered was sent.
    unanswered: Option<Monotonic>,
    last_packet: Monotonic,
    /// ST-153: both clocks stand still from then on.
    paused: Option<Monotonic>,
}

impl ServerConnection {
    /// A connection that was just accepted.
    pub const fn new(now: Monotonic, times: ServerTimes) -> Self {
        Self {
            times,
            stage: Stage::Open(Clocks {
                next_ping: now.after(times.ping_interval),
                unanswered: None,
                last_packet: now,
                paused: None,
            }),
        }
    }

    /// Whether packets are still dispatched.
    pub const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    fn received(&mut self, now: Monotonic, frame: Frame, out: &mut Vec<ServerEffect>) {
        let Stage::Open(clocks) = &mut self.stage else {
            out.push(ServerEffect::Ignored);
            return;
        };
        match frame {
            Frame::Send {
                name,
                payload,
                extras,
            } => {
                clocks.last_packet = now;
                out.push(dispatch(name, None, payload, extras));
            }
            Frame::Request {
                sequence,
                name,
                payload,
                extras,
            } => {
                clocks.last_packet = now;
                out.push(dispatch(name, Some(sequence), payload, extras));
            }
            // ST-146
            Frame::Response { .. } | Frame::Error { .. } => out.push(ServerEffect::Unexpected),
            // ST-119
            Frame::Control(Control::Ping) => out.push(ServerEffect::Write(Control::Pong)),
            // ST-120, ST-152: only a pong that was asked for answers.
            Frame::Control(Control::Pong) => clocks.unanswered = None,
            Frame::Control(Control::SessionClosing(_)) => {
                let text = ControlFault::ClosingFromClient.to_string();
                self.close(now, CloseReason::ProtocolError, Some(&text), out);
            }
        }
    }

    /// Section 12: what the client is told, and why the session ends.
    fn close(
        &mut self,
        now: Monotonic,
        reason: CloseReason,
        told: Option<&str>,
        out: &mut Vec<ServerEffect>,
    ) {
        match self.stage {
            Stage::Open(_) => {
                self.stage = Stage::Closing {
                    reason,
                    until: now.after(self.times.flush_timeout),
                };
                let closing = told.map(|text| SessionClosing::new(reason, text));
                out.push(ServerEffect::FinishWriting(closing));
            }
            Stage::Closing { .. } | Stage::Closed => out.push(ServerEffect::Ignored),
        }
    }

    fn end(&mut self, reason: CloseReason, out: &mut Vec<ServerEffect>) {
        let reason = match self.stage {
            Stage::Open(_) => reason,
            // The first cause stays.
            Stage::Closing { reason, .. } => reason,
            Stage::Closed => {
                out.push(ServerEffect::Ignored);
                return;
            }
        };
        self.stage = Stage::Closed;
        out.push(ServerEffect::CloseTransport(reason));
    }

    fn undecodable(&mut self, now: Monotonic, error: &DecodeError, out: &mut Vec<ServerEffect>) {
        let text = error.to_string();
        // ST-126: above the bound there is no frame before the close.
        let told = match error {
            DecodeError::TooLarge { .. } => None,
            DecodeError::Header(_) | DecodeError::Control(_) => Some(text.as_str()),
        };
        self.close(now, CloseReason::ProtocolError, told, out);
    }
}

fn dispatch(
    name: Name,
    sequence: Option<Sequence>,
    payload: Payload,
    extras: Extras,
) -> ServerEffect {
    ServerEffect::Dispatch(Inbound {
        name,
        sequence,
        payload,
        extras,
    })
}

impl Clocks {
    /// The deadline of the pong and that of the idle time, as if no time had passed while paused.
    fn deadlines(&self, times: &ServerTimes) -> (Option<Monotonic>, Option<Monotonic>) {
        if self.paused.is_some() {
            return (None, None);
        }
        let pong = self
            .unanswered
            .map(|sent| sent.after(times.heartbeat_timeout));
        let idle = times.idle_timeout.map(|idle| self.last_packet.after(idle));
        (pong, idle)
    }

    /// ST-151: one outstanding ping; ST-153: while nothing is read, one each interval.
    const fn pings(&self) -> bool {
        self.unanswered.is_none() || self.paused.is_some()
    }

    fn pause(&mut self, now: Monotonic) {
        self.paused = self.paused.or(Some(now));
    }

    fn resume(&mut self, now: Monotonic) {
        if let Some(since) = self.paused.take() {
            let stood = now.since(since);
            self.unanswered = self.unanswered.map(|sent| sent.after(stood).min(now));
            self.last_packet = self.last_packet.after(stood).min(now);
        }
    }
}

impl Machine for ServerConnection {
    type Event = ServerEvent;
    type Effect = ServerEffect;

    fn on_event(&mut self, now: Monotonic, event: ServerEvent, out: &mut Vec<ServerEffect>) {
        match event {
            ServerEvent::Received(frame) => self.received(now, frame, out),
            ServerEvent::Undecodable(error) => self.undecodable(now, &error, out),
            ServerEvent::BadCarrier => {
                let told = Some("the carrier's protocol was broken");
                self.close(now, CloseReason::ProtocolError, told, out);
            }
            ServerEvent::ReadingPaused => match &mut self.stage {
                Stage::Open(clocks) => clocks.pause(now),
                Stage::Closing { .. } | Stage::Closed => out.push(ServerEffect::Ignored),
            },
            ServerEvent::ReadingResumed => match &mut self.stage {
                Stage::Open(clocks) => clocks.resume(now),
                Stage::Closing { .. } | Stage::Closed => out.push(ServerEffect::Ignored),
            },
            ServerEvent::Close(ServerClose::Drain) => {
                self.close(now, CloseReason::ServerDrain, Some("draining"), out);
            }
            // ST-158: counted like a close of the client.
            ServerEvent::Close(ServerClose::Application) => {
                self.close(now, CloseReason::ClientClose, None, out);
            }
            ServerEvent::EndOfStream => match self.stage {
                // What is queued is still written: the client may only have ended its own half.
                Stage::Open(_) => self.close(now, CloseReason::ClientClose, None, out),
                Stage::Closing { .. } | Stage::Closed => self.end(CloseReason::ClientClose, out),
            },
            ServerEvent::TransportFailed => self.end(CloseReason::TransportError, out),
            ServerEvent::Flushed => match self.stage {
                Stage::Closing { reason, .. } => self.end(reason, out),
                Stage::Open(_) | Stage::Closed => out.push(ServerEffect::Ignored),
            },
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        match &self.stage {
            Stage::Open(clocks) => {
                let (pong, idle) = clocks.deadlines(&self.times);
                let next_ping = clocks.pings().then_some(clocks.next_ping);
                next_ping.into_iter().chain(pong).chain(idle).min()
            }
            Stage::Closing { until, .. } => Some(*until),
            Stage::Closed => None,
        }
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Vec<ServerEffect>) {
        match &mut self.stage {
            Stage::Open(clocks) => {
                let (pong, idle) = clocks.deadlines(&self.times);
                // ST-151: the heartbeat is judged first.
                if pong.is_some_and(|due| due <= now) {
                    let told = Some("no answer to heartbeats");
                    return self.close(now, CloseReason::HeartbeatTimeout, told, out);
                }
                if idle.is_some_and(|due| due <= now) {
                    let told = Some("no packet for the idle time");
                    return self.close(now, CloseReason::IdleTimeout, told, out);
                }
                if clocks.pings() && clocks.next_ping <= now {
                    // Turns that a late call has missed are not caught up with.
                    let next = clocks.next_ping.after(self.times.ping_interval);
                    clocks.next_ping = next.max(now);
                    clocks.unanswered = clocks.unanswered.or(Some(now));
                    out.push(ServerEffect::Write(Control::Ping));
                }
            }
            Stage::Closing { reason, until } if *until <= now => {
                let reason = *reason;
                self.end(reason, out);
            }
            Stage::Closing { .. } | Stage::Closed => {}
        }
    }
}

#[cfg(test)]
mod tests;
