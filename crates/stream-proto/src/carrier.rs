//! The bytes of a connection, with or without WebSocket around them, as frames and back.

use bytes::BytesMut;
use thiserror::Error;

use crate::decode::{FlowRule, FrameDecoder, SizeBound, Upcoming};
use crate::error::DecodeError;
use crate::frame::Frame;
use crate::ws::{self, Deframer, Event, Mask, Side, WsError};

/// Why the bytes of a connection mean nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CarrierError {
    /// They are no frame.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// They are not of the carrier's protocol (ST-130).
    #[error(transparent)]
    Ws(#[from] WsError),
}

/// The close code of an intended close (ST-132).
const CLOSE_NORMAL: u16 = 1_000;

/// What lies between a socket and frames.
///
/// Input is read into [`Carrier::input`]; what the carrier itself has to answer is appended to the output
/// that [`Carrier::advance`] gets. It holds one incomplete frame, and what was read behind it (ST-132).
#[derive(Debug)]
pub struct Carrier {
    frames: FrameDecoder,
    websocket: Option<WebSocket>,
}

#[derive(Debug)]
struct WebSocket {
    deframer: Deframer,
    input: BytesMut,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// A close of ours or the answer to theirs is written; nothing may follow.
    CloseSent,
}

/// What the next step of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-132 and ST-142")]
pub enum Step {
    /// More input is needed.
    Read,
    /// A control packet is there.
    Control,
    /// A packet is there.
    Packet,
    /// The peer ended the stream by a close of the carrier.
    End,
}

impl Carrier {
    /// Frames right on the socket: `tcp` and `tls` (ST-101).
    #[must_use]
    pub fn plain(bound: SizeBound, flow: FlowRule) -> Self {
        Self {
            frames: FrameDecoder::new(bound, flow),
            websocket: None,
        }
    }

    /// Frames in WebSocket messages, after the upgrade. `rest` was read behind it.
    #[must_use]
    pub fn websocket(side: Side, rest: BytesMut, bound: SizeBound, flow: FlowRule) -> Self {
        Self {
            frames: FrameDecoder::new(bound, flow),
            websocket: Some(WebSocket {
                deframer: Deframer::new(side),
                input: rest,
                stage: Stage::Open,
            }),
        }
    }

    /// Where what was read from the socket goes.
    pub const fn input(&mut self) -> &mut BytesMut {
        match &mut self.websocket {
            Some(websocket) => &mut websocket.input,
            None => self.frames.buffer(),
        }
    }

    /// How many bytes were read and not taken.
    pub fn buffered(&self) -> usize {
        let raw = self.websocket.as_ref().map_or(0, |ws| ws.input.len());
        raw.saturating_add(self.frames.buffered())
    }

    /// Looks at the input. `mask` gives a fresh mask for each answer of a client.
    ///
    /// # Errors
    /// The connection ends.
    pub fn advance(
        &mut self,
        mut mask: impl FnMut() -> Option<Mask>,
        out: &mut BytesMut,
    ) -> Result<Step, CarrierError> {
        loop {
            match self.frames.upcoming()? {
                Upcoming::Control => return Ok(Step::Control),
                Upcoming::Packet => return Ok(Step::Packet),
                Upcoming::Incomplete => {}
            }
            let Some(websocket) = &mut self.websocket else {
                return Ok(Step::Read);
            };
            let stream = self.frames.buffer();
            match websocket
                .deframer
                .next_event(&mut websocket.input, stream)?
            {
                None => {
                    if websocket.input.is_empty() {
                        websocket.input = BytesMut::new();
                    }
                    return Ok(Step::Read);
                }
                Some(Event::Data | Event::Pong) => {}
                Some(Event::Ping(payload)) => {
                    if websocket.stage == Stage::Open {
                        ws::put_pong(&payload, mask(), out);
                    }
                }
                Some(Event::Close(code)) => {
                    if websocket.stage == Stage::Open {
                        websocket.stage = Stage::CloseSent;
                        ws::put_close(code.unwrap_or(CLOSE_NORMAL), mask(), out);
                    }
                    return Ok(Step::End);
                }
            }
        }
    }

    /// Takes the frame that [`Step::Control`] or [`Step::Packet`] announced.
    ///
    /// # Errors
    /// The connection ends.
    pub fn take(&mut self) -> Result<Option<Frame>, CarrierError> {
        Ok(self.frames.next_frame()?)
    }

    /// Appends encoded frames to the output, one call one message (ST-131).
    pub fn put(&self, frames: &[u8], mask: impl FnOnce() -> Option<Mask>, out: &mut BytesMut) {
        match &self.websocket {
            Some(websocket) if websocket.stage == Stage::Open => {
                ws::put_data(frames, mask(), out);
            }
            Some(_) => {}
            None => out.extend_from_slice(frames),
        }
    }

    /// Appends what ends the carrier, if it has such a thing (ST-132).
    pub fn put_close(&mut self, mask: impl FnOnce() -> Option<Mask>, out: &mut BytesMut) {
        if let Some(websocket) = &mut self.websocket
            && websocket.stage == Stage::Open
        {
            websocket.stage = Stage::CloseSent;
            ws::put_close(CLOSE_NORMAL, mask(), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn websocket() -> Carrier {
        let bound = SizeBound::Whole(64);
        Carrier::websocket(Side::Server, BytesMut::new(), bound, FlowRule::Judge)
    }

    fn masked(data: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        ws::put_data(data, Some(Mask::new([1, 2, 3, 4])), &mut out);
        out
    }

    const SEND: &[u8] = b"\0\x06\0\0\0\x02\xf2\x01\x01\0\x01a{}";

    /// ST-132
    #[test]
    fn a_message_of_many_frames_is_taken_frame_by_frame() {
        let mut carrier = websocket();
        carrier
            .input()
            .extend_from_slice(&masked(&SEND.repeat(100)));
        let mut out = BytesMut::new();
        for _ in 0..100 {
            assert_eq!(carrier.advance(|| None, &mut out), Ok(Step::Packet));
            assert!(carrier.take().unwrap().is_some());
        }
        assert_eq!(carrier.advance(|| None, &mut out), Ok(Step::Read));
        assert!(out.is_empty());
    }

    /// ST-132
    #[test]
    fn a_close_is_answered_with_its_code_once_and_nothing_follows() {
        let mut carrier = websocket();
        let close = [0x88, 0x82, 0, 0, 0, 0, 0x0f, 0xa1];
        carrier.input().extend_from_slice(&close);
        let mut out = BytesMut::new();
        assert_eq!(carrier.advance(|| None, &mut out), Ok(Step::End));
        assert_eq!(out, [0x88, 2, 0x0f, 0xa1][..], "4001");
        out.clear();
        carrier.put(SEND, || None, &mut out);
        carrier.put_close(|| None, &mut out);
        assert!(out.is_empty());
    }
}
