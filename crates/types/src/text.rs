//! Bounded text and byte strings, and the macros that make an id of them.

use core::marker::PhantomData;

use crate::compact::CompactBytes;
use crate::error::{ValueError, ValueFault};

/// Checks for strict UTF-8 without NUL: what the contract calls text.
///
/// One pass over short ASCII, which ids nearly always are; the full check only when it fails.
///
/// # Errors
/// The bytes are not strict UTF-8 or hold a NUL. The error carries `name`.
#[inline]
pub fn check_text(name: &'static str, bytes: &[u8]) -> Result<(), ValueError> {
    if is_plain(bytes) {
        return Ok(());
    }
    check_text_slowly(name, bytes)
}

/// Whether all bytes are ASCII and none is NUL, eight at a time.
///
/// In a word, taking 1 from every byte sets the top bit of one that was 0; a byte from 0x80 on has it
/// set already. A borrow out of a zero byte may blame its neighbor too, which changes nothing.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let blame = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        word | word.wrapping_sub(ONES)
    };
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes
            .iter()
            .fold(true, |ok, b| ok & (b.wrapping_sub(1) < 0x7F));
    };
    let (words, _) = bytes.as_chunks::<8>();
    // The last word overlaps the one before it.
    words
        .iter()
        .fold(blame(last), |all, word| all | blame(word))
        & TOPS
        == 0
}

#[cold]
fn check_text_slowly(name: &'static str, bytes: &[u8]) -> Result<(), ValueError> {
    if let Err(fault) = core::str::from_utf8(bytes) {
        let valid_up_to = fault.valid_up_to();
        return Err(ValueError::new(name, ValueFault::NotUtf8 { valid_up_to }));
    }
    match bytes.iter().position(|b| *b == 0) {
        Some(at) => Err(ValueError::new(name, ValueFault::Nul { at })),
        None => Ok(()),
    }
}

fn check_length(
    name: &'static str,
    bytes: usize,
    min: usize,
    max: usize,
) -> Result<(), ValueError> {
    if bytes < min || bytes > max {
        return Err(ValueError::new(
            name,
            ValueFault::Length { bytes, min, max },
        ));
    }
    Ok(())
}

/// A legal value of `T` that still lies in the input it was found in.
///
/// Made by the `borrow_prefix` of a text or bytes type, which checks it; [`Borrowed::as_bytes`] costs
/// nothing, and `T::from_borrowed` copies it without checking again.
pub struct Borrowed<'a, T> {
    /// The value and whatever follows it: copying it is faster when bytes follow.
    from: &'a [u8],
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Borrowed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Borrowed<'_, T> {}

impl<'a, T> Borrowed<'a, T> {
    #[inline]
    fn new(from: &'a [u8], len: usize) -> Self {
        Self {
            from,
            len,
            of: PhantomData,
        }
    }

    /// The bytes of the value.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.from.get(..self.len).unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) fn to_compact(self) -> CompactBytes {
        CompactBytes::copy_prefix(self.from, self.len)
    }
}

impl<T> PartialEq for Borrowed<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<T> Eq for Borrowed<'_, T> {}

impl<T> core::fmt::Debug for Borrowed<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// Finds a text at the start of `input`, after judging its length.
#[inline]
pub(crate) fn borrow_text<'a, T>(
    name: &'static str,
    input: &'a [u8],
    len: usize,
    min: usize,
    max: usize,
) -> Result<Option<Borrowed<'a, T>>, ValueError> {
    check_length(name, len, min, max)?;
    let Some(bytes) = input.get(..len) else {
        return Ok(None);
    };
    check_text(name, bytes)?;
    Ok(Some(Borrowed::new(input, len)))
}

/// Finds bytes at the start of `input`, after judging their number.
#[inline]
pub(crate) fn borrow_bytes<'a, T>(
    name: &'static str,
    input: &'a [u8],
    len: usize,
    min: usize,
    max: usize,
) -> Result<Option<Borrowed<'a, T>>, ValueError> {
    check_length(name, len, min, max)?;
    Ok(input.get(..len).map(|_| Borrowed::new(input, len)))
}

/// Text storage shared by every text id. Always UTF-8 without NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextCore(pub(crate) CompactBytes);

impl TextCore {
    #[inline]
    pub(crate) fn new(
        name: &'static str,
        bytes: &[u8],
        min: usize,
        max: usize,
    ) -> Result<Self, ValueError> {
        check_length(name, bytes.len(), min, max)?;
        check_text(name, bytes)?;
        Ok(Self(CompactBytes::copy_from(bytes)))
    }

    #[inline]
    pub(crate) fn as_padded(&self) -> Option<(&[u8; crate::compact::INLINE], u8)> {
        self.0.as_padded()
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    pub(crate) fn as_str(&self) -> &str {
        // The constructor checked it; without `unsafe` the check is repeated, over one cache line.
        core::str::from_utf8(self.0.as_slice()).unwrap_or_default()
    }
}

/// Byte string storage shared by every routing id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BytesCore(pub(crate) CompactBytes);

impl BytesCore {
    #[inline]
    pub(crate) fn new(
        name: &'static str,
        bytes: &[u8],
        min: usize,
        max: usize,
    ) -> Result<Self, ValueError> {
        check_length(name, bytes.len(), min, max)?;
        Ok(Self(CompactBytes::copy_from(bytes)))
    }

    #[inline]
    pub(crate) fn as_padded(&self) -> Option<(&[u8; crate::compact::INLINE], u8)> {
        self.0.as_padded()
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// What texts and byte strings have in common: bounds, and the way in without a copy.
macro_rules! string_type {
    ($name:ident $min:literal..=$max:expr, $core:path, $borrow:path) => {
        impl $name {
            /// The least number of bytes.
            pub const BYTES_MIN: usize = $min;
            /// The greatest number of bytes.
            pub const BYTES_MAX: usize = $max;

            /// Finds a value in the first `len` bytes of `input`; `None` when `input` is shorter. The
            /// length is judged first, so that a bad length is told from a short input.
            ///
            /// # Errors
            /// The bytes are no legal value.
            #[inline]
            pub fn borrow_prefix(
                input: &[u8],
                len: usize,
            ) -> Result<Option<$crate::text::Borrowed<'_, Self>>, $crate::ValueError> {
                $borrow(stringify!($name), input, len, $min, $max)
            }

            /// Copies a value that was found by [`Self::borrow_prefix`].
            #[inline(always)]
            pub fn from_borrowed(borrowed: $crate::text::Borrowed<'_, Self>) -> Self {
                Self($core(borrowed.to_compact()))
            }

            /// The bytes.
            #[inline]
            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_bytes()
            }

            /// The bytes inside a longer array and their number, when the string is short enough to be
            /// stored inline: a copy of constant size is faster than one of `len` bytes. What lies
            /// behind `len` means nothing.
            #[doc(hidden)]
            #[inline]
            pub fn as_padded(&self) -> Option<(&[u8; $crate::compact::INLINE], u8)> {
                self.0.as_padded()
            }
        }
    };
}

macro_rules! text_type {
    ($($(#[$meta:meta])* $name:ident $min:literal ..= $max:expr;)+) => {$(
        $(#[$meta])*
        ///
        /// Strict UTF-8 without NUL, compared byte for byte and never normalised.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($crate::text::TextCore);

        $crate::text::string_type!($name $min..=$max, $crate::text::TextCore, $crate::text::borrow_text);

        impl $name {
            /// Takes a text after checking its bounds.
            ///
            /// # Errors
            /// The length is outside [`Self::BYTES_MIN`] to [`Self::BYTES_MAX`], or there is a NUL:
            /// use another text.
            pub fn new(text: &str) -> Result<Self, $crate::ValueError> {
                Self::from_bytes(text.as_bytes())
            }

            /// Takes UTF-8 bytes after checking them.
            ///
            /// # Errors
            /// As [`Self::new`], and when the bytes are not strict UTF-8.
            #[inline]
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, $crate::ValueError> {
                $crate::text::TextCore::new(stringify!($name), bytes, $min, $max).map(Self)
            }

            /// The text. Looks at the bytes once to know that they are UTF-8; use
            /// [`Self::as_bytes`] where bytes will do.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.as_str())
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::ValueError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }
    )+};
}

macro_rules! bytes_type {
    ($($(#[$meta:meta])* $name:ident $min:literal ..= $max:expr;)+) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($crate::text::BytesCore);

        $crate::text::string_type!($name $min..=$max, $crate::text::BytesCore, $crate::text::borrow_bytes);

        impl $name {
            /// Takes bytes after checking their number.
            ///
            /// # Errors
            /// The length is outside [`Self::BYTES_MIN`] to [`Self::BYTES_MAX`]: use other bytes.
            #[inline]
            pub fn new(bytes: &[u8]) -> Result<Self, $crate::ValueError> {
                $crate::text::BytesCore::new(stringify!($name), bytes, $min, $max).map(Self)
            }
        }

        impl core::fmt::Display for $name {
            /// Lower-case hex, as everywhere where a routing id is shown.
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )+};
}

pub(crate) use {bytes_type, string_type, text_type};

text_type! {
    /// A text of at most 255 bytes that has no narrower meaning. Contract: `text8`.
    Text8 1..=crate::bound::SHORT_TEXT_BYTES;
    /// A text of at most 65,535 bytes, which may be empty. Contract: `text16`.
    Text16 0..=crate::bound::BLOB_BYTES;
    /// A text of 1 to 65,535 bytes. Contract: `nonempty-text16`.
    NonEmptyText16 1..=crate::bound::BLOB_BYTES;
    /// The value of one metadata entry, which may be empty. Contract: `metadata-value` (WR-9).
    MetadataValue 0..=crate::bound::METADATA_BYTES;
}
