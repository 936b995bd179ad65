//! From bytes to frames, however they are cut.

use bytes::{Buf, Bytes, BytesMut};

use crate::bound::{HEADER_BYTES_MIN, PREFIX_BYTES};
use crate::control::Control;
use crate::encode::{
    FLAG_COMPRESSED, FLAG_CORRELATION, FLAG_FLOW, FLAG_METADATA, FLAG_SEQUENCE, KIND_CONTROL,
    KIND_ERROR, KIND_REQUEST, KIND_RESPONSE, KIND_SEND, MARKER,
};
use crate::error::{DecodeError, HeaderFault};
use crate::frame::{Codec, Extras, Frame, Packing, Payload, Sequence};
use crate::metadata::Metadata;
use crate::name::{CorrelationId, Flow, Name};

/// What a frame may have at most, judged by its prefix alone (ST-126).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 6 of the stream contract"
)]
pub enum SizeBound {
    /// No limit but that of the length fields (ST-127).
    None,
    /// A server counts header and payload.
    Whole(u32),
    /// A connector counts the payload.
    Payload(u32),
}

/// Whether flows are looked at (ST-110).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-110")]
pub enum FlowRule {
    /// A bad one ends the connection.
    #[default]
    Judge,
    /// Diagnostics are off: skipped by its length.
    Skip,
}

/// What the next frame is, while it is still in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-142")]
pub enum Upcoming {
    /// Not there as a whole.
    Incomplete,
    /// A control packet, which is taken without a permit (ST-142).
    Control,
    /// Anything else.
    Packet,
}

/// Takes bytes as they come and gives frames (ST-102).
///
/// Holds one frame that is not complete, and what came behind complete ones; what a prefix claims is
/// judged before anything is kept for it, and memory grows with the bytes that came (ST-103). After an
/// error it stays at that error.
///
/// ```
/// use spotlane_stream_proto::{Frame, FrameDecoder, FlowRule, SizeBound};
///
/// let mut decoder = FrameDecoder::new(SizeBound::Whole(65_536), FlowRule::Judge);
/// decoder.buffer().extend_from_slice(b"\0\x06\0\0\0\x02\xf2\x01\x01\0\x01a{}");
/// assert!(matches!(decoder.next_frame(), Ok(Some(Frame::Send { name, .. })) if name.as_str() == "a"));
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    bound: SizeBound,
    flow: FlowRule,
    failed: Option<DecodeError>,
}

#[derive(Clone, Copy)]
struct Prefix {
    header: usize,
    payload: usize,
}

impl FrameDecoder {
    /// A decoder at the start of a connection.
    #[must_use]
    pub fn new(bound: SizeBound, flow: FlowRule) -> Self {
        Self {
            buffer: BytesMut::new(),
            bound,
            flow,
            failed: None,
        }
    }

    /// Where received bytes are appended.
    pub const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// How many received bytes wait.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// What [`Self::next_frame`] would give; costs nothing.
    ///
    /// # Errors
    /// The prefix announces what is not accepted.
    pub fn upcoming(&self) -> Result<Upcoming, DecodeError> {
        let Some(prefix) = self.prefix()? else {
            return Ok(Upcoming::Incomplete);
        };
        if self.buffer.len() < prefix.frame() {
            return Ok(Upcoming::Incomplete);
        }
        Ok(match self.buffer.get(PREFIX_BYTES.saturating_add(1)) {
            Some(&KIND_CONTROL) => Upcoming::Control,
            _ => Upcoming::Packet,
        })
    }

    /// The next complete frame, if there is one.
    ///
    /// # Errors
    /// The bytes are no frame: the connection ends (ST-104).
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        match self.take() {
            Err(error) => {
                self.failed = Some(error.clone());
                self.buffer = BytesMut::new();
                Err(error)
            }
            taken => taken,
        }
    }

    fn take(&mut self) -> Result<Option<Frame>, DecodeError> {
        let Some(prefix) = self.prefix()? else {
            return Ok(None);
        };
        if self.buffer.len() < prefix.frame() {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        let header = self.buffer.split_to(prefix.header).freeze();
        let payload = self.buffer.split_to(prefix.payload).freeze();
        if self.buffer.is_empty() {
            // What was handed out keeps its memory; a quiet connection keeps none.
            self.buffer = BytesMut::new();
        }
        decode(header, payload, self.flow).map(Some)
    }

    fn prefix(&self) -> Result<Option<Prefix>, DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Some([h0, h1, p0, p1, p2, p3]) = self.buffer.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let header = u16::from_be_bytes([*h0, *h1]);
        let payload = u32::from_be_bytes([*p0, *p1, *p2, *p3]);
        let (bytes, bound) = match self.bound {
            SizeBound::None => (0, 0),
            SizeBound::Whole(bound) => (
                u64::from(header).saturating_add(u64::from(payload)),
                u64::from(bound),
            ),
            SizeBound::Payload(bound) => (u64::from(payload), u64::from(bound)),
        };
        if bytes > bound {
            return Err(DecodeError::TooLarge { bytes, bound });
        }
        let header = usize::from(header);
        if header < HEADER_BYTES_MIN {
            return Err(HeaderFault::TooShort.into());
        }
        let payload = usize::try_from(payload).unwrap_or(usize::MAX);
        Ok(Some(Prefix { header, payload }))
    }
}

impl Prefix {
    const fn frame(self) -> usize {
        let head = PREFIX_BYTES.saturating_add(self.header);
        head.saturating_add(self.payload)
    }
}

/// Reads fields from the front of a header.
struct Fields(Bytes);

impl Fields {
    fn bytes(&mut self, len: usize, field: &'static str) -> Result<Bytes, HeaderFault> {
        if len > self.0.len() {
            return Err(HeaderFault::Cut { field });
        }
        Ok(self.0.split_to(len))
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], HeaderFault> {
        let found = self.0.first_chunk().copied();
        let found = found.ok_or(HeaderFault::Cut { field })?;
        self.0.advance(N);
        Ok(found)
    }

    fn short(&mut self, field: &'static str) -> Result<Bytes, HeaderFault> {
        let [len] = self.array(field)?;
        self.bytes(usize::from(len), field)
    }
}

/// The header and payload of one frame.
fn decode(header: Bytes, payload: Bytes, rule: FlowRule) -> Result<Frame, DecodeError> {
    let mut fields = Fields(header);
    let [marker, kind, codec, flags] = fields.array("kind")?;
    if marker != MARKER {
        return Err(HeaderFault::Marker(marker).into());
    }
    if !(KIND_SEND..=KIND_CONTROL).contains(&kind) {
        return Err(HeaderFault::Kind(kind).into());
    }
    let codec = Codec::from_wire(codec).ok_or(HeaderFault::Codec(codec))?;
    let known = FLAG_SEQUENCE | FLAG_METADATA | FLAG_COMPRESSED | FLAG_CORRELATION | FLAG_FLOW;
    if flags & !known != 0 {
        return Err(HeaderFault::Flags(flags).into());
    }
    if kind == KIND_CONTROL && flags != 0 {
        return Err(HeaderFault::FlagOfKind("a control packet has none").into());
    }
    let sequence = read_sequence(&mut fields, flags)?;
    let name = fields.short("name")?;
    let extras = read_extras(&mut fields, flags, rule)?;
    if !fields.0.is_empty() {
        let bytes = fields.0.len();
        return Err(HeaderFault::Surplus { bytes }.into());
    }
    if kind == KIND_CONTROL {
        if codec != Codec::Raw {
            return Err(HeaderFault::CodecOfKind.into());
        }
        return Ok(Frame::Control(Control::decode(&name, &payload)?));
    }
    let packing = if flags & FLAG_COMPRESSED == 0 {
        Packing::Plain
    } else {
        Packing::Compressed
    };
    let payload = Payload {
        codec,
        packing,
        bytes: payload,
    };
    Ok(of_kind(kind, sequence, name, payload, extras)?)
}

fn read_sequence(fields: &mut Fields, flags: u8) -> Result<Option<Sequence>, HeaderFault> {
    if flags & FLAG_SEQUENCE == 0 {
        return Ok(None);
    }
    let number = u64::from_be_bytes(fields.array("request sequence")?);
    Sequence::new(number)
        .map(Some)
        .ok_or(HeaderFault::SequenceZero)
}

fn read_extras(fields: &mut Fields, flags: u8, rule: FlowRule) -> Result<Extras, HeaderFault> {
    let mut extras = Extras::default();
    if flags & FLAG_METADATA != 0 {
        let len = u16::from_be_bytes(fields.array("metadata")?);
        let block = fields.bytes(usize::from(len), "metadata")?;
        extras.metadata = Metadata::received(block)?;
    }
    if flags & FLAG_CORRELATION != 0 {
        let field = "correlation id";
        let id = fields.short(field)?;
        if id.is_empty() {
            return Err(HeaderFault::CorrelationEmpty);
        }
        let id = CorrelationId::received(id).ok_or(HeaderFault::NotUtf8 { field })?;
        extras.correlation = Some(id);
    }
    if flags & FLAG_FLOW != 0 {
        let id = fields.array("flow id")?;
        let [origin] = fields.array("flow origin")?;
        extras.flow = match rule {
            FlowRule::Judge => Some(Flow::received(id, origin).ok_or(HeaderFault::Flow)?),
            FlowRule::Skip => None,
        };
    }
    Ok(extras)
}

/// The table of section 2.
fn of_kind(
    kind: u8,
    sequence: Option<Sequence>,
    name: Bytes,
    payload: Payload,
    extras: Extras,
) -> Result<Frame, HeaderFault> {
    let named = matches!(kind, KIND_SEND | KIND_REQUEST);
    if name.is_empty() == named {
        return Err(HeaderFault::Name);
    }
    let named = |name| Name::received(name).ok_or(HeaderFault::NotUtf8 { field: "name" });
    match (kind, sequence) {
        (KIND_SEND, None) => Ok(Frame::Send {
            name: named(name)?,
            payload,
            extras,
        }),
        (KIND_REQUEST, Some(sequence)) => Ok(Frame::Request {
            sequence,
            name: named(name)?,
            payload,
            extras,
        }),
        (KIND_RESPONSE, Some(sequence)) => Ok(Frame::Response {
            sequence,
            payload,
            extras,
        }),
        (KIND_ERROR, sequence) => {
            if payload.codec != Codec::Json {
                return Err(HeaderFault::CodecOfKind);
            }
            Ok(Frame::Error {
                sequence,
                payload,
                extras,
            })
        }
        (KIND_SEND, Some(_)) => Err(HeaderFault::FlagOfKind("a send has no sequence")),
        (_, _) => Err(HeaderFault::FlagOfKind("a sequence is needed")),
    }
}
