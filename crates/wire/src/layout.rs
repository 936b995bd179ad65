//! The trait that every wire type has, and the macros that write a layout down once.
//!
//! A declaration in this crate reads like its line in the contract: the fields in wire order, each
//! with its contract name. Reader, writer, length check and JSON form all come from that one place,
//! so they cannot disagree.

use crate::error::{Breach, Reason};
#[cfg(feature = "serde")]
use crate::json::{JsonError, Members, Node, ObjectReader};
use crate::reader::{Read, Reader};
use crate::writer::{Writer, Written};

/// How a value stands on the wire.
pub trait Layout: Sized {
    /// The least number of bytes that any value takes; counts are checked with it (WR-4).
    const MIN: usize;

    /// Reads one value at the cursor.
    fn read(r: &mut Reader<'_>) -> Read<Self>;
    /// Writes the value in its only form (WR-6).
    fn write(&self, w: &mut Writer<'_>) -> Written;
    /// The JSON form.
    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node;
    /// Takes the JSON form back.
    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError>;
}

/// A box keeps rare and large cases from making the common ones large.
impl<T: Layout> Layout for Box<T> {
    const MIN: usize = T::MIN;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        T::read(r).map(Self::new)
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        T::write(self, w)
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        T::to_json(self)
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        T::from_json(node).map(Self::new)
    }
}

/// A group of fields that stands inside its parent without being a struct of its own in the contract.
pub trait FlatLayout: Sized {
    /// The least number of bytes that any value takes.
    const MIN: usize;

    /// Reads the fields.
    fn read_flat(r: &mut Reader<'_>) -> Read<Self>;
    /// Writes the fields.
    fn write_flat(&self, w: &mut Writer<'_>) -> Written;
    /// Adds the fields to the JSON members of the parent.
    #[cfg(feature = "serde")]
    fn to_members(&self, members: &mut Members);
    /// Takes the fields from the JSON members of the parent.
    #[cfg(feature = "serde")]
    fn from_members(object: &mut ObjectReader) -> Result<Self, JsonError>;
}

/// A rule over several fields of one struct. Most structs have none.
#[expect(clippy::unnecessary_wraps, reason = "has the form of every other rule")]
pub(crate) fn no_rule<T>(_: &T) -> Result<(), Breach> {
    Ok(())
}

/// The least of several sizes.
pub(crate) const fn least(sizes: &[usize]) -> usize {
    match sizes {
        [] => 0,
        [only] => *only,
        [first, rest @ ..] => {
            let other = least(rest);
            if *first < other { *first } else { other }
        }
    }
}

/// The version byte of an envelope, which is always 1.
#[inline]
pub(crate) fn read_version(r: &mut Reader<'_>) -> Read<()> {
    let at = r.offset();
    match r.u8()? {
        1 => Ok(()),
        version => {
            let reason = Reason::Expected {
                expected: 1,
                actual: u64::from(version),
            };
            Err(Reader::invalid(at, reason))
        }
    }
}

/// `hasX: bool8 ; x: … if hasX==true`
#[inline]
pub(crate) fn read_flagged<T: Layout>(
    r: &mut Reader<'_>,
    flag: &'static str,
    name: &'static str,
) -> Read<Option<T>> {
    if bool::read(r).map_err(|e| e.within(flag))? {
        return T::read(r).map(Some).map_err(|e| e.within(name));
    }
    Ok(None)
}

#[inline]
pub(crate) fn write_flagged<T: Layout>(
    w: &mut Writer<'_>,
    value: Option<&T>,
    name: &'static str,
) -> Written {
    value.is_some().write(w)?;
    match value {
        Some(value) => value.write(w).map_err(|e| e.within(name)),
        None => Ok(()),
    }
}

macro_rules! field_min {
    ($ty:ty, (flag $flag:literal $name:literal)) => {
        1
    };
    ($ty:ty, (flat)) => {
        <$ty as $crate::layout::FlatLayout>::MIN
    };
    ($ty:ty, (by_flags $name:literal)) => {
        0
    };
    ($ty:ty, $name:literal) => {
        <$ty as $crate::layout::Layout>::MIN
    };
}

macro_rules! field_read {
    ($r:ident, $ty:ty, (flag $flag:literal $name:literal)) => {
        $crate::layout::read_flagged($r, $flag, $name)?
    };
    ($r:ident, $ty:ty, (flat)) => {
        <$ty as $crate::layout::FlatLayout>::read_flat($r)?
    };
    ($r:ident, $ty:ty, (by_flags $name:literal)) => {
        $crate::layout::field_read!($r, $ty, $name)
    };
    ($r:ident, $ty:ty, $name:literal) => {
        <$ty as $crate::layout::Layout>::read($r).map_err(|e| e.within($name))?
    };
}

macro_rules! field_write {
    ($w:ident, $value:expr, (flag $flag:literal $name:literal)) => {
        $crate::layout::write_flagged($w, $value.as_ref(), $name)?
    };
    ($w:ident, $value:expr, (flat)) => {
        $crate::layout::FlatLayout::write_flat($value, $w)?
    };
    ($w:ident, $value:expr, (by_flags $name:literal)) => {
        $crate::layout::field_write!($w, $value, $name)
    };
    ($w:ident, $value:expr, $name:literal) => {
        $crate::layout::Layout::write($value, $w).map_err(|e| e.within($name))?
    };
}

#[cfg(feature = "serde")]
macro_rules! field_to_json {
    ($members:ident, $value:expr, (flag $flag:literal $name:literal)) => {
        $members.flagged($flag, $name, $value.as_ref())
    };
    ($members:ident, $value:expr, (flat)) => {
        $crate::layout::FlatLayout::to_members($value, $members)
    };
    ($members:ident, $value:expr, (by_flags $name:literal)) => {
        if let Some(value) = $value {
            $members.push($name, $crate::layout::Layout::to_json(value));
        }
    };
    ($members:ident, $value:expr, $name:literal) => {
        $members.push($name, $crate::layout::Layout::to_json($value))
    };
}

#[cfg(feature = "serde")]
macro_rules! field_from_json {
    ($object:ident, $ty:ty, (flag $flag:literal $name:literal)) => {
        $object.flagged($flag, $name)?
    };
    ($object:ident, $ty:ty, (flat)) => {
        <$ty as $crate::layout::FlatLayout>::from_members($object)?
    };
    ($object:ident, $ty:ty, (by_flags $name:literal)) => {
        $object.optional($name)?
    };
    ($object:ident, $ty:ty, $name:literal) => {
        $object.take::<$ty>($name)?
    };
}

/// The fields of a struct as a [`FlatLayout`], from which struct and command layouts are made.
macro_rules! flat_layout {
    ($name:ident, $rule:expr, { $($field:ident: $ty:ty = $wire:tt,)* }) => {
        impl $crate::layout::FlatLayout for $name {
            const MIN: usize = 0 $(+ $crate::layout::field_min!($ty, $wire))*;

            #[inline]
            fn read_flat(
                r: &mut $crate::reader::Reader<'_>,
            ) -> $crate::reader::Read<Self> {
                let at = r.offset();
                let value = Self { $($field: $crate::layout::field_read!(r, $ty, $wire),)* };
                $rule(&value).map_err(|breach: $crate::error::Breach| breach.into_decode(at))?;
                Ok(value)
            }

            #[inline]
            fn write_flat(
                &self,
                w: &mut $crate::writer::Writer<'_>,
            ) -> $crate::writer::Written {
                $rule(self).map_err($crate::error::Breach::into_encode)?;
                $($crate::layout::field_write!(w, &self.$field, $wire);)*
                let _ = w;
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_members(&self, members: &mut $crate::json::Members) {
                $($crate::layout::field_to_json!(members, &self.$field, $wire);)*
                let _ = members;
            }

            #[cfg(feature = "serde")]
            fn from_members(
                object: &mut $crate::json::ObjectReader,
            ) -> Result<Self, $crate::json::JsonError> {
                let value = Self { $($field: $crate::layout::field_from_json!(object, $ty, $wire),)* };
                $rule(&value).map_err($crate::json::JsonError::from)?;
                let _ = object;
                Ok(value)
            }
        }
    };
}

/// A [`Layout`] that is its own [`FlatLayout`] and nothing more.
macro_rules! struct_layout {
    ($name:ident) => {
        impl $crate::layout::Layout for $name {
            const MIN: usize = <Self as $crate::layout::FlatLayout>::MIN;

            #[inline]
            fn read(r: &mut $crate::reader::Reader<'_>) -> $crate::reader::Read<Self> {
                <Self as $crate::layout::FlatLayout>::read_flat(r)
            }

            #[inline]
            fn write(&self, w: &mut $crate::writer::Writer<'_>) -> $crate::writer::Written {
                <Self as $crate::layout::FlatLayout>::write_flat(self, w)
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> $crate::json::Node {
                $crate::json::object(|m| <Self as $crate::layout::FlatLayout>::to_members(self, m))
            }

            #[cfg(feature = "serde")]
            fn from_json(node: $crate::json::Node) -> Result<Self, $crate::json::JsonError> {
                $crate::json::read_object(node, <Self as $crate::layout::FlatLayout>::from_members)
            }
        }
    };
}

/// Declares structs of the contract: fields in wire order, each with its contract name.
///
/// `= "name"` is a plain field, `= (flag "hasX" "x")` an optional one behind a `bool8`, `= (flat)` a
/// group of fields. `rule f` names a rule over several fields.
macro_rules! wire_struct {
    ($(
        $(#[$meta:meta])*
        $contract:literal struct $name:ident $(rule $rule:path)? {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty = $wire:tt,)*
        }
    )+) => {$(
        $(#[$meta])*
        #[doc = concat!("\n\nContract: `", $contract, "`.")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "mirrors a closed struct of the contract")]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        $crate::layout::flat_layout!(
            $name,
            $crate::layout::rule_or_none!($($rule)?),
            { $($field: $ty = $wire,)* }
        );
        $crate::layout::struct_layout!($name);
        $crate::layout::standalone!($contract, $name);
    )+};
}

macro_rules! rule_or_none {
    () => {
        $crate::layout::no_rule
    };
    ($rule:path) => {
        $rule
    };
}

/// Marks a type as one that can stand alone under its contract name.
macro_rules! standalone {
    ($contract:literal, $ty:ty) => {
        impl $crate::standalone::Standalone for $ty {
            const CONTRACT_NAME: &'static str = $contract;
        }
    };
}

/// Declares the cases of a union: the enum, and how each case is read, written and shown.
///
/// The variants have the names of the discriminator's members.
macro_rules! wire_cases {
    (
        $(#[$meta:meta])*
        $contract:literal enum $name:ident of $kind:ident {
            $($(#[$variant_meta:meta])* $variant:ident {
                $($(#[$field_meta:meta])* $field:ident: $ty:ty = $wire:tt,)*
            })+
        }
    ) => {
        $(#[$meta])*
        #[doc = concat!("\n\nContract: `", $contract, "`.")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_enums, reason = "mirrors a closed union of the contract")]
        pub enum $name {
            $($(#[$variant_meta])* $variant {
                $($(#[$field_meta])* $field: $ty,)*
            },)+
        }

        impl $name {
            /// The least number of bytes of any case.
            pub(crate) const CASE_MIN: usize = $crate::layout::least(&[
                $(0 $(+ $crate::layout::field_min!($ty, $wire))*,)+
            ]);

            /// The discriminator of this case.
            #[inline]
            pub const fn kind(&self) -> $kind {
                match self {
                    $(Self::$variant { .. } => $kind::$variant,)+
                }
            }

            #[inline]
            pub(crate) fn read_case(
                kind: $kind,
                r: &mut $crate::reader::Reader<'_>,
            ) -> $crate::reader::Read<Self> {
                let _ = &r;
                Ok(match kind {
                    $($kind::$variant => Self::$variant {
                        $($field: $crate::layout::field_read!(r, $ty, $wire),)*
                    },)+
                })
            }

            #[inline]
            pub(crate) fn write_case(
                &self,
                w: &mut $crate::writer::Writer<'_>,
            ) -> $crate::writer::Written {
                let _ = &w;
                match self {
                    $(Self::$variant { $($field,)* } => {
                        $($crate::layout::field_write!(w, $field, $wire);)*
                    })+
                }
                Ok(())
            }

            #[cfg(feature = "serde")]
            pub(crate) fn case_to_members(&self, members: &mut $crate::json::Members) {
                let _ = &members;
                match self {
                    $(Self::$variant { $($field,)* } => {
                        $($crate::layout::field_to_json!(members, $field, $wire);)*
                    })+
                }
            }

            #[cfg(feature = "serde")]
            pub(crate) fn case_from_members(
                kind: $kind,
                object: &mut $crate::json::ObjectReader,
            ) -> Result<Self, $crate::json::JsonError> {
                let _ = &object;
                Ok(match kind {
                    $($kind::$variant => Self::$variant {
                        $($field: $crate::layout::field_from_json!(object, $ty, $wire),)*
                    },)+
                })
            }
        }
    };
}

/// Declares envelopes: a version byte of 1, the length of the body, the fields.
macro_rules! wire_envelope {
    ($(
        $(#[$meta:meta])*
        $contract:literal envelope $name:ident len $len:ident max $max:expr, $(rule $rule:path)? {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty = $wire:tt,)*
        }
    )+) => {$(
        $(#[$meta])*
        #[doc = concat!("\n\nContract: `", $contract, "`.")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "mirrors a closed envelope of the contract")]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        $crate::layout::flat_layout!(
            $name,
            $crate::layout::rule_or_none!($($rule)?),
            { $($field: $ty = $wire,)* }
        );

        impl $crate::layout::Layout for $name {
            const MIN: usize = 1
                + $crate::layout::len_bytes!($len)
                + <Self as $crate::layout::FlatLayout>::MIN;

            #[inline]
            fn read(r: &mut $crate::reader::Reader<'_>) -> $crate::reader::Read<Self> {
                $crate::layout::read_version(r)?;
                let part = $crate::layout::open_envelope!(r, $len, $max)?;
                let value = <Self as $crate::layout::FlatLayout>::read_flat(r)?;
                r.end_part(&part)?;
                Ok(value)
            }

            #[inline]
            fn write(&self, w: &mut $crate::writer::Writer<'_>) -> $crate::writer::Written {
                w.u8(1);
                let part = $crate::layout::open_write!(w, $len);
                <Self as $crate::layout::FlatLayout>::write_flat(self, w)?;
                $crate::layout::close_envelope!(w, part, $len, $max)
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> $crate::json::Node {
                $crate::json::object(|m| <Self as $crate::layout::FlatLayout>::to_members(self, m))
            }

            #[cfg(feature = "serde")]
            fn from_json(
                node: $crate::json::Node,
            ) -> Result<Self, $crate::json::JsonError> {
                $crate::json::read_object(
                    node,
                    <Self as $crate::layout::FlatLayout>::from_members,
                )
            }
        }

        $crate::layout::standalone!($contract, $name);
    )+};
}

macro_rules! open_envelope {
    ($r:ident, u16, $max:expr) => {
        $r.part_u16()
    };
    ($r:ident, u32, $max:expr) => {
        $r.part_u32($max)
    };
}

macro_rules! close_envelope {
    ($w:ident, $part:ident, u16, $max:expr) => {
        $w.close_u16($part)
    };
    ($w:ident, $part:ident, u32, $max:expr) => {
        $w.close_u32($part, $max)
    };
}

/// Declares unions with their discriminator and the length of the case on the wire.
macro_rules! wire_union {
    ($(
        $(#[$meta:meta])*
        $contract:literal enum $name:ident on $discriminator:literal $kind:ident len $len:ident {
            $($cases:tt)+
        }
    )+) => {$(
        $crate::layout::wire_cases! {
            $(#[$meta])*
            $contract enum $name of $kind { $($cases)+ }
        }

        impl $crate::layout::Layout for $name {
            const MIN: usize = $crate::layout::len_bytes!($len)
                + <$kind as $crate::layout::Layout>::MIN
                + Self::CASE_MIN;

            #[inline]
            fn read(r: &mut $crate::reader::Reader<'_>) -> $crate::reader::Read<Self> {
                let kind = <$kind as $crate::layout::Layout>::read(r)
                    .map_err(|e| e.within($discriminator))?;
                let part = $crate::layout::open_read!(r, $len)?;
                let value = Self::read_case(kind, r)?;
                r.end_part(&part)?;
                Ok(value)
            }

            #[inline]
            fn write(&self, w: &mut $crate::writer::Writer<'_>) -> $crate::writer::Written {
                $crate::layout::Layout::write(&self.kind(), w)?;
                let part = $crate::layout::open_write!(w, $len);
                self.write_case(w)?;
                $crate::layout::close_write!(w, part, $len)
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> $crate::json::Node {
                $crate::json::object(|m| {
                    m.push($discriminator, $crate::layout::Layout::to_json(&self.kind()));
                    self.case_to_members(m);
                })
            }

            #[cfg(feature = "serde")]
            fn from_json(
                node: $crate::json::Node,
            ) -> Result<Self, $crate::json::JsonError> {
                $crate::json::read_object(node, |object| {
                    let kind = object.take::<$kind>($discriminator)?;
                    Self::case_from_members(kind, object)
                })
            }
        }

        $crate::layout::standalone!($contract, $name);
    )+};
}

/// `Option<T>` as a union of `false { }` and `true { … }` with a length.
macro_rules! wire_option {
    ($($contract:literal Option<$ty:ty> on $flag:literal len $len:ident, $field:tt;)+) => {$(
        impl $crate::layout::Layout for Option<$ty> {
            const MIN: usize = 1 + $crate::layout::len_bytes!($len);

            #[inline]
            fn read(r: &mut $crate::reader::Reader<'_>) -> $crate::reader::Read<Self> {
                let present = <bool as $crate::layout::Layout>::read(r)
                    .map_err(|e| e.within($flag))?;
                let part = $crate::layout::open_read!(r, $len)?;
                let value = if present {
                    Some($crate::layout::field_read!(r, $ty, $field))
                } else {
                    None
                };
                r.end_part(&part)?;
                Ok(value)
            }

            #[inline]
            fn write(&self, w: &mut $crate::writer::Writer<'_>) -> $crate::writer::Written {
                $crate::layout::Layout::write(&self.is_some(), w)?;
                let part = $crate::layout::open_write!(w, $len);
                if let Some(value) = self {
                    $crate::layout::field_write!(w, value, $field);
                }
                $crate::layout::close_write!(w, part, $len)
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> $crate::json::Node {
                $crate::json::object(|m| {
                    m.push($flag, $crate::layout::Layout::to_json(&self.is_some()));
                    if let Some(value) = self {
                        $crate::layout::field_to_json!(m, value, $field);
                    }
                })
            }

            #[cfg(feature = "serde")]
            fn from_json(
                node: $crate::json::Node,
            ) -> Result<Self, $crate::json::JsonError> {
                $crate::json::read_object(node, |object| {
                    if object.take::<bool>($flag)? {
                        return Ok(Some($crate::layout::field_from_json!(object, $ty, $field)));
                    }
                    Ok(None)
                })
            }
        }

        $crate::layout::standalone!($contract, Option<$ty>);
    )+};
}

macro_rules! len_bytes {
    (u16) => {
        2
    };
    (u32) => {
        4
    };
}

macro_rules! open_read {
    ($r:ident, u16) => {
        $r.part_u16()
    };
    ($r:ident, u32) => {
        $r.part_u32(u32::MAX)
    };
}

macro_rules! open_write {
    ($w:ident, u16) => {
        $w.open_u16()
    };
    ($w:ident, u32) => {
        $w.open_u32()
    };
}

macro_rules! close_write {
    ($w:ident, $part:ident, u16) => {
        $w.close_u16($part)
    };
    ($w:ident, $part:ident, u32) => {
        $w.close_u32($part, u32::MAX)
    };
}

/// Declares vectors: a count, and elements that are sorted and unique by a key.
macro_rules! wire_vector {
    ($(
        $(#[$meta:meta])*
        $contract:literal vector $name:ident of $ty:ty, $count:ident max $max:expr, by $order:expr;
    )+) => {$(
        $(#[$meta])*
        #[doc = concat!("\n\nContract: `", $contract, "`. Sorted and unique by construction.")]
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name(Vec<$ty>);

        impl $name {
            /// The greatest number of elements.
            pub const COUNT_MAX: usize = $max;

            /// Takes elements that are in order.
            ///
            /// # Errors
            /// There are more than [`Self::COUNT_MAX`], or one of them is not above the one before it
            /// by the key of the contract: sort them, or use [`Self::from_unsorted`].
            pub fn new(elements: Vec<$ty>) -> Result<Self, $crate::error::EncodeError> {
                $crate::vector::check(&elements, Self::COUNT_MAX, $order)
                    .map_err(|e| e.of_record($contract))?;
                Ok(Self(elements))
            }

            /// Takes elements in any order.
            ///
            /// # Errors
            /// There are more than [`Self::COUNT_MAX`], or two of them have the same key.
            pub fn from_unsorted(mut elements: Vec<$ty>) -> Result<Self, $crate::error::EncodeError> {
                elements.sort_by($order);
                Self::new(elements)
            }

            /// The elements in order.
            pub fn as_slice(&self) -> &[$ty] {
                &self.0
            }

            /// Gives the elements back.
            pub fn into_vec(self) -> Vec<$ty> {
                self.0
            }
        }

        impl $crate::layout::Layout for $name {
            const MIN: usize = $crate::layout::count_bytes!($count);

            fn read(r: &mut $crate::reader::Reader<'_>) -> $crate::reader::Read<Self> {
                let at = r.offset();
                let count = $crate::width::narrow(u64::from(r.$count()?));
                $crate::vector::read(r, at, count, Self::COUNT_MAX, $order).map(Self)
            }

            fn write(&self, w: &mut $crate::writer::Writer<'_>) -> $crate::writer::Written {
                $crate::layout::write_count!(w, self.0.len(), $count)?;
                $crate::vector::write(w, &self.0)
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> $crate::json::Node {
                $crate::json::list(&self.0)
            }

            #[cfg(feature = "serde")]
            fn from_json(
                node: $crate::json::Node,
            ) -> Result<Self, $crate::json::JsonError> {
                Self::new($crate::json::read_list(node)?)
                    .map_err(|e| $crate::json::JsonError::new(e.to_string()))
            }
        }

        $crate::layout::standalone!($contract, $name);
    )+};
}

macro_rules! count_bytes {
    (u16) => {
        2
    };
    (u32) => {
        4
    };
}

macro_rules! write_count {
    ($w:ident, $len:expr, $count:ident) => {{
        let len = $len;
        match $count::try_from(len) {
            Ok(count) => {
                $w.$count(count);
                Ok(())
            }
            Err(_) => Err($crate::writer::too_long(len, u64::from($count::MAX))),
        }
    }};
}

pub(crate) use {
    close_envelope, close_write, count_bytes, field_min, field_read, field_write, flat_layout,
    len_bytes, open_envelope, open_read, open_write, rule_or_none, standalone, struct_layout,
    wire_cases, wire_envelope, wire_option, wire_struct, wire_union, wire_vector, write_count,
};
#[cfg(feature = "serde")]
pub(crate) use {field_from_json, field_to_json};
