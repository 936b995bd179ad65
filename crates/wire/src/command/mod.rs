//! The forty commands, a file per family.
//!
//! Every command is a struct with its body fields in wire order, followed by `metadata` and `payload`
//! where its record has those frames. What a command may not carry, its struct cannot hold.

pub mod admission;
pub mod creation;
pub mod follow;
pub mod liveness;
pub mod membership;
pub mod message;
pub mod relocation;
pub mod reply;
pub mod session;

use crate::frame_slice::FrameSlice;
#[cfg(feature = "serde")]
use crate::json::{JsonError, Members, ObjectReader};
use crate::layout::Layout;
use crate::payload::{ApplicationPayload, MetadataFrame};
use crate::reader::{Read, Reader};
use crate::view::{MetadataView, PayloadView, Viewed as _};
use crate::writer::{Writer, Written};

/// Flag of a record with a metadata frame.
pub(crate) const METADATA: u8 = 0x01;
/// Flag of a message from a client session.
pub(crate) const BOUND_SESSION: u8 = 0x02;
/// Flag that goes together with [`BOUND_SESSION`] (WR-2).
pub(crate) const SOURCE_SPOT_ID: u8 = 0x04;

/// Whether a record of a command has a payload frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by WR-1")]
pub enum PayloadRule {
    /// Always.
    Required,
    /// Perhaps.
    Optional,
    /// Never.
    Forbidden,
}

/// The frames of a record whose header has been judged.
#[derive(Debug)]
pub struct Frames<'a> {
    pub(crate) body: FrameSlice<'a>,
    pub(crate) metadata: Option<FrameSlice<'a>>,
    pub(crate) payload: Option<FrameSlice<'a>>,
}

impl<'a> Frames<'a> {
    /// The metadata frame.
    fn metadata(&self) -> Read<Option<MetadataFrame>> {
        self.metadata
            .map(|frame| whole(frame).map_err(|e| e.within("metadata").of_record("", 1)))
            .transpose()
    }

    /// The payload frame, which comes last.
    fn optional_payload(&self) -> Read<Option<ApplicationPayload>> {
        let frame = 1_usize.saturating_add(usize::from(self.metadata.is_some()));
        self.payload
            .map(|bytes| whole(bytes).map_err(|e| e.within("payload").of_record("", frame)))
            .transpose()
    }

    #[inline]
    fn metadata_view(&self) -> Read<Option<MetadataView<'a>>> {
        let Some(frame) = self.metadata else {
            return Ok(None);
        };
        match MetadataView::of_frame(frame) {
            Ok(view) => Ok(Some(view)),
            Err(error) => Err(error.within("metadata").of_record("", 1)),
        }
    }

    #[inline]
    fn payload_view(&self) -> Read<PayloadView<'a>> {
        // The number of frames was compared with the payload rule of the command before.
        let Some(frame) = self.payload else {
            return Err(crate::record::frame_count(2, 1));
        };
        let mut r = Reader::new(frame);
        let view = ApplicationPayload::view(&mut r).and_then(|view| r.finish().map(|()| view));
        match view {
            Ok(view) => Ok(view),
            Err(error) => {
                let frame = 1_usize.saturating_add(usize::from(self.metadata.is_some()));
                Err(error.within("payload").of_record("", frame))
            }
        }
    }

    fn payload(&self) -> Read<ApplicationPayload> {
        // The number of frames was compared with the payload rule of the command before.
        self.optional_payload()?
            .ok_or_else(|| crate::record::frame_count(2, 1))
    }
}

#[inline]
fn whole<T: Layout>(frame: FrameSlice<'_>) -> Read<T> {
    let mut r = Reader::new(frame);
    let value = T::read(&mut r)?;
    r.finish()?;
    Ok(value)
}

/// What all commands have in common.
///
/// Sealed: the commands are those of the contract.
pub trait Command: Sized + Into<crate::record::Record> {
    /// The command byte.
    const ID: u8;
    /// The name in the contract.
    const NAME: &'static str;
    /// The flags that may be set.
    const FLAGS: u8;
    /// Whether there is a payload frame.
    const PAYLOAD: PayloadRule;

    /// The flags of this record.
    fn flags(&self) -> u8;
    /// The metadata frame, if there is one.
    fn metadata_frame(&self) -> Option<&MetadataFrame>;
    /// The payload frame, if there is one.
    fn payload_frame(&self) -> Option<&ApplicationPayload>;

    #[doc(hidden)]
    fn read<'a>(r: &mut Reader<'a>, frames: &Frames<'a>) -> Read<Self>;
    #[doc(hidden)]
    fn read_record<'a>(r: &mut Reader<'a>, frames: &Frames<'a>) -> Read<crate::record::Record> {
        Self::read(r, frames).map(Into::into)
    }
    #[doc(hidden)]
    fn write_body(&self, w: &mut Writer<'_>) -> Written;
    #[cfg(feature = "serde")]
    #[doc(hidden)]
    fn body_to_members(&self, members: &mut Members);
    #[cfg(feature = "serde")]
    #[doc(hidden)]
    fn from_members(
        body: &mut ObjectReader,
        metadata: Option<MetadataFrame>,
        payload: Option<ApplicationPayload>,
    ) -> Result<Self, JsonError>;
}

/// A command that can be looked at in its frames before anything is copied.
///
/// Sealed: the application messages, whose way in is short.
pub trait ViewCommand: Command {
    /// A checked record that borrows from its frames.
    type View<'a>;

    #[doc(hidden)]
    fn view<'a>(r: &mut Reader<'a>, frames: &Frames<'a>) -> Read<Self::View<'a>>;
    /// Copies what was viewed; the payload stays a slice of its frame.
    fn from_view(view: &Self::View<'_>) -> Self;
}

/// Declares commands: id, contract name, frames beside the body, fields in wire order.
///
/// `frames [metadata payload]` and so on name the frames beside the body; `payload?` is optional.
macro_rules! wire_command {
    ($(
        $(#[$meta:meta])*
        $id:literal $contract:literal command $name:ident
        frames [$($frame:tt)*] $(view $view:ident)?
        $(flags $flags:literal from $flag_field:ident)? $(rule $rule:path)?
        {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty = $wire:tt,)*
        }
    )+) => {$(
        $crate::command::command_struct! {
            [$($frame)*]
            $(#[$meta])*
            #[doc = concat!("\n\nCommand ", stringify!($id), ", contract name `", $contract, "`.")]
            $name { $($(#[$field_meta])* $field: $ty,)* }
        }

        impl $crate::command::Command for $name {
            const ID: u8 = $id;
            const NAME: &'static str = $contract;
            const FLAGS: u8 = $crate::command::frame_flags!([$($frame)*]) $(| $flags)?;
            const PAYLOAD: $crate::command::PayloadRule =
                $crate::command::payload_rule!([$($frame)*]);

            #[inline]
            fn flags(&self) -> u8 {
                let flags = match self.metadata_frame() {
                    Some(_) => $crate::command::METADATA,
                    None => 0,
                };
                $(let flags = match self.$flag_field {
                    Some(_) => flags | $flags,
                    None => flags,
                };)?
                flags
            }

            #[inline]
            fn metadata_frame(&self) -> Option<&$crate::payload::MetadataFrame> {
                $crate::command::metadata_of!(self, [$($frame)*])
            }

            #[inline]
            fn payload_frame(&self) -> Option<&$crate::payload::ApplicationPayload> {
                $crate::command::payload_of!(self, [$($frame)*])
            }

            $crate::command::command_read! {
                $name [$($view)?] [$($frame)*] [$($rule)?] { $($field: $ty = $wire,)* }
            }

            #[inline]
            fn write_body(
                &self,
                w: &mut $crate::writer::Writer<'_>,
            ) -> $crate::writer::Written {
                $crate::layout::rule_or_none!($($rule)?)(self)
                    .map_err($crate::error::Breach::into_encode)?;
                $($crate::layout::field_write!(w, &self.$field, $wire);)*
                let _ = w;
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn body_to_members(&self, members: &mut $crate::json::Members) {
                $($crate::layout::field_to_json!(members, &self.$field, $wire);)*
                let _ = members;
            }

            #[cfg(feature = "serde")]
            fn from_members(
                body: &mut $crate::json::ObjectReader,
                metadata: Option<$crate::payload::MetadataFrame>,
                payload: Option<$crate::payload::ApplicationPayload>,
            ) -> Result<Self, $crate::json::JsonError> {
                $(let $field = $crate::layout::field_from_json!(body, $ty, $wire);)*
                let _ = body;
                let record = $crate::command::command_from_json!(
                    metadata, payload, [$($frame)*], { $($field,)* }
                );
                $crate::layout::rule_or_none!($($rule)?)(&record)
                    .map_err($crate::json::JsonError::from)?;
                Ok(record)
            }
        }

        $crate::command::command_view! {
            [$($view)?] [$($frame)*] $contract $name {
                $($(#[$field_meta])* $field: $ty = $wire,)*
            }
        }
    )+};
}

/// How a command is read: field by field, or by way of its view.
macro_rules! command_read {
    ($name:ident [] [$($frame:tt)*] [$($rule:path)?] { $($field:ident: $ty:ty = $wire:tt,)* }) => {
        #[inline]
        fn read<'a>(
            r: &mut $crate::reader::Reader<'a>,
            frames: &$crate::command::Frames<'a>,
        ) -> $crate::reader::Read<Self> {
            $(let $field = $crate::layout::field_read!(r, $ty, $wire);)*
            r.finish()?;
            let record = $crate::command::command_value!(
                frames, [$($frame)*], { $($field,)* }
            );
            $crate::layout::rule_or_none!($($rule)?)(&record)
                .map_err(|breach: $crate::error::Breach| breach.into_decode($crate::record::HEADER_BYTES))?;
            Ok(record)
        }
    };
    ($name:ident [$view:ident] [$($frame:tt)*] [] { $($fields:tt)* }) => {
        #[inline(always)]
        fn read<'a>(
            r: &mut $crate::reader::Reader<'a>,
            frames: &$crate::command::Frames<'a>,
        ) -> $crate::reader::Read<Self> {
            match <Self as $crate::command::ViewCommand>::view(r, frames) {
                Ok(view) => Ok(<Self as $crate::command::ViewCommand>::from_view(&view)),
                Err(error) => Err(error),
            }
        }

        // Built where it ends up: a command that is moved into the record costs as much again.
        #[inline(always)]
        fn read_record<'a>(
            r: &mut $crate::reader::Reader<'a>,
            frames: &$crate::command::Frames<'a>,
        ) -> $crate::reader::Read<$crate::record::Record> {
            match <Self as $crate::command::ViewCommand>::view(r, frames) {
                Ok(view) => Ok($crate::record::Record::from(
                    <Self as $crate::command::ViewCommand>::from_view(&view),
                )),
                Err(error) => Err(error),
            }
        }
    };
}

/// The view of a command, for those that have one.
macro_rules! command_view {
    ([] $($rest:tt)*) => {};
    ([$view:ident] [metadata payload] $contract:literal $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $ty:ty = $wire:tt,)*
    }) => {
        #[doc = concat!("A checked `", $contract, "`, where it lies in its frames.")]
        #[derive(Clone, Copy, Debug)]
        #[expect(clippy::exhaustive_structs, reason = "mirrors a closed command of the contract")]
        pub struct $view<'a> {
            $($(#[$field_meta])* pub $field: <$ty as $crate::view::Viewed>::View<'a>,)*
            /// The metadata of the message.
            pub metadata: Option<$crate::view::MetadataView<'a>>,
            /// The message.
            pub payload: $crate::view::PayloadView<'a>,
        }

        impl $crate::command::ViewCommand for $name {
            type View<'a> = $view<'a>;

            #[inline]
            fn view<'a>(
                r: &mut $crate::reader::Reader<'a>,
                frames: &$crate::command::Frames<'a>,
            ) -> $crate::reader::Read<$view<'a>> {
                $(let $field = $crate::layout::field_view!(r, $ty, $wire);)*
                r.finish()?;
                let metadata = match frames.metadata_view() {
                    Ok(metadata) => metadata,
                    Err(error) => return Err(error),
                };
                let payload = match frames.payload_view() {
                    Ok(payload) => payload,
                    Err(error) => return Err(error),
                };
                Ok($view { $($field,)* metadata, payload })
            }

            #[inline(always)]
            fn from_view(view: &$view<'_>) -> Self {
                // First what could unwind: ids that are built before it would have to be kept apart
                // from their place in the struct, which costs as much as building them.
                let payload = view.payload.payload.to_bytes();
                let metadata = view.metadata.as_ref().map($crate::view::MetadataView::to_frame);
                Self {
                    $($field: <$ty as $crate::view::Viewed>::from_view(&view.$field),)*
                    metadata,
                    payload: view.payload.with_bytes(payload),
                }
            }
        }
    };
}

macro_rules! command_struct {
    ([] $(#[$meta:meta])* $name:ident { $($fields:tt)* }) => {
        $crate::command::command_struct! { @emit $(#[$meta])* $name { $($fields)* } {} }
    };
    ([payload] $(#[$meta:meta])* $name:ident { $($fields:tt)* }) => {
        $crate::command::command_struct! { @emit $(#[$meta])* $name { $($fields)* } {
            /// The message.
            payload: $crate::payload::ApplicationPayload,
        } }
    };
    ([payload ?] $(#[$meta:meta])* $name:ident { $($fields:tt)* }) => {
        $crate::command::command_struct! { @emit $(#[$meta])* $name { $($fields)* } {
            /// The message, if there is one.
            payload: Option<$crate::payload::ApplicationPayload>,
        } }
    };
    ([metadata payload] $(#[$meta:meta])* $name:ident { $($fields:tt)* }) => {
        $crate::command::command_struct! { @emit $(#[$meta])* $name { $($fields)* } {
            /// The metadata of the message, byte for byte as it came (WR-9).
            metadata: Option<$crate::payload::MetadataFrame>,
            /// The message.
            payload: $crate::payload::ApplicationPayload,
        } }
    };
    (
        @emit $(#[$meta:meta])* $name:ident
        { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* }
        { $($(#[$frame_meta:meta])* $frame:ident: $frame_ty:ty,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "mirrors a closed command of the contract")]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
            $($(#[$frame_meta])* pub $frame: $frame_ty,)*
        }
    };
}

macro_rules! frame_flags {
    ([metadata $($rest:tt)*]) => {
        $crate::command::METADATA
    };
    ([$($rest:tt)*]) => {
        0
    };
}

macro_rules! payload_rule {
    ([]) => {
        $crate::command::PayloadRule::Forbidden
    };
    ([payload ?]) => {
        $crate::command::PayloadRule::Optional
    };
    ([$($frames:tt)*]) => {
        $crate::command::PayloadRule::Required
    };
}

macro_rules! metadata_of {
    ($self:ident, [metadata payload]) => {
        $self.metadata.as_ref()
    };
    ($self:ident, [$($rest:tt)*]) => {
        None
    };
}

macro_rules! payload_of {
    ($self:ident, []) => {
        None
    };
    ($self:ident, [payload ?]) => {
        $self.payload.as_ref()
    };
    ($self:ident, [$($rest:tt)*]) => {
        Some(&$self.payload)
    };
}

macro_rules! command_value {
    ($frames:ident, [], { $($field:ident,)* }) => {{
        let _ = $frames;
        Self { $($field,)* }
    }};
    ($frames:ident, [payload], { $($field:ident,)* }) => {
        Self { $($field,)* payload: $frames.payload()? }
    };
    ($frames:ident, [payload ?], { $($field:ident,)* }) => {
        Self { $($field,)* payload: $frames.optional_payload()? }
    };
    ($frames:ident, [metadata payload], { $($field:ident,)* }) => {
        Self { $($field,)* metadata: $frames.metadata()?, payload: $frames.payload()? }
    };
}

#[cfg(feature = "serde")]
macro_rules! command_from_json {
    ($metadata:ident, $payload:ident, [], { $($field:ident,)* }) => {{
        $crate::json::refuse("metadata", $metadata.is_some())?;
        $crate::json::refuse("payload", $payload.is_some())?;
        Self { $($field,)* }
    }};
    ($metadata:ident, $payload:ident, [payload], { $($field:ident,)* }) => {{
        $crate::json::refuse("metadata", $metadata.is_some())?;
        Self { $($field,)* payload: $crate::json::require("payload", $payload)? }
    }};
    ($metadata:ident, $payload:ident, [payload ?], { $($field:ident,)* }) => {{
        $crate::json::refuse("metadata", $metadata.is_some())?;
        Self { $($field,)* payload: $payload }
    }};
    ($metadata:ident, $payload:ident, [metadata payload], { $($field:ident,)* }) => {
        Self {
            $($field,)*
            metadata: $metadata,
            payload: $crate::json::require("payload", $payload)?,
        }
    };
}

#[cfg(feature = "serde")]
pub(crate) use command_from_json;
pub(crate) use {
    command_read, command_struct, command_value, command_view, frame_flags, metadata_of,
    payload_of, payload_rule, wire_command,
};
