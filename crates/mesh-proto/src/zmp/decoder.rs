//! Bytes to frames, whatever the split.

use bytes::buf::Limit;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::header::{Edition, Flags, Header, Kind};
use super::message::{Mark, Sequence};
use super::refusal::Refusal;
use crate::bound::{HEADER_BYTES, SEQUENCE_BYTES};

/// A frame: flags, mark and body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The flags.
    pub flags: Flags,
    /// What its message is; on data of E2 alone (TR-45).
    pub mark: Option<Mark>,
    /// The body.
    pub body: Bytes,
}

/// Which rules the next header is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the phases of a connection")]
pub enum Expect {
    /// The first frame of a connection.
    Hello,
    /// A control frame; data is refused before its body comes (TR-16).
    Ready,
    /// Anything.
    Any,
    /// What may follow inside of a message that has this many bytes so far.
    More(u64),
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
    /// What there is of a body that did not come in one piece. Its memory is used again, once nobody
    /// holds the bodies before it.
    gathered: BytesMut,
}

#[derive(Debug)]
enum Stage {
    Header {
        bytes: [u8; HEADER_BYTES],
        filled: usize,
    },
    /// TR-45: the sequence of a marked frame.
    Sequence {
        header: Header,
        kind: Kind,
        bytes: [u8; SEQUENCE_BYTES],
        filled: usize,
    },
    Body {
        header: Header,
        mark: Option<Mark>,
    },
}

/// Memory above this is not kept for the next body.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

const START: Stage = Stage::Header {
    bytes: [0; HEADER_BYTES],
    filled: 0,
};

impl Decoder {
    /// Starts at the first byte of a connection. `limit` bounds each body after HELLO (TR-54).
    pub fn new(edition: Edition, limit: u32) -> Self {
        Self {
            edition,
            limit,
            stage: START,
            gathered: BytesMut::new(),
        }
    }

    /// The peer has said which edition it speaks; called between two frames.
    pub(super) const fn speak(&mut self, edition: Edition) {
        self.edition = edition;
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
                    if !fill(bytes, filled, input) {
                        return Ok(None);
                    }
                    let header = self.judge(expect)?;
                    self.stage = match header.kind {
                        None => Stage::Body { header, mark: None },
                        Some(kind) => Stage::Sequence {
                            header,
                            kind,
                            bytes: [0; SEQUENCE_BYTES],
                            filled: 0,
                        },
                    };
                }
                Stage::Sequence {
                    header,
                    kind,
                    bytes,
                    filled,
                } => {
                    if !fill(bytes, filled, input) {
                        return Ok(None);
                    }
                    let (header, kind) = (*header, *kind);
                    // TR-8
                    let sequence = Sequence::new(u64::from_be_bytes(*bytes));
                    let sequence = sequence.ok_or(Refusal::SequenceInvalid)?;
                    let mark = Some(Mark { kind, sequence });
                    self.stage = Stage::Body { header, mark };
                }
                Stage::Body { header, mark } => {
                    let (flags, mark, length) = (header.flags, *mark, header.length);
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    let missing = length.saturating_sub(self.gathered.len());
                    let body = if self.gathered.is_empty() && input.len() >= missing {
                        input.split_to(missing)
                    } else if input.len() >= missing {
                        self.gathered.extend_from_slice(&input.split_to(missing));
                        let body = self.gathered.split().freeze();
                        if length > KEPT_BYTES_MAX {
                            self.gathered = BytesMut::new();
                        }
                        body
                    } else {
                        self.gathered.extend_from_slice(input);
                        input.clear();
                        return Ok(None);
                    };
                    self.stage = START;
                    return Ok(Some(Frame { flags, mark, body }));
                }
            }
        }
    }

    /// Where the next bytes of a body belong, when `least` or more of them are missing: a driver that
    /// reads into it spares a copy, and calls [`Self::next`] with an empty input then. At most `most`
    /// bytes of memory are made ready at a time (TR-55).
    pub fn body_room(&mut self, least: usize, most: usize) -> Option<Limit<&mut BytesMut>> {
        let Stage::Body { header, .. } = &self.stage else {
            return None;
        };
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let missing = length.saturating_sub(self.gathered.len());
        if missing < least.max(1) {
            return None;
        }
        let room = self.gathered.capacity().saturating_sub(self.gathered.len());
        if room == 0 {
            self.gathered.reserve(missing.min(most));
        }
        let room = self.gathered.capacity().saturating_sub(self.gathered.len());
        Some((&mut self.gathered).limit(missing.min(room)))
    }

    fn judge(&self, expect: Expect) -> Result<Header, Refusal> {
        let bytes = match &self.stage {
            Stage::Header { bytes, .. } => *bytes,
            Stage::Sequence { header, .. } | Stage::Body { header, .. } => return Ok(*header),
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
            Expect::More(so_far) => {
                let header = Header::of_frame(self.edition, self.limit, bytes)?;
                self.judge_more(header, so_far)
            }
        }
    }

    /// TR-8, TR-54: what E2 wants of a frame that continues a message, before its body comes.
    fn judge_more(&self, header: Header, so_far: u64) -> Result<Header, Refusal> {
        if self.edition == Edition::E1 {
            return Ok(header);
        }
        if header.kind.is_some() || header.flags.is_special() {
            return Err(Refusal::MultipartInvalid);
        }
        let sum = so_far.saturating_add(u64::from(header.length));
        if self.limit < u32::MAX && sum > u64::from(self.limit) {
            return Err(Refusal::BodyTooLarge);
        }
        Ok(header)
    }

    /// Whether the bytes so far end inside of a frame.
    pub const fn is_inside_frame(&self) -> bool {
        !matches!(self.stage, Stage::Header { filled: 0, .. })
    }

    /// How much there is of a body that is not whole.
    pub fn gathered_bytes(&self) -> usize {
        self.gathered.len()
    }

    /// The memory that waits for the rest of a body.
    pub fn gathered_capacity(&self) -> usize {
        self.gathered.capacity()
    }
}

/// Takes what is missing of a part of fixed length; false when the input ends before it.
fn fill<const N: usize>(bytes: &mut [u8; N], filled: &mut usize, input: &mut Bytes) -> bool {
    let rest = bytes.get_mut(*filled..).unwrap_or_default();
    let taken = rest.len().min(input.len());
    for (place, byte) in rest.iter_mut().zip(input.iter()) {
        *place = *byte;
    }
    input.advance(taken);
    *filled = filled.saturating_add(taken);
    *filled >= N
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
        bytes.splice(0..0, Header::encode(Flags::LAST, 20 << 20));
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

    /// TR-6, TR-45: the sequence is between header and body, and its bytes come in any pieces.
    #[test]
    fn a_marked_frame_has_its_sequence_in_front_of_the_body() {
        let bytes = b"\x5A\x01\0\x02\0\0\0\x02\0\0\0\0\0\0\0\x09hi";
        for at in 0..bytes.len() {
            let mut decoder = Decoder::new(Edition::E2, u32::MAX);
            let mut first = Bytes::copy_from_slice(&bytes[..at]);
            assert_eq!(decoder.next(Expect::Any, &mut first), Ok(None), "{at}");
            let mut second = Bytes::copy_from_slice(&bytes[at..]);
            let frame = decoder.next(Expect::Any, &mut second).unwrap().unwrap();
            let kind = Kind::Reply;
            let sequence = Sequence::new(9).unwrap();
            assert_eq!(frame.mark, Some(Mark { kind, sequence }));
            assert_eq!(&frame.body[..], b"hi");
            assert!(!decoder.is_inside_frame());
        }
    }

    /// TR-8, TR-54
    #[test]
    fn what_the_second_edition_forbids_is_refused_before_a_body_comes() {
        let refused = |limit, expect, bytes: &'static [u8]| {
            let mut decoder = Decoder::new(Edition::E2, limit);
            decoder.next(expect, &mut Bytes::from_static(bytes))
        };
        let zero = b"\x5A\x01\0\x01\xFF\0\0\0\0\0\0\0\0\0\0\0";
        let sequence = Err(Refusal::SequenceInvalid);
        assert_eq!(refused(u32::MAX, Expect::Any, zero), sequence);
        let marked = b"\x5A\x01\0\x01\xFF\0\0\0";
        let multipart = Err(Refusal::MultipartInvalid);
        assert_eq!(refused(u32::MAX, Expect::More(1), marked), multipart);
        let special = b"\x5A\x01\x04\0\0\0\x01\0";
        assert_eq!(refused(u32::MAX, Expect::More(1), special), multipart);
        let part = b"\x5A\x01\0\0\0\0\0\x51";
        assert_eq!(refused(100, Expect::More(19), part), Ok(None));
        let too_large = Err(Refusal::BodyTooLarge);
        assert_eq!(refused(100, Expect::More(20), part), too_large);
        let kind = b"\x5A\x01\0\x04\0\0\0\0";
        assert_eq!(refused(100, Expect::Any, kind), Err(Refusal::KindInvalid));
    }
}
