//! What goes over a connection: packets out, frames in, heartbeat.

use bytes::BytesMut;
use spotlane_types::time::Monotonic;

use super::{
    Compression, Connector, ConnectorEffect, Effects, Link, LinkGeneration, Pending, Proved, Push,
    Reply, RequestError, Stage, StrayError,
};
use crate::compress::decompress;
use crate::control::{CloseReason, Control};
use crate::encode::encode;
use crate::error::{DecompressError, EncodeError};
use crate::frame::{Extras, Frame, Packing, Payload, Sequence};
use crate::name::{CorrelationId, Name};
use crate::remote_error::RemoteError;

use super::CallId;

impl Connector {
    pub(super) fn is_current(&self, link: LinkGeneration) -> bool {
        matches!(&self.stage, Stage::Connected(current) if current.generation == link)
    }

    const fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Connected(_))
    }

    /// What forbids a payload before it is looked at.
    fn check(&self, payload: &Payload) -> Result<(), RequestError> {
        if !self.is_connected() {
            // ST-160: nothing is queued.
            return Err(RequestError::NotConnected);
        }
        let compressed = payload.packing == Packing::Compressed;
        if compressed && self.settings.compression == Compression::None {
            return Err(RequestError::CompressionNotConfigured);
        }
        Ok(())
    }

    fn write(&self, frame: &Frame, out: &mut Effects) -> Result<(), EncodeError> {
        let mut bytes = BytesMut::new();
        encode(frame, Some(self.settings.send_payload_max), &mut bytes)?;
        out.push(ConnectorEffect::Write(bytes.freeze()));
        Ok(())
    }

    pub(super) fn send(
        &self,
        call: CallId,
        name: Name,
        payload: Payload,
        extras: Extras,
        out: &mut Effects,
    ) {
        let result = self.check(&payload).and_then(|()| {
            let frame = Frame::Send {
                name,
                payload,
                // ST-108: a one-way carries none.
                extras: Extras {
                    correlation: None,
                    ..extras
                },
            };
            self.write(&frame, out).map_err(RequestError::from)
        });
        out.push(ConnectorEffect::SendEnded { call, result });
    }

    pub(super) fn request(
        &mut self,
        call: CallId,
        name: Name,
        payload: Payload,
        mut extras: Extras,
        deadline: Monotonic,
        out: &mut Effects,
    ) {
        if let Err(error) = self.check(&payload) {
            let result = Err(error);
            out.push(ConnectorEffect::RequestEnded { call, result });
            return;
        }
        let sequence = self.fresh_sequence();
        if extras.correlation.is_none() {
            let id = format!("{:x}", self.next_correlation);
            self.next_correlation = self.next_correlation.saturating_add(1);
            extras.correlation = CorrelationId::new(&id).ok();
        }
        // ST-166: registered before the write.
        self.pending.insert(sequence, Pending { call, deadline });
        let frame = Frame::Request {
            sequence,
            name,
            payload,
            extras,
        };
        if let Err(error) = self.write(&frame, out) {
            self.pending.remove(&sequence);
            let result = Err(error.into());
            out.push(ConnectorEffect::RequestEnded { call, result });
        }
    }

    /// ST-166: never 0, never one that is pending.
    fn fresh_sequence(&mut self) -> Sequence {
        loop {
            let sequence = Sequence::new(self.next_sequence).unwrap_or(Sequence::MIN);
            self.next_sequence = sequence.get().wrapping_add(1);
            if !self.pending.contains_key(&sequence) {
                return sequence;
            }
        }
    }

    pub(super) fn received(
        &mut self,
        now: Monotonic,
        link: LinkGeneration,
        frame: Frame,
        out: &mut Effects,
    ) {
        let current = match &mut self.stage {
            Stage::Connected(current) if current.generation == link => current,
            Stage::Created
            | Stage::Attempting(_)
            | Stage::Connected(_)
            | Stage::Disconnected
            | Stage::Closed => {
                out.push(ConnectorEffect::Ignored);
                return;
            }
        };
        current.last_frame = now;
        if !matches!(frame, Frame::Control(Control::SessionClosing(_))) {
            current.proved = Proved::Yes;
        }
        match frame {
            Frame::Send {
                name,
                payload,
                extras,
            } => out.push(match self.unpack(payload) {
                Ok(payload) => ConnectorEffect::Deliver(Push {
                    name,
                    payload,
                    extras,
                }),
                Err(error) => ConnectorEffect::Stray(StrayError::Decompression(error)),
            }),
            Frame::Request { .. } => out.push(ConnectorEffect::Stray(StrayError::ServerRequest)),
            Frame::Response {
                sequence, payload, ..
            } => {
                let reply = self.unpack(payload).map_err(RequestError::from);
                self.reply(sequence, reply, out);
            }
            Frame::Error {
                sequence, payload, ..
            } => self.error(sequence, payload, out),
            Frame::Control(Control::Ping) => {
                // ST-119: at once, and also when the own heartbeat is off.
                let pong = self.write(&Control::Pong.into(), out);
                debug_assert!(pong.is_ok(), "a control packet has no payload");
            }
            Frame::Control(Control::Pong) => {}
            Frame::Control(Control::SessionClosing(closing)) => {
                // ST-174
                self.lose(now, closing.reason(), out);
            }
        }
    }

    fn error(&mut self, sequence: Option<Sequence>, payload: Payload, out: &mut Effects) {
        let error = match self.unpack(payload) {
            Ok(payload) => RemoteError::of_payload(&payload.bytes),
            Err(_) => None,
        };
        match sequence {
            Some(sequence) => {
                let error = error.map_or(RequestError::ErrorPayload, RequestError::Remote);
                self.reply(sequence, Err(error), out);
            }
            None => out.push(ConnectorEffect::Stray(
                error.map_or(StrayError::ErrorPayload, StrayError::Remote),
            )),
        }
    }

    fn reply(&mut self, sequence: Sequence, result: Reply, out: &mut Effects) {
        out.push(match self.pending.remove(&sequence) {
            Some(Pending { call, .. }) => ConnectorEffect::RequestEnded { call, result },
            // ST-168
            None => ConnectorEffect::Stray(StrayError::Unmatched(sequence)),
        });
    }

    fn unpack(&self, payload: Payload) -> Result<Payload, DecompressError> {
        if payload.packing == Packing::Plain {
            return Ok(payload);
        }
        if self.settings.compression == Compression::None {
            return Err(DecompressError::NotConfigured);
        }
        let bound = u64::from(self.settings.receive_payload_max);
        let bytes = decompress(&payload.bytes, bound)?;
        Ok(Payload::plain(payload.codec, bytes))
    }

    pub(super) fn late_requests(&mut self, now: Monotonic, out: &mut Effects) {
        self.pending.retain(|_, pending| {
            if pending.deadline > now {
                return true;
            }
            out.push(ConnectorEffect::RequestEnded {
                call: pending.call,
                result: Err(RequestError::Timeout),
            });
            false
        });
    }

    pub(super) fn link_deadline(&self, link: &Link) -> Option<Monotonic> {
        let heartbeat = self.settings.heartbeat?;
        let silence = link.last_frame.after(heartbeat.timeout());
        link.next_ping.into_iter().chain([silence]).min()
    }

    /// ST-173
    pub(super) fn heartbeat(&mut self, now: Monotonic, out: &mut Effects) {
        let Some(heartbeat) = self.settings.heartbeat else {
            return;
        };
        let Stage::Connected(link) = &mut self.stage else {
            return;
        };
        if link.last_frame.after(heartbeat.timeout()) <= now {
            return self.lose(now, CloseReason::HeartbeatTimeout, out);
        }
        if link.next_ping.is_some_and(|due| due <= now) {
            // Turns that a late call has missed are not caught up with.
            let next = link.next_ping.map(|due| due.after(heartbeat.interval()));
            let later = now.after(heartbeat.interval());
            link.next_ping = next.filter(|next| *next > now).or(Some(later));
            let ping = self.write(&Control::Ping.into(), out);
            debug_assert!(ping.is_ok(), "a control packet has no payload");
        }
    }
}
