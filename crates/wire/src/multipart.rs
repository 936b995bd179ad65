//! Several opaque parts in one payload: the framework multipart profile (WR-10).

use bytes::Bytes;

use crate::blob::PayloadBytes;
use crate::error::{DecodeError, EncodeError, Reason};
use crate::payload::ApplicationPayload;
use crate::reader::{Read, Reader};
use crate::width::narrow;
use crate::writer::{Writer, too_long};

/// The packet name of a multipart payload.
pub const PACKET_NAME: &str = "ZLinkFrameworkMultipart";
/// The content type of a multipart payload.
pub const CONTENT_TYPE: &str = "application/x-zlink-multipart";

const RECORD: &str = "framework-multipart";

/// Whether a payload says that it is multipart: by packet name and content type both.
pub fn is_multipart(payload: &ApplicationPayload) -> bool {
    payload.packet_name.as_bytes() == PACKET_NAME.as_bytes()
        && payload.content_type.as_bytes() == CONTENT_TYPE.as_bytes()
}

/// Joins parts into one payload.
///
/// # Errors
/// There is no part, or together they are larger than a payload may be.
///
/// ```
/// use bytes::Bytes;
/// use spotlane_wire::multipart;
///
/// let payload = multipart::join(&[Bytes::from_static(b"a"), Bytes::from_static(b"bc")])?;
/// assert_eq!(multipart::split(&payload)?, ["a", "bc"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn join(parts: &[Bytes]) -> Result<ApplicationPayload, EncodeError> {
    let refuse = |e: EncodeError, field| e.within(field).of_record(RECORD);
    if parts.is_empty() {
        return Err(refuse(EncodeError::new(Reason::Text("no part")), "parts"));
    }
    let length = |len: usize| {
        u32::try_from(len).map_err(|_| refuse(too_long(len, u64::from(u32::MAX)), "parts"))
    };
    let mut buf = Vec::new();
    let mut w = Writer::joined(&mut buf, 0);
    w.u32(length(parts.len())?);
    for part in parts {
        w.u32(length(part.len())?);
        w.put(part);
    }
    let end = w.at();
    buf.truncate(end);
    let too_large = |_| refuse(too_long(end, PayloadBytes::BYTES_MAX), "payload");
    let payload = PayloadBytes::new(Bytes::from(buf)).map_err(too_large)?;
    let constant = |e| EncodeError::new(Reason::Value(e)).of_record(RECORD);
    Ok(ApplicationPayload {
        packet_name: PACKET_NAME.parse().map_err(constant)?,
        content_type: CONTENT_TYPE.parse().map_err(constant)?,
        payload,
    })
}

/// Takes a multipart payload apart; the parts are slices of it.
///
/// # Errors
/// It is not multipart, has no part, or its lengths do not add up.
pub fn split(payload: &ApplicationPayload) -> Result<Vec<Bytes>, DecodeError> {
    let name = |field, text| Reader::invalid(0, Reason::Text(text)).within(field);
    let parts = if payload.packet_name.as_bytes() != PACKET_NAME.as_bytes() {
        Err(name(
            "packetName",
            "not the packet name of a multipart payload",
        ))
    } else if payload.content_type.as_bytes() != CONTENT_TYPE.as_bytes() {
        Err(name(
            "contentType",
            "not the content type of a multipart payload",
        ))
    } else {
        read_parts(payload.payload.as_bytes())
    };
    parts.map_err(|e| e.of_record(RECORD, 0))
}

fn read_parts(payload: &Bytes) -> Read<Vec<Bytes>> {
    let mut r = Reader::new(payload);
    let count = r.u32().map_err(|e| e.within("count"))?;
    if count == 0 {
        return Err(Reader::invalid(0, Reason::Text("no part")).within("count"));
    }
    let count = narrow(u64::from(count));
    // WR-10: every part has a length of four bytes, so the count is known to be possible before
    // anything is allocated for it.
    r.count(0, count, 4).map_err(|e| e.within("count"))?;
    let mut parts = Vec::with_capacity(count);
    for index in 0..count {
        let mut part = || {
            let at = r.offset();
            let len = r.u32()?;
            let len = r.length(at, u64::from(len))?;
            r.slice(at, len)
        };
        parts.push(part().map_err(|e| e.at_element(index).within("parts"))?);
    }
    r.finish()?;
    Ok(parts)
}
