//! Bytes to frames, whatever the split.

use bytes::{Buf as _, Bytes, BytesMut};

use super::header::{Edition, Flags, Header};
use super::refusal::Refusal;
use crate::bound::HEADER_BYTES;

/// A frame: flags and body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The flags.
    pub flags: Flags,
    /// The body.
    pub body: Bytes,
}

/// Which rules the next header is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the three phases of a connection")]
pub enum Expect {
    /// The first frame of a connection.
    Hello,
    /// A control frame; data is refused before its body comes (TR-16).
    Ready,
    /// Anything.
    Any,
}

/// Takes bytes split anywhere and gives frames (TR-6).
///
/// Holds one header and one body at most. A body that comes in one piece is a slice of the input; any
/// other is gathered in a buffer that grows with the bytes received and never with the length that a
/// header claims (TR-55).
///
/// ```
/// use bytes::Bytes;
/// use spotlane_mesh_proto::zmp::{Decoder, Edition, Expect};
///
/// let mut decoder = Decoder::new(Edition::E1, u32::MAX);
/// let mut first = Bytes::from_static(b"\x5A\x01\0\0\0\0");
/// assert_eq!(decoder.next(Expect::Any, &mut first)?, None);
/// let mut second = Bytes::from_static(b"\0\x02hi");
/// let frame = decoder.next(Expect::Any, &mut second)?.expect("a whole frame");
/// assert_eq!(&frame.body[..], b"hi");
/// # Ok::<(), spotlane_mesh_proto::zmp::Refusal>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    edition: Edition,
    limit: u32,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Header {
        bytes: [u8; HEADER_BYTES],
        filled: usize,
    },
    Body {
        header: Header,
        gathered: BytesMut,
    },
}

const START: Stage = Stage::Header {
    bytes: [0; HEADER_BYTES],
    filled: 0,
};

impl Decoder {
    /// Starts at the first byte of a connection. `limit` bounds each body after HELLO (TR-54).
    pub const fn new(edition: Edition, limit: u32) -> Self {
        Self {
            edition,
            limit,
            stage: START,
        }
    }

    /// The bound of each body after HELLO.
    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes bytes from the front of `input` until a frame is whole or `input` is empty.
    ///
    /// # Errors
    /// The peer broke the protocol; the connection is over and the decoder must not be used again.
    pub fn next(&mut self, expect: Expect, input: &mut Bytes) -> Result<Option<Frame>, Refusal> {
        loop {
            match &mut self.stage {
                Stage::Header { bytes, filled } => {
                    let rest = bytes.get_mut(*filled..).unwrap_or_default();
                    let taken = rest.len().min(input.len());
                    for (place, byte) in rest.iter_mut().zip(input.iter()) {
                        *place = *byte;
                    }
                    input.advance(taken);
                    *filled = filled.saturating_add(taken);
                    if *filled < HEADER_BYTES {
                        return Ok(None);
                    }
                    let header = self.judge(expect)?;
                    self.stage = Stage::Body {
                        header,
                        gathered: BytesMut::new(),
                    };
                }
                Stage::Body { header, gathered } => {
                    let length = usize::try_from(header.length).unwrap_or(usize::MAX);
                    let missing = length.saturating_sub(gathered.len());
                    let body = if gathered.is_empty() && input.len() >= missing {
                        input.split_to(missing)
                    } else if input.len() >= missing {
                        gathered.extend_from_slice(&input.split_to(missing));
                        core::mem::take(gathered).freeze()
                    } else {
                        gathered.extend_from_slice(input);
                        input.clear();
                        return Ok(None);
                    };
                    let flags = header.flags;
                    self.stage = START;
                    return Ok(Some(Frame { flags, body }));
                }
            }
        }
    }

    fn judge(&self, expect: Expect) -> Result<Header, Refusal> {
        let bytes = match &self.stage {
            Stage::Header { bytes, .. } => *bytes,
            Stage::Body { header, .. } => return Ok(*header),
        };
        match expect {
            Expect::Hello => Header::of_hello(self.edition, bytes),
            Expect::Any => Header::of_frame(self.edition, self.limit, bytes),
            Expect::Ready => {
                let header = Header::of_frame(self.edition, self.limit, bytes)?;
                if header.flags.is_control() {
                    Ok(header)
                } else {
                    Err(Refusal::DataBeforeReady)
                }
            }
        }
    }

    /// Whether the bytes so far end inside of a frame.
    pub const fn is_inside_frame(&self) -> bool {
        !matches!(self.stage, Stage::Header { filled: 0, .. })
    }

    /// The memory that waits for the rest of a body.
    pub fn gathered_capacity(&self) -> usize {
        match &self.stage {
            Stage::Header { .. } => 0,
            Stage::Body { gathered, .. } => gathered.capacity(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder() -> Decoder {
        Decoder::new(Edition::E1, u32::MAX)
    }

    /// TR-55
    #[test]
    fn a_header_that_claims_four_gib_costs_nothing() {
        let mut decoder = decoder();
        let mut input = Bytes::from_static(b"\x5A\x01\0\0\xFF\xFF\xFF\xFF");
        assert_eq!(decoder.next(Expect::Any, &mut input), Ok(None));
        assert_eq!(decoder.gathered_capacity(), 0);
        let mut input = Bytes::from(vec![7; 1000]);
        assert_eq!(decoder.next(Expect::Any, &mut input), Ok(None));
        assert!(decoder.gathered_capacity() <= 2000);
        assert!(decoder.is_inside_frame());
    }

    /// TR-5
    #[test]
    fn a_body_in_one_piece_is_a_slice_and_20_mib_pass() {
        let mut bytes = vec![0; 20 << 20];
        bytes.splice(0..0, Header::encode(Edition::E1, Flags::LAST, 20 << 20));
        let mut input = Bytes::from(bytes);
        let expected = input.as_ptr().wrapping_add(HEADER_BYTES);
        let frame = decoder().next(Expect::Any, &mut input).unwrap().unwrap();
        assert_eq!(frame.body.as_ptr(), expected, "not copied");
        assert_eq!(frame.body.len(), 20 << 20);
    }

    /// TR-16
    #[test]
    fn data_before_ready_is_refused_before_its_body_comes() {
        let mut input = Bytes::from_static(b"\x5A\x01\0\0\xFF\0\0\0");
        let refused = decoder().next(Expect::Ready, &mut input);
        assert_eq!(refused, Err(Refusal::DataBeforeReady));
    }
}
