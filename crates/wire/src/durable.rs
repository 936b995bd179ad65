//! The four stored formats: a header, the body, CRC-32C over everything before it (WR-61).

use bytes::Bytes;

use crate::authority::{AuthorityPayload, InstanceActivationRecovery};
use crate::checksum::crc32c;
use crate::error::{DecodeError, EncodeError, ErrorKind, Reason};
use crate::reader::{Read, Reader};
use crate::relocation::{RelocationDataChunk, RelocationManifest};
use crate::standalone::Standalone;
use crate::writer::{Writer, too_long};

/// Magic, version, flags and body length.
const HEADER_BYTES: usize = 11;
const CHECKSUM_BYTES: usize = 4;
const VERSION: u8 = 1;

/// A body that is stored behind a header with a magic of its own.
///
/// Sealed: the stored formats are those of the contract.
pub trait Durable: Standalone {
    /// The first four bytes of the stored form.
    const MAGIC: [u8; 4];
}

impl Durable for AuthorityPayload {
    const MAGIC: [u8; 4] = *b"ZLAU";
}

impl Durable for InstanceActivationRecovery {
    const MAGIC: [u8; 4] = *b"ZLIA";
}

impl Durable for RelocationDataChunk {
    const MAGIC: [u8; 4] = *b"ZLTC";
}

impl Durable for RelocationManifest {
    const MAGIC: [u8; 4] = *b"ZLTM";
}

/// Decodes a stored value. Blobs inside it are slices of `bytes`.
///
/// # Errors
/// Any deviation from the format: what was stored is not what was written, or is of another version.
///
/// ```
/// use spotlane_wire::durable;
/// use spotlane_wire::relocation::RelocationDataChunk;
/// use spotlane_wire::blob::DurableBlob;
///
/// let chunk = RelocationDataChunk { order: 0, data: DurableBlob::new("state".into())? };
/// let stored = durable::encode(&chunk)?;
/// assert_eq!(durable::decode::<RelocationDataChunk>(&stored)?, chunk);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decode<T: Durable>(bytes: &Bytes) -> Result<T, DecodeError> {
    read(bytes).map_err(|e| e.of_record(T::CONTRACT_NAME, 0))
}

fn read<T: Durable>(bytes: &Bytes) -> Read<T> {
    let mut r = Reader::new(bytes);
    read_constant(&mut r, &T::MAGIC, "magic")?;
    read_constant(&mut r, &[VERSION], "version")?;
    read_constant(&mut r, &[0, 0], "flags")?;
    let at = r.offset();
    let length = |r: &mut Reader<'_>| {
        let declared = r.u32()?;
        let len = r.length(at, u64::from(declared))?;
        r.count(at, len.saturating_add(CHECKSUM_BYTES), 1)?;
        Ok(len)
    };
    let len = length(&mut r).map_err(|e: DecodeError| e.within("bodyLength"))?;
    let body = r.slice(at, len)?;
    let covered = r.since(0);
    let at = r.offset();
    let stored = r.u32().map_err(|e| e.within("crc32c"))?;
    r.finish()?;
    let computed = crc32c(&covered);
    if stored != computed {
        let reason = Reason::Expected {
            expected: u64::from(computed),
            actual: u64::from(stored),
        };
        return Err(Reader::invalid(at, reason).within("crc32c"));
    }
    let mut r = Reader::new(&body);
    T::read(&mut r)
        .and_then(|value| r.finish().map(|()| value))
        .map_err(|e| e.moved_by(HEADER_BYTES).within("body"))
}

/// Reads bytes that have one legal value. A wrong byte counts before a missing one.
fn read_constant(r: &mut Reader<'_>, expected: &[u8], field: &'static str) -> Read<()> {
    let at = r.offset();
    for expected in expected {
        let Ok(actual) = r.u8() else {
            let reason = Reason::Missing(1);
            return Err(DecodeError::new(ErrorKind::TruncatedField, at, reason).within(field));
        };
        if actual != *expected {
            let reason = Reason::Expected {
                expected: u64::from(*expected),
                actual: u64::from(actual),
            };
            return Err(DecodeError::new(ErrorKind::InvalidField, at, reason).within(field));
        }
    }
    Ok(())
}

/// Encodes a value in its stored form.
///
/// # Errors
/// The value breaks a rule over several fields or a bound of its encoding.
pub fn encode<T: Durable>(value: &T) -> Result<Bytes, EncodeError> {
    let mut buf = Vec::new();
    let mut w = Writer::joined(&mut buf, 0);
    w.put(&T::MAGIC);
    w.u8(VERSION);
    w.u16(0);
    let part = w.open_u32();
    value
        .write(&mut w)
        .and_then(|()| w.close_u32(part, u32::MAX))
        .map_err(|e| e.of_record(T::CONTRACT_NAME))?;
    let end = w.at();
    let covered = buf
        .get(..end)
        .ok_or_else(|| too_long(end, u64::from(u32::MAX)))?;
    let checksum = crc32c(covered);
    let mut w = Writer::joined(&mut buf, end);
    w.u32(checksum);
    let end = w.at();
    buf.truncate(end);
    Ok(Bytes::from(buf))
}
