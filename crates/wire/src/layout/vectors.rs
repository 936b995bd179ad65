//! The macro that declares vectors of the contract.

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
        #[cfg(feature = "serde")]
        $crate::json::serde_form!($name);
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

pub(crate) use {count_bytes, wire_vector, write_count};
