//! The frames of RFC 6455, read piece by piece.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Says that two bytes of length follow.
const LENGTH_16: u8 = 0x7e;
/// Says that eight bytes of length follow.
const LENGTH_64: u8 = 0x7f;
/// The longest payload of a control frame.
const CONTROL_BYTES_MAX: u64 = 125;

/// Whose frames are read: those of a client are masked, those of a server are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Side {
    /// Reads what a client sent.
    Server,
    /// Reads what a server sent.
    Client,
}

/// The mask of a client's frame: four random bytes, fresh for each.
#[derive(Clone, Copy, Debug)]
pub struct Mask([u8; 4]);

impl Mask {
    /// A mask of random bytes.
    pub const fn new(random: [u8; 4]) -> Self {
        Self(random)
    }
}

/// What a frame asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the opcodes of RFC 6455")]
pub enum Event {
    /// Bytes of the stream were appended.
    Data,
    /// To be answered by a pong with the same bytes.
    Ping(Bytes),
    /// Nothing to do.
    Pong,
    /// To be answered by a close with the same code.
    Close(Option<u16>),
}

/// What ends a WebSocket connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WsError {
    /// ST-130
    #[error("text messages are not part of the protocol; send binary ones")]
    Text,
    /// An extension that was not agreed on.
    #[error("a frame uses an extension")]
    Extension,
    /// An opcode that does not exist.
    #[error("a frame has the unknown opcode {0}")]
    Opcode(u8),
    /// A mask where there must be none, or none where there must be one.
    #[error("a frame is masked and must not be, or the other way round")]
    Masking,
    /// A control frame that is fragmented or longer than 125 bytes.
    #[error("a control frame is fragmented or too long")]
    Control,
    /// A continuation of nothing, or a new message inside of another one.
    #[error("the fragments of a message are out of order")]
    Fragments,
    /// A length in more bytes than it needs, or with its top bit set.
    #[error("a frame length is not in its shortest form")]
    Length,
    /// A close payload of one byte.
    #[error("a close frame is malformed")]
    Close,
}

/// Reads frames.
///
/// ```
/// use bytes::BytesMut;
/// use spotlane_stream_proto::ws::{Deframer, Event, Side};
///
/// let (mut input, mut stream) = (BytesMut::from(&b"\x82\x02hi"[..]), BytesMut::new());
/// let mut deframer = Deframer::new(Side::Client);
/// assert_eq!(deframer.next_event(&mut input, &mut stream)?, Some(Event::Data));
/// assert_eq!(&stream[..], b"hi");
/// # Ok::<(), spotlane_stream_proto::ws::WsError>(())
/// ```
#[derive(Debug)]
pub struct Deframer {
    side: Side,
    /// The data frame whose payload is not all here.
    open: Option<Open>,
    /// A message is not at its last fragment.
    in_message: bool,
}

#[derive(Debug)]
struct Open {
    left: u64,
    mask: Option<[u8; 4]>,
}

struct Head {
    opcode: u8,
    last: bool,
    length: u64,
    mask: Option<[u8; 4]>,
    bytes: usize,
}

impl Deframer {
    /// A reader after the upgrade.
    #[must_use]
    pub const fn new(side: Side) -> Self {
        Self {
            side,
            open: None,
            in_message: false,
        }
    }

    /// Takes the next piece of `input`; bytes of the stream are appended to `stream`. `None` when more
    /// input is needed.
    ///
    /// # Errors
    /// The peer does not speak this protocol; the connection ends.
    pub fn next_event(
        &mut self,
        input: &mut BytesMut,
        stream: &mut BytesMut,
    ) -> Result<Option<Event>, WsError> {
        if self.open.is_none() {
            let Some(head) = self.head(input)? else {
                return Ok(None);
            };
            if let Some(event) = self.begin(&head, input)? {
                return Ok(event);
            }
        }
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        let here = usize::try_from(open.left).unwrap_or(usize::MAX);
        let here = here.min(input.len());
        if here == 0 && open.left > 0 {
            return Ok(None);
        }
        let mut piece = input.split_to(here);
        if let Some(mask) = &mut open.mask {
            apply(*mask, &mut piece);
            rotate(mask, here);
        }
        // An empty message is no end of the stream (ST-132).
        stream.extend_from_slice(&piece);
        let taken = u64::try_from(here).unwrap_or(u64::MAX);
        open.left = open.left.saturating_sub(taken);
        if open.left == 0 {
            self.open = None;
        }
        Ok(Some(Event::Data))
    }

    /// Starts a frame. A control frame is taken as a whole; the inner `None` asks for more input, no
    /// event at all means that a data frame is open.
    #[expect(clippy::option_option, reason = "three outcomes, all of them local")]
    fn begin(
        &mut self,
        head: &Head,
        input: &mut BytesMut,
    ) -> Result<Option<Option<Event>>, WsError> {
        match head.opcode {
            TEXT => Err(WsError::Text),
            BINARY | CONTINUATION => {
                if self.in_message != (head.opcode == CONTINUATION) {
                    return Err(WsError::Fragments);
                }
                self.in_message = !head.last;
                input.advance(head.bytes);
                self.open = Some(Open {
                    left: head.length,
                    mask: head.mask,
                });
                Ok(None)
            }
            CLOSE | PING | PONG => {
                if !head.last || head.length > CONTROL_BYTES_MAX {
                    return Err(WsError::Control);
                }
                let length = usize::try_from(head.length).unwrap_or(usize::MAX);
                if input.len() < head.bytes.saturating_add(length) {
                    return Ok(Some(None));
                }
                input.advance(head.bytes);
                let mut payload = input.split_to(length);
                if let Some(mask) = head.mask {
                    apply(mask, &mut payload);
                }
                let event = match head.opcode {
                    PING => Event::Ping(payload.freeze()),
                    PONG => Event::Pong,
                    _ => Event::Close(close_code(&payload)?),
                };
                Ok(Some(Some(event)))
            }
            opcode => Err(WsError::Opcode(opcode)),
        }
    }

    fn head(&self, input: &[u8]) -> Result<Option<Head>, WsError> {
        let Some([first, second]) = input.first_chunk::<2>() else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return Err(WsError::Extension);
        }
        let masked = second & MASKED != 0;
        if masked != (self.side == Side::Server) {
            return Err(WsError::Masking);
        }
        let rest = input.get(2..).unwrap_or_default();
        let (length, extra, least) = match second & 0x7f {
            LENGTH_16 => match rest.first_chunk::<2>() {
                Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2, 126),
                None => return Ok(None),
            },
            LENGTH_64 => match rest.first_chunk::<8>() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 8, 65_536),
                None => return Ok(None),
            },
            short => (u64::from(short), 0, 0),
        };
        if length < least || length > u64::MAX >> 1 {
            return Err(WsError::Length);
        }
        let mask_at: usize = 2_usize.saturating_add(extra);
        let mask = if masked {
            match input.get(mask_at..).and_then(<[u8]>::first_chunk::<4>) {
                Some(mask) => Some(*mask),
                None => return Ok(None),
            }
        } else {
            None
        };
        Ok(Some(Head {
            opcode: first & 0x0f,
            last: first & FIN != 0,
            length,
            mask,
            bytes: mask_at.saturating_add(if masked { 4 } else { 0 }),
        }))
    }
}

fn close_code(payload: &[u8]) -> Result<Option<u16>, WsError> {
    match payload {
        [] => Ok(None),
        [high, low, ..] => Ok(Some(u16::from_be_bytes([*high, *low]))),
        [_] => Err(WsError::Close),
    }
}

fn apply(mask: [u8; 4], bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(4) {
        for (byte, key) in chunk.iter_mut().zip(&mask) {
            *byte ^= key;
        }
    }
}

/// The mask as it stands after `taken` bytes.
fn rotate(mask: &mut [u8; 4], taken: usize) {
    mask.rotate_left(taken % 4);
}

/// Appends bytes of the stream as one unfragmented binary message (ST-131).
pub fn put_data(data: &[u8], mask: Option<Mask>, out: &mut BytesMut) {
    put(BINARY, data, mask, out);
}

/// Appends the answer of a ping.
pub fn put_pong(payload: &[u8], mask: Option<Mask>, out: &mut BytesMut) {
    put(PONG, payload, mask, out);
}

/// Appends a close with a code.
pub fn put_close(code: u16, mask: Option<Mask>, out: &mut BytesMut) {
    put(CLOSE, &code.to_be_bytes(), mask, out);
}

fn put(opcode: u8, data: &[u8], mask: Option<Mask>, out: &mut BytesMut) {
    out.reserve(data.len().saturating_add(14));
    out.put_u8(FIN | opcode);
    let masked = if mask.is_some() { MASKED } else { 0 };
    match (u8::try_from(data.len()), u16::try_from(data.len())) {
        (Ok(short @ 0..=125), _) => out.put_u8(masked | short),
        (_, Ok(medium)) => {
            out.put_u8(masked | LENGTH_16);
            out.put_u16(medium);
        }
        (_, Err(_)) => {
            out.put_u8(masked | LENGTH_64);
            out.put_u64(u64::try_from(data.len()).unwrap_or(u64::MAX));
        }
    }
    match mask {
        None => out.put_slice(data),
        Some(Mask(mask)) => {
            out.put_slice(&mask);
            let start = out.len();
            out.put_slice(data);
            if let Some(written) = out.get_mut(start..) {
                apply(mask, written);
            }
        }
    }
}
