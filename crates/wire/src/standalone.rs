//! Values outside a record: every type of the contract that can stand alone.

use bytes::Bytes;

use crate::error::{DecodeError, EncodeError};
use crate::layout::Layout;
use crate::reader::Reader;
use crate::writer::Writer;

/// A type of the contract that can stand alone.
///
/// Sealed: the layouts are those of the contract.
pub trait Standalone: Layout {
    /// The name of the type in the contract.
    const CONTRACT_NAME: &'static str;
}

/// Decodes a value that fills `bytes` exactly.
///
/// Payloads inside the value are slices of `bytes`.
///
/// # Errors
/// The bytes are not a legal value, or some are left over: a violation by whoever sent them.
///
/// ```
/// use spotlane_wire::reference::ActorRef;
///
/// let bytes = bytes::Bytes::from_static(b"\x01a\0\0\0\0\0\0\0\x07");
/// let actor: ActorRef = spotlane_wire::decode(&bytes)?;
/// assert_eq!(actor.actor_id.as_str(), "a");
/// assert_eq!(spotlane_wire::encode(&actor)?, bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decode<T: Standalone>(bytes: &Bytes) -> Result<T, DecodeError> {
    let mut r = Reader::new(bytes);
    T::read(&mut r)
        .and_then(|value| r.finish().map(|()| value))
        .map_err(|e| e.of_record(T::CONTRACT_NAME, 0))
}

/// Encodes a value into one buffer, payloads included.
///
/// # Errors
/// The value breaks a rule over several fields or a bound of its encoding.
pub fn encode<T: Standalone>(value: &T) -> Result<Bytes, EncodeError> {
    let mut buf = Vec::new();
    let mut w = Writer::joined(&mut buf, 0);
    value
        .write(&mut w)
        .map_err(|e| e.of_record(T::CONTRACT_NAME))?;
    let end = w.at();
    buf.truncate(end);
    Ok(Bytes::from(buf))
}
