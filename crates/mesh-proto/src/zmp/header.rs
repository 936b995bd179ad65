//! The eight bytes in front of every frame.

use super::refusal::Refusal;
use crate::bound::{
    CONTROL_BODY_MAX, CONTROL_BODY_MAX_E2, HEADER_BYTES, HELLO_BODY_MAX, HELLO_BODY_MIN,
};

const MAGIC: u8 = 0x5A;
const VERSION: u8 = 0x01;

/// Which of the two wire editions a connection speaks (TR-1). Every place that differs matches on this
/// value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-1")]
pub enum Edition {
    /// Named pairs of connections, request framing in four frames, completion controls.
    #[default]
    E1,
    /// Pairs by identity, request framing behind the header, flow control frames.
    E2,
}

/// Which editions a side speaks, and so how it opens a connection (TR-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-2")]
pub enum Opening {
    /// This one alone.
    Fixed(Edition),
    /// Either: the READY of the peer says which one the connection speaks.
    Neutral,
}

impl Opening {
    /// What is assumed while the peer has not said it: no frame before READY differs.
    pub(super) const fn assumed(self) -> Edition {
        match self {
            Self::Fixed(edition) => edition,
            Self::Neutral => Edition::E1,
        }
    }
}

impl Default for Opening {
    fn default() -> Self {
        Self::Fixed(Edition::default())
    }
}

/// What the first frame of a message of E2 may be besides data (TR-45).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-45")]
pub enum Kind {
    /// A request.
    Request,
    /// Its reply.
    Reply,
    /// A reply that tells of a failure.
    ErrorReply,
}

impl Kind {
    const fn wire(kind: Option<Self>) -> u8 {
        match kind {
            None => 0,
            Some(Self::Request) => 1,
            Some(Self::Reply) => 2,
            Some(Self::ErrorReply) => 3,
        }
    }

    /// TR-8: an unknown kind has an error of its own.
    const fn judge(byte: u8) -> Result<Option<Self>, Refusal> {
        match byte {
            0 => Ok(None),
            1 => Ok(Some(Self::Request)),
            2 => Ok(Some(Self::Reply)),
            3 => Ok(Some(Self::ErrorReply)),
            _ => Err(Refusal::KindInvalid),
        }
    }
}

/// The flags of a frame whose header was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// The last frame of a message.
    pub const LAST: Self = Self(0);
    /// A frame of a message that is not its last.
    pub const MORE: Self = Self(0x01);
    /// A control frame.
    pub const CONTROL: Self = Self(0x02);
    const IDENTITY: u8 = 0x04;
    const SUBSCRIBE: u8 = 0x08;
    const CANCEL: u8 = 0x10;
    const KNOWN: u8 = 0x1F;

    /// Whether more frames of the message follow.
    pub const fn has_more(self) -> bool {
        self.0 & Self::MORE.0 != 0
    }

    /// Whether it is a control frame.
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL.0 != 0
    }

    /// Whether it is a frame that a router never uses and drops (TR-7).
    pub const fn is_special(self) -> bool {
        self.0 & (Self::IDENTITY | Self::SUBSCRIBE | Self::CANCEL) != 0
    }

    /// Whether it carries data: neither control nor special.
    pub const fn is_data(self) -> bool {
        self.0 & !Self::MORE.0 == 0
    }

    /// TR-4: what may stand together.
    const fn judge(bits: u8) -> Result<Self, Refusal> {
        let control_with = Self::MORE.0 | Self::IDENTITY;
        let unknown = bits & !Self::KNOWN != 0;
        let control = bits & Self::CONTROL.0 != 0 && bits & control_with != 0;
        let topic = bits & (Self::SUBSCRIBE | Self::CANCEL) != 0
            && bits != Self::SUBSCRIBE
            && bits != Self::CANCEL;
        if unknown || control || topic {
            return Err(Refusal::FlagsInvalid);
        }
        Ok(Self(bits))
    }
}

/// A judged header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The flags.
    pub flags: Flags,
    /// What the message is, if a sequence follows the header; never in E1.
    pub kind: Option<Kind>,
    /// The length of the body, 0 to 2^32 - 1 (TR-5).
    pub length: u32,
}

impl Header {
    /// Judges the header of a HELLO: the length comes first (TR-4, TR-10).
    ///
    /// # Errors
    /// The peer broke the protocol.
    pub const fn of_hello(edition: Edition, bytes: [u8; HEADER_BYTES]) -> Result<Self, Refusal> {
        let length = length_of(bytes);
        if length > HELLO_BODY_MAX {
            return Err(Refusal::HelloTooLarge);
        }
        if length < HELLO_BODY_MIN {
            return Err(Refusal::HelloTooShort);
        }
        match judge_start(edition, bytes) {
            Ok((flags, kind)) if flags.is_control() => Ok(Self {
                flags,
                kind,
                length,
            }),
            Ok(_) => Err(Refusal::FlagsInvalid),
            Err(refusal) => Err(refusal),
        }
    }

    /// Judges the header of any later frame, whose body may have up to `limit` bytes (TR-4, TR-54).
    ///
    /// # Errors
    /// The peer broke the protocol.
    #[inline]
    pub const fn of_frame(
        edition: Edition,
        limit: u32,
        bytes: [u8; HEADER_BYTES],
    ) -> Result<Self, Refusal> {
        let length = length_of(bytes);
        match judge_start(edition, bytes) {
            Ok((flags, kind)) => {
                // TR-54: where the limit holds, and what bounds the frames that it is not for.
                let bounded = flags.is_control() || flags.is_special();
                let too_large = match edition {
                    Edition::E1 => length > limit || (bounded && length > CONTROL_BODY_MAX),
                    Edition::E2 if bounded => length > CONTROL_BODY_MAX_E2,
                    Edition::E2 => length > limit,
                };
                if too_large {
                    return Err(Refusal::BodyTooLarge);
                }
                Ok(Self {
                    flags,
                    kind,
                    length,
                })
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// The bytes of a header without a kind, which are the same in both editions.
    pub const fn encode(flags: Flags, length: u32) -> [u8; HEADER_BYTES] {
        Self::encode_kind(flags, None, length)
    }

    /// The bytes of a header of E2; with a kind, the sequence has to follow (TR-45).
    pub const fn encode_kind(flags: Flags, kind: Option<Kind>, length: u32) -> [u8; HEADER_BYTES] {
        let [a, b, c, d] = length.to_be_bytes();
        [MAGIC, VERSION, flags.0, Kind::wire(kind), a, b, c, d]
    }
}

const fn length_of([_, _, _, _, a, b, c, d]: [u8; HEADER_BYTES]) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Magic, version, flags and the byte behind them, in this order.
#[inline]
const fn judge_start(
    edition: Edition,
    [magic, version, flags, last, ..]: [u8; HEADER_BYTES],
) -> Result<(Flags, Option<Kind>), Refusal> {
    if magic != MAGIC {
        return Err(Refusal::InvalidMagic);
    }
    if version != VERSION {
        return Err(Refusal::VersionMismatch);
    }
    let flags = match Flags::judge(flags) {
        Ok(flags) => flags,
        Err(refusal) => return Err(refusal),
    };
    match (edition, last) {
        (Edition::E1, 0) => Ok((flags, None)),
        // TR-3: a request of the other edition is refused here.
        (Edition::E1, _) => Err(Refusal::FlagsInvalid),
        // TR-8: only data has a kind.
        (Edition::E2, kind) => match Kind::judge(kind) {
            Ok(Some(_)) if !flags.is_data() => Err(Refusal::FlagsInvalid),
            Ok(kind) => Ok((flags, kind)),
            Err(refusal) => Err(refusal),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = u32::MAX;

    fn frame(flags: u8) -> Result<Header, Refusal> {
        Header::of_frame(Edition::E1, LIMIT, [MAGIC, VERSION, flags, 0, 0, 0, 0, 1])
    }

    /// TR-4
    #[test]
    fn all_256_flag_bytes_are_judged_as_the_rule_says() {
        let allowed = [0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x10];
        for flags in 0..=u8::MAX {
            let refused = frame(flags).err();
            let expected = (!allowed.contains(&flags)).then_some(Refusal::FlagsInvalid);
            assert_eq!(refused, expected, "{flags:#04x}");
        }
    }

    /// TR-1
    #[test]
    fn the_first_edition_is_the_default_and_a_value() {
        assert_eq!(Edition::default(), Edition::E1);
        let header = Header::encode(Flags::MORE, 258);
        assert_eq!(header, [0x5A, 1, 1, 0, 0, 0, 1, 2]);
    }

    /// TR-3, TR-4
    #[test]
    fn magic_version_and_reserved_byte_have_their_own_errors() {
        let judge = |bytes| Header::of_frame(Edition::E1, LIMIT, bytes).unwrap_err();
        assert_eq!(judge([0x5B, 1, 0, 0, 0, 0, 0, 0]), Refusal::InvalidMagic);
        assert_eq!(judge([0x5A, 2, 0, 0, 0, 0, 0, 0]), Refusal::VersionMismatch);
        assert_eq!(judge([0x5A, 1, 0, 1, 0, 0, 0, 0]), Refusal::FlagsInvalid);
    }

    /// TR-5
    #[test]
    fn a_body_has_zero_to_four_gib_less_one() {
        let header = |length: [u8; 4]| {
            let [a, b, c, d] = length;
            Header::of_frame(Edition::E1, LIMIT, [MAGIC, VERSION, 0, 0, a, b, c, d])
        };
        assert_eq!(header([0; 4]).unwrap().length, 0);
        assert_eq!(header([0xFF; 4]).unwrap().length, u32::MAX);
    }

    /// TR-54
    #[test]
    fn a_limit_holds_for_data_and_control_and_control_has_one_of_its_own() {
        let header = |flags, limit, length: u32| {
            let [a, b, c, d] = length.to_be_bytes();
            Header::of_frame(Edition::E1, limit, [MAGIC, VERSION, flags, 0, a, b, c, d])
        };
        for flags in [0, 1, 2] {
            assert!(header(flags, 100, 100).is_ok());
            assert_eq!(header(flags, 100, 101), Err(Refusal::BodyTooLarge));
        }
        let above = CONTROL_BODY_MAX + 1;
        assert!(header(0, LIMIT, above).is_ok());
        for flags in [0x02, 0x04, 0x08] {
            assert_eq!(header(flags, LIMIT, above), Err(Refusal::BodyTooLarge));
        }
    }

    /// TR-4, TR-10
    #[test]
    fn of_a_hello_the_length_is_judged_first() {
        let hello = |bytes| Header::of_hello(Edition::E1, bytes).unwrap_err();
        assert_eq!(hello(*b"GET / HT"), Refusal::HelloTooLarge);
        assert_eq!(hello([0, 0, 0, 0, 0, 0, 0, 2]), Refusal::HelloTooShort);
        assert_eq!(hello([0, 0, 0, 0, 0, 0, 0, 3]), Refusal::InvalidMagic);
        assert_eq!(hello([0x5A, 1, 0, 0, 0, 0, 0, 3]), Refusal::FlagsInvalid);
    }

    /// TR-8
    #[test]
    fn a_kind_goes_with_data_alone_and_an_unknown_one_has_its_own_error() {
        let judge = |flags, kind| {
            Header::of_frame(
                Edition::E2,
                LIMIT,
                [MAGIC, VERSION, flags, kind, 0, 0, 0, 1],
            )
        };
        for (byte, kind) in [
            (0, None),
            (1, Some(Kind::Request)),
            (2, Some(Kind::Reply)),
            (3, Some(Kind::ErrorReply)),
        ] {
            for flags in [0, 1] {
                let header = judge(flags, byte).unwrap();
                assert_eq!(header.kind, kind);
                let bytes = Header::encode_kind(header.flags, kind, 1);
                assert_eq!(bytes, [MAGIC, VERSION, flags, byte, 0, 0, 0, 1]);
            }
        }
        for flags in [0x02, 0x04, 0x05, 0x08, 0x10] {
            assert!(judge(flags, 0).is_ok());
            for kind in 1..=3 {
                assert_eq!(judge(flags, kind), Err(Refusal::FlagsInvalid));
            }
        }
        for kind in 4..=u8::MAX {
            assert_eq!(judge(0, kind), Err(Refusal::KindInvalid));
        }
    }

    /// TR-54: in E2 the limit is for parts, and control frames have a bound of their own.
    #[test]
    fn the_second_edition_bounds_control_frames_by_themselves() {
        let header = |flags, limit, length: u32| {
            let [a, b, c, d] = length.to_be_bytes();
            Header::of_frame(Edition::E2, limit, [MAGIC, VERSION, flags, 0, a, b, c, d])
        };
        assert!(header(2, 100, 4096).is_ok());
        assert_eq!(header(2, LIMIT, 4097), Err(Refusal::BodyTooLarge));
        assert_eq!(header(0, 100, 101), Err(Refusal::BodyTooLarge));
        assert!(header(0, LIMIT, 4097).is_ok());
    }
}
