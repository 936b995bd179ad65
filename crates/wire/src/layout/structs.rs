//! The macros that declare structs and envelopes of the contract.

/// Declares structs of the contract: fields in wire order, each with its contract name.
///
/// `= "name"` is a plain field, `= (flag "hasX" "x")` an optional one behind a `bool8`, `= (flat)` a
/// group of fields. `rule f` names a rule over several fields.
macro_rules! wire_struct {
    ($(
        $(#[$meta:meta])*
        $contract:literal struct $name:ident $(view $view:ident)? $(rule $rule:path)? {
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

        $crate::layout::struct_view! {
            [$($view)?] $contract $name {
                $($(#[$field_meta])* $field: $ty = $wire,)*
            }
        }
        $crate::layout::flat_layout!(
            $name,
            $crate::layout::rule_or_none!($($rule)?),
            { $($field: $ty = $wire,)* }
        );
        $crate::layout::struct_layout!($name);
        $crate::layout::standalone!($contract, $name);
        #[cfg(feature = "serde")]
        $crate::json::serde_form!($name);
    )+};
}

/// The view of a struct, for those that have one.
macro_rules! struct_view {
    ([] $($rest:tt)*) => {};
    ([$view:ident] $contract:literal $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $ty:ty = $wire:tt,)*
    }) => {
        #[doc = concat!("A checked `", $contract, "`, where it lies in the input.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "mirrors a closed struct of the contract")]
        pub struct $view<'a> {
            $($(#[$field_meta])* pub $field: <$ty as $crate::view::Viewed>::View<'a>,)*
        }

        impl $crate::view::Viewed for $name {
            type View<'a> = $view<'a>;

            #[inline]
            fn view<'a>(
                r: &mut $crate::reader::Reader<'a>,
            ) -> $crate::reader::Read<$view<'a>> {
                Ok($view { $($field: $crate::layout::field_view!(r, $ty, $wire),)* })
            }

            #[inline(always)]
            fn from_view(view: &$view<'_>) -> Self {
                Self { $($field: <$ty as $crate::view::Viewed>::from_view(&view.$field),)* }
            }
        }
    };
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
        #[cfg(feature = "serde")]
        $crate::json::serde_form!($name);
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

pub(crate) use {
    close_envelope, flat_layout, open_envelope, rule_or_none, standalone, struct_layout,
    struct_view, wire_envelope, wire_struct,
};
