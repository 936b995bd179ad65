//! What an application sends and answers: bytes with a media type, and how typed values become such.

use std::sync::LazyLock;

use bytes::Bytes;
use spotlane_types::id::{ContentType, PacketName};
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::view::PayloadView;

use crate::error::{Error, ErrorKind};

const OCTETS: &str = "application/octet-stream";
const TEXT: &str = "text/plain";
#[cfg(feature = "json")]
const JSON: &str = "application/json";

/// Bytes and the media type that says how to read them.
///
/// The bytes are never copied on their way: a received payload is a slice of the buffer it came in (EX-321). Ownership only
/// goes forward, from the connection to the queue to the handler (EX-320).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    content_type: ContentType,
    bytes: Bytes,
}

impl Payload {
    /// A payload of any media type.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOperation`]: the type is empty, longer than 255 bytes or has a NUL.
    pub fn new(content_type: &str, bytes: impl Into<Bytes>) -> Result<Self, Error> {
        Ok(Self {
            content_type: ContentType::new(content_type)?,
            bytes: bytes.into(),
        })
    }

    /// Bytes without a narrower meaning.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        // Checked once: this is on the way of every message.
        static TYPE: LazyLock<ContentType> =
            LazyLock::new(|| Payload::of(OCTETS, Bytes::new()).content_type);
        Self {
            content_type: TYPE.clone(),
            bytes: bytes.into(),
        }
    }

    /// Nothing.
    pub fn empty() -> Self {
        Self::bytes(Bytes::new())
    }

    #[expect(clippy::expect_used, reason = "the constants above are legal")]
    fn of(content_type: &str, bytes: Bytes) -> Self {
        Self {
            content_type: ContentType::new(content_type).expect("a constant"),
            bytes,
        }
    }

    /// The media type.
    pub fn content_type(&self) -> &str {
        self.content_type.as_str()
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes, without the type.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// In its envelope.
    #[inline]
    pub(crate) fn into_wire(self, name: PacketName) -> Result<ApplicationPayload, Error> {
        let payload = PayloadBytes::new(self.bytes)
            .map_err(|error| Error::invalid(error.to_string()).with_source(error))?;
        Ok(ApplicationPayload {
            packet_name: name,
            content_type: self.content_type,
            payload,
        })
    }

    /// The payload, for a message that goes out from where it lies; what is left has the type alone.
    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        Self {
            content_type: self.content_type.clone(),
            bytes: std::mem::take(&mut self.bytes),
        }
    }

    /// Gives back what [`Self::take`] took.
    pub(crate) fn put_back(&mut self, payload: ApplicationPayload) {
        self.bytes = payload.payload.into_bytes();
    }

    /// Out of its envelope.
    pub(crate) fn from_wire(payload: ApplicationPayload) -> (PacketName, Self) {
        let bytes = payload.payload.into_bytes();
        let content_type = payload.content_type;
        let this = Self {
            content_type,
            bytes,
        };
        (payload.packet_name, this)
    }

    /// As [`Self::from_wire`], of an envelope where it lies.
    #[inline]
    pub(crate) fn from_view(payload: &PayloadView<'_>) -> (PacketName, Self) {
        let this = Self {
            content_type: ContentType::from_borrowed(payload.content_type),
            bytes: payload.payload.to_bytes(),
        };
        (PacketName::from_borrowed(payload.packet_name), this)
    }

    fn expect_type(&self, expected: &str) -> Result<(), Error> {
        if self.content_type.as_bytes() == expected.as_bytes() {
            return Ok(());
        }
        // EX-325: read by exact media type, no fallback.
        Err(Error::new(
            ErrorKind::ProtocolError,
            format!("the payload is {}, expected {expected}", self.content_type),
        ))
    }
}

/// A value that a handler or a caller reads from a payload: once, when its turn has come (EX-324).
pub trait FromPayload: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// [`ErrorKind::ProtocolError`] when the payload is something else.
    fn from_payload(payload: Payload) -> Result<Self, Error>;
}

/// A value that a caller sends.
pub trait IntoPayload {
    /// Encodes it.
    ///
    /// # Errors
    /// The value has no encoding.
    fn into_payload(self) -> Result<Payload, Error>;
}

/// What a handler returns: a value, or a result with one.
pub trait IntoReply {
    /// The answer of the request.
    ///
    /// # Errors
    /// What the handler reports, or that its value has no encoding.
    fn into_reply(self) -> Result<Payload, Error>;
}

impl<T: IntoReply, E: Into<Error>> IntoReply for Result<T, E> {
    fn into_reply(self) -> Result<Payload, Error> {
        self.map_err(Into::into)?.into_reply()
    }
}

macro_rules! plain {
    ($($ty:ty: $from:expr, $into:expr;)+) => {$(
        impl FromPayload for $ty {
            fn from_payload(payload: Payload) -> Result<Self, Error> {
                let from: fn(Payload) -> Result<Self, Error> = $from;
                from(payload)
            }
        }

        impl IntoPayload for $ty {
            fn into_payload(self) -> Result<Payload, Error> {
                let into: fn(Self) -> Payload = $into;
                Ok(into(self))
            }
        }

        impl IntoReply for $ty {
            fn into_reply(self) -> Result<Payload, Error> {
                self.into_payload()
            }
        }
    )+};
}

plain! {
    Payload: Ok, |payload| payload;
    (): |_| Ok(()), |()| Payload::empty();
    Bytes: |payload| Ok(payload.bytes), Payload::bytes;
    Vec<u8>: |payload| Ok(payload.bytes.to_vec()), Payload::bytes;
    String: |payload| {
        payload.expect_type(TEXT)?;
        String::from_utf8(payload.bytes.to_vec())
            .map_err(|error| Error::new(ErrorKind::ProtocolError, "the text is not UTF-8").with_source(error))
    }, |text| Payload::of(TEXT, Bytes::from(text));
}

impl IntoPayload for &'static str {
    fn into_payload(self) -> Result<Payload, Error> {
        Ok(Payload::of(TEXT, Bytes::from_static(self.as_bytes())))
    }
}

/// A value in JSON, for handlers, callers and replies.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wrapper to be taken apart in a pattern"
)]
pub struct Json<T>(pub T);

#[cfg(feature = "json")]
impl<T: serde::de::DeserializeOwned> FromPayload for Json<T> {
    fn from_payload(payload: Payload) -> Result<Self, Error> {
        payload.expect_type(JSON)?;
        serde_json::from_slice(&payload.bytes)
            .map(Self)
            .map_err(|error| {
                Error::new(
                    ErrorKind::ProtocolError,
                    format!("the JSON is another: {error}"),
                )
                .with_source(error)
            })
    }
}

#[cfg(feature = "json")]
impl<T: serde::Serialize> IntoPayload for Json<T> {
    fn into_payload(self) -> Result<Payload, Error> {
        let bytes = serde_json::to_vec(&self.0).map_err(|error| {
            Error::internal(format!("the value has no JSON form: {error}")).with_source(error)
        })?;
        Ok(Payload::of(JSON, Bytes::from(bytes)))
    }
}

#[cfg(feature = "json")]
impl<T: serde::Serialize> IntoReply for Json<T> {
    fn into_reply(self) -> Result<Payload, Error> {
        self.into_payload()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EX-325
    #[test]
    fn a_payload_is_read_by_its_exact_media_type() {
        let text = "hi".into_payload().unwrap();
        assert_eq!(String::from_payload(text.clone()).unwrap(), "hi");
        let octets = Payload::bytes("hi");
        let error = String::from_payload(octets).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProtocolError);
        assert_eq!(Bytes::from_payload(text).unwrap(), "hi");
    }

    /// EX-321
    #[test]
    fn the_envelope_holds_the_very_bytes() {
        let bytes = Bytes::from(vec![7; 1000]);
        let at = bytes.as_ptr();
        let payload = Payload::bytes(bytes)
            .into_wire("name".parse().unwrap())
            .unwrap();
        let (name, back) = Payload::from_wire(payload);
        assert_eq!(name.as_str(), "name");
        assert_eq!(back.as_bytes().as_ptr(), at);
    }

    /// EX-321: a message that found no room has its payload again, the very one, and goes the long way with it.
    #[test]
    fn a_payload_that_was_not_sent_is_put_back() {
        let mut payload = Payload::bytes(vec![7; 1000]);
        let at = payload.as_bytes().as_ptr();
        let taken = payload.take().into_wire("name".parse().unwrap()).unwrap();
        assert!(payload.is_empty());
        payload.put_back(taken);
        assert_eq!(payload.as_bytes().as_ptr(), at);
        assert_eq!(payload.len(), 1000);
        assert_eq!(payload.content_type(), OCTETS);
    }
}
