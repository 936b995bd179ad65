//! The macros that declare unions of the contract.

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
        #[cfg(feature = "serde")]
        $crate::json::serde_form!($name);
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

pub(crate) use {
    close_write, len_bytes, open_read, open_write, wire_cases, wire_option, wire_union,
};
