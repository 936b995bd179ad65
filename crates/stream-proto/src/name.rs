//! Names of packets, correlation ids and flows.

use bytes::Bytes;
use thiserror::Error;

use crate::bound::{CORRELATION_BYTES_SENT_MAX, NAME_BYTES_MAX, RESERVED_PREFIX};

/// Why a value cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A text that is too short or too long.
    #[error("{what}: {bytes} bytes are outside 1 to {max} bytes")]
    Length {
        /// What was refused.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// ST-106, ST-116: a name or key of the framework.
    #[error("{what}: names that begin with $zlink. belong to the framework; choose another one")]
    Reserved {
        /// What was refused.
        what: &'static str,
    },
    /// A character that may not stand there.
    #[error("{what}: only printable ASCII is allowed{except}")]
    Character {
        /// What was refused.
        what: &'static str,
        /// What else is not allowed.
        except: &'static str,
    },
    /// ST-114: a key twice.
    #[error("metadata: the key {key:?} stands there twice")]
    KeyTwice {
        /// The key.
        key: String,
    },
    /// ST-115: the block is too long.
    #[error("metadata: {bytes} bytes are more than {max}")]
    MetadataTooLong {
        /// Its bytes.
        bytes: usize,
        /// The bound.
        max: usize,
    },
}

/// The name of a packet: 1 to 255 bytes of UTF-8, a slice of the header it came in.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Bytes);

impl Name {
    /// A name of an application (ST-106).
    ///
    /// # Errors
    /// It is empty, longer than 255 bytes, or one of the framework's.
    pub fn application(name: &str) -> Result<Self, ValueError> {
        if name.starts_with(RESERVED_PREFIX) {
            return Err(ValueError::Reserved { what: "name" });
        }
        let bytes = name.len();
        if bytes == 0 || bytes > NAME_BYTES_MAX {
            let (what, max) = ("name", NAME_BYTES_MAX);
            return Err(ValueError::Length { what, bytes, max });
        }
        Ok(Self(Bytes::copy_from_slice(name.as_bytes())))
    }

    /// The default name of a packet whose payload is a `T`: the name of the type, without its path and parameters (ST-107).
    ///
    /// ```
    /// struct Login;
    /// assert_eq!(spotlane_stream_proto::Name::of_type::<Login>()?.as_str(), "Login");
    /// # Ok::<(), spotlane_stream_proto::ValueError>(())
    /// ```
    ///
    /// # Errors
    /// The name of the type is longer than 255 bytes.
    pub fn of_type<T: ?Sized>() -> Result<Self, ValueError> {
        let path = core::any::type_name::<T>();
        let path = path.split('<').next().unwrap_or(path);
        let name = path.rsplit("::").next().unwrap_or(path);
        Self::application(name)
    }

    /// Takes bytes whose length the header has bounded.
    pub(crate) fn received(name: Bytes) -> Option<Self> {
        let text = core::str::from_utf8(&name).ok()?;
        (!text.is_empty()).then_some(())?;
        Some(Self(name))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // The constructors checked it; without `unsafe` it is looked at again.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Whether the name is one of the framework's; such a packet has no handler (ST-106).
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(RESERVED_PREFIX.as_bytes())
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// Ties log lines of both sides together; copied into the reply, matches nothing (ST-108).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CorrelationId(Bytes);

impl CorrelationId {
    /// An id to send.
    ///
    /// # Errors
    /// It has not 1 to 64 characters of ASCII.
    pub fn new(id: &str) -> Result<Self, ValueError> {
        let bytes = id.len();
        if bytes == 0 || bytes > CORRELATION_BYTES_SENT_MAX {
            let (what, max) = ("correlation id", CORRELATION_BYTES_SENT_MAX);
            return Err(ValueError::Length { what, bytes, max });
        }
        if !id.is_ascii() {
            let (what, except) = ("correlation id", "");
            return Err(ValueError::Character { what, except });
        }
        Ok(Self(Bytes::copy_from_slice(id.as_bytes())))
    }

    pub(crate) fn received(id: Bytes) -> Option<Self> {
        let text = core::str::from_utf8(&id).ok()?;
        (!text.is_empty()).then_some(())?;
        Some(Self(id))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Where a flow began (ST-109).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-109")]
pub enum FlowOrigin {
    /// A packet from outside.
    Inbound,
    /// A timer.
    Timer,
    /// The application.
    Application,
    /// A lifecycle callback.
    Lifecycle,
}

/// Names what belongs together across processes: a UUID of version 7 and where it began (ST-109).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    id: [u8; Self::ID_BYTES],
    origin: FlowOrigin,
}

impl Flow {
    /// The characters of an id.
    pub const ID_BYTES: usize = 36;

    /// Makes a flow of the time and ten random bytes.
    ///
    /// ```
    /// use spotlane_stream_proto::{Flow, FlowOrigin};
    ///
    /// let flow = Flow::new(0x0190_b2c4_5d6e, [0x0f; 10], FlowOrigin::Application);
    /// assert_eq!(flow.id(), "0190b2c4-5d6e-7f0f-8f0f-0f0f0f0f0f0f");
    /// ```
    #[must_use]
    pub fn new(unix_millis: u64, random: [u8; 10], origin: FlowOrigin) -> Self {
        let [_, _, time @ ..] = unix_millis.to_be_bytes();
        let [version, low, variant, rest @ ..] = random;
        let middle = [0x70 | (version & 0x0f), low, 0x80 | (variant & 0x3f)];
        let mut id = [b'-'; Self::ID_BYTES];
        let places = (0..Self::ID_BYTES).filter(|at| !is_hyphen(*at));
        let digits = time.into_iter().chain(middle).chain(rest);
        let digits = digits.flat_map(|byte| [byte >> 4, byte & 0x0f]);
        for (at, digit) in places.zip(digits) {
            if let Some(place) = id.get_mut(at) {
                *place = hex_digit(digit);
            }
        }
        Self { id, origin }
    }

    pub(crate) fn received(id: [u8; Self::ID_BYTES], origin: u8) -> Option<Self> {
        let well_formed = id.iter().enumerate().all(|(at, byte)| match at {
            14 => *byte == b'7',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ if is_hyphen(at) => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
        let origin = match origin {
            1 => FlowOrigin::Inbound,
            2 => FlowOrigin::Timer,
            3 => FlowOrigin::Application,
            4 => FlowOrigin::Lifecycle,
            _ => return None,
        };
        well_formed.then_some(Self { id, origin })
    }

    /// The id as text.
    pub fn id(&self) -> &str {
        core::str::from_utf8(&self.id).unwrap_or_default()
    }

    /// Where it began.
    pub const fn origin(&self) -> FlowOrigin {
        self.origin
    }

    pub(crate) const fn id_bytes(&self) -> &[u8; Self::ID_BYTES] {
        &self.id
    }

    pub(crate) const fn origin_byte(&self) -> u8 {
        match self.origin {
            FlowOrigin::Inbound => 1,
            FlowOrigin::Timer => 2,
            FlowOrigin::Application => 3,
            FlowOrigin::Lifecycle => 4,
        }
    }
}

const fn is_hyphen(at: usize) -> bool {
    matches!(at, 8 | 13 | 18 | 23)
}

const fn hex_digit(digit: u8) -> u8 {
    match digit {
        0..=9 => b'0'.saturating_add(digit),
        _ => b'a'.saturating_add(digit.saturating_sub(10)),
    }
}

impl core::fmt::Debug for Flow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Flow({}, {:?})", self.id(), self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ST-107
    #[test]
    fn the_default_name_is_that_of_the_type() {
        struct Move<T>(core::marker::PhantomData<T>);
        let plain = Name::of_type::<ValueError>().unwrap();
        assert_eq!(plain.as_str(), "ValueError");
        let with = Name::of_type::<Move<Vec<u8>>>().unwrap();
        assert_eq!(with.as_str(), "Move");
    }
}
