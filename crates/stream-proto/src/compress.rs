//! The compressed form of a payload (section 5 of the stream contract, ST-122).

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::DecompressError;

/// The version of the form, in the three low bits of its first byte.
const VERSION_MASK: u8 = 0x07;
/// The size of the difference field, in the two high bits.
const SIZE_SHIFT: u8 = 6;
/// An LZ4 block makes at most so many bytes of one.
const RATIO_MAX: u64 = 255;

/// Brings a payload into the compressed form; the stored form when LZ4 does not make it smaller
/// (ST-124).
///
/// ```
/// use spotlane_stream_proto::{compress, decompress};
///
/// let packed = compress(&"a".repeat(62).into());
/// assert!(packed.len() < 20);
/// assert_eq!(decompress(&packed, 62)?, "a".repeat(62));
/// # Ok::<(), spotlane_stream_proto::DecompressError>(())
/// ```
#[must_use]
pub fn compress(payload: &Bytes) -> Bytes {
    if payload.is_empty() {
        return Bytes::new();
    }
    let block = lz4_flex::block::compress(payload);
    let difference = payload
        .len()
        .checked_sub(block.len())
        .and_then(|difference| u32::try_from(difference).ok())
        .filter(|difference| *difference > 0);
    let mut out = BytesMut::with_capacity(block.len().min(payload.len()).saturating_add(5));
    match difference {
        None => {
            out.put_u8(0);
            out.put_slice(payload);
        }
        Some(difference) => {
            match (u8::try_from(difference), u16::try_from(difference)) {
                (Ok(small), _) => {
                    out.put_u8(1 << SIZE_SHIFT);
                    out.put_u8(small);
                }
                (Err(_), Ok(medium)) => {
                    out.put_u8(2 << SIZE_SHIFT);
                    out.put_u16_le(medium);
                }
                (Err(_), Err(_)) => {
                    out.put_u8(3 << SIZE_SHIFT);
                    out.put_u32_le(difference);
                }
            }
            out.put_slice(&block);
        }
    }
    out.freeze()
}

/// Brings a payload back into its plain form of at most `bound` bytes, which the form's own header is
/// judged by before anything is decoded (ST-123).
///
/// # Errors
/// The form is damaged or announces more than the bound.
pub fn decompress(form: &Bytes, bound: u64) -> Result<Bytes, DecompressError> {
    let Some(first) = form.first() else {
        return Ok(Bytes::new());
    };
    if first & !(3 << SIZE_SHIFT) & !VERSION_MASK != 0 || first & VERSION_MASK != 0 {
        return Err(DecompressError::Version);
    }
    let size: usize = match first >> SIZE_SHIFT {
        0 => 0,
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let head = size.saturating_add(1);
    let field = form.get(1..head).ok_or(DecompressError::Damaged)?;
    let byte = |(at, byte): (u32, &u8)| u64::from(*byte) << at.saturating_mul(8);
    let difference: u64 = (0_u32..)
        .zip(field)
        .map(byte)
        .fold(0, |sum, part| sum | part);
    let data = form.slice(head..);
    let len = u64::try_from(data.len()).unwrap_or(u64::MAX);
    let bytes = len.saturating_add(difference);
    if bytes > bound {
        return Err(DecompressError::TooLarge { bytes, bound });
    }
    if difference == 0 {
        return Ok(data);
    }
    if bytes > len.saturating_mul(RATIO_MAX) {
        // No block of this length holds that much, so nothing is allocated for it.
        return Err(DecompressError::Damaged);
    }
    let mut plain = vec![0; usize::try_from(bytes).map_err(|_| DecompressError::Damaged)?];
    let written = lz4_flex::block::decompress_into(&data, &mut plain);
    match written {
        Ok(written) if written == plain.len() => Ok(Bytes::from(plain)),
        Ok(_) | Err(_) => Err(DecompressError::Damaged),
    }
}
