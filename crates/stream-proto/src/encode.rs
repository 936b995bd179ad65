//! From frames to bytes: one pass, one form for one value (ST-112), which is the recorded one (ST-111).

use bytes::{BufMut, Bytes, BytesMut};

use crate::bound::HEADER_BYTES_MAX;
use crate::error::EncodeError;
use crate::frame::{Codec, Extras, Frame, Packing, Payload, Sequence};
use crate::metadata::Metadata;
use crate::name::CorrelationId;

pub(crate) const MARKER: u8 = 0xf2;
pub(crate) const KIND_SEND: u8 = 1;
pub(crate) const KIND_REQUEST: u8 = 2;
pub(crate) const KIND_RESPONSE: u8 = 3;
pub(crate) const KIND_ERROR: u8 = 4;
pub(crate) const KIND_CONTROL: u8 = 5;
pub(crate) const FLAG_SEQUENCE: u8 = 0x01;
pub(crate) const FLAG_METADATA: u8 = 0x02;
pub(crate) const FLAG_COMPRESSED: u8 = 0x04;
pub(crate) const FLAG_CORRELATION: u8 = 0x08;
pub(crate) const FLAG_FLOW: u8 = 0x10;

struct Parts<'a> {
    kind: u8,
    sequence: Option<Sequence>,
    name: &'a str,
    payload: Payload,
    extras: &'a Extras,
}

/// Appends a frame to `out`.
///
/// `payload_max` is the sender's own bound (ST-126); a server has none.
///
/// # Errors
/// Nothing was appended: the payload is above the bound, the header does not fit, or an error does not
/// carry JSON.
pub fn encode(
    frame: &Frame,
    payload_max: Option<u32>,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    const NONE: &Extras = &Extras {
        metadata: None,
        correlation: None,
        flow: None,
    };
    let parts = match frame {
        Frame::Send {
            name,
            payload,
            extras,
        } => (KIND_SEND, None, name.as_str(), payload, extras),
        Frame::Request {
            sequence,
            name,
            payload,
            extras,
        } => (
            KIND_REQUEST,
            Some(*sequence),
            name.as_str(),
            payload,
            extras,
        ),
        Frame::Response {
            sequence,
            payload,
            extras,
        } => (KIND_RESPONSE, Some(*sequence), "", payload, extras),
        Frame::Error {
            sequence,
            payload,
            extras,
        } => {
            if payload.codec != Codec::Json {
                return Err(EncodeError::ErrorCodec);
            }
            (KIND_ERROR, *sequence, "", payload, extras)
        }
        Frame::Control(control) => {
            let payload = Payload::plain(Codec::Raw, control.payload());
            let parts = Parts {
                kind: KIND_CONTROL,
                sequence: None,
                name: control.name(),
                payload,
                extras: NONE,
            };
            return write(&parts, None, out);
        }
    };
    let (kind, sequence, name, payload, extras) = parts;
    let parts = Parts {
        kind,
        sequence,
        name,
        payload: payload.clone(),
        extras,
    };
    write(&parts, payload_max, out)
}

/// A frame as bytes of its own.
///
/// # Errors
/// As [`encode`].
pub fn to_bytes(frame: &Frame) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    encode(frame, None, &mut out)?;
    Ok(out.freeze())
}

fn write(
    parts: &Parts<'_>,
    payload_max: Option<u32>,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let Parts {
        kind,
        sequence,
        name,
        payload,
        extras,
    } = parts;
    let bytes = payload.bytes.len();
    let length = u32::try_from(bytes).ok();
    let Some(length) = length.filter(|length| payload_max.is_none_or(|max| *length <= max)) else {
        let bound = payload_max.unwrap_or(u32::MAX);
        return Err(EncodeError::PayloadTooLarge { bytes, bound });
    };
    let metadata = extras.metadata.as_ref().map(Metadata::as_bytes);
    let correlation = extras.correlation.as_ref().map(CorrelationId::as_str);
    let header = [
        5,
        name.len(),
        if sequence.is_some() { 8 } else { 0 },
        metadata.map_or(0, |block| block.len().saturating_add(2)),
        correlation.map_or(0, |id| id.len().saturating_add(1)),
        if extras.flow.is_some() { 37 } else { 0 },
    ];
    let header = header.into_iter().fold(0, usize::saturating_add);
    let Ok(header_length) = u16::try_from(header) else {
        return Err(EncodeError::HeaderTooLong {
            bytes: header,
            bound: HEADER_BYTES_MAX,
        });
    };
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = flag(sequence.is_some(), FLAG_SEQUENCE)
        | flag(metadata.is_some(), FLAG_METADATA)
        | flag(payload.packing == Packing::Compressed, FLAG_COMPRESSED)
        | flag(correlation.is_some(), FLAG_CORRELATION)
        | flag(extras.flow.is_some(), FLAG_FLOW);
    out.reserve(header.saturating_add(bytes).saturating_add(6));
    out.put_u16(header_length);
    out.put_u32(length);
    out.put_slice(&[MARKER, *kind, payload.codec.to_wire(), flags]);
    if let Some(sequence) = sequence {
        out.put_u64(sequence.get());
    }
    // The constructors bound name and correlation id by what a length byte can say.
    put_short(out, name.as_bytes());
    if let Some(block) = metadata {
        out.put_u16(u16::try_from(block.len()).unwrap_or(u16::MAX));
        out.put_slice(block);
    }
    if let Some(id) = correlation {
        put_short(out, id.as_bytes());
    }
    if let Some(flow) = &extras.flow {
        out.put_slice(flow.id_bytes());
        out.put_u8(flow.origin_byte());
    }
    out.put_slice(&payload.bytes);
    Ok(())
}

fn put_short(out: &mut BytesMut, text: &[u8]) {
    out.put_u8(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.put_slice(text);
}
