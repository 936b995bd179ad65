//! The eight bytes in front of every frame.

use super::refusal::Refusal;
use crate::bound::{CONTROL_BODY_MAX, HEADER_BYTES, HELLO_BODY_MAX, HELLO_BODY_MIN};

const MAGIC: u8 = 0x5A;
const VERSION: u8 = 0x01;

/// Which of the two wire editions a connection speaks (TR-1).
///
/// The second edition comes with the tokio part; every place that differs matches on this value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edition {
    /// Pairs of connections, request framing in four frames.
    #[default]
    E1,
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
            Ok(flags) if flags.is_control() => Ok(Self { flags, length }),
            Ok(_) => Err(Refusal::FlagsInvalid),
            Err(refusal) => Err(refusal),
        }
    }

    /// Judges the header of any later frame, whose body may have up to `limit` bytes (TR-4, TR-54).
    ///
    /// # Errors
    /// The peer broke the protocol.
    pub const fn of_frame(
        edition: Edition,
        limit: u32,
        bytes: [u8; HEADER_BYTES],
    ) -> Result<Self, Refusal> {
        let length = length_of(bytes);
        match judge_start(edition, bytes) {
            Ok(flags) => {
                let bounded = flags.is_control() || flags.is_special();
                if length > limit || (bounded && length > CONTROL_BODY_MAX) {
                    return Err(Refusal::BodyTooLarge);
                }
                Ok(Self { flags, length })
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// The bytes of a header.
    pub const fn encode(edition: Edition, flags: Flags, length: u32) -> [u8; HEADER_BYTES] {
        let [a, b, c, d] = length.to_be_bytes();
        match edition {
            Edition::E1 => [MAGIC, VERSION, flags.0, 0, a, b, c, d],
        }
    }
}

const fn length_of([_, _, _, _, a, b, c, d]: [u8; HEADER_BYTES]) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Magic, version, flags and reserved byte, in this order.
const fn judge_start(
    edition: Edition,
    [magic, version, flags, reserved, ..]: [u8; HEADER_BYTES],
) -> Result<Flags, Refusal> {
    if magic != MAGIC {
        return Err(Refusal::InvalidMagic);
    }
    if version != VERSION {
        return Err(Refusal::VersionMismatch);
    }
    match (edition, reserved) {
        (Edition::E1, 0) => Flags::judge(flags),
        // TR-3: a frame of the other edition is refused here.
        (Edition::E1, _) => Err(Refusal::FlagsInvalid),
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
        let header = Header::encode(Edition::E1, Flags::MORE, 258);
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
}
