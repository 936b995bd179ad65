//! The macros that make a type of a number.

/// A number of 64 bits between two bounds, without order or arithmetic.
macro_rules! number_type {
    ($($(#[$meta:meta])* $name:ident: $repr:ty, $min:expr, $max:expr $(, $derive:ident)*;)+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash $(, $derive)*)]
        pub struct $name($repr);

        impl $name {
            /// The least legal number.
            pub const MIN: Self = Self($min);
            /// The greatest legal number.
            pub const MAX: Self = Self($max);

            /// Takes a number after checking its range.
            ///
            /// # Errors
            /// The number is outside [`Self::MIN`] to [`Self::MAX`].
            #[inline]
            pub const fn new(value: $repr) -> Result<Self, $crate::ValueError> {
                #[allow(
                    clippy::allow_attributes,
                    unused_comparisons,
                    clippy::as_conversions,
                    clippy::absurd_extreme_comparisons,
                    clippy::manual_range_contains,
                    clippy::cast_sign_loss,
                    clippy::cast_lossless,
                    clippy::unnecessary_cast,
                    trivial_numeric_casts,
                    reason = "one macro serves u32, u64 and i64 and full ranges"
                )]
                if value < $min || value > $max {
                    return Err($crate::ValueError::new(
                        stringify!($name),
                        $crate::ValueFault::Range {
                            value: value as i128,
                            min: $min as i128,
                            max: $max as i128,
                        },
                    ));
                }
                Ok(Self(value))
            }

            /// The number.
            #[inline]
            pub const fn get(self) -> $repr {
                self.0
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(&self.0, f)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    )+};
}

pub(crate) use number_type;
