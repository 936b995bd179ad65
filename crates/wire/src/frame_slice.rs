//! A received frame that lies in a larger buffer.

use core::ops::Range;

use bytes::Bytes;

/// The bytes of a frame, with the buffer that its payload will share (WR-7).
///
/// A receiver that gets many records in one buffer need not hold each frame as a buffer of its own: only
/// the payload that is kept counts as a user of the shared one.
///
/// ```
/// use bytes::Bytes;
/// use spotlane_types::kind::MeshOperationKind;
/// use spotlane_wire::{FrameSlice, Record};
///
/// let received = Bytes::from_static(b"..ZM\x01\x05\x00\0\0\0\0\0\0\0\x07..");
/// let frame = FrameSlice::in_buffer(&received, 2..15).expect("it lies inside");
/// let record = Record::decode_slices(&[frame], MeshOperationKind::None)?;
/// assert!(matches!(record, Record::LivenessProbe(probe) if probe.probe_id.get() == 7));
/// # Ok::<(), spotlane_wire::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameSlice<'a> {
    buffer: &'a Bytes,
    bytes: &'a [u8],
}

impl<'a> FrameSlice<'a> {
    /// A part of a buffer; `None` when it does not lie inside.
    #[inline]
    pub fn in_buffer(buffer: &'a Bytes, range: Range<usize>) -> Option<Self> {
        let bytes = buffer.get(range)?;
        Some(Self { buffer, bytes })
    }

    /// The bytes of the frame.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// A part of the frame that shares its buffer.
    #[inline]
    pub(crate) fn share(self, part: &'a [u8]) -> Bytes {
        self.buffer.slice_ref(part)
    }
}

impl<'a> From<&'a Bytes> for FrameSlice<'a> {
    #[inline]
    fn from(frame: &'a Bytes) -> Self {
        Self {
            buffer: frame,
            bytes: frame,
        }
    }
}

/// Calls with the slices of whole frames, as many as a record may have without memory of their own.
#[inline]
pub(crate) fn with_slices<'a, T>(
    frames: &'a [Bytes],
    call: impl FnOnce(&[FrameSlice<'a>]) -> T,
) -> T {
    let place: [FrameSlice<'a>; 3];
    let list: Vec<FrameSlice<'a>>;
    call(match frames {
        [] => &[],
        [first, rest @ ..] if rest.len() < 3 => {
            let second = rest.first().unwrap_or(first);
            let third = rest.get(1).unwrap_or(first);
            place = [first.into(), second.into(), third.into()];
            place.get(..frames.len()).unwrap_or_default()
        }
        many => {
            list = many.iter().map(Into::into).collect();
            &list
        }
    })
}
