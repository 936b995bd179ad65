//! The text form of an authority key: the name of the row that says who owns an object (WR-60).

use core::fmt::{self, Write as _};

use crate::bound::AUTHORITY_KEY_BYTES;
use crate::id::{ActorId, SpotId};
use crate::kind::AuthorityObjectKind;

/// Names the authority row of one Actor or Spot.
///
/// Text form (WR-60): `zla1:a:<n>:<id>` for Actors and `zla1:s:<n>:<id>` for Spots of every kind, where
/// `n` is the number of raw bytes of the id and the id is percent-encoded with upper-case digits.
/// [`Ord`] is the order of the *text form* in bytes, by which participants of a unit are numbered (WR-41).
///
/// ```
/// use spotlane_types::authority_key::AuthorityKey;
/// use spotlane_types::id::ActorId;
///
/// let key = AuthorityKey::Actor(ActorId::new("a/b")?);
/// assert_eq!(key.to_string(), "zla1:a:3:a%2Fb");
/// assert_eq!("zla1:a:3:a%2Fb".parse::<AuthorityKey>()?, key);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by WR-60")]
pub enum AuthorityKey {
    /// The row of an Actor.
    Actor(ActorId),
    /// The row of a Spot of any kind.
    Spot(SpotId),
}

/// Why a text is not an authority key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthorityKeyError {
    /// Longer than 776 bytes.
    TooLong {
        /// The length that was given.
        bytes: usize,
    },
    /// It does not begin with `zla1:a:` or `zla1:s:`.
    Prefix,
    /// The length is not a decimal number of 1 to 255 without leading zero.
    Length,
    /// A byte that has to be written otherwise: a bare reserved byte, or an escape that is not
    /// upper-case hex of a byte that needs one.
    Escape {
        /// The index of the byte.
        at: usize,
    },
    /// The id has another number of raw bytes than the key says.
    LengthDiffers {
        /// What the key says.
        declared: usize,
        /// What the id has.
        actual: usize,
    },
    /// The raw bytes are no legal id.
    Id(crate::ValueError),
}

impl fmt::Display for AuthorityKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => {
                write!(
                    f,
                    "authority key has {bytes} bytes, at most {AUTHORITY_KEY_BYTES} are legal"
                )
            }
            Self::Prefix => f.write_str("authority key does not begin with zla1:a: or zla1:s:"),
            Self::Length => f.write_str(
                "authority key has no decimal id length of 1 to 255 without leading zero",
            ),
            Self::Escape { at } => {
                write!(
                    f,
                    "authority key is not in canonical percent form at byte {at}"
                )
            }
            Self::LengthDiffers { declared, actual } => {
                write!(
                    f,
                    "authority key declares {declared} id bytes but holds {actual}"
                )
            }
            Self::Id(_) => f.write_str("authority key holds no legal id"),
        }
    }
}

impl core::error::Error for AuthorityKeyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Id(cause) => Some(cause),
            Self::TooLong { .. }
            | Self::Prefix
            | Self::Length
            | Self::Escape { .. }
            | Self::LengthDiffers { .. } => None,
        }
    }
}

/// The unreserved bytes of RFC 3986, which stand for themselves.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

impl AuthorityKey {
    /// Which of the two key spaces the object lives in.
    pub const fn object_kind(&self) -> AuthorityObjectKind {
        match self {
            Self::Actor(_) => AuthorityObjectKind::Actor,
            Self::Spot(_) => AuthorityObjectKind::Spot,
        }
    }

    /// The raw bytes of the id.
    pub fn id_bytes(&self) -> &[u8] {
        match self {
            Self::Actor(id) => id.as_bytes(),
            Self::Spot(id) => id.as_bytes(),
        }
    }
}

impl fmt::Display for AuthorityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self {
            Self::Actor(_) => 'a',
            Self::Spot(_) => 's',
        };
        let raw = self.id_bytes();
        write!(f, "zla1:{letter}:{}:", raw.len())?;
        for byte in raw {
            if is_unreserved(*byte) {
                f.write_char(char::from(*byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl Ord for AuthorityKey {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        // Text forms, not ids: the length comes before the id in the text.
        self.to_string().cmp(&other.to_string())
    }
}

impl PartialOrd for AuthorityKey {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl core::str::FromStr for AuthorityKey {
    type Err = AuthorityKeyError;

    /// Reads the canonical text form and nothing else.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > AUTHORITY_KEY_BYTES {
            return Err(AuthorityKeyError::TooLong { bytes: text.len() });
        }
        let (kind, rest) = if let Some(rest) = text.strip_prefix("zla1:a:") {
            (AuthorityObjectKind::Actor, rest)
        } else if let Some(rest) = text.strip_prefix("zla1:s:") {
            (AuthorityObjectKind::Spot, rest)
        } else {
            return Err(AuthorityKeyError::Prefix);
        };
        let (digits, encoded) = rest.split_once(':').ok_or(AuthorityKeyError::Length)?;
        let canonical = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
        let declared = digits
            .parse::<u8>()
            .ok()
            .filter(|_| canonical)
            .map(usize::from)
            .ok_or(AuthorityKeyError::Length)?;
        let start = text.len().saturating_sub(encoded.len());
        let raw = decode_percent(encoded.as_bytes(), start)?;
        if raw.len() != declared {
            return Err(AuthorityKeyError::LengthDiffers {
                declared,
                actual: raw.len(),
            });
        }
        match kind {
            AuthorityObjectKind::Actor => ActorId::from_bytes(&raw)
                .map(Self::Actor)
                .map_err(AuthorityKeyError::Id),
            AuthorityObjectKind::Spot => SpotId::from_bytes(&raw)
                .map(Self::Spot)
                .map_err(AuthorityKeyError::Id),
        }
    }
}

fn decode_percent(encoded: &[u8], start: usize) -> Result<Vec<u8>, AuthorityKeyError> {
    let mut raw = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((first, after)) = rest.split_first() {
        let at = start.saturating_add(encoded.len().saturating_sub(rest.len()));
        if *first != b'%' {
            if !is_unreserved(*first) {
                return Err(AuthorityKeyError::Escape { at });
            }
            raw.push(*first);
            rest = after;
            continue;
        }
        let (digits, after) = after
            .split_first_chunk::<2>()
            .ok_or(AuthorityKeyError::Escape { at })?;
        let byte = upper_hex(*digits).filter(|b| !is_unreserved(*b));
        raw.push(byte.ok_or(AuthorityKeyError::Escape { at })?);
        rest = after;
    }
    Ok(raw)
}

fn upper_hex(digits: [u8; 2]) -> Option<u8> {
    let digit = |d: u8| match d {
        b'0'..=b'9' => d.checked_sub(b'0'),
        b'A'..=b'F' => d.checked_sub(b'A').and_then(|v| v.checked_add(10)),
        _ => None,
    };
    let [high, low] = digits;
    Some((digit(high)? << 4) | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WR-60
    #[test]
    fn every_id_survives_its_text_form() {
        for id in [
            "a",
            "user 42",
            "\u{e9}t\u{e9}",
            "a%b",
            "~-._",
            &"\u{1F680}".repeat(63),
        ] {
            for key in [
                AuthorityKey::Actor(id.parse().unwrap()),
                AuthorityKey::Spot(id.parse().unwrap()),
            ] {
                let text = key.to_string();
                assert!(text.len() <= AUTHORITY_KEY_BYTES);
                assert_eq!(text.parse::<AuthorityKey>().unwrap(), key);
            }
        }
    }

    /// WR-60
    #[test]
    fn only_the_canonical_form_is_read() {
        for (text, error) in [
            ("zla2:a:1:x", AuthorityKeyError::Prefix),
            ("zla1:b:1:x", AuthorityKeyError::Prefix),
            ("zla1:a:01:x", AuthorityKeyError::Length),
            ("zla1:a:+1:x", AuthorityKeyError::Length),
            ("zla1:a:0:", AuthorityKeyError::Length),
            ("zla1:a:256:x", AuthorityKeyError::Length),
            ("zla1:a:1", AuthorityKeyError::Length),
            ("zla1:a:1:%2f", AuthorityKeyError::Escape { at: 9 }),
            ("zla1:a:1:%41", AuthorityKeyError::Escape { at: 9 }),
            ("zla1:a:1:/", AuthorityKeyError::Escape { at: 9 }),
            ("zla1:a:2:a%2", AuthorityKeyError::Escape { at: 10 }),
            (
                "zla1:a:2:x",
                AuthorityKeyError::LengthDiffers {
                    declared: 2,
                    actual: 1,
                },
            ),
        ] {
            assert_eq!(text.parse::<AuthorityKey>().unwrap_err(), error, "{text}");
        }
        assert!(matches!(
            "zla1:a:1:%00".parse::<AuthorityKey>(),
            Err(AuthorityKeyError::Id(_))
        ));
        assert!(matches!(
            "zla1:a:1:%FF".parse::<AuthorityKey>(),
            Err(AuthorityKeyError::Id(_))
        ));
        let long = format!("zla1:a:255:{}", "a".repeat(800));
        assert!(matches!(
            long.parse::<AuthorityKey>(),
            Err(AuthorityKeyError::TooLong { .. })
        ));
    }

    /// WR-41
    #[test]
    fn keys_are_ordered_by_their_text_form() {
        let long = AuthorityKey::Actor(ActorId::new(&"a".repeat(10)).unwrap());
        let short = AuthorityKey::Actor(ActorId::new("z").unwrap());
        assert!(short < AuthorityKey::Spot(SpotId::new("a").unwrap()));
        // "zla1:a:10:…" before "zla1:a:1:…", because '0' is less than ':'.
        assert!(long < short);
    }
}
