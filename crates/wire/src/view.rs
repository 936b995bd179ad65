//! Values that can be looked at where they lie, before anything is copied.
//!
//! On the way in, most of a message is only compared: the address, the fences. A view has checked
//! everything and copied nothing; a command is made of it when the message is kept.

use bytes::Bytes;
use spotlane_types::id::{ContentType, PacketName};
use spotlane_types::text::Borrowed;

use crate::blob::PayloadBytes;
use crate::frame_slice::FrameSlice;
use crate::layout::{field_view, read_version};
use crate::payload::{ApplicationPayload, MetadataFrame};
use crate::reader::{Read, Reader};

/// A type whose values can be viewed in the input.
pub trait Viewed: Sized {
    /// A checked value that borrows from the input.
    type View<'a>;

    /// Reads and checks one value at the cursor.
    ///
    /// # Errors
    /// The bytes are not a legal value.
    fn view<'a>(r: &mut Reader<'a>) -> Read<Self::View<'a>>;
    /// Copies what was viewed.
    fn from_view(view: &Self::View<'_>) -> Self;
}

/// A payload with its envelope, where it lies.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a closed envelope of the contract"
)]
pub struct PayloadView<'a> {
    /// The type of the message.
    pub packet_name: Borrowed<'a, PacketName>,
    /// The media type of the payload.
    pub content_type: Borrowed<'a, ContentType>,
    /// The payload itself.
    pub payload: PayloadSlice<'a>,
}

/// A payload inside its frame.
#[derive(Clone, Copy, Debug)]
pub struct PayloadSlice<'a> {
    frame: FrameSlice<'a>,
    payload: &'a [u8],
}

impl<'a> PayloadSlice<'a> {
    /// The bytes of the payload.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.payload
    }

    /// The payload as a slice of its frame: not a copy (WR-7).
    pub fn to_bytes(&self) -> Bytes {
        self.frame.share(self.payload)
    }
}

impl Viewed for PayloadBytes {
    type View<'a> = PayloadSlice<'a>;

    #[inline]
    fn view<'a>(r: &mut Reader<'a>) -> Read<PayloadSlice<'a>> {
        let at = r.offset();
        let len = Self::read_len(r, at)?;
        let (frame, payload) = r.part_of_frame(at, len)?;
        Ok(PayloadSlice { frame, payload })
    }

    #[inline(always)]
    fn from_view(view: &PayloadSlice<'_>) -> Self {
        Self::from_checked(view.to_bytes())
    }
}

impl Viewed for ApplicationPayload {
    type View<'a> = PayloadView<'a>;

    #[inline]
    fn view<'a>(r: &mut Reader<'a>) -> Read<PayloadView<'a>> {
        read_version(r)?;
        let part = r.part_u32(u32::MAX)?;
        let view = PayloadView {
            packet_name: field_view!(r, PacketName, "packetName"),
            content_type: field_view!(r, ContentType, "contentType"),
            payload: field_view!(r, PayloadBytes, "payload"),
        };
        r.end_part(&part)?;
        Ok(view)
    }

    #[inline(always)]
    fn from_view(view: &PayloadView<'_>) -> Self {
        view.with_bytes(view.payload.to_bytes())
    }
}

impl PayloadView<'_> {
    #[inline(always)]
    pub(crate) fn with_bytes(&self, payload: Bytes) -> ApplicationPayload {
        ApplicationPayload {
            packet_name: PacketName::from_borrowed(self.packet_name),
            content_type: ContentType::from_borrowed(self.content_type),
            payload: PayloadBytes::from_checked(payload),
        }
    }
}

/// A metadata frame, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct MetadataView<'a>(FrameSlice<'a>);

impl<'a> MetadataView<'a> {
    /// Checks a whole frame.
    pub(crate) fn of_frame(frame: FrameSlice<'a>) -> Read<Self> {
        let mut r = Reader::new(frame);
        MetadataFrame::check(&mut r)?;
        r.finish()?;
        Ok(Self(frame))
    }

    /// The encoded frame.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// The frame as a value of its own, which shares the bytes.
    pub fn to_frame(&self) -> MetadataFrame {
        MetadataFrame::from_checked(self.0.share(self.0.as_bytes()))
    }
}
